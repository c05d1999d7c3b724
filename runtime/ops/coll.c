/*
 * coll.c - collectives of device programs
 *
 * Every start of a program is an instance of the communicator.  A program and
 * its variant for full batches share their instances, since some replicas may
 * run the one while others run the other: their collectives must be equal.
 */
#include <assert.h>
#include "ir/base/clock.h"
#include "ir/type_bounds.h"
#include "runtime/exec/position.h"
#include "runtime/exec/run_state.h"
#include "runtime/ops/host_ops.h"

/* ---- instances ---------------------------------------------------------- */

static bool
is_alike(const RtHostOp *a, const RtHostOp *b)
{
    const IrOp *x = a->op, *y = b->op;
    if (x->kind != y->kind || x->num_operands != y->num_operands)
        return false;
    for (int i = 0; i < x->num_operands; i++) {
        if (a->in[i].dtype != b->in[i].dtype)
            return false;
    }
    if (ir_enum(x, A_algorithm) != ir_enum(y, A_algorithm) ||
        ir_int(x, A_root) != ir_int(y, A_root) ||
        ir_int(x, A_timeout_ms) != ir_int(y, A_timeout_ms))
        return false;
    if (x->kind == OP_all_reduce_start)
        return ir_enum(x, A_op) == ir_enum(y, A_op);
    return ir_int(x, A_axis) == ir_int(y, A_axis);
}

/* What operations of one instance have in common. */
static void
share_with(RtHostOp *h, const RtHostOp *start)
{
    h->instance = start->instance;
    h->timeout = start->timeout;
    h->site = start->site;
    h->collective = start->collective;
}

/* The instance of the same collective in the program that fn is a variant of.
 */
static Status
share_instance(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    RtFunction *program;
    int index = fn->starts.len;
    TRY(rt_load_function(run, fn->ir->variant_of, FUNC_PROGRAM, &program));
    if (index >= program->starts.len ||
        !is_alike(h, program->starts.data[index]))
        return plan_refuse(run->plan, "@%s and @%s differ in their collectives",
                           fn->ir->name, program->ir->name);
    share_with(h, program->starts.data[index]);
    return OK;
}

/* The algorithms that ops.def allows a start. */
static RtCollAlgorithm
algorithm_of(const IrOp *op)
{
    switch ((IrAlgorithm)ir_enum(op, A_algorithm)) {
    case ALGORITHM_auto:
    case ALGORITHM_nccl: /* by that transport */
        return COLL_AUTO;
    case ALGORITHM_ring:
        return COLL_RING;
    case ALGORITHM_reduction_to_one:
        return COLL_REDUCE_TO_ONE;
    case ALGORITHM_hierarchical_copy:
        return COLL_HIERARCHICAL;
    case ALGORITHM_nccl_allreduce:
        return COLL_LIBRARY;
    case ALGORITHM_two_phase:
    case NUM_ALGORITHMS:
        break;
    }
    UNREACHABLE("a collective by %s", ir_enum_word(op, A_algorithm));
}

RtReduceOp
rt_reduce_op_of(const IrOp *op)
{
    switch ((IrAgg)ir_enum(op, A_op)) {
    case AGG_sum:
        return REDUCE_SUM;
    case AGG_max:
        return REDUCE_MAX;
    case AGG_min:
        return REDUCE_MIN;
    case AGG_first:
        return REDUCE_FIRST;
    case AGG_none:
    case AGG_mean:
    case NUM_AGGS:
        break;
    }
    UNREACHABLE("an all_reduce by %s", ir_enum_word(op, A_op));
}

static Status
read_root(const RtRun *run, const IrOp *op, RtAlgorithmChoice *choice)
{
    int64_t root = ir_int(op, A_root);
    if (root < 0 || root >= run->num_replicas)
        return plan_refuse(run->plan,
                           "it has a collective whose root is replica %lld",
                           (long long)root);
    choice->root = (int)root;
    return OK;
}

/* A --timeout that is shorter holds for it, too. */
double
rt_own_timeout(const RtRun *run, const IrOp *start)
{
    double seconds = (double)ir_int(start, A_timeout_ms) / 1000;
    double most = run->options->timeout;
    return most > 0 && most < seconds ? 0 : seconds;
}

static Status
read_choice(const RtRun *run, const IrOp *op, RtAlgorithmChoice *choice)
{
    int64_t packs = ir_int(op, A_packs);
    choice->algorithm = algorithm_of(op);
    TRY(read_root(run, op, choice));
    if (packs < 0 || packs > IR_MAX_PACKS)
        return plan_refuse(run->plan, "it has an all_reduce in %lld packs",
                           (long long)packs);
    choice->packs = (int)packs;
    choice->timeout = rt_own_timeout(run, op);
    return OK;
}

/* That a value ever has; the types of a program's values have bounds. */
static int64_t
most_bytes(const RtRun *run, const IrValue *v)
{
    int64_t bytes = 0;
    ir_type_bytes(run->module, &v->type, &bytes);
    return bytes;
}

/* The operands, with the kernels that combine them if the plan has any. */
static Status
read_operands(const RtRun *run, const RtHostOp *h, RtReduceOperand *operands)
{
    int count, n = h->op->num_operands;
    const char *const *names = ir_names(h->op, A_kernels, &count);
    if (ir_has(h->op, A_kernels) && count != n)
        return plan_refuse(run->plan,
                           "it has an all_reduce of %d operands and %d kernels",
                           n, count);
    for (int i = 0; i < n; i++) {
        DType t = h->in[i].dtype;
        int64_t bytes = most_bytes(run, h->op->operands[i]);
        operands[i] = (RtReduceOperand){
            t,
            ir_has(h->op, A_kernels) ? plan_kernel_named(run->plan, names[i])
                                     : -1,
            bytes / (int64_t)dtype_info[t].bytes};
    }
    return OK;
}

static Status
all_reduce_new(RtRun *run, RtHostOp *h)
{
    RtAlgorithmChoice choice;
    int n = h->op->num_operands;
    RtReduceOperand *operands =
        NEW_ARRAY(run->arena, RtReduceOperand, (size_t)n);
    TRY(read_choice(run, h->op, &choice));
    TRY(read_operands(run, h, operands));
    return run->coll->ops->all_reduce_new(run->coll, rt_reduce_op_of(h->op),
                                          choice, n, operands, &h->instance);
}

static Status
all_gather_new(RtRun *run, RtHostOp *h)
{
    RtAlgorithmChoice choice = {.algorithm = algorithm_of(h->op)};
    TRY(read_root(run, h->op, &choice));
    assert(choice.algorithm != COLL_HIERARCHICAL); /* no word of the table */
    return run->coll->ops->all_gather_new(
        run->coll, choice, most_bytes(run, h->op->results[0]), &h->instance);
}

static Status
make_instance(RtRun *run, RtHostOp *h)
{
    h->timeout = rt_own_timeout(run, h->op);
    if (h->op->kind == OP_all_reduce_start)
        TRY(all_reduce_new(run, h));
    else
        TRY(all_gather_new(run, h));
    h->collective = run->collectives.len;
    VEC_PUSH(run->arena, run->collectives, h);
    return OK;
}

static Status
prepare_start(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    if (fn->ir->variant_of)
        TRY(share_instance(run, fn, h));
    else
        TRY(make_instance(run, h));
    VEC_PUSH(run->arena, fn->starts, h);
    return OK;
}

Status
rt_prepare_reduce(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    assert(h->op->num_operands == h->op->num_results);
    return prepare_start(run, fn, h);
}

Status
rt_prepare_gather(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    return prepare_start(run, fn, h);
}

/* A done has the instance of the start whose result it takes. */
Status
rt_prepare_done(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    const IrOp *start = h->op->num_operands ? h->op->operands[0]->def : NULL;
    for (int i = 0; i < fn->starts.len; i++) {
        if (fn->starts.data[i]->op == start) {
            share_with(h, fn->starts.data[i]);
            return OK;
        }
    }
    return plan_refuse(run->plan,
                       "@%s waits for a collective that it did not start",
                       fn->ir->name);
}

/* ---- execution --------------------------------------------------------- */

/* clock_seconds() where they are counted. */
static double
begin_use(const RtExecutor *executor)
{
    return executor->coll_uses ? clock_seconds() : 0.0;
}

static void
end_use(RtExecutor *executor, const RtHostOp *h, double begin)
{
    if (executor->coll_uses)
        executor->coll_uses[h->collective].seconds += clock_seconds() - begin;
}

/* A call of the device is that of its first replica. */
static void
note_start(RtExecutor *executor, const RtHostOp *h, int64_t bytes)
{
    const RtRun *run = executor->run;
    bool is_first = (executor - run->locals) % run->replicas_each == 0;
    executor->started++;
    if (executor->coll_uses)
        executor->coll_uses[h->collective].bytes += bytes;
    if (run->job && is_first)
        rt_job_calls(run->job, executor->device_number, h->site);
}

int32_t
rt_op_all_reduce_start(RtInvocation *inv, const RtHostOp *h)
{
    RtExecutor *executor = inv->executor;
    RtColl *coll = executor->run->coll;
    int64_t bytes = 0;
    for (int i = 0; i < h->op->num_operands; i++) {
        int64_t count = rt_value_count(&h->in[i], executor->dims);
        executor->reduces[i] =
            (RtAllReducePart){rt_device_value(inv, &h->in[i]),
                              rt_device_value(inv, &h->out[i]), count};
        bytes += count * (int64_t)dtype_info[h->in[i].dtype].bytes;
    }
    note_start(executor, h, bytes);
    double begin = begin_use(executor);
    coll->ops->all_reduce_start(h->instance, executor->replica,
                                executor->reduces);
    end_use(executor, h, begin);
    return EXEC_OK;
}

int32_t
rt_op_all_gather_start(RtInvocation *inv, const RtHostOp *h)
{
    RtExecutor *executor = inv->executor;
    RtColl *coll = executor->run->coll;
    const RtValue *v = &h->in[0];
    RtAllGatherPart part = {rt_device_value(inv, v),
                            rt_device_value(inv, &h->out[0]), 1,
                            (int64_t)dtype_info[v->dtype].bytes};
    for (int i = 0; i < v->rank; i++) {
        int64_t size = rt_dim(&v->dims[i], executor->dims);
        if (i < ir_int(h->op, A_axis))
            part.outer *= size;
        else
            part.own_bytes *= size;
    }
    note_start(executor, h, part.outer * part.own_bytes);
    double begin = begin_use(executor);
    coll->ops->all_gather_start(h->instance, executor->replica, &part);
    end_use(executor, h, begin);
    return EXEC_OK;
}

/* Over messages each process knows of its own replicas alone. */
static bool
is_seen(const RtRun *run, int replica)
{
    int local = replica - run->locals[0].replica;
    return run->coll->ops->sees_all || (local >= 0 && local < run->num_local);
}

static bool
have_all_arrived(const RtRun *run, RtCollInstance *instance)
{
    bool all = true;
    for (int i = 0; all && i < run->num_replicas; i++)
        all = is_seen(run, i) && run->coll->ops->arrived(instance, i);
    return all;
}

/* "replicas 0, 2 have" arrived, or have not. */
static const char *
list_replicas(const RtRun *run, Arena *a, RtCollInstance *instance,
              bool arrived)
{
    Str s = str_new(a);
    int n = 0;
    for (int i = 0; i < run->num_replicas; i++) {
        if (is_seen(run, i) && run->coll->ops->arrived(instance, i) == arrived)
            str_addf(&s, "%s%d", n++ ? ", " : "", i);
    }
    if (!n)
        return run->coll->ops->sees_all ? "none has"
                                        : "some of other processes have";
    return arena_printf(a, n > 1 ? "replicas %s have" : "replica %s has",
                        str_text(&s));
}

static int32_t
fault_late_replicas(RtInvocation *inv, const RtHostOp *h, const char *what,
                    double seconds, const char *option)
{
    RtRun *run = inv->executor->run;
    Arena *a = inv->executor->arena;
    const char *arrived = list_replicas(run, a, h->instance, true);
    const char *missing = list_replicas(run, a, h->instance, false);
    return rt_fault(inv, h, STATUS_INPUT,
                    "the replicas do not meet in this %s: after %g seconds %s "
                    "arrived, %s not (%s allows more)",
                    what, seconds, arrived, missing, option);
}

/* Where devices wait for each other all replicas may have come. */
static int32_t
fault_late(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    RtFault *fault = &inv->executor->fault;
    bool reduces = h->op->kind == OP_all_reduce_done, own = h->timeout > 0;
    const char *what = reduces ? "all_reduce" : "all_gather";
    const char *option = own ? "timeout_seconds" : "--timeout";
    double seconds = own ? h->timeout : run->timeout;
    fault->late = true;
    rt_add_stragglers(run, inv->executor->arena, &fault->notes);
    int32_t end =
        have_all_arrived(run, h->instance)
            ? rt_fault(inv, h, STATUS_INPUT,
                       "this %s has not ended after %g seconds although all "
                       "replicas have come to it (%s allows more)",
                       what, seconds, option)
            : fault_late_replicas(inv, h, what, seconds, option);
    rt_stop(run);
    return end;
}

/* All replicas of the device have met the others. */
static void
note_meeting(RtExecutor *first)
{
    for (int i = 0; i < first->run->replicas_each; i++)
        first[i].met++;
}

static int32_t
wait_for_instance(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    int device = inv->executor->device_number;
    note_meeting(inv->executor);
    if (run->job)
        rt_job_waits(run->job, device, h->site);
    double begin = begin_use(inv->executor);
    RtCollResult end = run->coll->ops->done(h->instance, device, h->timeout);
    end_use(inv->executor, h, begin);
    if (run->job && end == COLL_OK)
        rt_job_goes_on(run->job, device);
    switch (end) {
    case COLL_OK:
        return EXEC_OK;
    case COLL_TIMEOUT:
        return fault_late(inv, h);
    case COLL_ABORTED:
        break;
    }
    return EXEC_STOPPED;
}

int32_t
rt_op_all_reduce_done(RtInvocation *inv, const RtHostOp *h)
{
    return wait_for_instance(inv, h);
}

int32_t
rt_op_all_gather_done(RtInvocation *inv, const RtHostOp *h)
{
    return wait_for_instance(inv, h);
}
