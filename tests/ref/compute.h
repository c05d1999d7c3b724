/*
 * compute.h - pure operations, on one replica
 *
 * Part of the definition of the IR (docs/ir.md, "What an operation means"):
 * slow, obvious, one loop over the elements of the result.
 */
#ifndef TFD_TESTS_REF_COMPUTE_H
#define TFD_TESTS_REF_COMPUTE_H

#include "ir/ir.h"
#include "tests/ref/tensor.h"

/* Whether op's result depends on its operands and attributes alone. */
bool ref_can_compute(const IrOp *op);

/* The result of op for the operands x; out has its dtype and shape, and shares
 * no bytes with them. */
void ref_compute(const IrOp *op, const RefTensor *const *x, RefTensor *out);

/* x reduced over axes by sum, prod, reduce_max, ... in the order of D2. out has
 * its dtype and shape, with or without the axes as dimensions of one. */
void ref_reduce(IrOpKind kind, const RefTensor *x, int num_axes,
                const int64_t *axes, RefTensor *out);

/* n tensors one after the other along an axis. */
void ref_concat(int n, const RefTensor *const *x, int axis, RefTensor *out);

#endif
