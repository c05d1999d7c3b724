/*
 * mutator.h - slightly wrong inputs, by number
 */
#ifndef TFD_TESTS_FUZZ_MUTATOR_H
#define TFD_TESTS_FUZZ_MUTATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/base/arena.h"

typedef struct Bytes {
    char *data;
    size_t len;
} Bytes;

/* Mutation `number` of the input from: a function of the arguments alone.
 * Texts are also changed by lines, words and numbers.  In a. */
Bytes mutate(Arena *a, Bytes from, bool is_text, uint64_t seed,
             uint64_t number);

#endif
