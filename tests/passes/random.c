/*
 * random.c - random programs
 *
 * A block is a number of statements; each takes its operands from the values in
 * scope and adds its results to them.  A variable observes the values of a
 * step, so that they matter.  Numbers stay moderate: a product goes through
 * sin.
 */
#include "tests/passes/random.h"

#include <string.h>
#include "ir/dataset/stage.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "tests/passes/random_impl.h"

/* ---- control flow ------------------------------------------------------- */

typedef void (*Statement)(Gen *g, IrBlock *b);
static void gen_block(Gen *g, IrBlock *b, Statement statement);

/* A new value that is like `like`, or one that was there. */
static IrValue *
something_like(Gen *g, IrBlock *b, const IrValue *like)
{
    IrValue *v = random_find_value(g, random_is_alike_here, like);
    if (v && (random_chance(g, 80) || !ir_type_is_static(&v->type)))
        return v;
    IrValue *x =
        ir_const_fill(b, like->type.dtype, like->type.rank, like->type.dims,
                      scalar_int(DT_i64, 1), random_here(g));
    return x;
}

static void
add_results(Gen *g, IrOp *op)
{
    for (int i = 0; i < op->num_results; i++)
        random_add_value(g, op->results[i]);
}

static void
gen_if(Gen *g, IrBlock *b, IrValue *condition, Statement statement, Fits fits)
{
    IrOp *op = ir_build_op(b, OP_if, 1, &condition, random_here(g));
    int n = random_pick(g, 3), scope = g->scope.len;
    IrValue *like[3], *yields[3];
    for (int i = 0; i < n; i++) {
        like[i] = random_find_value(g, fits, NULL);
        if (!like[i])
            n = i;
    }
    for (int r = 0; r < 2; r++) {
        gen_block(g, op->regions[r], statement);
        for (int i = 0; i < n; i++)
            yields[i] = something_like(g, op->regions[r], like[i]);
        ir_build_yield(op->regions[r], n, yields, random_here(g));
        g->scope.len = scope;
    }
    ir_op_close(op);
    add_results(g, op);
}

/* The initial values of a loop's carried values. */
static int
pick_carried(Gen *g, Fits fits, IrValue **init)
{
    int n = 0;
    for (int i = random_pick(g, 4); i > 0; i--)
        if ((init[n] = random_find_value(g, fits, NULL)))
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
        random_add_value(g, ir_block_arg(b, t, NULL));
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
    ir_build_yield(b, k, yields, random_here(g));
}

static void
gen_for(Gen *g, IrBlock *b, IrValue *count, Statement statement, Fits fits)
{
    IrValue *operands[8] = {count};
    int n = pick_carried(g, fits, operands + 1), scope = g->scope.len;
    IrOp *op = ir_build_op(b, OP_for, n + 1, operands, random_here(g));
    IrBlock *body = op->regions[0];
    random_add_value(g, ir_block_arg(body, count->type, NULL));
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
    IrValue *operands[8] = {ir_const_int(b, DT_i32, 0, random_here(g))};
    int n = pick_carried(g, fits, operands + 1), scope = g->scope.len;
    IrOp *op = ir_build_op(b, OP_while, n + 1, operands, random_here(g));
    if (random_chance(g, 50))
        ir_set_int(op, A_max, random_pick(g, 4));
    IrBlock *test = op->regions[0], *body = op->regions[1];
    IrValue *at = ir_block_arg(test, operands[0]->type, NULL);
    add_args(g, test, n, operands + 1);
    IrValue *go =
        ir_build2(test, OP_lt, at,
                  ir_const_int(test, DT_i32, random_pick(g, 4), random_here(g)),
                  random_here(g));
    ir_build_yield(test, 1, &go, random_here(g));
    g->scope.len = scope;
    IrValue *k = ir_block_arg(body, operands[0]->type, NULL);
    IrValue *more = ir_build2(body, OP_add, k,
                              ir_const_int(body, DT_i32, 1, random_here(g)),
                              random_here(g));
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
    return random_is_host(v) && is_count(v, unused);
}

/* A count below four. */
static IrValue *
small_count(Gen *g, IrBlock *b, Fits fits)
{
    IrValue *v = random_find_value(g, fits, NULL);
    if (!v || random_chance(g, 30))
        return ir_const_int(b, DT_i32, random_pick(g, 4), random_here(g));
    return ir_build2(b, OP_mod, v, ir_const_int(b, DT_i32, 4, random_here(g)),
                     random_here(g));
}

/* ---- variables ---------------------------------------------------------- */

static const struct {
    const char *name;
    DType dtype;
    VarSync sync;
    IrAgg agg;
    int size; /* 0: a scalar */
} var_table[] = {
    {"plain", DT_f32, SYNC_ON_WRITE, AGG_none, 3},
    {"count", DT_i32, SYNC_ON_WRITE, AGG_none, 0},
    {"sum", DT_f32, SYNC_ON_WRITE, AGG_sum, 3},
    {"mean", DT_f32, SYNC_ON_WRITE, AGG_mean, 0},
    {"first", DT_i32, SYNC_ON_WRITE, AGG_first, 6},
    {"parts", DT_f32, SYNC_ON_READ, AGG_sum, 3},
    {"seen", DT_i32, SYNC_ON_READ, AGG_sum, 0},
    {"average", DT_f32, SYNC_ON_READ, AGG_mean, 6},
    {"digest", DT_f32, SYNC_ON_READ, AGG_mean, 0}, /* see observe */
};
enum { NUM_VARS = sizeof var_table / sizeof *var_table };

static void
add_vars(Gen *g)
{
    for (int i = 0; i < NUM_VARS; i++) {
        IrVar *v = NEW(g->m->arena, IrVar);
        bool on_read = var_table[i].sync == SYNC_ON_READ;
        v->name = intern(g->m->names, var_table[i].name);
        v->type = ir_type_scalar(var_table[i].dtype,
                                 on_read ? LOCAL_PER_REPLICA : LOCAL_MIRRORED);
        v->type.rank = var_table[i].size > 0;
        v->type.dims[0] = ir_dim_const(var_table[i].size);
        v->sync = var_table[i].sync;
        v->agg = var_table[i].agg;
        v->loc = random_here(g);
        ir_var_add(g->m, v);
    }
}

static bool
is_of_var(const IrValue *v, const void *like)
{
    const IrVar *var = like;
    return v->type.dtype == var->type.dtype &&
           ir_type_same_shape(&v->type, &var->type);
}

static bool
is_of_var_on_all(const IrValue *v, const void *like)
{
    return is_of_var(v, like) && random_is_equal_on_all(v);
}

static bool
is_of_var_own(const IrValue *v, const void *like)
{
    return is_of_var(v, like) && !random_is_equal_on_all(v);
}

static bool
is_of_var_host(const IrValue *v, const void *like)
{
    return is_of_var(v, like) && random_is_host(v);
}

static void
gen_read(Gen *g, IrBlock *b)
{
    IrVar *v = g->m->vars.data[random_pick(g, NUM_VARS)];
    random_add_value(g, ir_build_read(b, v->name, random_here(g)));
}

static IrUpdate
some_mode(Gen *g)
{
    static const IrUpdate modes[] = {UPDATE_set, UPDATE_add, UPDATE_sub};
    return modes[random_pick(g, 3)];
}

/* In replica context, as the table of synchronization lets it be. */
static void
gen_own_write(Gen *g, IrBlock *b)
{
    IrVar *v = g->m->vars.data[random_pick(g, NUM_VARS)];
    Fits fits = is_of_var;
    if (v->sync != SYNC_ON_READ && ir_divergence(b))
        return;
    if (v->sync != SYNC_ON_READ && v->agg == AGG_none)
        fits = is_of_var_on_all;
    else if (v->agg == AGG_sum && v->sync != SYNC_ON_READ)
        fits = is_of_var_own;
    IrValue *x = random_find_value(g, fits, v);
    if (x)
        ir_build_write(b, v->name, some_mode(g), x, random_here(g));
}

static void
gen_cross_write(Gen *g, IrBlock *b)
{
    IrVar *v = g->m->vars.data[random_pick(g, NUM_VARS)];
    IrValue *x = random_find_value(g, is_of_var_host, v);
    bool sum = v->sync == SYNC_ON_READ && v->agg == AGG_sum;
    if (x)
        ir_build_write(b, v->name, sum ? UPDATE_set : some_mode(g), x,
                       random_here(g));
}

static void
gen_update(Gen *g, IrBlock *b, Fits fits)
{
    IrVar *v = g->m->vars.data[random_pick(g, NUM_VARS)];
    IrValue *x = random_find_value(g, fits, v);
    if (!x)
        return;
    IrOp *op = ir_build_op(b, OP_update, 0, NULL, random_here(g));
    ir_set_text(op, A_var, v->name);
    IrBlock *in = op->regions[0];
    IrValue *old = ir_build_read(in, v->name, random_here(g));
    IrValue *now = ir_build2(in, OP_add, old, x, random_here(g));
    ir_build_write(in, v->name, some_mode(g), now, random_here(g));
    ir_build_yield(in, 0, NULL, random_here(g));
}

/* ---- steps -------------------------------------------------------------- */

/* Adds something of v to a variable of the replica, so that v matters. */
static void
observe(Gen *g, IrBlock *b, IrValue *v)
{
    IrValue *sum = ir_build_cast(b, v, DT_f32, random_here(g));
    sum = ir_build_sum_all(b, ir_build1(b, OP_sin, sum, random_here(g)),
                           random_here(g));
    ir_build_write(b, "digest", UPDATE_add, sum, random_here(g));
}

static void
gen_observe(Gen *g, IrBlock *b)
{
    IrValue *v = random_find_value(g, random_is_number, NULL);
    if (v)
        observe(g, b, v);
}

static IrAgg
some_combination(Gen *g, DType t)
{
    static const IrAgg words[] = {AGG_sum, AGG_max, AGG_min, AGG_mean};
    return words[random_pick(g, dtype_is_float(t) ? 4 : 3)];
}

static bool
is_own_static(const IrValue *v, const void *unused)
{
    return random_is_own(v, unused) && ir_type_is_static(&v->type);
}

static bool
is_own_row(const IrValue *v, const void *unused)
{
    return random_is_own(v, unused) && v->type.rank == 1;
}

static void
gen_all_gather(Gen *g, IrBlock *b)
{
    IrValue *x = random_find_value(g, is_own_row, NULL);
    if (x && !ir_divergence(b))
        random_add_value(g, ir_build_all_gather(b, x, 0, random_here(g)));
}

static void
gen_all_reduce(Gen *g, IrBlock *b)
{
    IrValue *x = random_find_value(g, is_own_static, NULL);
    if (!x || ir_divergence(b))
        return;
    IrOp *op = ir_build_all_reduce(b, some_combination(g, x->type.dtype), 1, &x,
                                   random_here(g));
    IrValue *v = op->results[0];
    random_add_value(g, dtype_is_float(v->type.dtype)
                            ? ir_build1(b, OP_sin, v, random_here(g))
                            : v);
}

static void
gen_merge(Gen *g, IrBlock *b)
{
    IrValue *x = random_find_value(g, is_own_static, NULL), *yields[2];
    if (!x || ir_divergence(b))
        return;
    IrOp *merge = ir_build_op(b, OP_merge, 0, NULL, random_here(g));
    IrBlock *in = merge->regions[0];
    int scope = g->scope.len;
    IrOp *op = ir_build_op(in, OP_reduce_to, 1, &x, random_here(g));
    ir_set_enum(op, A_op, some_combination(g, x->type.dtype));
    yields[0] = ir_build_infer(op);
    random_add_value(g, yields[0]);
    if (random_chance(g, 50))
        gen_read(g, in);
    gen_update(g, in, is_of_var_on_all);
    yields[1] = x;
    ir_build_yield(in, 2, yields, random_here(g));
    g->scope.len = scope;
    ir_op_close(merge);
    add_results(g, merge);
}

/* A value that is another on each replica. */
static void
gen_number(Gen *g, IrBlock *b)
{
    static const int64_t sizes[] = {3, 6};
    Dim d = ir_dim_const(sizes[random_pick(g, 2)]);
    IrValue *id = ir_build0(b, OP_replica_id, random_here(g));
    IrValue *x = ir_build_cast(b, id, random_chance(g, 70) ? DT_f32 : DT_i32,
                               random_here(g));
    IrValue *number = ir_build_iota(b, x->type.dtype, 1, &d, 0, random_here(g));
    random_add_value(g, random_chance(g, 30)
                            ? x
                            : ir_build2(b, OP_add, number, x, random_here(g)));
}

static void
gen_in_step(Gen *g, IrBlock *b)
{
    IrValue *condition = random_find_value(g, random_is_flag, NULL);
    switch (random_pick(g, 18)) {
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
        if (random_chance(g, 70))
            gen_merge(g, b);
        else
            gen_all_gather(g, b);
        break;
    case 6:
        gen_number(g, b);
        break;
    case 7:
        if (condition)
            gen_if(g, b, condition, gen_in_step, random_is_number);
        break;
    case 8:
        gen_for(g, b, small_count(g, b, is_count), gen_in_step,
                random_is_number);
        break;
    case 9:
        gen_while(g, b, gen_in_step, random_is_number);
        break;
    default:
        random_gen_compute(g, b, random_is_number);
        break;
    }
}

/* ---- main --------------------------------------------------------------- */

static void
gen_run(Gen *g, IrBlock *b)
{
    IrOp *run = ir_build_op(b, OP_run, 0, NULL, random_here(g));
    int n = 0, scope = g->scope.len;
    IrValue *yields[3];
    gen_number(g, run->regions[0]);
    gen_block(g, run->regions[0], gen_in_step);
    if (random_chance(g, 50))
        gen_block(g, run->regions[0], gen_in_step);
    gen_observe(g, run->regions[0]);
    for (int i = random_pick(g, 4); i > 0; i--) {
        IrValue *v = random_find_value(g, random_is_number, NULL);
        if (v && !random_is_host(v))
            yields[n++] = v;
    }
    ir_build_yield(run->regions[0], n, yields, random_here(g));
    g->scope.len = scope;
    ir_op_close(run);
    add_results(g, run);
}

/* What the replicas have, as one value of the host. */
static void
gen_reduce(Gen *g, IrBlock *b)
{
    IrValue *x = random_find_value(g, random_is_own, NULL);
    static const int64_t axis = 0;
    if (!x)
        return;
    IrOpKind kind = OP_reduce;
    bool is_static = ir_type_is_static(&x->type);
    if (x->type.rank == 1 && random_chance(g, 30))
        kind = OP_gather;
    else if (is_static && random_chance(g, 20))
        kind = OP_local_result;
    IrOp *op = ir_build_op(b, kind, 1, &x, random_here(g));
    if (kind == OP_gather)
        ir_set_int(op, A_axis, 0);
    else if (kind == OP_local_result)
        ir_set_int(op, A_replica, random_pick(g, g->m->num_replicas));
    else
        ir_set_enum(op, A_op, some_combination(g, x->type.dtype));
    if (kind == OP_reduce && x->type.rank == 1 &&
        (!is_static || random_chance(g, 50)))
        ir_set_ints(op, A_axes, &axis, 1);
    if (kind == OP_reduce && !is_static && x->type.rank != 1) {
        ir_remove(op);
        return;
    }
    IrValue *v = ir_build_infer(op);
    random_add_value(g, dtype_is_float(v->type.dtype)
                            ? ir_build1(b, OP_sin, v, random_here(g))
                            : v);
}

static bool
is_any_number(const IrValue *v, const void *unused)
{
    return (random_is_host(v) || random_is_own(v, unused)) &&
           random_is_number(v, unused);
}

static void
gen_print(Gen *g, IrBlock *b)
{
    IrValue *x = random_find_value(g, random_is_host_number, NULL);
    if (!x)
        return;
    IrOp *op = ir_build_op(b, OP_print, 1, &x, random_here(g));
    ir_set_text(op, A_format, "{}");
}

static void gen_in_main(Gen *g, IrBlock *b);

/* The steps of a dataset, whose batches the replicas share. */
static void
gen_epoch(Gen *g, IrBlock *b)
{
    IrOp *open = ir_build_op(b, OP_iter_open, 0, NULL, random_here(g));
    ir_set_text(open, A_iter, "it");
    IrOp *op = ir_build_op(b, OP_while, 0, NULL, random_here(g));
    IrBlock *test = op->regions[0], *body = op->regions[1];
    IrOp *has = ir_build_op(test, OP_iter_has_next, 0, NULL, random_here(g));
    ir_set_text(has, A_iter, "it");
    IrValue *more = ir_build_infer(has);
    ir_build_yield(test, 1, &more, random_here(g));
    IrOp *step = ir_build_op(body, OP_iter_next, 0, NULL, random_here(g));
    ir_set_text(step, A_iter, "it");
    IrType t = ir_type_scalar(DT_f32, LOCAL_PER_REPLICA);
    t.rank = 1;
    t.dims[0] = ir_dim_linear(0, 1, g->m->iters.data[0]->rows);
    ir_op_results(step, 1, &t);
    int scope = g->scope.len;
    random_add_value(g, step->results[0]);
    gen_run(g, body);
    gen_block(g, body, gen_in_main);
    g->scope.len = scope;
    ir_build_yield(body, 0, NULL, random_here(g));
    ir_op_close(op);
}

static void
gen_in_main(Gen *g, IrBlock *b)
{
    IrValue *condition = random_find_value(g, random_is_host_flag, NULL);
    switch (random_pick(g, 18)) {
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
    case 15:
        /* one inside another would never end */
        if (!b->op)
            gen_epoch(g, b);
        break;
    default:
        random_gen_compute(g, b, random_is_host_number);
        break;
    }
}

static void
gen_block(Gen *g, IrBlock *b, Statement statement)
{
    for (int n = 1 + random_pick(g, 8); n > 0 && g->budget > 0;
         n--, g->budget--) {
        g->line++;
        statement(g, b);
    }
}

static void
add_stage(Gen *g, IrDataset *d, StageKind kind, const int64_t *ints,
          const char *func, IrType t)
{
    IrStage stage = {.kind = kind, .func = func, .loc = random_here(g)};
    if (ints)
        memcpy(stage.ints, ints, 2 * sizeof *ints);
    VEC_PUSH(g->m->arena, stage.types, t);
    VEC_PUSH(g->m->arena, d->stages, stage);
}

/* The element's function: a number's sine. */
static const char *
add_element_fn(Gen *g)
{
    IrFunc *fn = ir_func_new(g->m, "d.map", FUNC_HOST, random_here(g));
    IrValue *i =
        ir_block_arg(fn->body, ir_type_scalar(DT_i64, LOCAL_HOST), NULL);
    IrValue *x = ir_build_cast(fn->body, i, DT_f32, random_here(g));
    x = ir_build1(fn->body, OP_sin, x, random_here(g));
    ir_build_return(fn->body, 1, &x, random_here(g));
    return fn->name;
}

/* A few batches of up to seven rows, the last of which may be short. */
static void
add_dataset(Gen *g)
{
    int rows = 1 + random_pick(g, 7), n = g->m->num_replicas;
    IrType t = ir_type_scalar(DT_f32, LOCAL_HOST);
    IrDataset *d = NEW(g->m->arena, IrDataset);
    IrIter *it = NEW(g->m->arena, IrIter);
    d->name = intern(g->m->names, "d");
    it->name = intern(g->m->names, "it");
    VEC_PUSH(g->m->arena, it->datasets, d->name);
    d->loc = it->loc = random_here(g);
    it->rows = ir_symbol_pair(g->m, (rows + n - 1) / n, rows);
    int64_t range[2] = {0, random_pick(g, 3 * rows)}, batch[2] = {rows, 0};
    add_stage(g, d, STAGE_range, range, NULL,
              ir_type_scalar(DT_i64, LOCAL_HOST));
    add_stage(g, d, STAGE_map, NULL, add_element_fn(g), t);
    t.rank = 1;
    t.dims[0] = ir_dim_linear(0, 1, ir_symbol_alone(g->m, rows));
    add_stage(g, d, STAGE_batch, batch, NULL, t);
    VEC_PUSH(g->m->arena, g->m->datasets, d);
    VEC_PUSH(g->m->arena, g->m->iters, it);
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
    g.m->num_replicas = 1 + random_pick(&g, 3);
    g.m->strategy = STRATEGY_mirrored;
    g.m->devices = arena_printf(a, "cpu:0-%d", g.m->num_replicas - 1);
    add_vars(&g);
    add_dataset(&g);
    IrFunc *fn = ir_func_new(g.m, "main", FUNC_MAIN, random_here(&g));
    for (int i = 0; i < 3; i++)
        random_add_value(&g, random_new_constant(&g, fn->body));
    gen_run(&g, fn->body);
    while (g.budget > 0)
        gen_block(&g, fn->body, gen_in_main);
    for (int i = 0; i < g.scope.len; i++)
        if (random_is_host(g.scope.data[i])) {
            IrOp *op = ir_build_op(fn->body, OP_print, 1, &g.scope.data[i],
                                   random_here(&g));
            ir_set_text(op, A_format, "{}");
        }
    ir_build_return(fn->body, 0, NULL, random_here(&g));
    ir_infer_localities(fn);
    return g.m;
}
