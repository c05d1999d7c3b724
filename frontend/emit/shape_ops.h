/*
 * shape_ops.h - operations on shapes, each in a line
 */
#ifndef TFD_FRONTEND_EMIT_SHAPE_OPS_H
#define TFD_FRONTEND_EMIT_SHAPE_OPS_H

#include "frontend/context/lower.h"

/* An IrValue of a value that is a tensor, NULL of POISON. */
static inline IrValue *
fe_tensor(const FeValue *v)
{
    return v->kind == FE_TENSOR ? v->tensor : NULL;
}

/* x as one row of elements; NULL: x is, or with a message. */
IrValue *fe_flatten(Lower *cx, IrValue *x, Loc loc);
/* x under another shape: the same elements, or repeated ones. */
FeValue *fe_reshape(Lower *cx, IrValue *x, int rank, const Dim *dims, Loc loc);
FeValue *fe_broadcast(Lower *cx, IrValue *x, int rank, const Dim *dims,
                      Loc loc);
/* x with its parts along axis that rows has the numbers of changed by values,
 * which have the shape of fe_rows_dims: that of x, with that of rows in place of
 * the axis. */
FeValue *fe_scatter(Lower *cx, IrUpdate mode, IrValue *x, IrValue *rows,
                    IrValue *values, int64_t axis, Loc loc);
void fe_rows_dims(const IrType *x, const IrType *rows, int64_t axis, Dim *dims);
/* Equal shapes one beside the other along a new axis, 0 .. their rank. */
FeValue *fe_stack(Lower *cx, int n, IrValue *const *xs, int axis, Loc loc);

/* Axes of a value, ascending. */
typedef struct FeAxes {
    int64_t axes[IR_MAX_RANK];
    int len;
} FeAxes;
/* x without these axes, along each of which it has one element. */
FeValue *fe_drop_axes(Lower *cx, IrValue *x, const FeAxes *axes, Loc loc);
FeValue *fe_reduce_axes(Lower *cx, IrOpKind kind, IrValue *x,
                        const FeAxes *axes, bool keepdims, Loc loc);

/* The n values concatenated along axis, if they are all replicas' parts of a
 * batch; NULL if they are not. */
FeValue *fe_concat_shares(Lower *cx, int n, IrValue *const *xs, int64_t axis,
                          Loc loc); /* concat_shares.c */

#endif
