/*
 * eval.h - the definition of elementwise operations on single elements
 *
 * The one definition in C of the bits of every elementwise operation: constant
 * folding and the reference interpreters use it, generated code is tested
 * against it.  f16 and bf16 operands compute in f32 and round (D4).
 */
#ifndef TFD_IR_RULES_EVAL_H
#define TFD_IR_RULES_EVAL_H

#include "ir/base/number/dtype.h"
#include "ir/ops/op.h"

/* Whether kind is elementwise, so that ir_eval knows it. */
bool ir_can_eval(IrOpKind kind);

/* kind of the operands x, whose dtypes ops.def allows; the result has dtype
 * `result`. */
Scalar ir_eval(IrOpKind kind, DType result, const Scalar *x);

/* The result of a reduction of no elements; kind is sum, prod, reduce_max, ...
 */
Scalar ir_eval_neutral(IrOpKind kind, DType t);

#endif
