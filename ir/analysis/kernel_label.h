/*
 * kernel_label.h - what a kernel does, in a few words
 *
 * For people who read profiles and dumps: "matmul_bias_gelu",
 * "softmax_cross_entropy_grad".  Kernels that are equal may have several
 * labels, and others the same one: code is named by content (D15).
 */
#ifndef TFD_IR_ANALYSIS_KERNEL_LABEL_H
#define TFD_IR_ANALYSIS_KERNEL_LABEL_H

#include "ir/ir.h"

/* Of a kernel operation, in a.  Functions of the library are named by
 * themselves if the operations know their calls (ir/text/calls.h), else by what
 * they consist of. */
const char *ir_kernel_label(Arena *a, const IrOp *kernel);

/* Whether it computes a part of a gradient: differentiate made it. */
bool ir_op_is_gradient(const IrOp *op);

#endif
