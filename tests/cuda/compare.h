/*
 * compare.h - a kernel's PTX on the emulator against its object for this CPU
 */
#ifndef TFD_TESTS_CUDA_COMPARE_H
#define TFD_TESTS_CUDA_COMPARE_H

#include "backend/backend.h"
#include "runtime/load/loader.h"
#include "tests/cuda/ptx/ptx.h"

/* A launch: the kernel's arrays with made-up inputs, and the outputs that the
 * CPU has made of them. */
typedef struct Comparison Comparison;

typedef struct LaunchShape {
    int64_t rows; /* where a batch has any number */
    uint32_t blocks;
    bool wild;     /* inputs: infinities, NaNs, extremes among them */
    bool in_place; /* outputs have the memory of inputs wherever they may */
    bool whole;    /* inputs: small whole numbers, whose products and sums are
                      exact in every order */
} LaunchShape;

/* In a. */
Comparison *comparison_new(Arena *a, const BeKernel *k, const RtCode *cpu,
                           LaunchShape shape);

/* Whether an output has the memory of an input. */
bool comparison_is_in_place(const Comparison *c);

typedef enum Outcome {
    OUTCOME_SAME,
    OUTCOME_DIFFERENT,
    OUTCOME_REPORTED
} Outcome;

/* Launches what should be the same kernel once, on arrays of its own: all
 * functions of the module, one after the other.  *why is a sentence in a unless
 * the outcome is OUTCOME_SAME. */
Outcome comparison_run(Comparison *c, PtxMachine *machine,
                       const PtxModule *module, unsigned checks,
                       const char **why);

/* At most so many instructions of a warp; what loops for ever is reported. */
void comparison_limit(Comparison *c, uint64_t instructions);

#endif
