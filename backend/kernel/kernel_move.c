/*
 * kernel_move.c - operations that move elements
 *
 * A move becomes index arithmetic.  If it has elements of its own (the border
 * of a pad), or a choice of operands, there is a condition too: loads happen
 * where it holds.
 */
#include "backend/kernel/kernel_expr.h"

#include <string.h>

Expr *
be_at_same(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    return be_value_at(b, op->operands[0], view, guard);
}

Expr *
be_at_broadcast(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    View at = be_view_broadcast(b, op->operands[0], view);
    return be_value_at(b, op->operands[0], &at, guard);
}

Expr *
be_at_transpose(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    int count;
    const int64_t *perm = ir_ints(op, A_perm, &count);
    View at = be_view_of(b, op->operands[0]);
    for (int i = 0; i < count; i++)
        at.at[perm[i]] = view->at[i];
    return be_value_at(b, op->operands[0], &at, guard);
}

Expr *
be_at_slice(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    int count;
    const int64_t *start = ir_ints(op, A_start, &count);
    const int64_t *step = ir_ints(op, A_step, &count);
    View at = be_view_of(b, op->operands[0]);
    for (int i = 0; i < count; i++) {
        KIndex moved = be_lin_scale(b, view->at[i], ir_dim_const(step[i]));
        at.at[i] = be_lin_add(b, moved, be_lin_const(ir_dim_const(start[i])));
    }
    return be_value_at(b, op->operands[0], &at, guard);
}

Expr *
be_at_reverse(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    int count;
    const int64_t *axes = ir_ints(op, A_axes, &count);
    View at = *view;
    for (int i = 0; i < count; i++) {
        KIndex *x = &at.at[axes[i]];
        KIndex last = be_lin_add(b, be_lin_const(view->shape.dims[axes[i]]),
                                 be_lin_const(ir_dim_const(-1)));
        *x = be_lin_add(b, be_lin_scale(b, *x, ir_dim_const(-1)), last);
    }
    return be_value_at(b, op->operands[0], &at, guard);
}

/* Where an axis of a padded value has an element: *x becomes its index there;
 * returns the condition, NULL if it always holds. */
static Expr *
pad_axis(Build *b, KIndex *x, Dim size, Dim padded, int64_t low, int64_t step)
{
    if (low == 0 && step == 1 && ir_dim_equal(size, padded))
        return NULL;
    KIndex shifted = be_lin_add(b, *x, be_lin_const(ir_dim_const(-low)));
    Dim spread = be_dim_times(b, size, ir_dim_const(step)), gap,
        one = ir_dim_const(1);
    if (!ir_dim_sub(spread, ir_dim_const(step - 1), &gap))
        be_expr_fail_index(b);
    Expr *inside = be_expr_inside(b, shifted, gap);
    KIndex rest;
    be_lin_divide(b, shifted, ir_dim_const(step), size, x, &rest);
    bool each = rest.num_terms == 0 && ir_dim_equal(rest.base, ir_dim_const(0));
    return each ? inside : be_expr_and(b, inside, be_expr_inside(b, rest, one));
}

Expr *
be_at_pad(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    const IrValue *x = op->operands[0];
    int count;
    const int64_t *low = ir_ints(op, A_low, &count);
    const int64_t *step = ir_ints(op, A_step, &count);
    View at = be_view_of(b, x);
    Expr *inside = NULL;
    for (int i = 0; i < count; i++) {
        at.at[i] = view->at[i];
        Expr *here = pad_axis(b, &at.at[i], at.shape.dims[i],
                              view->shape.dims[i], low[i], step[i]);
        inside = be_expr_and(b, inside, here);
        if (dim_is_one(at.shape.dims[i]))
            at.at[i] = be_lin_const(ir_dim_const(0));
    }
    Expr *both = be_expr_and(b, guard, inside);
    return be_value_masked(b, x, &at, inside, both);
}

/* An axis with the length of a batch may be empty; then nothing is loaded.  One
 * number is loaded whatever the guard is, so that it is the same for all lanes.
 */
Expr *
be_at_take(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    const IrValue *x = op->operands[0], *y = op->operands[1];
    int axis = (int)ir_int(op, A_axis);
    View at_x = be_view_of(b, x), at_y = be_view_of(b, y);
    for (int i = 0; i < at_y.shape.rank; i++)
        at_y.at[i] = view->at[axis + i];
    for (int i = 0; i < at_x.shape.rank; i++)
        at_x.at[i] = view->at[i < axis ? i : i + at_y.shape.rank - 1];
    Dim size = at_x.shape.dims[axis];
    Expr *index = be_value_at(b, y, &at_y, at_y.shape.rank ? guard : NULL);
    if (index->node.dtype != DT_i64)
        index = be_expr_cast(b, index, DT_i64);
    at_x.at[axis] = dim_is_one(size) ? be_lin_const(ir_dim_const(0))
                                     : be_lin_pick(b, index, size);
    if (ir_dim_is_const(size))
        return be_value_at(b, x, &at_x, guard);
    Expr *inside = be_expr_inside(b, at_x.at[axis], size);
    return be_value_masked(b, x, &at_x, inside, be_expr_and(b, guard, inside));
}

/* A chain of choices.  The last operand needs no condition to be chosen, but
 * one to be loaded. */
Expr *
be_at_concat(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    int64_t axis = ir_int(op, A_axis);
    int last = op->num_operands - 1;
    KIndex rest = view->at[axis];
    Expr **inside = NEW_ARRAY(b->scratch, Expr *, last + 1);
    Expr **values = NEW_ARRAY(b->scratch, Expr *, last + 1);
    for (int i = 0; i <= last; i++) {
        const IrValue *x = op->operands[i];
        View at = {.shape = *be_value_shape(b, x)};
        Dim size = at.shape.dims[axis];
        memcpy(at.at, view->at, sizeof at.at);
        at.at[axis] = dim_is_one(size) ? be_lin_const(ir_dim_const(0)) : rest;
        inside[i] = be_expr_inside(b, rest, size);
        values[i] = be_value_at(b, x, &at, be_expr_and(b, guard, inside[i]));
        KIndex back = be_lin_scale(b, be_lin_const(size), ir_dim_const(-1));
        rest = be_lin_add(b, rest, back);
    }
    Expr *e = values[last];
    for (int i = last - 1; i >= 0; i--)
        e = be_expr_where(b, inside[i], values[i], e,
                          op->results[0]->type.dtype);
    return e;
}
