/*
 * cases.h - kernels of step IR, compiled and compared with the evaluator, bit
 * for bit
 */
#ifndef TFD_TESTS_CODEGEN_CASES_H
#define TFD_TESTS_CODEGEN_CASES_H

#include "tests/codegen/run.h"

/* A kernel as step IR with the operands %a, %b, ...; T is a dtype. */
typedef struct CodegenCase {
    const char *result, *types[5], *body;
} CodegenCase;

/* As a dtype: bf16 whose products are added in one chain (ir/rules/pairs.h). */
#define CASES_ONE_CHAIN "bf16 in one chain"

/* The kernels of all cases for that dtype, of batches n of at most `bound`
 * rows. */
BeKernels cases_kernels(Arena *a, const CodegenCase *cases, int num,
                        const char *dtype, int bound);
/* Runs every kernel in every code on batches of n rows; a difference fails the
 * test. */
void cases_check(Arena *a, const BeKernels *kernels, RtCode *const *codes,
                 int num, int64_t n);
/* All of it: for each target of this machine, optimized and not. */
void cases_run(const CodegenCase *cases, int num, const char *dtype);

#endif
