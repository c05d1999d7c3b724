/*
 * dispatcher.c - the coordinator's thread, and what main calls
 *
 * Whoever is silent is lost: a worker's closures go to others, and it may come
 * back; a server's variables are nowhere else, so the job fails.
 */
#include "runtime/ps/dispatcher.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "ir/base/thread.h"
#include "runtime/hal/system.h"
#include "runtime/data/data.h"
#include "runtime/ps/dispatcher_impl.h"

/* Seconds. */
static const double usual_silence = 2;
static const double evaluators_start = 5;

enum { TURN_MS = 50 };

/* ---- the thread --------------------------------------------------------- */

static void
look_for_lost(RtDispatcher *d, double now)
{
    RtClosureQueue *q = &d->queue;
    for (int i = 0; i < q->workers.len; i++) {
        RtPsWorker *w = &q->workers.data[i];
        if (!w->is_known || w->is_lost || now - w->heard < d->silence)
            continue;
        w->is_lost = true;
        rt_queue_lose(q, w);
    }
    for (int i = 0; i < d->config.task->num_servers; i++) {
        RtDispatcherServer *s = &d->servers[i];
        if (!s->is_known || now - s->heard < d->silence || d->failure)
            continue;
        d->has_lost_server = true;
        rt_dispatcher_fail(
            d, status_new(STATUS_MACHINE,
                          "server %d (%s, pid %lld), which holds variables, "
                          "has not been heard for %.1f s",
                          i, str_text(&s->host), (long long)s->pid,
                          now - s->heard));
    }
}

static void
take_messages(RtDispatcher *d, double now)
{
    enum { MOST_AT_ONCE = 1000 };
    RtPsRoute from;
    zmq_msg_t m;
    d->net->zmq->zmq_msg_init(&m);
    for (int i = 0;
         i < MOST_AT_ONCE && rt_ps_next_from(&d->listener, &from, &m); i++)
        rt_dispatcher_receive(d, &from, &m, now);
    d->net->zmq->zmq_msg_close(&m);
}

/* A process that was stopped itself has heard nobody. */
static void
forgive(RtDispatcher *d, double now)
{
    for (int i = 0; i < d->queue.workers.len; i++)
        d->queue.workers.data[i].heard = now;
    for (int i = 0; i < d->config.task->num_servers; i++)
        d->servers[i].heard = now;
}

static void *
dispatch(void *data)
{
    RtDispatcher *d = data;
    RtPsSocket bell = {.fd = d->bell};
    RtPsSocket *sockets[] = {&bell, &d->listener.router, &d->listener.zap};
    double last = clock_seconds();
    for (bool closing = false; !closing;) {
        uint64_t rings;
        rt_ps_poll(d->net, sockets, 3, TURN_MS);
        if (bell.has_news && read(d->bell, &rings, sizeof rings) < 0)
            rings = 0; /* it was not rung */
        bell.has_news = false;
        double now = clock_seconds();
        pthread_mutex_lock(&d->lock);
        if (now - last > d->silence / 2)
            forgive(d, now);
        take_messages(d, now);
        look_for_lost(d, now);
        rt_dispatcher_welcome(d);
        rt_dispatcher_send_cancels(d);
        rt_dispatcher_send_commits(d, now);
        rt_queue_open_round(&d->queue);
        rt_dispatcher_feed(d, now);
        rt_dispatcher_look_for_elements(d, now);
        rt_dispatcher_ask_states(d, now);
        closing = d->closing;
        pthread_mutex_unlock(&d->lock);
        last = now;
    }
    return NULL;
}

/* ---- opening and closing ------------------------------------------------ */

static Status
announce(const RtDispatcher *d)
{
    char port[16];
    snprintf(port, sizeof port, "%d", d->listener.port);
    return rt_ps_announce(d->config.task->announce_fd, port);
}

static Status
start(RtDispatcher *d)
{
    const RtTaskOptions *task = d->config.task;
    d->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->bell < 0)
        return rt_system_error("eventfd");
    if (getrandom(&d->job, sizeof d->job, 0) != (ssize_t)sizeof d->job)
        return rt_system_error("getrandom");
    d->job |= 1; /* 0 is none */
    TRY(rt_ps_listen(d->net, task->listen ? task->listen : "127.0.0.1:0",
                     &d->listener));
    TRY(announce(d));
    TRY(thread_start(&d->thread, dispatch, d, "the coordinator"));
    d->has_thread = true;
    return OK;
}

Status
rt_dispatcher_open(RtPsNet *net, const RtDispatcherConfig *config,
                   RtDispatcher **out)
{
    Arena *a = arena_new(NULL, "the coordinator");
    RtDispatcher *d = arena_alloc_on_lines(a, sizeof *d);
    d->arena = a;
    d->net = net;
    d->config = *config;
    d->silence =
        config->task->silence > 0 ? config->task->silence : usual_silence;
    d->servers =
        NEW_ARRAY(a, RtDispatcherServer, (size_t)config->task->num_servers);
    for (int i = 0; i < config->task->num_servers; i++)
        d->servers[i] =
            (RtDispatcherServer){.host = str_new(a), .address = str_new(a)};
    d->batch.committed = NEW_ARRAY(a, bool, (size_t)config->task->num_servers);
    d->out = rt_archive_writer(a, 0);
    d->params = str_new(a);
    d->states = (RtPsStates){.arena = a};
    d->deals = (RtPsDeals){.arena = a};
    d->bell = -1;
    rt_queue_init(&d->queue, a);
    d->queue.staleness.bound = config->task->staleness;
    d->queue.rounds = (RtPsRounds){.need = config->task->sync_need,
                                   .of = config->task->sync_of};
    pthread_mutex_init(&d->lock, NULL);
    Status st = start(d);
    if (st)
        rt_dispatcher_close(d);
    else
        *out = d;
    return st;
}

static void
ring(RtDispatcher *d)
{
    uint64_t one = 1;
    if (write(d->bell, &one, sizeof one) < 0 && errno != EAGAIN)
        rt_wait_word_wake(&d->news); /* the thread looks by itself, too */
}

/* Those that do not hear it end when the coordinator is silent. */
static void
end_all(RtDispatcher *d)
{
    rt_ps_begin(&d->out, RT_PS_END);
    for (int i = 0; i < d->queue.workers.len; i++)
        rt_ps_send_to(&d->listener, &d->queue.workers.data[i].route, &d->out);
    for (int i = 0; i < d->config.task->num_servers; i++)
        rt_ps_send_to(&d->listener, &d->servers[i].route, &d->out);
    rt_ps_send_to(&d->listener, &d->evaluator, &d->out);
}

void
rt_dispatcher_close(RtDispatcher *d)
{
    if (d->has_thread) {
        pthread_mutex_lock(&d->lock);
        d->closing = true;
        pthread_mutex_unlock(&d->lock);
        ring(d);
        pthread_join(d->thread, NULL);
        end_all(d);
    }
    rt_ps_listener_close(&d->listener);
    if (d->bell >= 0)
        close(d->bell);
    status_free(d->failure);
    pthread_mutex_destroy(&d->lock);
    arena_release(d->arena);
}

/* ---- main --------------------------------------------------------------- */

typedef RtDispatcherCondition Condition;

void
rt_dispatcher_wake(RtDispatcher *d)
{
    if (d->awaited && d->awaited(d, d->awaited_data))
        rt_wait_word_add(&d->news, 1);
}

/* Waits, with the lock, until the condition holds. */
static Status
wait_until(RtDispatcher *d, Condition *holds, const void *data)
{
    d->awaited = holds;
    d->awaited_data = data;
    while (!d->failure && !holds(d, data)) {
        uint32_t seen = rt_wait_word_load(&d->news);
        pthread_mutex_unlock(&d->lock);
        rt_wait_word_wait(&d->news, seen, false);
        bool stopped = d->config.is_stopped(d->config.data);
        pthread_mutex_lock(&d->lock);
        if (stopped) {
            d->awaited = NULL;
            return rt_data_stopped();
        }
    }
    Status st = d->failure;
    d->awaited = NULL;
    d->failure = OK;
    return st;
}

/* Main waits or asks for closures. */
static void
end_round(RtDispatcher *d)
{
    if (!d->queue.rounds.need)
        return;
    rt_queue_end_round(&d->queue);
    ring(d);
}

static bool
has_servers(RtDispatcher *d, const void *deadline)
{
    return d->num_servers == d->config.task->num_servers ||
           clock_seconds() > *(const double *)deadline;
}

static Status
lacks_server(RtDispatcher *d)
{
    int i = 0;
    if (d->num_servers == d->config.task->num_servers)
        return OK;
    while (d->servers[i].is_known)
        i++;
    return status_new(STATUS_MACHINE,
                      "server %d has not joined after %g seconds (--timeout "
                      "allows more)",
                      i, d->config.timeout);
}

Status
rt_dispatcher_servers(RtDispatcher *d, RtPsWelcome *out)
{
    int num = d->config.task->num_servers;
    double deadline = clock_seconds() + d->config.timeout;
    pthread_mutex_lock(&d->lock);
    Status st = wait_until(d, has_servers, &deadline);
    if (!st)
        st = lacks_server(d);
    out->job = d->job;
    out->num_servers = num;
    out->num_workers = d->config.task->num_workers;
    out->by_bytes = d->config.task->by_bytes;
    out->addresses = NEW_ARRAY(d->arena, const char *, (size_t)num);
    for (int i = 0; !st && i < num; i++)
        out->addresses[i] =
            arena_strdup(d->arena, str_text(&d->servers[i].address));
    pthread_mutex_unlock(&d->lock);
    return st;
}

static bool
has_room(RtDispatcher *d, const void *data)
{
    (void)data;
    return !rt_queue_is_full(&d->queue);
}

/* Main does not wait again for each closure that ends. */
static bool
has_much_room(RtDispatcher *d, const void *data)
{
    enum { MUCH = RT_PS_WINDOW / 64 };
    (void)data;
    return d->queue.next - d->queue.low <= RT_PS_WINDOW - MUCH;
}

Status
rt_dispatcher_schedule(RtDispatcher *d, int64_t launch,
                       const RtArchive *arguments, const RtFeeds *feeds,
                       int num_refs, RtFuture **future)
{
    *future = NULL;
    pthread_mutex_lock(&d->lock);
    Status st = has_room(d, NULL) && !d->failure
                    ? OK
                    : wait_until(d, has_much_room, NULL);
    if (!st) {
        RtClosure *c = rt_queue_add(&d->queue, launch, arguments, num_refs > 0);
        for (int i = 0; i < feeds->len; i++)
            rt_queue_add_feed(&d->queue, c, feeds->data[i].iter,
                              feeds->data[i].pass);
        *future = c->future;
        if (c->future)
            c->future->refs = num_refs;
    }
    bool is_first = d->queue.num_waiting == 1;
    pthread_mutex_unlock(&d->lock);
    if (is_first)
        ring(d);
    return st;
}

static bool
is_idle(RtDispatcher *d, const void *data)
{
    (void)data;
    return d->queue.num_open == 0;
}

/* The same for closures, without the lock. */
static Status
wait_for(RtDispatcher *d, Condition *holds, const void *data)
{
    pthread_mutex_lock(&d->lock);
    end_round(d);
    Status st = wait_until(d, holds, data);
    pthread_mutex_unlock(&d->lock);
    return st;
}

Status
rt_dispatcher_join(RtDispatcher *d)
{
    return wait_for(d, is_idle, NULL);
}

Status
rt_dispatcher_done(RtDispatcher *d, bool *out)
{
    pthread_mutex_lock(&d->lock);
    end_round(d);
    *out = is_idle(d, NULL);
    Status st = d->failure;
    d->failure = OK;
    pthread_mutex_unlock(&d->lock);
    return st;
}

/* Those that are with workers may have begun: each says so itself. */
void
rt_dispatcher_cancel(RtDispatcher *d)
{
    pthread_mutex_lock(&d->lock);
    rt_queue_cancel(&d->queue);
    for (int i = 0; i < d->queue.workers.len; i++) {
        RtPsWorker *w = &d->queue.workers.data[i];
        w->cancels = w->num_in_flight ? w->sent : 0;
    }
    pthread_mutex_unlock(&d->lock);
    ring(d);
}

static bool
is_there(RtDispatcher *d, const void *future)
{
    (void)d;
    return ((const RtFuture *)future)->is_there;
}

Status
rt_dispatcher_wait(RtDispatcher *d, RtFuture *f)
{
    return wait_for(d, is_there, f);
}

Status
rt_dispatcher_check(RtDispatcher *d)
{
    pthread_mutex_lock(&d->lock);
    Status st = d->has_lost_server ? d->failure : OK;
    if (st)
        d->failure = OK;
    pthread_mutex_unlock(&d->lock);
    return st;
}

void
rt_dispatcher_release(RtDispatcher *d, RtFuture *f)
{
    pthread_mutex_lock(&d->lock);
    rt_queue_release(&d->queue, f);
    pthread_mutex_unlock(&d->lock);
}

static bool
admits_main(RtDispatcher *d, const void *data)
{
    (void)data;
    return rt_queue_admits_main(&d->queue);
}

Status
rt_dispatcher_begin(RtDispatcher *d, int64_t *id, int64_t *low)
{
    pthread_mutex_lock(&d->lock);
    end_round(d);
    d->queue.main_waits = d->queue.staleness.bound >= 0;
    Status st = wait_until(d, admits_main, NULL);
    d->queue.main_waits = false;
    if (!st)
        *id = rt_queue_add_mains(&d->queue)->id;
    *low = d->queue.low;
    pthread_mutex_unlock(&d->lock);
    return st;
}

void
rt_dispatcher_end(RtDispatcher *d, int64_t id)
{
    pthread_mutex_lock(&d->lock);
    rt_queue_end(&d->queue, id, NULL, 0);
    pthread_mutex_unlock(&d->lock);
}

/* ---- checkpoints -------------------------------------------------------- */

void
rt_dispatcher_set_params(RtDispatcher *d, const RtArchive *params)
{
    pthread_mutex_lock(&d->lock);
    str_addn(&d->params, params->data, params->len);
    d->has_params = true;
    pthread_mutex_unlock(&d->lock);
    ring(d);
}

static bool
has_states(RtDispatcher *d, const void *data)
{
    (void)data;
    for (int i = 0; i < d->queue.workers.len; i++)
        if (rt_dispatcher_lacks_state(d, i))
            return false;
    return true;
}

Status
rt_dispatcher_save(RtDispatcher *d)
{
    pthread_mutex_lock(&d->lock);
    end_round(d);
    Status st = wait_until(d, is_idle, NULL);
    d->saving++;
    d->saving_said = 0;
    d->is_saving = !st;
    ring(d);
    if (!st)
        st = wait_until(d, has_states, NULL);
    d->is_saving = false;
    pthread_mutex_unlock(&d->lock);
    return st;
}

void
rt_dispatcher_archive(RtDispatcher *d, RtArchive *ar)
{
    pthread_mutex_lock(&d->lock);
    RtClosureQueue *q = &d->queue;
    rt_archive_i64(ar, &q->next, 1, ar->reads ? RT_MOST_POSITION : INT64_MAX);
    q->low = q->next;
    rt_ps_states_archive(&d->states, ar);
    rt_queue_taken_archive(q, ar);
    rt_ps_deals_archive(&d->deals, ar);
    pthread_mutex_unlock(&d->lock);
}

void
rt_dispatcher_begin_main(RtDispatcher *d)
{
    pthread_mutex_lock(&d->lock);
    d->has_begun = true;
    d->begun = clock_seconds();
    pthread_mutex_unlock(&d->lock);
}

void
rt_dispatcher_expect_evaluator(RtDispatcher *d)
{
    double end = clock_seconds() + evaluators_start;
    pthread_mutex_lock(&d->lock);
    while (d->config.task->has_evaluator && !d->evaluator.len &&
           clock_seconds() < end && !d->config.is_stopped(d->config.data)) {
        uint32_t seen = rt_wait_word_load(&d->news);
        pthread_mutex_unlock(&d->lock);
        rt_wait_word_wait(&d->news, seen, false);
        pthread_mutex_lock(&d->lock);
    }
    pthread_mutex_unlock(&d->lock);
}

void
rt_dispatcher_print(RtDispatcher *d, FILE *to)
{
    pthread_mutex_lock(&d->lock);
    const RtClosureQueue *q = &d->queue;
    fprintf(to,
            "closures       %lld, %lld again since their worker was lost, %lld "
            "cancelled\n",
            (long long)(q->next - 1), (long long)q->num_put_back,
            (long long)q->num_cancelled);
    if (q->rounds.need)
        fprintf(to,
                "rounds         %lld of %lld/%lld: %lld closures counted, "
                "%lld dropped\n",
                (long long)q->rounds.number, (long long)q->rounds.need,
                (long long)q->rounds.of, (long long)q->rounds.sum_counted,
                (long long)q->rounds.sum_dropped);
    for (int i = 0; i < q->workers.len; i++) {
        const RtPsWorker *w = &q->workers.data[i];
        if (w->is_known)
            fprintf(to, "  worker %-5d %lld on %s (pid %lld)%s\n", i,
                    (long long)w->num_done, str_text(&w->host),
                    (long long)w->pid, w->is_lost ? ", lost" : "");
    }
    pthread_mutex_unlock(&d->lock);
}
