/*
 * group.c - small exchanges between the mains of a job's processes, as messages
 *
 * An exchange is a gather by Bruck's algorithm, which the carrier does while
 * main goes on.  Broadcasts go down a binomial tree, and what is gathered comes
 * to the root directly; there main waits for its transfers.
 */
#include <assert.h>
#include <string.h>
#include "ir/base/clock.h"
#include "runtime/link/join/join.h"
#include "runtime/link/schedule.h"

enum {
    TAG = 1024,
    TAG_SLOT = 16, /* rounds of an exchange */
    TAG_BROADCAST = TAG + RT_GROUP_SLOTS * TAG_SLOT,
    TAG_LENGTH,
    TAG_PART
};

enum { SMALL_PART = 64 << 10 };

typedef struct LinkGroup LinkGroup;

/* An exchange in flight. */
typedef struct Slot {
    LinkGroup *group;
    int number;
    size_t bytes; /* of each */
    char *all;    /* from this process on */
    RtCarrierJob job;
    RtTransfer recv, send;
    int round, pending; /* the carrier's */
    uint32_t calls;     /* main's */
    RtWaitWord ended;   /* calls */
} Slot;

struct LinkGroup {
    RtGroup group;
    Arena *arena;
    RtCarrier *carrier;
    double timeout;
    atomic_bool stopped;
    Slot *slots;
    char *part; /* SMALL_PART bytes: the lines of a step take no more */
};

static LinkGroup *
group_of(RtGroup *g)
{
    return (LinkGroup *)g;
}

/* ---- exchanges ----------------------------------------------------------- */

static void
begin_round(Slot *s)
{
    RtBruckRound r;
    const RtGroup *g = &s->group->group;
    RtCarrier *c = s->group->carrier;
    int k = s->round++;
    if (!rt_bruck_round(g->rank, g->size, k, &r)) {
        rt_wait_word_add(&s->ended, 1);
        return;
    }
    s->recv.peer = r.from;
    s->recv.address = s->all + (size_t)r.have * s->bytes;
    s->send.peer = r.to;
    s->send.address = s->all;
    s->recv.bytes = s->send.bytes = (size_t)r.num * s->bytes;
    s->recv.tag = s->send.tag = (uint32_t)(TAG + s->number * TAG_SLOT + k);
    s->pending = 2;
    rt_carrier_recv(c, &s->recv);
    rt_carrier_send(c, &s->send);
}

static void
end_transfer(RtTransfer *t)
{
    Slot *s = t->owner;
    if (--s->pending == 0)
        begin_round(s);
}

static void
run_exchange(RtCarrierJob *job)
{
    begin_round(job->owner);
}

static Status
stopped(const LinkGroup *g)
{
    TRY(rt_carrier_failure(g->carrier));
    return status_new(STATUS_STOPPED, "the processes of the job were stopped");
}

static Status
late(const LinkGroup *g, int peer)
{
    return status_new(STATUS_MACHINE,
                      "rank %d waits for rank %d, which has not come after "
                      "%g s",
                      g->group.rank, peer, g->timeout);
}

static Status
group_start(RtGroup *group, int slot, const void *own, size_t bytes)
{
    LinkGroup *g = group_of(group);
    Slot *s = &g->slots[slot];
    assert(bytes > 0 && bytes <= RT_GROUP_MOST_BYTES);
    if (atomic_load(&g->stopped))
        return stopped(g);
    s->bytes = bytes;
    s->round = 0;
    s->calls++;
    memcpy(s->all, own, bytes);
    rt_carrier_submit(g->carrier, &s->job);
    return OK;
}

/* Blocks stand from this process on, results by rank. */
static void
put_in_order(const Slot *s, char *all)
{
    const RtGroup *g = &s->group->group;
    for (int j = 0; j < g->size; j++)
        memcpy(all + (size_t)((g->rank + j) % g->size) * s->bytes,
               s->all + (size_t)j * s->bytes, s->bytes);
}

static Status
group_finish(RtGroup *group, int slot, void *all)
{
    LinkGroup *g = group_of(group);
    Slot *s = &g->slots[slot];
    RtWaited waited = {0};
    for (;;) {
        uint32_t ended = rt_wait_word_load(&s->ended);
        if (ended == s->calls)
            break;
        if (atomic_load(&g->stopped) || rt_carrier_has_stopped(g->carrier))
            return stopped(g);
        if (rt_waited(&waited, clock_seconds()) > g->timeout)
            return late(g, s->recv.peer);
        rt_wait_word_wait(&s->ended, ended, false);
    }
    put_in_order(s, all);
    return OK;
}

/* ---- what main waits for ------------------------------------------------- */

static Status
transfer(LinkGroup *g, RtTransfer *all, int num_receives, int num)
{
    if (rt_carrier_transfer(g->carrier, all, num_receives, num, g->timeout,
                            &g->stopped))
        return OK;
    if (atomic_load(&g->stopped) || rt_carrier_has_stopped(g->carrier))
        return stopped(g);
    return late(g, all[0].peer);
}

static RtTransfer
message(int peer, int tag, void *at, size_t n)
{
    return (RtTransfer){
        .peer = peer, .tag = (uint32_t)tag, .address = at, .bytes = n};
}

/* Ranks are counted from the root; each gets it from the rank without its
 * lowest bit, and sends it to those with one bit more below that. */
static Status
group_broadcast(RtGroup *group, int root, void *bytes, size_t n)
{
    enum { MOST_CHILDREN = 31 };
    LinkGroup *g = group_of(group);
    int size = group->size, own = (group->rank - root + size) % size;
    int low = own ? own & -own : 1 << 30, num = 0;
    RtTransfer sends[MOST_CHILDREN];
    if (n == 0)
        return OK;
    if (own) {
        int from = ((own & (own - 1)) + root) % size;
        RtTransfer recv = message(from, TAG_BROADCAST, bytes, n);
        TRY(transfer(g, &recv, 1, 1));
    }
    for (int bit = 1; bit < low && own + bit < size; bit *= 2)
        sends[num++] =
            message((own + bit + root) % size, TAG_BROADCAST, bytes, n);
    return num ? transfer(g, sends, 0, num) : OK;
}

static Status
send_part(LinkGroup *g, int root, const void *own, size_t n)
{
    uint64_t length = n;
    RtTransfer two[] = {message(root, TAG_LENGTH, &length, sizeof length),
                        message(root, TAG_PART, (void *)(uintptr_t)own, n)};
    return transfer(g, two, 0, n ? 2 : 1);
}

static Status
take_part(LinkGroup *g, int rank,
          void (*take)(void *data, int rank, const void *part, size_t n),
          void *data)
{
    uint64_t length;
    RtTransfer t = message(rank, TAG_LENGTH, &length, sizeof length);
    TRY(transfer(g, &t, 1, 1));
    TRY(rt_group_check_part(rank, length));
    bool is_small = length <= SMALL_PART;
    Arena *a = is_small ? NULL : arena_new(NULL, "part of a rank");
    char *part = is_small ? g->part : arena_alloc(a, (size_t)length);
    RtTransfer body = message(rank, TAG_PART, part, (size_t)length);
    Status st = length ? transfer(g, &body, 1, 1) : OK;
    if (!st)
        take(data, rank, part, (size_t)length);
    if (a)
        arena_release(a);
    return st;
}

static Status
group_gather(RtGroup *group, int root, const void *own, size_t n,
             void (*take)(void *data, int rank, const void *part, size_t n),
             void *data)
{
    LinkGroup *g = group_of(group);
    if (group->rank != root)
        return send_part(g, root, own, n);
    for (int r = 0; r < group->size; r++) {
        if (r == root)
            take(data, r, own, n);
        else
            TRY(take_part(g, r, take, data));
    }
    return OK;
}

/* ---- the end ------------------------------------------------------------- */

static void
group_abort(RtGroup *group)
{
    LinkGroup *g = group_of(group);
    atomic_store(&g->stopped, true);
    for (int i = 0; i < RT_GROUP_SLOTS; i++)
        rt_wait_word_wake(&g->slots[i].ended);
}

static void
cancel_slots(RtCarrierJob *job)
{
    LinkGroup *g = job->owner;
    for (int i = 0; i < RT_GROUP_SLOTS; i++) {
        rt_carrier_cancel(g->carrier, &g->slots[i].recv);
        rt_carrier_cancel(g->carrier, &g->slots[i].send);
    }
}

static void
group_close(RtGroup *group)
{
    LinkGroup *g = group_of(group);
    RtCarrierJob cancel = {cancel_slots, g, NULL};
    rt_carrier_call(g->carrier, &cancel);
    arena_release(g->arena);
}

static const RtGroupOps link_group_ops = {
    .name = "messages",
    .start = group_start,
    .finish = group_finish,
    .broadcast = group_broadcast,
    .gather = group_gather,
    .abort = group_abort,
    .close = group_close,
};

RtGroup *
rt_link_group_open(RtCarrier *c, double timeout)
{
    Arena *a = arena_new(NULL, "group");
    LinkGroup *g = arena_alloc_on_lines(a, sizeof *g);
    size_t size = (size_t)rt_carrier_size(c);
    g->group = (RtGroup){
        .ops = &link_group_ops, .rank = rt_carrier_rank(c), .size = (int)size};
    g->arena = a;
    g->carrier = c;
    g->timeout = timeout;
    g->part = arena_alloc(a, SMALL_PART);
    g->slots = arena_alloc_on_lines(a, RT_GROUP_SLOTS * sizeof *g->slots);
    for (int i = 0; i < RT_GROUP_SLOTS; i++) {
        Slot *s = &g->slots[i];
        s->group = g;
        s->number = i;
        s->all = arena_alloc(a, size * RT_GROUP_MOST_BYTES);
        s->job = (RtCarrierJob){run_exchange, s, NULL};
        s->recv.end = s->send.end = end_transfer;
        s->recv.owner = s->send.owner = s;
    }
    return &g->group;
}
