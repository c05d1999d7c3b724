/*
 * splice.h - new texts, from pieces of valid ones
 *
 * Random bytes make a program that the parser refuses; what lies behind it is
 * reached by programs that are put together of statements, groups in brackets
 * and words of others, each in the place of its like.
 */
#ifndef TFD_TESTS_FUZZ_SPLICE_H
#define TFD_TESTS_FUZZ_SPLICE_H

#include <stdint.h>
#include "tests/fuzz/mutator.h"

/* into with one to four pieces replaced by pieces of from, or of itself, or
 * left out, or doubled; at most max bytes.  A function of the arguments alone.
 * In a. */
Bytes splice(Arena *a, Bytes into, Bytes from, uint64_t seed, size_t max);

#endif
