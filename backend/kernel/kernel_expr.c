/*
 * kernel_expr.c - a graph of values at indices, without duplicates
 *
 * Sharing matters twice: a value that two consumers need at the same index is
 * computed once, and the graph of a chain stays as small as the chain.
 */
#include "backend/kernel/kernel_expr.h"

#include <assert.h>
#include <string.h>
#include "ir/base/message.h"
#include "ir/base/status.h"

enum { MAX_EXPRS = 65536 };

void
be_expr_fail(Build *b, const char *what)
{
    if (!b->error)
        b->error = message_part(what);
}

/* ---- equal nodes -------------------------------------------------------- */

static uint64_t
mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

static uint64_t
mix_dim(uint64_t h, Dim d)
{
    return mix(mix(h, (uint64_t)d.c), (uint64_t)d.k);
}

uint64_t
be_lin_hash(uint64_t h, const KIndex *x)
{
    h = mix_dim(h, x->base);
    for (int i = 0; i < x->num_terms; i++)
        h = mix(mix_dim(h, x->terms[i].coef), (uint64_t)x->terms[i].var->id);
    return h;
}

static uint64_t
hash_node(KNode *n)
{
    KNode *args[K_MAX_ARGS];
    int num = be_kernel_args(n, args);
    uint64_t h = mix((uint64_t)n->kind, (uint64_t)n->dtype);
    for (int i = 0; i < num; i++)
        h = mix(h, (uint64_t)(uintptr_t)args[i] >> 4);
    if (be_kernel_index(n))
        h = be_lin_hash(h, be_kernel_index(n));
    if (n->kind == K_CONST)
        h = mix(h, (uint64_t)n->constant.i);
    return n->kind == K_MAP ? mix(h, (uint64_t)n->map.op) : h;
}

/* A node's data besides its index and its arguments. */
static bool
equal_details(const KNode *x, const KNode *y)
{
    switch (x->kind) {
    case K_CONST: /* by its bits: -0.0 differs from 0.0 */
        return x->constant.i == y->constant.i;
    case K_ROW_START:
        return x->pair == y->pair;
    case K_INSIDE:
        return ir_dim_equal(x->inside.size, y->inside.size);
    case K_LOAD:
        return x->load.array == y->load.array && x->load.guard == y->load.guard;
    case K_MAP:
        return x->map.op == y->map.op && x->map.to == y->map.to &&
               x->map.num_args == y->map.num_args &&
               memcmp(x->map.args, y->map.args, sizeof x->map.args) == 0;
    case K_DIV:
    case K_MOD:
        return ir_dim_equal(x->divide.by, y->divide.by);
    case K_PICK:
        return x->pick.value == y->pick.value &&
               ir_dim_equal(x->pick.var->extent, y->pick.var->extent);
    case K_RUNNING:
        return x->running.exclusive == y->running.exclusive &&
               x->running.value == y->running.value;
    case K_REDUCE:
    case K_CONTRACT: /* have indices of their own */
        return false;
    case K_INDEX:
    case K_REPLICA_ID:
    case K_LOOP:
    case K_SCAN:
    case K_SORT:
    case K_STORE:
        return true;
    case K_NUM_KINDS:
        break;
    }
    UNREACHABLE("a node of no kind");
}

static bool
equal_nodes(KNode *x, KNode *y)
{
    return x->kind == y->kind && x->dtype == y->dtype && equal_details(x, y) &&
           (!be_kernel_index(x) ||
            be_index_equal(be_kernel_index(x), be_kernel_index(y)));
}

Expr *
be_expr_make(Build *b, const KNode *node)
{
    KRanges *ranges;
    KNode copy = *node;
    assert(copy.kind < K_NUM_KINDS);
    assert(!be_kernel_body(&copy, &ranges) ||
           !be_kernel_body(&copy, &ranges)->first);
    Expr **bucket = &b->exprs[hash_node(&copy) % EXPR_BUCKETS];
    for (Expr *e = *bucket; e; e = e->next) {
        if (equal_nodes(&e->node, &copy))
            return e;
    }
    if (++b->num_exprs > MAX_EXPRS)
        be_expr_fail(b, "the kernel would have more than 65,536 nodes");
    Expr *e = NEW(b->scratch, Expr);
    e->node = copy;
    KIndex *at = be_kernel_index(&e->node);
    if (at)
        at->terms = arena_copy(b->scratch, at->terms,
                               (size_t)at->num_terms * sizeof *at->terms);
    e->next = *bucket;
    *bucket = e;
    return e;
}

/* ---- nodes by kind ------------------------------------------------------ */

Expr *
be_expr_const(Build *b, Scalar value)
{
    Scalar s = scalar_cast(value, dtype_compute(value.dtype));
    return be_expr_make(
        b, &(KNode){.kind = K_CONST, .dtype = s.dtype, .constant = s});
}

Expr *
be_expr_map(Build *b, IrOpKind op, DType dtype, int num, Expr *const *args)
{
    KNode n = {.kind = K_MAP, .dtype = dtype_compute(dtype)};
    n.map.op = op;
    n.map.num_args = num;
    for (int i = 0; i < num; i++)
        n.map.args[i] = &args[i]->node;
    return be_expr_make(b, &n);
}

Expr *
be_expr_cast(Build *b, Expr *x, DType to)
{
    KNode n = {.kind = K_MAP, .dtype = dtype_compute(to)};
    n.map.op = OP_cast;
    n.map.to = to;
    n.map.num_args = 1;
    n.map.args[0] = &x->node;
    return be_expr_make(b, &n);
}

Expr *
be_expr_inside(Build *b, KIndex index, Dim size)
{
    return be_expr_make(
        b,
        &(KNode){.kind = K_INSIDE, .dtype = DT_bool, .inside = {index, size}});
}

Expr *
be_expr_and(Build *b, Expr *x, Expr *y)
{
    if (!x || !y)
        return x ? x : y;
    return be_expr_map(b, OP_and, DT_bool, 2, (Expr *const[]){x, y});
}

Expr *
be_expr_rounded(Build *b, Expr *e, DType dtype)
{
    return dtype == dtype_compute(dtype) ? e : be_expr_cast(b, e, dtype);
}

Expr *
be_expr_where(Build *b, Expr *guard, Expr *x, Expr *y, DType dtype)
{
    return be_expr_map(b, OP_where, dtype, 3, (Expr *const[]){guard, x, y});
}

Expr *
be_expr_zero(Build *b, DType dtype)
{
    return be_expr_const(b, scalar_cast(scalar_int(DT_i64, 0), dtype));
}

ExprVar *
be_expr_loop_var(Build *b, Dim extent)
{
    ExprVar *v = NEW(b->scratch, ExprVar);
    v->var = (KVar){b->num_vars++, extent};
    v->depth = -1;
    return v;
}

/* ---- indices ------------------------------------------------------------ */

void
be_expr_fail_index(Build *b)
{
    be_expr_fail(b,
                 "an index of the kernel multiplies lengths of the batch, or "
                 "does not fit 64 bits");
}

Dim
be_dim_times(Build *b, Dim x, Dim y)
{
    if (!ir_dim_mul(x, y, &x))
        be_expr_fail_index(b);
    return x;
}

KIndex
be_lin_const(Dim c)
{
    return (KIndex){.base = c};
}

KIndex
be_lin_var(Build *b, ExprVar *v)
{
    KIndex x = {ir_dim_const(0), 1, NEW(b->scratch, KTerm)};
    x.terms[0] = (KTerm){ir_dim_const(1), &v->var};
    return x;
}

KIndex
be_lin_add(Build *b, KIndex x, KIndex y)
{
    KIndex sum = x;
    if (!be_index_add(b->scratch, &x, &y, &sum))
        be_expr_fail_index(b);
    return sum;
}

KIndex
be_lin_scale(Build *b, KIndex x, Dim by)
{
    KIndex product = x;
    if (!be_index_scale(b->scratch, &x, by, &product))
        be_expr_fail_index(b);
    return product;
}

/* The greatest value of d. */
static int64_t
dim_most(const Build *b, Dim d)
{
    if (ir_dim_is_const(d) || d.k < 0)
        return d.c;
    const KPair *p = &b->k->pairs.data[d.sym / 2];
    return ir_dim_value(d, d.sym % 2 ? p->total : p->bound);
}

/* The greatest value of x, if it is never negative and terms are constant. */
static bool
index_most(const Build *b, const KIndex *x, int64_t *most)
{
    if (!ir_dim_is_const(x->base) || x->base.c < 0)
        return false;
    *most = x->base.c;
    for (int i = 0; i < x->num_terms; i++) {
        const KTerm *t = &x->terms[i];
        int64_t last = dim_most(b, t->var->extent) - 1, part;
        if (!ir_dim_is_const(t->coef) || t->coef.c < 0 ||
            __builtin_mul_overflow(t->coef.c, last < 0 ? 0 : last, &part) ||
            __builtin_add_overflow(*most, part, most))
            return false;
    }
    return true;
}

/* Whether 0 <= x < by can be proved. */
static bool
index_is_below(const Build *b, const KIndex *x, Dim by)
{
    int64_t most;
    if (x->num_terms == 1 && ir_dim_equal(x->base, ir_dim_const(0)) &&
        ir_dim_equal(x->terms[0].coef, ir_dim_const(1)) &&
        ir_dim_equal(x->terms[0].var->extent, by))
        return true;
    return ir_dim_is_const(by) && index_most(b, x, &most) && most < by.c;
}

static KIndex
index_of_division(Build *b, KKind kind, KIndex x, Dim by, Dim extent)
{
    KNode n = {.kind = kind, .divide = {NULL, x, by}};
    Expr *e = be_expr_make(b, &n);
    if (!e->node.divide.var) {
        ExprVar *v = be_expr_loop_var(b, extent);
        v->divide = e;
        e->node.divide.var = &v->var;
    }
    return be_lin_var(b, var_of(e->node.divide.var));
}

/* Whether a term of x makes it smaller: then a part of it may be below 0 though
 * x is not. */
static bool
runs_backwards(const KIndex *x)
{
    for (int i = 0; i < x->num_terms; i++)
        if (x->terms[i].coef.c < 0 || x->terms[i].coef.k < 0)
            return true;
    return x->base.c < 0 || x->base.k < 0;
}

/* x = by * whole + rest, as far as each term shows it. */
static void
split_index(Build *b, const KIndex *x, Dim by, KIndex *whole, KIndex *rest)
{
    *whole = be_lin_const(ir_dim_const(0));
    *rest = *whole;
    Dim q;
    if (ir_dim_div(x->base, by, &q))
        whole->base = q;
    else
        rest->base = x->base;
    whole->terms = NEW_ARRAY(b->scratch, KTerm, x->num_terms);
    rest->terms = NEW_ARRAY(b->scratch, KTerm, x->num_terms);
    for (int i = 0; i < x->num_terms; i++) {
        if (ir_dim_div(x->terms[i].coef, by, &q))
            whole->terms[whole->num_terms++] = (KTerm){q, x->terms[i].var};
        else
            rest->terms[rest->num_terms++] = x->terms[i];
    }
}

void
be_lin_divide(Build *b, KIndex x, Dim by, Dim extent, KIndex *quotient,
              KIndex *remainder)
{
    KIndex whole, rest;
    split_index(b, &x, by, &whole, &rest);
    if (runs_backwards(&rest)) {
        whole = be_lin_const(ir_dim_const(0));
        rest = x;
    }
    *quotient = whole;
    *remainder = rest;
    if (index_is_below(b, &rest, by))
        return;
    *remainder = index_of_division(b, K_MOD, rest, by, by);
    *quotient =
        be_lin_add(b, whole, index_of_division(b, K_DIV, rest, by, extent));
}

KIndex
be_lin_pick(Build *b, Expr *x, Dim extent)
{
    ExprVar *v = be_expr_loop_var(b, extent);
    KNode n = {.kind = K_PICK, .pick = {&v->var, &x->node}};
    Expr *e = be_expr_make(b, &n);
    v->divide = e;
    return be_lin_var(b, var_of(e->node.pick.var));
}
