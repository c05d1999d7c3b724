/*
 * mutate.h - small mistakes in a PTX text
 */
#ifndef TFD_TESTS_CUDA_MUTATE_H
#define TFD_TESTS_CUDA_MUTATE_H

#include "ir/base/arena.h"

typedef enum MutationKind {
    MUTATE_BARRIER, /* a barrier is gone */
    MUTATE_STORE,   /* a store is off by an element */
    MUTATE_VECTOR,  /* so is an access of several elements: misaligned */
    MUTATE_NUMBER,  /* the first source instead of the second, of floats */
    MUTATE_INDEX,   /* likewise of integers, bits and predicates */
    MUTATE_GUARD,   /* a conditional branch is taken always */
    NUM_MUTATIONS
} MutationKind;

extern const char *const mutation_names[NUM_MUTATIONS];

/* The text with a mistake of a kind in the line that begins at `line`, in a;
 * NULL if that line has no place for one. */
const char *mutate(Arena *a, const char *text, const char *line,
                   MutationKind kind);

/* A text that shows, if a launch of it is right, that the launch does not need
 * what the mistake changes; the n-th of several, NULL after the last one:
 *   the instruction is not executed, or has the same result, or the branch is
 *   always taken (a violation stands where it would not be so);
 *   what is stored does not depend on its result (which is another one);
 *   a barrier has another one beside it, and no access to memory between (it
 *   is the text itself). */
const char *mutate_probe(Arena *a, const char *text, const char *line,
                         MutationKind kind, int n);

#endif
