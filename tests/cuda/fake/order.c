/*
 * order.c - when the fake driver executes what streams have
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tests/cuda/fake/calls.h"

bool
fake_is_before(Mark a, const Op *b)
{
    return a.number <= b->clock[a.stream];
}

bool
fake_has_happened(Mark at)
{
    return at.number <= fake_world.executed[at.stream];
}

void
fake_join(uint64_t *clock, const uint64_t *other)
{
    for (int t = 0; t < fake_world.num_slots; t++)
        if (other[t] > clock[t])
            clock[t] = other[t];
}

/* ---- streams ------------------------------------------------------------- */

void
fake_open_slot(CUstream s)
{
    int slot = 0;
    while (slot < MAX_STREAMS && fake_world.streams[slot])
        slot++;
    if (slot == MAX_STREAMS)
        fake_complain("more than %d streams", MAX_STREAMS);
    if (slot >= fake_world.num_slots)
        fake_world.num_slots = slot + 1;
    s->slot = slot;
    fake_forget_exchanges(slot);
    s->clock[slot] = fake_world.added[slot];
    fake_world.streams[slot] = s;
}

/* What has not been executed never will be. */
void
fake_close_slot(CUstream s)
{
    while (s->first) {
        Op *op = s->first;
        s->first = op->next;
        if (op->event && op->event->is_destroyed)
            free(op->event);
        free(op->params);
        free(op);
    }
    fake_world.executed[s->slot] = fake_world.added[s->slot];
    fake_world.streams[s->slot] = NULL;
}

/* A source is remembered, a destination has a pattern until the copy. */
static void
begin(Op *op)
{
    if (op->kind == OP_HTOD)
        op->hash = fake_hash(op->host_from, op->bytes);
    if (op->kind == OP_DTOH)
        memset(op->host_to, POISON, op->bytes);
}

void
fake_add(CUstream s, const Op *from)
{
    Op *op = fake_alloc(sizeof *op);
    *op = *from;
    op->next = NULL;
    fake_join(s->clock, fake_world.seen);
    s->clock[s->slot] = ++fake_world.added[s->slot];
    op->mark = (Mark){s->slot, s->clock[s->slot]};
    memcpy(op->clock, s->clock, sizeof op->clock);
    begin(op);
    if (s->last)
        s->last->next = op;
    else
        s->first = op;
    s->last = op;
}

/* ---- execution ----------------------------------------------------------- */

static void
check_source(const Op *op)
{
    if (fake_hash(op->host_from, op->bytes) != op->hash)
        fake_complain("the host's memory changed between %s and its copy",
                      op->call);
}

static void
set(uint8_t *to, const Op *op)
{
    for (size_t i = 0; i < op->bytes; i += op->value_bytes)
        memcpy(to + i, &op->value, op->value_bytes);
}

static void
copy(const Op *op, CUdeviceptr to, CUdeviceptr at)
{
    const uint8_t *from = fake_read(op, at, op->bytes);
    memmove(fake_write(op, to, op->bytes), from, op->bytes);
}

/* One that was destroyed meanwhile lasts until here. */
static void
take_time(CUevent event)
{
    struct timespec t;
    if (!event)
        return;
    clock_gettime(CLOCK_MONOTONIC, &t);
    event->seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    if (event->is_destroyed)
        free(event);
}

static void
execute(const Op *op)
{
    switch (op->kind) {
    case OP_HTOD:
        check_source(op);
        memcpy(fake_write(op, op->to, op->bytes), op->host_from, op->bytes);
        break;
    case OP_DTOH:
        memcpy(op->host_to, fake_read(op, op->from, op->bytes), op->bytes);
        break;
    case OP_DTOD:
        copy(op, op->to, op->from);
        break;
    case OP_ROWS:
        for (size_t i = 0; i < op->rows; i++)
            copy(op, op->to + i * op->to_pitch, op->from + i * op->from_pitch);
        break;
    case OP_SET:
        set(fake_write(op, op->to, op->bytes), op);
        break;
    case OP_KERNEL:
        fake_run_kernel(op);
        break;
    case OP_CALL:
        fake_in_callback = true;
        op->function(op->data);
        fake_in_callback = false;
        break;
    case OP_NOTHING:
        take_time(op->event);
        break;
    case OP_EXCHANGE: /* not by itself */
    case NUM_OPS:
        break;
    }
}

/* The first operation of its stream. */
static void
drop_first(const Op *op)
{
    CUstream s = fake_world.streams[op->mark.stream];
    s->first = op->next;
    if (!s->first)
        s->last = NULL;
    fake_world.executed[s->slot]++;
    free(op->params);
    free((Op *)op);
}

static void
execute_first(CUstream s)
{
    Op *op = s->first;
    if (op->kind == OP_EXCHANGE) {
        fake_exchange_execute(op, drop_first);
        return;
    }
    fake_complete_clock(op);
    execute(op);
    drop_first(op);
}

/* The first of its stream, without what it exchanges. */
static bool
is_next(const Op *op)
{
    if (fake_world.streams[op->mark.stream]->first != op)
        return false;
    for (int t = 0; t < fake_world.num_slots; t++)
        if (t != op->mark.stream && op->clock[t] > fake_world.executed[t])
            return false;
    return true;
}

static bool
can_go_on(const Op *op)
{
    return op->kind == OP_EXCHANGE ? fake_exchange_can_go_on(op, is_next)
                                   : is_next(op);
}

void
fake_run_until(Mark at, const uint64_t *clock)
{
    uint64_t need[MAX_STREAMS];
    memcpy(need, clock, sizeof need);
    while (!fake_has_happened(at)) {
        bool exchanges = fake_exchanges_need(need);
        CUstream ready[MAX_STREAMS];
        uint64_t num = 0;
        for (int t = 0; t < fake_world.num_slots; t++) {
            CUstream s = fake_world.streams[t];
            if (s && s->first && s->first->mark.number <= need[t] &&
                can_go_on(s->first))
                ready[num++] = s;
        }
        if (!num && exchanges)
            return; /* somebody has to come */
        if (!num)
            fake_complain("nothing can go on, and an event that is asked for "
                          "has not happened");
        execute_first(ready[fake_random(num)]);
    }
}

int
fake_num_pending(CUcontext context)
{
    int num = 0;
    for (int t = 0; t < fake_world.num_slots; t++) {
        CUstream s = fake_world.streams[t];
        if (s && s->context == context)
            num += (int)(fake_world.added[t] - fake_world.executed[t]);
    }
    return num;
}

bool
fake_is_pending(bool (*is)(const Op *op, const void *data), const void *data)
{
    for (int t = 0; t < fake_world.num_slots; t++) {
        CUstream s = fake_world.streams[t];
        for (const Op *op = s ? s->first : NULL; op; op = op->next)
            if (is(op, data))
                return true;
    }
    return false;
}
