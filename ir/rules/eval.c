/*
 * eval.c - elementwise operations on single elements
 *
 * Floats compute in f64 or, for all narrower ones, in f32: one C operation in
 * that type, then rounding to the result's dtype.  Integers wrap.
 */
#include "ir/rules/eval.h"

#include <math.h>
#include <string.h>
#include "ir/base/number/philox.h"
#include "ir/base/status.h"
#include "ir/maths/maths.h"

/* ---- floats ------------------------------------------------------------- */

/* max and min pass NaN on; -0 is less than +0 (IEEE 754-2019 maximum). */
static double
maximum(double x, double y)
{
    if (isnan(x) || isnan(y))
        return NAN;
    if (x == y)
        return signbit(x) ? y : x;
    return x > y ? x : y;
}

static double
minimum(double x, double y)
{
    if (isnan(x) || isnan(y))
        return NAN;
    if (x == y)
        return signbit(x) ? x : y;
    return x < y ? x : y;
}

static double
sign_of(double x)
{
    if (isnan(x))
        return x;
    return (x > 0) - (x < 0);
}

/* The arithmetic of one width; every step rounds to it.  Quotients rounded down
 * and what remains are NumPy's: fmod is exact, a remainder that is not 0 gets
 * the sign of the divisor by adding it, and the quotient is the whole number
 * next to (x - fmod) / y, less 1 where the divisor was added. */
#define ARITHMETIC(T, suffix)                                                  \
    static bool turns_##suffix(T rest, T y)                                    \
    {                                                                          \
        return rest != 0 && (rest < 0) != (y < 0);                             \
    }                                                                          \
    static T floordiv_##suffix(T x, T y)                                       \
    {                                                                          \
        T rest = fmod##suffix(x, y);                                           \
        T q = (x - rest) / y - (turns_##suffix(rest, y) ? 1 : 0);              \
        T whole = floor##suffix(q);                                            \
        if (y == 0)                                                            \
            return x / y;                                                      \
        if (q == 0)                                                            \
            return copysign##suffix(0, x / y);                                 \
        return q - whole > (T)0.5 ? whole + 1 : whole;                         \
    }                                                                          \
    static T mod_##suffix(T x, T y)                                            \
    {                                                                          \
        T rest = fmod##suffix(x, y);                                           \
        if (rest == 0)                                                         \
            return copysign##suffix(0, y);                                     \
        return turns_##suffix(rest, y) ? rest + y : rest;                      \
    }                                                                          \
    static bool float_##suffix(IrOpKind kind, T x, T y, T z, double *out)      \
    {                                                                          \
        switch (kind) {                                                        \
        case OP_add:                                                           \
            return *out = x + y, true;                                         \
        case OP_sub:                                                           \
            return *out = x - y, true;                                         \
        case OP_mul:                                                           \
            return *out = x * y, true;                                         \
        case OP_div:                                                           \
            return *out = x / y, true;                                         \
        case OP_fma:                                                           \
            return *out = fma##suffix(x, y, z), true;                          \
        case OP_sqrt:                                                          \
            return *out = sqrt##suffix(x), true;                               \
        case OP_floordiv:                                                      \
            return *out = floordiv_##suffix(x, y), true;                       \
        case OP_mod:                                                           \
            return *out = mod_##suffix(x, y), true;                            \
        default:                                                               \
            return false;                                                      \
        }                                                                      \
    }
#define floord floor
#define copysignd copysign
#define fmad fma
#define fmodd fmod
#define sqrtd sqrt
ARITHMETIC(float, f)
ARITHMETIC(double, d)
#undef floord
#undef copysignd
#undef fmad
#undef fmodd
#undef sqrtd

/* Operations whose result is exact in any width. */
static bool
float_exact(IrOpKind kind, double x, double y, double *out)
{
    switch (kind) {
    case OP_neg:
        return *out = -x, true;
    case OP_abs:
        return *out = fabs(x), true;
    case OP_sign:
        return *out = sign_of(x), true;
    case OP_floor:
        return *out = floor(x), true;
    case OP_ceil:
        return *out = ceil(x), true;
    case OP_round:
        return *out = nearbyint(x), true;
    case OP_maximum:
        return *out = maximum(x, y), true;
    case OP_minimum:
        return *out = minimum(x, y), true;
    default:
        return false;
    }
}

/* The functions have the names of their operations; 0 is none. */
static const int maths_of_op[NUM_OPS] = {
#define MATHS_FN(name, operands, ulp32, ulp64, doc)                            \
    [OP_##name] = MATHS_##name + 1,
#include "ir/maths/maths.def"
#undef MATHS_FN
};

static bool
maths_of(IrOpKind kind, MathsFn *out)
{
    *out = (MathsFn)(maths_of_op[kind] - 1);
    return maths_of_op[kind] != 0;
}

static double
eval_float(IrOpKind kind, DType width, double x, double y, double z)
{
    double r;
    MathsFn fn;
    if (float_exact(kind, x, y, &r))
        return r;
    if (width == DT_f64 ? float_d(kind, x, y, z, &r)
                        : float_f(kind, (float)x, (float)y, (float)z, &r))
        return r;
    if (maths_of(kind, &fn))
        return ir_maths_eval(fn, width, x, y);
    UNREACHABLE("%s of floats", ir_op_info[kind].name);
}

/* ---- integers ----------------------------------------------------------- */

static int64_t
wrap(uint64_t x)
{
    int64_t r;
    memcpy(&r, &x, sizeof r);
    return r;
}

static int64_t
floordiv(int64_t x, int64_t y)
{
    if (y == 0)
        return 0;
    if (y == -1)
        return wrap(0 - (uint64_t)x);
    int64_t q = x / y;
    return q - (x % y != 0 && (x < 0) != (y < 0));
}

static int64_t
mod(int64_t x, int64_t y)
{
    if (y == 0 || y == -1)
        return 0;
    int64_t r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static int64_t
power(int64_t x, int64_t y)
{
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t r = 1, base = (uint64_t)x;
    for (; y; y >>= 1, base *= base)
        if (y & 1)
            r *= base;
    return wrap(r);
}

static int64_t
eval_int(IrOpKind kind, int64_t x, int64_t y)
{
    switch (kind) {
    case OP_neg:
        return wrap(0 - (uint64_t)x);
    case OP_abs:
        return x < 0 ? wrap(0 - (uint64_t)x) : x;
    case OP_sign:
        return (x > 0) - (x < 0);
    case OP_add:
        return wrap((uint64_t)x + (uint64_t)y);
    case OP_sub:
        return wrap((uint64_t)x - (uint64_t)y);
    case OP_mul:
        return wrap((uint64_t)x * (uint64_t)y);
    case OP_floordiv:
        return floordiv(x, y);
    case OP_mod:
        return mod(x, y);
    case OP_pow:
        return power(x, y);
    case OP_maximum:
        return x > y ? x : y;
    case OP_minimum:
        return x < y ? x : y;
    case OP_and:
        return x && y;
    case OP_or:
        return x || y;
    case OP_not:
        return !x;
    default:
        UNREACHABLE("%s of integers", ir_op_info[kind].name);
    }
}

/* ---- comparisons and the rest ------------------------------------------- */

#define COMPARE(T, name)                                                       \
    static bool name(IrOpKind kind, T x, T y)                                  \
    {                                                                          \
        switch (kind) {                                                        \
        case OP_eq:                                                            \
            return x == y;                                                     \
        case OP_ne:                                                            \
            return x != y;                                                     \
        case OP_lt:                                                            \
            return x < y;                                                      \
        case OP_le:                                                            \
            return x <= y;                                                     \
        case OP_gt:                                                            \
            return x > y;                                                      \
        default:                                                               \
            return x >= y;                                                     \
        }                                                                      \
    }
COMPARE(double, compare_float)
COMPARE(int64_t, compare_int)

static Scalar
boolean(bool x)
{
    return (Scalar){.dtype = DT_bool, .i = x};
}

/* The first two words that Philox makes, without the sign. */
static int64_t
random_bits(int64_t key, int64_t row, int64_t place)
{
    const uint64_t k = (uint64_t)key, y = (uint64_t)row, z = (uint64_t)place;
    uint32_t out[4];
    philox4x32((uint32_t[]){(uint32_t)y, (uint32_t)(y >> 32), (uint32_t)z,
                            (uint32_t)(z >> 32)},
               (uint32_t[]){(uint32_t)k, (uint32_t)(k >> 32)}, out);
    return (int64_t)((((uint64_t)out[1] << 32) | out[0]) >> 1);
}

bool
ir_can_eval(IrOpKind kind)
{
    return (ir_op_info[kind].traits & ELEMENTWISE) != 0;
}

Scalar
ir_eval(IrOpKind kind, DType result, const Scalar *x)
{
    bool is_float = dtype_is_float(x[0].dtype);
    int n = ir_op_info[kind].num_in;
    switch (kind) {
    case OP_stop_gradient:
        return x[0];
    case OP_cast:
        return scalar_cast(x[0], result);
    case OP_where:
        return x[0].i ? x[1] : x[2];
    case OP_random:
        return scalar_int(result, random_bits(x[0].i, x[1].i, x[2].i));
    case OP_isnan:
        return boolean(isnan(x[0].f));
    case OP_isfinite:
        return boolean(isfinite(x[0].f));
    case OP_eq:
    case OP_ne:
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge:
        return boolean(is_float ? compare_float(kind, x[0].f, x[1].f)
                                : compare_int(kind, x[0].i, x[1].i));
    default:
        break;
    }
    if (!is_float)
        return scalar_int(result, eval_int(kind, x[0].i, n > 1 ? x[1].i : 0));
    double r = eval_float(kind, dtype_compute(x[0].dtype), x[0].f,
                          n > 1 ? x[1].f : 0, n > 2 ? x[2].f : 0);
    return scalar_float(result, r);
}

static Scalar
least(DType t)
{
    if (dtype_is_float(t))
        return scalar_float(t, -INFINITY);
    int bits = (int)dtype_info[t].bytes * 8;
    if (dtype_info[t].kind != DTYPE_SIGNED)
        return scalar_int(t, 0);
    return scalar_int(t, wrap(UINT64_C(1) << (bits - 1)));
}

static Scalar
greatest(DType t)
{
    if (dtype_is_float(t))
        return scalar_float(t, INFINITY);
    int bits = (int)dtype_info[t].bytes * 8;
    if (dtype_info[t].kind == DTYPE_UNSIGNED)
        return scalar_int(t, ((int64_t)1 << bits) - 1);
    return scalar_int(t, wrap((UINT64_C(1) << (bits - 1)) - 1));
}

Scalar
ir_eval_neutral(IrOpKind kind, DType t)
{
    bool is_float = dtype_is_float(t);
    switch (kind) {
    case OP_prod:
        return is_float ? scalar_float(t, 1) : scalar_int(t, 1);
    case OP_all:
        return boolean(true);
    case OP_reduce_max:
        return least(t);
    case OP_reduce_min:
        return greatest(t);
    default:
        return is_float ? scalar_float(t, 0) : scalar_int(t, 0);
    }
}
