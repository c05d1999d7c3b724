/*
 * kernel_eval.h - kernels, executed node by node
 *
 * The definition of what a kernel computes (docs/kernels.md): slow, obvious,
 * and an abort on any access out of range.
 */
#ifndef TFD_TESTS_REF_KERNEL_EVAL_H
#define TFD_TESTS_REF_KERNEL_EVAL_H

#include "backend/kernel/kernel.h"

/* Items begin .. end of k, with the parameters of its compiled function
 * (docs/abi.md). */
void kernel_eval(const BeKernel *k, void *const *ptrs, const int64_t *dims,
                 int64_t begin, int64_t end);

/* The number of items for these batches. */
int64_t kernel_eval_items(const BeKernel *k, const int64_t *dims);

#endif
