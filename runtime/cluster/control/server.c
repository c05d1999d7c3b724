/*
 * server.c - the control server's thread and its sockets
 *
 * libzmq does not say which peer has left.  Its monitor says which descriptor
 * was closed, and each message on which it came; a monitor's events are read
 * before a message is looked at, so that a descriptor that was closed is not
 * taken for the connection that got its number next.
 */
#include "runtime/cluster/control/server.h"

#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "ir/base/io/file.h"
#include "ir/base/message.h"
#include "ir/base/thread.h"
#include "runtime/cluster/control/printing.h"
#include "runtime/cluster/zmq/socket.h"
#include "runtime/hal/system.h"
#include "runtime/hal/wait.h"

enum { TICK_MS = 50, LINGER_MS = 1000 };

struct RtServer {
    Arena *arena;
    const RtZmq *zmq;
    RtCurveKeys keys;
    RtServerConfig config;
    void *context, *router, *monitor, *zap;
    int port;
    int bell, over; /* event descriptors: to the thread, and from it */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* of all below */
    RtMembership *membership;
    bool closing, told;
    RtLiveness liveness;  /* of the thread */
    atomic_bool is_stuck; /* it was found so */
};

/* ---- out ---------------------------------------------------------------- */

static void
send_frame(void *data, const RtRoute *to, const RtFrame *f)
{
    RtServer *s = data;
    int n = s->zmq->zmq_send(s->router, to->id, to->len,
                             ZMQ_SNDMORE | ZMQ_DONTWAIT);
    if (n >= 0)
        s->zmq->zmq_send(s->router, f->bytes, f->len, ZMQ_DONTWAIT);
}

static void
say(void *data, RtSay kind, const char *line, const char *lines)
{
    RtServer *s = data;
    if (s->config.say)
        s->config.say(s->config.data, kind, line, lines);
}

static void
evict(void *data, int rank)
{
    RtServer *s = data;
    if (s->config.evict)
        s->config.evict(s->config.data, rank);
}

/* ---- in ----------------------------------------------------------------- */

static void
read_events(RtServer *s)
{
    int event;
    int32_t fd;
    while (rt_zmq_next_event(s->zmq, s->monitor, &event, &fd))
        if (event == ZMQ_EVENT_DISCONNECTED)
            rt_membership_closed(s->membership, fd, clock_seconds());
}

/* Two parts are a message; strangers may send any number. */
static bool
read_message(RtServer *s, RtRoute *from, zmq_msg_t *body)
{
    const RtZmq *z = s->zmq;
    zmq_msg_t id;
    z->zmq_msg_init(&id);
    if (z->zmq_msg_recv(&id, s->router, ZMQ_DONTWAIT) < 0) {
        z->zmq_msg_close(&id);
        return false;
    }
    size_t n = z->zmq_msg_size(&id);
    from->len = n <= sizeof from->id ? (uint8_t)n : 0;
    memcpy(from->id, z->zmq_msg_data(&id), from->len);
    bool more = z->zmq_msg_more(&id);
    z->zmq_msg_close(&id);
    for (int parts = 0; more; parts++) {
        if (z->zmq_msg_recv(body, s->router, 0) < 0)
            return false;
        more = z->zmq_msg_more(body);
        if (more || parts)
            from->len = 0;
    }
    return true;
}

/* A bounded number, so that one sender does not keep others from being judged.
 */
static void
read_messages(RtServer *s)
{
    enum { MOST_AT_ONCE = 1000 };
    const RtZmq *z = s->zmq;
    for (int i = 0; i < MOST_AT_ONCE; i++) {
        RtRoute from;
        zmq_msg_t body;
        z->zmq_msg_init(&body);
        bool got = read_message(s, &from, &body);
        if (got && from.len) {
            int fd = z->zmq_msg_get(&body, ZMQ_SRCFD);
            const void *bytes = z->zmq_msg_data(&body);
            size_t n = z->zmq_msg_size(&body);
            read_events(s);
            rt_membership_receive(s->membership, &from, fd, bytes, n,
                                  clock_seconds());
        }
        z->zmq_msg_close(&body);
        if (!got)
            return;
    }
}

static void
turn(RtServer *s)
{
    int exit_status;
    if (s->zap)
        rt_zmq_answer_zap(s->zmq, s->zap, &s->keys);
    read_messages(s);
    read_events(s);
    rt_membership_tick(s->membership, clock_seconds());
    if (!s->told && rt_membership_has_ended(s->membership, &exit_status)) {
        uint64_t one = 1;
        s->told = write(s->over, &one, sizeof one) == sizeof one;
    }
}

static void *
serve(void *data)
{
    RtServer *s = data;
    zmq_pollitem_t items[] = {{NULL, s->bell, ZMQ_POLLIN, 0},
                              {s->router, 0, ZMQ_POLLIN, 0},
                              {s->monitor, 0, ZMQ_POLLIN, 0},
                              {s->zap, 0, ZMQ_POLLIN, 0}};
    for (bool closing = false; !closing;) {
        rt_turn_begins(&s->liveness);
        s->zmq->zmq_poll(items, s->zap ? 4 : 3, TICK_MS);
        pthread_mutex_lock(&s->lock);
        turn(s);
        closing = s->closing;
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

/* ---- opening and closing ------------------------------------------------ */

static Status
listen_on(RtServer *s)
{
    const char *at = s->config.address;
    char *address = arena_printf(s->arena, "tcp://%s", at);
    TRY(rt_zmq_check_address(s->zmq, &s->keys, address));
    if (s->zmq->zmq_bind(s->router, address)) {
        Status st = status_new(STATUS_MACHINE,
                               "the control server cannot listen on %s: %s", at,
                               s->zmq->zmq_strerror(s->zmq->zmq_errno()));
        return st;
    }
    s->port = rt_zmq_port(s->zmq, s->router);
    return OK;
}

static Status
open_sockets(RtServer *s)
{
    s->context = s->zmq->zmq_ctx_new();
    if (!s->context)
        return rt_zmq_error(s->zmq, "cannot open the control server");
    if (s->keys.given)
        TRY(rt_zmq_open_zap(s->zmq, s->context, &s->zap));
    TRY(rt_zmq_server_socket(s->zmq, s->context, ZMQ_ROUTER, &s->keys,
                             RT_FRAME_MOST, &s->router));
    TRY(rt_zmq_open_monitor(s->zmq, s->context, s->router, "inproc://server",
                            ZMQ_EVENT_DISCONNECTED, &s->monitor));
    return listen_on(s);
}

static Status
open_bells(RtServer *s)
{
    s->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->bell < 0 || s->over < 0)
        return rt_system_error("eventfd");
    return OK;
}

static Status
start(RtServer *s)
{
    const RtServerConfig *c = &s->config;
    TRY(rt_zmq_open(&s->zmq));
    TRY(rt_zmq_keys(s->zmq, c->key, &s->keys));
    TRY(open_bells(s));
    TRY(open_sockets(s));
    RtMembershipConfig membership = {.id = c->id,
                                     .size = c->size,
                                     .attempt = c->attempt,
                                     .server_rank = c->rank,
                                     .machine = rt_machine_name(s->arena),
                                     .diagnose = c->diagnose,
                                     .silence = c->silence,
                                     .joining = c->joining,
                                     .out = {s, send_frame, say, evict}};
    s->membership = rt_membership_new(s->arena, &membership, clock_seconds());
    TRY(thread_start(&s->thread, serve, s, "the control server"));
    s->has_thread = true;
    return OK;
}

Status
rt_server_open(const RtServerConfig *config, RtServer **out)
{
    Arena *a = arena_new(NULL, "the control server");
    RtServer *s = NEW(a, RtServer);
    s->arena = a;
    s->config = *config;
    s->bell = s->over = -1;
    pthread_mutex_init(&s->lock, NULL);
    Status st = start(s);
    if (st) {
        rt_server_close(s);
        return st;
    }
    *out = s;
    return OK;
}

static void
close_sockets(RtServer *s)
{
    int linger = LINGER_MS;
    void *sockets[] = {s->zap, s->router};
    rt_zmq_close_monitor(s->zmq, s->router, s->monitor);
    if (s->router)
        s->zmq->zmq_setsockopt(s->router, ZMQ_LINGER, &linger, sizeof linger);
    for (int i = 0; i < 2; i++)
        if (sockets[i])
            s->zmq->zmq_close(sockets[i]);
    if (s->context)
        s->zmq->zmq_ctx_term(s->context);
}

void
rt_server_close(RtServer *s)
{
    uint64_t one = 1;
    if (s->has_thread) {
        pthread_mutex_lock(&s->lock);
        s->closing = true;
        pthread_mutex_unlock(&s->lock);
        if (write(s->bell, &one, sizeof one) < 0)
            s->closing = true; /* it looks twenty times a second */
        pthread_join(s->thread, NULL);
    }
    close_sockets(s);
    if (s->membership)
        rt_membership_close(s->membership);
    if (s->bell >= 0)
        close(s->bell);
    if (s->over >= 0)
        close(s->over);
    pthread_mutex_destroy(&s->lock);
    arena_release(s->arena);
}

static void
close_server(void *server)
{
    rt_server_close(server);
}

bool
rt_close_bounded(void (*call)(void *data), void *data, double seconds)
{
    RtBound bound = {.seconds = seconds};
    if (rt_call_bounded(call, data, &bound))
        return true;
    rt_server_print(NULL, RT_SAY_NOTE,
                    message_part(MESSAGE(
                        "the library that joins the processes does not return "
                        "when it is closed: the process ends without it")),
                    "");
    return false;
}

void
rt_server_leave(RtServer *s)
{
    enum { CLOSING = 5 }; /* seconds */
    rt_close_bounded(close_server, s, CLOSING);
    rt_server_printed();
}

/* ---- from other threads ------------------------------------------------- */

bool
rt_server_is_stuck(RtServer *s)
{
    if (s->config.bound && rt_is_stuck(&s->liveness, s->config.bound))
        atomic_store(&s->is_stuck, true);
    return atomic_load(&s->is_stuck);
}

/* False: the thread has the lock, and is stuck. */
static bool
lock(RtServer *s)
{
    while (!atomic_load(&s->is_stuck)) {
        struct timespec until = rt_time_after(0.1);
        if (pthread_mutex_clocklock(&s->lock, CLOCK_MONOTONIC, &until) == 0)
            return true;
        rt_server_is_stuck(s);
    }
    return false;
}

int
rt_server_port(const RtServer *s)
{
    return s->port;
}

int
rt_server_fd(const RtServer *s)
{
    return s->over;
}

void
rt_server_lost(RtServer *s, int rank, const char *how, int exit_status)
{
    if (!lock(s))
        return;
    rt_membership_lost(s->membership, rank, how, exit_status, clock_seconds());
    pthread_mutex_unlock(&s->lock);
}

bool
rt_server_has_begun(RtServer *s)
{
    if (!lock(s))
        return false;
    bool begun = rt_membership_has_begun(s->membership);
    pthread_mutex_unlock(&s->lock);
    return begun;
}

bool
rt_server_is_stopped(RtServer *s)
{
    if (!lock(s))
        return false;
    bool stopped = rt_membership_is_stopped(s->membership);
    pthread_mutex_unlock(&s->lock);
    return stopped;
}

bool
rt_server_has_ended(RtServer *s, int *exit_status)
{
    *exit_status = 3;
    if (!lock(s))
        return false;
    bool ended = rt_membership_has_ended(s->membership, exit_status);
    pthread_mutex_unlock(&s->lock);
    return ended;
}
