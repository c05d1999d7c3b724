/*
 * builtins_norm.c - roots of sums of squares: norm, std, hypot
 *
 * A square overflows long before its root would, so what is squared is scaled
 * by a power of two first, where its magnitudes ask for it.  The gradient at 0,
 * where the root has none, is 0.  f16 and bf16 are computed in f32.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"

#include <math.h>

/* x in the dtype that its squares are added in. */
static FeValue *
wide(Lower *cx, IrValue *x, Loc loc)
{
    DType t = dtype_compute(x->type.dtype);
    return fe_cast(cx, fe_value_tensor(cx->arena, x), t, loc);
}

static FeValue *
square(Lower *cx, FeValue *x, Loc loc)
{
    return fe_op2(cx, OP_mul, x, x, loc);
}

/* The square root; at 0 with the gradient of x, which there is a square's. */
static FeValue *
root(Lower *cx, FeValue *x, Loc loc)
{
    FeValue *zero = fe_value_float(cx->arena, 0);
    FeValue *one = fe_value_float(cx->arena, 1);
    FeValue *positive = fe_op2(cx, OP_gt, x, zero, loc);
    FeValue *safe = fe_op3(cx, OP_where, positive, x, one, loc);
    FeValue *y = fe_op1(cx, OP_sqrt, safe, loc);
    return fe_op3(cx, OP_where, positive, y, x, loc);
}

/* What to multiply by before squaring, and the root by afterwards. */
typedef struct Scale {
    FeValue *down, *back;
} Scale;

/* Magnitudes beyond 2^bound are scaled by 2^-exponent, those below 2^-bound by
 * 2^exponent: their squares, sums of many, and the cotangent of a sum are in
 * range then. */
typedef struct Tier {
    int bound, exponent;
} Tier;

static const Tier f32_tiers[] = {{50, 45}, {95, 90}};
static const Tier f64_tiers[] = {{400, 350}, {750, 700}};

/* One; 2^(-sign * exponent) where largest is beyond a bound. */
static FeValue *
power_for(Lower *cx, FeValue *largest, DType t, int sign, Loc loc)
{
    const Tier *tiers = t == DT_f64 ? f64_tiers : f32_tiers;
    Arena *arena = cx->arena;
    FeValue *power = fe_cast(cx, fe_value_float(arena, 1), t, loc);
    for (int i = 0; i < 2; i++) {
        int e = sign * tiers[i].exponent;
        FeValue *high = fe_value_float(arena, ldexp(1, tiers[i].bound));
        FeValue *low = fe_value_float(arena, ldexp(1, -tiers[i].bound));
        FeValue *is_great = fe_op2(cx, OP_gt, largest, high, loc);
        FeValue *is_small = fe_op2(cx, OP_lt, largest, low, loc);
        power = fe_op3(cx, OP_where, is_great,
                       fe_value_float(arena, ldexp(1, -e)), power, loc);
        power = fe_op3(cx, OP_where, is_small,
                       fe_value_float(arena, ldexp(1, e)), power, loc);
    }
    return power;
}

/* largest is the greatest magnitude, of dtype t.  Powers of two round nothing,
 * and both are 1 for all ordinary magnitudes (J. L. Blue, A Portable Fortran
 * Program to Find the Euclidean Norm of a Vector, ACM TOMS 4, 1978). */
static Scale
scale_of(Lower *cx, FeValue *largest, DType t, Loc loc)
{
    FeValue *down = power_for(cx, largest, t, 1, loc);
    FeValue *back = power_for(cx, largest, t, -1, loc);
    return (Scale){down, back};
}

/* x, where each axis that was reduced over is kept as 1, as over asks. */
static FeValue *
finish_axes(Lower *cx, FeValue *x, const FeOver *over, Loc loc)
{
    IrValue *v = fe_tensor(x);
    return over->keepdims || !v ? x : fe_drop_axes(cx, v, &over->axes, loc);
}

/* ---- norm --------------------------------------------------------------- */

/* The root of the sum of the squares over axes, which stay as 1, divided by
 * divisor unless that is NULL.  Of no elements, which a replica's share may
 * have, the greatest is -inf, and the sum 0. */
static FeValue *
length_over(Lower *cx, FeValue *x, const FeAxes *axes, FeValue *divisor,
            Loc loc)
{
    IrValue *magnitude = fe_tensor(fe_op1(cx, OP_abs, x, loc));
    if (!magnitude)
        return &fe_poison;
    FeValue *largest =
        fe_reduce_axes(cx, OP_reduce_max, magnitude, axes, true, loc);
    Scale scale = scale_of(cx, largest, magnitude->type.dtype, loc);
    FeValue *part = fe_op2(cx, OP_mul, x, scale.down, loc);
    IrValue *squares = fe_tensor(square(cx, part, loc));
    if (!squares)
        return &fe_poison;
    FeValue *sum = fe_reduce_axes(cx, OP_sum, squares, axes, true, loc);
    if (divisor)
        sum = fe_op2(cx, OP_div, sum, divisor, loc);
    return fe_op2(cx, OP_mul, scale.back, root(cx, sum, loc), loc);
}

FeValue *
fe_builtin_norm(Lower *cx, const FeArgs *in)
{
    FeOver over;
    Loc loc = in->loc;
    IrValue *x = fe_arg_over(cx, in, 1, &over);
    if (!x || !fe_check_floats(cx, x, in->name, fe_arg_text(cx, in, 0), loc))
        return &fe_poison;
    FeValue *y = length_over(cx, wide(cx, x, loc), &over.axes, NULL, loc);
    y = finish_axes(cx, y, &over, loc);
    return fe_cast(cx, y, x->type.dtype, loc);
}

/* ---- std ---------------------------------------------------------------- */

/* How many elements axes have, of which each has some. */
static bool
read_count(Lower *cx, const IrType *t, const FeAxes *axes, Loc loc, Dim *out)
{
    bool known = fe_count_over(t, axes, out);
    if (!known)
        fe_error_note(cx, loc, "take it over one axis at a time",
                      "std over two axes with the batch's length");
    return known;
}

static bool
check_freedom(Lower *cx, Dim count, int64_t ddof, Loc loc)
{
    if (ddof >= 0 && (!ir_dim_is_const(count) || count.c > ddof))
        return true;
    fe_error(cx, loc, "std with ddof = %lld of %lld element%s", (long long)ddof,
             (long long)count.c, count.c == 1 ? "" : "s");
    return false;
}

/* What to write for a std over a share. */
static const char *
std_note(Lower *cx, const IrValue *x, const FeOver *over, const char *what)
{
    const FeAxes *axes = &over->axes;
    if (axes->len == x->type.rank && !over->keepdims)
        return fe_format(cx,
                         "write sqrt(global_mean((%s - global_mean(%s)) ** 2))",
                         what, what);
    const char *square = fe_format(cx, "(%s - m) ** 2", what);
    return fe_format(cx,
                     "with n the rows of the whole batch and let m = %s, write "
                     "sqrt(%s)",
                     fe_mean_of_rows(cx, x, axes, true, what),
                     fe_mean_of_rows(cx, x, axes, over->keepdims, square));
}

FeValue *
fe_builtin_std(Lower *cx, const FeArgs *in)
{
    Dim count;
    FeOver over;
    int64_t ddof = 0;
    Loc loc = in->loc;
    const char *what = fe_arg_text(cx, in, 0);
    IrValue *x = fe_arg_over(cx, in, 1, &over);
    const char *note = x ? std_note(cx, x, &over, what) : NULL;
    if (!x || !fe_arg_int(cx, in, 3, "ddof", &ddof) ||
        !fe_check_floats(cx, x, in->name, what, loc) ||
        !fe_check_some(cx, x, &over.axes, in->name, note, loc) ||
        !read_count(cx, &x->type, &over.axes, loc, &count) ||
        !check_freedom(cx, count, ddof, loc))
        return &fe_poison;
    IrValue *y = fe_tensor(wide(cx, x, loc));
    if (!y)
        return &fe_poison;
    FeValue *mean = fe_mean(cx, y, &over.axes, true, what, loc);
    FeValue *centred =
        fe_op2(cx, OP_sub, fe_value_tensor(cx->arena, y), mean, loc);
    FeValue *length =
        fe_cast(cx, fe_value_length(cx->arena, count), y->type.dtype, loc);
    FeValue *divisor =
        fe_op2(cx, OP_sub, length, fe_value_int(cx->arena, ddof), loc);
    FeValue *std = length_over(cx, centred, &over.axes, divisor, loc);
    std = finish_axes(cx, std, &over, loc);
    return fe_cast(cx, std, x->type.dtype, loc);
}

/* ---- hypot -------------------------------------------------------------- */

static bool
is_int_literal(const FeValue *x, int64_t *i)
{
    return x->kind == FE_CONST && x->constant.untyped && fe_value_is_int(x, i);
}

/* x; a float where both are integer literals. */
static FeValue *
as_float(Lower *cx, FeValue *x, const FeValue *other)
{
    int64_t i, k;
    return is_int_literal(other, &k) && is_int_literal(x, &i)
               ? fe_value_float(cx->arena, (double)i)
               : x;
}

/* length; infinite where a side is, whatever the other one. */
static FeValue *
or_infinite(Lower *cx, FeValue *length, FeValue *x_size, FeValue *y_size,
            Loc loc)
{
    FeValue *infinity = fe_value_float(cx->arena, INFINITY);
    FeValue *x_is = fe_op2(cx, OP_eq, x_size, infinity, loc);
    FeValue *y_is = fe_op2(cx, OP_eq, y_size, infinity, loc);
    FeValue *either = fe_op2(cx, OP_or, x_is, y_is, loc);
    return fe_op3(cx, OP_where, either, infinity, length, loc);
}

FeValue *
fe_builtin_hypot(Lower *cx, const FeArgs *in)
{
    Loc loc = in->loc;
    FeValue *a = fe_arg(in, 0), *b = fe_arg(in, 1);
    FeValue *sides[] = {as_float(cx, a, b), b};
    IrValue *xs[2];
    if (!fe_operands(cx, 2, sides, xs, loc) ||
        !fe_check_floats(cx, xs[0], in->name, fe_arg_text(cx, in, 0), loc))
        return &fe_poison;
    FeValue *x = wide(cx, xs[0], loc);
    FeValue *y = wide(cx, xs[1], loc);
    FeValue *x_size = fe_op1(cx, OP_abs, x, loc);
    FeValue *y_size = fe_op1(cx, OP_abs, y, loc);
    FeValue *largest = fe_op2(cx, OP_maximum, x_size, y_size, loc);
    DType t = dtype_compute(xs[0]->type.dtype);
    Scale scale = scale_of(cx, largest, t, loc);
    FeValue *x2 = square(cx, fe_op2(cx, OP_mul, x, scale.down, loc), loc);
    FeValue *y2 = square(cx, fe_op2(cx, OP_mul, y, scale.down, loc), loc);
    FeValue *sum = root(cx, fe_op2(cx, OP_add, x2, y2, loc), loc);
    FeValue *length = fe_op2(cx, OP_mul, scale.back, sum, loc);
    length = or_infinite(cx, length, x_size, y_size, loc);
    return fe_cast(cx, length, xs[0]->type.dtype, loc);
}
