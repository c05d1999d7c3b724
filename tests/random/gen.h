/*
 * gen.h - random programs
 */
#ifndef TFD_TESTS_RANDOM_GEN_H
#define TFD_TESTS_RANDOM_GEN_H

#include <stdint.h>
#include "ir/base/arena.h"

/* The text of a program, the same for the same seed, with the comments that
 * check.h knows.  Compilers accept it. */
const char *gen_program(Arena *a, uint64_t seed);

#endif
