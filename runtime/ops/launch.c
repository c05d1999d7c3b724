/*
 * launch.c - main hands a program to the devices
 *
 * Per-replica and mirrored values of main are rows: places at one offset of
 * every arena, which programs read and write through pointers; values that the
 * replicas of a device share are in the arena of the first.  Host values are
 * copied to a place on each device that the program does not use.  A device
 * whose shares of the batches are full gets the variant of the program that has
 * constants for their sizes.
 */
#include "runtime/ops/launch.h"

#include <assert.h>
#include <string.h>
#include "ir/analysis/footprint.h"
#include "ir/analysis/hooks.h"
#include "ir/ir.h"
#include "runtime/exec/output.h"
#include "runtime/exec/run_state.h"
#include "runtime/hal/cpu/wait.h"
#include "runtime/ops/host_ops.h"

/* A word of dims, and its value when batches are full. */
typedef struct Full {
    int word;
    int64_t bound;
} Full;

struct RtLaunch {
    const RtHostOp *h;
    RtFunction *program, *full; /* full: NULL if there is none */
    VEC(Full) symbols;          /* that the program names */
    int64_t *staged;            /* for each operand: where a host value goes */
    RtInvocation *plain;        /* for each replica */
    RtInvocation *filled;
};

/* ---- loading ----------------------------------------------------------- */

typedef struct Collect {
    RtRun *run;
    RtLaunch *launch;
} Collect;

static void
note_symbol(Collect *c, int32_t symbol)
{
    if (symbol < 0)
        return;
    Full full = {ir_symbol_word(c->run->module, symbol),
                 c->run->module->symbols.data[symbol].bound};
    for (int i = 0; i < c->launch->symbols.len; i++) {
        if (c->launch->symbols.data[i].word == full.word)
            return;
    }
    VEC_PUSH(c->run->arena, c->launch->symbols, full);
}

static void
note_dims(Collect *c, int n, const Dim *dims)
{
    for (int i = 0; i < n; i++)
        note_symbol(c, dims[i].sym);
}

static void
note_values(Collect *c, int n, IrValue *const *values)
{
    for (int i = 0; i < n; i++)
        note_dims(c, values[i]->type.rank, values[i]->type.dims);
}

static void
note_op(IrOp *op, void *data)
{
    Collect *c = data;
    note_values(c, op->num_results, op->results);
    for (int r = 0; r < op->num_regions; r++)
        note_values(c, op->regions[r]->args.len, op->regions[r]->args.data);
    if (ir_attr_index(op->kind, A_dims) >= 0 && op->kind != OP_row_start) {
        int n;
        const Dim *dims = ir_dims(op, A_dims, &n);
        note_dims(c, n, dims);
    }
}

static void
collect_symbols(RtRun *run, RtLaunch *l)
{
    Collect c = {run, l};
    const IrBlock *body = l->program->ir->body;
    note_values(&c, body->args.len, body->args.data);
    ir_walk(l->program->ir->body, note_op, &c);
}

static Status
load_programs(RtRun *run, RtLaunch *l)
{
    const IrOp *op = l->h->op;
    const char *program = ir_text(op, A_program), *full = ir_text(op, A_full);
    TRY(rt_load_function(run, program, FUNC_PROGRAM, &l->program));
    if (!full)
        return OK;
    TRY(rt_load_function(run, full, FUNC_PROGRAM, &l->full));
    if (!l->full->ir->variant_of ||
        strcmp(l->full->ir->variant_of, program) != 0 ||
        l->full->starts.len != l->program->starts.len)
        return plan_refuse(run->plan, "@%s is no variant of @%s", full,
                           program);
    return OK;
}

static bool
fits(const RtLaunch *l, const RtFunction *fn)
{
    const IrOp *op = l->h->op;
    return fn->num_in == op->num_operands && fn->num_out == op->num_results;
}

Status
rt_prepare_launch(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    RtLaunch *l = NEW(run->arena, RtLaunch);
    l->h = h;
    h->launch = l;
    TRY(load_programs(run, l));
    if (!fits(l, l->program) || (l->full && !fits(l, l->full)))
        return plan_refuse(run->plan, "@%s does not take what @%s gives it",
                           l->program->ir->name, fn->ir->name);
    for (int i = 0; i < h->op->num_results; i++) {
        if (h->out[i].place.space != SPACE_ROW)
            return plan_refuse(run->plan,
                               "a result of @%s is not on the devices",
                               l->program->ir->name);
    }
    collect_symbols(run, l);
    VEC_PUSH(run->arena, run->launches, l);
    return OK;
}

/* Launches are loaded in the order of the text. */
Status
rt_reserve_staging(RtRun *run)
{
    IrLaunchFootprints rooms = ir_launch_footprints(run->arena, run->module);
    for (int i = 0; i < run->launches.len; i++) {
        RtLaunch *l = run->launches.data[i];
        size_t n = (size_t)l->h->op->num_operands;
        l->staged = NEW_ARRAY(run->arena, int64_t, n);
        TRY(rt_reserve_arena(
            run, ir_launch_stage_operands(&rooms.data[i], l->staged)));
    }
    return OK;
}

/* ---- pointers ---------------------------------------------------------- */

static void
bind(RtRun *run, RtLaunch *l, int replica)
{
    const IrOp *op = l->h->op;
    RtExecutor *executor = &run->replicas[replica];
    char **in = NEW_ARRAY(run->arena, char *, (size_t)op->num_operands);
    char **out = NEW_ARRAY(run->arena, char *, (size_t)op->num_results);
    for (int i = 0; i < op->num_operands; i++) {
        const RtValue *v = &l->h->in[i];
        in[i] = v->place.space == SPACE_ROW ? rt_row_pointer(executor, v)
                                            : executor->shared + l->staged[i];
    }
    for (int i = 0; i < op->num_results; i++)
        out[i] = rt_row_pointer(executor, &l->h->out[i]);
    rt_invocation_init(&l->plain[replica], l->program, executor, executor->base,
                       in, out);
    if (l->full)
        rt_invocation_init(&l->filled[replica], l->full, executor,
                           executor->base, in, out);
}

/* The calls of a device's replicas, each to the next. */
static void
link_calls(const RtRun *run, RtInvocation *calls)
{
    for (int r = 0; r + 1 < run->num_replicas; r++)
        if (run->replicas[r].device == run->replicas[r + 1].device)
            calls[r].call.next = &calls[r + 1].call;
}

void
rt_bind_launches(RtRun *run)
{
    size_t n = (size_t)run->num_replicas;
    for (int i = 0; i < run->launches.len; i++) {
        RtLaunch *l = run->launches.data[i];
        l->plain = NEW_ARRAY(run->arena, RtInvocation, n);
        l->filled = NEW_ARRAY(run->arena, RtInvocation, n);
        for (int r = 0; r < run->num_replicas; r++)
            bind(run, l, r);
        link_calls(run, l->plain);
        if (l->full)
            link_calls(run, l->filled);
    }
}

/* ---- execution --------------------------------------------------------- */

/* Copies to the arena that a device's replicas share. */
static void
copy_operands(RtInvocation *inv, const RtLaunch *l, RtExecutor *first)
{
    RtDevice *d = first->device;
    for (int i = 0; i < l->h->op->num_operands; i++) {
        const RtValue *v = &l->h->in[i];
        if (v->place.space == SPACE_FRAME)
            d->ops->copy_in(d, first->shared + l->staged[i],
                            rt_value_pointer(inv, v),
                            rt_value_bytes(v, inv->executor->dims));
    }
}

static bool
has_full_batches(const RtLaunch *l, const int64_t *dims)
{
    for (int i = 0; i < l->symbols.len; i++) {
        if (dims[l->symbols.data[i].word] != l->symbols.data[i].bound)
            return false;
    }
    return true;
}

/* The replicas of a device run the same variant: that for full batches if all
 * of them have full ones. */
static void
launch_on(RtLaunch *l, RtExecutor *first, int num_replicas)
{
    bool full = l->full != NULL;
    for (int i = 0; full && i < num_replicas; i++)
        full = has_full_batches(l, first[i].dims);
    RtInvocation *inv = (full ? l->filled : l->plain) + first->replica;
    for (int i = 0; i < num_replicas; i++) {
        atomic_store_explicit(&inv[i].call.at, -1, memory_order_relaxed);
        atomic_store_explicit(&first[i].running, &inv[i], memory_order_relaxed);
    }
    first->device->ops->launch(first->device, inv->fn->code, &inv->call);
}

/* Waits for all replicas, whatever the status of each; a fault takes precedence
 * over having been stopped. */
static int32_t
wait_for_all(RtRun *run)
{
    int32_t end = EXEC_OK, status = EXEC_OK;
    for (int i = 0; i < run->num_devices; i++) {
        RtDevice *d = run->devices[i];
        while (!d->ops->wait(d, &status))
            ;
        if (status == EXEC_FAULT || (status && end == EXEC_OK))
            end = status;
    }
    return end;
}

int32_t
rt_op_launch(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    RtLaunch *l = h->launch;
    assert(inv->executor == &run->main && l->plain);
    double begin = rt_seconds();
    int each = run->num_replicas / run->num_devices;
    for (int r = 0; r < run->num_replicas; r += each)
        copy_operands(inv, l, &run->replicas[r]);
    for (int r = 0; r < run->num_replicas; r += each)
        launch_on(l, &run->replicas[r], each);
    int32_t end = wait_for_all(run);
    run->stats.devices += rt_seconds() - begin;
    run->stats.launches++;
    rt_print_lines(run);
    return end;
}
