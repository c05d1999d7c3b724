/*
 * queue.c - which closure is where
 */
#include "runtime/ps/queue.h"

#include <assert.h>
#include <string.h>

/* A worker with short closures has more of them, so that it need not wait for
 * the next. */
static const double short_closure = 0.005; /* seconds */

enum { FEW_IN_FLIGHT = 2, RING = 2 * RT_PS_WINDOW };

void
rt_queue_init(RtClosureQueue *q, Arena *a)
{
    *q = (RtClosureQueue){.arena = a, .low = 1, .next = 1};
    q->staleness = (RtPsStaleness){.arena = a, .bound = -1};
    q->closures = NEW_ARRAY(a, RtClosure, RT_PS_WINDOW);
    q->waiting = NEW_ARRAY(a, int64_t, RING);
}

static RtClosure *
slot(RtClosureQueue *q, int64_t id)
{
    return &q->closures[id % RT_PS_WINDOW];
}

RtClosure *
rt_queue_closure(RtClosureQueue *q, int64_t id)
{
    RtClosure *c = slot(q, id);
    return id >= q->low && id < q->next && c->id == id &&
                   c->state != RT_CLOSURE_ended
               ? c
               : NULL;
}

/* ---- the ring of those that wait ----------------------------------------- */

static void
put_last(RtClosureQueue *q, int64_t id)
{
    q->waiting[(q->first + q->num_waiting++) % RING] = id;
}

static void
put_first(RtClosureQueue *q, int64_t id)
{
    q->first = (q->first + RING - 1) % RING;
    q->waiting[q->first] = id;
    q->num_waiting++;
}

static void
drop_first(RtClosureQueue *q)
{
    q->first = (q->first + 1) % RING;
    q->num_waiting--;
}

/* It stays there; those that ended while they waited are dropped. */
static RtClosure *
first_that_waits(RtClosureQueue *q)
{
    for (; q->num_waiting; drop_first(q)) {
        RtClosure *c = rt_queue_closure(q, q->waiting[q->first]);
        if (c && c->state == RT_CLOSURE_waits)
            return c;
    }
    return NULL;
}

/* ---- futures ------------------------------------------------------------ */

static RtFuture *
new_future(RtClosureQueue *q, int64_t id)
{
    RtFuture *f = q->free;
    if (f)
        q->free = f->next;
    else
        *(f = NEW(q->arena, RtFuture)) = (RtFuture){.bytes = str_new(q->arena)};
    f->id = id;
    f->is_there = f->is_cancelled = false;
    f->refs = 0;
    f->bytes.len = 0;
    return f;
}

static void
free_if_unused(RtClosureQueue *q, RtFuture *f)
{
    RtClosure *c = rt_queue_closure(q, f->id);
    if (f->refs || c)
        return;
    f->next = q->free;
    q->free = f;
}

void
rt_queue_release(RtClosureQueue *q, RtFuture *f)
{
    assert(f->refs > 0);
    f->refs--;
    free_if_unused(q, f);
}

/* ---- main's side --------------------------------------------------------- */

bool
rt_queue_is_full(const RtClosureQueue *q)
{
    return q->next - q->low >= RT_PS_WINDOW;
}

static RtClosure *
add(RtClosureQueue *q, RtClosureState state)
{
    RtClosure *c = slot(q, q->next);
    assert(!rt_queue_is_full(q) && c->state == RT_CLOSURE_ended);
    if (!c->arguments.arena)
        c->arguments = str_new(q->arena);
    c->arguments.len = 0;
    c->id = q->next++;
    c->state = state;
    c->worker = c->owner = -1;
    c->feeds.len = 0;
    c->attempts = 0;
    c->round = 0;
    c->ends_round = c->is_late = false;
    c->crashes = 0;
    c->future = NULL;
    q->num_open++;
    return c;
}

RtClosure *
rt_queue_add(RtClosureQueue *q, int64_t launch, const RtArchive *arguments,
             bool has_results)
{
    RtClosure *c = add(q, RT_CLOSURE_waits);
    c->launch = launch;
    str_addn(&c->arguments, arguments->data, arguments->len);
    q->last = c->id;
    if (has_results)
        c->future = new_future(q, c->id);
    put_last(q, c->id);
    return c;
}

bool
rt_queue_admits_main(const RtClosureQueue *q)
{
    if (q->rounds.need && q->num_open)
        return false; /* it would change what a round computes with */
    return !rt_queue_is_full(q) &&
           rt_staleness_may_begin(&q->staleness, q->next);
}

void
rt_queue_add_feed(RtClosureQueue *q, RtClosure *c, int iter, uint64_t pass)
{
    VEC_PUSH(q->arena, c->feeds, ((RtFeed){iter, pass, 0}));
}

RtClosure *
rt_queue_add_mains(RtClosureQueue *q)
{
    RtClosure *c = add(q, RT_CLOSURE_mains);
    rt_staleness_begin(&q->staleness, c->id);
    q->main_is_on = true;
    return c;
}

bool
rt_queue_end(RtClosureQueue *q, int64_t id, const char *bytes, size_t n)
{
    RtClosure *c = rt_queue_closure(q, id);
    if (!c)
        return false;
    RtFuture *f = c->future;
    if (c->state == RT_CLOSURE_mains)
        q->main_is_on = false;
    c->state = RT_CLOSURE_ended;
    c->future = NULL;
    q->num_open--;
    rt_staleness_end(&q->staleness, id);
    while (q->low < q->next && slot(q, q->low)->state == RT_CLOSURE_ended)
        q->low++;
    if (f) {
        str_addn(&f->bytes, bytes, n);
        f->is_there = true;
        free_if_unused(q, f);
    }
    return true;
}

/* Others may have them, too. */
static void
give_up_returned(RtClosureQueue *q, RtPsWorker *w)
{
    q->num_returned -= w->num_returned;
    while (w->num_returned)
        put_first(q, w->returned[--w->num_returned]);
}

bool
rt_queue_decide(RtClosureQueue *q, int64_t id, int64_t attempt,
                const char *bytes, size_t n)
{
    RtClosure *c = rt_queue_closure(q, id);
    if (!c || c->state == RT_CLOSURE_decided || c->attempts != attempt)
        return false;
    c->state = RT_CLOSURE_decided;
    c->is_late = q->rounds.need && !rt_rounds_count(&q->rounds, c->round);
    if (c->future)
        str_addn(&c->future->bytes, bytes, n);
    return true;
}

static void
end_cancelled(RtClosureQueue *q, const RtClosure *c)
{
    if (c->future)
        c->future->is_cancelled = true;
    q->num_cancelled++;
    rt_rounds_leave(&q->rounds, c->round);
    rt_queue_end(q, c->id, NULL, 0);
}

void
rt_queue_drop(RtClosureQueue *q)
{
    for (int i = 0; i < q->workers.len; i++)
        give_up_returned(q, &q->workers.data[i]);
    for (RtClosure *c; (c = first_that_waits(q));) {
        drop_first(q);
        end_cancelled(q, c);
    }
}

/* Once around the ring: those that stay keep their order. */
void
rt_queue_cancel(RtClosureQueue *q)
{
    for (int64_t n = q->num_waiting; n > 0; n--) {
        RtClosure *c = rt_queue_closure(q, q->waiting[q->first]);
        drop_first(q);
        if (!c || c->state != RT_CLOSURE_waits)
            continue;
        if (c->attempts)
            put_last(q, c->id);
        else
            end_cancelled(q, c);
    }
}

bool
rt_queue_end_cancelled(RtClosureQueue *q, int64_t id)
{
    RtClosure *c = rt_queue_closure(q, id);
    if (!c || c->attempts != 1)
        return false;
    end_cancelled(q, c);
    return true;
}

/* ---- workers ------------------------------------------------------------ */

RtPsWorker *
rt_queue_worker(RtClosureQueue *q, uint32_t index)
{
    if (index >= (uint32_t)q->workers.len || !q->workers.data[index].is_known)
        return NULL;
    return &q->workers.data[index];
}

/* The closure that was sent to w as number i, if it waits again now. */
static RtClosure *
take_back(RtClosureQueue *q, const RtPsWorker *w, int i)
{
    int number = (int)(w - q->workers.data);
    RtClosure *c = rt_queue_closure(q, w->in_flight[i].id);
    if (!c || c->state != RT_CLOSURE_sent || c->worker != number)
        return NULL;
    c->state = RT_CLOSURE_waits;
    q->num_put_back++;
    return c;
}

void
rt_queue_lose(RtClosureQueue *q, RtPsWorker *w)
{
    give_up_returned(q, w);
    for (int i = w->num_in_flight - 1; i >= 0; i--) {
        RtClosure *c = take_back(q, w, i);
        if (c)
            put_first(q, c->id);
    }
}

/* What w had; those that took elements of its datasets are kept for the process
 * that replaces it, before others that were. */
static void
replace(RtClosureQueue *q, RtPsWorker *w)
{
    int num = 0;
    int64_t kept[2 * RT_PS_IN_FLIGHT];
    for (int i = w->num_in_flight - 1; i >= 0; i--) {
        RtClosure *c = take_back(q, w, i);
        if (c && !c->feeds.len)
            put_first(q, c->id);
        else if (c)
            kept[RT_PS_IN_FLIGHT - ++num] = c->id;
    }
    memcpy(kept + RT_PS_IN_FLIGHT, w->returned, sizeof w->returned);
    q->num_returned += num;
    w->num_returned += num;
    assert(w->num_returned <= RT_PS_IN_FLIGHT);
    memcpy(w->returned, kept + RT_PS_IN_FLIGHT - num,
           (size_t)w->num_returned * sizeof *kept);
}

/* Any of those that a worker had may have ended it, or the only one has. */
static void
note_crash(RtClosureQueue *q, const RtPsWorker *w)
{
    int number = (int)(w - q->workers.data);
    for (int i = 0; i < w->num_in_flight; i++) {
        RtClosure *c = rt_queue_closure(q, w->in_flight[i].id);
        if (c && c->worker == number && ++c->crashes == RT_PS_MOST_CRASHES)
            q->deadly = c->id;
    }
}

static RtPsWorker *
worker_at(RtClosureQueue *q, uint32_t index)
{
    while ((uint32_t)q->workers.len <= index)
        VEC_PUSH(q->arena, q->workers, (RtPsWorker){.host = str_new(q->arena)});
    return &q->workers.data[index];
}

/* A new process: it knows nothing, but is this worker. */
static void
begin_anew(RtPsWorker *w, const RtPsHello *h, double now)
{
    RtPsWorker before = *w;
    *w = (RtPsWorker){.is_known = true,
                      .incarnation = h->incarnation,
                      .pid = h->pid,
                      .host = before.host,
                      .heard = now,
                      .num_done = before.num_done,
                      .num_returned = before.num_returned,
                      .taken = before.taken};
    memcpy(w->returned, before.returned, sizeof w->returned);
    w->host.len = 0;
    str_add(&w->host, h->host);
}

RtPsWorker *
rt_queue_join(RtClosureQueue *q, const RtPsHello *h, double now)
{
    RtPsWorker *w = worker_at(q, h->index);
    /* Clocks of machines differ, so of one that is lost that means nothing. */
    if (w->is_known && !w->is_lost && h->incarnation < w->incarnation)
        return NULL;
    if (w->is_known && h->incarnation == w->incarnation && h->pid == w->pid)
        return w; /* it says so again */
    if (w->is_known && h->crash)
        note_crash(q, w);
    if (w->is_known)
        replace(q, w);
    begin_anew(w, h, now);
    return w;
}

/* ---- elements of workers' datasets --------------------------------------- */

static RtTaken *
taken_of(RtClosureQueue *q, RtPsWorker *w, int iter)
{
    while (w->taken.len <= iter)
        VEC_PUSH(q->arena, w->taken, (RtTaken){0});
    return &w->taken.data[iter];
}

/* A closure takes the next elements of the worker that it goes to, unless it
 * had those of this one before. */
static void
feed(RtClosureQueue *q, RtPsWorker *w, RtClosure *c)
{
    if (c->owner == c->worker)
        return;
    c->owner = c->worker;
    for (int i = 0; i < c->feeds.len; i++) {
        RtFeed *f = &c->feeds.data[i];
        RtTaken *t = taken_of(q, w, f->iter);
        if (t->pass != f->pass)
            *t = (RtTaken){.pass = f->pass};
        f->index = t->count++;
    }
}

/* Whether w has no more of what the closure takes: but what it got before, it
 * has. */
static bool
has_no_elements(RtClosureQueue *q, RtPsWorker *w, const RtClosure *c)
{
    bool ended = false;
    if (c->owner == (int)(w - q->workers.data))
        return false;
    for (int i = 0; i < c->feeds.len; i++) {
        const RtTaken *t = taken_of(q, w, c->feeds.data[i].iter);
        ended |= t->has_ended && t->pass == c->feeds.data[i].pass;
    }
    return ended;
}

void
rt_queue_lacks_elements(RtClosureQueue *q, RtPsWorker *w, int64_t id)
{
    RtClosure *c = rt_queue_closure(q, id);
    if (!c || c->state != RT_CLOSURE_sent ||
        c->worker != (int)(w - q->workers.data) || c->feeds.len == 0)
        return;
    for (int i = 0; i < c->feeds.len; i++) {
        RtTaken *t = taken_of(q, w, c->feeds.data[i].iter);
        t->has_ended |= t->pass == c->feeds.data[i].pass;
    }
    c->state = RT_CLOSURE_waits;
    c->owner = -1;
    put_first(q, id);
}

const RtClosure *
rt_queue_without_elements(RtClosureQueue *q, int num_workers)
{
    const RtClosure *c = first_that_waits(q);
    if (!c || c->feeds.len == 0 || q->workers.len < num_workers)
        return NULL;
    for (int i = 0; i < q->workers.len; i++) {
        RtPsWorker *w = &q->workers.data[i];
        bool may_join = !w->is_known && i < num_workers;
        if (may_join ||
            (w->is_known && !w->is_lost && !has_no_elements(q, w, c)))
            return NULL;
    }
    return q->workers.len ? c : NULL;
}

void
rt_queue_taken_archive(RtClosureQueue *q, RtArchive *ar)
{
    int64_t workers = q->workers.len;
    rt_archive_count(ar, &workers, RT_PS_MOST_TASKS, sizeof(int64_t));
    for (int64_t i = 0; i < workers && !ar->wrong; i++) {
        RtPsWorker *w = worker_at(q, (uint32_t)i);
        int64_t iters = w->taken.len;
        rt_archive_count(ar, &iters, INT32_MAX, sizeof(int64_t));
        for (int64_t k = 0; k < iters; k++) {
            RtTaken *t = taken_of(q, w, (int)k);
            rt_archive_u64(ar, &t->pass);
            rt_archive_position(ar, &t->count);
        }
    }
}

/* ---- rounds -------------------------------------------------------------- */

void
rt_queue_end_round(RtClosureQueue *q)
{
    RtClosure *c = rt_queue_closure(q, q->last);
    if (c && !c->round)
        c->ends_round = true;
}

/* The closures of the next round, in order, that wait now: so many, and
 * whether they are all of it. */
static int64_t
next_round(RtClosureQueue *q, int64_t number, bool *all)
{
    int64_t num = 0;
    *all = false;
    for (int64_t i = 0; i < q->num_waiting && !*all; i++) {
        RtClosure *c = rt_queue_closure(q, q->waiting[(q->first + i) % RING]);
        if (!c || c->state != RT_CLOSURE_waits || c->round)
            continue;
        c->round = number;
        *all = ++num == q->rounds.of || c->ends_round;
    }
    return num;
}

void
rt_queue_open_round(RtClosureQueue *q)
{
    bool all;
    RtPsRounds *r = &q->rounds;
    if (!r->need || r->is_open || q->main_is_on)
        return;
    int64_t num = next_round(q, r->number + 1, &all);
    if (all) {
        rt_rounds_open(r, num);
        return;
    }
    for (int64_t i = 0; i < q->num_waiting && num; i++) {
        RtClosure *c = rt_queue_closure(q, q->waiting[(q->first + i) % RING]);
        if (c && c->round == r->number + 1)
            c->round = 0; /* it waits for the others */
    }
}

/* ---- sending ------------------------------------------------------------- */

/* Whether w has a closure that is executed alone. */
static bool
has_one_alone(RtClosureQueue *q, const RtPsWorker *w)
{
    if (w->num_in_flight != 1)
        return false;
    const RtClosure *c = rt_queue_closure(q, w->in_flight[0].id);
    return c && c->crashes;
}

static void
drop_returned(RtClosureQueue *q, RtPsWorker *w)
{
    memmove(w->returned, w->returned + 1,
            (size_t)--w->num_returned * sizeof *w->returned);
    q->num_returned--;
}

/* Which w gets next: one that its predecessor had, before those that anybody
 * may have. */
static RtClosure *
next_of(RtClosureQueue *q, RtPsWorker *w, bool *was_its)
{
    for (; w->num_returned; drop_returned(q, w)) {
        RtClosure *c = rt_queue_closure(q, w->returned[0]);
        *was_its = c && c->state == RT_CLOSURE_waits;
        if (*was_its)
            return c;
    }
    return first_that_waits(q);
}

/* How many closures w may have: under a bound no more than its share of those
 * that can be executed at once, for one that waits on a worker has begun. */
static int64_t
most_in_flight(const RtClosureQueue *q, const RtPsWorker *w)
{
    int64_t most = w->num_done && w->seconds < short_closure ? RT_PS_IN_FLIGHT
                                                             : FEW_IN_FLIGHT;
    int64_t num = 0;
    if (q->rounds.need)
        return 1;
    if (q->staleness.bound < 0)
        return most;
    for (int i = 0; i < q->workers.len; i++)
        num += q->workers.data[i].is_known && !q->workers.data[i].is_lost;
    int64_t share = num ? (q->staleness.bound + 1) / num : 1;
    return share < 1 ? 1 : share < most ? share : most;
}

static bool
has_enough(const RtClosureQueue *q, RtPsWorker *w)
{
    int64_t most = most_in_flight(q, w);
    if (w->num_in_flight >= most)
        w->is_filled = true;
    else if (w->num_in_flight <= most / 2)
        w->is_filled = false;
    return w->is_filled;
}

/* One that was with another worker goes before main, too. */
static bool
may_begin(const RtClosureQueue *q, const RtClosure *c)
{
    if (q->rounds.need && !c->round)
        return false;
    return (c->attempts || !q->main_waits) &&
           rt_staleness_may_begin(&q->staleness, c->id);
}

RtClosure *
rt_queue_send(RtClosureQueue *q, RtPsWorker *w, double now)
{
    if (has_enough(q, w) || has_one_alone(q, w))
        return NULL;
    bool was_its = false;
    RtClosure *c = next_of(q, w, &was_its);
    if (!c || (c->crashes && w->num_in_flight) || !may_begin(q, c) ||
        (!was_its && has_no_elements(q, w, c)))
        return NULL;
    if (was_its)
        drop_returned(q, w);
    else
        drop_first(q);
    rt_staleness_begin(&q->staleness, c->id);
    c->state = RT_CLOSURE_sent;
    c->worker = (int)(w - q->workers.data);
    c->attempts++;
    feed(q, w, c);
    w->in_flight[w->num_in_flight++] =
        (RtSent){++w->sent, c->id, c->attempts, now};
    return c;
}

void
rt_queue_take_from(RtPsWorker *w, int64_t id, double now)
{
    enum { WEIGHT = 8 }; /* of those before */
    for (int i = 0; i < w->num_in_flight; i++) {
        if (w->in_flight[i].id != id)
            continue;
        double took = (now - w->in_flight[i].at) / w->num_in_flight;
        w->seconds += (took - w->seconds) / (w->num_done ? WEIGHT : 1);
        w->num_done++;
        memmove(&w->in_flight[i], &w->in_flight[i + 1],
                (size_t)(--w->num_in_flight - i) * sizeof *w->in_flight);
        return;
    }
}
