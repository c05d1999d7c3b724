/*
 * sanitized.h - whether this build has a sanitizer
 *
 * A sanitizer takes memory of its own and watches each access and each lock:
 * what a test measures of time and memory says nothing of tfd there, and no
 * bound is asserted.
 */
#ifndef TFD_TESTS_UNIT_SANITIZED_H
#define TFD_TESTS_UNIT_SANITIZED_H

#include <stdbool.h>

static inline bool
is_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
    return __has_feature(address_sanitizer) ||
           __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer);
#else
    return false;
#endif
}

#endif
