/*
 * random.c - programs made at random
 *
 * A block is a number of statements; each takes its operands from the values
 * in scope and adds what it makes to them.  Nearly all values are used by
 * somebody in the end: passes remove the rest.  Numbers stay tame: a product
 * goes through sin.
 */
#include "tests/passes/random.h"

#include <string.h>
#include "ir/build.h"

typedef struct Gen {
    IrModule *m;
    uint64_t state;
    IrValues scope;
    int budget;    /* statements left to make */
    uint32_t line; /* of the next statement */
} Gen;

/* ---- choosing ----------------------------------------------------------- */

static uint64_t
next(Gen *g)
{
    uint64_t x = g->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static int
pick(Gen *g, int n)
{
    return (int)(next(g) % (uint64_t)n);
}

static bool
chance(Gen *g, int percent)
{
    return pick(g, 100) < percent;
}

static Loc
here(Gen *g)
{
    return (Loc){g->line, 1, 1, 0};
}

/* ---- values in scope ---------------------------------------------------- */

static void
add_value(Gen *g, IrValue *v)
{
    VEC_PUSH(g->m->arena, g->scope, v);
}

typedef bool (*Fits)(const IrValue *v, const void *like);

/* A value in scope, later ones rather than earlier ones; NULL: none fits. */
static IrValue *
find_value(Gen *g, Fits fits, const void *like)
{
    IrValue *found = NULL;
    for (int i = g->scope.len - 1; i >= 0; i--)
        if (fits(g->scope.data[i], like)) {
            found = g->scope.data[i];
            if (chance(g, 40))
                break;
        }
    return found;
}

static bool
is_host(const IrValue *v)
{
    return v->type.locality == LOCAL_HOST;
}

static bool
is_equal_on_all(const IrValue *v)
{
    return v->type.locality != LOCAL_PER_REPLICA;
}

static bool
is_number(const IrValue *v, const void *unused)
{
    (void)unused;
    return v->type.dtype != DT_bool;
}

static bool
is_host_number(const IrValue *v, const void *unused)
{
    return is_host(v) && is_number(v, unused);
}

static bool
is_own(const IrValue *v, const void *unused)
{
    return !is_equal_on_all(v) && is_number(v, unused);
}

static bool
is_flag(const IrValue *v, const void *unused)
{
    (void)unused;
    return v->type.dtype == DT_bool && v->type.rank == 0;
}

static bool
is_host_flag(const IrValue *v, const void *unused)
{
    return is_host(v) && is_flag(v, unused);
}

static bool
is_alike(const IrValue *v, const void *like)
{
    const IrValue *x = like;
    return v->type.dtype == x->type.dtype &&
           type_same_shape(&v->type, &x->type);
}

static bool
is_alike_here(const IrValue *v, const void *like)
{
    const IrValue *x = like;
    return is_alike(v, like) && is_host(v) == is_host(x);
}

/* Alike, or a scalar that broadcasts. */
static bool
goes_with(const IrValue *v, const void *like)
{
    const IrValue *x = like;
    return v->type.dtype == x->type.dtype && is_host(v) == is_host(x) &&
           (is_alike(v, like) || v->type.rank == 0);
}

/* ---- computing ---------------------------------------------------------- */

static IrValue *
scalar_of(Gen *g, IrBlock *b, DType t)
{
    if (t == DT_f32)
        return ir_const_float(b, t, 0.25 * (pick(g, 13) - 6), here(g));
    return ir_const_int(b, t, pick(g, 7) - 2, here(g));
}

static IrValue *
new_constant(Gen *g, IrBlock *b)
{
    static const int64_t sizes[] = {3, 6};
    IrValue *x = scalar_of(g, b, chance(g, 75) ? DT_f32 : DT_i32);
    if (chance(g, 40))
        return x;
    Dim d = dim_const(sizes[pick(g, 2)]);
    IrValue *number = ir_build_iota(b, x->type.dtype, 1, &d, 0, here(g));
    return ir_build2(b, OP_sub, number, x, here(g));
}

static IrValue *
unary(Gen *g, IrBlock *b, IrValue *x)
{
    static const IrOpKind kinds[] = {OP_neg, OP_abs, OP_sign, OP_sin, OP_tanh};
    bool is_float = dtype_is_float(x->type.dtype);
    return ir_build1(b, kinds[pick(g, is_float ? 5 : 3)], x, here(g));
}

static IrValue *
binary(Gen *g, IrBlock *b, IrValue *x, IrValue *y)
{
    static const IrOpKind kinds[] = {OP_add,     OP_sub,     OP_mul,
                                     OP_maximum, OP_minimum, OP_mod};
    IrOpKind kind = kinds[pick(g, 6)];
    IrValue *v = ir_build2(b, kind, x, y, here(g));
    if (kind == OP_mul && dtype_is_float(v->type.dtype))
        v = ir_build1(b, OP_sin, v, here(g));
    return v;
}

/* The same elements elsewhere. */
static IrValue *
move(Gen *g, IrBlock *b, IrValue *x)
{
    static const int64_t perm[] = {1, 0}, start[] = {0, 1}, step[] = {1, 1};
    if (x->type.rank == 0)
        return ir_build_broadcast(
            b, x, 1, (Dim[]){dim_const(chance(g, 50) ? 3 : 6)}, here(g));
    if (x->type.rank == 2)
        return chance(g, 50) || x->type.dims[1].c == 1
                   ? ir_build_transpose(b, x, perm, here(g))
                   : ir_build_slice(b, x, start,
                                    (Dim[]){x->type.dims[0], dim_const(1)},
                                    step, here(g));
    if (x->type.dims[0].c > 6)
        return ir_build_reverse(b, x, (int64_t[]){0}, 1, here(g));
    if (x->type.dims[0].c == 6)
        return ir_build_reshape(b, x, 2, (Dim[]){dim_const(2), dim_const(3)},
                                here(g));
    return ir_build_concat(b, 2, (IrValue *[]){x, x}, 0, here(g));
}

static IrValue *
reduced(Gen *g, IrBlock *b, IrValue *x)
{
    static const IrOpKind kinds[] = {OP_sum, OP_reduce_max, OP_prod};
    int64_t axis = x->type.rank - 1;
    if (axis < 0)
        return unary(g, b, x);
    IrValue *v = ir_build_reduce(b, kinds[pick(g, 3)], x, &axis, 1,
                                 chance(g, 30), here(g));
    return dtype_is_float(v->type.dtype) ? ir_build1(b, OP_sin, v, here(g)) : v;
}

static void
gen_compute(Gen *g, IrBlock *b, Fits fits)
{
    IrValue *x = chance(g, 90) ? find_value(g, fits, NULL) : NULL;
    IrValue *v;
    if (!x) {
        add_value(g, new_constant(g, b));
        return;
    }
    IrValue *y = find_value(g, goes_with, x);
    switch (pick(g, 8)) {
    case 0:
        v = unary(g, b, x);
        break;
    case 1:
        v = move(g, b, x);
        break;
    case 2:
        v = reduced(g, b, x);
        break;
    case 3:
        v = ir_build_cast(b, x, chance(g, 60) ? DT_f32 : DT_i32, here(g));
        break;
    case 4:
        v = ir_build2(b, chance(g, 50) ? OP_lt : OP_eq, x, y, here(g));
        break;
    default:
        v = binary(g, b, x, y);
        break;
    }
    add_value(g, v);
}

/* ---- control flow ------------------------------------------------------- */

typedef void (*Statement)(Gen *g, IrBlock *b);
static void gen_block(Gen *g, IrBlock *b, Statement statement);

/* A new value that is like `like`, and may be one that was there. */
static IrValue *
something_like(Gen *g, IrBlock *b, const IrValue *like)
{
    IrValue *v = find_value(g, is_alike_here, like);
    if (v && chance(g, 80))
        return v;
    IrValue *x = ir_const_fill(b, like->type.dtype, like->type.rank,
                               like->type.dims, scalar_int(DT_i64, 1), here(g));
    return x;
}

static void
add_results(Gen *g, IrOp *op)
{
    for (int i = 0; i < op->num_results; i++)
        add_value(g, op->results[i]);
}

static void
gen_if(Gen *g, IrBlock *b, IrValue *condition, Statement statement, Fits fits)
{
    IrOp *op = ir_build_op(b, OP_if, 1, &condition, here(g));
    int n = pick(g, 3), scope = g->scope.len;
    IrValue *like[3], *yields[3];
    for (int i = 0; i < n; i++) {
        like[i] = find_value(g, fits, NULL);
        if (!like[i])
            n = i;
    }
    for (int r = 0; r < 2; r++) {
        gen_block(g, op->regions[r], statement);
        for (int i = 0; i < n; i++)
            yields[i] = something_like(g, op->regions[r], like[i]);
        ir_build_yield(op->regions[r], n, yields, here(g));
        g->scope.len = scope;
    }
    ir_op_close(op);
    add_results(g, op);
}

/* The carried values of a loop: what they begin with. */
static int
pick_carried(Gen *g, Fits fits, IrValue **init)
{
    int n = 0;
    for (int i = pick(g, 4); i > 0; i--)
        if ((init[n] = find_value(g, fits, NULL)))
            n++;
    return n;
}

/* Arguments of a loop may be anything a replica likes, so that whatever is
 * yielded fits. */
static void
add_args(Gen *g, IrBlock *b, int n, IrValue *const *init)
{
    for (int i = 0; i < n; i++) {
        IrType t = init[i]->type;
        if (t.locality != LOCAL_HOST)
            t.locality = LOCAL_PER_REPLICA;
        add_value(g, ir_block_arg(b, t, NULL));
    }
}

static void
yield_carried(Gen *g, IrBlock *b, int n, IrValue *const *init, IrValue *first)
{
    IrValue *yields[8];
    int k = 0;
    if (first)
        yields[k++] = first;
    for (int i = 0; i < n; i++)
        yields[k++] = something_like(g, b, init[i]);
    ir_build_yield(b, k, yields, here(g));
}

static void
gen_for(Gen *g, IrBlock *b, IrValue *count, Statement statement, Fits fits)
{
    IrValue *operands[8] = {count};
    int n = pick_carried(g, fits, operands + 1), scope = g->scope.len;
    IrOp *op = ir_build_op(b, OP_for, n + 1, operands, here(g));
    IrBlock *body = op->regions[0];
    add_value(g, ir_block_arg(body, count->type, NULL));
    add_args(g, body, n, operands + 1);
    gen_block(g, body, statement);
    yield_carried(g, body, n, operands + 1, NULL);
    g->scope.len = scope;
    ir_op_close(op);
    add_results(g, op);
}

/* While a carried counter is below a limit. */
static void
gen_while(Gen *g, IrBlock *b, Statement statement, Fits fits)
{
    IrValue *operands[8] = {ir_const_int(b, DT_i32, 0, here(g))};
    int n = pick_carried(g, fits, operands + 1), scope = g->scope.len;
    IrOp *op = ir_build_op(b, OP_while, n + 1, operands, here(g));
    if (chance(g, 50))
        ir_set_int(op, A_max, pick(g, 4));
    IrBlock *test = op->regions[0], *body = op->regions[1];
    IrValue *at = ir_block_arg(test, operands[0]->type, NULL);
    add_args(g, test, n, operands + 1);
    IrValue *go =
        ir_build2(test, OP_lt, at,
                  ir_const_int(test, DT_i32, pick(g, 4), here(g)), here(g));
    ir_build_yield(test, 1, &go, here(g));
    g->scope.len = scope;
    IrValue *k = ir_block_arg(body, operands[0]->type, NULL);
    IrValue *more = ir_build2(body, OP_add, k,
                              ir_const_int(body, DT_i32, 1, here(g)), here(g));
    add_args(g, body, n, operands + 1);
    gen_block(g, body, statement);
    yield_carried(g, body, n, operands + 1, more);
    g->scope.len = scope;
    ir_op_close(op);
    add_results(g, op);
}

static bool
is_count(const IrValue *v, const void *unused)
{
    (void)unused;
    return v->type.dtype == DT_i32 && v->type.rank == 0;
}

static bool
is_host_count(const IrValue *v, const void *unused)
{
    return is_host(v) && is_count(v, unused);
}

/* A count below four. */
static IrValue *
small_count(Gen *g, IrBlock *b, Fits fits)
{
    IrValue *v = find_value(g, fits, NULL);
    if (!v || chance(g, 30))
        return ir_const_int(b, DT_i32, pick(g, 4), here(g));
    return ir_build2(b, OP_mod, v, ir_const_int(b, DT_i32, 4, here(g)),
                     here(g));
}

/* ---- variables ---------------------------------------------------------- */

static const struct {
    const char *name;
    DType dtype;
    VarSync sync;
    VarAgg agg;
    int size; /* 0: a scalar */
} var_table[] = {
    {"plain", DT_f32, SYNC_ON_WRITE, AGG_NONE, 3},
    {"count", DT_i32, SYNC_ON_WRITE, AGG_NONE, 0},
    {"sum", DT_f32, SYNC_ON_WRITE, AGG_SUM, 3},
    {"mean", DT_f32, SYNC_ON_WRITE, AGG_MEAN, 0},
    {"first", DT_i32, SYNC_ON_WRITE, AGG_FIRST, 6},
    {"parts", DT_f32, SYNC_ON_READ, AGG_SUM, 3},
    {"seen", DT_i32, SYNC_ON_READ, AGG_SUM, 0},
    {"average", DT_f32, SYNC_ON_READ, AGG_MEAN, 6},
    {"digest", DT_f32, SYNC_ON_READ, AGG_MEAN, 0}, /* see observe */
};
enum { NUM_VARS = sizeof var_table / sizeof *var_table };

static void
add_vars(Gen *g)
{
    for (int i = 0; i < NUM_VARS; i++) {
        IrVar *v = NEW(g->m->arena, IrVar);
        bool on_read = var_table[i].sync == SYNC_ON_READ;
        v->name = intern(g->m->names, var_table[i].name);
        v->type = type_scalar(var_table[i].dtype,
                              on_read ? LOCAL_PER_REPLICA : LOCAL_MIRRORED);
        v->type.rank = var_table[i].size > 0;
        v->type.dims[0] = dim_const(var_table[i].size);
        v->sync = var_table[i].sync;
        v->agg = var_table[i].agg;
        v->loc = here(g);
        VEC_PUSH(g->m->arena, g->m->vars, v);
    }
}

static bool
is_of_var(const IrValue *v, const void *like)
{
    const IrVar *var = like;
    return v->type.dtype == var->type.dtype &&
           type_same_shape(&v->type, &var->type);
}

static bool
is_of_var_on_all(const IrValue *v, const void *like)
{
    return is_of_var(v, like) && is_equal_on_all(v);
}

static bool
is_of_var_own(const IrValue *v, const void *like)
{
    return is_of_var(v, like) && !is_equal_on_all(v);
}

static bool
is_of_var_host(const IrValue *v, const void *like)
{
    return is_of_var(v, like) && is_host(v);
}

static void
gen_read(Gen *g, IrBlock *b)
{
    IrVar *v = g->m->vars.data[pick(g, NUM_VARS)];
    add_value(g, ir_build_read(b, v->name, here(g)));
}

static const char *
some_mode(Gen *g)
{
    static const char *const modes[] = {"set", "add", "sub"};
    return modes[pick(g, 3)];
}

/* In replica context, as the table of synchronization lets it be. */
static void
gen_own_write(Gen *g, IrBlock *b)
{
    IrVar *v = g->m->vars.data[pick(g, NUM_VARS)];
    Fits fits = is_of_var;
    if (v->sync != SYNC_ON_READ && ir_divergence(b))
        return;
    if (v->sync != SYNC_ON_READ && v->agg == AGG_NONE)
        fits = is_of_var_on_all;
    else if (v->agg == AGG_SUM && v->sync != SYNC_ON_READ)
        fits = is_of_var_own;
    IrValue *x = find_value(g, fits, v);
    if (x)
        ir_build_write(b, v->name, some_mode(g), x, here(g));
}

static void
gen_cross_write(Gen *g, IrBlock *b)
{
    IrVar *v = g->m->vars.data[pick(g, NUM_VARS)];
    IrValue *x = find_value(g, is_of_var_host, v);
    bool sum = v->sync == SYNC_ON_READ && v->agg == AGG_SUM;
    if (x)
        ir_build_write(b, v->name, sum ? "set" : some_mode(g), x, here(g));
}

static void
gen_update(Gen *g, IrBlock *b, Fits fits)
{
    IrVar *v = g->m->vars.data[pick(g, NUM_VARS)];
    IrValue *x = find_value(g, fits, v);
    if (!x)
        return;
    IrOp *op = ir_build_op(b, OP_update, 0, NULL, here(g));
    ir_set_text(op, A_var, v->name);
    IrBlock *in = op->regions[0];
    IrValue *old = ir_build_read(in, v->name, here(g));
    IrValue *now = ir_build2(in, OP_add, old, x, here(g));
    ir_build_write(in, v->name, some_mode(g), now, here(g));
    ir_build_yield(in, 0, NULL, here(g));
}

/* ---- steps -------------------------------------------------------------- */

/* Adds something of v to a variable of the replica, so that v matters. */
static void
observe(Gen *g, IrBlock *b, IrValue *v)
{
    IrValue *sum = ir_build_cast(b, v, DT_f32, here(g));
    sum = ir_build_sum_all(b, ir_build1(b, OP_sin, sum, here(g)), here(g));
    ir_build_write(b, "digest", "add", sum, here(g));
}

static void
gen_observe(Gen *g, IrBlock *b)
{
    IrValue *v = find_value(g, is_number, NULL);
    if (v)
        observe(g, b, v);
}

static const char *
some_combination(Gen *g, DType t)
{
    static const char *const words[] = {"sum", "max", "min", "mean"};
    return words[pick(g, dtype_is_float(t) ? 4 : 3)];
}

static void
gen_all_reduce(Gen *g, IrBlock *b)
{
    IrValue *x = find_value(g, is_own, NULL);
    if (!x || ir_divergence(b))
        return;
    IrOp *op = ir_build_all_reduce(b, some_combination(g, x->type.dtype), 1, &x,
                                   here(g));
    IrValue *v = op->results[0];
    add_value(g, dtype_is_float(v->type.dtype)
                     ? ir_build1(b, OP_sin, v, here(g))
                     : v);
}

static void
gen_merge(Gen *g, IrBlock *b)
{
    IrValue *x = find_value(g, is_own, NULL), *yields[2];
    if (!x || ir_divergence(b))
        return;
    IrOp *merge = ir_build_op(b, OP_merge, 0, NULL, here(g));
    IrBlock *in = merge->regions[0];
    int scope = g->scope.len;
    IrOp *op = ir_build_op(in, OP_reduce_to, 1, &x, here(g));
    ir_set_text(op, A_op, some_combination(g, x->type.dtype));
    yields[0] = ir_build_infer(op);
    add_value(g, yields[0]);
    if (chance(g, 50))
        gen_read(g, in);
    gen_update(g, in, is_of_var_on_all);
    yields[1] = x;
    ir_build_yield(in, 2, yields, here(g));
    g->scope.len = scope;
    ir_op_close(merge);
    add_results(g, merge);
}

/* A value that is another on each replica. */
static void
gen_number(Gen *g, IrBlock *b)
{
    static const int64_t sizes[] = {3, 6};
    Dim d = dim_const(sizes[pick(g, 2)]);
    IrValue *id = ir_build0(b, OP_replica_id, here(g));
    IrValue *x = ir_build_cast(b, id, chance(g, 70) ? DT_f32 : DT_i32, here(g));
    IrValue *number = ir_build_iota(b, x->type.dtype, 1, &d, 0, here(g));
    add_value(g, chance(g, 30) ? x : ir_build2(b, OP_add, number, x, here(g)));
}

static void
gen_in_step(Gen *g, IrBlock *b)
{
    IrValue *condition = find_value(g, is_flag, NULL);
    switch (pick(g, 18)) {
    case 0:
        gen_read(g, b);
        break;
    case 1:
    case 16:
    case 17:
        gen_observe(g, b);
        break;
    case 2:
    case 3:
        gen_own_write(g, b);
        break;
    case 4:
        gen_all_reduce(g, b);
        break;
    case 5:
        gen_merge(g, b);
        break;
    case 6:
        gen_number(g, b);
        break;
    case 7:
        if (condition)
            gen_if(g, b, condition, gen_in_step, is_number);
        break;
    case 8:
        gen_for(g, b, small_count(g, b, is_count), gen_in_step, is_number);
        break;
    case 9:
        gen_while(g, b, gen_in_step, is_number);
        break;
    default:
        gen_compute(g, b, is_number);
        break;
    }
}

/* ---- main --------------------------------------------------------------- */

static void
gen_run(Gen *g, IrBlock *b)
{
    IrOp *run = ir_build_op(b, OP_run, 0, NULL, here(g));
    int n = 0, scope = g->scope.len;
    IrValue *yields[3];
    gen_number(g, run->regions[0]);
    gen_block(g, run->regions[0], gen_in_step);
    if (chance(g, 50))
        gen_block(g, run->regions[0], gen_in_step);
    gen_observe(g, run->regions[0]);
    for (int i = pick(g, 4); i > 0; i--) {
        IrValue *v = find_value(g, is_number, NULL);
        if (v && !is_host(v))
            yields[n++] = v;
    }
    ir_build_yield(run->regions[0], n, yields, here(g));
    g->scope.len = scope;
    ir_op_close(run);
    add_results(g, run);
}

static void
gen_reduce(Gen *g, IrBlock *b)
{
    IrValue *x = find_value(g, is_own, NULL);
    if (!x)
        return;
    IrOp *op;
    if (chance(g, 20)) {
        op = ir_build_op(b, OP_local_result, 1, &x, here(g));
        ir_set_int(op, A_replica, pick(g, g->m->num_replicas));
    } else {
        op = ir_build_op(b, OP_reduce, 1, &x, here(g));
        ir_set_text(op, A_op, some_combination(g, x->type.dtype));
    }
    IrValue *v = ir_build_infer(op);
    add_value(g, dtype_is_float(v->type.dtype)
                     ? ir_build1(b, OP_sin, v, here(g))
                     : v);
}

static bool
is_any_number(const IrValue *v, const void *unused)
{
    return (is_host(v) || is_own(v, unused)) && is_number(v, unused);
}

static void
gen_print(Gen *g, IrBlock *b)
{
    IrValue *x = find_value(g, is_host_number, NULL);
    if (!x)
        return;
    IrOp *op = ir_build_op(b, OP_print, 1, &x, here(g));
    ir_set_text(op, A_format, "{}");
}

static void
gen_in_main(Gen *g, IrBlock *b)
{
    IrValue *condition = find_value(g, is_host_flag, NULL);
    switch (pick(g, 18)) {
    case 0:
    case 1:
    case 2:
    case 3:
        gen_run(g, b);
        break;
    case 4:
    case 5:
        gen_reduce(g, b);
        break;
    case 6:
        gen_read(g, b);
        break;
    case 7:
        gen_cross_write(g, b);
        break;
    case 8:
        gen_update(g, b, is_of_var_host);
        break;
    case 9:
    case 10:
        gen_print(g, b);
        break;
    case 11:
        if (condition)
            gen_if(g, b, condition, gen_in_main, is_any_number);
        break;
    case 12:
    case 13:
        gen_for(g, b, small_count(g, b, is_host_count), gen_in_main,
                is_any_number);
        break;
    case 14:
        gen_while(g, b, gen_in_main, is_any_number);
        break;
    default:
        gen_compute(g, b, is_host_number);
        break;
    }
}

static void
gen_block(Gen *g, IrBlock *b, Statement statement)
{
    for (int n = 1 + pick(g, 8); n > 0 && g->budget > 0; n--, g->budget--) {
        g->line++;
        statement(g, b);
    }
}

IrModule *
random_program(Arena *a, uint64_t seed)
{
    Diag *d = diag_new(a);
    diag_add_source(d, "random.tfd", NULL, 0);
    Gen g = {.m = ir_module_new(a, intern_new(a), d),
             .state = seed,
             .budget = 90,
             .line = 1};
    g.m->num_replicas = 2 + pick(&g, 2);
    g.m->strategy = "mirrored";
    g.m->devices = arena_printf(a, "cpu:0-%d", g.m->num_replicas - 1);
    add_vars(&g);
    IrFunc *fn = ir_func_new(g.m, "main", FUNC_MAIN, here(&g));
    for (int i = 0; i < 3; i++)
        add_value(&g, new_constant(&g, fn->body));
    gen_run(&g, fn->body);
    while (g.budget > 0)
        gen_block(&g, fn->body, gen_in_main);
    for (int i = 0; i < g.scope.len; i++)
        if (is_host(g.scope.data[i])) {
            IrOp *op =
                ir_build_op(fn->body, OP_print, 1, &g.scope.data[i], here(&g));
            ir_set_text(op, A_format, "{}");
        }
    ir_build_return(fn->body, 0, NULL, here(&g));
    ir_settle_localities(fn);
    return g.m;
}
