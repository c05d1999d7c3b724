/*
 * shape_ops.c - operations on shapes, each in a line
 */
#include "frontend/emit/shape_ops.h"

#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include <assert.h>
#include <string.h>
#include "ir/type_text.h"

static FeValue *
shaped(Lower *cx, IrOpKind kind, IrValue *x, int rank, const Dim *dims, Loc loc)
{
    assert(rank >= 0 && rank <= IR_MAX_RANK);
    IrType t = {.rank = rank};
    if (!x)
        return &fe_poison;
    if (rank)
        memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    if (ir_type_same_shape(&x->type, &t))
        return fe_value_tensor(cx->arena, x);
    IrOp *op = fe_op(cx, kind, 1, &x, loc);
    ir_set_dims(op, A_dims, dims, rank);
    return fe_emit(cx, op);
}

FeValue *
fe_reshape(Lower *cx, IrValue *x, int rank, const Dim *dims, Loc loc)
{
    return shaped(cx, OP_reshape, x, rank, dims, loc);
}

FeValue *
fe_broadcast(Lower *cx, IrValue *x, int rank, const Dim *dims, Loc loc)
{
    return shaped(cx, OP_broadcast, x, rank, dims, loc);
}

void
fe_rows_dims(const IrType *x, const IrType *rows, int64_t axis, Dim *dims)
{
    for (int i = 0; i < x->rank; i++)
        if (i != axis)
            dims[i < axis ? i : i + rows->rank - 1] = x->dims[i];
    for (int i = 0; i < rows->rank; i++)
        dims[axis + i] = rows->dims[i];
}

FeValue *
fe_scatter(Lower *cx, IrUpdate mode, IrValue *x, IrValue *rows, IrValue *values,
           int64_t axis, Loc loc)
{
    IrOp *op = fe_op(cx, OP_scatter, 3, (IrValue *[]){x, rows, values}, loc);
    ir_set_enum(op, A_mode, mode);
    if (axis)
        ir_set_int(op, A_axis, axis);
    return fe_emit(cx, op);
}

FeValue *
fe_drop_axes(Lower *cx, IrValue *x, const FeAxes *axes, Loc loc)
{
    Dim dims[IR_MAX_RANK];
    int rank = 0, next = 0;
    for (int i = 0; i < x->type.rank; i++) {
        if (next < axes->len && axes->axes[next] == i)
            next++;
        else
            dims[rank++] = x->type.dims[i];
    }
    return fe_reshape(cx, x, rank, dims, loc);
}

IrValue *
fe_flatten(Lower *cx, IrValue *x, Loc loc)
{
    Dim count;
    if (!x)
        return NULL;
    if (!ir_type_elements(&x->type, &count)) {
        fe_error_note(cx, loc, "give it an axis",
                      "the elements of shape %s make no row: the batch's "
                      "length is in it twice",
                      ir_dims_text(cx->module, x->type.rank, x->type.dims));
        return NULL;
    }
    return fe_tensor(fe_reshape(cx, x, 1, &count, loc));
}

FeValue *
fe_reduce_axes(Lower *cx, IrOpKind kind, IrValue *x, const FeAxes *axes,
               bool keepdims, Loc loc)
{
    assert(axes->len <= IR_MAX_RANK);
    IrOp *op = fe_op(cx, kind, 1, &x, loc);
    ir_set_ints(op, A_axes, axes->axes, axes->len);
    if (keepdims)
        ir_set_int(op, A_keepdims, 1);
    return fe_emit(cx, op);
}

/* x with a new dimension of 1 at axis. */
static FeValue *
expand(Lower *cx, IrValue *x, int axis, Loc loc)
{
    Dim dims[IR_MAX_RANK];
    if (!x || !fe_check_rank(cx, x->type.rank + 1, loc))
        return &fe_poison;
    for (int i = 0; i <= x->type.rank; i++)
        dims[i] = i == axis ? ir_dim_const(1) : x->type.dims[i - (i > axis)];
    return fe_reshape(cx, x, x->type.rank + 1, dims, loc);
}

FeValue *
fe_stack(Lower *cx, int n, IrValue *const *xs, int axis, Loc loc)
{
    assert(n > 0 && axis >= 0);
    IrValue **expanded = NEW_ARRAY(cx->arena, IrValue *, (size_t)n);
    for (int i = 0; i < n; i++) {
        FeValue *x = expand(cx, xs[i], axis, loc);
        expanded[i] = fe_tensor(x);
    }
    if (n == 1)
        return fe_value_tensor(cx->arena, expanded[0]);
    IrOp *op = fe_op(cx, OP_concat, n, expanded, loc);
    ir_set_int(op, A_axis, axis);
    return fe_emit(cx, op);
}
