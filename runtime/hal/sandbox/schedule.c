/*
 * schedule.c - who has the token
 *
 * Nothing is executed until the host waits for an event: then queues get turns
 * until it has happened.  A turn is an operation, or the part of one from where
 * it waited, or let others go first, to where it does so again.  The seed
 * chooses among the queues that can go on; seed 0 takes the one that the event
 * depends on.  So the same calls of the host lead to the same order.
 *
 * Where nothing can go on but for words that other threads may change, or for
 * waits that may end without a change, a tenth of a second passes.
 *
 * TFD_SANDBOX=engine is without a token: see engine_*.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include "ir/base/clock.h"
#include "ir/base/fail.h"
#include "ir/base/thread.h"
#include "runtime/hal/sandbox/sandbox_impl.h"
#include "runtime/hal/wait.h"

static const double BOUND = 0.1; /* seconds of the host's waits */

enum {
    SOMETIMES = 8,  /* one time in so many */
    MOST_TURNS = 4, /* before an operation is added */
    REORDERS = 16,  /* turns until a queue gets another priority */
    FIRST_CAPACITY = 64,
    DEEP = 1000 /* events that depend on each other */
};

World rt_sandbox_world = {.lock = PTHREAD_MUTEX_INITIALIZER,
                          .host = PTHREAD_COND_INITIALIZER,
                          .host_lock = PTHREAD_MUTEX_INITIALIZER};
_Thread_local Queue *rt_sandbox_current;

static World *const world = &rt_sandbox_world;

static Queue *
queue_of(RtEvent e)
{
    return (Queue *)e.queue;
}

/* ---- chance ------------------------------------------------------------- */

/* splitmix64 */
static uint64_t
next_random(void)
{
    uint64_t x = world->random += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

uint64_t
rt_sandbox_random(uint64_t n)
{
    return next_random() % n;
}

static bool
is_random(void)
{
    return world->options.seed && !world->options.is_engine;
}

/* ---- what can go on ----------------------------------------------------- */

static const Op *
head(const Queue *q)
{
    return q->completed == q->enqueued
               ? NULL
               : &q->ops[q->completed & (q->capacity - 1)];
}

static bool
has_happened(RtEvent e)
{
    return !e.queue || queue_of(e)->completed >= e.value;
}

static bool
is_over(const Op *op)
{
    return op && op->kind == DO_WAIT_EVENT && has_happened(op->event);
}

/* Waits of queues that are over are nobody's turn; one may end another's. */
static void
skip_waits(void)
{
    bool again = true;
    while (again) {
        again = false;
        for (Sandbox *s = world->first; s; s = s->next) {
            for (int k = 0; k < NUM_QUEUES; k++) {
                Queue *q = &s->queues[k];
                bool skips = q->state == STATE_BETWEEN && is_over(head(q));
                q->completed += skips;
                again |= skips;
            }
        }
    }
}

static bool
can_go_on(const Queue *q)
{
    switch (q->state) {
    case STATE_BETWEEN:
        return head(q) && head(q)->kind != DO_WAIT_EVENT;
    case STATE_WITHIN:
        return true;
    case STATE_WAITS_WORD:
        return q->has_waited || rt_wait_word_load(q->word) != q->old;
    case STATE_WAITS_EVENT:
        return q->has_waited || has_happened(q->event);
    }
    return false;
}

/* Calls f for all queues, those of programs first. */
static Queue *
find_queue(bool (*f)(const Queue *q))
{
    static const RtQueueKind order[] = {QUEUE_COMPUTE, QUEUE_COLL, QUEUE_COPY};
    for (int k = 0; k < NUM_QUEUES; k++)
        for (Sandbox *s = world->first; s; s = s->next)
            if (f(&s->queues[order[k]]))
                return &s->queues[order[k]];
    return NULL;
}

/* ---- whose turn it is --------------------------------------------------- */

/* What the host waits for: an event, or that a device has nothing to do. */
typedef struct Goal {
    RtEvent event;
    Sandbox *drained;
} Goal;

static RtEvent
last_of(Queue *q)
{
    return (RtEvent){&q->queue, q->enqueued};
}

/* The first event of the goal that has not happened. */
static RtEvent
missing(const Goal *g)
{
    for (int k = 0; g->drained && k < NUM_QUEUES; k++)
        if (!has_happened(last_of(&g->drained->queues[k])))
            return last_of(&g->drained->queues[k]);
    return g->event;
}

/* The queue that has to go on for e to happen; NULL: not known. */
static Queue *
needed_for(RtEvent e)
{
    for (int i = 0; i < DEEP && e.queue; i++) {
        Queue *q = queue_of(e);
        if (can_go_on(q))
            return q;
        if (q->state == STATE_WAITS_WORD)
            return NULL;
        if (q->state == STATE_WAITS_EVENT)
            e = q->event;
        else
            e = head(q) ? head(q)->event : (RtEvent){0};
    }
    return NULL;
}

static bool
is_before(const Queue *a, const Queue *b)
{
    return !b || a->priority > b->priority;
}

/* Each queue with the same probability, or, by even seeds, by priorities that
 * seldom change, so that some queues are late for long. */
static Queue *
choose_by_seed(void)
{
    Queue *chosen = NULL;
    bool has_priorities = world->options.seed % 2 == 0;
    uint64_t n = 0;
    for (Sandbox *s = world->first; s; s = s->next) {
        for (int k = 0; k < NUM_QUEUES; k++) {
            Queue *q = &s->queues[k];
            if (!can_go_on(q))
                continue;
            n++;
            if (has_priorities ? is_before(q, chosen)
                               : rt_sandbox_random(n) == 0)
                chosen = q;
        }
    }
    if (chosen && has_priorities && rt_sandbox_random(REORDERS) == 0)
        chosen->priority = next_random();
    return chosen;
}

static bool
is_reached(const Goal *g)
{
    return has_happened(missing(g));
}

/* NULL: none can go on. */
static Queue *
choose(const Goal *g)
{
    if (is_random())
        return choose_by_seed();
    Queue *needed = needed_for(missing(g));
    return needed ? needed : find_queue(can_go_on);
}

/* ---- turns -------------------------------------------------------------- */

static void
trace_turn(const Queue *q)
{
    if (world->options.trace)
        fprintf(stderr, "sandbox: turn %llu: %s %s %s %s\n",
                (unsigned long long)world->turns, q->sandbox->device.name,
                rt_sandbox_queue_name(q->kind),
                q->state == STATE_BETWEEN ? "begins" : "goes on with",
                rt_sandbox_op_name(head(q)->kind));
}

/* The host, which has the token and the lock, gives it to q and gets it back.
 */
static void
give_turn(Queue *q)
{
    world->turns++;
    trace_turn(q);
    q->state = STATE_WITHIN;
    world->holder = q;
    pthread_cond_signal(&q->turn);
    while (world->holder)
        pthread_cond_wait(&world->host, &world->lock);
}

static void
return_token(void)
{
    world->holder = NULL;
    pthread_cond_signal(&world->host);
}

/* The thread of q lets others have turns until it can go on. */
static void
stand_aside(Queue *q, QueueState state)
{
    pthread_mutex_lock(&world->lock);
    q->state = state;
    q->has_waited = false;
    return_token();
    while (world->holder != q)
        pthread_cond_wait(&q->turn, &world->lock);
    pthread_mutex_unlock(&world->lock);
    rt_sandbox_apply_view(q->sandbox, q->view);
}

void
rt_sandbox_see(Queue *q, View view)
{
    q->view = view;
    rt_sandbox_apply_view(q->sandbox, view);
}

static bool
is_other_that_can_go_on(const Queue *q)
{
    return q != rt_sandbox_current && can_go_on(q);
}

void
rt_sandbox_yield(Queue *q, uint64_t odds)
{
    if (!is_random() || rt_sandbox_random(odds))
        return;
    if (find_queue(is_other_that_can_go_on))
        stand_aside(q, STATE_WITHIN);
}

/* ---- waits -------------------------------------------------------------- */

static bool
waits_for_word(const Queue *q)
{
    return q->state == STATE_WAITS_WORD;
}

static bool
waits_within(const Queue *q)
{
    return q->state == STATE_WAITS_WORD || q->state == STATE_WAITS_EVENT;
}

static void
explain_deadlock(void)
{
    for (Sandbox *s = world->first; s; s = s->next) {
        for (int k = 0; k < NUM_QUEUES; k++) {
            const Queue *q = &s->queues[k];
            const Queue *other = head(q) ? queue_of(head(q)->event) : NULL;
            if (other)
                fprintf(stderr, "sandbox: %s %s waits for %s %s\n",
                        s->device.name, rt_sandbox_queue_name(q->kind),
                        other->sandbox->device.name,
                        rt_sandbox_queue_name(other->kind));
        }
    }
    rt_sandbox_complain("nothing can go on, and what the host waits for has "
                        "not happened");
}

/* Ends the waits of all queues, after a tenth of a second or a change. */
static void
pass_time(void)
{
    Queue *q = find_queue(waits_for_word);
    if (!find_queue(waits_within))
        explain_deadlock();
    pthread_mutex_unlock(&world->lock);
    if (q)
        rt_wait_word_wait(q->word, q->old, false);
    pthread_mutex_lock(&world->lock);
    for (Sandbox *s = world->first; s; s = s->next)
        for (int k = 0; k < NUM_QUEUES; k++)
            s->queues[k].has_waited = waits_within(&s->queues[k]);
}

/* Gives turns until the goal is reached, for as long as a wait may take. */
static void
run_until(const Goal *g)
{
    double end = clock_seconds() + BOUND;
    bool has_idled = false;
    for (skip_waits(); !is_reached(g); skip_waits()) {
        Queue *q = choose(g);
        if (clock_seconds() > end || (!q && has_idled))
            return;
        if (q)
            give_turn(q);
        else
            pass_time();
        has_idled |= !q;
    }
}

static void
enter_world(void)
{
    pthread_mutex_lock(&world->host_lock);
    pthread_mutex_lock(&world->lock);
}

static void
leave_world(void)
{
    rt_sandbox_apply_view(NULL, VIEW_NONE);
    pthread_mutex_unlock(&world->lock);
    pthread_mutex_unlock(&world->host_lock);
}

/* ---- TFD_SANDBOX=engine: queues at the same time ------------------------- */

static bool
engine_sleep_until(RtEvent e)
{
    struct timespec end = rt_time_after(BOUND);
    pthread_mutex_lock(&world->lock);
    int timed_out = 0;
    while (!has_happened(e) && !timed_out)
        timed_out = pthread_cond_clockwait(&world->host, &world->lock,
                                           CLOCK_MONOTONIC, &end);
    bool happened = has_happened(e);
    pthread_mutex_unlock(&world->lock);
    return happened;
}

/* The next operation, and its number; false: the queue is closed. */
static bool
engine_take(Queue *q, Op *op)
{
    pthread_mutex_lock(&world->lock);
    while (!q->is_closing && !head(q))
        pthread_cond_wait(&q->turn, &world->lock);
    bool found = head(q) != NULL;
    if (found)
        *op = *head(q);
    while (found && op->kind == DO_WAIT_EVENT && !has_happened(op->event))
        pthread_cond_wait(&world->host, &world->lock);
    pthread_mutex_unlock(&world->lock);
    return found;
}

static void
engine_complete(Queue *q)
{
    pthread_mutex_lock(&world->lock);
    q->completed++;
    pthread_cond_broadcast(&world->host);
    pthread_mutex_unlock(&world->lock);
}

static void
engine_serve(Queue *q)
{
    Op op;
    while (engine_take(q, &op)) {
        if (op.kind != DO_WAIT_EVENT)
            rt_sandbox_execute(q, &op);
        engine_complete(q);
    }
}

static void
engine_drain(Sandbox *s)
{
    for (int k = 0; k < NUM_QUEUES; k++) {
        pthread_mutex_lock(&world->lock);
        RtEvent last = last_of(&s->queues[k]);
        pthread_mutex_unlock(&world->lock);
        while (!engine_sleep_until(last))
            ;
    }
}

/* ---- the functions of devices ------------------------------------------- */

bool
rt_sandbox_wait(RtEvent e)
{
    Queue *q = rt_sandbox_current;
    if (world->options.is_engine)
        return engine_sleep_until(e);
    if (q) { /* a program that waits for a collective */
        q->event = e;
        if (!has_happened(e))
            stand_aside(q, STATE_WAITS_EVENT);
        if (has_happened(e))
            rt_sandbox_clock_waited(e);
        return has_happened(e);
    }
    Goal goal = {.event = e};
    enter_world();
    if (e.queue && e.value > queue_of(e)->enqueued)
        rt_sandbox_complain("the host waits for an event that was never "
                            "recorded");
    run_until(&goal);
    bool reached = is_reached(&goal);
    if (reached)
        rt_sandbox_clock_waited(e);
    leave_world();
    return reached;
}

uint32_t
rt_sandbox_wait_word(RtDevice *d, RtWaitWord *word, uint32_t old)
{
    Queue *q = rt_sandbox_current;
    (void)d;
    if (!q || world->options.is_engine)
        return rt_wait_word_wait(word, old, false);
    if (is_random() && rt_sandbox_random(SOMETIMES) == 0) {
        rt_sandbox_yield(q, 1); /* and ends without a change */
        return rt_wait_word_load(word);
    }
    q->word = word;
    q->old = old;
    if (rt_wait_word_load(word) == old)
        stand_aside(q, STATE_WAITS_WORD);
    return rt_wait_word_load(word);
}

void
rt_sandbox_drain(Sandbox *s)
{
    Goal goal = {.drained = s};
    if (world->options.is_engine) {
        engine_drain(s);
        return;
    }
    enter_world();
    while (!is_reached(&goal))
        run_until(&goal);
    leave_world();
}

/* Events of a device that has nothing to do have all happened. */
static void
forget_queue(Queue *q, const Sandbox *gone)
{
    for (uint64_t i = q->completed; i < q->enqueued; i++) {
        Op *op = &q->ops[i & (q->capacity - 1)];
        if (op->event.queue && op->event.queue->device == &gone->device)
            op->event = (RtEvent){0};
    }
    if (q->event.queue && q->event.queue->device == &gone->device)
        q->event = (RtEvent){0};
}

void
rt_sandbox_leave(Sandbox *gone)
{
    pthread_mutex_lock(&world->lock);
    Sandbox **at = &world->first;
    while (*at && *at != gone)
        at = &(*at)->next;
    if (*at)
        *at = gone->next;
    for (Sandbox *s = world->first; s; s = s->next)
        for (int k = 0; k < NUM_QUEUES; k++)
            forget_queue(&s->queues[k], gone);
    pthread_mutex_unlock(&world->lock);
}

/* ---- adding operations -------------------------------------------------- */

static void
grow(Queue *q)
{
    uint64_t capacity = q->capacity ? 2 * q->capacity : FIRST_CAPACITY;
    Op *ops = calloc(capacity, sizeof *ops);
    if (!ops)
        rt_sandbox_complain("no memory for %llu operations",
                            (unsigned long long)capacity);
    for (uint64_t i = q->completed; i < q->enqueued; i++)
        ops[i & (capacity - 1)] = q->ops[i & (q->capacity - 1)];
    free(q->ops);
    q->ops = ops;
    q->capacity = capacity;
}

/* Some turns before the host goes on, as if the device were fast. */
static void
run_ahead(void)
{
    Goal none = {{0}, NULL};
    enter_world();
    for (uint64_t n = rt_sandbox_random(MOST_TURNS); n; n--) {
        skip_waits();
        Queue *q = choose(&none);
        if (q)
            give_turn(q);
    }
    leave_world();
}

void
rt_sandbox_enqueue(Queue *q, const Op *op)
{
    pthread_mutex_lock(&world->lock);
    if (q->enqueued - q->completed == q->capacity)
        grow(q);
    Op *added = &q->ops[q->enqueued & (q->capacity - 1)];
    *added = *op;
    rt_sandbox_clock_enqueue(q, added);
    q->enqueued++;
    RtEvent end = last_of(q);
    pthread_cond_signal(&q->turn); /* engine */
    pthread_mutex_unlock(&world->lock);
    if (world->options.has_no_overlap && q->kind == QUEUE_COLL)
        while (!rt_sandbox_wait(end))
            ;
    if (is_random() && rt_sandbox_random(SOMETIMES) == 0) {
        if (rt_sandbox_current)
            rt_sandbox_yield(rt_sandbox_current, 1);
        else
            run_ahead();
    }
}

/* ---- threads ------------------------------------------------------------ */

/* false: the queue is closed. */
static bool
take_turn(Queue *q, Op *op)
{
    pthread_mutex_lock(&world->lock);
    while (world->holder != q && !q->is_closing)
        pthread_cond_wait(&q->turn, &world->lock);
    bool has_turn = world->holder == q;
    if (has_turn)
        *op = *head(q);
    pthread_mutex_unlock(&world->lock);
    return has_turn;
}

static void
end_turn(Queue *q)
{
    pthread_mutex_lock(&world->lock);
    q->completed++;
    q->state = STATE_BETWEEN;
    return_token();
    pthread_mutex_unlock(&world->lock);
}

static void *
serve(void *data)
{
    Op op;
    Queue *q = rt_sandbox_current = data;
    if (world->options.is_engine) {
        engine_serve(q);
        return NULL;
    }
    while (take_turn(q, &op)) {
        rt_sandbox_clock_begin(q, &op);
        rt_sandbox_execute(q, &op);
        rt_sandbox_clock_end(q, &op);
        end_turn(q);
    }
    return NULL;
}

Status
rt_sandbox_start(Queue *q)
{
    pthread_cond_init(&q->turn, NULL);
    q->priority = next_random();
    TRY(thread_start(&q->thread, serve, q, q->sandbox->device.name));
    q->has_thread = true;
    return OK;
}

void
rt_sandbox_join(Queue *q)
{
    if (!q->has_thread)
        return;
    pthread_mutex_lock(&world->lock);
    q->is_closing = true;
    pthread_cond_signal(&q->turn);
    pthread_mutex_unlock(&world->lock);
    pthread_join(q->thread, NULL);
    pthread_cond_destroy(&q->turn);
    free(q->ops);
}
