/*
 * frames.h - what the processes of a parameter-server job say to each other
 */
#ifndef TFD_TESTS_FUZZ_FRAMES_H
#define TFD_TESTS_FUZZ_FRAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Whether it is a whole message, which then reads back from what is written of
 * it. */
bool frame_try(const char *bytes, size_t len);

#endif
