/*
 * builtins_shape.c - new values, and the same elements in other places
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/emit/index.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/shape_ops.h"
#include "frontend/emit/slices.h"
#include "frontend/lower/call.h"
#include "ir/rules/build.h"
#include "ir/type_text.h"

#include <string.h>

static IrValue *
operand(Lower *cx, const FeArgs *in, int i)
{
    return fe_operand(cx, fe_arg(in, i), fe_arg_loc(in, i));
}

/* ---- new values --------------------------------------------------------- */

typedef struct Shape {
    int rank;
    Dim dims[IR_MAX_RANK];
} Shape;

static bool
read_shape(Lower *cx, const FeArgs *in, int i, Shape *out)
{
    return fe_require_dims(cx, fe_arg(in, i), "a shape", fe_arg_loc(in, i),
                           out->dims, &out->rank);
}

static FeValue *
filled(Lower *cx, const FeArgs *in, int64_t number)
{
    Shape s;
    DType t = fe_default_float(cx);
    if (!read_shape(cx, in, 0, &s) || !fe_arg_dtype(cx, in, 1, &t))
        return &fe_poison;
    FeValue *one =
        fe_value_scalar(cx->arena, scalar_cast(scalar_int(DT_i64, number), t));
    return fe_broadcast(cx, fe_operand(cx, one, in->loc), s.rank, s.dims,
                        in->loc);
}

FeValue *
fe_builtin_zeros(Lower *cx, const FeArgs *in)
{
    return filled(cx, in, 0);
}

FeValue *
fe_builtin_ones(Lower *cx, const FeArgs *in)
{
    return filled(cx, in, 1);
}

FeValue *
fe_builtin_fill(Lower *cx, const FeArgs *in)
{
    Shape s;
    if (!read_shape(cx, in, 0, &s))
        return &fe_poison;
    return fe_broadcast(cx, operand(cx, in, 1), s.rank, s.dims, in->loc);
}

static FeValue *
iota(Lower *cx, DType t, const Shape *s, int64_t axis, Loc loc)
{
    IrOp *op = fe_op(cx, OP_iota, 0, NULL, loc);
    ir_set_dims(op, A_dims, s->dims, s->rank);
    ir_set_int(op, A_dtype, t);
    ir_set_int(op, A_axis, axis);
    return fe_emit(cx, op);
}

FeValue *
fe_builtin_iota(Lower *cx, const FeArgs *in)
{
    Shape s;
    DType t = DT_i64;
    int64_t axis = 0;
    if (!read_shape(cx, in, 0, &s) || !fe_arg_dtype(cx, in, 2, &t))
        return &fe_poison;
    if (fe_arg(in, 1) &&
        !fe_require_axis(cx, fe_arg(in, 1), s.rank, fe_arg_loc(in, 1), &axis))
        return &fe_poison;
    return iota(cx, t, &s, axis, in->loc);
}

/* ---- other shapes ------------------------------------------------------- */

/* The index of the item -1 of a shape, the dimension to infer; -1 without one.
 * */
static int
left_open(const FeValue *shape)
{
    int64_t size;
    if (shape->kind != FE_NEST)
        return fe_value_is_int(shape, &size) && size == -1 ? 0 : -1;
    for (int i = 0; i < shape->nest.len; i++)
        if (fe_value_is_int(shape->nest.items[i], &size) && size == -1)
            return i;
    return -1;
}

/* Infers the open dimension of s from the number of x's elements. */
static bool
close_shape(Lower *cx, const IrValue *x, Shape *s, int open, Loc loc)
{
    Dim all, rest = ir_dim_const(1);
    bool ok = ir_type_elements(&x->type, &all);
    for (int i = 0; i < s->rank; i++)
        ok = ok && (i == open || ir_dim_mul(rest, s->dims[i], &rest));
    if (ok && !ir_dim_equal(rest, ir_dim_const(0)) &&
        ir_dim_div(all, rest, &s->dims[open]))
        return true;
    fe_error(cx, loc, "the elements of shape %s leave no size for -1",
             ir_dims_text(cx->module, x->type.rank, x->type.dims));
    return false;
}

/* The shape with -1 in place of the first dimension that may have it. */
static const char *
open_note(Lower *cx, Dim elements, const Shape *s)
{
    for (int open = 0; open < s->rank; open++) {
        Dim rest = ir_dim_const(1), size;
        Str text = str_new(cx->arena);
        bool ok = true;
        for (int i = 0; i < s->rank; i++) {
            ok = ok && (i == open || ir_dim_mul(rest, s->dims[i], &rest));
            str_addf(&text, "%s%lld", i ? ", " : "",
                     i == open ? -1 : (long long)s->dims[i].c);
        }
        if (ok && !ir_dim_equal(rest, ir_dim_const(0)) &&
            ir_dim_div(elements, rest, &size))
            return fe_format(cx, "-1 is what is left: (%s)", str_text(&text));
    }
    bool is_grid = s->rank > 1;
    return fe_format(
        cx,
        "a replica's share has no certain number of rows: group them in the "
        "dataset, by .batch(%lld, drop_remainder = true).batch(%lld) in place "
        "of its .batch(...), and an element has rows of %lld without reshape",
        (long long)s->dims[is_grid].c, is_grid ? (long long)s->dims[0].c : 1,
        (long long)s->dims[is_grid].c);
}

/* Whether x has as many elements as the shape; a replica's share of a batch
 * has a length that no constant is. */
static bool
check_elements(Lower *cx, const IrValue *x, const Shape *s, Loc loc)
{
    const char *from = ir_dims_text(cx->module, x->type.rank, x->type.dims);
    const char *to = ir_dims_text(cx->module, s->rank, s->dims);
    Dim have, want = ir_dim_const(1);
    bool ok = ir_type_elements(&x->type, &have);
    for (int i = 0; ok && i < s->rank; i++)
        ok = ir_dim_mul(want, s->dims[i], &want);
    if (!ok || ir_dim_equal(have, want) || !ir_dim_is_const(want))
        return true; /* the operation's own rule says the rest */
    if (ir_dim_is_const(have))
        fe_error_note(cx, loc,
                      "a dimension is divided into parts of one size; -1 "
                      "stands for what is left",
                      "cannot reshape %s to %s: %lld elements are not %lld",
                      from, to, (long long)have.c, (long long)want.c);
    else
        fe_error_note(cx, loc, open_note(cx, have, s),
                      "cannot reshape %s to %s: a length is known only when "
                      "the program runs",
                      from, to);
    return false;
}

FeValue *
fe_builtin_reshape(Lower *cx, const FeArgs *in)
{
    Shape s;
    FeValue *shape = fe_arg(in, 1);
    IrValue *x = operand(cx, in, 0);
    int open = left_open(shape);
    FeValue *none = fe_value_int(cx->arena, 0);
    if (open >= 0 && shape->kind == FE_NEST) {
        shape = fe_value_list(cx->arena, shape->nest.len, shape->nest.items);
        shape->nest.items[open] = none;
    } else if (open >= 0) {
        shape = none;
    }
    if (!x || !fe_require_dims(cx, shape, "a shape", fe_arg_loc(in, 1), s.dims,
                               &s.rank))
        return &fe_poison;
    if (open >= 0 && !close_shape(cx, x, &s, open, in->loc))
        return &fe_poison;
    if (!check_elements(cx, x, &s, in->loc))
        return &fe_poison;
    return fe_reshape(cx, x, s.rank, s.dims, in->loc);
}

/* x with a new dimension of 1. */
static FeValue *
expand(Lower *cx, IrValue *x, int64_t axis, Loc loc)
{
    Shape s = {.rank = x->type.rank + 1};
    if (!fe_check_rank(cx, s.rank, loc))
        return &fe_poison;
    for (int i = 0; i < s.rank; i++)
        s.dims[i] = i == axis ? ir_dim_const(1) : x->type.dims[i - (i > axis)];
    return fe_reshape(cx, x, s.rank, s.dims, loc);
}

FeValue *
fe_builtin_expand(Lower *cx, const FeArgs *in)
{
    int64_t axis;
    IrValue *x = operand(cx, in, 0);
    if (!x || !fe_require_axis(cx, fe_arg(in, 1), x->type.rank + 1,
                               fe_arg_loc(in, 1), &axis))
        return &fe_poison;
    return expand(cx, x, axis, in->loc);
}

/* Whether x has one element along each of axes. */
static bool
check_squeezed(Lower *cx, const IrValue *x, const FeAxes *axes, Loc loc)
{
    for (int i = 0; i < axes->len; i++) {
        if (ir_dim_equal(x->type.dims[axes->axes[i]], ir_dim_const(1)))
            continue;
        fe_error_note(cx, loc, "squeeze drops dimensions of 1 alone",
                      "axis %lld of %s is not 1", (long long)axes->axes[i],
                      fe_type_text(cx, &x->type));
        return false;
    }
    return true;
}

/* All that are 1. */
static FeAxes
axes_of_one(const IrType *t)
{
    FeAxes axes = {0};
    for (int i = 0; i < t->rank; i++)
        if (ir_dim_equal(t->dims[i], ir_dim_const(1)))
            axes.axes[axes.len++] = i;
    return axes;
}

FeValue *
fe_builtin_squeeze(Lower *cx, const FeArgs *in)
{
    FeAxes axes;
    IrValue *x = operand(cx, in, 0);
    if (!x)
        return &fe_poison;
    if (!fe_arg(in, 1))
        axes = axes_of_one(&x->type);
    else if (!fe_arg_axes(cx, in, 1, x->type.rank, &axes) ||
             !check_squeezed(cx, x, &axes, fe_arg_loc(in, 1)))
        return &fe_poison;
    return fe_drop_axes(cx, x, &axes, in->loc);
}

/* ---- order of axes and elements ----------------------------------------- */

/* A permutation of the axes of x. */
static bool
read_permutation(Lower *cx, FeValue *v, int rank, Loc loc, int64_t *perm)
{
    int64_t sorted[IR_MAX_RANK];
    int n;
    if (!fe_require_axes(cx, v, rank, loc, sorted, &n))
        return false;
    if (n != rank) {
        fe_error_note(cx, loc, "each axis is named once, as in (0, 2, 1)",
                      "transpose of a value of %d dimensions names %d", rank,
                      n);
        return false;
    }
    for (int i = 0; v->kind == FE_NEST && i < rank; i++)
        if (!fe_require_axis(cx, v->nest.items[i], rank, loc, &perm[i]))
            return false;
    return true;
}

FeValue *
fe_builtin_transpose(Lower *cx, const FeArgs *in)
{
    IrValue *x = operand(cx, in, 0);
    if (!x)
        return &fe_poison;
    int rank = x->type.rank;
    int64_t perm[IR_MAX_RANK];
    for (int i = 0; i < rank; i++)
        perm[i] = rank - 1 - i;
    FeValue *axes = fe_arg(in, 1);
    if (axes && !read_permutation(cx, axes, rank, fe_arg_loc(in, 1), perm))
        return &fe_poison;
    IrOp *op = fe_op(cx, OP_transpose, 1, &x, in->loc);
    ir_set_ints(op, A_perm, perm, rank);
    return fe_emit(cx, op);
}

FeValue *
fe_builtin_reverse(Lower *cx, const FeArgs *in)
{
    FeAxes axes;
    IrValue *x = operand(cx, in, 0);
    if (!x || !fe_arg_axes(cx, in, 1, x->type.rank, &axes))
        return &fe_poison;
    IrOp *op = fe_op(cx, OP_reverse, 1, &x, in->loc);
    ir_set_ints(op, A_axes, axes.axes, axes.len);
    return fe_emit(cx, op);
}

/* ---- several values ----------------------------------------------------- */

typedef struct Several {
    IrValue **xs;
    int n, rank; /* of the first */
} Several;

static bool
read_several(Lower *cx, const FeArgs *in, Several *out)
{
    FeValue *list = fe_arg(in, 0);
    if (list->kind != FE_NEST || list->nest.len == 0) {
        fe_error(cx, fe_arg_loc(in, 0), "%s needs a list of values, not %s",
                 in->name,
                 list->kind == FE_NEST ? "an empty one"
                                       : fe_describe(cx, list));
        return false;
    }
    out->n = list->nest.len;
    out->xs = NEW_ARRAY(cx->arena, IrValue *, (size_t)out->n);
    if (!fe_operands(cx, out->n, list->nest.items, out->xs, fe_arg_loc(in, 0)))
        return false;
    out->rank = out->xs[0]->type.rank;
    return true;
}

static bool
read_axis(Lower *cx, const FeArgs *in, int i, int rank, int64_t *axis)
{
    FeValue *v = fe_arg(in, i);
    *axis = 0;
    return !v || fe_require_axis(cx, v, rank, fe_arg_loc(in, i), axis);
}

FeValue *
fe_builtin_concat(Lower *cx, const FeArgs *in)
{
    Several s;
    int64_t axis;
    if (!read_several(cx, in, &s) || !read_axis(cx, in, 1, s.rank, &axis))
        return &fe_poison;
    FeValue *shares = fe_concat_shares(cx, s.n, s.xs, axis, in->loc);
    if (shares)
        return shares;
    IrOp *op = fe_op(cx, OP_concat, s.n, s.xs, in->loc);
    ir_set_int(op, A_axis, axis);
    return fe_emit(cx, op);
}

FeValue *
fe_builtin_stack(Lower *cx, const FeArgs *in)
{
    Several s;
    int64_t axis;
    if (!read_several(cx, in, &s) || !read_axis(cx, in, 1, s.rank + 1, &axis))
        return &fe_poison;
    for (int i = 1; i < s.n; i++) {
        const IrType *a = &s.xs[0]->type, *b = &s.xs[i]->type;
        if (!ir_type_same_shape(a, b))
            return fe_error(cx, in->loc,
                            "stack needs values of one shape, and these have "
                            "%s and %s",
                            ir_dims_text(cx->module, a->rank, a->dims),
                            ir_dims_text(cx->module, b->rank, b->dims));
    }
    return fe_stack(cx, s.n, s.xs, (int)axis, in->loc);
}

/* ---- parts -------------------------------------------------------------- */

/* size elements from start on along axis, all of the other axes. */
static FeValue *
slice_axis(Lower *cx, IrValue *x, int64_t axis, int64_t start, Dim size,
           Loc loc)
{
    int64_t starts[IR_MAX_RANK] = {0}, steps[IR_MAX_RANK];
    Shape s = {.rank = x->type.rank};
    for (int i = 0; i < s.rank; i++) {
        s.dims[i] = x->type.dims[i];
        steps[i] = 1;
    }
    starts[axis] = start;
    s.dims[axis] = size;
    IrOp *op = fe_op(cx, OP_slice, 1, &x, loc);
    ir_set_ints(op, A_start, starts, s.rank);
    ir_set_dims(op, A_dims, s.dims, s.rank);
    ir_set_ints(op, A_step, steps, s.rank);
    return fe_emit(cx, op);
}

typedef VEC(int64_t) Sizes;

static bool
equal_parts(Lower *cx, int64_t parts, int64_t whole, Loc loc, Sizes *out)
{
    if (parts < 1 || parts > limit_value(LIMIT_unroll) || whole % parts) {
        fe_error(cx, loc, "%lld cannot be split into %lld equal parts",
                 (long long)whole, (long long)parts);
        return false;
    }
    for (int64_t i = 0; i < parts; i++)
        VEC_PUSH(cx->arena, *out, whole / parts);
    return true;
}

static bool
listed_parts(Lower *cx, const FeNest *list, int64_t whole, Loc loc, Sizes *out)
{
    int64_t left = whole;
    for (int i = 0; i < list->len; i++) {
        int64_t size;
        if (!fe_require_int(cx, list->items[i], "the size of a part", loc,
                            &size))
            return false;
        if (size < 0 || size > left)
            break;
        left -= size;
        VEC_PUSH(cx->arena, *out, size);
    }
    if (out->len == list->len && left == 0)
        return true;
    fe_error(cx, loc, "the sizes of the parts do not add up to %lld",
             (long long)whole);
    return false;
}

static bool
read_parts(Lower *cx, const FeArgs *in, Dim whole, Sizes *out)
{
    FeValue *v = fe_arg(in, 1);
    Loc loc = fe_arg_loc(in, 1);
    int64_t parts;
    if (!ir_dim_is_const(whole)) {
        fe_error(cx, in->loc,
                 "the batch cannot be split: its length is known "
                 "only when the step runs");
        return false;
    }
    if (v->kind == FE_NEST)
        return listed_parts(cx, &v->nest, whole.c, loc, out);
    return fe_require_int(cx, v, "the number of parts", loc, &parts) &&
           equal_parts(cx, parts, whole.c, loc, out);
}

FeValue *
fe_builtin_split(Lower *cx, const FeArgs *in)
{
    int64_t axis, start = 0;
    Sizes sizes = {0};
    FeValues parts = {0};
    IrValue *x = operand(cx, in, 0);
    if (!x || !read_axis(cx, in, 2, x->type.rank, &axis))
        return &fe_poison;
    if (x->type.rank == 0)
        return fe_error(cx, in->loc, "a scalar cannot be split");
    if (!read_parts(cx, in, x->type.dims[axis], &sizes))
        return &fe_poison;
    for (int i = 0; i < sizes.len; i++) {
        VEC_PUSH(cx->arena, parts,
                 slice_axis(cx, x, axis, start, ir_dim_const(sizes.data[i]),
                            in->loc));
        start += sizes.data[i];
    }
    return fe_value_list(cx->arena, parts.len, parts.data);
}

static FeValue *
refuse_count(Lower *cx, const FeArgs *in, int i, int rank)
{
    const char *plural = rank == 1 ? "" : "s";
    return fe_error(cx, fe_arg_loc(in, i),
                    "%s of a value of %d dimension%s takes %d number%s",
                    in->name, rank, plural, rank, plural);
}

/* Whether parameter i has an item for each axis. */
static bool
check_count(Lower *cx, const FeArgs *in, int i, int rank)
{
    const FeValue *v = fe_arg(in, i);
    int n = v->kind == FE_NEST ? v->nest.len : 1;
    if (n != rank)
        refuse_count(cx, in, i, rank);
    return n == rank;
}

/* One integer for each axis of x. */
static bool
read_ints(Lower *cx, const FeArgs *in, int i, int rank, int64_t *out)
{
    FeValue *v = fe_arg(in, i);
    FeValue *const *items = v->kind == FE_NEST ? v->nest.items : &v;
    if (!check_count(cx, in, i, rank))
        return false;
    for (int k = 0; k < rank; k++)
        if (!fe_require_int(cx, items[k], "this", fe_arg_loc(in, i), &out[k]))
            return false;
    return true;
}

/* Where a slice begins along one axis. */
typedef struct Start {
    int64_t known;
    IrValue *value; /* an i64 of run time, or NULL */
} Start;

static bool
read_start(Lower *cx, FeValue *v, Loc loc, Start *out)
{
    IrType t;
    *out = (Start){0};
    bool runs = !fe_value_is_int(v, &out->known) && fe_type_of(cx, v, &t) &&
                t.rank == 0 && dtype_is_int(t.dtype);
    if (!runs)
        return fe_require_int(cx, v, "where a slice begins", loc, &out->known);
    if (!fe_check_can_emit(cx, loc))
        return false;
    IrValue *x = fe_operand(cx, v, loc);
    if (x)
        out->value = ir_build_cast(cx->block, x, DT_i64, loc);
    return x != NULL;
}

/* Start and size of each axis of x. */
static bool
read_places(Lower *cx, const FeArgs *in, int rank, Start *starts, Shape *sizes)
{
    FeValue *v = fe_arg(in, 1);
    FeValue *const *items = v->kind == FE_NEST ? v->nest.items : &v;
    if (!check_count(cx, in, 1, rank) || !read_shape(cx, in, 2, sizes))
        return false;
    for (int i = 0; i < rank; i++)
        if (!read_start(cx, items[i], fe_arg_loc(in, 1), &starts[i]))
            return false;
    return true;
}

/* The part of the axes whose start is known now, and all of the others. */
static FeValue *
slice_known(Lower *cx, IrValue *x, const Start *starts, const Shape *sizes,
            Loc loc)
{
    int64_t start[IR_MAX_RANK], step[IR_MAX_RANK];
    Dim dims[IR_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) {
        start[i] = starts[i].known;
        dims[i] = starts[i].value ? x->type.dims[i] : sizes->dims[i];
        step[i] = 1;
    }
    IrOp *op = fe_op(cx, OP_slice, 1, &x, loc);
    ir_set_ints(op, A_start, start, x->type.rank);
    ir_set_dims(op, A_dims, dims, x->type.rank);
    ir_set_ints(op, A_step, step, x->type.rank);
    return fe_emit(cx, op);
}

/* size elements along an axis from a start of run time on: they are taken by
 * their indices, whose ends are checked with them. */
static FeValue *
slice_from(Lower *cx, IrValue *x, int64_t axis, IrValue *start, Dim size,
           Loc loc)
{
    Shape s = {.rank = 1, .dims = {size}};
    IrValue *numbers = fe_tensor(iota(cx, DT_i64, &s, 0, loc));
    if (!numbers)
        return &fe_poison;
    IrValue *indices = ir_build2(cx->block, OP_add, numbers, start, loc);
    return fe_take(cx, x, indices, axis, loc);
}

FeValue *
fe_builtin_slice(Lower *cx, const FeArgs *in)
{
    Start starts[IR_MAX_RANK];
    Shape sizes;
    IrValue *x = operand(cx, in, 0);
    if (!x || !read_places(cx, in, x->type.rank, starts, &sizes))
        return &fe_poison;
    if (sizes.rank != x->type.rank)
        return refuse_count(cx, in, 2, x->type.rank);
    int rank = x->type.rank;
    FeValue *v = slice_known(cx, x, starts, &sizes, in->loc);
    for (int i = 0; i < rank && !fe_is_poison(v); i++)
        if (starts[i].value)
            v = slice_from(cx, v->tensor, i, starts[i].value, sizes.dims[i],
                           in->loc);
    return v;
}

/* ---- pad ---------------------------------------------------------------- */

/* NumPy's: (before, after) for each axis, one pair or one number for all. */
static bool
read_pairs(Lower *cx, const FeArgs *in, int rank, int64_t *low, int64_t *high)
{
    FeValue *v = fe_arg(in, 1);
    Loc loc = fe_arg_loc(in, 1);
    bool each = v->kind == FE_NEST && v->nest.len > 0 &&
                v->nest.items[0]->kind == FE_NEST;
    if (each && !check_count(cx, in, 1, rank))
        return false;
    for (int i = 0; i < rank; i++) {
        FeValue *pair = each ? v->nest.items[i] : v;
        bool is_pair = pair->kind == FE_NEST && pair->nest.len == 2;
        if (pair->kind == FE_NEST && !is_pair) {
            fe_error_note(cx, loc, "pad(x, ((2, 2), (0, 1))), pad(x, 2)",
                          "pad without \"high\" takes a pair for each axis");
            return false;
        }
        FeValue *before = is_pair ? pair->nest.items[0] : pair;
        FeValue *after = is_pair ? pair->nest.items[1] : pair;
        if (!fe_require_int(cx, before, "what to pad by", loc, &low[i]) ||
            !fe_require_int(cx, after, "what to pad by", loc, &high[i]))
            return false;
    }
    return true;
}

FeValue *
fe_builtin_pad(Lower *cx, const FeArgs *in)
{
    int64_t low[IR_MAX_RANK], high[IR_MAX_RANK], step[IR_MAX_RANK];
    Dim dims[IR_MAX_RANK];
    IrValue *x = operand(cx, in, 0);
    int rank = x ? x->type.rank : 0;
    if (!x)
        return &fe_poison;
    if (fe_arg(in, 2) ? !read_ints(cx, in, 1, rank, low) ||
                            !read_ints(cx, in, 2, rank, high)
                      : !read_pairs(cx, in, rank, low, high))
        return &fe_poison;
    for (int i = 0; i < rank; i++) {
        bool fits =
            low[i] >= 0 && high[i] >= 0 &&
            ir_dim_add(x->type.dims[i], ir_dim_const(low[i]), &dims[i]) &&
            ir_dim_add(dims[i], ir_dim_const(high[i]), &dims[i]);
        if (!fits)
            return fe_error(cx, in->loc, "cannot pad by %lld and %lld",
                            (long long)low[i], (long long)high[i]);
        step[i] = 1;
    }
    IrOp *op = fe_op(cx, OP_pad, 1, &x, in->loc);
    ir_set_ints(op, A_low, low, rank);
    ir_set_dims(op, A_dims, dims, rank);
    ir_set_ints(op, A_step, step, rank);
    return fe_emit(cx, op);
}

/* ---- by index ----------------------------------------------------------- */

/* x where column - row, compared to k, holds; 0 elsewhere. */
static FeValue *
triangle(Lower *cx, const FeArgs *in, IrOpKind compare)
{
    int64_t k = 0;
    IrValue *x = operand(cx, in, 0);
    if (!x || !fe_arg_int(cx, in, 1, "k", &k))
        return &fe_poison;
    if (x->type.rank < 2)
        return fe_error(cx, in->loc, "%s is for matrices, not %s", in->name,
                        fe_type_text(cx, &x->type));
    Shape s = {
        2, {x->type.dims[x->type.rank - 2], x->type.dims[x->type.rank - 1]}};
    FeValue *row = iota(cx, DT_i64, &s, 0, in->loc);
    FeValue *last =
        fe_op2(cx, OP_add, row, fe_value_int(cx->arena, k), in->loc);
    FeValue *keep =
        fe_op2(cx, compare, iota(cx, DT_i64, &s, 1, in->loc), last, in->loc);
    Scalar zero = scalar_cast(scalar_int(DT_i64, 0), x->type.dtype);
    return fe_op3(cx, OP_where, keep, fe_value_tensor(cx->arena, x),
                  fe_value_scalar(cx->arena, zero), in->loc);
}

FeValue *
fe_builtin_tril(Lower *cx, const FeArgs *in)
{
    return triangle(cx, in, OP_le);
}

FeValue *
fe_builtin_triu(Lower *cx, const FeArgs *in)
{
    return triangle(cx, in, OP_ge);
}

static FeOwn
own_arg(Lower *cx, const FeArgs *in, int i)
{
    const AstNode *node = in->args[i] ? in->args[i]->node : NULL;
    return node ? fe_own(cx, node) : fe_own_at(cx, fe_arg_loc(in, i));
}

/* A cast that its author wrote is what is wrong. */
static FeValue *
refuse_labels(Lower *cx, const IrType *t, const FeOwn *at)
{
    const AstNode *n = at->node;
    DType cast;
    bool casts = n && n->kind == AST_CALL && n->call.args.len == 1 &&
                 n->call.callee->kind == AST_NAME &&
                 dtype_by_name(n->call.callee->name.text, &cast);
    const char *text = casts ? fe_ast_text(cx->arena, n->call.args.data[0])
                       : n   ? fe_ast_text(cx->arena, n)
                             : "...";
    return fe_error_own(cx, at, NO_LOC,
                        casts ? fe_format(cx,
                                          "leave the cast out: %s, or "
                                          "i32(%s) if that is a float",
                                          text, text)
                              : fe_format(cx, "cast them: i32(%s)", text),
                        "labels, which are the numbers of classes, are "
                        "integers, not %s",
                        fe_type_text(cx, t));
}

FeValue *
fe_builtin_one_hot(Lower *cx, const FeArgs *in)
{
    DType t = fe_default_float(cx);
    Shape s = {.rank = 1};
    IrValue *x = operand(cx, in, 0);
    if (!x ||
        !fe_require_dim(cx, fe_arg(in, 1), "size", fe_arg_loc(in, 1), s.dims) ||
        !fe_arg_dtype(cx, in, 2, &t))
        return &fe_poison;
    FeOwn at = own_arg(cx, in, 0);
    bool is_own = !diag_is_library(cx->diag, in->loc.file);
    if (!dtype_is_int(x->type.dtype))
        return refuse_labels(cx, &x->type, &at);
    if (dtype_info[x->type.dtype].bytes < 4) /* may not count up to size */
        x = fe_tensor(fe_cast(cx, fe_arg(in, 0), DT_i32, in->loc));
    if (!x)
        return &fe_poison;
    if (!fe_check_labels(cx, x, s.dims[0], &at, is_own ? in->loc : NO_LOC,
                         fe_arg_loc(in, 1)))
        return &fe_poison;
    FeValue *index = expand(cx, x, x->type.rank, in->loc);
    FeValue *places = iota(cx, x->type.dtype, &s, 0, in->loc);
    return fe_cast(cx, fe_op2(cx, OP_eq, index, places, in->loc), t, in->loc);
}

/* ---- asking ------------------------------------------------------------- */

/* The type of a tensor that need not be computed for it. */
static bool
type_of(Lower *cx, const FeArgs *in, IrType *out)
{
    if (fe_is_slices(fe_arg(in, 0))) {
        *out = fe_slices_type(fe_arg(in, 0));
        return true;
    }
    if (fe_type_of(cx, fe_arg(in, 0), out))
        return true;
    fe_error_note(cx, fe_arg_loc(in, 0),
                  fe_arg(in, 0)->kind == FE_DATASET
                      ? "its elements are counted by a loop: mut n = 0 before "
                        "it, and n += 1 in it"
                      : NULL,
                  "%s has no %s", fe_describe(cx, fe_arg(in, 0)),
                  strcmp(in->name, "len") == 0 ? "length" : in->name);
    return false;
}

FeValue *
fe_builtin_len(Lower *cx, const FeArgs *in)
{
    IrType t;
    FeValue *v = fe_arg(in, 0);
    if (v->kind == FE_NEST && !fe_is_slices(v))
        return fe_value_length(cx->arena, ir_dim_const(v->nest.len));
    if (!type_of(cx, in, &t))
        return &fe_poison;
    if (t.rank == 0)
        return fe_error(cx, in->loc, "a scalar has no length");
    return fe_value_length(cx->arena, t.dims[0]);
}

FeValue *
fe_builtin_shape(Lower *cx, const FeArgs *in)
{
    IrType t;
    FeValue *dims[IR_MAX_RANK];
    if (!type_of(cx, in, &t))
        return &fe_poison;
    for (int i = 0; i < t.rank; i++)
        dims[i] = fe_value_dim(cx->arena, t.dims[i]);
    return fe_value_tuple(cx->arena, t.rank, dims);
}

FeValue *
fe_builtin_rank(Lower *cx, const FeArgs *in)
{
    IrType t;
    return type_of(cx, in, &t) ? fe_value_int(cx->arena, t.rank) : &fe_poison;
}

FeValue *
fe_builtin_dtype(Lower *cx, const FeArgs *in)
{
    IrType t;
    return type_of(cx, in, &t)
               ? fe_value_type(cx->arena, ir_type_scalar(t.dtype, LOCAL_HOST))
               : &fe_poison;
}

FeValue *
fe_builtin_zip(Lower *cx, const FeArgs *in)
{
    return fe_zip(cx, in->call);
}

FeValue *
fe_builtin_take(Lower *cx, const FeArgs *in)
{
    IrValue *x = operand(cx, in, 0), *index = operand(cx, in, 1);
    FeOwn at = own_arg(cx, in, 1);
    int64_t axis = 0;
    if (!x || !index)
        return &fe_poison;
    if (x->type.rank == 0)
        return fe_error(cx, fe_arg_loc(in, 0), "a scalar has nothing to take");
    if (!dtype_is_int(index->type.dtype))
        return fe_index_dtype_error(cx, index->type.dtype, &at), &fe_poison;
    if (fe_arg(in, 2) && !fe_require_axis(cx, fe_arg(in, 2), x->type.rank,
                                          fe_arg_loc(in, 2), &axis))
        return &fe_poison;
    return fe_take(cx, x, index, axis, in->loc);
}
