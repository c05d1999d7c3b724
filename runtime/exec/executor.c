/*
 * executor.c - executors of compiled functions, and their faults
 */
#include "runtime/exec/executor.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>
#include "ir/analysis/hooks.h"
#include "ir/base/message.h"
#include "runtime/exec/function.h"
#include "runtime/exec/run_state.h"

/* ---- faults ------------------------------------------------------------ */

/* No thread may wait any longer for this executor. (Dataset functions run
 * before the step; the consumer of the element gets the fault.) */
static int32_t
end_with_fault(RtInvocation *inv)
{
    RtRun *run = inv->executor->run;
    RtExecutor *first = NULL;
    if (inv->fn->ir->kind == FUNC_HOST)
        return EXEC_FAULT;
    atomic_compare_exchange_strong(&run->watchdog.failed, &first,
                                   inv->executor);
    run->coll->ops->abort(run->coll);
    return EXEC_FAULT;
}

static void
note_fault(RtExecutor *executor, const RtHostOp *h)
{
    RtFault *fault = &executor->fault;
    fault->op = h->op;
    fault->started = executor->started;
    fault->met = executor->met;
}

int32_t
rt_fault(RtInvocation *inv, const RtHostOp *h, StatusKind kind,
         const char *format, ...)
{
    RtFault *fault = &inv->executor->fault;
    if (!fault->op) {
        va_list args;
        va_start(args, format);
        str_add(&fault->text,
                message_vprintf(inv->executor->arena, format, args));
        va_end(args);
        fault->kind = kind;
        note_fault(inv->executor, h);
    }
    return end_with_fault(inv);
}

int32_t
rt_fault_status(RtInvocation *inv, const RtHostOp *h, Status st)
{
    RtFault *fault = &inv->executor->fault;
    if (status_kind(st) == STATUS_STOPPED) {
        status_free(st);
        return EXEC_STOPPED;
    }
    if (fault->op) {
        status_free(st);
    } else {
        fault->cause = st;
        note_fault(inv->executor, h);
    }
    return end_with_fault(inv);
}

/* ---- executors and invocations ------------------------------------------ */

void
rt_executor_init(RtExecutor *executor, RtRun *run, int replica)
{
    size_t n = (size_t)run->max_operands;
    size_t pairs = (size_t)ir_num_pairs(run->module);
    Arena *a = arena_new(NULL, "executor");
    *executor = (RtExecutor){.run = run, .arena = a, .replica = replica};
    executor->batches = NEW_ARRAY(a, IrBatchSizes, pairs);
    executor->dims = (int64_t *)executor->batches;
    executor->sent_dims = NEW_ARRAY(a, int64_t, pairs * BATCH_WORDS);
    executor->fault.text = str_new(a);
    executor->lines.text = str_new(a);
    executor->args = NEW_ARRAY(a, FormatArg, n);
    executor->arg_dims = arena_array(a, n, sizeof *executor->arg_dims);
    executor->parts = NEW_ARRAY(a, RtDevicePart, n);
    executor->reduces = NEW_ARRAY(a, RtAllReducePart, n);
    if (run->options->stats)
        executor->coll_uses =
            NEW_ARRAY(a, RtCollUse, (size_t)run->collectives.len);
    if (!run->caps->is_host_visible && !run->enqueues)
        executor->copies =
            arena_alloc_on_lines(a, (size_t)run->max_copied_bytes);
}

void
rt_executor_deinit(RtExecutor *executor)
{
    status_free(executor->fault.cause);
    arena_release(executor->arena);
}

static TfdCall
new_call(RtInvocation *inv)
{
    RtExecutor *executor = inv->executor;
    return (TfdCall){.abi = TFD_ABI,
                     .replica = executor->replica,
                     .dims = executor->dims,
                     .hooks = executor->run->hooks,
                     .context = inv,
                     .resume = -1,
                     .stop = &executor->run->watchdog.stop,
                     .at = -1,
                     .threads =
                         executor->device ? executor->device->num_threads : 0};
}

void
rt_invocation_init(RtInvocation *inv, const RtFunction *fn,
                   RtExecutor *executor, char *base)
{
    assert(fn->code && executor->dims && fn->ir->kind != FUNC_PROGRAM);
    *inv = (RtInvocation){.executor = executor, .fn = fn};
    inv->call = new_call(inv);
    inv->call.base = inv->call.shared = base;
}

static char *const *
addresses(Arena *a, const RtDevicePtr *ptrs, int n)
{
    char **all = NEW_ARRAY(a, char *, (size_t)n);
    for (int i = 0; i < n; i++)
        all[i] = rt_ptr_address(ptrs[i]);
    return all;
}

void
rt_program_invocation_init(RtInvocation *inv, const RtFunction *fn,
                           RtExecutor *executor, const RtDevicePtr *in,
                           const RtDevicePtr *out, const int64_t *dims)
{
    Arena *a = executor->run->arena;
    assert(fn->code && dims && fn->ir->kind == FUNC_PROGRAM);
    *inv = (RtInvocation){.executor = executor,
                          .fn = fn,
                          .in = in,
                          .out = out,
                          .shared_out = out};
    inv->call = new_call(inv);
    inv->call.base = rt_ptr_address(executor->base);
    inv->call.shared = rt_ptr_address(executor->shared);
    inv->call.in = addresses(a, in, fn->num_in);
    inv->call.out = addresses(a, out, fn->num_out);
    inv->call.dims = dims;
}

void
rt_invocation_moved(RtInvocation *inv, int i)
{
    char **all = (char **)(uintptr_t)inv->call.in; /* of addresses() */
    all[i] = rt_ptr_address(inv->in[i]);
}

/* ---- values ------------------------------------------------------------- */

char *
rt_host_value(const RtInvocation *inv, const RtValue *v)
{
    assert(inv->fn->ir->kind != FUNC_PROGRAM);
    switch (v->place.space) {
    case SPACE_IN:
        return inv->call.in[v->place.offset];
    case SPACE_OUT:
        return inv->call.out[v->place.offset];
    case SPACE_ARENA:
    case SPACE_FRAME:
        return inv->call.base + v->place.offset;
    case SPACE_ROW:
    case SPACE_NONE:
        break;
    }
    UNREACHABLE("a value that main does not have");
}

RtDevicePtr
rt_device_value(const RtInvocation *inv, const RtValue *v)
{
    const RtExecutor *executor = inv->executor;
    assert(inv->fn->ir->kind == FUNC_PROGRAM);
    switch (v->place.space) {
    case SPACE_IN:
        return inv->in[v->place.offset];
    case SPACE_OUT:
        return (v->shared ? inv->shared_out : inv->out)[v->place.offset];
    case SPACE_ARENA:
        return rt_ptr_add(v->shared ? executor->shared : executor->base,
                          (size_t)v->place.offset);
    case SPACE_FRAME:
    case SPACE_ROW:
    case SPACE_NONE:
        break;
    }
    UNREACHABLE("a value that a program does not have");
}

RtDevicePtr
rt_row(const RtExecutor *replica, const RtValue *v)
{
    assert(v->place.space == SPACE_ROW);
    return rt_ptr_add(v->shared ? replica->shared : replica->base,
                      (size_t)v->place.offset);
}

static bool
is_on_device(const RtInvocation *inv)
{
    return inv->fn->ir->kind == FUNC_PROGRAM;
}

const char *
rt_read_value(RtInvocation *inv, const RtValue *v, char **scratch)
{
    if (!is_on_device(inv))
        return rt_host_value(inv, v);
    RtDevice *d = inv->executor->device;
    RtDevicePtr at = rt_device_value(inv, v);
    size_t n = rt_value_bytes(v, inv->executor->dims);
    char *copy = *scratch;
    if (inv->executor->deferred) {
        const char *from = inv->executor->deferred;
        inv->executor->deferred += on_lines(n);
        return from;
    }
    if (d->caps->is_host_visible)
        return rt_ptr_host(at);
    d->ops->program->copy_out(d, copy, at, n);
    *scratch = copy + ir_align_to_line((int64_t)n);
    return copy;
}

void
rt_write_value(RtInvocation *inv, const RtValue *v, const void *from)
{
    RtDevice *d = inv->executor->device;
    size_t n = rt_value_bytes(v, inv->executor->dims);
    if (is_on_device(inv))
        d->ops->program->copy_in(d, rt_device_value(inv, v), from, n);
    else
        memcpy(rt_host_value(inv, v), from, n);
}
