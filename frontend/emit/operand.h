/*
 * operand.h - values as operands of the IR; new operations
 */
#ifndef TFD_FRONTEND_EMIT_OPERAND_H
#define TFD_FRONTEND_EMIT_OPERAND_H

#include "frontend/context/lower.h"

/*
 * The value to compute with: variables and params are read, constants emitted
 * (untyped ones as i32 or f32), lists of scalars made tensors.  A per-replica
 * value out of replica context is an error; so is a value that cannot be a
 * tensor, and any of this in FE_TOP.
 */
IrValue *fe_operand(Lower *cx, FeValue *v, Loc loc);
/* The same, with untyped constants at that dtype; another dtype is an error. */
IrValue *fe_operand_as(Lower *cx, FeValue *v, DType t, Loc loc);
/* Several at their one dtype: untyped constants take that of the others, which
 * must agree. */
bool fe_operands(Lower *cx, int n, FeValue *const *v, IrValue **out, Loc loc);
/* NULL, and the message that v is none, with a note or NULL. */
IrValue *fe_no_tensor(Lower *cx, const FeValue *v, const char *note, Loc loc);
/* To be passed on and not computed with (reduce, gather, arguments of run): as
 * fe_operand, but per-replica values are welcome everywhere. */
IrValue *fe_handle(Lower *cx, FeValue *v, Loc loc);
IrValue *fe_handle_as(Lower *cx, FeValue *v, DType t, Loc loc);

/* A new operation, never NULL; its attributes are to be set, then fe_emit
 * appends it.  Operands may be NULL (errors). */
IrOp *fe_op(Lower *cx, IrOpKind kind, int n, IrValue *const *operands, Loc loc);
/* Infers and appends; POISON with a message when it does not infer, when an
 * operand is NULL, or in FE_TOP.  The value of its one result; NONE without. */
FeValue *fe_emit(Lower *cx, IrOp *op);
/* For fe_emit: that the indices of op, if it has any, name something. */
bool fe_check_indices(Lower *cx, const IrOp *op);
/* The two for operations without attributes, of values at one dtype
 * (fe_operands); x of fe_op3 has its own (where). */
FeValue *fe_op1(Lower *cx, IrOpKind kind, FeValue *x, Loc loc);
FeValue *fe_op2(Lower *cx, IrOpKind kind, FeValue *x, FeValue *y, Loc loc);
FeValue *fe_op3(Lower *cx, IrOpKind kind, FeValue *x, FeValue *y, FeValue *z,
                Loc loc);
/* The dtype in which an operation of that kind has its products, where operands
 * are of dtype t: that of precision(), or t. */
DType fe_product_dtype(const Lower *cx, IrOpKind kind, DType t);
/* Whether an operation may be appended by ir_build_*: there is a block (else a
 * message), and limits are kept.  (fe_emit does this by itself.) */
bool fe_check_can_emit(Lower *cx, Loc loc);

/* Converts a constant to dtype t; false with a message when it does not fit. */
bool fe_constant_as(Lower *cx, const FeValue *v, DType t, Loc loc, Scalar *out);
/* x, an untyped constant, at the dtype of its default, i32 or f32. */
FeValue *fe_default_typed(Lower *cx, FeValue *x, Loc loc);

/* The block a value stands in. */
const IrBlock *fe_block_of(const IrValue *v);

#endif
