/*
 * exec_ops.c - hooks of compiled code, and the simplest of their operations
 */
#include <stdarg.h>
#include <string.h>
#include "ir/base/message.h"
#include "runtime/exec/exec_load.h"
#include "runtime/exec/exec_print.h"
#include "runtime/exec/run.h"
#include "runtime/hal/cpu/wait.h"

/* ---- hooks ------------------------------------------------------------- */

static RtInvocation *
invocation_of(TfdCall *call)
{
    return call->context;
}

static void
count_op(RtExecutor *executor)
{
    uint64_t n = atomic_load_explicit(&executor->num_ops, memory_order_relaxed);
    atomic_store_explicit(&executor->num_ops, n + 1, memory_order_relaxed);
}

/* The code asks for an operation or safepoint that its function does not
 * have. */
static int32_t
wrong_number(RtInvocation *inv)
{
    RtHostOp h = {.op = inv->fn->ir->body->last};
    return rt_fault(inv, &h, STATUS_INPUT,
                    "the plan is damaged: the code of @%s asks for what it "
                    "does not have",
                    inv->fn->ir->name);
}

static int32_t
hook_op(TfdCall *call, int32_t index)
{
    RtInvocation *inv = invocation_of(call);
    if (index < 0 || index >= inv->fn->num_ops)
        return wrong_number(inv);
    const RtHostOp *h = &inv->fn->ops[index];
    count_op(inv->executor);
    return rt_is_stopped(inv->executor->run) ? EXEC_STOPPED : h->run(inv, h);
}

static int32_t
hook_parallel(TfdCall *call, TfdKernel *kernel, void *const *ptrs,
              const int64_t *dims, int64_t count, int64_t grain)
{
    RtDevice *d = invocation_of(call)->executor->device;
    if (d)
        d->ops->parallel(d, kernel, ptrs, dims, count, grain);
    else
        kernel(ptrs, dims, 0, count);
    return EXEC_OK;
}

static int32_t
hook_safepoint(TfdCall *call, int32_t index)
{
    RtInvocation *main = invocation_of(call);
    RtRun *run = main->executor->run;
    if (main->fn->ir->kind != FUNC_MAIN || index < 0 ||
        index >= main->fn->num_safepoints)
        return wrong_number(main);
    run->stats.steps++;
    atomic_store_explicit(&run->watchdog.steps, run->stats.steps,
                          memory_order_relaxed);
    rt_progress_step(&run->progress, run->stats.steps);
    if (run->options->on_step)
        run->options->on_step(run->options->on_step_data, run->stats.steps);
    Status st = rt_checkpoint(main, index);
    if (!st && run->out_error)
        st = rt_flush(run);
    if (st)
        return rt_fault_status(main, &main->fn->ops[0], st);
    return rt_is_interrupted(run) ? EXEC_STOPPED : EXEC_OK;
}

const TfdHooks rt_hooks = {
    .abi = TFD_ABI,
    .op = hook_op,
    .parallel = hook_parallel,
    .safepoint = hook_safepoint,
};

/* ---- now, fetch, fetch_var --------------------------------------------- */

int32_t
rt_op_now(RtInvocation *inv, const RtHostOp *h)
{
    double now = rt_seconds() + inv->executor->run->now_offset;
    memcpy(rt_value_pointer(inv, &h->out[0]), &now, sizeof now);
    return EXEC_OK;
}

Status
rt_prepare_fetch(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    (void)fn;
    int64_t replica = ir_int(h->op, A_replica);
    if (h->in[0].place.space != SPACE_ROW ||
        h->out[0].place.space != SPACE_FRAME || replica < 0 ||
        replica >= run->num_replicas)
        return plan_refuse(run->plan, "it fetches from where there is nothing");
    return OK;
}

/* The size is that on the replica, where the value was made. */
int32_t
rt_op_fetch(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    const RtExecutor *replica = &run->replicas[ir_int(h->op, A_replica)];
    RtDevice *d = replica->device;
    d->ops->copy_out(d, rt_value_pointer(inv, &h->out[0]),
                     rt_row_pointer(replica, &h->in[0]),
                     rt_value_bytes(&h->in[0], replica->dims));
    return EXEC_OK;
}

Status
rt_prepare_fetch_var(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    (void)fn;
    h->var = ir_var_find(run->module, ir_text(h->op, A_var));
    if (h->out[0].place.space != SPACE_FRAME)
        return plan_refuse(run->plan,
                           "it fetches \"%s\" to where main has nothing",
                           h->var->name);
    return OK;
}

int32_t
rt_op_fetch_var(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    RtDevice *d = run->devices[0];
    d->ops->copy_out(d, rt_value_pointer(inv, &h->out[0]),
                     run->replicas[0].base + h->var->place.offset,
                     rt_value_bytes(&h->out[0], run->replicas[0].dims));
    return EXEC_OK;
}
