/*
 * check_nan.c - stops at what makes numbers that are not finite (--check-nan)
 *
 * Compiled code tells where it is by the hook mark, and the end of a position
 * is the begin of the next one.  So at each mark the results of the kernel
 * before are looked at, and then the operands of the one that comes: it may
 * have its results at their places.  A mark cannot end a program; the fault is
 * recorded and the run stopped, which the next operation of the runtime and the
 * end of the launch see.  Programs that enqueue their work have no marks, but
 * their launches and collectives come by hooks: there the same is done before
 * and after each, on copies of the device's memory.
 *
 * What a kernel makes is judged by what it is given:
 *
 *   a NaN       is a finding, unless an operand of that result has one
 *   an infinity the same, unless an operand has one or a NaN, or a constant of
 *               the kernel is infinite, or it is the extremum of nothing
 *   a NaN of an operand with one came in from outside, or the run would have
 *               ended before: a finding, too, once something is computed of it
 *
 * So masks of -inf may go through any number of kernels.  Of an all_reduce all
 * replicas of this process count; it is a finding where all of them gave finite
 * numbers.
 */
#include "runtime/check/check_nan.h"

#include "ir/base/message.h"
#include "runtime/exec/end.h"
#include "runtime/exec/run_state.h"
#include "runtime/hal/device.h"
#include "runtime/check/check_nan_impl.h"

/* What main, or a device, has begun. */
typedef struct Pending {
    RtInvocation *inv;
    const RtCheckedSite *site; /* NULL: nothing */
    unsigned *in;              /* what each of its operands has */
} Pending;

struct RtNanCheck {
    TfdHooks hooks;      /* the run's, and mark */
    const TfdHooks *run; /* the run's */
    Pending main, *devices;
};

/* ---- arrays -------------------------------------------------------------- */

static unsigned
kinds_of(const RtInvocation *inv, const RtValue *v)
{
    if (!dtype_is_float(v->dtype))
        return 0;
    Arena *scratch = arena_new(NULL, "a copy");
    unsigned kinds = rt_not_finite(v->dtype, rt_checked_bytes(scratch, inv, v),
                                   rt_value_count(v, inv->executor->dims));
    arena_release(scratch);
    return kinds;
}

/* ---- judging ------------------------------------------------------------- */

static bool
is_empty(const IrType *t, const RtInvocation *inv)
{
    const RtValue v =
        rt_value_of(inv->executor->run->module, &(IrValue){.type = *t});
    return rt_value_count(&v, inv->executor->dims) == 0;
}

/* Whether the kernel takes the greatest or least of no elements. */
static bool
has_empty_extremum(const RtCheckedSite *site, const RtInvocation *inv)
{
    const IrOp *op = site->op->regions[0]->first;
    for (; op; op = op->next)
        if ((op->kind == OP_reduce_max || op->kind == OP_reduce_min) &&
            is_empty(&op->operands[0]->type, inv))
            return true;
    return false;
}

/* Which of the kinds of a result is a finding; 0: none. */
static unsigned
judge_kernel(const Pending *p, int result, unsigned kinds, unsigned in)
{
    const RtDescent *d = &p->site->descent[result];
    if (kinds & RT_HAS_NAN && (!(in & RT_HAS_NAN) || d->computes))
        return RT_HAS_NAN;
    bool is_written = in || d->written & RT_HAS_INF;
    if (kinds & RT_HAS_INF && !is_written &&
        !(d->is_extremum && has_empty_extremum(p->site, p->inv)))
        return RT_HAS_INF;
    return 0;
}

/* A sum or mean; the greatest of numbers is one of them. */
static unsigned
judge_reduce(const RtCheckedSite *site, unsigned kinds, unsigned in)
{
    IrAgg how = (IrAgg)ir_enum(site->started->op, A_op);
    if (how == AGG_max || how == AGG_min || in)
        return 0;
    return kinds & RT_HAS_NAN ? RT_HAS_NAN : kinds;
}

/* What the operands of a start had on a replica of this process in a call, by
 * number: its last one, or the one before it. */
static _Atomic unsigned char *
seen_in(const RtCheckedSite *start, int local, uint32_t call)
{
    int num = start->op->num_operands;
    return start->given->seen + (ptrdiff_t)(2 * local + (int)(call % 2)) * num;
}

/* What the replicas of this process started it with.  One that is ahead has
 * begun the next call, but not the one after it, for which it has to meet this
 * one. */
static unsigned
given_to_reduce(const RtExecutor *executor, const RtCheckedSite *site,
                int result)
{
    unsigned in = 0;
    const RtRun *run = executor->run;
    const RtCheckedSite *start = site->started;
    uint32_t call = start->given->calls[executor->replica - run->first_local];
    for (int r = 0; r < run->num_local; r++)
        in |= atomic_load(&seen_in(start, r, call)[result]);
    return in;
}

static unsigned
given_to_kernel(const Pending *p, int result)
{
    unsigned in = 0;
    uint64_t operands = p->site->descent[result].operands;
    for (int i = 0; i < p->site->op->num_operands; i++)
        if (operands >> (i < 63 ? i : 63) & 1)
            in |= p->in[i];
    return in;
}

/* ---- positions ----------------------------------------------------------- */

/* Where a result of a kernel is made in its region: the first finding is the
 * one that the others may descend from. */
static int
order_of(const RtCheckedSite *site, int result)
{
    if (site->op->kind != OP_kernel)
        return result;
    int order = 0;
    const IrBlock *b = site->op->regions[0];
    const IrOp *maker = ir_block_yield(b)->operands[result]->def;
    for (const IrOp *op = b->first; op && op != maker; op = op->next)
        order++;
    return order;
}

static bool
find(const Pending *p, int result, RtNanFinding *f)
{
    RtInvocation *inv = p->inv;
    const RtCheckedSite *site = p->site;
    bool is_kernel = site->op->kind == OP_kernel;
    unsigned kinds =
        site->is_lost[result] ? 0 : kinds_of(inv, &site->out[result]);
    if (!kinds || (!is_kernel && !site->started))
        return false;
    unsigned in = is_kernel ? given_to_kernel(p, result)
                            : given_to_reduce(inv->executor, site, result);
    unsigned kind = is_kernel ? judge_kernel(p, result, kinds, in)
                              : judge_reduce(site, kinds, in);
    *f = (RtNanFinding){.inv = inv,
                        .site = site,
                        .result = result,
                        .kind = kind,
                        .in = in,
                        .in_each = is_kernel ? p->in : NULL};
    return kind != 0;
}

static void
finish(const Pending *p)
{
    RtNanFinding first = {0}, f;
    const RtCheckedSite *site = p->site;
    for (int i = 0; i < site->op->num_results; i++)
        if (find(p, i, &f) &&
            (!first.kind || order_of(site, i) < order_of(site, first.result)))
            first = f;
    if (first.kind)
        rt_report_nan(&first);
}

static void
begin(Pending *p, RtInvocation *inv, const RtCheckedSite *site)
{
    const RtExecutor *executor = inv->executor;
    bool is_done = site->op->kind == OP_all_reduce_done; /* not there yet */
    int num = is_done ? 0 : site->op->num_operands;
    for (int i = 0; i < num; i++)
        p->in[i] = kinds_of(inv, &site->in[i]);
    if (site->op->kind == OP_all_reduce_start) {
        int local = executor->replica - executor->run->first_local;
        uint32_t call = ++site->given->calls[local];
        for (int i = 0; i < num; i++)
            atomic_store(&seen_in(site, local, call)[i],
                         (unsigned char)p->in[i]);
        return;
    }
    p->inv = inv;
    p->site = site;
}

static Pending *
pending_of(const RtExecutor *executor)
{
    struct RtNanCheck *c = executor->run->nan_check;
    return executor->replica < 0 ? &c->main
                                 : &c->devices[executor->device_number];
}

/* What is begun has ended. */
static void
end(Pending *p)
{
    if (p->site && !p->inv->executor->fault.op)
        finish(p);
    p->site = NULL;
}

/* What is to be looked at; NULL: nothing. */
static const RtCheckedSite *
site_at(const RtInvocation *inv, int32_t position)
{
    bool is_position = position >= 0 && position < inv->fn->positions.len;
    const RtCheckedSite *site =
        is_position ? &inv->fn->checked[position] : NULL;
    return site && site->op && !inv->executor->fault.op ? site : NULL;
}

static void
mark(TfdCall *call, int32_t position)
{
    RtInvocation *inv = call->context;
    Pending *p = pending_of(inv->executor);
    end(p);
    const RtCheckedSite *site = site_at(inv, position);
    if (site)
        begin(p, inv, site);
}

/* ---- programs that enqueue their work ------------------------------------ */

static const RtCheckedSite *
site_of_call(const TfdCall *call)
{
    return site_at(call->context,
                   atomic_load_explicit(&call->at, memory_order_relaxed));
}

static int32_t
launch(TfdCall *call, int32_t kernel, void *const *ptrs, int32_t num_ptrs,
       const int64_t *dims, int64_t items, int64_t grain)
{
    RtInvocation *inv = call->context;
    Pending *p = pending_of(inv->executor);
    const RtCheckedSite *site = site_of_call(call);
    if (site && site->op->kind == OP_kernel)
        begin(p, inv, site);
    int32_t status = inv->executor->run->nan_check->run->launch(
        call, kernel, ptrs, num_ptrs, dims, items, grain);
    end(p);
    return status;
}

static int32_t
run_enqueued_op(TfdCall *call, int32_t index)
{
    RtInvocation *inv = call->context;
    Pending *p = pending_of(inv->executor);
    const RtCheckedSite *site = site_of_call(call);
    if (site && index >= 0 && index < inv->fn->num_ops &&
        site->op == inv->fn->ops[index].op)
        begin(p, inv, site);
    int32_t status = inv->executor->run->nan_check->run->op(call, index);
    if (status != EXEC_OK)
        p->site = NULL;
    end(p);
    return status;
}

/* Replicas end where they would meet the one with a fault, and not before: of
 * several with faults, the first is reported in each run. */
static int32_t
run_op(TfdCall *call, int32_t index)
{
    const RtInvocation *inv = call->context;
    const RtRun *run = inv->executor->run;
    bool is_host = inv->fn->ir->kind == FUNC_HOST;
    if (!is_host && inv->executor->fault.op)
        return EXEC_FAULT;
    return run->enqueues && !is_host ? run_enqueued_op(call, index)
                                     : run->nan_check->run->op(call, index);
}

/* Nothing is saved of a step that has a fault. */
static int32_t
safepoint(TfdCall *call, int32_t index)
{
    const RtInvocation *main = call->context;
    const TfdHooks *run = main->executor->run->nan_check->run;
    return main->executor->fault.op ? EXEC_FAULT : run->safepoint(call, index);
}

/* ---- opening ------------------------------------------------------------- */

static Status
check_devices(const RtRun *run)
{
    const char *name = ir_device_name(run->arena, run->device_list.data[0]);
    if (run->caps->machine)
        return status_new(STATUS_USAGE,
                          "--check-nan: %s executes nothing that could be "
                          "checked",
                          name);
    if (!run->enqueues && !run->caps->is_host_visible)
        return status_new(STATUS_USAGE,
                          "--check-nan looks at memory after each kernel, and "
                          "%s shows it after each step: run the plan with "
                          "--devices cpu:0, to the same bits",
                          name);
    return OK;
}

static int
most_operands(const RtRun *run)
{
    int most = 0;
    for (int i = 0; i < map_count(run->fns); i++) {
        const RtFunction *fn = map_value(run->fns, i);
        for (int k = 0; k < fn->positions.len; k++)
            if (fn->positions.data[k]->num_operands > most)
                most = fn->positions.data[k]->num_operands;
    }
    return most;
}

Status
rt_open_nan_check(RtRun *run)
{
    TRY(check_devices(run));
    size_t most = (size_t)most_operands(run) + 1;
    struct RtNanCheck *c = run->nan_check = NEW(run->arena, struct RtNanCheck);
    RtGiven *given =
        NEW_ARRAY(run->arena, RtGiven, (size_t)run->collectives.len);
    for (int i = 0; i < map_count(run->fns); i++)
        TRY(rt_find_checked_sites(run, map_value(run->fns, i), given));
    c->main.in = NEW_ARRAY(run->arena, unsigned, most);
    c->devices = NEW_ARRAY(run->arena, Pending, (size_t)run->num_devices);
    for (int i = 0; i < run->num_devices; i++)
        c->devices[i].in = NEW_ARRAY(run->arena, unsigned, most);
    c->run = run->hooks;
    c->hooks = *run->hooks;
    c->hooks.op = run_op;
    c->hooks.mark = mark;
    c->hooks.launch = launch;
    c->hooks.safepoint = safepoint;
    run->hooks = &c->hooks;
    return OK;
}
