/*
 * checkpoints.h - states of a pipeline of every stage, as checkpoints
 */
#ifndef TFD_TESTS_FUZZ_CHECKPOINTS_H
#define TFD_TESTS_FUZZ_CHECKPOINTS_H

#include "ir/base/arena.h"
#include "ir/base/status.h"

/* Reads a checkpoint, and runs the pipeline from it to its end. */
Status checkpoint_try(const char *path, const char *bytes, size_t len) MUST_USE;

/* Writes a checkpoint, after n steps, to a folder. */
Status checkpoint_make(const char *folder, int steps) MUST_USE;

#endif
