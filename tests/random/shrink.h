/*
 * shrink.h - reduces a failing program to a few lines
 */
#ifndef TFD_TESTS_RANDOM_SHRINK_H
#define TFD_TESTS_RANDOM_SHRINK_H

#include "ir/base/arena.h"

/* A program, short, for which check_apart finds the same kind of thing wrong as
 * it did for text; *wrong is what it says of it.  Lines are left out, blocks
 * replaced by what is in them, values by their operands. */
const char *shrink(Arena *a, const char *text, const char **wrong);

#endif
