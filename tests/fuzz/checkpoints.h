/*
 * checkpoints.h - states of a pipeline of every stage, as checkpoints
 */
#ifndef TFD_TESTS_FUZZ_CHECKPOINTS_H
#define TFD_TESTS_FUZZ_CHECKPOINTS_H

#include "ir/base/arena.h"
#include "ir/base/status.h"

/* Reads one, and goes on with the pipeline to its end. */
Status checkpoint_try(const char *path, const char *bytes, size_t len) MUST_USE;

/* Writes one, after so many steps, to a folder. */
Status checkpoint_make(const char *folder, int steps) MUST_USE;

#endif
