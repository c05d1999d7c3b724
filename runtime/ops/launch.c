/*
 * launch.c - main hands a program to the devices
 *
 * Per-replica and mirrored values of main are rows: places at one offset of
 * every arena, which programs read and write through pointers; values that the
 * replicas of a device share are in the arena of the first.  Host values are
 * copied to a place on each device that the program does not use, and so are
 * the sizes of batches, where programs cannot read the host's: a launch has the
 * same arguments each time.  Nothing is copied that is there already.  A device
 * whose shares of the batches are full gets the variant of the program that has
 * constants for their sizes.
 *
 * Everything is enqueued, then the next batch is copied while the programs run,
 * and then main waits for them.
 */
#include "runtime/ops/launch.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#include "ir/analysis/footprint.h"
#include "ir/analysis/hooks.h"
#include "ir/base/clock.h"
#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "runtime/exec/end.h"
#include "runtime/exec/output.h"
#include "runtime/exec/run_state.h"
#include "runtime/ops/batch.h"
#include "runtime/ops/host_ops.h"
#include "runtime/ps/ps.h"

/* A word of dims, and its value when batches are full. */
typedef struct Full {
    int word;
    int64_t bound;
} Full;

/* What the place of a host operand has on all devices; no bytes: not known. */
typedef struct Copied {
    char *bytes;
    size_t n, capacity;
    bool changes; /* with the next launch */
} Copied;

enum {
    MOST_COMPARED = 4 << 10, /* bytes of an operand: more are copied */
    MOST_SIZES = 4           /* sizes of batches that are told apart */
};

/* The sizes that a device's launches had, each number by number. */
typedef struct Sizes {
    int64_t *words; /* of each replica, each batch that the program names */
    int num;
} Sizes;

struct RtLaunch {
    const RtHostOp *h;
    RtFunction *program, *full; /* full: NULL if there is none */
    VEC(Full) symbols;          /* that the program names */
    VEC(int) batches;           /* and all batches whose sizes it may read */
    Sizes *sizes;               /* for each device */
    int64_t *staged;            /* for each operand: where a host value goes */
    Copied *copied;             /* and what is there */
    RtInvocation *plain;        /* for each replica of this process */
    RtInvocation *filled;
    RtProgramLaunch *programs; /* for each device, with the event of its end */
    RtEvent *ends;
};

/* ---- loading ----------------------------------------------------------- */

typedef struct Collect {
    RtRun *run;
    RtLaunch *launch;
} Collect;

static void
note_batch(Collect *c, int32_t symbol)
{
    int batch = ir_symbol_batch(c->run->module, symbol);
    for (int i = 0; i < c->launch->batches.len; i++)
        if (c->launch->batches.data[i] == batch)
            return;
    VEC_PUSH(c->run->arena, c->launch->batches, batch);
}

static void
note_symbol(Collect *c, int32_t symbol)
{
    if (symbol < 0)
        return;
    note_batch(c, symbol);
    Full full = {ir_symbol_word(c->run->module, symbol),
                 c->run->module->symbols.data[symbol].bound};
    for (int i = 0; i < c->launch->symbols.len; i++) {
        if (c->launch->symbols.data[i].word == full.word)
            return;
    }
    VEC_PUSH(c->run->arena, c->launch->symbols, full);
}

static void
note_batches(Collect *c, int n, const Dim *dims)
{
    for (int i = 0; i < n; i++)
        if (dims[i].sym >= 0)
            note_batch(c, dims[i].sym);
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
    if (ir_attr_index(op->kind, A_dims) >= 0) {
        int n;
        const Dim *dims = ir_dims(op, A_dims, &n);
        if (op->kind == OP_row_start)
            note_batches(c, n, dims);
        else
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
    const char *pushes = ir_text(op, A_worker);
    if (run->ps && pushes)
        return rt_load_function(run, pushes, FUNC_PROGRAM, &l->program);
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

/* A place for the sizes of batches in each replica's arena. */
static Status
reserve_dims(RtRun *run)
{
    if (run->caps->is_host_visible || run->enqueues)
        return OK;
    run->dims_offset = ir_align_to_line(run->arena_bytes);
    run->dims_bytes = ir_num_pairs(run->module) * sizeof(IrBatchSizes);
    return rt_reserve_arena(run, run->dims_offset + (int64_t)run->dims_bytes);
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
    return reserve_dims(run);
}

/* ---- pointers ---------------------------------------------------------- */

static RtDevicePtr
dims_place(const RtRun *run, const RtExecutor *executor)
{
    return rt_ptr_add(executor->base, (size_t)run->dims_offset);
}

/* What programs read as the sizes of batches. */
static const int64_t *
dims_of(const RtRun *run, const RtExecutor *executor)
{
    if (run->caps->is_host_visible || run->enqueues)
        return executor->dims;
    return (const int64_t *)(void *)rt_ptr_address(dims_place(run, executor));
}

static RtDevicePtr
operand_place(const RtLaunch *l, const RtExecutor *executor, int i)
{
    const RtValue *v = &l->h->in[i];
    if (v->place.space == SPACE_ROW)
        return rt_row(executor, v);
    return rt_ptr_add(executor->shared, (size_t)l->staged[i]);
}

/* Where a replica's programs find operand i. */
static RtDevicePtr
param_place(const RtRun *run, const RtLaunch *l, int local, int i)
{
    RtDevicePtr place;
    if (rt_part_place(run, l->h->op->operands[i], local, &place))
        return place;
    return operand_place(l, &run->locals[local], i);
}

static void
init_copied(RtRun *run, RtLaunch *l)
{
    const IrOp *op = l->h->op;
    int64_t bytes;
    l->copied = NEW_ARRAY(run->arena, Copied, (size_t)op->num_operands);
    for (int i = 0; i < op->num_operands; i++)
        if (!run->caps->is_host_visible &&
            l->h->in[i].place.space == SPACE_FRAME &&
            ir_type_bytes(run->module, &op->operands[i]->type, &bytes) &&
            bytes <= MOST_COMPARED)
            l->copied[i] =
                (Copied){.bytes = arena_alloc(run->arena, (size_t)bytes),
                         .capacity = (size_t)bytes};
}

static void
init_sizes(RtRun *run, RtLaunch *l)
{
    size_t num = (size_t)run->replicas_each * (size_t)l->batches.len;
    l->sizes = NEW_ARRAY(run->arena, Sizes, (size_t)run->num_devices);
    for (int i = 0; run->enqueues && i < run->num_devices; i++)
        l->sizes[i].words =
            NEW_ARRAY(run->arena, int64_t, num * BATCH_WORDS * MOST_SIZES);
}

/* Tells the parameters that are components of a batch in place where these are.
 */
static void
follow_parts(RtRun *run, RtLaunch *l, int local)
{
    const IrOp *op = l->h->op;
    for (int i = 0; i < op->num_operands; i++) {
        rt_follow_part(run, op->operands[i], local, &l->plain[local], i);
        if (l->full)
            rt_follow_part(run, op->operands[i], local, &l->filled[local], i);
    }
}

static void
bind(RtRun *run, RtLaunch *l, int local)
{
    const IrOp *op = l->h->op;
    RtExecutor *executor = &run->locals[local];
    const int64_t *dims = dims_of(run, executor);
    RtDevicePtr *in =
        NEW_ARRAY(run->arena, RtDevicePtr, (size_t)op->num_operands);
    RtDevicePtr *out =
        NEW_ARRAY(run->arena, RtDevicePtr, (size_t)op->num_results);
    for (int i = 0; i < op->num_operands; i++)
        in[i] = param_place(run, l, local, i);
    for (int i = 0; i < op->num_results; i++)
        out[i] = rt_row(executor, &l->h->out[i]);
    rt_program_invocation_init(&l->plain[local], l->program, executor, in, out,
                               dims);
    if (l->full)
        rt_program_invocation_init(&l->filled[local], l->full, executor, in,
                                   out, dims);
    follow_parts(run, l, local);
}

/* The calls of a device's replicas, each to the next. */
static void
link_calls(const RtRun *run, RtInvocation *calls)
{
    for (int i = 0; i + 1 < run->num_local; i++)
        if (run->locals[i].device == run->locals[i + 1].device) {
            calls[i].call.next = &calls[i + 1].call;
            calls[i + 1].shared_out = calls[i].shared_out;
        }
}

void
rt_bind_launches(RtRun *run)
{
    size_t n = (size_t)run->num_local;
    for (int i = 0; i < run->launches.len; i++) {
        RtLaunch *l = run->launches.data[i];
        l->plain = NEW_ARRAY(run->arena, RtInvocation, n);
        l->filled = NEW_ARRAY(run->arena, RtInvocation, n);
        l->programs =
            NEW_ARRAY(run->arena, RtProgramLaunch, (size_t)run->num_devices);
        l->ends = NEW_ARRAY(run->arena, RtEvent, (size_t)run->num_devices);
        init_copied(run, l);
        init_sizes(run, l);
        for (int k = 0; k < run->num_local; k++)
            bind(run, l, k);
        link_calls(run, l->plain);
        if (l->full)
            link_calls(run, l->filled);
    }
}

/* ---- execution --------------------------------------------------------- */

static bool
is_copied(const Copied *k, const char *bytes, size_t n)
{
    return n && k->n == n && memcmp(k->bytes, bytes, n) == 0;
}

/* Which host operands have to be copied.  Other launches may use the places of
 * this one's operands, and so may rows, but only those of other loops. */
static void
compare_operands(RtInvocation *inv, RtLaunch *l)
{
    RtRun *run = inv->executor->run;
    bool again = run->last_launch == l;
    run->last_launch = l;
    for (int i = 0; i < l->h->op->num_operands; i++) {
        const RtValue *v = &l->h->in[i];
        Copied *k = &l->copied[i];
        if (v->place.space != SPACE_FRAME)
            continue;
        const char *bytes = rt_host_value(inv, v);
        size_t n = rt_value_bytes(v, inv->executor->dims);
        k->changes = !again || !is_copied(k, bytes, n);
        k->n = n <= k->capacity ? n : 0;
        if (k->changes && k->n)
            memcpy(k->bytes, bytes, n);
    }
}

/* To the arena that a device's replicas share. */
static void
copy_operands(RtInvocation *inv, const RtLaunch *l, const RtExecutor *first)
{
    const RtDeviceOps *ops = first->device->ops;
    for (int i = 0; i < l->h->op->num_operands; i++) {
        const RtValue *v = &l->h->in[i];
        if (v->place.space == SPACE_FRAME && l->copied[i].changes)
            ops->copy_in(first->device->queues[QUEUE_COMPUTE],
                         operand_place(l, first, i), rt_host_value(inv, v),
                         rt_value_bytes(v, inv->executor->dims));
    }
}

static void
copy_dims(const RtRun *run, RtExecutor *executor)
{
    RtDevice *d = executor->device;
    if (!run->dims_bytes ||
        (executor->has_sent_dims &&
         memcmp(executor->sent_dims, executor->dims, run->dims_bytes) == 0))
        return;
    memcpy(executor->sent_dims, executor->dims, run->dims_bytes);
    executor->has_sent_dims = true;
    d->ops->copy_in(d->queues[QUEUE_COMPUTE], dims_place(run, executor),
                    executor->sent_dims, run->dims_bytes);
}

/* Compares the sizes of a device's batches with words, or writes them there. */
static bool
match_sizes(const RtRun *run, const RtLaunch *l, const RtExecutor *first,
            int64_t *words, bool writes)
{
    size_t n = BATCH_WORDS * sizeof *words;
    bool match = true;
    for (int r = 0; r < run->replicas_each; r++)
        for (int i = 0; i < l->batches.len; i++, words += BATCH_WORDS) {
            const int64_t *now =
                first[r].dims + l->batches.data[i] * BATCH_WORDS;
            match = match && memcmp(words, now, n) == 0;
            if (writes)
                memcpy(words, now, n);
        }
    return match;
}

/* For RtProgramLaunch: 0 for sizes beyond the first MOST_SIZES. */
static int
number_of_sizes(const RtRun *run, RtLaunch *l, int device)
{
    const RtExecutor *first = &run->locals[device * run->replicas_each];
    int each = run->replicas_each * l->batches.len * BATCH_WORDS;
    Sizes *s = &l->sizes[device];
    if (!run->enqueues)
        return 0;
    for (int i = 0; i < s->num; i++)
        if (match_sizes(run, l, first, s->words + i * each, false))
            return i + 1;
    if (s->num == MOST_SIZES)
        return 0;
    match_sizes(run, l, first, s->words + s->num * each, true);
    return ++s->num;
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

/* The calls of the variant that the replicas of a device run: that for full
 * batches if all of them have full ones. */
static RtInvocation *
choose_variant(const RtRun *run, const RtLaunch *l, const RtExecutor *first)
{
    bool full = l->full != NULL;
    for (int i = 0; full && i < run->replicas_each; i++)
        full = has_full_batches(l, first[i].dims);
    return (full ? l->filled : l->plain) + (first - run->locals);
}

static void
launch_on(RtInvocation *main, RtLaunch *l, int device)
{
    RtRun *run = main->executor->run;
    RtDevice *d = run->devices[device];
    int each = run->replicas_each;
    RtExecutor *first = &run->locals[device * each];
    RtInvocation *inv = choose_variant(run, l, first);
    copy_operands(main, l, first);
    for (int i = 0; i < each; i++) {
        copy_dims(run, &first[i]);
        atomic_store_explicit(&inv[i].call.at, -1, memory_order_relaxed);
        atomic_store_explicit(&first[i].running, &inv[i], memory_order_relaxed);
        first[i].started = first[i].met = 0;
    }
    l->programs[device] =
        (RtProgramLaunch){.program = inv->fn->number,
                          .call = &inv->call,
                          .sizes = number_of_sizes(run, l, device)};
    d->ops->launch_program(d->queues[QUEUE_COMPUTE], &l->programs[device]);
    run->stats.program_runs[inv->fn->number]++;
    l->ends[device] = d->ops->record(d->queues[QUEUE_COMPUTE]);
}

/* A program may wait in a collective for a device that has failed, or be in a
 * loop that ends with what this one would have computed. */
static void
wait_for_end(RtRun *run, RtEvent e)
{
    while (e.queue && !e.queue->device->ops->wait(e))
        if (rt_has_lost_device(run))
            rt_stop(run);
}

static bool
has_fault(const RtRun *run, int device)
{
    const RtExecutor *first = &run->locals[device * run->replicas_each];
    for (int i = 0; i < run->replicas_each; i++)
        if (first[i].fault.op)
            return true;
    return false;
}

/* How the program ended on a device: by what it left to the host, which came
 * before its own end, or by a fault of what only watches it. */
static int32_t
status_of(const RtRun *run, const RtLaunch *l, int device)
{
    RtDevice *d = run->devices[device];
    int32_t status = l->programs[device].status, looked = EXEC_OK;
    if (run->enqueues && !rt_device_has_failed(d))
        looked = d->ops->program->look(d);
    if (looked || status)
        return looked ? looked : status;
    return has_fault(run, device) ? EXEC_FAULT : EXEC_OK;
}

/* Takes back a line or fault after more collectives than all replicas came to:
 * programs that are ahead of their devices do not stop at a fault. */
static void
drop_after(RtExecutor *replica, int met)
{
    RtLines *l = &replica->lines;
    while (l->lines.len && l->lines.data[l->lines.len - 1].met > met)
        l->lines.len--;
    l->text.len = l->lines.len ? l->lines.data[l->lines.len - 1].end : 0;
    if (replica->fault.met > met)
        replica->fault.op = NULL;
}

/* Whoever fails meets nobody from then on. */
static void
drop_what_never_came(RtRun *run)
{
    int met = INT_MAX;
    for (int i = 0; i < run->num_local; i++) {
        const RtFault *f = &run->locals[i].fault;
        if (f->op && f->started < met)
            met = f->started;
    }
    for (int i = 0; i < run->num_local; i++)
        drop_after(&run->locals[i], met);
}

/* Waits for all replicas, whatever the status of each; a fault takes precedence
 * over having been stopped.  What they print and assert is looked at when all
 * have ended, so that the fault of one changes nothing of the others. */
static int32_t
wait_for_all(RtRun *run, const RtLaunch *l)
{
    int32_t end = EXEC_OK;
    for (int i = 0; i < run->num_devices; i++)
        wait_for_end(run, l->ends[i]);
    for (int i = 0; i < run->num_devices; i++) {
        int32_t status = status_of(run, l, i);
        if (status == EXEC_FAULT || (status && end == EXEC_OK))
            end = status;
    }
    if (run->enqueues && end == EXEC_FAULT)
        drop_what_never_came(run);
    return end;
}

/* The failure of an exchange with other processes is of less interest than that
 * of the program. */
static int32_t
end_of_launch(RtInvocation *inv, const RtHostOp *h, int32_t end, Status st)
{
    if (st && end == EXEC_OK)
        return rt_fault_status(inv, h, st);
    status_free(st);
    return end;
}

static int32_t
launch(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    RtLaunch *l = h->launch;
    assert(inv->executor == &run->main && l->plain);
    double begin = clock_seconds();
    compare_operands(inv, l);
    for (int i = 0; i < run->num_devices; i++)
        launch_on(inv, l, i);
    rt_copy_ahead(run);
    Status st = rt_agree_ahead(run);
    int32_t end = wait_for_all(run, l);
    run->stats.devices += clock_seconds() - begin;
    run->stats.launches++;
    if (rt_has_lost_device(run)) {
        status_free(st);
        return end;
    }
    rt_launch_has_ended(run, end != EXEC_OK);
    Status printed = rt_print_lines(run, l->program->prints_each);
    if (st)
        status_free(printed);
    else
        st = printed;
    return end_of_launch(inv, h, end, st);
}

int32_t
rt_op_launch(RtInvocation *inv, const RtHostOp *h)
{
    return rt_ps_coordinates(inv->executor->run) ? rt_ps_launch(inv, h, launch)
                                                 : launch(inv, h);
}
