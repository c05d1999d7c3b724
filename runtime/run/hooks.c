/*
 * hooks.c - the hooks that compiled code calls
 */
#include "runtime/run/hooks.h"

#include <errno.h>
#include "ir/base/message.h"
#include "runtime/exec/end.h"
#include "runtime/exec/function.h"
#include "runtime/exec/output.h"
#include "runtime/exec/run_state.h"
#include "runtime/profile/recorder.h"

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
 * have, or for a kernel that the plan has not. */
static int32_t
wrong_number(RtInvocation *inv)
{
    RtHostOp h = {.op = inv->fn->ir->body->last};
    return rt_fault(inv, &h, STATUS_INPUT,
                    "the plan is damaged: the code of @%s asks for what it "
                    "does not have",
                    inv->fn->ir->name);
}

/* A program ends early on a device that has failed. */
static int32_t
end_of(const RtExecutor *replica)
{
    return rt_device_has_failed(replica->device) ? EXEC_STOPPED : EXEC_OK;
}

/* What operations got from a device that failed is not what it was asked for:
 * main ends with its reason. */
static int32_t
end_of_op(RtInvocation *inv, const RtHostOp *h, int32_t end)
{
    const RtRun *run = inv->executor->run;
    if (inv->executor->replica >= 0 && end == EXEC_OK)
        return end_of(inv->executor);
    if (inv->executor != &run->main)
        return end;
    Status st = rt_devices_status(run);
    return st ? rt_fault_status(inv, h, st) : end;
}

static int32_t
run_op(void *context, const void *op)
{
    RtInvocation *inv = context;
    const RtHostOp *h = op;
    count_op(inv->executor);
    if (rt_is_stopped(inv->executor->run))
        return EXEC_STOPPED;
    return end_of_op(inv, h, h->run(inv, h));
}

/* That the mains of all processes execute the same operations. */
static void
note_operation(RtRun *run, const RtHostOp *h, int32_t index)
{
    run->agreement.fingerprint =
        rt_fingerprint_after(run->agreement.fingerprint, index);
    run->site = h->site;
}

/* Programs that are ahead of their devices may have been recorded. */
static int32_t
hook_op(TfdCall *call, int32_t index)
{
    RtInvocation *inv = invocation_of(call);
    if (index < 0 || index >= inv->fn->num_ops)
        return wrong_number(inv);
    const RtHostOp *h = &inv->fn->ops[index];
    const RtExecutor *executor = inv->executor;
    if (executor == &executor->run->main)
        note_operation(executor->run, h, index);
    if (executor->replica < 0 || !executor->run->enqueues || h->only_enqueues ||
        !executor->device->ops->program->call)
        return run_op(inv, h);
    return executor->device->ops->program->call(executor->device, run_op, inv,
                                                h);
}

static int32_t
hook_parallel(TfdCall *call, TfdKernel *kernel, void *const *ptrs,
              const int64_t *dims, int64_t count, int64_t grain)
{
    RtDevice *d = invocation_of(call)->executor->device;
    if (d)
        d->ops->program->parallel(d, kernel, ptrs, dims, count, grain);
    else
        kernel(ptrs, dims, 0, count);
    return EXEC_OK;
}

/* Where the reader of the output has gone the processes of a job first agree on
 * a step to save. */
static bool
output_ends_the_run(const RtRun *run)
{
    bool waits = run->group && run->out_error == EPIPE && run->resume.is_on;
    return run->out_error && (!waits || rt_stops_here(run));
}

/* An interrupt that came after it was decided that there is no checkpoint here
 * ends the next step. */
static bool
ends_here(const RtRun *run)
{
    const RtResume *r = &run->resume;
    return rt_stops_here(run) && (!r->is_on || r->step == run->stats.steps);
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
    if (run->profile)
        rt_profile_step(run);
    if (run->options->on_step)
        run->options->on_step(run->options->on_step_data, run->stats.steps);
    Status st = rt_checkpoint(main, index);
    if (!st && output_ends_the_run(run))
        st = rt_flush(run);
    if (st)
        return rt_fault_status(main, &main->fn->ops[0], st);
    return ends_here(run) ? EXEC_STOPPED : EXEC_OK;
}

/* ---- programs that enqueue their work ------------------------------------ */

static int32_t
hook_launch(TfdCall *call, int32_t kernel, void *const *ptrs, int32_t num_ptrs,
            const int64_t *dims, int64_t items, int64_t grain)
{
    RtInvocation *inv = invocation_of(call);
    RtExecutor *executor = inv->executor;
    if (kernel < 0 || kernel >= executor->run->plan->num_kernels)
        return wrong_number(inv);
    RtKernelLaunch launch = {kernel, ptrs, dims, items, grain, num_ptrs};
    executor->device->ops->program->launch(executor->device, &launch);
    return end_of(executor);
}

static int32_t
hook_copy(TfdCall *call, void *to, const void *from, int64_t bytes)
{
    RtExecutor *executor = invocation_of(call)->executor;
    RtDevice *d = executor->device;
    if (bytes > 0)
        d->ops->program->copy(d, to, from, (size_t)bytes);
    return end_of(executor);
}

static int32_t
hook_store(TfdCall *call, void *to, int64_t word, int32_t bytes)
{
    RtExecutor *executor = invocation_of(call)->executor;
    RtDevice *d = executor->device;
    d->ops->program->store(d, to, &word, (size_t)bytes);
    return end_of(executor);
}

static int32_t
hook_load(TfdCall *call, int64_t *word, const void *from, int32_t bytes)
{
    RtExecutor *executor = invocation_of(call)->executor;
    RtDevice *d = executor->device;
    int32_t end = d->ops->program->load(d, word, from, (size_t)bytes);
    return end ? end : end_of(executor);
}

const TfdHooks rt_hooks = {
    .abi = TFD_ABI,
    .op = hook_op,
    .parallel = hook_parallel,
    .safepoint = hook_safepoint,
    .launch = hook_launch,
    .copy = hook_copy,
    .store = hook_store,
    .load = hook_load,
};
