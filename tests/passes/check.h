/*
 * check.h - a pass is correct when the program computes the same after it (D17)
 */
#ifndef TFD_TESTS_PASSES_CHECK_H
#define TFD_TESTS_PASSES_CHECK_H

#include "ir/ir.h"
#include "passes/passes.h"

typedef struct CheckOptions {
    int level;              /* -O of the passes */
    bool packs_by_bytes;    /* and not by cost */
    int64_t bytes_per_pack; /* of collectives; 0: no limit */
    const char *data_dir;   /* of datasets */
    int64_t max_steps;      /* of an iterator; 0: no limit */
    bool may_fail; /* a program that fails is right if it goes on failing */
} CheckOptions;

/* Runs the pipeline on a copy of m, pass by pass.  After each the verifier
 * finds no error, every operation that the pass inserted has a reason, and the
 * interpreter prints the same and leaves the same bits in all variables as
 * before it.  (A program with gradients cannot be executed before
 * differentiate.) Returns NULL, or the fault, in a. */
const char *check_pipeline(Arena *a, IrModule *m, const CheckOptions *options);

/* The same of one pass on m itself, whether or not it changes what m does:
 * verifier and reasons alone. */
const char *check_pass(Arena *a, IrModule *m, const char *pass,
                       const CheckOptions *options);

#endif
