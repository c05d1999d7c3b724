/*
 * grad_rules.c - gradients of elementwise operations and reductions
 *
 * Each rule is the chain rule for one operation: dy is the gradient that has
 * arrived at its result y.  Kinks and ties are as in D6: abs'(0) = 0, equal
 * maxima share.
 */
#include <math.h>
#include <string.h>
#include "ir/analysis/users.h"
#include "ir/base/status.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "passes/autodiff/grad.h"

static IrValue *
add(Grad *g, IrValue *x, IrValue *y)
{
    return pass_grad2(g, OP_add, x, y);
}

static IrValue *
sub(Grad *g, IrValue *x, IrValue *y)
{
    return pass_grad2(g, OP_sub, x, y);
}

static IrValue *
mul(Grad *g, IrValue *x, IrValue *y)
{
    return pass_grad2(g, OP_mul, x, y);
}

static IrValue *
divide(Grad *g, IrValue *x, IrValue *y)
{
    return pass_grad2(g, OP_div, x, y);
}

static IrValue *
neg(Grad *g, IrValue *x)
{
    return pass_grad1(g, OP_neg, x);
}

static IrValue *
times(Grad *g, IrValue *x, double k)
{
    return mul(g, x, pass_grad_constant(g, x, k));
}

/* No gradient flows. */
void
pass_grad_rule_zero(Grad *g, const IrOp *op)
{
    (void)g;
    (void)op;
}

void
pass_grad_rule_none(Grad *g, const IrOp *op)
{
    static const char instead[] =
        "all_reduce, all_gather and global_mean have one; stop_gradient(...) "
        "around the merge says that none is wanted";
    bool cut = false;
    for (int i = 0; i < op->num_results; i++)
        cut |= pass_adjoint_of(g, op->results[i]) &&
               pass_adjoint_of(g, op->results[i])->cut;
    if (!cut) /* the gradient is of the result, and goes no further */
        return;
    pass_grad_error(g->cx, op, op->kind == OP_merge ? instead : NULL,
                    "there is no gradient through %s",
                    ir_op_info[op->kind].name);
}

/* ---- one operand -------------------------------------------------------- */

#define RULE1(name, dx)                                                        \
    void pass_grad_rule_##name(Grad *g, const IrOp *op)                        \
    {                                                                          \
        IrValue *x = op->operands[0], *y = op->results[0];                     \
        IrValue *dy = pass_grad_out(g, op);                                    \
        (void)x, (void)y;                                                      \
        pass_grad_add(g, op->operands[0], dx);                                 \
    }

/* clang-format off */
RULE1(neg,     neg(g, dy))
RULE1(abs,     mul(g, dy, pass_grad1(g, OP_sign, x)))
RULE1(exp,     mul(g, dy, y))
RULE1(expm1,   mul(g, dy, add(g, y, pass_grad_constant(g, y, 1))))
RULE1(log,     divide(g, dy, x))
RULE1(log1p,   divide(g, dy, add(g, x, pass_grad_constant(g, x, 1))))
RULE1(sqrt,    divide(g, times(g, dy, 0.5), y))
RULE1(sin,     mul(g, dy, pass_grad1(g, OP_cos, x)))
RULE1(cos,     neg(g, mul(g, dy, pass_grad1(g, OP_sin, x))))
RULE1(sigmoid, mul(g, dy, mul(g, y, sub(g, pass_grad_constant(g, y, 1), y))))
RULE1(cast,    ir_build_cast(g->b, dy, x->type.dtype, g->loc))
/* clang-format on */

/* C does not define which argument of a call is evaluated first.  Where two of
 * them build operations, one is built before the call, so that every compiler
 * makes the same program. */

void
pass_grad_rule_rsqrt(Grad *g, const IrOp *op)
{
    IrValue *y = op->results[0];
    IrValue *half = times(g, pass_grad_out(g, op), -0.5);
    IrValue *cube = mul(g, y, mul(g, y, y));
    pass_grad_add(g, op->operands[0], mul(g, half, cube));
}

/* (1 - x)(1 + x) loses nothing near -1 and 1, as 1 - x^2 does. */
void
pass_grad_rule_asin(Grad *g, const IrOp *op)
{
    IrValue *x = op->operands[0], *one = pass_grad_constant(g, x, 1);
    IrValue *left = sub(g, one, x), *right = add(g, one, x);
    IrValue *slope = pass_grad1(g, OP_rsqrt, mul(g, left, right));
    pass_grad_add(g, x, mul(g, pass_grad_out(g, op), slope));
}

void
pass_grad_rule_tanh(Grad *g, const IrOp *op)
{
    IrValue *y = op->results[0], *one = pass_grad_constant(g, y, 1);
    IrValue *slope = sub(g, one, mul(g, y, y));
    pass_grad_add(g, op->operands[0], mul(g, pass_grad_out(g, op), slope));
}

void
pass_grad_rule_erf(Grad *g, const IrOp *op)
{
    IrValue *x = op->operands[0];
    IrValue *bell = pass_grad1(g, OP_exp, neg(g, mul(g, x, x)));
    pass_grad_add(g, x,
                  mul(g, times(g, pass_grad_out(g, op), M_2_SQRTPI), bell));
}

/* ---- two and three operands --------------------------------------------- */

void
pass_grad_rule_add(Grad *g, const IrOp *op)
{
    IrValue *dy = pass_grad_out(g, op);
    pass_grad_add(g, op->operands[0], dy);
    pass_grad_add(g, op->operands[1], dy);
}

void
pass_grad_rule_sub(Grad *g, const IrOp *op)
{
    IrValue *dy = pass_grad_out(g, op);
    pass_grad_add(g, op->operands[0], dy);
    if (pass_grad_wanted(g, op->operands[1]))
        pass_grad_add(g, op->operands[1], neg(g, dy));
}

void
pass_grad_rule_mul(Grad *g, const IrOp *op)
{
    IrValue *dy = pass_grad_out(g, op), *x = op->operands[0],
            *y = op->operands[1];
    if (pass_grad_wanted(g, x))
        pass_grad_add(g, x, mul(g, dy, y));
    if (pass_grad_wanted(g, y))
        pass_grad_add(g, y, mul(g, dy, x));
}

void
pass_grad_rule_div(Grad *g, const IrOp *op)
{
    IrValue *dy = pass_grad_out(g, op), *x = op->operands[0],
            *y = op->operands[1];
    IrValue *dx = divide(g, dy, y);
    pass_grad_add(g, x, dx);
    if (pass_grad_wanted(g, y))
        pass_grad_add(g, y, neg(g, mul(g, dx, op->results[0])));
}

/* x - y * floor(x / y), where floor is flat. */
void
pass_grad_rule_mod(Grad *g, const IrOp *op)
{
    IrValue *dy = pass_grad_out(g, op), *x = op->operands[0],
            *y = op->operands[1];
    pass_grad_add(g, x, dy);
    if (pass_grad_wanted(g, y))
        pass_grad_add(g, y,
                      neg(g, mul(g, dy, pass_grad2(g, OP_floordiv, x, y))));
}

/* y x^(y-1), 0 for y = 0; and x^y log x, 0 unless x > 0. */
void
pass_grad_rule_pow(Grad *g, const IrOp *op)
{
    IrValue *dz = pass_grad_out(g, op), *x = op->operands[0],
            *y = op->operands[1];
    IrValue *zero = pass_grad_constant(g, y, 0),
            *one = pass_grad_constant(g, y, 1);
    if (pass_grad_wanted(g, x)) {
        IrValue *slope = mul(g, y, pass_grad2(g, OP_pow, x, sub(g, y, one)));
        IrValue *flat = pass_grad2(g, OP_eq, y, zero);
        pass_grad_add(g, x,
                      mul(g, dz, pass_grad3(g, OP_where, flat, zero, slope)));
    }
    if (pass_grad_wanted(g, y)) {
        IrValue *above = pass_grad2(g, OP_gt, x, zero);
        IrValue *safe = pass_grad3(g, OP_where, above, x, one);
        IrValue *slope = mul(g, op->results[0], pass_grad1(g, OP_log, safe));
        pass_grad_add(g, y,
                      mul(g, dz, pass_grad3(g, OP_where, above, slope, zero)));
    }
}

/* Adds dy to the gradient of x where x wins over other, and half of dy where
 * they are equal. */
static void
add_share_of_winner(Grad *g, IrOpKind wins, IrValue *x, IrValue *other,
                    IrValue *dy)
{
    if (!pass_grad_wanted(g, x))
        return;
    IrValue *half = times(g, dy, 0.5), *none = pass_grad_constant(g, dy, 0);
    half = pass_grad3(g, OP_where, pass_grad2(g, OP_eq, x, other), half, none);
    pass_grad_add(
        g, x, pass_grad3(g, OP_where, pass_grad2(g, wins, x, other), dy, half));
}

static void
grad_winner(Grad *g, const IrOp *op, IrOpKind wins)
{
    IrValue *dy = pass_grad_out(g, op), *x = op->operands[0],
            *y = op->operands[1];
    add_share_of_winner(g, wins, x, y, dy);
    add_share_of_winner(g, wins, y, x, dy);
}

void
pass_grad_rule_maximum(Grad *g, const IrOp *op)
{
    grad_winner(g, op, OP_gt);
}

void
pass_grad_rule_minimum(Grad *g, const IrOp *op)
{
    grad_winner(g, op, OP_lt);
}

void
pass_grad_rule_fma(Grad *g, const IrOp *op)
{
    IrValue *dy = pass_grad_out(g, op), *x = op->operands[0],
            *y = op->operands[1];
    if (pass_grad_wanted(g, x))
        pass_grad_add(g, x, mul(g, dy, y));
    if (pass_grad_wanted(g, y))
        pass_grad_add(g, y, mul(g, dy, x));
    pass_grad_add(g, op->operands[2], dy);
}

/* ---- choices ------------------------------------------------------------ */

/*
 * where(c2, x2, where(c1, x1, x0)) chooses one of several values, as the window
 * of a pooling does.  By the rule of each where in turn, x0 would get what no
 * condition takes: all of them are read for each of its elements, and where the
 * x are slices of one value, at as many places as there are slices.  So the
 * number of what is chosen is made once, and each x compares that with its own.
 */
enum {
    MIN_CHOICE = 3, /* fewer conditions are read as they are */
    MAX_CHOICE = 1024
};

typedef struct Choice {
    const IrOp *wheres[MAX_CHOICE]; /* the last condition, which wins, first */
    int count;
} Choice;

/* Whether op gives no gradient to its operands, as comparisons. */
static bool
is_without_gradient(const IrOp *op)
{
    for (int i = 0; i < op->num_results; i++)
        if (dtype_is_float(op->results[i]->type.dtype))
            return false;
    return op->num_results > 0 && op->num_regions == 0;
}

/* Whether all of v's gradient is what the where that it is an operand of gives
 * it. */
static bool
is_only_chosen_from(const Grad *g, const IrUsers *users, const IrValue *v,
                    const IrOp *where)
{
    const IrOpList *of = ir_users_of(users, v);
    for (int i = 0; i < of->len; i++)
        if (of->data[i] != where && !is_without_gradient(of->data[i]))
            return false;
    return !pass_grad_of(g, v);
}

/* The where that this one chooses from if its condition is false, and that
 * nothing else gets a gradient from; or NULL. */
static const IrOp *
next_where(const IrOp *where)
{
    const IrValue *y = where->operands[2], *z = where->results[0];
    const IrOp *next = y->def;
    if (!next || next->kind != OP_where || next->block != where->block ||
        where->operands[1] == y || !ir_type_same_shape(&y->type, &z->type) ||
        !ir_type_same_shape(&next->operands[0]->type, &z->type))
        return NULL;
    return next;
}

static Choice
find_choice(const Grad *g, const IrOp *op)
{
    Choice c = {.wheres = {op}, .count = 1};
    if (!ir_type_same_shape(&op->operands[0]->type, &op->results[0]->type))
        return c;
    for (const IrOp *next = next_where(op); next && c.count < MAX_CHOICE;
         next = next_where(next))
        c.wheres[c.count++] = next;
    if (c.count < MIN_CHOICE)
        return c;
    IrUsers users = ir_users_find(g->cx->arena, op->block);
    for (int i = 1; i < c.count; i++)
        if (!is_only_chosen_from(g, &users, c.wheres[i]->results[0],
                                 c.wheres[i - 1]))
            c.count = i;
    return c;
}

/* The number of what is chosen: how many wheres are behind it.  An i32, since
 * CPUs have no masked loads of bytes, and there are zeros around what is read.
 */
static IrValue *
number_of_chosen(Grad *g, const Choice *c)
{
    IrValue *number = ir_const_int(g->b, DT_i32, 0, g->loc);
    for (int i = c->count - 1; i >= 0; i--) {
        IrValue *own = ir_const_int(g->b, DT_i32, c->count - i, g->loc);
        number =
            pass_grad3(g, OP_where, c->wheres[i]->operands[0], own, number);
    }
    return number;
}

/* Adds dz to the gradient of x where it is what was chosen. */
static void
add_if_chosen(Grad *g, IrValue *x, IrValue *chosen, int number, IrValue *dz)
{
    if (!pass_grad_wanted(g, x))
        return;
    IrValue *own = ir_const_int(g->b, DT_i32, number, g->loc);
    IrValue *is = pass_grad2(g, OP_eq, chosen, own);
    IrValue *zero = pass_grad_constant(g, dz, 0);
    pass_grad_add(g, x, pass_grad3(g, OP_where, is, dz, zero));
}

static void
add_choice(Grad *g, const Choice *c, IrValue *dz)
{
    IrValue *chosen = number_of_chosen(g, c);
    for (int i = 0; i < c->count; i++)
        add_if_chosen(g, c->wheres[i]->operands[1], chosen, c->count - i, dz);
    add_if_chosen(g, c->wheres[c->count - 1]->operands[2], chosen, 0, dz);
}

void
pass_grad_rule_where(Grad *g, const IrOp *op)
{
    IrValue *c = op->operands[0], *x = op->operands[1], *y = op->operands[2];
    IrValue *dz = pass_grad_out(g, op);
    Choice choice = find_choice(g, op);
    if (choice.count >= MIN_CHOICE) {
        add_choice(g, &choice, dz);
        return;
    }
    IrValue *zero = pass_grad_constant(g, dz, 0);
    if (pass_grad_wanted(g, x))
        pass_grad_add(g, x, pass_grad3(g, OP_where, c, dz, zero));
    if (pass_grad_wanted(g, y))
        pass_grad_add(g, y, pass_grad3(g, OP_where, c, zero, dz));
}

/* ---- reductions --------------------------------------------------------- */

/* v, which has the shape of the reduction's result, broadcast to the shape of
 * its operand. */
static IrValue *
spread(Grad *g, const IrOp *reduction, IrValue *v)
{
    const IrType *x = &reduction->operands[0]->type;
    Dim kept[IR_MAX_RANK];
    int n;
    const int64_t *axes = ir_ints(reduction, A_axes, &n);
    for (int i = 0; i < x->rank; i++)
        kept[i] = x->dims[i];
    for (int i = 0; i < n; i++)
        kept[axes[i]] = ir_dim_const(1);
    v = ir_build_reshape(g->b, v, x->rank, kept, g->loc);
    return ir_build_broadcast(g->b, v, x->rank, x->dims, g->loc);
}

void
pass_grad_rule_sum(Grad *g, const IrOp *op)
{
    pass_grad_add(g, op->operands[0], spread(g, op, pass_grad_out(g, op)));
}

/* The reduction of op over its axes of what has the shape of its operand, in
 * that shape. */
static IrValue *
reduced(Grad *g, const IrOp *op, IrOpKind kind, IrValue *v)
{
    int n;
    const int64_t *axes = ir_ints(op, A_axes, &n);
    bool keep = ir_int(op, A_keepdims) != 0;
    return spread(g, op, ir_build_reduce(g->b, kind, v, axes, n, keep, g->loc));
}

static IrValue *
equals(Grad *g, IrValue *count, int64_t n)
{
    return pass_grad2(g, OP_eq, count, ir_const_int(g->b, DT_i64, n, g->loc));
}

/* The product of the other elements: y / x without zeros.  If exactly one
 * element is 0, only that one has a gradient; if several are, none has.  The
 * zeros stand in the products, as the sum of all or of the other ones, since
 * they have gradients themselves when this is differentiated again. */
void
pass_grad_rule_prod(Grad *g, const IrOp *op)
{
    IrValue *x = op->operands[0], *zero = pass_grad_constant(g, x, 0);
    IrValue *one = pass_grad_constant(g, x, 1);
    IrValue *is_zero = pass_grad2(g, OP_eq, x, zero);
    IrValue *safe = pass_grad3(g, OP_where, is_zero, one, x);
    IrValue *count =
        reduced(g, op, OP_sum, ir_build_cast(g->b, is_zero, DT_i64, g->loc));
    IrValue *zeros =
        reduced(g, op, OP_sum, pass_grad3(g, OP_where, is_zero, x, zero));
    IrValue *rest = reduced(g, op, OP_prod, safe);
    IrValue *has_none = equals(g, count, 0), *has_one = equals(g, count, 1);
    IrValue *ratio = divide(g, rest, safe);
    IrValue *of_other =
        pass_grad3(g, OP_where, has_one, mul(g, zeros, ratio), zero);
    of_other = pass_grad3(g, OP_where, has_none, ratio, of_other);
    IrValue *second = mul(g, pass_grad2(g, OP_sub, zeros, x), rest);
    IrValue *of_zero =
        pass_grad3(g, OP_where, equals(g, count, 2), second, zero);
    of_zero = pass_grad3(g, OP_where, has_one, rest, of_zero);
    IrValue *others = pass_grad3(g, OP_where, is_zero, of_zero, of_other);
    pass_grad_add(g, x, mul(g, spread(g, op, pass_grad_out(g, op)), others));
}

/* Equal extrema share the gradient; they may be more than x's dtype counts. */
void
pass_grad_rule_extremum(Grad *g, const IrOp *op)
{
    IrValue *x = op->operands[0];
    int n;
    const int64_t *axes = ir_ints(op, A_axes, &n);
    IrValue *y = spread(g, op, op->results[0]);
    IrValue *is_one =
        ir_build_cast(g->b, pass_grad2(g, OP_eq, x, y), x->type.dtype, g->loc);
    DType wide = dtype_compute(x->type.dtype);
    IrValue *count =
        ir_build_reduce(g->b, OP_sum, ir_build_cast(g->b, is_one, wide, g->loc),
                        axes, n, ir_int(op, A_keepdims) != 0, g->loc);
    IrValue *all = ir_build_cast(g->b, pass_grad_out(g, op), wide, g->loc);
    IrValue *share =
        ir_build_cast(g->b, divide(g, all, count), x->type.dtype, g->loc);
    pass_grad_add(g, x, mul(g, is_one, spread(g, op, share)));
}

/* ---- replicas ----------------------------------------------------------- */

/* Reports that the rule of op needs all replicas, and not all may reach the
 * grad. */
static void
refuse_divergent(Grad *g, const IrOp *op)
{
    const IrOp *around = ir_divergence(g->grad->block);
    Diag *d = g->cx->diag;
    pass_grad_error(
        g->cx, g->grad, NULL,
        "the gradient goes through %s, which needs all replicas, and "
        "under this \"%s\" not all may come to it",
        ir_op_info[op->kind].name, ir_op_info[around->kind].name);
    diag_note(d, op->loc, "the %s is here", ir_op_info[op->kind].name);
    diag_note(d, around->loc,
              "what decides it differs among the replicas: take the gradient "
              "before it");
}

IrValue *
pass_grad_all_reduce(Grad *g, const IrOp *op, IrAgg how, IrValue *x)
{
    if (ir_divergence(g->grad->block))
        refuse_divergent(g, op);
    return ir_build_all_reduce(g->b, how, 1, &x, g->loc)->results[0];
}

/* The replicas that hold the extremum share the sum of the gradients. */
static IrValue *
share_of_extremum(Grad *g, const IrOp *op, int i, IrValue *dy)
{
    IrValue *x = op->operands[i], *y = op->results[i];
    IrValue *is_one =
        ir_build_cast(g->b, pass_grad2(g, OP_eq, x, y), x->type.dtype, g->loc);
    IrValue *count = pass_grad_all_reduce(g, op, AGG_sum, is_one);
    IrValue *sum = pass_grad_all_reduce(g, op, AGG_sum, dy);
    return mul(g, is_one, divide(g, sum, count));
}

/* Every replica's loss depends on every replica's value: the gradients are
 * summed (or averaged) over the replicas. */
void
pass_grad_rule_all_reduce(Grad *g, const IrOp *op)
{
    IrAgg how = (IrAgg)ir_enum(op, A_op);
    bool linear = how == AGG_sum || how == AGG_mean;
    for (int i = 0; i < op->num_operands; i++) {
        IrValue *x = op->operands[i], *dy = pass_grad_of(g, op->results[i]);
        if (!dy || !pass_grad_wanted(g, x))
            continue;
        pass_grad_add(g, x,
                      linear ? pass_grad_all_reduce(g, op, how, dy)
                             : share_of_extremum(g, op, i, dy));
    }
}

/* The same as an all_reduce of the sums, and of the counts. */
void
pass_grad_rule_global_mean(Grad *g, const IrOp *op)
{
    IrValue *x = op->operands[0], *dy = pass_grad_out(g, op);
    const IrType *t = &x->type;
    DType wide = dtype_compute(t->dtype);
    IrValue *ones = ir_const_fill(g->b, wide, t->rank, t->dims,
                                  scalar_float(wide, 1), g->loc);
    IrValue *sum = ir_build_sum_all(g->b, ones, g->loc);
    IrValue *count = pass_grad_all_reduce(g, op, AGG_sum, sum);
    IrValue *all = pass_grad_all_reduce(g, op, AGG_sum, dy);
    IrValue *dx = divide(g, ir_build_cast(g->b, all, wide, g->loc), count);
    dx = ir_build_cast(g->b, dx, t->dtype, g->loc);
    pass_grad_add(g, x, ir_build_broadcast(g->b, dx, t->rank, t->dims, g->loc));
}
