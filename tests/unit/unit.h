/*
 * unit.h - the headers of every cmocka test, in the order that cmocka needs,
 * and what tests ask of their process
 */
#ifndef TFD_TESTS_UNIT_H
#define TFD_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
#include <cmocka.h>

/* The exit status of body in a process of its own; its standard error is
 * discarded. */
static inline int
exit_status_of(void (*body)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(99);
        body();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Whether this build has a sanitizer: it takes memory of its own and watches
 * each access and each lock, so that what a test measures of time and memory
 * says nothing of tfd. */
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
