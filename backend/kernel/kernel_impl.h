/*
 * kernel_impl.h - shared by the files of the kernel IR
 */
#ifndef TFD_BACKEND_KERNEL_KERNEL_IMPL_H
#define TFD_BACKEND_KERNEL_KERNEL_IMPL_H

#include "backend/kernel/kernel.h"

BeKernel *be_kernel_new(Arena *a);
KArray *be_kernel_array(BeKernel *k, KRole role, DType dtype, Dim size);

/* A copy of node, appended to b. */
KNode *be_kernel_append(Arena *a, KBlock *b, const KNode *node);

/* The block of a node that has one, with its ranges; else NULL. */
KBlock *be_kernel_body(KNode *n, KRanges **ranges);

/* The values from outside of its body that n uses, without a NULL guard;
 * returns their number. */
enum { K_MAX_ARGS = 3 };
int be_kernel_args(const KNode *n, KNode **args);

/* The index expression of n, or NULL. */
KIndex *be_kernel_index(KNode *n);

/* Whether each value of n, an f32, is one of dtype (bf16 or f16), as is easily
 * seen. */
bool be_kernel_fits(const KNode *n, DType dtype);

/* Calls visit on each node in the order of the text. */
void be_kernel_walk(KBlock *b, void (*visit)(KNode *n, void *data), void *data);

/* Numbers values and indices, sorts terms, names the kernel: the last step of
 * making one. */
void be_kernel_finish(BeKernel *k);

/* The text that is hashed: everything but the first line. */
void be_kernel_print_rest(Str *out, const BeKernel *k);

#endif
