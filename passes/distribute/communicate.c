/*
 * communicate.c - operations across replicas become collectives
 *
 * A device program comes here with its contexts as regions: cross-replica at
 * its top and in merge, replica context in run, update context in update.  The
 * regions are inlined: every replica runs all of them, since cross-replica
 * values are computed from mirrored values, by the same code, to the same
 * bits.  Operations on the values of several replicas become collectives:
 *
 *   write of a per-replica value, aggregation a    all_reduce {op=a}, write
 *   read of a sync-on-read variable, cross-replica read, all_reduce
 *   reduce, reduce_to                              all_reduce
 *   gather                                         all_gather
 *
 * In a program for workers the value of an aggregated write is also pushed.
 *
 * MEAN is SUM and one division, here and nowhere else.  With one replica every
 * reduction is its operand, and a collective is made only where its result has
 * the length of the whole batch.
 */
#include <assert.h>
#include <string.h>
#include "ir/base/status.h"
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "passes/distribute/central.h"
#include "passes/support/pass.h"
#include "passes/support/infer_localities.h"

typedef struct Communicate {
    IrModule *m;
    int num_replicas;
    const IrOp *op; /* being lowered */
    Loc loc;        /* its own */
    IrBlock *b;     /* its replacement is built here */
} Communicate;

static bool
differs(const IrValue *x)
{
    return x->type.locality == LOCAL_PER_REPLICA;
}

/* Whether x has to be combined over the replicas.  A value known to be equal on
 * all is its own mean or maximum.  A sum always adds N values: the front end
 * has refused sums of values that were equal then, and later knowledge must not
 * change a result. */
static bool
is_combined(IrAgg how, const IrValue *x)
{
    return how == AGG_sum || differs(x);
}

/* ---- reductions over replicas ------------------------------------------- */

/* One with the options of the operation that asks for it. */
static IrValue *
all_reduce(Communicate *c, IrAgg how, IrValue *x)
{
    IrOp *op = ir_build_all_reduce(c->b, how, 1, &x, c->loc);
    ir_attrs_copy_options(op, c->op);
    return op->results[0];
}

/* x / count, in the dtype of count, rounded to that of x. */
static IrValue *
divide(Communicate *c, IrValue *x, IrValue *count)
{
    IrValue *wide = ir_build_cast(c->b, x, count->type.dtype, c->loc);
    IrValue *q = ir_build2(c->b, OP_div, wide, count, c->loc);
    return ir_build_cast(c->b, q, x->type.dtype, c->loc);
}

static IrValue *
divide_by_replicas(Communicate *c, IrValue *x)
{
    DType t = dtype_compute(x->type.dtype);
    return divide(c, x, ir_const_float(c->b, t, c->num_replicas, c->loc));
}

/* x combined over the replicas; `how` is sum, mean, max, min or first. */
static IrValue *
reduce_replicas(Communicate *c, IrAgg how, IrValue *x)
{
    if (c->num_replicas == 1)
        return x;
    if (how != AGG_mean)
        return all_reduce(c, how, x);
    /* A sum of f16 may be beyond it where the mean is not. */
    DType own = x->type.dtype;
    if (own == DT_f16)
        x = ir_build_cast(c->b, x, DT_f32, c->loc);
    x = divide_by_replicas(c, all_reduce(c, AGG_sum, x));
    return ir_build_cast(c->b, x, own, c->loc);
}

/* Whether d is the same number on all replicas, not a share of a batch. */
static bool
is_common(const Communicate *c, Dim d)
{
    return ir_dim_is_const(d) ||
           !ir_symbol_is_share(&c->m->symbols.data[d.sym]);
}

/* The rows of all replicas, from the dimension of one. */
static Dim
dim_of_all(const Communicate *c, Dim d)
{
    if (is_common(c, d))
        return ir_dim_linear(d.c * c->num_replicas, d.k * c->num_replicas,
                             d.sym);
    return ir_dim_linear(d.c * c->num_replicas, d.k,
                         c->m->symbols.data[d.sym].partner);
}

/* The product of lengths of which several are those of batches, as of all pairs
 * of rows: on all replicas it is the sum of what each has. */
static IrValue *
multiply_lengths(Communicate *c, const IrType *x, int n, const int64_t *axes,
                 bool of_all)
{
    IrValue *size = ir_const_int(c->b, DT_i64, 1, c->loc);
    for (int i = 0; i < n; i++)
        size = ir_build2(c->b, OP_mul, size,
                         ir_build_dim_size(c->b, x->dims[axes[i]], c->loc),
                         c->loc);
    return of_all ? reduce_replicas(c, AGG_sum, size) : size;
}

/* How many elements x has along axes, on this replica or on all, in the dtype
 * that x is computed in. */
static IrValue *
count_elements(Communicate *c, const IrType *x, int n, const int64_t *axes,
               bool of_all)
{
    IrValue *size;
    Dim count = ir_dim_const(1);
    bool has_one_batch = true;
    for (int i = 0; i < n; i++)
        has_one_batch =
            has_one_batch && ir_dim_mul(count, x->dims[axes[i]], &count);
    if (has_one_batch)
        size = ir_build_dim_size(c->b, of_all ? dim_of_all(c, count) : count,
                                 c->loc);
    else
        size = multiply_lengths(c, x, n, axes, of_all);
    return ir_build_cast(c->b, size, dtype_compute(x->dtype), c->loc);
}

static IrOpKind
reduction_of(IrAgg how)
{
    if (how == AGG_max)
        return OP_reduce_max;
    return how == AGG_min ? OP_reduce_min : OP_sum;
}

/* Reduces over axes on this replica and then, if the replicas differ, over the
 * replicas; a mean is the sum divided by the number of elements summed. */
static IrValue *
combine_axes(Communicate *c, IrAgg how, IrValue *x, int n, const int64_t *axes)
{
    bool mean = how == AGG_mean, of_all = is_combined(how, x);
    IrValue *parts = x;
    if (mean)
        parts = ir_build_cast(c->b, x, dtype_compute(x->type.dtype), c->loc);
    IrValue *part =
        ir_build_reduce(c->b, reduction_of(how), parts, axes, n, false, c->loc);
    if (of_all)
        part = reduce_replicas(c, mean ? AGG_sum : how, part);
    if (!mean)
        return part;
    IrValue *q = divide(c, part, count_elements(c, &x->type, n, axes, of_all));
    return ir_build_cast(c->b, q, x->type.dtype, c->loc);
}

static IrValue *
lower_reduce(Communicate *c, const IrOp *op, IrValue *x)
{
    IrAgg how = (IrAgg)ir_enum(op, A_op);
    int n = 0;
    const int64_t *axes = ir_has(op, A_axes) ? ir_ints(op, A_axes, &n) : NULL;
    if (axes)
        return combine_axes(c, how, x, n, axes);
    return is_combined(how, x) ? reduce_replicas(c, how, x) : x;
}

static IrValue *
lower_reduce_to(Communicate *c, const IrOp *op, IrValue *x)
{
    IrAgg how = (IrAgg)ir_enum(op, A_op);
    return is_combined(how, x) ? reduce_replicas(c, how, x) : x;
}

static IrValue *
lower_global_mean(Communicate *c, IrValue *x)
{
    int64_t axes[IR_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++)
        axes[i] = i;
    return combine_axes(c, AGG_mean, x, x->type.rank, axes);
}

/* ---- gathering ---------------------------------------------------------- */

/* Whether x of the only replica is the result.  A share of the batch is not:
 * the symbol of its length differs from that of the whole batch. */
static bool
is_whole(const Communicate *c, const IrValue *x, int64_t axis)
{
    return c->num_replicas == 1 && is_common(c, x->type.dims[axis]);
}

static IrValue *
all_gather(Communicate *c, IrValue *x, int64_t axis)
{
    if (is_whole(c, x, axis))
        return x;
    IrValue *all = ir_build_all_gather(c->b, x, axis, c->loc);
    ir_attrs_copy_options(all->def, c->op);
    return all;
}

/* The value of d, a length that depends on the replica, for one of them. */
static Dim
dim_of_replica(const Communicate *c, Dim d, int64_t replica)
{
    return ir_dim_linear(d.c, d.k,
                         ir_symbol_find_replica(c->m, d.sym, replica));
}

/* The same for a value whose axis is a share of the batch: the rows of that
 * replica. */
static IrValue *
rows_of_replica(Communicate *c, IrValue *x, int64_t replica, int axis)
{
    Dim own = x->type.dims[axis];
    Dim count = dim_of_replica(c, own, replica);
    IrValue *first = ir_const_int(c->b, DT_i64, 0, c->loc);
    for (int64_t r = 0; r < replica; r++)
        first = ir_build2(
            c->b, OP_add, first,
            ir_build_dim_size(c->b, dim_of_replica(c, own, r), c->loc), c->loc);
    IrValue *rows = ir_build_iota(c->b, DT_i64, 1, &count, 0, c->loc);
    IrValue *operands[2];
    operands[0] = all_gather(c, x, axis);
    operands[1] = ir_build2(c->b, OP_add, rows, first, c->loc);
    IrOp *take = ir_build_op(c->b, OP_take, 2, operands, c->loc);
    ir_set_int(take, A_axis, axis);
    return ir_build_infer(take);
}

/* The shape of an array whose only row is a value of shape t: its rank.  Where
 * t has as many axes as there may be, two neighbours are one. */
static int
shape_of_row(const IrType *t, Dim *dims)
{
    int rank = 1;
    bool full = t->rank == IR_MAX_RANK;
    dims[0] = ir_dim_const(1);
    for (int i = 0; i < t->rank; i++) {
        if (full && i &&
            ir_dim_mul(dims[rank - 1], t->dims[i], &dims[rank - 1]))
            full = false;
        else
            dims[rank++] = t->dims[i];
    }
    return rank;
}

/* x of replica number `replica`, on all replicas: gathered, and its part taken.
 */
static IrValue *
value_of_replica(Communicate *c, IrValue *x, int64_t replica)
{
    for (int i = 0; i < x->type.rank; i++)
        if (!is_common(c, x->type.dims[i]))
            return rows_of_replica(c, x, replica, i);
    if (c->num_replicas == 1 || !differs(x))
        return x;
    IrType t = x->type;
    Dim dims[IR_MAX_RANK + 1];
    int64_t start[IR_MAX_RANK + 1] = {replica}, step[IR_MAX_RANK + 1];
    int rank = shape_of_row(&t, dims);
    for (int i = 0; i < rank; i++)
        step[i] = 1;
    IrValue *row = ir_build_reshape(c->b, x, rank, dims, c->loc);
    IrValue *all = all_gather(c, row, 0);
    IrValue *part = ir_build_slice(c->b, all, start, dims, step, c->loc);
    return ir_build_reshape(c->b, part, t.rank, t.dims, c->loc);
}

/* ---- variables ---------------------------------------------------------- */

/* This replica's part of an integer that is divided so that the parts add up to
 * it: the first x % num_replicas replicas get one more.  Narrow integers may
 * not have the number of replicas. */
static IrValue *
integer_part(Communicate *c, IrValue *x)
{
    DType own = x->type.dtype;
    DType t = dtype_info[own].bytes < dtype_info[DT_i32].bytes ? DT_i32 : own;
    x = ir_build_cast(c->b, x, t, c->loc);
    IrValue *n = ir_const_int(c->b, t, c->num_replicas, c->loc);
    IrValue *id =
        ir_build_cast(c->b, ir_build0(c->b, OP_replica_id, c->loc), t, c->loc);
    IrValue *rest = ir_build2(c->b, OP_mod, x, n, c->loc);
    IrValue *more = ir_build2(c->b, OP_lt, id, rest, c->loc);
    IrValue *part = ir_build2(c->b, OP_floordiv, x, n, c->loc);
    part = ir_build2(c->b, OP_add, part, ir_build_cast(c->b, more, t, c->loc),
                     c->loc);
    return ir_build_cast(c->b, part, own, c->loc);
}

/* The part of a value assigned in cross-replica context that one component of a
 * sync-on-read sum gets: the components add up to the value. */
static IrValue *
component_share(Communicate *c, IrValue *x)
{
    if (c->num_replicas == 1)
        return x;
    if (dtype_is_float(x->type.dtype))
        return divide_by_replicas(c, x);
    return integer_part(c, x);
}

/* The value that this replica's copy takes: the table of synchronization,
 * aggregation and context (tensorflow.md 1.5, 1.6), for the cases that the
 * front end accepts. */
static IrValue *
value_for_copy(Communicate *c, const IrVar *v, IrValue *x, IrContext context,
               IrUpdate mode)
{
    bool on_read = v->sync == SYNC_ON_READ;
    switch (context) {
    case CX_REPLICA:
        if (on_read || !is_combined(v->agg, x) || c->num_replicas == 1)
            return x;
        if (v->agg == AGG_none)
            UNREACHABLE("\"%s\" written without aggregation", v->name);
        return reduce_replicas(c, v->agg, x);
    case CX_CROSS:
    case CX_MERGE:
        if (on_read && v->agg == AGG_sum && mode == UPDATE_set)
            return component_share(c, x);
        return x;
    case CX_UPDATE:
        return x;
    }
    UNREACHABLE("context %d", context);
}

/* The new value of the variable: x, or its current value combined with x. */
static IrValue *
apply_mode(Communicate *c, const char *var, IrUpdate mode, IrValue *x)
{
    if (mode == UPDATE_set)
        return x;
    IrValue *old = ir_build_read(c->b, var, c->loc);
    IrOpKind kind = ir_update_op(mode, dtype_is_float(x->type.dtype));
    return ir_build2(c->b, kind, old, x, c->loc);
}

/* The home of a central variable writes it; returns the block for the write. */
static IrBlock *
begin_write(Communicate *c, const IrVar *v, IrContext context)
{
    IrBlock *b = c->b;
    if (pass_central_has(c->m, v) && context != CX_UPDATE)
        c->b = pass_central_begin(b, c->loc);
    return b;
}

static void
end_write(Communicate *c, IrBlock *b)
{
    if (c->b != b)
        pass_central_end(c->b, 0, NULL, c->loc);
    c->b = b;
}

/* What servers have to know of a write that a worker combines. */
static bool
push_combined(Communicate *c, const IrOp *op, IrValue *value)
{
    if (!ir_has(op, A_update))
        return false;
    IrOp *push = ir_build_op(c->b, OP_push, 1, &value, c->loc);
    ir_set_text(push, A_update, ir_text(op, A_update));
    ir_build_infer(push);
    return true;
}

/* Every write is local and mode=set afterwards. */
static void
lower_write(Communicate *c, IrOp *op, IrContext context)
{
    const char *name = ir_text(op, A_var);
    IrUpdate mode = (IrUpdate)ir_enum(op, A_mode);
    const IrVar *v = ir_var_find(c->m, name);
    IrValue *x = op->operands[0];
    IrValue *share = value_for_copy(c, v, x, context, mode);
    bool pushes = push_combined(c, op, share);
    IrBlock *b = begin_write(c, v, context);
    IrValue *value = apply_mode(c, name, mode, share);
    if (value == x && b == c->b && !pushes)
        return;
    ir_build_write(c->b, name, UPDATE_set, value, c->loc);
    end_write(c, b);
    ir_stamp(c->b, ir_reason_for(op, "communicate.write",
                                 "the write of \"%s\" with aggregation %s",
                                 name, ir_words[WORDS_AGG][v->agg]));
    ir_splice_before(op, c->b);
    ir_remove(op);
}

/* ---- values ------------------------------------------------------------- */

/* The value of a variable.  In cross-replica context a sync-on-read variable is
 * aggregated; a central one is at its home, where updates are made.  NULL: the
 * read stays. */
static IrValue *
lower_read(Communicate *c, const IrOp *op, IrContext context)
{
    const IrVar *v = ir_var_find(c->m, ir_text(op, A_var));
    bool local = context == CX_REPLICA || context == CX_UPDATE;
    if (pass_central_has(c->m, v) && context != CX_UPDATE)
        return pass_central_read(c->b, v, c->loc);
    if (local || v->sync != SYNC_ON_READ || c->num_replicas == 1)
        return NULL;
    return reduce_replicas(c, v->agg, ir_build_read(c->b, v->name, c->loc));
}

/* Lowers op across replicas, built into c->b; NULL: op stays. */
static IrValue *
lower_value(Communicate *c, IrOp *op, IrContext context)
{
    IrValue *x = op->num_operands ? op->operands[0] : NULL;
    switch (op->kind) {
    case OP_read:
        return lower_read(c, op, context);
    case OP_reduce:
        return lower_reduce(c, op, x);
    case OP_reduce_to:
        return lower_reduce_to(c, op, x);
    case OP_broadcast_to:
        return x;
    case OP_gather:
        return all_gather(c, x, ir_int(op, A_axis));
    case OP_local_result:
        return value_of_replica(c, x, ir_int(op, A_replica));
    case OP_global_mean:
        return lower_global_mean(c, x);
    case OP_all_gather:
        return is_whole(c, x, ir_int(op, A_axis)) ? x : NULL;
    default:
        return NULL;
    }
}

static const char *
cause(Communicate *c, const IrOp *op)
{
    const char *what = ir_op_info[op->kind].name;
    if (op->kind == OP_read)
        return arena_printf(
            c->m->arena, "the read of the %s variable \"%s\"",
            pass_central_has(c->m, ir_var_find(c->m, ir_text(op, A_var)))
                ? "central"
                : "sync-on-read",
            ir_text(op, A_var));
    if (op->num_operands && op->operands[0]->name)
        return arena_printf(c->m->arena, "%s of \"%s\"", what,
                            op->operands[0]->name);
    return what;
}

static void
replace_value(Communicate *c, IrOp *op, IrContext context)
{
    IrValue *now = lower_value(c, op, context);
    if (!now)
        return;
    ir_stamp(c->b,
             ir_reason_for(op, "communicate.combine", "%s", cause(c, op)));
    ir_splice_before(
        op->kind == OP_read ? pass_central_convergence_point(op) : op, c->b);
    ir_forward(op->results[0], now);
    ir_remove(op);
}

/* An all_reduce of the program: mean becomes sum and a division, and with one
 * replica it is its operands. */
static void
lower_all_reduce(Communicate *c, IrOp *op)
{
    IrAgg how = (IrAgg)ir_enum(op, A_op);
    if (c->num_replicas > 1 && how != AGG_mean)
        return;
    for (int i = 0; i < op->num_operands; i++)
        ir_forward(op->results[i], reduce_replicas(c, how, op->operands[i]));
    ir_stamp(c->b, ir_reason_for(op, "communicate.mean", "%s(%s)",
                                 ir_op_info[op->kind].name,
                                 ir_words[WORDS_AGG][how]));
    ir_splice_before(op, c->b);
    ir_remove(op);
}

/* ---- one operation after the other -------------------------------------- */

static void lower_block(Communicate *c, IrBlock *b, IrContext context);

/* Moves the operations of the region before op, and replaces op's results by
 * its yields. */
static void
dissolve_region(Communicate *c, IrOp *op, IrContext context)
{
    IrBlock *region = op->regions[0];
    lower_block(c, region, context);
    IrOp *end = ir_block_yield(region);
    for (int i = 0; i < op->num_results; i++)
        ir_forward(op->results[i], end->operands[i]);
    ir_remove(end);
    ir_splice_before(op, region);
    ir_remove(op);
}

/* An update of central variables is made by their home alone. */
static void
lower_update(Communicate *c, IrOp *op)
{
    Loc loc = op->loc;
    if (!pass_central_has_any(c->m)) {
        dissolve_region(c, op, CX_UPDATE);
        return;
    }
    lower_block(c, op->regions[0], CX_UPDATE);
    IrBlock *b = ir_block_scratch(op);
    IrBlock *home = pass_central_begin(b, loc);
    IrOp *end = ir_block_yield(op->regions[0]);
    pass_central_end(home, end->num_operands, end->operands, loc);
    for (int i = 0; i < op->num_results; i++)
        ir_forward(op->results[i], end->operands[i]);
    ir_remove(end);
    ir_splice_before(ir_block_yield(home), op->regions[0]);
    ir_stamp(b, ir_reason_for(op, "communicate.central",
                              "the update is made where the variables live"));
    ir_splice_before(op, b);
    ir_remove(op);
}

static void
lower_op(Communicate *c, IrOp *op, IrContext context)
{
    ir_follow_forwards(op);
    switch (op->kind) {
    case OP_run:
        dissolve_region(c, op, CX_REPLICA);
        return;
    case OP_merge:
        dissolve_region(c, op, CX_MERGE);
        return;
    case OP_update:
        lower_update(c, op);
        return;
    default:
        break;
    }
    for (int i = 0; i < op->num_regions; i++)
        lower_block(c, op->regions[i], context);
    c->op = op;
    c->loc = op->loc;
    c->b = ir_block_scratch(op);
    if (op->kind == OP_write)
        lower_write(c, op, context);
    else if (op->kind == OP_all_reduce)
        lower_all_reduce(c, op);
    else
        replace_value(c, op, context);
}

static void
lower_block(Communicate *c, IrBlock *b, IrContext context)
{
    for (IrOp *op = b->first, *next; op; op = next) {
        next = op->next;
        lower_op(c, op, context);
    }
}

bool
pass_communicate(PassCx *cx)
{
    assert(pass_stage(cx->m) <= STAGE_programs);
    Communicate c = {.m = cx->m, .num_replicas = cx->m->num_replicas};
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_PROGRAM)
            continue;
        lower_block(&c, fn->body, CX_CROSS);
        ir_apply_forwards(fn);
    }
    pass_central_assign_localities(cx->m);
    cx->m->phase = PHASE_REPLICATED;
    pass_infer_localities(cx->m);
    return true;
}
