/*
 * splice.h - new texts, from pieces of valid ones
 *
 * Random bytes make a program that the parser refuses.  To reach the code after
 * the parser, programs are combined from statements, groups in brackets and
 * words of other programs, each in the place of one of its kind.
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
