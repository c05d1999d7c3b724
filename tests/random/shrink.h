/*
 * shrink.h - reduces a failing program to a few lines
 */
#ifndef TFD_TESTS_RANDOM_SHRINK_H
#define TFD_TESTS_RANDOM_SHRINK_H

#include "ir/base/arena.h"

/* A short program for which check_apart finds the same kind of fault as for
 * text; *wrong is its report.  Lines are removed, blocks replaced by their
 * contents, values by their operands. */
const char *shrink(Arena *a, const char *text, const char **wrong);

#endif
