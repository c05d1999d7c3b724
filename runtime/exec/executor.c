/*
 * executor.c - executors of compiled functions, and their faults
 */
#include "runtime/exec/executor.h"

#include <assert.h>
#include <stdarg.h>
#include "ir/analysis/hooks.h"
#include "ir/base/message.h"
#include "runtime/exec/function.h"
#include "runtime/exec/run_state.h"

enum { ALIGN = 64 };

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
        fault->op = h->op;
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
        fault->op = h->op;
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
    executor->fault.text = str_new(a);
    executor->lines.text = str_new(a);
    executor->args = NEW_ARRAY(a, FormatArg, n);
    executor->arg_dims = arena_array(a, n, sizeof *executor->arg_dims);
    executor->reduces = NEW_ARRAY(a, RtAllReducePart, n);
}

void
rt_executor_deinit(RtExecutor *executor)
{
    status_free(executor->fault.cause);
    arena_release(executor->arena);
}

void *
rt_alloc_aligned(Arena *a, int64_t bytes)
{
    uintptr_t at = (uintptr_t)arena_alloc(a, (size_t)bytes + ALIGN);
    return (void *)((at + ALIGN - 1) / ALIGN * ALIGN);
}

void
rt_invocation_init(RtInvocation *inv, const RtFunction *fn,
                   RtExecutor *executor, char *base, char *const *in,
                   char *const *out)
{
    assert(fn->code && executor->dims);
    inv->executor = executor;
    inv->fn = fn;
    inv->call = (TfdCall){.abi = TFD_ABI,
                          .replica = executor->replica,
                          .base = base,
                          .shared = executor->shared,
                          .in = in,
                          .out = out,
                          .dims = executor->dims,
                          .hooks = executor->run->hooks,
                          .context = inv,
                          .resume = -1,
                          .stop = &executor->run->watchdog.stop,
                          .at = -1};
}

char *
rt_value_pointer(const RtInvocation *inv, const RtValue *v)
{
    switch (v->place.space) {
    case SPACE_IN:
        return inv->call.in[v->place.offset];
    case SPACE_OUT:
        return inv->call.out[v->place.offset];
    case SPACE_ARENA:
    case SPACE_FRAME:
        return (v->shared ? inv->call.shared : inv->call.base) +
               v->place.offset;
    case SPACE_ROW:
    case SPACE_NONE:
        break;
    }
    UNREACHABLE("a value that an invocation does not have");
}

char *
rt_row_pointer(const RtExecutor *replica, const RtValue *v)
{
    assert(v->place.space == SPACE_ROW);
    return (v->shared ? replica->shared : replica->base) + v->place.offset;
}
