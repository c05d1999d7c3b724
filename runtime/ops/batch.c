/*
 * batch.c - copies batches to the devices
 *
 * In memory that is the host's, a batch is copied to its rows when main takes
 * the step.  Other devices have a slot beside the rows: while programs compute
 * with a batch, the next one is copied to the slot, and then from there to the
 * rows, where programs expect it.  Copies to the slot are on their own queue
 * and wait until the slot was read; programs wait until it was written.
 */
#include "runtime/ops/batch.h"

#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "runtime/exec/run_state.h"

/* ---- slots --------------------------------------------------------------- */

static int
num_components(const RtIterBinding *it)
{
    return it->next->op->num_results;
}

static Status
reserve_slots_of(RtRun *run, RtIterBinding *it)
{
    int64_t end = run->arena_bytes, bytes;
    it->slots = NEW_ARRAY(run->arena, int64_t, (size_t)num_components(it));
    for (int i = 0; i < num_components(it); i++) {
        const IrType *t = &it->next->op->results[i]->type;
        it->slots[i] = rt_align(end);
        if (!ir_type_bytes(run->module, t, &bytes) ||
            __builtin_add_overflow(it->slots[i], bytes, &end))
            end = INT64_MAX; /* which is refused */
    }
    return rt_reserve_arena(run, end);
}

Status
rt_reserve_slots(RtRun *run)
{
    size_t n = (size_t)run->num_devices;
    for (int i = 0; run->iterators && i < run->module->iters.len; i++) {
        RtIterBinding *it = &run->iterators[i];
        it->copied = NEW_ARRAY(run->arena, RtEvent, n);
        it->ahead = NEW_ARRAY(run->arena, RtEvent, n);
        it->taken = NEW_ARRAY(run->arena, RtEvent, n);
        if (it->next && !run->caps->is_host_visible)
            TRY(reserve_slots_of(run, it));
    }
    return OK;
}

/* The bytes of component i of a batch with so many rows on a replica. */
static size_t
component_bytes(const RtRun *run, const RtHostOp *h, int i, int64_t rows)
{
    RtValue v = h->out[i];
    int32_t n = ir_next_rows(h->op);
    int word = n < 0 ? -1 : ir_symbol_word(run->module, n);
    for (int k = 0; k < v.rank; k++)
        if (word >= 0 && v.dims[k].word == word)
            v.dims[k] = (RtDim){v.dims[k].c + v.dims[k].k * rows, 0, -1};
    return rt_value_bytes(&v, run->main.dims);
}

/* ---- copies ------------------------------------------------------------- */

static void
wait_for(const RtRun *run, const RtEvent *events)
{
    for (int i = 0; events && i < run->num_devices; i++)
        rt_event_wait(events[i]);
}

void
rt_end_copy(const RtRun *run, const RtIterBinding *it)
{
    wait_for(run, it->copied);
}

void
rt_end_copies(const RtRun *run, RtIterBinding *it)
{
    wait_for(run, it->copied);
    wait_for(run, it->ahead);
    it->is_ahead = false;
}

static RtDevicePtr
slot_place(const RtIterBinding *it, const RtExecutor *replica, int i)
{
    return rt_ptr_add(replica->base, (size_t)it->slots[i]);
}

/* The current step's, or the next one's. */
static void
copy_to_slot(const RtRun *run, const RtIterBinding *it,
             const RtExecutor *replica, bool next)
{
    int r = replica->replica;
    RtDevice *d = replica->device;
    int64_t rows =
        next ? rt_iter_next_rows(it->iter, r) : rt_iter_rows(it->iter, r);
    for (int i = 0; i < num_components(it); i++)
        d->ops->copy_in(d->queues[QUEUE_COPY], slot_place(it, replica, i),
                        next ? rt_iter_next_data(it->iter, r, i)
                             : rt_iter_data(it->iter, r, i),
                        component_bytes(run, it->next, i, rows));
}

static void
copy_to_slots(const RtRun *run, const RtIterBinding *it, bool next,
              RtEvent *copied)
{
    int each = run->replicas_each;
    for (int i = 0; i < run->num_devices; i++) {
        RtDevice *d = run->devices[i];
        RtQueue *q = d->queues[QUEUE_COPY];
        d->ops->wait_event(q, it->taken[i]);
        for (int k = 0; k < each; k++)
            copy_to_slot(run, it, &run->locals[i * each + k], next);
        copied[i] = d->ops->record(q);
    }
}

static void
copy_from_slot(const RtIterBinding *it, const RtHostOp *h, RtQueue *q,
               const RtExecutor *replica)
{
    for (int i = 0; i < num_components(it); i++)
        q->device->ops->copy(q, rt_row(replica, &h->out[i]),
                             slot_place(it, replica, i),
                             rt_value_bytes(&h->out[i], replica->dims));
}

static void
copy_from_slots(const RtRun *run, const RtIterBinding *it, const RtHostOp *h)
{
    int each = run->replicas_each;
    for (int i = 0; i < run->num_devices; i++) {
        RtDevice *d = run->devices[i];
        RtQueue *q = d->queues[QUEUE_COMPUTE];
        d->ops->wait_event(q, it->copied[i]);
        for (int k = 0; k < each; k++)
            copy_from_slot(it, h, q, &run->locals[i * each + k]);
        it->taken[i] = d->ops->record(q);
    }
}

static void
copy_to_row(const RtIterBinding *it, const RtHostOp *h, RtQueue *q,
            const RtExecutor *replica)
{
    for (int i = 0; i < num_components(it); i++)
        q->device->ops->copy_in(q, rt_row(replica, &h->out[i]),
                                rt_iter_data(it->iter, replica->replica, i),
                                rt_value_bytes(&h->out[i], replica->dims));
}

static void
copy_to_rows(const RtRun *run, const RtIterBinding *it, const RtHostOp *h)
{
    int each = run->replicas_each;
    for (int i = 0; i < run->num_devices; i++) {
        RtDevice *d = run->devices[i];
        RtQueue *q = d->queues[QUEUE_COMPUTE];
        for (int k = 0; k < each; k++)
            copy_to_row(it, h, q, &run->locals[i * each + k]);
        it->copied[i] = d->ops->record(q);
    }
}

void
rt_copy_batch(RtRun *run, const RtHostOp *h)
{
    RtIterBinding *it = h->iterator;
    if (!it->slots) {
        copy_to_rows(run, it, h);
        return;
    }
    if (it->is_ahead) {
        RtEvent *old = it->copied;
        it->copied = it->ahead;
        it->ahead = old;
        it->is_ahead = false;
    } else {
        copy_to_slots(run, it, false, it->copied);
    }
    copy_from_slots(run, it, h);
}

/* Whether there is a next step that fits the slots: iter_next refuses one that
 * does not. */
static bool
can_copy_ahead(const RtRun *run, const RtIterBinding *it)
{
    if (!it->slots || it->is_ahead ||
        !rt_iter_is_ahead(it->iter, run->devices[0]->caps->is_repeatable))
        return false;
    for (int i = 0; it->ir->rows >= 0 && i < run->num_local; i++)
        if (rt_iter_next_rows(it->iter, run->first_local + i) > it->bound)
            return false;
    return true;
}

void
rt_copy_ahead(RtRun *run)
{
    for (int i = 0; run->iterators && i < run->module->iters.len; i++) {
        RtIterBinding *it = &run->iterators[i];
        if (!can_copy_ahead(run, it))
            continue;
        copy_to_slots(run, it, true, it->ahead);
        it->is_ahead = true;
    }
}
