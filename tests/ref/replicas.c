/*
 * replicas.c - variables, and operations of all replicas together
 *
 * The table of synchronization, aggregation and context (docs/tensorflow.md 1.4
 * to 1.6), for the programs that the front end accepts.  After communicate it
 * is no longer needed: reads and writes are local to a replica, and collectives
 * state how they combine.
 */
#include "tests/ref/interp_impl.h"

#include <string.h>
#include "ir/ir.h"
#include "ir/rules/eval.h"

/* ---- combining ---------------------------------------------------------- */

static Scalar
apply(IrOpKind kind, Scalar x, Scalar y)
{
    return ir_eval(kind, x.dtype, (Scalar[]){x, y});
}

/* x / count in the dtype of count, rounded to that of x. */
static Scalar
divide(Scalar x, Scalar count)
{
    return scalar_cast(apply(OP_div, scalar_cast(x, count.dtype), count),
                       x.dtype);
}

/* MEAN is SUM and one division. */
static void
divide_all(RefTensor *x, int64_t by)
{
    DType t = dtype_compute(x->dtype);
    Scalar count = scalar_cast(scalar_int(DT_i64, by), t);
    for (int64_t i = 0; i < x->count; i++)
        ref_set(x, i, divide(ref_get(x, i), count));
}

static IrOpKind
combining_op(IrAgg how)
{
    if (how == AGG_max)
        return OP_maximum;
    if (how == AGG_min)
        return OP_minimum;
    return OP_add;
}

/* The leaves of the left subtree of n: the largest power of two below n. */
static int
left_leaves(int n)
{
    int left = 1;
    while (2 * left < n)
        left *= 2;
    return left;
}

/* The elements number i of n tensors, combined in dtype t by D2's tree. */
static Scalar
combine_tree(IrOpKind op, DType t, int n, RefTensor *const *x, int64_t i)
{
    if (n == 1)
        return scalar_cast(ref_get(x[0], i), t);
    int left = left_leaves(n);
    Scalar before = combine_tree(op, t, left, x, i);
    return apply(op, before, combine_tree(op, t, n - left, x + left, i));
}

/* The elements number i of n tensors as one: those of half precision are
 * combined in f32 and rounded once. */
static Scalar
combine_elements(IrAgg how, int n, RefTensor *const *x, int64_t i)
{
    int leaves = how != AGG_first ? n : 1;
    DType t = dtype_compute(x[0]->dtype);
    return scalar_cast(combine_tree(combining_op(how), t, leaves, x, i),
                       x[0]->dtype);
}

static void
cast_tensor(const RefTensor *x, DType t, Arena *a, RefTensor *out)
{
    ref_shape(a, out, t, x->rank, x->dims);
    for (int64_t i = 0; i < out->count; i++)
        ref_set(out, i, scalar_cast(ref_get(x, i), t));
}

static RefTensor **
cast_tensors(int n, RefTensor *const *x, DType t, Arena *a)
{
    RefTensor **out = NEW_ARRAY(a, RefTensor *, (size_t)n);
    for (int i = 0; i < n; i++)
        cast_tensor(x[i], t, a, out[i] = NEW(a, RefTensor));
    return out;
}

static void
combine_as_is(const Interp *in, IrAgg how, RefTensor *const *x, Arena *a,
              RefTensor *out)
{
    ref_shape(a, out, x[0]->dtype, x[0]->rank, x[0]->dims);
    for (int64_t i = 0; i < out->count; i++)
        ref_set(out, i, combine_elements(how, in->num_replicas, x, i));
    if (how == AGG_mean && in->num_replicas > 1)
        divide_all(out, in->num_replicas);
}

/* The replicas' values x together; how is sum, mean, max,
 * min or first.  With one replica that is its value.  A mean of f16 is one of
 * f32, rounded: the sum may be beyond f16. */
static void
combine(const Interp *in, IrAgg how, RefTensor *const *x, Arena *a,
        RefTensor *out)
{
    if (how != AGG_mean || x[0]->dtype != DT_f16) {
        combine_as_is(in, how, x, a, out);
        return;
    }
    RefTensor mean = {0};
    x = cast_tensors(in->num_replicas, x, DT_f32, a);
    combine_as_is(in, how, x, a, &mean);
    cast_tensor(&mean, DT_f16, a, out);
}

static RefTensor **
operands_of_all(Interp *in, IrOp *const *at, int operand, Arena *a)
{
    RefTensor **x = NEW_ARRAY(a, RefTensor *, (size_t)in->num_replicas);
    for (int r = 0; r < in->num_replicas; r++)
        x[r] = interp_value(in, r, at[r]->operands[operand]);
    return x;
}

static void
give_to_all(Interp *in, IrOp *const *at, int result, const RefTensor *x)
{
    for (int r = 0; r < in->num_replicas; r++)
        interp_bind(in, r, at[r]->results[result], x);
}

/* Whether a value is combined over the replicas.  The mean of a value that is
 * known to be equal on all is the value; its sum does not occur. */
static bool
is_combined(IrAgg how, const IrValue *x)
{
    return how == AGG_sum || x->type.locality == LOCAL_PER_REPLICA;
}

/* What all_reduces `from` give becomes the results of `to`.  Only the value of
 * `first` hangs on the root. */
static void
combine_each(Interp *in, IrOp *const *from, IrOp *const *to, Arena *a)
{
    IrAgg how = (IrAgg)ir_enum(from[0], A_op);
    int64_t root = how == AGG_first ? ir_int(from[0], A_root) : 0;
    for (int i = 0; i < from[0]->num_operands; i++) {
        RefTensor out = {0}, **x = operands_of_all(in, from, i, a);
        combine(in, how, x + root, a, &out);
        give_to_all(in, to, i, &out);
    }
}

static void
do_all_reduce(Interp *in, IrOp *const *at, Arena *a)
{
    combine_each(in, at, at, a);
}

static void
do_pass(Interp *in, IrOp *const *at, Arena *a)
{
    (void)a;
    for (int r = 0; r < in->num_replicas; r++)
        for (int i = 0; i < at[r]->num_operands; i++)
            interp_bind(in, r, at[r]->results[i],
                        interp_value(in, r, at[r]->operands[i]));
}

static void
do_reduce_to(Interp *in, IrOp *const *at, Arena *a)
{
    if (is_combined((IrAgg)ir_enum(at[0], A_op), at[0]->operands[0]))
        do_all_reduce(in, at, a);
    else
        do_pass(in, at, a);
}

/* ---- combining over axes, too ------------------------------------------- */

static IrOpKind
reduction_of(IrAgg how)
{
    if (how == AGG_max)
        return OP_reduce_max;
    return how == AGG_min ? OP_reduce_min : OP_sum;
}

/* x of one replica reduced over axes. */
static void
reduce_axes(IrOpKind kind, const RefTensor *x, int n, const int64_t *axes,
            Arena *a, RefTensor *out)
{
    int64_t dims[IR_MAX_RANK];
    bool gone[IR_MAX_RANK] = {false};
    int rank = 0;
    for (int i = 0; i < n; i++)
        gone[axes[i]] = true;
    for (int i = 0; i < x->rank; i++)
        if (!gone[i])
            dims[rank++] = x->dims[i];
    ref_shape(a, out, x->dtype, rank, dims);
    ref_reduce(kind, x, n, axes, out);
}

static int64_t
count_along(const RefTensor *x, int n, const int64_t *axes)
{
    int64_t count = 1;
    for (int i = 0; i < n; i++)
        count *= x->dims[axes[i]];
    return count;
}

/* Each replica reduces its part, the parts are combined, and a mean, which is
 * computed in f32 at least, is divided by the number of all elements. */
static void
combine_axes(Interp *in, IrOp *const *at, IrAgg how, int n, const int64_t *axes,
             Arena *a)
{
    RefTensor out = {0}, **x = operands_of_all(in, at, 0, a);
    RefTensor **part = NEW_ARRAY(a, RefTensor *, (size_t)in->num_replicas);
    bool mean = how == AGG_mean;
    DType own = x[0]->dtype;
    if (mean)
        x = cast_tensors(in->num_replicas, x, dtype_compute(own), a);
    bool of_all = is_combined(how, at[0]->operands[0]);
    int64_t count = 0;
    for (int r = 0; r < in->num_replicas; r++) {
        part[r] = NEW(a, RefTensor);
        reduce_axes(reduction_of(how), x[r], n, axes, a, part[r]);
        if (r == 0 || of_all)
            count += count_along(x[r], n, axes);
    }
    combine(in, of_all ? (mean ? AGG_sum : how) : AGG_first, part, a, &out);
    RefTensor result = {0};
    if (mean)
        divide_all(&out, count);
    cast_tensor(&out, own, a, &result);
    give_to_all(in, at, 0, &result);
}

static void
do_reduce(Interp *in, IrOp *const *at, Arena *a)
{
    int n;
    if (!ir_has(at[0], A_axes)) {
        do_reduce_to(in, at, a);
        return;
    }
    const int64_t *axes = ir_ints(at[0], A_axes, &n);
    combine_axes(in, at, (IrAgg)ir_enum(at[0], A_op), n, axes, a);
}

static void
do_global_mean(Interp *in, IrOp *const *at, Arena *a)
{
    static const int64_t axes[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    combine_axes(in, at, AGG_mean, at[0]->operands[0]->type.rank, axes, a);
}

/* ---- gathering ---------------------------------------------------------- */

/* What gathers `from` give becomes the results of `to`. */
static void
gather(Interp *in, IrOp *const *from, IrOp *const *to, Arena *a)
{
    RefTensor out = {0}, **x = operands_of_all(in, from, 0, a);
    int axis = (int)ir_int(from[0], A_axis);
    int64_t dims[IR_MAX_RANK];
    memcpy(dims, x[0]->dims, sizeof dims);
    for (int r = 1; r < in->num_replicas; r++)
        dims[axis] += x[r]->dims[axis];
    ref_shape(a, &out, x[0]->dtype, x[0]->rank, dims);
    ref_concat(in->num_replicas, (const RefTensor *const *)x, axis, &out);
    give_to_all(in, to, 0, &out);
}

static void
do_gather(Interp *in, IrOp *const *at, Arena *a)
{
    gather(in, at, at, a);
}

static void
do_value_of_one(Interp *in, IrOp *const *at, Arena *a)
{
    (void)a;
    int r = (int)ir_int(at[0], A_replica);
    give_to_all(in, at, 0, interp_value(in, r, at[r]->operands[0]));
}

/* ---- starts and dones --------------------------------------------------- */

/* A collective under way reads its operands and writes its results whenever it
 * likes: before the done the results are anything, at the done they are what
 * the operands are then. */
static void
do_start(Interp *in, IrOp *const *at, Arena *a)
{
    (void)a;
    for (int r = 0; r < in->num_replicas; r++)
        for (int i = 0; i < at[r]->num_results; i++) {
            RefTensor *x = interp_shaped(in, r, at[r]->results[i]);
            memset(x->data, 0xa5,
                   (size_t)x->count * dtype_info[x->dtype].bytes);
        }
}

static void
do_done(Interp *in, IrOp *const *at, Arena *a)
{
    IrOp **start = NEW_ARRAY(a, IrOp *, (size_t)in->num_replicas);
    for (int r = 0; r < in->num_replicas; r++)
        start[r] = at[r]->operands[0]->def;
    if (at[0]->kind == OP_all_reduce_done)
        combine_each(in, start, at, a);
    else
        gather(in, start, at, a);
}

/* ---- variables ---------------------------------------------------------- */

static int
var_index(const Interp *in, const char *name)
{
    for (int i = 0; i < in->m->vars.len; i++)
        if (!strcmp(in->m->vars.data[i]->name, name))
            return i;
    UNREACHABLE("no variable %s", name);
}

static const IrVar *
var_of(const Interp *in, const IrOp *op)
{
    return in->m->vars.data[var_index(in, ir_text(op, A_var))];
}

RefTensor *
replicas_var(const Interp *in, int r, const char *name)
{
    return &in->vars[var_index(in, name) * in->num_replicas + r];
}

const RefTensor *
interp_var(const Interp *in, const char *name, int replica)
{
    return replicas_var(in, replica, name);
}

static bool
is_cross_replica(const IrOp *op)
{
    IrContext cx = ir_context(op->block);
    return cx == CX_CROSS || cx == CX_MERGE;
}

bool
replicas_aggregate_read(const Interp *in, const IrOp *op)
{
    return is_cross_replica(op) && var_of(in, op)->sync == SYNC_ON_READ;
}

static IrAgg
aggregation(const IrVar *v)
{
    if (v->agg == AGG_none)
        UNREACHABLE("\"%s\" has no aggregation", v->name);
    return v->agg;
}

/* With an aggregation, a write in replica context is a joint write of all
 * replicas. */
bool
replicas_aggregate_write(const Interp *in, const IrOp *op)
{
    const IrVar *v = var_of(in, op);
    return in->m->phase == PHASE_IR && ir_context(op->block) == CX_REPLICA &&
           v->sync != SYNC_ON_READ && v->agg != AGG_none &&
           is_combined(aggregation(v), op->operands[0]);
}

/* A sync-on-read sum that is assigned a value has it divided among its parts,
 * so that they add up to it. */
static bool
is_divided(const Interp *in, const IrOp *op)
{
    const IrVar *v = var_of(in, op);
    return is_cross_replica(op) && v->sync == SYNC_ON_READ &&
           v->agg == AGG_sum && ir_enum(op, A_mode) == UPDATE_set;
}

/* Replica r's part of x. */
static Scalar
part_of(const Interp *in, int r, Scalar x)
{
    Scalar n = scalar_cast(scalar_int(DT_i64, in->num_replicas),
                           dtype_compute(x.dtype));
    if (in->num_replicas == 1)
        return x;
    if (dtype_is_float(x.dtype))
        return divide(x, n);
    bool more = r < apply(OP_mod, x, n).i;
    return apply(OP_add, apply(OP_floordiv, x, n), scalar_int(x.dtype, more));
}

static Scalar
write_element(IrUpdate mode, Scalar old, Scalar x)
{
    if (mode == UPDATE_set)
        return x;
    return apply(ir_update_op(mode, dtype_is_float(old.dtype)), old, x);
}

/* Replica r's copy of op's variable changes by x. */
static void
write_var(const Interp *in, int r, const IrOp *op, const RefTensor *x)
{
    RefTensor *var = replicas_var(in, r, ir_text(op, A_var));
    bool divided = is_divided(in, op);
    for (int64_t i = 0; i < var->count; i++) {
        Scalar value = ref_get(x, i);
        if (divided)
            value = part_of(in, r, value);
        ref_set(var, i,
                write_element((IrUpdate)ir_enum(op, A_mode), ref_get(var, i),
                              value));
    }
}

void
replicas_read_own(Interp *in, int r, IrOp *op)
{
    interp_bind(in, r, op->results[0], replicas_var(in, r, ir_text(op, A_var)));
}

void
replicas_write_own(Interp *in, int r, const IrOp *op)
{
    write_var(in, r, op, interp_value(in, r, op->operands[0]));
}

static void
do_read(Interp *in, IrOp *const *at, Arena *a)
{
    const IrVar *v = var_of(in, at[0]);
    RefTensor out = {0};
    RefTensor **x = NEW_ARRAY(a, RefTensor *, (size_t)in->num_replicas);
    for (int r = 0; r < in->num_replicas; r++)
        x[r] = replicas_var(in, r, v->name);
    combine(in, in->num_replicas > 1 ? aggregation(v) : AGG_first, x, a, &out);
    give_to_all(in, at, 0, &out);
}

static void
do_fetch_var(Interp *in, IrOp *const *at, Arena *a)
{
    (void)a;
    const IrVar *v = var_of(in, at[0]);
    int home = v->type.locality == LOCAL_ON ? in->m->home : 0;
    give_to_all(in, at, 0, replicas_var(in, home, v->name));
}

static void
do_write(Interp *in, IrOp *const *at, Arena *a)
{
    RefTensor value = {0}, **x = operands_of_all(in, at, 0, a);
    combine(in, aggregation(var_of(in, at[0])), x, a, &value);
    for (int r = 0; r < in->num_replicas; r++)
        write_var(in, r, at[r], &value);
}

const char *
replicas_drifted(const Interp *in)
{
    for (int i = 0; i < in->m->vars.len; i++) {
        const IrVar *v = in->m->vars.data[i];
        for (int r = 1; r < in->num_replicas && !ir_var_is_own(v); r++)
            if (ref_first_difference(replicas_var(in, 0, v->name),
                                     replicas_var(in, r, v->name)) >= 0)
                return v->name;
    }
    return NULL;
}

/* ---- all of them -------------------------------------------------------- */

typedef void (*Meeting)(Interp *in, IrOp *const *at, Arena *a);

static const Meeting meetings[NUM_OPS] = {
    [OP_read] = do_read,
    [OP_write] = do_write,
    [OP_all_reduce] = do_all_reduce,
    [OP_all_reduce_start] = do_start,
    [OP_all_reduce_done] = do_done,
    [OP_all_gather] = do_gather,
    [OP_all_gather_start] = do_start,
    [OP_all_gather_done] = do_done,
    [OP_global_mean] = do_global_mean,
    [OP_reduce] = do_reduce,
    [OP_reduce_to] = do_reduce_to,
    [OP_broadcast_to] = do_pass,
    [OP_gather] = do_gather,
    [OP_local_result] = do_value_of_one,
    [OP_fetch] = do_value_of_one,
    [OP_fetch_var] = do_fetch_var,
};

bool
replicas_together(Interp *in, IrOp *const *at)
{
    Meeting meeting = meetings[at[0]->kind];
    if (!meeting)
        return false;
    Arena *a = arena_new(NULL, "a meeting");
    meeting(in, at, a);
    arena_release(a);
    return true;
}
