/*
 * random.h - random programs
 */
#ifndef TFD_TESTS_PASSES_RANDOM_H
#define TFD_TESTS_PASSES_RANDOM_H

#include "ir/ir.h"

/* A program of one to three replicas in a, the same for the same
 * seed: variables of all kinds, loops and branches of main and of steps, what
 * replicas do together, values that go round and change places. */
IrModule *random_program(Arena *a, uint64_t seed);

#endif
