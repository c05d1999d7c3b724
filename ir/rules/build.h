/*
 * build.h - making operations in a line each
 *
 * The ir_build_* functions append an operation to a block, infer its result and
 * return it.  They are for callers that know their operands to be right
 * (passes; the front end after its own checks): an inference error ends the
 * program with UNREACHABLE.  To get an error message for a user call ir_op_new,
 * ir_set_*, ir_op_infer and ir_append.
 *
 * Inference depends on the context of a block, so an operation with regions is
 * first appended, then its regions are filled, and ir_op_close gives it its
 * results:
 *
 *   IrOp *run = ir_build_op(main, OP_run, 0, NULL, loc);
 *   IrValue *w = ir_build_read(run->regions[0], "w", loc);
 *   ir_build_yield(run->regions[0], 1, &w, loc);
 *   ir_op_close(run);
 *   ... run->results[0] ...
 *
 * To put operations in the middle of a block, build them in a scratch block
 * and splice it.
 */
#ifndef TFD_IR_RULES_BUILD_H
#define TFD_IR_RULES_BUILD_H

#include "ir/ir.h"

/* ---- any operation ----------------------------------------------------- */

/* With no, one, two and three operands and no attributes. */
IrValue *ir_build0(IrBlock *b, IrOpKind kind, Loc loc);
IrValue *ir_build1(IrBlock *b, IrOpKind kind, IrValue *x, Loc loc);
IrValue *ir_build2(IrBlock *b, IrOpKind kind, IrValue *x, IrValue *y, Loc loc);
IrValue *ir_build3(IrBlock *b, IrOpKind kind, IrValue *x, IrValue *y,
                   IrValue *z, Loc loc);

/* Appended, with an empty block for each region of its kind, without results
 * and not inferred: for control flow, and to set attributes. */
IrOp *ir_build_op(IrBlock *b, IrOpKind kind, int num_operands,
                  IrValue *const *operands, Loc loc);
/* Infers op, which must be right; its first result, or NULL if it has none. */
IrValue *ir_build_infer(IrOp *op);

/* ---- inference ------------------------------------------------------- */

/* Infers the results by the op's table row in the context of block `at`.  NULL
 * on success, else a message for a user ("shapes [2, 3] and [4] do not
 * broadcast"), in the module's arena. */
const char *ir_op_infer(IrOp *op, const IrBlock *at);

/* ---- constants --------------------------------------------------------- */

IrValue *ir_const_float(IrBlock *b, DType t, double x, Loc loc);
IrValue *ir_const_int(IrBlock *b, DType t, int64_t x, Loc loc);
IrValue *ir_const_bool(IrBlock *b, bool x, Loc loc);
IrValue *ir_const_scalar(IrBlock *b, Scalar x, Loc loc);
/* Elements in row-major order; dims are constants. */
IrValue *ir_const_data(IrBlock *b, DType t, int rank, const Dim *dims,
                       const void *bytes, Loc loc);
/* x in every element of a value of that dtype and shape. */
IrValue *ir_const_fill(IrBlock *b, DType t, int rank, const Dim *dims, Scalar x,
                       Loc loc);
/* 0 in the dtype and shape of like. */
IrValue *ir_const_zeros(IrBlock *b, const IrType *like, Loc loc);

/* Whether every element of v is the same known number (a constant, also through
 * broadcast, reshape and copy), and which. */
bool ir_const_known(const IrValue *v, Scalar *out);

/* ---- operations with attributes ---------------------------------------- */

/* x as that dtype: x itself when it has it. */
IrValue *ir_build_cast(IrBlock *b, IrValue *x, DType to, Loc loc);
/* x under that shape: x itself when it has it.  Broadcast also where the
 * shapes differ in rank; reshape where elements are to be kept. */
IrValue *ir_build_broadcast(IrBlock *b, IrValue *x, int rank, const Dim *dims,
                            Loc loc);
IrValue *ir_build_reshape(IrBlock *b, IrValue *x, int rank, const Dim *dims,
                          Loc loc);
/* sum, prod, reduce_max, ..., argmin over axes (ascending). */
IrValue *ir_build_reduce(IrBlock *b, IrOpKind kind, IrValue *x,
                         const int64_t *axes, int num_axes, bool keepdims,
                         Loc loc);
IrValue *ir_build_sum_all(IrBlock *b, IrValue *x, Loc loc);
IrValue *ir_build_transpose(IrBlock *b, IrValue *x, const int64_t *perm,
                            Loc loc);
IrValue *ir_build_slice(IrBlock *b, IrValue *x, const int64_t *start,
                        const Dim *dims, const int64_t *step, Loc loc);
IrValue *ir_build_pad(IrBlock *b, IrValue *x, const int64_t *low,
                      const Dim *dims, const int64_t *step, Loc loc);
IrValue *ir_build_reverse(IrBlock *b, IrValue *x, const int64_t *axes,
                          int num_axes, Loc loc);
IrValue *ir_build_concat(IrBlock *b, int n, IrValue *const *xs, int64_t axis,
                         Loc loc);
/* x with rows along axis changed by values, as ops.def says. */
IrValue *ir_build_scatter(IrBlock *b, IrUpdate mode, IrValue *x, IrValue *rows,
                          IrValue *values, int64_t axis, Loc loc);
/* x with values added to rows; sums of f16 and bf16 are f32, rounded once. */
IrValue *ir_build_add_rows(IrBlock *b, IrValue *x, IrValue *rows,
                           IrValue *values, int64_t axis, Loc loc);
IrValue *ir_build_iota(IrBlock *b, DType t, int rank, const Dim *dims,
                       int64_t axis, Loc loc);

/* Axes of a contraction; the pairs with num 0 may be NULL. */
typedef struct IrDotAxes {
    const int64_t *contract_x, *contract_y;
    int num_contract;
    const int64_t *batch_x, *batch_y;
    int num_batch;
} IrDotAxes;
IrValue *ir_build_dot(IrBlock *b, IrValue *x, IrValue *y, const IrDotAxes *axes,
                      Loc loc);

IrValue *ir_build_dim_size(IrBlock *b, Dim d, Loc loc); /* an i64 */
IrValue *ir_build_param(IrBlock *b, const char *param, Loc loc);
IrValue *ir_build_read(IrBlock *b, const char *var, Loc loc);
IrOp *ir_build_write(IrBlock *b, const char *var, IrUpdate mode, IrValue *x,
                     Loc loc);
/* all_reduce of n values together; results as op->results. */
IrOp *ir_build_all_reduce(IrBlock *b, IrAgg how, int n, IrValue *const *xs,
                          Loc loc);
IrValue *ir_build_all_gather(IrBlock *b, IrValue *x, int64_t axis, Loc loc);

/* ---- regions and functions --------------------------------------------- */

IrOp *ir_build_yield(IrBlock *b, int n, IrValue *const *xs, Loc loc);
IrOp *ir_build_return(IrBlock *b, int n, IrValue *const *xs, Loc loc);

#endif
