/*
 * samples_program.c - programs with variables, replicas, control flow and main
 */
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "tests/ops/sampler.h"

#include <string.h>

static DType
dtype_of(const Sampler *s)
{
    return s->out->of.dtype;
}

static bool
is_number(const Sampler *s)
{
    return dtype_of(s) != DT_bool;
}

/* The size where shapes have to be equal on all replicas. */
static Dim
static_size(const Sampler *s)
{
    return sampler_is_batch(s) ? num(3) : s->s;
}

/* ---- variables ---------------------------------------------------------- */

static void
write_in_modes(Sampler *s, const char *var, IrValue *x)
{
    static const IrUpdate modes[] = {UPDATE_set, UPDATE_add, UPDATE_sub,
                                     UPDATE_mul, UPDATE_div};
    int n = !is_number(s) ? 1 : dtype_is_float(dtype_of(s)) ? 5 : 4;
    for (int i = 0; i < n; i++) {
        ir_build_write(s->b, var, modes[i], x, s->loc);
        sampler_result(s, ir_build_read(s->b, var, s->loc));
    }
}

/* Two parts of replicas, one of them mirrored by its aggregation, and a copy
 * that update context changes. */
void
build_variables(Sampler *s)
{
    Dim d = static_size(s);
    IrValue *x = sampler_arg(s, 1, &d);
    sampler_var(s, "own", SYNC_ON_READ, AGG_none, 1, &d);
    sampler_var(s, "mirrored", SYNC_ON_WRITE, AGG_first, 1, &d);
    sampler_var(s, "updated", SYNC_ON_WRITE, AGG_none, 1, &d);
    write_in_modes(s, "own", x);
    write_in_modes(s, "mirrored", x);
    IrOp *update = ir_build_op(s->fn->body, OP_update, 0, NULL, s->loc);
    IrBlock *b = update->regions[0];
    ir_set_text(update, A_var, "updated");
    IrValue *one =
        ir_const_fill(b, dtype_of(s), 1, &d, scalar_int(DT_i64, 1), s->loc);
    ir_build_write(b, "updated", is_number(s) ? UPDATE_add : UPDATE_set, one,
                   s->loc);
    ir_build_yield(b, 0, NULL, s->loc);
    s->refused = s->out->of.gradient;
}

/* ---- what replicas do together ------------------------------------------ */

static const IrAgg combinations[] = {AGG_sum, AGG_max, AGG_min, AGG_mean};

static int
num_combinations(const Sampler *s)
{
    return !is_number(s) ? 0 : dtype_is_float(dtype_of(s)) ? 4 : 3;
}

void
build_all_reduce(Sampler *s)
{
    Dim d = static_size(s);
    IrValue *x[] = {sampler_arg(s, 1, &d), sampler_arg(s, 0, NULL)};
    for (int i = 0; i < num_combinations(s); i++) {
        IrOp *op = ir_build_all_reduce(s->b, combinations[i], 2, x, s->loc);
        sampler_result(s, op->results[0]);
        sampler_result(s, op->results[1]);
    }
    s->refused = !is_number(s);
}

void
build_all_gather(Sampler *s)
{
    IrValue *x = sampler_arg(s, 2, DIMS(s->s, num(2)));
    sampler_result(s, ir_build_all_gather(s->b, x, 0, s->loc));
    if (!sampler_is_batch(s))
        sampler_result(s, ir_build_all_gather(s->b, x, 1, s->loc));
}

void
build_global_mean(Sampler *s)
{
    IrValue *x = sampler_arg(s, 2, DIMS(s->s, num(3)));
    sampler_result(s, sampler_infer(s, sampler_op(s, s->b, 1, &x)));
}

void
build_merge(Sampler *s)
{
    Dim d = static_size(s);
    IrValue *x = sampler_arg(s, 1, &d), *yields[8];
    int n = 0;
    IrOp *merge = ir_build_op(s->b, OP_merge, 0, NULL, s->loc);
    IrBlock *b = merge->regions[0];
    for (int i = 0; i < num_combinations(s); i++) {
        IrOp *op = ir_build_op(b, OP_reduce_to, 1, &x, s->loc);
        ir_set_enum(op, A_op, combinations[i]);
        yields[n++] = ir_build_infer(op);
    }
    IrValue *one =
        ir_const_fill(b, dtype_of(s), 1, &d, scalar_int(DT_i64, 1), s->loc);
    yields[n++] = ir_build1(b, OP_broadcast_to, one, s->loc);
    yields[n++] = x;
    ir_build_yield(b, n, yields, s->loc);
    ir_op_close(merge);
    for (int i = 0; i < n; i++)
        sampler_result(s, merge->results[i]);
    s->refused = s->out->of.gradient ||
                 (s->out->of.kind == OP_reduce_to && !is_number(s));
}

static void
reduce_result(Sampler *s, IrValue *x, IrAgg how, int n, const int64_t *axes)
{
    IrOp *op = ir_build_op(s->fn->body, OP_reduce, 1, &x, s->loc);
    ir_set_enum(op, A_op, how);
    if (axes)
        ir_set_ints(op, A_axes, axes, n);
    VEC_PUSH(s->m->arena, s->above, ir_build_infer(op));
}

void
build_reduce(Sampler *s)
{
    IrValue *x = sampler_arg(s, 2, DIMS(s->s, num(2)));
    for (int i = 0; i < num_combinations(s); i++) {
        reduce_result(s, x, combinations[i], 1, AXES(0));
        reduce_result(s, x, combinations[i], 2, AXES(0, 1));
        if (!sampler_is_batch(s))
            reduce_result(s, x, combinations[i], 0, NULL);
    }
    s->refused = !is_number(s) || s->out->of.gradient;
}

void
build_gather(Sampler *s)
{
    IrValue *x = sampler_arg(s, 2, DIMS(s->s, num(2)));
    IrValue *y = sampler_arg(s, 1, DIMS(num(2)));
    IrOp *gather = ir_build_op(s->fn->body, OP_gather, 1, &x, s->loc);
    ir_set_int(gather, A_axis, 0);
    VEC_PUSH(s->m->arena, s->above, ir_build_infer(gather));
    IrOp *local = ir_build_op(s->fn->body, OP_local_result, 1, &y, s->loc);
    ir_set_int(local, A_replica, 1);
    VEC_PUSH(s->m->arena, s->above, ir_build_infer(local));
    s->refused = s->out->of.gradient;
}

/* ---- control flow ------------------------------------------------------- */

/* Something that depends on x and y. */
static IrValue *
mixed(Sampler *s, IrBlock *b, IrValue *x, IrValue *y)
{
    if (!is_number(s))
        return ir_build2(b, OP_and, x, y, s->loc);
    return ir_build2(b, OP_mul, x, y, s->loc);
}

/* Replicas go different ways: number 0 the first. */
static void
branch_on(Sampler *s, IrValue *condition, IrValue *x, IrValue *y)
{
    IrOp *branch = ir_build_op(s->b, OP_if, 1, &condition, s->loc);
    IrValue *one = mixed(s, branch->regions[0], x, y);
    IrValue *first[] = {one, mixed(s, branch->regions[0], one, x)};
    IrValue *second[] = {y, mixed(s, branch->regions[1], y, y)};
    ir_build_yield(branch->regions[0], 2, first, s->loc);
    ir_build_yield(branch->regions[1], 2, second, s->loc);
    ir_op_close(branch);
    sampler_result(s, branch->results[0]);
    sampler_result(s, branch->results[1]);
}

void
build_branch(Sampler *s)
{
    IrValue *x = sampler_arg(s, 1, &s->s), *y = sampler_arg(s, 1, &s->s);
    IrValue *id = ir_build0(s->b, OP_replica_id, s->loc);
    IrValue *one = ir_const_int(s->b, DT_i32, 1, s->loc);
    branch_on(s, ir_build2(s->b, OP_lt, id, one, s->loc), x, y);
    branch_on(s, ir_const_bool(s->b, true, s->loc), x, y);
}

/* x and y change places, and one of them grows, count times. */
static void
loop_for(Sampler *s, IrValue *count, IrValue *x, IrValue *y)
{
    IrOp *loop =
        ir_build_op(s->b, OP_for, 3, (IrValue *[]){count, x, y}, s->loc);
    IrBlock *b = loop->regions[0];
    ir_block_arg(b, count->type, NULL);
    IrValue *u = ir_block_arg(b, x->type, NULL);
    IrValue *v = ir_block_arg(b, y->type, NULL);
    ir_build_yield(b, 2, (IrValue *[]){v, mixed(s, b, u, y)}, s->loc);
    ir_op_close(loop);
    sampler_result(s, loop->results[0]);
    sampler_result(s, loop->results[1]);
}

/* While a counter is below three, five times at most. */
static void
loop_while(Sampler *s, IrValue *x, IrValue *y)
{
    IrValue *zero = ir_const_int(s->b, DT_i64, 0, s->loc);
    IrOp *loop = ir_build_op(s->b, OP_while, 2, (IrValue *[]){zero, x}, s->loc);
    ir_set_int(loop, A_max, 5);
    IrBlock *test = loop->regions[0], *body = loop->regions[1];
    IrValue *at = ir_block_arg(test, zero->type, NULL);
    ir_block_arg(test, x->type, NULL);
    IrValue *goes_on = ir_build2(test, OP_lt, at,
                                 ir_const_int(test, DT_i64, 3, s->loc), s->loc);
    ir_build_yield(test, 1, &goes_on, s->loc);
    IrValue *k = ir_block_arg(body, zero->type, NULL);
    IrValue *u = ir_block_arg(body, x->type, NULL);
    IrValue *next = ir_build2(body, OP_add, k,
                              ir_const_int(body, DT_i64, 1, s->loc), s->loc);
    ir_build_yield(body, 2, (IrValue *[]){next, mixed(s, body, u, y)}, s->loc);
    ir_op_close(loop);
    sampler_result(s, loop->results[1]);
}

void
build_loops(Sampler *s)
{
    IrValue *x = sampler_arg(s, 1, &s->s), *y = sampler_arg(s, 1, &s->s);
    loop_for(s, ir_const_int(s->b, DT_i32, 3, s->loc), x, y);
    loop_while(s, x, y);
    if (!s->out->of.gradient)
        loop_for(s, ir_build0(s->b, OP_replica_id, s->loc), x, y);
}

/* The gradient of a cube's sum: it can be differentiated again. */
void
build_grad(Sampler *s)
{
    IrValue *x = sampler_arg(s, 1, &s->s);
    s->refused = !dtype_is_float(dtype_of(s));
    if (s->refused)
        return;
    IrValue *square = ir_build2(s->b, OP_mul, x, x, s->loc);
    IrValue *cube = ir_build2(s->b, OP_mul, square, x, s->loc);
    IrValue *loss = ir_build_sum_all(s->b, cube, s->loc);
    IrOp *grad = ir_build_op(s->b, OP_grad, 2, (IrValue *[]){loss, x}, s->loc);
    ir_op_results(grad, 1, &x->type);
    sampler_result(s, grad->results[0]);
}

/* A square that says the gradient that it has. */
void
build_custom_gradient(Sampler *s)
{
    IrValue *x = sampler_arg(s, 1, &s->s);
    s->refused = !dtype_is_float(dtype_of(s));
    if (s->refused)
        return;
    IrValue *square = ir_build2(s->b, OP_mul, x, x, s->loc);
    IrOp *op = ir_build_op(s->b, OP_custom_gradient, 2,
                           (IrValue *[]){square, x}, s->loc);
    ir_op_results(op, 1, &square->type);
    IrBlock *b = op->regions[0];
    IrType t = square->type;
    t.locality = LOCAL_PER_REPLICA;
    IrValue *twice = ir_build2(b, OP_add, x, x, s->loc);
    IrValue *dx = ir_build2(b, OP_mul, ir_block_arg(b, t, NULL), twice, s->loc);
    ir_build_yield(b, 1, &dx, s->loc);
    sampler_result(s, op->results[0]);
}

/* A square, which a gradient computes again. */
void
build_recompute(Sampler *s)
{
    IrValue *x = sampler_arg(s, 1, &s->s);
    s->refused = dtype_of(s) == DT_bool;
    if (s->refused)
        return;
    IrValue *square = ir_build2(s->b, OP_mul, x, x, s->loc);
    IrOp *op =
        ir_build_op(s->b, OP_recompute, 2, (IrValue *[]){square, x}, s->loc);
    ir_op_results(op, 1, &square->type);
    sampler_result(s, op->results[0]);
}

/* ---- the world ---------------------------------------------------------- */

void
build_report(Sampler *s)
{
    IrValue *x = sampler_arg(s, 1, &s->s);
    IrValue *id = ir_build0(s->b, OP_replica_id, s->loc);
    IrValue *same = ir_build2(s->b, OP_ge, id, id, s->loc);
    IrOp *print = ir_build_op(s->b, OP_print, 2, (IrValue *[]){id, x}, s->loc);
    ir_set_text(print, A_format, "{}: {}");
    IrOp *assertion =
        ir_build_op(s->b, OP_assert, 2, (IrValue *[]){same, x}, s->loc);
    ir_set_text(assertion, A_format, "not so: {}");
    s->refused = s->out->of.gradient;
}

/* A loop over a dataset whose elements have the dtype; %% are arguments. */
static const char main_text[] =
    "tfd-ir 1 phase ir\n"
    "source 0 \"main.tfd\"\n"
    "strategy parameter_server devices \"cpu:0-%d\" replicas %d\n"
    "%s"
    "var @v: %s mirrored sync(on_write) aggregate(none)\n"
    "dataset @d at 1:1+1 {\n"
    "  range start=0 stop=%d : i64 at 1:1+1\n"
    "  map @d.map : %s at 1:1+1\n"
    "  batch size=%d drop_remainder=%d : %s at 1:1+1\n"
    "}\n"
    "iter @it of @d shard auto %s at 1:1+1\n"
    "func @d.map(%%i: i64) host at 1:1+1 {\n"
    "  %%0: %s = cast %%i {dtype=%s}\n"
    "  return %%0\n"
    "}\n"
    "func @main() main at 2:1+1 {\n"
    "  %%begin: f64 = now\n"
    "  iter_open {iter=@it}\n"
    "  while {\n"
    "    %%more: bool = iter_has_next {iter=@it}\n"
    "    yield %%more\n"
    "  } {\n"
    "    %%x: %s per_replica = iter_next {iter=@it}\n"
    "    %%y: %s per_replica = run {\n"
    "      %%is: %s per_replica = ne %%x, %%x\n"
    "      %%z: %s per_replica = where %%is, %%x, %%x\n"
    "      yield %%z\n"
    "    }\n"
    "    %%all: %s = gather %%y {axis=0}\n"
    "    print %%all {format=\"{}\"}\n"
    "    yield\n"
    "  }\n"
    "  %%w: %s = schedule {\n"
    "    %%w.1: %s = read {var=@v}\n"
    "    write %%w.1 {var=@v mode=set}\n"
    "    yield %%w.1\n"
    "  }\n"
    "  join\n"
    "  cancel\n"
    "  %%all.1: bool = done\n"
    "  assert %%all.1 {format=\"closures go on\"}\n"
    "  %%v: %s = read {var=@v}\n"
    "  print %%v, %%w {format=\"{} {}\"}\n"
    "  %%evaluates: bool = evaluates\n"
    "  print %%evaluates {format=\"evaluates {}\"}\n"
    "  %%end: f64 = now\n"
    "  %%is.1: bool = ge %%end, %%begin\n"
    "  assert %%is.1 {format=\"time goes back\"}\n"
    "  return\n"
    "}\n";

static const char *
type_text(const Sampler *s, DType t, const char *dim)
{
    return arena_printf(s->m->arena, "%s[%s]", dtype_info[t].name, dim);
}

static const char *
number_text(const Sampler *s, int n)
{
    return arena_printf(s->m->arena, "%d", n);
}

/* Batches of `each` rows a replica: the last one is short, or left out. */
void
build_main(Sampler *s)
{
    DType t = dtype_of(s);
    int replicas = s->out->of.num_replicas;
    bool batch = sampler_is_batch(s);
    int each = batch ? 4 : s->out->of.size > 0 ? (int)s->out->of.size : 1;
    int total = each * replicas;
    const char *symbols = "", *own = number_text(s, each);
    const char *whole = number_text(s, total), *all = whole;
    if (batch) {
        symbols = arena_printf(s->m->arena,
                               "symbols n <= %d, N <= %d, b <= %d alone\n",
                               each, total, total);
        own = "n", whole = "b", all = "N";
    }
    const char *own_type = type_text(s, t, own), *var = type_text(s, t, "2");
    sampler_read_main(
        s, arena_printf(s->m->arena, main_text, replicas - 1, replicas, symbols,
                        var, s->out->of.size ? 2 * total + 1 : 0,
                        dtype_info[t].name, total, !batch,
                        type_text(s, t, whole), batch ? "rows n" : "",
                        dtype_info[t].name, dtype_info[t].name, own_type,
                        own_type, type_text(s, DT_bool, own), own_type,
                        type_text(s, t, all), var, var, var));
    s->refused = s->out->of.gradient;
}

/* A variable is saved, changed, and restored. */
static const char checkpoint_text[] =
    "tfd-ir 1 phase ir\n"
    "source 0 \"main.tfd\"\n"
    "strategy mirrored devices \"cpu:0-%d\" replicas %d\n"
    "var @w: %s[%d] sync(%s) aggregate(first) init @w.init at 1:1+1\n"
    "func @w.init() init at 1:1+1 {\n"
    "  %%0: %s[%d] = iota {dims=[%d] dtype=%s axis=0}\n"
    "  return %%0\n"
    "}\n"
    "func @main() main at 2:1+1 {\n"
    "  %%step: i64 = constant {dims=[] dtype=i64 data=[3]}\n"
    "  %%saved: %s[%d] = read {var=@w}\n"
    "  save %%saved, %%step {format=\"step {}\" vars=[@w]}\n"
    "%s"
    "  %%all: %s[%d] = add %%saved, %%saved\n"
    "  write %%all {var=@w mode=set}\n"
    "  %%back: %s[%d] = restore %%step {format=\"step {}\" vars=[@w] "
    "strict=true}\n"
    "  write %%back {var=@w mode=set}\n"
    "  %%now: %s[%d] = read {var=@w}\n"
    "  print %%now {format=\"{}\"}\n"
    "  return\n"
    "}\n";

void
build_checkpoint(Sampler *s)
{
    DType t = dtype_of(s);
    const char *name = dtype_info[t].name;
    int replicas = s->out->of.num_replicas;
    int n = s->out->of.size > 0 ? (int)s->out->of.size : 0;
    s->refused = s->out->of.gradient || t == DT_bool;
    if (s->refused)
        return;
    sampler_read_main(
        s, arena_printf(s->m->arena, checkpoint_text, replicas - 1, replicas,
                        name, n, replicas > 1 ? "on_read" : "on_write", name, n,
                        n, name, name, n,
                        "  summary %saved, %step, %step {format=\"w {}\"}\n",
                        name, n, name, n, name, n));
}
