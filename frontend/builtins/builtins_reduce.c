/*
 * builtins_reduce.c - sums, means, extrema over axes
 *
 * Only a sum over no elements has a value everybody expects.  A mean or an
 * extremum over a replica's share of a batch, which may be empty, is an error:
 * it would be NaN or infinite on some number of devices only.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/shape_ops.h"
#include "ir/rules/build.h"
#include "ir/type_text.h"

#include <string.h>

IrValue *
fe_arg_over(Lower *cx, const FeArgs *in, int axis, FeOver *out)
{
    IrValue *x = fe_operand(cx, fe_arg(in, 0), fe_arg_loc(in, 0));
    out->keepdims = false;
    if (!x || !fe_arg_axes(cx, in, axis, x->type.rank, &out->axes) ||
        !fe_arg_bool(cx, in, axis + 1, "keepdims", &out->keepdims))
        return NULL;
    return x;
}

/* Whether a truth value may be combined: how many are true is asked for by a
 * cast. */
static bool
check_bool(Lower *cx, const FeArgs *in, const IrValue *x)
{
    IrOpKind op = fe_builtin_op(in->builtin);
    if (x->type.dtype != DT_bool || (op != OP_sum && op != OP_prod))
        return true;
    const char *what = fe_arg_text(cx, in, 0);
    fe_error_note(cx, in->loc,
                  fe_format(cx, "cast it: %s(f32(%s)), or %s(i32(%s)) to count",
                            in->name, what, in->name, what),
                  "%s of bool needs a cast", in->name);
    return false;
}

FeValue *
fe_builtin_reduction(Lower *cx, const FeArgs *in)
{
    FeOver over;
    IrValue *x = fe_arg_over(cx, in, 1, &over);
    if (!x || !check_bool(cx, in, x))
        return &fe_poison;
    return fe_reduce_axes(cx, fe_builtin_op(in->builtin), x, &over.axes,
                          over.keepdims, in->loc);
}

/* ---- over nothing ------------------------------------------------------- */

/* Whether d is 0 when a replica has no rows.  All replicas together, and the
 * batch of a dataset, always have some. */
static bool
may_be_zero(const Lower *cx, Dim d)
{
    if (ir_dim_is_const(d))
        return d.c == 0;
    const IrSymbol *s = &cx->module->symbols.data[d.sym];
    return (ir_symbol_is_share(s) || s->of >= 0) && d.c == 0;
}

bool
fe_check_some(Lower *cx, const IrValue *x, const FeAxes *axes, const char *name,
              const char *note, Loc loc)
{
    for (int i = 0; i < axes->len; i++) {
        Dim d = x->type.dims[axes->axes[i]];
        if (!may_be_zero(cx, d))
            continue;
        if (ir_dim_is_const(d))
            fe_error(cx, loc, "%s over no elements", name);
        else
            fe_error_note(cx, loc, note,
                          "%s over a replica's share of the batch, which may "
                          "have no rows",
                          name);
        return false;
    }
    return true;
}

/* ---- means -------------------------------------------------------------- */

bool
fe_count_over(const IrType *t, const FeAxes *axes, Dim *out)
{
    *out = ir_dim_const(1);
    for (int i = 0; i < axes->len; i++)
        if (!ir_dim_mul(*out, t->dims[axes->axes[i]], out))
            return false;
    return true;
}

bool
fe_check_floats(Lower *cx, const IrValue *x, const char *name, const char *what,
                Loc loc)
{
    DType t = x->type.dtype;
    if (!dtype_is_float(t))
        fe_error_note(cx, loc,
                      fe_format(cx, "cast it: %s(f32(%s))", name, what),
                      "%s of %s asks for a cast", name,
                      t == DT_bool ? "bool" : "integers");
    return dtype_is_float(t);
}

/* ", axis = 0" of a call over some of the axes of x. */
static const char *
axis_text(Lower *cx, const IrValue *x, const FeAxes *axes, bool keepdims)
{
    Str s = str_new(cx->arena);
    const char *kept = keepdims ? ", keepdims = true" : "";
    if (axes->len == 1)
        return fe_format(cx, ", axis = %d%s", (int)axes->axes[0], kept);
    for (int i = 0; i < axes->len && axes->len < x->type.rank; i++)
        str_addf(&s, "%s%d", i ? ", " : "", (int)axes->axes[i]);
    return s.len ? fe_format(cx, ", axis = (%s)%s", str_text(&s), kept) : kept;
}

/* "f32(n * 2)": how many elements are in a mean over the rows of the whole
 * batch, n. */
static const char *
count_text(Lower *cx, const IrValue *x, const FeAxes *axes)
{
    int64_t others = 1;
    for (int i = 0; i < axes->len; i++)
        if (ir_dim_is_const(x->type.dims[axes->axes[i]]))
            others *= x->type.dims[axes->axes[i]].c;
    const char *dtype = dtype_info[x->type.dtype].name;
    return others == 1
               ? fe_format(cx, "%s(n)", dtype)
               : fe_format(cx, "%s(n * %lld)", dtype, (long long)others);
}

const char *
fe_mean_of_rows(Lower *cx, const IrValue *x, const FeAxes *axes, bool keepdims,
                const char *what)
{
    return fe_format(cx, "all_reduce(sum, sum(%s%s)) / %s", what,
                     axis_text(cx, x, axes, keepdims), count_text(cx, x, axes));
}

/* What to write for a mean over a share. */
static const char *
mean_note(Lower *cx, const IrValue *x, const FeAxes *axes, bool keepdims,
          const char *what)
{
    if (x->type.locality == LOCAL_HOST)
        return fe_format(cx, "write sum(%s) / f32(max(len(%s), 1))", what,
                         what);
    if (axes->len < x->type.rank || keepdims)
        return fe_format(cx, "with n the rows of the whole batch, write %s",
                         fe_mean_of_rows(cx, x, axes, keepdims, what));
    return fe_format(cx,
                     "write global_mean(%s), or, with n the rows of the whole "
                     "batch, sum(%s) / %s, whose parts reduce(sum, ...) adds "
                     "up",
                     what, what, count_text(cx, x, axes));
}

FeValue *
fe_mean(Lower *cx, IrValue *x, const FeAxes *axes, bool keepdims,
        const char *what, Loc loc)
{
    Dim count;
    const IrType *t = &x->type;
    if (!fe_check_floats(cx, x, "mean", what, loc))
        return &fe_poison;
    const char *note = mean_note(cx, x, axes, keepdims, what);
    if (!fe_check_some(cx, x, axes, "mean", note, loc))
        return &fe_poison;
    if (!fe_count_over(t, axes, &count))
        return fe_error_note(cx, loc, "take the mean over one axis at a time",
                             "mean over two axes with the batch's length");
    /* Sums and numbers of elements may be beyond f16. */
    DType own = t->dtype, wide = dtype_compute(own);
    FeValue *divisor =
        fe_cast(cx, fe_value_length(cx->arena, count), wide, loc);
    x = ir_build_cast(cx->block, x, wide, loc);
    FeValue *sum = fe_reduce_axes(cx, OP_sum, x, axes, keepdims, loc);
    return fe_cast(cx, fe_op2(cx, OP_div, sum, divisor, loc), own, loc);
}

FeValue *
fe_builtin_mean(Lower *cx, const FeArgs *in)
{
    FeOver over;
    IrValue *x = fe_arg_over(cx, in, 1, &over);
    if (!x)
        return &fe_poison;
    return fe_mean(cx, x, &over.axes, over.keepdims, fe_arg_text(cx, in, 0),
                   in->loc);
}

/* ---- extrema ------------------------------------------------------------ */

/* The greater (smaller) of two integers known now; NULL if they are not. */
static FeValue *
extremum_of_constants(FeValue *x, FeValue *y, bool is_max)
{
    int64_t a, b;
    if (!fe_value_is_int(x, &a) || !fe_value_is_int(y, &b) ||
        x->constant.untyped != y->constant.untyped ||
        x->constant.scalar.dtype != y->constant.scalar.dtype)
        return NULL;
    return (a > b) == is_max ? x : y;
}

static FeValue *
extremum_of_two(Lower *cx, const FeArgs *in)
{
    bool is_max = fe_builtin_op(in->builtin) == OP_reduce_max;
    FeValue *x = fe_arg(in, 0), *y = fe_arg(in, 1);
    if (in->args[2] || in->args[3])
        return fe_error(cx, in->loc,
                        "%s of two values goes element by element and has no "
                        "axis",
                        in->name);
    FeValue *known = extremum_of_constants(x, y, is_max);
    if (known)
        return known;
    return fe_op2(cx, is_max ? OP_maximum : OP_minimum, x, y, in->loc);
}

FeValue *
fe_builtin_extremum(Lower *cx, const FeArgs *in)
{
    FeOver over;
    if (fe_arg(in, 1))
        return extremum_of_two(cx, in);
    IrValue *x = fe_arg_over(cx, in, 2, &over);
    const char *note =
        fe_format(cx, "%s(concat([[least], %s])) is of one element or more",
                  in->name, fe_arg_text(cx, in, 0));
    if (!x || !fe_check_some(cx, x, &over.axes, in->name,
                             x->type.rank == 1 ? note : NULL, in->loc))
        return &fe_poison;
    return fe_reduce_axes(cx, fe_builtin_op(in->builtin), x, &over.axes,
                          over.keepdims, in->loc);
}

FeValue *
fe_builtin_argument(Lower *cx, const FeArgs *in)
{
    FeOver over;
    IrValue *x = fe_arg_over(cx, in, 1, &over);
    if (x && !fe_arg(in, 1)) {
        x = fe_flatten(cx, x, in->loc);
        over.axes = (FeAxes){.len = 1};
    }
    if (!x || !fe_check_some(cx, x, &over.axes, in->name, NULL, in->loc))
        return &fe_poison;
    return fe_reduce_axes(cx, fe_builtin_op(in->builtin), x, &over.axes,
                          over.keepdims, in->loc);
}
