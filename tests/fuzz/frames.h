/*
 * frames.h - what the processes of a parameter-server job say to each other
 */
#ifndef TFD_TESTS_FUZZ_FRAMES_H
#define TFD_TESTS_FUZZ_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include "runtime/checkpoint/archive.h"

/* Whether it is a whole message, which then reads back from what is written of
 * it. */
bool frame_try(const char *bytes, size_t len);

/* Writes a whole one of each kind, the first being number 0; its kind, NULL
 * after the last one. */
const char *frame_make(Arena *a, int i, RtArchive *out);

#endif
