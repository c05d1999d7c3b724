/*
 * run.h - compiles and executes kernels, and compares them with
 * tests/ref/kernel_eval
 */
#ifndef TFD_TESTS_CODEGEN_RUN_H
#define TFD_TESTS_CODEGEN_RUN_H

#include "backend/backend.h"
#include "runtime/load/loader.h"

enum { RUN_MAX_DIMS = 32 };

/* Leaves those of the kernels that this run's sweeps take (tests/unit/sweep.h).
 */
void run_sample(BeKernels *kernels);

/* Compiles kernels for a target at a level of -O and loads them; a failure
 * ends the test program. */
RtCode *run_compile(const BeKernels *kernels, const char *target, int level);

/* A function of compiled kernels, or NULL. */
TfdKernel *run_find_kernel(const RtCode *code, const char *name);

/* The inputs: numbers around 0; infinities, NaNs, extremes and exact halves
 * among them; -0 and numbers that underflow when multiplied (of
 * bf16, or almost).  For products,
 * every second array is zero but for few numbers, and the others are negative
 * but for few positive ones and infinities, or without these. */
typedef enum RunValues {
    RUN_TAME,
    RUN_WILD,
    RUN_TINY,
    RUN_NUM_VALUES,
    RUN_SPARSE = RUN_NUM_VALUES,
    RUN_SPARSE_FINITE,
    RUN_NUM_FOR_PRODUCTS
} RunValues;

typedef struct RunCase {
    const BeKernel *kernel;
    const int64_t *dims; /* as calls hand them over */
    int seed;
    RunValues values;
} RunCase;

/* Executes the kernel's function in each compiled code on generated inputs, in
 * three ranges of items (a long reduction in chunks, too), and compares all
 * bits of all outputs with those of kernel_eval; all NaNs are equal.  Arrays
 * end (seed odd) or begin (even) beside inaccessible pages.  Returns NULL, or
 * the first difference, in a. */
const char *run_compare(Arena *a, RtCode *const *codes, int num_codes,
                        const RunCase *c);

/* The words for pairs of n rows of N, and a replica's number. */
void run_dims(const BeKernel *k, int64_t n, int64_t *dims);

#endif
