/*
 * measure.c - whether all pairs of processes reach each other, and how fast
 *
 * First everybody sends its rank to all others.  Then neighbours send a short
 * message to and fro, and a long one; the least time of several counts.  The
 * slowest pair's numbers are everybody's.  A process has one neighbour on its
 * own machine, and one on the machine beside, that many pairs go to at a time.
 */
#include <assert.h>
#include <string.h>
#include "ir/base/clock.h"
#include "runtime/link/carrier.h"
#include "runtime/link/schedule.h"

enum {
    TAG = RT_LINK_NUM_TAGS - 64,
    SHORT = 8,
    LONG = 256 << 10,
    LONGER = 1 << 20, /* where it is to be exact */
    SHORT_TIMES = 20,
    LONG_TIMES = 4
};

/* ---- waiting for transfers ----------------------------------------------- */

typedef struct Waiting {
    RtCarrier *carrier;
    RtTransfer *all;
    int num_receives, num, left; /* the carrier's */
    RtWaitWord ended;
} Waiting;

static void
end_one(RtTransfer *t)
{
    Waiting *w = t->owner;
    atomic_store(&t->has_ended, true);
    if (--w->left == 0)
        rt_wait_word_store(&w->ended, 1);
}

static void
begin_all(RtCarrierJob *job)
{
    Waiting *w = job->owner;
    for (int i = 0; i < w->num; i++) {
        w->all[i].end = end_one;
        w->all[i].owner = w;
        if (i < w->num_receives)
            rt_carrier_recv(w->carrier, &w->all[i]);
        else
            rt_carrier_send(w->carrier, &w->all[i]);
    }
}

static void
cancel_all(RtCarrierJob *job)
{
    Waiting *w = job->owner;
    for (int i = 0; i < w->num; i++)
        rt_carrier_cancel(w->carrier, &w->all[i]);
}

bool
rt_carrier_transfer(RtCarrier *c, RtTransfer *all, int num_receives, int num,
                    double timeout, const atomic_bool *stopped)
{
    Waiting w = {c, all, num_receives, num, num, {0}};
    RtCarrierJob begin = {begin_all, &w, NULL}, cancel = {cancel_all, &w, NULL};
    RtWaited waited = {0};
    for (int i = 0; i < num; i++)
        atomic_store(&all[i].has_ended, false);
    if (num == 0)
        return true;
    rt_carrier_call(c, &begin);
    while (!rt_wait_word_load(&w.ended) &&
           rt_waited(&waited, clock_seconds()) < timeout &&
           !rt_carrier_has_stopped(c) && !(stopped && atomic_load(stopped)))
        rt_wait_word_wait(&w.ended, 0, false);
    rt_carrier_call(c, &cancel);
    return rt_wait_word_load(&w.ended);
}

/* ---- everybody ----------------------------------------------------------- */

static Status
no_messages(const RtCarrier *c, int to, int from)
{
    return status_new(STATUS_MACHINE,
                      "rank %d gets no messages of rank %d over %s; is there a "
                      "firewall between them?",
                      to, from, rt_carrier_link(c));
}

Status
rt_messages_stopped(void)
{
    return status_new(STATUS_STOPPED, "the exchange of messages was stopped");
}

/* Of transfers, all receives first, that have not all ended. */
static Status
nobody_answers(RtCarrier *c, const RtTransfer *all, int num_receives, int num)
{
    int rank = rt_carrier_rank(c);
    TRY(rt_carrier_failure(c));
    if (rt_carrier_has_stopped(c))
        return rt_messages_stopped();
    for (int i = 0; i < num; i++)
        if (!atomic_load(&all[i].has_ended))
            return i < num_receives ? no_messages(c, rank, all[i].peer)
                                    : no_messages(c, all[i].peer, rank);
    return rt_messages_stopped();
}

static RtTransfer
transfer(int peer, uint32_t tag, void *at, size_t n)
{
    return (RtTransfer){.peer = peer, .tag = tag, .address = at, .bytes = n};
}

static Status
greet_all(RtCarrier *c, Arena *a, double timeout)
{
    int size = rt_carrier_size(c), rank = rt_carrier_rank(c), num = size - 1;
    RtTransfer *all = NEW_ARRAY(a, RtTransfer, 2 * (size_t)size);
    uint64_t own = (uint64_t)rank;
    uint64_t *got = NEW_ARRAY(a, uint64_t, (size_t)size);
    for (int i = 0; i < num; i++) {
        int to = (rank + 1 + i) % size;
        all[i] = transfer(to, TAG, &got[to], sizeof own);
        all[num + i] = transfer(to, TAG, &own, sizeof own);
    }
    if (!rt_carrier_transfer(c, all, num, 2 * num, timeout, NULL))
        return nobody_answers(c, all, num, 2 * num);
    for (int i = 0; i < num; i++)
        if (got[all[i].peer] != (uint64_t)all[i].peer)
            return no_messages(c, rank, all[i].peer);
    return OK;
}

/* ---- neighbours ---------------------------------------------------------- */

/* A message to and fro, some times; the carrier's until it has ended. */
typedef struct Ping {
    RtCarrier *carrier;
    RtTransfer send, recv;
    bool is_first;
    int left, pending;
    double begin, best; /* seconds of one way */
    RtWaitWord ended;
} Ping;

static void begin_ping(Ping *p);

static void
end_ping(RtTransfer *t)
{
    Ping *p = t->owner;
    if (t == &p->recv && !p->is_first)
        rt_carrier_send(p->carrier, &p->send);
    if (--p->pending > 0)
        return;
    double seconds = (clock_seconds() - p->begin) / 2;
    if (seconds < p->best)
        p->best = seconds;
    if (--p->left == 0)
        rt_wait_word_store(&p->ended, 1);
    else
        begin_ping(p);
}

static void
begin_ping(Ping *p)
{
    p->pending = 2;
    p->begin = clock_seconds();
    rt_carrier_recv(p->carrier, &p->recv);
    if (p->is_first)
        rt_carrier_send(p->carrier, &p->send);
}

static void
run_ping(RtCarrierJob *job)
{
    begin_ping(job->owner);
}

static void
cancel_ping(RtCarrierJob *job)
{
    Ping *p = job->owner;
    rt_carrier_cancel(p->carrier, &p->send);
    rt_carrier_cancel(p->carrier, &p->recv);
}

/* Messages to and fro. */
typedef struct Exchange {
    int peer;
    size_t bytes;
    int times;
    double timeout;
    const _Atomic int32_t *stopped; /* NULL: never */
} Exchange;

static bool
is_stopped(const RtCarrier *c, const Exchange *x)
{
    return rt_carrier_has_stopped(c) || (x->stopped && atomic_load(x->stopped));
}

/* Seconds of one way to the peer, or 0: it did not answer. */
static double
ping(RtCarrier *c, const Exchange *x, char *bytes)
{
    size_t n = x->bytes;
    RtWaited waited = {0};
    Ping p = {.carrier = c,
              .is_first = rt_carrier_rank(c) < x->peer,
              .left = x->times,
              .best = x->timeout,
              .send = transfer(x->peer, TAG + 1, bytes, n),
              .recv = transfer(x->peer, TAG + 1, bytes + n, n)};
    RtCarrierJob run = {run_ping, &p, NULL}, cancel = {cancel_ping, &p, NULL};
    p.send.end = p.recv.end = end_ping;
    p.send.owner = p.recv.owner = &p;
    rt_carrier_submit(c, &run);
    while (!rt_wait_word_load(&p.ended) &&
           rt_waited(&waited, clock_seconds()) < x->timeout &&
           !is_stopped(c, x))
        rt_wait_word_wait(&p.ended, 0, false);
    rt_carrier_call(c, &cancel);
    return rt_wait_word_load(&p.ended) ? p.best : 0;
}

typedef struct Speeds {
    IrLinkSpeed near, far; /* no rate: not measured */
} Speeds;

/* long_message: its bytes. */
static Status
measure_pair(RtCarrier *c, Arena *a, Exchange x, size_t long_message,
             IrLinkSpeed *out)
{
    char *bytes = arena_alloc(a, 2 * long_message);
    x.bytes = SHORT;
    x.times = SHORT_TIMES;
    double latency = ping(c, &x, bytes);
    x.bytes = long_message;
    x.times = LONG_TIMES;
    double all = ping(c, &x, bytes);
    if (latency == 0 || all == 0) {
        RtTransfer t = transfer(x.peer, TAG, bytes, SHORT);
        return nobody_answers(c, &t, 1, 1);
    }
    double rest = all > latency ? all - latency : all;
    *out = (IrLinkSpeed){latency, (double)long_message / rest};
    return OK;
}

Status
rt_carrier_measure_pair(RtCarrier *c, int peer, double timeout,
                        const _Atomic int32_t *stopped, IrLinkSpeed *out)
{
    Arena *a = arena_new(NULL, "speed of a pair");
    Exchange x = {.peer = peer, .timeout = timeout, .stopped = stopped};
    Status st = measure_pair(c, a, x, LONGER, out);
    arena_release(a);
    return st;
}

/* Machines have any numbers of processes: with the rank before and the one
 * after, of which one may be on another machine. */
static Status
ping_both_sides(RtCarrier *c, Arena *a, double timeout, Speeds *out)
{
    int rank = rt_carrier_rank(c);
    int peers[] = {rank ^ 1, ((rank + 1) ^ 1) - 1};
    for (int i = 0; i < 2; i++) {
        Exchange x = {.peer = peers[i], .timeout = timeout};
        IrLinkSpeed s;
        if (x.peer < 0 || x.peer >= rt_carrier_size(c))
            continue;
        TRY(measure_pair(c, a, x, LONG, &s));
        ir_coll_take_slower(
            rt_carrier_is_near(c, x.peer) ? &out->near : &out->far, s);
    }
    return OK;
}

static Status
ping_neighbours(RtCarrier *c, Arena *a, double timeout, Speeds *out)
{
    int rank = rt_carrier_rank(c), size = rt_carrier_size(c);
    int n = rt_carrier_topology(c).per_machine, place = rank % n;
    int near = rank - place + (place ^ 1);
    int far = (rank / n ^ 1) * n + place;
    if (n == 1 && rt_carrier_has_near(c))
        return ping_both_sides(c, a, timeout, out);
    if ((place ^ 1) < n)
        TRY(measure_pair(c, a, (Exchange){.peer = near, .timeout = timeout},
                         LONG, &out->near));
    if (far < size)
        TRY(measure_pair(c, a, (Exchange){.peer = far, .timeout = timeout},
                         LONG, &out->far));
    return OK;
}

/* ---- all of it ----------------------------------------------------------- */

static Status
gather_speeds(RtCarrier *c, Speeds *all, double timeout)
{
    RtBruckRound r;
    int rank = rt_carrier_rank(c), size = rt_carrier_size(c);
    for (int k = 0; rt_bruck_round(rank, size, k, &r); k++) {
        size_t n = (size_t)r.num * sizeof *all;
        RtTransfer two[] = {transfer(r.from, TAG + 2, all + r.have, n),
                            transfer(r.to, TAG + 2, all, n)};
        if (!rt_carrier_transfer(c, two, 1, 2, timeout, NULL))
            return nobody_answers(c, two, 1, 2);
    }
    return OK;
}

static void
set_slowest(RtCarrier *c, const Speeds *all)
{
    Speeds s = {{0, 0}, {0, 0}};
    RtLinkTopology t = rt_carrier_topology(c);
    for (int i = 0; i < rt_carrier_size(c); i++) {
        ir_coll_take_slower(&s.near, all[i].near);
        ir_coll_take_slower(&s.far, all[i].far);
    }
    t.near = s.near.rate > 0 ? s.near : s.far;
    t.far = s.far.rate > 0 ? s.far : s.near;
    rt_carrier_set_topology(c, t);
}

Status
rt_carrier_measure(RtCarrier *c, double timeout)
{
    int size = rt_carrier_size(c);
    Arena *a = arena_new(NULL, "speed of messages");
    Speeds *all = NEW_ARRAY(a, Speeds, (size_t)size);
    Status st = greet_all(c, a, timeout);
    if (!st)
        st = ping_neighbours(c, a, timeout, &all[0]);
    if (!st)
        st = gather_speeds(c, all, timeout);
    if (!st && size > 1)
        set_slowest(c, all);
    arena_release(a);
    return st;
}
