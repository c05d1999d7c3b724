/*
 * pieces.c - calls as pieces in flight
 *
 * Calls are queued in the order in which the program of the first local replica
 * starts them, which is the same in all processes, and begin when all local
 * replicas have.  A call is cut into pieces, each of which goes its rounds by
 * itself, so that one is combined while others are on the way.  Pieces are
 * numbered over the whole run; each takes the slot of its number, which has
 * memory and tags: so both ends of a message know its tag, and never two
 * messages of a pair have the same one at the same time.
 */
#include <assert.h>

#include "ir/base/minmax.h"
#include <string.h>
#include "runtime/coll/messages/messages_impl.h"

enum { STEPS_OF_SLOT = 128 };

/* ---- results ------------------------------------------------------------- */

static char *
out_of(const MsgInstance *s, int operand, int device)
{
    const MsgComm *comm = s->comm;
    return rt_ptr_address(s->parts[device * comm->each].reduces[operand].out);
}

/* From the first local device, which has it in place, or the piece's memory. */
static void
deliver_fragment(const MsgPiece *p, const RtFragment *f)
{
    const MsgInstance *s = p->instance;
    const RtLayoutOperand *o = &s->layout.operands[f->operand];
    size_t width = o->width[FORM_RESULT], at = (size_t)f->begin * width;
    size_t n = (size_t)(f->end - f->begin) * width;
    const char *from = out_of(s, f->operand, 0) + at;
    int first = s->num == 1 ? 1 : 0;
    if (s->num > 1)
        from = p->result + o->offset[FORM_RESULT] + at -
               rt_layout_offset(&s->layout, FORM_RESULT, p->steps.begin);
    for (int d = first; d < s->comm->coll.num_devices; d++)
        memcpy(out_of(s, f->operand, d) + at, from, n);
}

static void
deliver(const MsgPiece *p)
{
    RtFragment f = {.operand = -1};
    while (rt_layout_next(&p->instance->layout, p->steps, &f))
        deliver_fragment(p, &f);
}

/* ---- calls --------------------------------------------------------------- */

static int64_t
end_of(const MsgInstance *s)
{
    return s->gathers ? 1 : s->layout.steps;
}

static size_t
widest(const MsgInstance *s)
{
    size_t most = 1;
    for (int i = 0; i < s->num; i++)
        if (s->layout.operands[i].width[FORM_NODE] > most)
            most = s->layout.operands[i].width[FORM_NODE];
    return most;
}

static int64_t
steps_of_piece(const MsgInstance *s, const MsgAlgorithm *algorithm)
{
    size_t bytes = (size_t)s->comm->size * MSG_PIECE_BYTES;
    if (bytes > MSG_MOST_PIECE_BYTES)
        bytes = MSG_MOST_PIECE_BYTES;
    if (algorithm == &rt_msg_algorithms[MESSAGES_GATHER])
        bytes = IR_COLL_GATHER_BYTES;
    return (int64_t)(bytes / (COLL_SLICE_STEP * widest(s)));
}

static void
begin_call(MsgInstance *s)
{
    s->is_begun = true;
    s->next_step = 0;
    if (s->gathers) {
        s->algorithm = &rt_msg_gathering;
        s->piece_steps = 1;
        return;
    }
    for (int i = 0; i < s->num; i++) {
        s->counts[i] = s->parts[0].reduces[i].count;
        assert(s->counts[i] <= s->operands[i].most);
    }
    rt_layout_set(&s->layout, s->counts);
    s->algorithm = rt_msg_choose(s, s->layout.bytes[FORM_NODE]);
    s->calls[s->algorithm->by]++;
    s->piece_steps = steps_of_piece(s, s->algorithm);
}

/* Replicas may announce the next one at once. */
static void
end_call_if_done(MsgInstance *s)
{
    if (s->pieces || s->next_step < end_of(s))
        return;
    s->is_begun = false;
    rt_wait_word_add(&s->ended, 1);
}

/* ---- pieces -------------------------------------------------------------- */

static void
end_piece(MsgPiece *p)
{
    MsgInstance *s = p->instance;
    if (!s->gathers)
        deliver(p);
    p->instance = NULL;
    s->pieces--;
    end_call_if_done(s);
}

static void
advance(MsgPiece *p)
{
    while (p->pending == 0 && !atomic_load(&p->comm->stopped)) {
        p->num_transfers = 0;
        if (!p->algorithm->begin_round(p)) {
            end_piece(p);
            return;
        }
    }
}

static void
begin_piece(MsgPiece *p, MsgInstance *s)
{
    int64_t end = s->next_step + s->piece_steps;
    p->instance = s;
    p->algorithm = s->algorithm;
    p->round = 0;
    p->steps = (RtSteps){s->next_step, end < end_of(s) ? end : end_of(s)};
    s->next_step = p->steps.end;
    s->pieces++;
    s->comm->next_piece++;
    advance(p);
}

static void
leave_queue(MsgComm *comm, MsgInstance *s)
{
    comm->queue = s->next_queued;
    if (!comm->queue)
        comm->queue_end = &comm->queue;
    s->is_ready = false;
}

/* The first call's next piece; false: there is none, or it has to wait. */
static bool
begin_next(MsgComm *comm)
{
    MsgInstance *s = comm->queue;
    MsgPiece *p = &comm->pieces[comm->next_piece % MSG_NUM_SLOTS];
    if (!s || !s->is_ready || p->instance)
        return false;
    if (!s->is_begun)
        begin_call(s);
    bool is_empty = end_of(s) == 0;
    bool is_last = s->next_step + s->piece_steps >= end_of(s);
    if (is_last) /* first: its end may bring the next call */
        leave_queue(comm, s);
    if (is_empty)
        end_call_if_done(s);
    else
        begin_piece(p, s);
    return true;
}

static void
feed(MsgComm *comm)
{
    while (!atomic_load(&comm->stopped) && begin_next(comm))
        ;
}

void
rt_msg_queue(RtCarrierJob *job)
{
    MsgInstance *s = job->owner;
    MsgComm *comm = s->comm;
    s->next_queued = NULL;
    *comm->queue_end = s;
    comm->queue_end = &s->next_queued;
}

void
rt_msg_ready(RtCarrierJob *job)
{
    MsgInstance *s = job->owner;
    s->is_ready = true;
    feed(s->comm);
}

/* ---- messages ------------------------------------------------------------ */

static void
end_transfer(RtTransfer *t)
{
    MsgPiece *p = t->owner;
    if (--p->pending > 0 || atomic_load(&p->comm->stopped))
        return;
    advance(p);
    feed(p->comm);
}

static RtTransfer *
next_transfer(MsgPiece *p, int peer, int step, void *at, size_t n)
{
    RtTransfer *t = &p->transfers[p->num_transfers++];
    assert(p->num_transfers <= 2 * p->comm->size && step < STEPS_OF_SLOT);
    t->peer = peer;
    t->tag = (uint32_t)(p->slot * STEPS_OF_SLOT + step);
    t->address = at;
    t->bytes = n;
    t->end = end_transfer;
    t->owner = p;
    p->pending++;
    return t;
}

void
rt_msg_send(MsgPiece *p, int peer, int step, const void *from, size_t n)
{
    if (n)
        rt_carrier_send(
            p->comm->carrier,
            next_transfer(p, peer, step, (void *)(uintptr_t)from, n));
}

void
rt_msg_recv(MsgPiece *p, int peer, int step, void *to, size_t n)
{
    if (n)
        rt_carrier_recv(p->comm->carrier, next_transfer(p, peer, step, to, n));
}

void
rt_msg_cancel(RtCarrierJob *job)
{
    MsgComm *comm = job->owner;
    for (int i = 0; i < MSG_NUM_SLOTS; i++) {
        MsgPiece *p = &comm->pieces[i];
        for (int k = 0; k < p->num_transfers; k++)
            rt_carrier_cancel(comm->carrier, &p->transfers[k]);
        p->num_transfers = 0;
    }
}

/* ---- memory -------------------------------------------------------------- */

/* Of a piece of this instance. */
static void
count_instance(MsgComm *comm, const MsgInstance *s)
{
    size_t step = COLL_SLICE_STEP * widest(s), num = (size_t)s->nodes->num;
    size_t piece =
        (size_t)steps_of_piece(s, &rt_msg_algorithms[MESSAGES_HALVING]);
    size_t whole =
        (size_t)steps_of_piece(s, &rt_msg_algorithms[MESSAGES_GATHER]);
    size_t all = 0;
    for (int i = 0; i < s->num; i++)
        all += ((size_t)s->operands[i].most + COLL_SLICE_STEP - 1) /
               COLL_SLICE_STEP;
    piece = piece < all ? piece : all;
    whole = whole < all ? whole : all;
    size_t slices = num * (piece / (size_t)comm->size + 1);
    size_t uneven = (size_t)comm->size; /* slices of slices */
    size_t received = max_size(max_size(slices, piece) + uneven, num * whole);
    comm->node_bytes =
        max_size(comm->node_bytes, (size_t)s->nodes->most * piece * step);
    comm->received_bytes = max_size(comm->received_bytes, received * step);
    comm->result_bytes = max_size(comm->result_bytes, piece * step);
}

void
rt_msg_alloc(MsgComm *comm)
{
    for (const MsgInstance *s = comm->instances; s; s = s->next)
        if (!s->gathers)
            count_instance(comm, s);
    for (int i = 0; i < MSG_NUM_SLOTS; i++) {
        MsgPiece *p = &comm->pieces[i];
        p->comm = comm;
        p->slot = i;
        p->transfers =
            NEW_ARRAY(comm->arena, RtTransfer, 2 * (size_t)comm->size);
        p->nodes = arena_alloc_on_lines(comm->arena, comm->node_bytes);
        p->received = arena_alloc_on_lines(comm->arena, comm->received_bytes);
        p->sums = arena_alloc_on_lines(comm->arena, comm->result_bytes);
        p->result = arena_alloc_on_lines(comm->arena, comm->result_bytes);
        p->in = NEW_ARRAY(comm->arena, const void *,
                          (size_t)comm->coll.num_replicas);
    }
}
