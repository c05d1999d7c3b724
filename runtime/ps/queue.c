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

/* Those that ended while they waited are passed over. */
static RtClosure *
take_first(RtClosureQueue *q)
{
    while (q->num_waiting) {
        RtClosure *c = rt_queue_closure(q, q->waiting[q->first]);
        q->first = (q->first + 1) % RING;
        q->num_waiting--;
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
    f->is_there = false;
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
    c->worker = -1;
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
    if (has_results)
        c->future = new_future(q, c->id);
    put_last(q, c->id);
    return c;
}

RtClosure *
rt_queue_add_mains(RtClosureQueue *q)
{
    return add(q, RT_CLOSURE_mains);
}

bool
rt_queue_end(RtClosureQueue *q, int64_t id, const char *bytes, size_t n)
{
    RtClosure *c = rt_queue_closure(q, id);
    if (!c)
        return false;
    RtFuture *f = c->future;
    c->state = RT_CLOSURE_ended;
    c->future = NULL;
    q->num_open--;
    while (q->low < q->next && slot(q, q->low)->state == RT_CLOSURE_ended)
        q->low++;
    if (f) {
        str_addn(&f->bytes, bytes, n);
        f->is_there = true;
        free_if_unused(q, f);
    }
    return true;
}

void
rt_queue_cancel(RtClosureQueue *q)
{
    for (RtClosure *c; (c = take_first(q));)
        rt_queue_end(q, c->id, NULL, 0);
}

/* ---- workers ------------------------------------------------------------ */

RtPsWorker *
rt_queue_worker(RtClosureQueue *q, uint32_t index)
{
    if (index >= (uint32_t)q->workers.len || !q->workers.data[index].is_known)
        return NULL;
    return &q->workers.data[index];
}

void
rt_queue_lose(RtClosureQueue *q, RtPsWorker *w)
{
    int number = (int)(w - q->workers.data);
    for (int i = w->num_in_flight - 1; i >= 0; i--) {
        RtClosure *c = rt_queue_closure(q, w->in_flight[i].id);
        if (!c || c->state != RT_CLOSURE_sent || c->worker != number)
            continue;
        c->state = RT_CLOSURE_waits;
        put_first(q, c->id);
        q->num_put_back++;
    }
}

RtPsWorker *
rt_queue_join(RtClosureQueue *q, const RtPsHello *h, double now)
{
    while ((uint32_t)q->workers.len <= h->index)
        VEC_PUSH(q->arena, q->workers, (RtPsWorker){0});
    RtPsWorker *w = &q->workers.data[h->index];
    if (w->is_known && h->incarnation < w->incarnation)
        return NULL;
    if (w->is_known && h->incarnation == w->incarnation && h->pid == w->pid)
        return w; /* it says so again */
    if (w->is_known)
        rt_queue_lose(q, w);
    int64_t done = w->num_done;
    *w = (RtPsWorker){.is_known = true,
                      .incarnation = h->incarnation,
                      .pid = h->pid,
                      .host = arena_strdup(q->arena, h->host),
                      .heard = now,
                      .num_done = done};
    return w;
}

RtClosure *
rt_queue_send(RtClosureQueue *q, RtPsWorker *w, double now)
{
    int most = w->num_done && w->seconds < short_closure ? RT_PS_IN_FLIGHT
                                                         : FEW_IN_FLIGHT;
    if (w->num_in_flight >= most)
        return NULL;
    RtClosure *c = take_first(q);
    if (!c)
        return NULL;
    c->state = RT_CLOSURE_sent;
    c->worker = (int)(w - q->workers.data);
    w->in_flight[w->num_in_flight++] = (RtSent){++w->sent, c->id, now};
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
