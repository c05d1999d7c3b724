/*
 * dispatcher.c - the coordinator's thread
 *
 * Whoever is silent is lost: a worker's closures go to others, and it may come
 * back; a server's variables are nowhere else, so the job fails.
 */
#include "runtime/ps/dispatcher.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "ir/base/message.h"
#include "ir/base/thread.h"
#include "runtime/hal/system.h"
#include "runtime/data/data.h"
#include "runtime/hal/wait.h"

static const double usual_silence = 2; /* seconds */
static const double again = 1; /* seconds until what was sent is sent again */

enum { TURN_MS = 50 };

typedef struct Server {
    bool is_known;
    int64_t pid;
    const char *host, *address;
    RtPsRoute route;
    double heard;
    RtPsLoad load;
} Server;

struct RtDispatcher {
    Arena *arena;
    RtPsNet *net;
    RtDispatcherConfig config;
    RtPsListener listener;
    double silence;
    int bell; /* an event descriptor: main has done something */
    pthread_t thread;
    bool has_thread;
    RtArchive out;        /* of the thread */
    RtWaitWord news;      /* changes with what main waits for */
    pthread_mutex_t lock; /* of all below */
    bool closing;
    int num_servers; /* that have joined */
    Server *servers;
    RtClosureQueue queue;
    int turn;       /* the worker that got the last closure */
    Status failure; /* of a closure or a server: main gets it */
};

/* ---- out ---------------------------------------------------------------- */

static void
send_welcome(RtDispatcher *d, const RtPsRoute *to)
{
    int num = d->config.task->num_servers;
    if (d->num_servers < num)
        return;
    Arena *scratch = arena_new(NULL, "a welcome");
    RtPsWelcome w = {.num_servers = num};
    w.addresses = NEW_ARRAY(scratch, const char *, (size_t)num);
    for (int i = 0; i < num; i++)
        w.addresses[i] = d->servers[i].address;
    rt_ps_begin(&d->out, RT_PS_WELCOME);
    rt_ps_welcome(&d->out, &w);
    rt_ps_send_to(&d->listener, to, &d->out);
    arena_release(scratch);
}

static void
welcome_all(RtDispatcher *d)
{
    for (int i = 0; i < d->config.task->num_servers; i++)
        send_welcome(d, &d->servers[i].route);
    for (int i = 0; i < d->queue.workers.len; i++)
        send_welcome(d, &d->queue.workers.data[i].route);
}

/* NULL: it has ended, and is only to be answered. */
static void
send_run(RtDispatcher *d, RtPsWorker *w, const RtSent *s, RtClosure *c)
{
    RtPsRun run = {.number = s->number,
                   .received = w->received,
                   .id = s->id,
                   .is_void = !c,
                   .low = d->queue.low,
                   .launch = c ? c->launch : 0};
    rt_ps_begin(&d->out, RT_PS_RUN);
    rt_ps_run(&d->out, &run);
    if (c)
        rt_archive_bytes(&d->out, c->arguments.data, c->arguments.len);
    rt_ps_send_to(&d->listener, &w->route, &d->out);
}

static bool
feed(RtDispatcher *d, RtPsWorker *w, double now)
{
    if (!w->is_known || w->is_lost || !w->route.len)
        return false;
    RtClosure *c = rt_queue_send(&d->queue, w, now);
    if (c)
        send_run(d, w, &w->in_flight[w->num_in_flight - 1], c);
    return c;
}

/* One to each in turn, until none waits or all have enough. */
static void
feed_all(RtDispatcher *d, double now)
{
    int num = d->queue.workers.len;
    for (int idle = 0; d->queue.num_waiting && idle < num;) {
        d->turn = (d->turn + 1) % num;
        idle = feed(d, &d->queue.workers.data[d->turn], now) ? 0 : idle + 1;
    }
}

/* What the worker has not received, some time after it was sent. */
static void
send_again(RtDispatcher *d, RtPsWorker *w, int64_t has, double now)
{
    for (int i = 0; i < w->num_in_flight; i++) {
        RtSent *s = &w->in_flight[i];
        if (s->number <= has || now - s->at < again)
            continue;
        s->at = now;
        send_run(d, w, s, rt_queue_closure(&d->queue, s->id));
    }
}

/* ---- in ----------------------------------------------------------------- */

static void
fail(RtDispatcher *d, Status st)
{
    rt_queue_cancel(&d->queue);
    if (d->failure)
        status_free(st);
    else
        d->failure = st;
    rt_wait_word_add(&d->news, 1);
}

static void
refuse(RtDispatcher *d, const RtPsRoute *to, const char *why)
{
    rt_ps_begin(&d->out, RT_PS_REFUSED);
    rt_archive_text(&d->out, &why);
    rt_ps_send_to(&d->listener, to, &d->out);
}

static void
server_joins(RtDispatcher *d, const RtPsHello *h, const RtPsRoute *from,
             double now)
{
    if (h->index >= (uint32_t)d->config.task->num_servers) {
        refuse(d, from, "the job has fewer servers");
        return;
    }
    Server *s = &d->servers[h->index];
    if (s->is_known && s->pid != h->pid) {
        refuse(d, from, "another process is this server");
        return;
    }
    bool is_new = !s->is_known;
    *s = (Server){.load = s->load,
                  .is_known = true,
                  .pid = h->pid,
                  .host = arena_strdup(d->arena, h->host),
                  .address = arena_strdup(d->arena, h->address),
                  .route = *from,
                  .heard = now};
    d->num_servers += is_new;
    if (is_new && d->num_servers == d->config.task->num_servers) {
        welcome_all(d);
        rt_wait_word_add(&d->news, 1);
    } else {
        send_welcome(d, from);
    }
}

static void
worker_joins(RtDispatcher *d, const RtPsHello *h, const RtPsRoute *from,
             double now)
{
    RtPsWorker *w = rt_queue_join(&d->queue, h, now);
    if (!w) {
        refuse(d, from, "a later process has taken its place");
        return;
    }
    w->route = *from;
    send_welcome(d, from);
}

static void
on_hello(RtDispatcher *d, RtArchive *in, const RtPsRoute *from, double now)
{
    RtPsHello h;
    rt_ps_hello(in, &h);
    if (!rt_ps_is_good(in))
        return;
    if (strcmp(h.plan, d->config.plan) != 0)
        refuse(d, from, "it has another plan than the coordinator");
    else if (h.role == RT_ROLE_ps)
        server_joins(d, &h, from, now);
    else if (h.role == RT_ROLE_worker)
        worker_joins(d, &h, from, now);
}

/* The worker of that number and incarnation, which was heard. */
static RtPsWorker *
worker_of(RtDispatcher *d, uint32_t index, uint32_t incarnation, double now)
{
    RtPsWorker *w = rt_queue_worker(&d->queue, index);
    if (!w || w->incarnation != incarnation)
        return NULL;
    w->heard = now;
    w->is_lost = false;
    return w;
}

static void
on_heartbeat(RtDispatcher *d, RtArchive *in, double now)
{
    RtPsHeartbeat b;
    rt_ps_heartbeat(in, &b);
    if (!rt_ps_is_good(in))
        return;
    if (b.role == RT_ROLE_worker)
        worker_of(d, b.index, b.incarnation, now);
    else if (b.role == RT_ROLE_ps &&
             b.index < (uint32_t)d->config.task->num_servers)
        d->servers[b.index].heard = now;
}

static void
on_sync(RtDispatcher *d, RtArchive *in, const RtPsRoute *from, double now)
{
    RtPsSync s;
    rt_ps_sync(in, &s);
    RtPsWorker *w =
        rt_ps_is_good(in) ? worker_of(d, s.index, s.incarnation, now) : NULL;
    if (!w)
        return;
    w->route = *from;
    send_again(d, w, s.received, now);
    s.received = w->received;
    rt_ps_begin(&d->out, RT_PS_SYNC);
    rt_ps_sync(&d->out, &s);
    rt_ps_send_to(&d->listener, from, &d->out);
}

static Status
closure_failed(const RtPsDone *e, const RtPsWorker *w)
{
    Status st = status_new(STATUS_INPUT, "%s", message_part(e->error));
    return status_note(status_show(st, e->lines),
                       "executing closure %lld on worker %u (%s, pid %lld)",
                       (long long)e->id, e->index, w->host, (long long)w->pid);
}

static void
on_done(RtDispatcher *d, RtArchive *in, const RtPsRoute *from, double now)
{
    RtPsDone e;
    rt_ps_done(in, &e);
    RtPsWorker *w =
        in->wrong ? NULL : worker_of(d, e.index, e.incarnation, now);
    if (!w || e.number != w->received + 1)
        return; /* it was here before, or one before it was lost */
    w->route = *from;
    w->received = e.number;
    rt_queue_take_from(w, e.id, now);
    if (rt_queue_end(&d->queue, e.id, in->data + in->at, in->len - in->at)) {
        if (*e.error)
            fail(d, closure_failed(&e, w));
        rt_wait_word_add(&d->news, 1);
    }
}

static void
on_load(RtDispatcher *d, RtArchive *in, double now)
{
    RtPsLoad l;
    rt_ps_server_load(in, &l);
    if (!rt_ps_is_good(in) || l.index >= (uint32_t)d->config.task->num_servers)
        return;
    d->servers[l.index].load = l;
    d->servers[l.index].heard = now;
}

/* ---- how the job is ------------------------------------------------------ */

static int64_t
microseconds(double seconds)
{
    return seconds > 0 ? (int64_t)(seconds * 1e6) : 0;
}

static RtPsTask
state_of_worker(const RtPsWorker *w, double now)
{
    if (!w->is_known)
        return (RtPsTask){.host = ""};
    return (RtPsTask){.host = w->host,
                      .pid = w->pid,
                      .is_lost = w->is_lost,
                      .silent = microseconds(now - w->heard),
                      .in_flight = w->num_in_flight,
                      .done = w->num_done};
}

static RtPsTask
state_of_server(const Server *s, double now)
{
    if (!s->is_known)
        return (RtPsTask){.host = ""};
    return (RtPsTask){
        .host = s->host, .pid = s->pid, .silent = microseconds(now - s->heard)};
}

/* Its tasks are in a. */
static RtPsStatus
state_of_job(const RtDispatcher *d, Arena *a, double now)
{
    const RtClosureQueue *q = &d->queue;
    int num_servers = d->config.task->num_servers;
    RtPsStatus s = {.at = microseconds(now),
                    .scheduled = q->next - 1,
                    .ended = q->next - 1 - q->num_open,
                    .waiting = q->num_waiting,
                    .put_back = q->num_put_back,
                    .num_workers = q->workers.len,
                    .num_servers = num_servers};
    s.workers = NEW_ARRAY(a, RtPsTask, (size_t)q->workers.len);
    s.servers = NEW_ARRAY(a, RtPsTask, (size_t)num_servers);
    s.loads = NEW_ARRAY(a, RtPsLoad, (size_t)num_servers);
    for (int i = 0; i < q->workers.len; i++)
        s.workers[i] = state_of_worker(&q->workers.data[i], now);
    for (int i = 0; i < num_servers; i++) {
        s.servers[i] = state_of_server(&d->servers[i], now);
        s.loads[i] = d->servers[i].load;
    }
    return s;
}

static void
on_ask(RtDispatcher *d, RtArchive *in, const RtPsRoute *from, double now)
{
    if (!rt_ps_is_good(in))
        return;
    RtPsStatus s = state_of_job(d, in->arena, now);
    rt_ps_begin(&d->out, RT_PS_STATUS);
    rt_ps_status(&d->out, &s);
    rt_ps_send_to(&d->listener, from, &d->out);
}

static void
receive(RtDispatcher *d, const RtPsRoute *from, zmq_msg_t *m, double now)
{
    RtArchive in;
    Arena *scratch = arena_new(NULL, "a message");
    const RtZmq *z = d->net->zmq;
    switch (rt_ps_read(&in, scratch, z->zmq_msg_data(m), z->zmq_msg_size(m))) {
    case RT_PS_HELLO:
        on_hello(d, &in, from, now);
        break;
    case RT_PS_HEARTBEAT:
        on_heartbeat(d, &in, now);
        break;
    case RT_PS_SYNC:
        on_sync(d, &in, from, now);
        break;
    case RT_PS_DONE:
        on_done(d, &in, from, now);
        break;
    case RT_PS_LOAD:
        on_load(d, &in, now);
        break;
    case RT_PS_ASK:
        on_ask(d, &in, from, now);
        break;
    default:
        break;
    }
    arena_release(scratch);
}

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
        Server *s = &d->servers[i];
        if (!s->is_known || now - s->heard < d->silence || d->failure)
            continue;
        fail(d, status_new(STATUS_MACHINE,
                           "server %d (%s, pid %lld), which holds variables, "
                           "has not been heard for %.1f s",
                           i, s->host, (long long)s->pid, now - s->heard));
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
        receive(d, &from, &m, now);
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
    zmq_pollitem_t items[] = {{NULL, d->bell, ZMQ_POLLIN, 0},
                              {d->listener.router, 0, ZMQ_POLLIN, 0},
                              {d->listener.zap, 0, ZMQ_POLLIN, 0}};
    double last = rt_seconds();
    for (bool closing = false; !closing;) {
        uint64_t rings;
        d->net->zmq->zmq_poll(items, d->listener.zap ? 3 : 2, TURN_MS);
        if (items[0].revents && read(d->bell, &rings, sizeof rings) < 0)
            rings = 0; /* it was not rung */
        double now = rt_seconds();
        pthread_mutex_lock(&d->lock);
        if (now - last > d->silence / 2)
            forgive(d, now);
        take_messages(d, now);
        look_for_lost(d, now);
        feed_all(d, now);
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
    RtDispatcher *d = rt_alloc_on_lines(a, sizeof *d);
    d->arena = a;
    d->net = net;
    d->config = *config;
    d->silence =
        config->task->silence > 0 ? config->task->silence : usual_silence;
    d->servers = NEW_ARRAY(a, Server, (size_t)config->task->num_servers);
    d->out = rt_archive_writer(a, 0);
    d->bell = -1;
    rt_queue_init(&d->queue, a);
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

typedef bool Condition(const RtDispatcher *d, const void *data);

/* Waits, with the lock, until the condition holds. */
static Status
wait_until(RtDispatcher *d, Condition *holds, const void *data)
{
    while (!d->failure && !holds(d, data)) {
        uint32_t seen = rt_wait_word_load(&d->news);
        pthread_mutex_unlock(&d->lock);
        rt_wait_word_wait(&d->news, seen, false);
        bool stopped = d->config.is_stopped(d->config.data);
        pthread_mutex_lock(&d->lock);
        if (stopped)
            return rt_data_stopped();
    }
    Status st = d->failure;
    d->failure = OK;
    return st;
}

static bool
has_servers(const RtDispatcher *d, const void *data)
{
    (void)data;
    return d->num_servers == d->config.task->num_servers;
}

Status
rt_dispatcher_servers(RtDispatcher *d, RtPsWelcome *out)
{
    int num = d->config.task->num_servers;
    pthread_mutex_lock(&d->lock);
    Status st = wait_until(d, has_servers, NULL);
    out->num_servers = num;
    out->addresses = NEW_ARRAY(d->arena, const char *, (size_t)num);
    for (int i = 0; !st && i < num; i++)
        out->addresses[i] = d->servers[i].address;
    pthread_mutex_unlock(&d->lock);
    return st;
}

static bool
has_room(const RtDispatcher *d, const void *data)
{
    (void)data;
    return !rt_queue_is_full(&d->queue);
}

Status
rt_dispatcher_schedule(RtDispatcher *d, int64_t launch,
                       const RtArchive *arguments, int num_refs,
                       RtFuture **future)
{
    *future = NULL;
    pthread_mutex_lock(&d->lock);
    Status st = wait_until(d, has_room, NULL);
    if (!st) {
        RtClosure *c = rt_queue_add(&d->queue, launch, arguments, num_refs > 0);
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
is_idle(const RtDispatcher *d, const void *data)
{
    (void)data;
    return d->queue.num_open == 0;
}

/* The same, without the lock. */
static Status
wait_for(RtDispatcher *d, Condition *holds, const void *data)
{
    pthread_mutex_lock(&d->lock);
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
    *out = is_idle(d, NULL);
    Status st = d->failure;
    d->failure = OK;
    pthread_mutex_unlock(&d->lock);
    return st;
}

static bool
is_there(const RtDispatcher *d, const void *future)
{
    (void)d;
    return ((const RtFuture *)future)->is_there;
}

Status
rt_dispatcher_wait(RtDispatcher *d, RtFuture *f)
{
    return wait_for(d, is_there, f);
}

void
rt_dispatcher_release(RtDispatcher *d, RtFuture *f)
{
    pthread_mutex_lock(&d->lock);
    rt_queue_release(&d->queue, f);
    pthread_mutex_unlock(&d->lock);
}

Status
rt_dispatcher_begin(RtDispatcher *d, int64_t *id, int64_t *low)
{
    pthread_mutex_lock(&d->lock);
    Status st = wait_until(d, has_room, NULL);
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

void
rt_dispatcher_print(RtDispatcher *d, FILE *to)
{
    pthread_mutex_lock(&d->lock);
    const RtClosureQueue *q = &d->queue;
    fprintf(to, "closures       %lld, %lld again since their worker was lost\n",
            (long long)(q->next - 1), (long long)q->num_put_back);
    for (int i = 0; i < q->workers.len; i++) {
        const RtPsWorker *w = &q->workers.data[i];
        if (w->is_known)
            fprintf(to, "  worker %-5d %lld on %s (pid %lld)%s\n", i,
                    (long long)w->num_done, w->host, (long long)w->pid,
                    w->is_lost ? ", lost" : "");
    }
    pthread_mutex_unlock(&d->lock);
}
