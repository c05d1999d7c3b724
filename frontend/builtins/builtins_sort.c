/*
 * builtins_sort.c - running sums, and elements in order
 *
 * The IR sorts along the last axis and gives the order, as numbers of elements;
 * other axes are moved there and back, and elements follow by reorder, which
 * has the gradient.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/shape_ops.h"
#include "ir/device/device.h"

/* x with axis last, or back. */
static IrValue *
swap_with_last(Lower *cx, IrValue *x, int64_t axis, Loc loc)
{
    int64_t perm[IR_MAX_RANK], last = x ? x->type.rank - 1 : 0;
    if (!x || axis == last)
        return x;
    for (int i = 0; i <= last; i++)
        perm[i] = i;
    perm[axis] = last;
    perm[last] = axis;
    IrOp *op = fe_op(cx, OP_transpose, 1, &x, loc);
    ir_set_ints(op, A_perm, perm, x->type.rank);
    return fe_tensor(fe_emit(cx, op));
}

IrValue *
fe_arg_line(Lower *cx, const FeArgs *in, int i, int64_t *axis)
{
    IrValue *x = fe_operand(cx, fe_arg(in, 0), fe_arg_loc(in, 0));
    if (!x)
        return NULL;
    if (x->type.rank == 0) {
        fe_error(cx, fe_arg_loc(in, 0), "a scalar has no axis for %s",
                 in->name);
        return NULL;
    }
    *axis = x->type.rank - 1;
    if (fe_arg(in, i) && !fe_require_axis(cx, fe_arg(in, i), x->type.rank,
                                          fe_arg_loc(in, i), axis))
        return NULL;
    return x;
}

/* ---- running sums ------------------------------------------------------- */

FeValue *
fe_builtin_cumsum(Lower *cx, const FeArgs *in)
{
    int64_t axis = 0;
    bool exclusive = false, reverse = false;
    IrValue *x =
        fe_arg(in, 1)
            ? fe_arg_line(cx, in, 1, &axis)
            : fe_flatten(cx, fe_operand(cx, fe_arg(in, 0), fe_arg_loc(in, 0)),
                         in->loc);
    if (!x || !fe_arg_bool(cx, in, 2, "exclusive", &exclusive) ||
        !fe_arg_bool(cx, in, 3, "reverse", &reverse))
        return &fe_poison;
    IrOp *op = fe_op(cx, OP_cumsum, 1, &x, in->loc);
    ir_set_int(op, A_axis, axis);
    if (exclusive)
        ir_set_int(op, A_exclusive, 1);
    if (reverse)
        ir_set_int(op, A_reverse, 1);
    return fe_emit(cx, op);
}

/* ---- in order ----------------------------------------------------------- */

/* The order of the rows of x. */
static IrValue *
order_of(Lower *cx, IrValue *x, bool descending, Loc loc)
{
    IrOp *op = fe_op(cx, OP_argsort, 1, &x, loc);
    if (descending)
        ir_set_int(op, A_descending, 1);
    return fe_tensor(fe_emit(cx, op));
}

static IrValue *
reorder(Lower *cx, IrValue *x, IrValue *order, Loc loc)
{
    IrValue *operands[] = {x, order};
    return fe_tensor(fe_emit(cx, fe_op(cx, OP_reorder, 2, operands, loc)));
}

/* Shared by sort and argsort: rows, and their order. */
static IrValue *
read_sort(Lower *cx, const FeArgs *in, int64_t *axis, IrValue **order)
{
    bool descending = false;
    IrValue *x = fe_arg_line(cx, in, 1, axis);
    if (!x || !fe_arg_bool(cx, in, 2, "descending", &descending))
        return NULL;
    x = swap_with_last(cx, x, *axis, in->loc);
    *order = x ? order_of(cx, x, descending, in->loc) : NULL;
    return *order ? x : NULL;
}

FeValue *
fe_builtin_sort(Lower *cx, const FeArgs *in)
{
    int64_t axis;
    IrValue *order, *x = read_sort(cx, in, &axis, &order);
    if (!x)
        return &fe_poison;
    IrValue *sorted = reorder(cx, x, order, in->loc);
    return fe_value_tensor(cx->arena,
                           swap_with_last(cx, sorted, axis, in->loc));
}

FeValue *
fe_builtin_argsort(Lower *cx, const FeArgs *in)
{
    int64_t axis;
    IrValue *order, *x = read_sort(cx, in, &axis, &order);
    if (!x)
        return &fe_poison;
    return fe_value_tensor(cx->arena, swap_with_last(cx, order, axis, in->loc));
}

/* The first k of the last axis. */
static IrValue *
first_of_rows(Lower *cx, IrValue *x, int64_t k, Loc loc)
{
    int64_t starts[IR_MAX_RANK] = {0}, steps[IR_MAX_RANK];
    Dim dims[IR_MAX_RANK];
    if (!x)
        return NULL;
    for (int i = 0; i < x->type.rank; i++) {
        dims[i] = x->type.dims[i];
        steps[i] = 1;
    }
    dims[x->type.rank - 1] = ir_dim_const(k);
    IrOp *op = fe_op(cx, OP_slice, 1, &x, loc);
    ir_set_ints(op, A_start, starts, x->type.rank);
    ir_set_dims(op, A_dims, dims, x->type.rank);
    ir_set_ints(op, A_step, steps, x->type.rank);
    return fe_tensor(fe_emit(cx, op));
}

static bool
read_k(Lower *cx, const FeArgs *in, const IrValue *x, int64_t axis,
       bool largest, int64_t *k)
{
    Dim size = x->type.dims[axis];
    if (!fe_require_int(cx, fe_arg(in, 1), "k", fe_arg_loc(in, 1), k))
        return false;
    if (ir_dim_is_const(size) && *k >= 0 && *k <= size.c)
        return true;
    if (ir_dim_is_const(size))
        fe_error(cx, fe_arg_loc(in, 1), "there are no %lld %s of %lld elements",
                 (long long)*k, largest ? "greatest" : "least",
                 (long long)size.c);
    else
        fe_error_note(cx, in->loc, "sort gives all of them in order",
                      "top_k of the batch: its length is known only when the "
                      "step runs");
    return false;
}

FeValue *
fe_builtin_top_k(Lower *cx, const FeArgs *in)
{
    int64_t axis, k;
    bool largest = true;
    IrValue *x = fe_arg_line(cx, in, 2, &axis);
    if (!x || !fe_arg_bool(cx, in, 3, "largest", &largest) ||
        !read_k(cx, in, x, axis, largest, &k))
        return &fe_poison;
    x = swap_with_last(cx, x, axis, in->loc);
    IrValue *order = x ? order_of(cx, x, largest, in->loc) : NULL;
    if (!order)
        return &fe_poison;
    IrValue *parts[] = {reorder(cx, x, order, in->loc), order};
    FeValue *items[2];
    const char *names[] = {intern(cx->names, "values"),
                           intern(cx->names, "indices")};
    for (int i = 0; i < 2; i++) {
        IrValue *part = first_of_rows(cx, parts[i], k, in->loc);
        items[i] =
            fe_value_tensor(cx->arena, swap_with_last(cx, part, axis, in->loc));
    }
    return fe_value_named(cx->arena, 2, names, items);
}
