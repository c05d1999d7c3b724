/*
 * simplify_splats.c - values whose elements are all one known number
 *
 * Programs count what is in a batch by sums of ones, which have to come from
 * the batch where its rows may differ: where(isnan(x), 1, 1).  Where shapes are
 * known, both are constants.
 */
#include <math.h>
#include "ir/rules/build.h"
#include "ir/rules/eval.h"
#include "passes/scalar/simplify.h"
#include "passes/support/pass.h"

IrValue *
pass_simplify_fill(IrOp *op, Scalar x, const IrReason *why)
{
    IrBlock *b = ir_block_scratch(op);
    const IrType *t = &op->results[0]->type;
    IrValue *v = ir_const_fill(b, t->dtype, t->rank, t->dims, x, op->loc);
    ir_stamp(b, why);
    ir_splice_before(op, b);
    return v;
}

/* ---- choices ------------------------------------------------------------ */

static bool
equal_bits(Scalar x, Scalar y)
{
    if (!dtype_is_float(x.dtype))
        return x.i == y.i;
    return x.f == y.f && !signbit(x.f) == !signbit(y.f);
}

/* Of two equal numbers. */
static IrValue *
simplify_where(IrOp *op)
{
    Scalar x, y;
    if (!ir_const_known(op->operands[1], &x) ||
        !ir_const_known(op->operands[2], &y) || !equal_bits(x, y))
        return NULL;
    const IrReason *why =
        ir_reason_for(op, "simplify.choice", "where(c, x, x)");
    return pass_simplify_fill(op, x, why);
}

/* ---- sums --------------------------------------------------------------- */

/* The number of elements that each sum adds; -1: it is not known. */
static int64_t
num_added(const IrOp *sum)
{
    const IrType *t = &sum->operands[0]->type;
    int num_axes;
    const int64_t *axes = ir_ints(sum, A_axes, &num_axes);
    int64_t n = 1;
    for (int i = 0; i < num_axes; i++) {
        Dim d = t->dims[axes[i]];
        if (!ir_dim_is_const(d) || __builtin_mul_overflow(n, d.c, &n))
            return -1;
    }
    return n;
}

/* Whether all multiples of x up to the n-th are numbers of the dtype, so that
 * the order of sums does not matter: x is m * 2^e for an odd m, and m * n has
 * no more bits than a mantissa.  A sum of no elements or of -0 has a sign of
 * its own. */
static bool
has_exact_multiples(DType t, Scalar x, int64_t n)
{
    double most = t == DT_f64 ? 0x1p53 : 0x1p24;
    int e;
    if ((t != DT_f32 && t != DT_f64) || n < 1 || !(fabs(x.f) <= most) ||
        signbit(x.f))
        return false;
    double m = frexp(x.f, &e);
    while (m != floor(m))
        m *= 2;
    return m * (double)n <= most && x.f * (double)n <= most;
}

static IrValue *
simplify_sum(IrOp *op)
{
    DType t = op->results[0]->type.dtype;
    int64_t n = num_added(op);
    Scalar x[2];
    if (!ir_const_known(op->operands[0], &x[0]) ||
        !has_exact_multiples(t, x[0], n))
        return NULL;
    x[1] = (Scalar){.dtype = t, .f = (double)n};
    const IrReason *why =
        ir_reason_for(op, "simplify.count", "a sum of equal numbers");
    return pass_simplify_fill(op, ir_eval(OP_mul, t, x), why);
}

IrValue *
pass_simplify_splat(IrOp *op)
{
    switch (op->kind) {
    case OP_where:
        return simplify_where(op);
    case OP_sum:
        return simplify_sum(op);
    default:
        return NULL;
    }
}
