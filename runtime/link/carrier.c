/*
 * carrier.c - the thread that moves messages beside the program
 *
 * Submitted jobs are on a stack that any thread pushes to and the carrier takes
 * as a whole.  Before it sleeps, the carrier says so and looks once more;
 * whoever submits looks whether it sleeps after the push (both seq_cst), so one
 * of them sees the other.
 */
#include "ir/base/clock.h"
#include "runtime/hal/system.h"
#include "runtime/link/carrier.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    NAP_NS = 20 * 1000, /* the first one; each is twice as long */
    MOST_NAP_NS = 200 * 1000,
    MOST_IDLE_NAP_NS = 10 * 1000 * 1000, /* with nothing in flight */
    MOST_SLEEP_NS = 100 * 1000 * 1000
};

static const double poll_seconds = 50e-6;

struct RtCarrier {
    RtLink *link;
    Arena *arena;
    pthread_t thread;
    int wake_fd;
    _Atomic(RtCarrierJob *) submitted; /* newest first */
    atomic_bool sleeps, stops, closes, has_stopped;
    RtWaitWord called; /* jobs of rt_carrier_call that have ended */

    /* The carrier's own. */
    RtTransfer *first, **last; /* in flight */
    RtCarrierListener *listeners;
    double event; /* when something last happened */
    long nap_ns;
    /* Sent; others read them. */
    _Atomic int64_t messages, bytes, near_messages, near_bytes;

    RtLinkTopology topology;
    pthread_mutex_t lock; /* of failure and listeners */
    Status failure;
};

int
rt_carrier_rank(const RtCarrier *c)
{
    return c->link->rank;
}

int
rt_carrier_size(const RtCarrier *c)
{
    return c->link->size;
}

const char *
rt_carrier_link(const RtCarrier *c)
{
    return c->link->ops->name;
}

bool
rt_carrier_has_near(const RtCarrier *c)
{
    return c->link->ops->is_near;
}

bool
rt_carrier_is_near(const RtCarrier *c, int peer)
{
    return rt_carrier_has_near(c) && c->link->ops->is_near(c->link, peer);
}

RtLinkTopology
rt_carrier_topology(const RtCarrier *c)
{
    return c->topology;
}

RtLinkCount
rt_carrier_sent(const RtCarrier *c)
{
    return (RtLinkCount){atomic_load(&c->messages), atomic_load(&c->bytes),
                         atomic_load(&c->near_messages),
                         atomic_load(&c->near_bytes)};
}

void
rt_carrier_set_topology(RtCarrier *c, RtLinkTopology topology)
{
    c->topology = topology;
}

bool
rt_carrier_has_stopped(const RtCarrier *c)
{
    return atomic_load(&c->stops) || atomic_load(&c->has_stopped);
}

Status
rt_carrier_failure(RtCarrier *c)
{
    Status st = OK;
    pthread_mutex_lock(&c->lock);
    if (c->failure)
        st = status_new(status_kind(c->failure), "%s",
                        status_message(c->failure));
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* ---- transfers ----------------------------------------------------------- */

static void
add(_Atomic int64_t *messages, _Atomic int64_t *bytes, const RtTransfer *t)
{
    atomic_fetch_add_explicit(messages, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(bytes, (int64_t)t->bytes, memory_order_relaxed);
}

static void
count(RtCarrier *c, const RtTransfer *t)
{
    add(&c->messages, &c->bytes, t);
    if (rt_carrier_is_near(c, t->peer))
        add(&c->near_messages, &c->near_bytes, t);
}

static void
begin(RtCarrier *c, RtTransfer *t, bool sends)
{
    assert(t->bytes > 0 && t->tag < RT_LINK_NUM_TAGS);
    if (atomic_load(&c->has_stopped))
        return;
    t->next = NULL;
    t->sends = sends;
    t->moved = 0;
    memset(t->handle, 0, sizeof t->handle);
    atomic_store(&t->has_ended, false);
    if (sends) {
        count(c, t);
        c->link->ops->send(c->link, t);
    } else {
        c->link->ops->recv(c->link, t);
    }
    *c->last = t;
    c->last = &t->next;
}

void
rt_carrier_send(RtCarrier *c, RtTransfer *t)
{
    begin(c, t, true);
}

void
rt_carrier_recv(RtCarrier *c, RtTransfer *t)
{
    begin(c, t, false);
}

void
rt_carrier_cancel(RtCarrier *c, RtTransfer *t)
{
    RtTransfer **at = &c->first;
    while (*at && *at != t)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = t->next;
    if (!*at)
        c->last = at;
    c->link->ops->cancel(c->link, t);
}

/* Those that have ended leave the list before their end is told: it may use
 * them again.  Whether there were any. */
static bool
end_transfers(RtCarrier *c)
{
    bool any = false;
    for (RtTransfer **at = &c->first; *at;) {
        RtTransfer *t = *at;
        if (!c->link->ops->test(c->link, t)) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        if (!*at)
            c->last = at;
        any = true;
        t->end(t);
    }
    return any;
}

/* ---- stopping ------------------------------------------------------------ */

static void
tell(const RtCarrier *c, RtCarrierListener *l)
{
    l->stopped(l, c->failure ? status_message(c->failure) : NULL);
}

/* The memory of transfers may be used for other things from now on. */
static void
stop(RtCarrier *c, Status failure)
{
    for (RtTransfer *t = c->first; t; t = t->next)
        c->link->ops->cancel(c->link, t);
    c->first = NULL;
    c->last = &c->first;
    pthread_mutex_lock(&c->lock);
    c->failure = failure;
    atomic_store(&c->has_stopped, true);
    for (RtCarrierListener *l = c->listeners; l; l = l->next)
        tell(c, l);
    pthread_mutex_unlock(&c->lock);
}

static bool
shall_stop(RtCarrier *c)
{
    return atomic_load(&c->stops) && !atomic_load(&c->has_stopped);
}

/* ---- the thread ---------------------------------------------------------- */

static RtCarrierJob *
oldest_first(RtCarrierJob *job)
{
    RtCarrierJob *list = NULL;
    while (job) {
        RtCarrierJob *next = job->next;
        job->next = list;
        list = job;
        job = next;
    }
    return list;
}

static bool
run_jobs(RtCarrier *c)
{
    if (!atomic_load_explicit(&c->submitted, memory_order_relaxed))
        return false;
    RtCarrierJob *job = oldest_first(atomic_exchange(&c->submitted, NULL));
    while (job) {
        RtCarrierJob *next = job->next;
        job->run(job);
        job = next;
    }
    return true;
}

/* Whether anything has happened. */
static bool
work(RtCarrier *c)
{
    bool moved = run_jobs(c);
    if (shall_stop(c)) {
        stop(c, OK);
        return true;
    }
    if (atomic_load(&c->has_stopped))
        return moved;
    Status st = c->link->ops->progress(c->link, &moved);
    if (st) {
        stop(c, st);
        return true;
    }
    bool ended = end_transfers(c);
    return ended || moved;
}

static long
next_nap(RtCarrier *c)
{
    long most = c->first ? MOST_NAP_NS : MOST_IDLE_NAP_NS, ns = c->nap_ns;
    if (ns > most)
        ns = most;
    c->nap_ns = 2 * ns;
    return ns;
}

static void
sleep_on(RtCarrier *c)
{
    struct pollfd fds[] = {{c->wake_fd, POLLIN, 0}, {-1, POLLIN, 0}};
    bool has_stopped = atomic_load(&c->has_stopped);
    uint64_t count;
    if (!has_stopped)
        fds[1].fd = c->link->ops->wait_fd(c->link);
    long ns = fds[1].fd < 0 && !has_stopped ? next_nap(c) : MOST_SLEEP_NS;
    atomic_store(&c->sleeps, true);
    if (!atomic_load(&c->submitted) && !shall_stop(c) &&
        !atomic_load(&c->closes))
        ppoll(fds, 2, &(struct timespec){0, ns}, NULL);
    atomic_store(&c->sleeps, false);
    if (fds[0].revents && read(c->wake_fd, &count, sizeof count) < 0)
        assert(errno == EAGAIN || errno == EINTR);
}

static void
rest(RtCarrier *c)
{
    if (c->first && clock_seconds() - c->event < poll_seconds)
        sched_yield();
    else
        sleep_on(c);
}

static void *
carry(void *data)
{
    RtCarrier *c = data;
    prctl(PR_SET_NAME, "tfd-carrier");
    prctl(PR_SET_TIMERSLACK, 1000L);
    for (;;) {
        if (work(c)) {
            c->event = clock_seconds();
            c->nap_ns = NAP_NS;
        } else if (atomic_load(&c->closes) && !c->first) {
            break;
        } else {
            rest(c);
        }
    }
    return NULL;
}

static void
wake(RtCarrier *c)
{
    uint64_t one = 1;
    if (atomic_load(&c->sleeps) &&
        write(c->wake_fd, &one, sizeof one) != sizeof one)
        assert(errno == EAGAIN || errno == EINTR);
}

void
rt_carrier_submit(RtCarrier *c, RtCarrierJob *job)
{
    RtCarrierJob *top = atomic_load(&c->submitted);
    do
        job->next = top;
    while (!atomic_compare_exchange_weak(&c->submitted, &top, job));
    wake(c);
}

void
rt_carrier_stop(RtCarrier *c)
{
    atomic_store(&c->stops, true);
    wake(c);
}

/* ---- calls --------------------------------------------------------------- */

typedef struct Call {
    RtCarrierJob job;
    RtCarrierJob *inner;
    RtCarrier *carrier;
    atomic_bool has_ended;
} Call;

static void
run_call(RtCarrierJob *job)
{
    Call *call = job->owner;
    RtCarrier *c = call->carrier;
    call->inner->run(call->inner);
    atomic_store(&call->has_ended, true); /* and call is gone */
    rt_wait_word_add(&c->called, 1);
}

void
rt_carrier_call(RtCarrier *c, RtCarrierJob *job)
{
    Call call = {.inner = job, .carrier = c};
    call.job = (RtCarrierJob){run_call, &call, NULL};
    rt_carrier_submit(c, &call.job);
    for (;;) {
        uint32_t seen = rt_wait_word_load(&c->called);
        if (atomic_load(&call.has_ended))
            return;
        rt_wait_word_wait(&c->called, seen, false);
    }
}

/* ---- listeners ----------------------------------------------------------- */

void
rt_carrier_listen(RtCarrier *c, RtCarrierListener *l)
{
    pthread_mutex_lock(&c->lock);
    l->next = c->listeners;
    c->listeners = l;
    if (atomic_load(&c->has_stopped))
        tell(c, l);
    pthread_mutex_unlock(&c->lock);
}

void
rt_carrier_unlisten(RtCarrier *c, RtCarrierListener *l)
{
    pthread_mutex_lock(&c->lock);
    RtCarrierListener **at = &c->listeners;
    while (*at && *at != l)
        at = &(*at)->next;
    if (*at)
        *at = l->next;
    pthread_mutex_unlock(&c->lock);
}

/* ---- opening and closing ------------------------------------------------- */

static void
give_back(RtCarrier *c)
{
    /* Its thread may not have come to a stop of just now. */
    c->link->ops->close(c->link, rt_carrier_has_stopped(c));
    if (c->wake_fd >= 0)
        close(c->wake_fd);
    status_free(c->failure);
    pthread_mutex_destroy(&c->lock);
    arena_release(c->arena);
}

static Status
start(RtCarrier *c, const RtLinkAddress *all)
{
    c->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (c->wake_fd < 0)
        return rt_system_error("eventfd");
    c->link->wake_fd = c->wake_fd;
    TRY(c->link->ops->connect(c->link, all));
    errno = pthread_create(&c->thread, NULL, carry, c);
    return errno ? rt_system_error("a thread") : OK;
}

Status
rt_carrier_open(RtLink *link, const RtLinkAddress *all, RtCarrier **out)
{
    Arena *a = arena_new(NULL, "messages");
    RtCarrier *c = arena_alloc_on_lines(a, sizeof *c);
    c->link = link;
    c->arena = a;
    c->last = &c->first;
    c->nap_ns = NAP_NS;
    c->topology = (RtLinkTopology){1, {20e-6, 1e9}, {20e-6, 1e9}};
    pthread_mutex_init(&c->lock, NULL);
    Status st = start(c, all);
    if (st) {
        give_back(c);
        return st;
    }
    *out = c;
    return OK;
}

void
rt_carrier_close(RtCarrier *c)
{
    atomic_store(&c->closes, true);
    wake(c);
    pthread_join(c->thread, NULL);
    give_back(c);
}
