/*
 * builtins_shape.c - new values, and the same elements in other places
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/messages.h"
#include "frontend/emit/index.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/shape_ops.h"
#include "frontend/emit/slices.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/call.h"
#include "ir/type_text.h"

#include <string.h>

IrValue *
fe_arg_operand(Lower *cx, const FeArgs *in, int i)
{
    return fe_operand(cx, fe_arg(in, i), fe_arg_loc(in, i));
}

/* ---- new values --------------------------------------------------------- */

bool
fe_arg_shape(Lower *cx, const FeArgs *in, int i, FeShape *out)
{
    return fe_require_dims(cx, fe_arg(in, i), "a shape", fe_arg_loc(in, i),
                           out->dims, &out->rank);
}

static FeValue *
filled(Lower *cx, const FeArgs *in, int64_t number)
{
    FeShape s;
    DType t = fe_default_float(cx);
    if (!fe_arg_shape(cx, in, 0, &s) || !fe_arg_dtype(cx, in, 1, &t))
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
    FeShape s;
    if (!fe_arg_shape(cx, in, 0, &s))
        return &fe_poison;
    return fe_broadcast(cx, fe_arg_operand(cx, in, 1), s.rank, s.dims, in->loc);
}

FeValue *
fe_iota(Lower *cx, DType t, const FeShape *s, int64_t axis, Loc loc)
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
    FeShape s;
    DType t = DT_i64;
    int64_t axis = 0;
    if (!fe_arg_shape(cx, in, 0, &s) || !fe_arg_dtype(cx, in, 2, &t))
        return &fe_poison;
    if (fe_arg(in, 1) &&
        !fe_require_axis(cx, fe_arg(in, 1), s.rank, fe_arg_loc(in, 1), &axis))
        return &fe_poison;
    return fe_iota(cx, t, &s, axis, in->loc);
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
close_shape(Lower *cx, const IrValue *x, FeShape *s, int open, Loc loc)
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
open_note(Lower *cx, Dim elements, const FeShape *s)
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
        "leave reshape out and write .batch(%lld, drop_remainder = true)"
        ".batch(%lld) in place of .batch(...) in the dataset: its elements "
        "then have rows of %lld",
        (long long)s->dims[is_grid].c, is_grid ? (long long)s->dims[0].c : 1,
        (long long)s->dims[is_grid].c);
}

/* Whether x has as many elements as the shape; a replica's share of a batch
 * has a length that no constant is. */
static bool
check_elements(Lower *cx, const IrValue *x, const FeShape *s, Loc loc)
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
                      "cannot reshape %s to %s: %s, a number of rows, is "
                      "known only when the program runs",
                      from, to, cx->module->symbols.data[have.sym].name);
    return false;
}

FeValue *
fe_builtin_reshape(Lower *cx, const FeArgs *in)
{
    FeShape s;
    FeValue *shape = fe_arg(in, 1);
    IrValue *x = fe_arg_operand(cx, in, 0);
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
    FeShape s = {.rank = x->type.rank + 1};
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
    IrValue *x = fe_arg_operand(cx, in, 0);
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
    IrValue *x = fe_arg_operand(cx, in, 0);
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
    IrValue *x = fe_arg_operand(cx, in, 0);
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
    IrValue *x = fe_arg_operand(cx, in, 0);
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

/* concat([x, y]) of concat(x, y). */
static const char *
several_note(Lower *cx, const FeArgs *in)
{
    IrType t;
    FeValue *second = fe_arg(in, 1);
    bool is_value = second && fe_type_of(cx, second, &t) && t.rank > 0;
    if (!is_value)
        return NULL;
    const char *x = fe_arg_text(cx, in, 0), *y = fe_arg_text(cx, in, 1);
    return fe_format(cx, "write %s([%s, %s])", in->name, x, y);
}

static bool
read_several(Lower *cx, const FeArgs *in, Several *out)
{
    FeValue *list = fe_arg(in, 0);
    if (list->kind != FE_NEST || list->nest.len == 0) {
        fe_error_note(cx, fe_arg_loc(in, 0), several_note(cx, in),
                      "%s needs a list of values, not %s", in->name,
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

bool
fe_arg_axis(Lower *cx, const FeArgs *in, int i, int rank, int64_t *axis)
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
    if (!read_several(cx, in, &s) || !fe_arg_axis(cx, in, 1, s.rank, &axis))
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
    if (!read_several(cx, in, &s) || !fe_arg_axis(cx, in, 1, s.rank + 1, &axis))
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

/* ---- by index ----------------------------------------------------------- */

/* k, or a diagonal that no matrix reaches either and rows can be added to. */
static int64_t
bounded_diagonal(int64_t k)
{
    const int64_t most = INT64_C(1) << 62;
    return k > most ? most : k < -most ? -most : k;
}

/* x where column - row, compared to k, holds; 0 elsewhere. */
static FeValue *
triangle(Lower *cx, const FeArgs *in, IrOpKind compare)
{
    int64_t k = 0;
    IrValue *x = fe_arg_operand(cx, in, 0);
    if (!x || !fe_arg_int(cx, in, 1, "k", &k))
        return &fe_poison;
    if (x->type.rank < 2)
        return fe_error(cx, in->loc, "%s is for matrices, not %s", in->name,
                        fe_type_text(cx, &x->type));
    FeShape s = {
        2, {x->type.dims[x->type.rank - 2], x->type.dims[x->type.rank - 1]}};
    FeValue *row = fe_iota(cx, DT_i64, &s, 0, in->loc);
    FeValue *last = fe_op2(
        cx, OP_add, row, fe_value_int(cx->arena, bounded_diagonal(k)), in->loc);
    FeValue *keep =
        fe_op2(cx, compare, fe_iota(cx, DT_i64, &s, 1, in->loc), last, in->loc);
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
    FeShape s = {.rank = 1};
    IrValue *x = fe_arg_operand(cx, in, 0);
    if (!x ||
        !fe_require_dim(cx, fe_arg(in, 1), "size", fe_arg_loc(in, 1), s.dims) ||
        !fe_arg_dtype(cx, in, 2, &t))
        return &fe_poison;
    FeOwn at = fe_arg_own(cx, in, 0);
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
    FeValue *places = fe_iota(cx, x->type.dtype, &s, 0, in->loc);
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
    IrValue *x = fe_arg_operand(cx, in, 0), *index = fe_arg_operand(cx, in, 1);
    FeOwn at = fe_arg_own(cx, in, 1);
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
