/*
 * fold.c - constant folding
 *
 * Untyped integers are int64 and overflow is an error; untyped floats are
 * doubles.  Typed constants give what the operation of the IR would give at run
 * time, bit for bit: integers wrap, floats are rounded to their dtype;
 * operations with more than one rounding (pow, mod of floats) are left to the
 * IR.  Lengths fold as far as they stay linear in their symbol (D1).
 */
#include "frontend/emit/fold.h"

#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include "ir/rules/eval.h"

#include <math.h>

/* ---- integers ----------------------------------------------------------- */

typedef enum Outcome {
    FOLDED,
    OVERFLOWS, /* the wrapped result is there too */
    DIVIDES_BY_ZERO,
    UNFOLDABLE
} Outcome;

static Outcome
divide_down(int64_t a, int64_t b, int64_t *quotient, int64_t *rest)
{
    *quotient = *rest = 0; /* D9 */
    if (b == 0)
        return DIVIDES_BY_ZERO;
    if (a == INT64_MIN && b == -1) {
        *quotient = INT64_MIN;
        return OVERFLOWS;
    }
    *quotient = a / b;
    *rest = a % b;
    if (*rest && (*rest < 0) != (b < 0)) {
        --*quotient;
        *rest += b;
    }
    return FOLDED;
}

static Outcome
int_power(int64_t base, int64_t exponent, int64_t *out)
{
    Outcome result = FOLDED;
    if (exponent < 0)
        return UNFOLDABLE;
    *out = 1;
    for (; exponent; exponent >>= 1) {
        if ((exponent & 1) && __builtin_mul_overflow(*out, base, out))
            result = OVERFLOWS;
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
            result = OVERFLOWS;
    }
    return result;
}

static Outcome
fold_ints(AstOp op, int64_t a, int64_t b, int64_t *out)
{
    int64_t other;
    switch (op) {
    case AST_OP_ADD:
        return __builtin_add_overflow(a, b, out) ? OVERFLOWS : FOLDED;
    case AST_OP_SUB:
        return __builtin_sub_overflow(a, b, out) ? OVERFLOWS : FOLDED;
    case AST_OP_MUL:
        return __builtin_mul_overflow(a, b, out) ? OVERFLOWS : FOLDED;
    case AST_OP_FLOORDIV:
        return divide_down(a, b, out, &other);
    case AST_OP_MOD:
        return divide_down(a, b, &other, out) == DIVIDES_BY_ZERO
                   ? DIVIDES_BY_ZERO
                   : FOLDED;
    case AST_OP_POW:
        return int_power(a, b, out);
    default:
        return UNFOLDABLE;
    }
}

/* ---- floats ------------------------------------------------------------- */

static double
eval_pair(IrOpKind kind, double a, double b)
{
    Scalar x[] = {scalar_float(DT_f64, a), scalar_float(DT_f64, b)};
    return ir_eval(kind, DT_f64, x).f;
}

static bool
fold_floats(AstOp op, double a, double b, bool untyped, double *out)
{
    switch (op) {
    case AST_OP_ADD:
        *out = a + b;
        return true;
    case AST_OP_SUB:
        *out = a - b;
        return true;
    case AST_OP_MUL:
        *out = a * b;
        return true;
    case AST_OP_DIV:
        *out = a / b;
        return true;
    case AST_OP_FLOORDIV:
        *out = eval_pair(OP_floordiv, a, b);
        return untyped;
    case AST_OP_MOD:
        *out = eval_pair(OP_mod, a, b);
        return untyped;
    case AST_OP_POW:
        *out = pow(a, b);
        return untyped;
    default:
        return false;
    }
}

/* ---- comparisons and logic ---------------------------------------------- */

/* The result of a comparison for a pair that is less, equal, greater or
 * unordered. */
static bool
compare(AstOp op, bool less, bool equal, bool greater, bool *out)
{
    switch (op) {
    case AST_OP_EQ:
        *out = equal;
        return true;
    case AST_OP_NE:
        *out = !equal;
        return true;
    case AST_OP_LT:
        *out = less;
        return true;
    case AST_OP_LE:
        *out = less || equal;
        return true;
    case AST_OP_GT:
        *out = greater;
        return true;
    case AST_OP_GE:
        *out = greater || equal;
        return true;
    default:
        return false;
    }
}

static bool
fold_bools(AstOp op, bool a, bool b, bool *out)
{
    switch (op) {
    case AST_OP_AND:
        *out = a && b;
        return true;
    case AST_OP_OR:
        *out = a || b;
        return true;
    case AST_OP_EQ:
    case AST_OP_NE:
        return compare(op, false, a == b, false, out);
    default:
        return false;
    }
}

/* ---- pairs of constants ------------------------------------------------- */

/* Two constants at one dtype. */
typedef struct Pair {
    Scalar x, y;
    DType dtype;
    bool untyped;
} Pair;

/* The common dtype of x and y; false when both have one and they differ. */
static bool
common_dtype(const FeValue *x, const FeValue *y, DType *t)
{
    DType a = x->constant.scalar.dtype, b = y->constant.scalar.dtype;
    bool both = x->constant.untyped == y->constant.untyped;
    if (both && x->constant.untyped)
        *t = a == DT_f64 || b == DT_f64 ? DT_f64 : DT_i64;
    else
        *t = x->constant.untyped ? b : a;
    return !both || x->constant.untyped || a == b;
}

static FeValue *
make_result(Lower *cx, const Pair *p, Scalar s)
{
    if (!p->untyped)
        return fe_value_scalar(cx->arena, s);
    return s.dtype == DT_i64 ? fe_value_int(cx->arena, s.i)
                             : fe_value_float(cx->arena, s.f);
}

static FeValue *
int_result(Lower *cx, AstOp op, const Pair *p, Loc loc)
{
    int64_t r;
    Outcome outcome = fold_ints(op, p->x.i, p->y.i, &r);
    if (outcome == UNFOLDABLE)
        return NULL;
    if (p->untyped && outcome == OVERFLOWS)
        return fe_error(cx, loc, "%lld %s %lld is too large", (long long)p->x.i,
                        fe_ast_op_text(op), (long long)p->y.i);
    if (p->untyped && outcome == DIVIDES_BY_ZERO)
        return fe_error(cx, loc, "division by zero");
    return make_result(cx, p, scalar_int(p->dtype, r));
}

static FeValue *
float_result(Lower *cx, AstOp op, const Pair *p)
{
    double r;
    if (!fold_floats(op, p->x.f, p->y.f, p->untyped, &r))
        return NULL;
    Scalar computed = scalar_float(dtype_compute(p->dtype), r);
    return make_result(cx, p, scalar_float(p->dtype, computed.f));
}

static bool
compare_pair(AstOp op, const Pair *p, bool *out)
{
    if (p->dtype == DT_bool)
        return fold_bools(op, p->x.i != 0, p->y.i != 0, out);
    if (dtype_is_float(p->dtype))
        return compare(op, p->x.f < p->y.f, p->x.f == p->y.f, p->x.f > p->y.f,
                       out);
    return compare(op, p->x.i < p->y.i, p->x.i == p->y.i, p->x.i > p->y.i, out);
}

static FeValue *
fold_constants(Lower *cx, AstOp op, const FeValue *x, const FeValue *y, Loc loc)
{
    Pair p = {.untyped = x->constant.untyped && y->constant.untyped};
    bool truth;
    if (!common_dtype(x, y, &p.dtype))
        return NULL; /* an error that fe_operands words */
    if (!fe_constant_as(cx, x, p.dtype, loc, &p.x) ||
        !fe_constant_as(cx, y, p.dtype, loc, &p.y))
        return &fe_poison;
    if (compare_pair(op, &p, &truth))
        return fe_value_bool(cx->arena, truth);
    if (dtype_is_float(p.dtype))
        return float_result(cx, op, &p);
    return dtype_is_int(p.dtype) ? int_result(cx, op, &p, loc) : NULL;
}

/* ---- lengths ------------------------------------------------------------ */

/* v as a dimension; false if it is no integer or not an i64. */
static bool
as_dim(const FeValue *v, Dim *d, bool *untyped)
{
    if (v->kind == FE_DIM) {
        *d = v->length.dim;
        *untyped = v->length.untyped;
        return true;
    }
    *d = ir_dim_const(v->constant.scalar.i);
    *untyped = v->constant.untyped;
    return v->constant.scalar.dtype == DT_i64;
}

static bool
fold_dims(AstOp op, Dim a, Dim b, Dim *out)
{
    switch (op) {
    case AST_OP_ADD:
        return ir_dim_add(a, b, out);
    case AST_OP_SUB:
        return ir_dim_sub(a, b, out);
    case AST_OP_MUL:
        return ir_dim_mul(a, b, out);
    case AST_OP_FLOORDIV:
        return ir_dim_div(a, b, out);
    default:
        return false;
    }
}

static FeValue *
fold_lengths(Lower *cx, AstOp op, const FeValue *x, const FeValue *y)
{
    Dim a, b, d;
    bool a_untyped, b_untyped, truth;
    if (!as_dim(x, &a, &a_untyped) || !as_dim(y, &b, &b_untyped))
        return NULL;
    if (ir_dim_equal(a, b) && compare(op, false, true, false, &truth))
        return fe_value_bool(cx->arena, truth);
    /* One that may be negative is computed when the program runs. */
    if (!fold_dims(op, a, b, &d) || d.c < 0 || d.k < 0)
        return NULL;
    return a_untyped && b_untyped ? fe_value_dim(cx->arena, d)
                                  : fe_value_length(cx->arena, d);
}

FeValue *
fe_fold_binary(Lower *cx, AstOp op, FeValue *x, FeValue *y, Loc loc)
{
    bool known = (x->kind == FE_CONST || x->kind == FE_DIM) &&
                 (y->kind == FE_CONST || y->kind == FE_DIM);
    if (!known)
        return NULL;
    if (x->kind == FE_DIM || y->kind == FE_DIM)
        return fold_lengths(cx, op, x, y);
    return fold_constants(cx, op, x, y, loc);
}

static FeValue *
negate(Lower *cx, const FeValue *x, Loc loc)
{
    Scalar s = x->constant.scalar;
    Pair p = {.untyped = x->constant.untyped};
    if (dtype_is_float(s.dtype)) {
        s.f = -s.f;
        return make_result(cx, &p, s);
    }
    if (p.untyped && s.i == INT64_MIN)
        return fe_error(cx, loc, "-(%lld) is too large", (long long)s.i);
    return make_result(cx, &p, scalar_int(s.dtype, (int64_t)-(uint64_t)s.i));
}

FeValue *
fe_fold_unary(Lower *cx, AstOp op, FeValue *x, Loc loc)
{
    if (x->kind != FE_CONST)
        return NULL;
    bool is_bool = x->constant.scalar.dtype == DT_bool;
    if (op == AST_OP_NOT && is_bool)
        return fe_value_bool(cx->arena, !x->constant.scalar.i);
    return op == AST_OP_NEG && !is_bool ? negate(cx, x, loc) : NULL;
}
