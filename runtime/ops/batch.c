/*
 * batch.c - batches, on the devices
 *
 * Where devices reach the host's memory, programs read a batch where the
 * iterator has it, if nobody else reads it: their parameters are pointers,
 * which each step sets.  Other components are copied to their rows when main
 * takes the step, and so are all of them where launches are recorded with their
 * arguments, in runs with servers, and in jobs, whose processes map each other's
 * arenas and nothing else.
 *
 * Other devices have slots beside the rows: while programs compute with a
 * batch, the next ones are copied to the slots, and from there to the rows in
 * their turn, where programs expect them.  Copies to a slot are on their own
 * queue and wait until the slot was read; programs wait until it was written.
 */
#include "runtime/ops/batch.h"

#include <assert.h>
#include "ir/analysis/footprint.h"
#include "ir/analysis/hooks.h"
#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "runtime/exec/run_state.h"
#include "runtime/ops/in_place.h"

/* ---- slots --------------------------------------------------------------- */

static int
num_components(const RtIterBinding *it)
{
    return it->next->op->num_results;
}

static Status
reserve_slot(RtRun *run, RtIterBinding *it, int64_t *places)
{
    int64_t end = run->arena_bytes, bytes;
    for (int i = 0; i < num_components(it); i++) {
        const IrType *t = &it->next->op->results[i]->type;
        places[i] = ir_align_to_line(end);
        if (!ir_type_bytes(run->module, t, &bytes) ||
            __builtin_add_overflow(places[i], bytes, &end))
            end = INT64_MAX; /* which is refused */
    }
    return rt_reserve_arena(run, end);
}

static Status
reserve_slots_of(RtRun *run, RtIterBinding *it)
{
    int n = num_components(it);
    it->num_slots = (int)ir_iter_fetched(it->ir);
    it->slots =
        NEW_ARRAY(run->arena, int64_t, (size_t)it->num_slots *(size_t)n);
    for (int i = 0; i < it->num_slots; i++)
        TRY(reserve_slot(run, it, it->slots + (size_t)i * (size_t)n));
    return OK;
}

Status
rt_reserve_slots(RtRun *run)
{
    for (int i = 0; run->iterators && i < run->module->iters.len; i++) {
        RtIterBinding *it = &run->iterators[i];
        if (it->next && !run->caps->is_host_visible)
            TRY(reserve_slots_of(run, it));
        size_t n = (size_t)(it->num_slots ? it->num_slots : 1);
        n *= (size_t)run->num_devices;
        it->copied = NEW_ARRAY(run->arena, RtEvent, n);
        it->taken = NEW_ARRAY(run->arena, RtEvent, n);
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

/* ---- components in place ------------------------------------------------ */

void
rt_find_parts_in_place(RtRun *run, RtFunction *fn, const RtHostOp *h)
{
    RtIterBinding *it = h->iterator;
    size_t n = (size_t)num_components(it);
    it->in_place = NEW_ARRAY(run->arena, bool, n);
    it->parts =
        NEW_ARRAY(run->arena, RtBatchPart, n *(size_t)run->num_local);
    if (!run->caps->is_host_visible || run->enqueues || run->job || run->ps)
        return;
    IrUsers users = ir_users_find(run->arena, fn->ir->body);
    for (int i = 0; i < num_components(it); i++)
        it->in_place[i] = rt_is_read_in_place(&users, h->op, i);
}

/* Of the step that v is a component of; NULL: it has a row. */
static RtBatchPart *
part_of(const RtRun *run, const IrValue *v, int local)
{
    for (int i = 0; i < run->module->iters.len; i++) {
        const RtIterBinding *it = &run->iterators[i];
        if (it->next && v->def == it->next->op && it->in_place[v->index])
            return &it->parts[local * num_components(it) + v->index];
    }
    return NULL;
}

bool
rt_part_place(const RtRun *run, const IrValue *v, int local, RtDevicePtr *place)
{
    RtBatchPart *part = part_of(run, v, local);
    if (!part)
        return false;
    part->memory.device = run->locals[local].device;
    *place = (RtDevicePtr){&part->memory, 0};
    return true;
}

void
rt_follow_part(RtRun *run, const IrValue *v, int local, RtInvocation *inv,
               int i)
{
    RtBatchPart *part = part_of(run, v, local);
    RtBatchParam param = {inv, i};
    if (part)
        VEC_PUSH(run->arena, part->params, param);
}

/* Programs read n bytes at data from now on. */
static void
set_part(RtBatchPart *part, const void *data, size_t n)
{
    assert((uintptr_t)data % CACHE_LINE == 0);
    part->memory.address = (uintptr_t)data;
    part->memory.host = (char *)(uintptr_t)data;
    part->memory.bytes = n;
    for (int i = 0; i < part->params.len; i++)
        rt_invocation_moved(part->params.data[i].inv,
                            part->params.data[i].number);
}

/* ---- copies ------------------------------------------------------------- */

/* Those of a slot, for each device. */
static RtEvent *
events_of(const RtRun *run, RtEvent *events, int slot)
{
    return events + (size_t)slot * (size_t)run->num_devices;
}

static void
wait_for(const RtRun *run, const RtIterBinding *it, int slot)
{
    if (!it->copied)
        return;
    const RtEvent *copied = events_of(run, it->copied, slot);
    for (int i = 0; i < run->num_devices; i++)
        rt_event_wait(copied[i]);
}

void
rt_end_copy(const RtRun *run, const RtIterBinding *it)
{
    wait_for(run, it, it->current);
}

void
rt_end_copies(const RtRun *run, RtIterBinding *it)
{
    wait_for(run, it, it->current);
    for (int i = 0; i < it->num_slots; i++)
        wait_for(run, it, i);
    it->num_ahead = 0;
}

static RtDevicePtr
slot_place(const RtIterBinding *it, int slot, const RtExecutor *replica, int i)
{
    int64_t at = it->slots[slot * num_components(it) + i];
    return rt_ptr_add(replica->base, (size_t)at);
}

/* A step that is copied: that of the current slot, or the one that so many
 * others come before. */
enum { NOW = -1 };

static void
copy_to_slot(const RtRun *run, const RtIterBinding *it, int slot,
             const RtExecutor *replica, int ahead)
{
    int r = replica->replica;
    RtDevice *d = replica->device;
    int64_t rows = ahead == NOW ? rt_iter_rows(it->iter, r)
                                : rt_iter_next_rows(it->iter, ahead, r);
    for (int i = 0; i < num_components(it); i++)
        d->ops->copy_in(d->queues[QUEUE_COPY], slot_place(it, slot, replica, i),
                        ahead == NOW ? rt_iter_data(it->iter, r, i)
                                     : rt_iter_next_data(it->iter, ahead, r, i),
                        component_bytes(run, it->next, i, rows));
}

static void
copy_to_slots(const RtRun *run, const RtIterBinding *it, int slot, int ahead)
{
    int each = run->replicas_each;
    for (int i = 0; i < run->num_devices; i++) {
        RtDevice *d = run->devices[i];
        RtQueue *q = d->queues[QUEUE_COPY];
        d->ops->wait_event(q, events_of(run, it->taken, slot)[i]);
        for (int k = 0; k < each; k++)
            copy_to_slot(run, it, slot, &run->locals[i * each + k], ahead);
        events_of(run, it->copied, slot)[i] = d->ops->record(q);
    }
}

static void
copy_from_slot(const RtIterBinding *it, const RtHostOp *h, RtQueue *q,
               const RtExecutor *replica)
{
    for (int i = 0; i < num_components(it); i++)
        q->device->ops->copy(q, rt_row(replica, &h->out[i]),
                             slot_place(it, it->current, replica, i),
                             rt_value_bytes(&h->out[i], replica->dims));
}

static void
copy_from_slots(const RtRun *run, const RtIterBinding *it, const RtHostOp *h)
{
    int each = run->replicas_each;
    for (int i = 0; i < run->num_devices; i++) {
        RtDevice *d = run->devices[i];
        RtQueue *q = d->queues[QUEUE_COMPUTE];
        d->ops->wait_event(q, events_of(run, it->copied, it->current)[i]);
        for (int k = 0; k < each; k++)
            copy_from_slot(it, h, q, &run->locals[i * each + k]);
        events_of(run, it->taken, it->current)[i] = d->ops->record(q);
    }
}

/* The batch of a replica, number local of this process. */
static void
hand_over(const RtRun *run, const RtIterBinding *it, const RtHostOp *h,
          RtQueue *q, int local)
{
    const RtExecutor *replica = &run->locals[local];
    for (int i = 0; i < num_components(it); i++) {
        const void *data = rt_iter_data(it->iter, replica->replica, i);
        size_t n = rt_value_bytes(&h->out[i], replica->dims);
        if (it->next == h && it->in_place[i])
            set_part(&it->parts[local * num_components(it) + i], data, n);
        else
            q->device->ops->copy_in(q, rt_row(replica, &h->out[i]), data, n);
    }
}

static void
hand_over_all(const RtRun *run, const RtIterBinding *it, const RtHostOp *h)
{
    int each = run->replicas_each;
    for (int i = 0; i < run->num_devices; i++) {
        RtDevice *d = run->devices[i];
        RtQueue *q = d->queues[QUEUE_COMPUTE];
        for (int k = 0; k < each; k++)
            hand_over(run, it, h, q, i * each + k);
        it->copied[i] = d->ops->record(q);
    }
}

/* The slot that comes so many after the first. */
static int
slot_after(const RtIterBinding *it, int n)
{
    return (it->first + n) % it->num_slots;
}

void
rt_hand_over_batch(RtRun *run, const RtHostOp *h)
{
    RtIterBinding *it = h->iterator;
    if (!it->num_slots) {
        hand_over_all(run, it, h);
        return;
    }
    it->current = it->first;
    it->first = slot_after(it, 1);
    if (it->num_ahead)
        it->num_ahead--;
    else
        copy_to_slots(run, it, it->current, NOW);
    copy_from_slots(run, it, h);
}

/* Whether there is another step that fits a slot that is free: iter_next
 * refuses one that does not.  A coordinator has no iterators of workers. */
static bool
can_copy_ahead(const RtRun *run, const RtIterBinding *it)
{
    int k = it->num_ahead;
    if (!it->iter || k >= it->num_slots ||
        !rt_iter_is_ahead(it->iter, k, run->devices[0]->caps->is_repeatable))
        return false;
    for (int i = 0; it->ir->rows >= 0 && i < run->num_local; i++)
        if (rt_iter_next_rows(it->iter, k, run->first_local + i) > it->bound)
            return false;
    return true;
}

void
rt_copy_ahead(RtRun *run)
{
    for (int i = 0; run->iterators && i < run->module->iters.len; i++) {
        RtIterBinding *it = &run->iterators[i];
        while (can_copy_ahead(run, it)) {
            copy_to_slots(run, it, slot_after(it, it->num_ahead),
                          it->num_ahead);
            it->num_ahead++;
        }
    }
}
