/*
 * member.c - the thread that keeps a process in its job
 *
 * It seeks the control server at all its addresses at once, keeps the first
 * connection on which it is heard, and then tells ten times a second where the
 * process is.  A server that is gone or silent ends the process as the
 * server does where it finds a failure.
 */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "ir/base/message.h"
#include "ir/base/str.h"
#include "runtime/cluster/control/job_impl.h"
#include "runtime/cluster/control/printing.h"

enum {
    TURN_MS = 50,
    SAY_EVERY = 5, /* seconds */
    MOST_REFUSALS = 3,
    MOST_ITEMS = 2 * RT_MOST_CONNECTIONS + 80
};

static const double heartbeat_every = 0.1;
static const double resolve_every = 1;
static const double last_calls = 0.25;
static const double silence_noted = 2;

void
rt_member_ring(RtMember *m)
{
    uint64_t one = 1;
    if (write(m->bell, &one, sizeof one) < 0)
        return; /* it looks twenty times a second */
}

/* ---- stopping ----------------------------------------------------------- */

/* The first reason counts.  The callback runs without the lock. */
static void
stop(RtMember *m, const RtEnd *why)
{
    pthread_mutex_lock(&m->lock);
    bool first = !m->stopped && m->phase != MEMBER_DONE;
    if (first) {
        m->stop = *why;
        m->stop.reason = arena_strdup(m->arena, why->reason);
        m->stop.notes = arena_strdup(m->arena, why->notes);
        m->stopped = true;
        m->phase = MEMBER_STOPPED;
    }
    bool call = first && m->on_stop;
    m->stop_called |= call;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    if (call)
        m->on_stop(m->on_stop_data, m->stop.reason);
}

/* For a reason that only this process knows. */
static void
stop_with(RtMember *m, int exit_status, const char *reason, const char *notes)
{
    RtEnd end = {.exit_status = exit_status,
                 .speaker = m->job.rank,
                 .reason = reason,
                 .notes = notes};
    stop(m, &end);
}

static void
stop_here(RtMember *m, int exit_status, const char *reason)
{
    stop_with(m, exit_status, reason, "");
}

static void
move_to(RtMember *m, RtMemberPhase phase)
{
    pthread_mutex_lock(&m->lock);
    if (m->phase < phase)
        m->phase = phase;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

static RtMemberPhase
phase_of(RtMember *m)
{
    pthread_mutex_lock(&m->lock);
    RtMemberPhase phase = m->phase;
    pthread_mutex_unlock(&m->lock);
    return phase;
}

/* ---- sending ------------------------------------------------------------ */

static void
send_frame(RtMember *m, void *socket, const RtFrame *f)
{
    if (!f->bad)
        m->zmq->zmq_send(socket, f->bytes, f->len, ZMQ_DONTWAIT);
}

static void
send_hello(RtMember *m, void *socket)
{
    Arena *a = arena_new(NULL, "a hello");
    RtFrame f = rt_frame_new(a, RT_FRAME_HELLO, m->options.attempt, m->nonce);
    rt_frame_hello(&f, &m->hello);
    send_frame(m, socket, &f);
    arena_release(a);
}

static void
tell_at(RtMember *m)
{
    pthread_mutex_lock(&m->lock);
    int32_t at = m->locate ? m->locate(m->locate_data) : -1;
    pthread_mutex_unlock(&m->lock);
    rt_positions_tell_at(&m->positions, at);
}

static void
send_heartbeat(RtMember *m)
{
    uint8_t bytes[128];
    RtHeartbeat heartbeat;
    rt_positions_read(&m->positions, &heartbeat);
    RtFrame f = rt_frame_in(bytes, sizeof bytes, RT_FRAME_HEARTBEAT,
                            m->options.attempt, 0);
    rt_frame_heartbeat(&f, &heartbeat);
    send_frame(m, m->server->socket, &f);
}

static void
send_linked(RtMember *m)
{
    Arena *a = arena_new(NULL, "the test of links");
    RtLinked linked;
    rt_link_test_result(m, a, &linked);
    RtFrame f = rt_frame_new(a, RT_FRAME_LINKED, m->options.attempt, 0);
    rt_frame_linked(&f, &linked);
    send_frame(m, m->server->socket, &f);
    arena_release(a);
}

/* What main's thread asked for.  It must not wait for libzmq, which is called
 * without the lock. */
static void
send_wanted(RtMember *m)
{
    Arena *a = arena_new(NULL, "a frame");
    RtFrame exchange = {0}, end = {0};
    pthread_mutex_lock(&m->lock);
    bool exchanges = m->exchange_wanted, ends = m->end_wanted && !m->end_sent;
    if (exchanges) {
        exchange = rt_frame_new(a, RT_FRAME_EXCHANGE, m->options.attempt,
                                m->exchange_number);
        rt_frame_exchange(&exchange, &m->exchange);
        m->exchange_wanted = false;
    }
    if (ends) {
        end = rt_frame_new(a, RT_FRAME_END, m->options.attempt, 0);
        rt_frame_end(&end, &m->end);
        m->end_sent = true;
    }
    pthread_mutex_unlock(&m->lock);
    if (exchanges)
        send_frame(m, m->server->socket, &exchange);
    if (ends) {
        send_heartbeat(m);
        send_frame(m, m->server->socket, &end);
    }
    arena_release(a);
}

/* ---- connections -------------------------------------------------------- */

static void
close_connection(RtMember *m, RtConnection *c)
{
    rt_zmq_close_monitor(m->zmq, c->socket, c->monitor);
    if (c->socket)
        m->zmq->zmq_close(c->socket);
    c->monitor = c->socket = NULL;
}

static Status
open_connection(RtMember *m, RtConnection *c)
{
    char name[64];
    snprintf(name, sizeof name, "inproc://member-%d",
             (int)(c - m->connections));
    TRY(rt_zmq_member_socket(m->zmq, m->context, ZMQ_DEALER, &m->keys,
                             &c->socket));
    TRY(rt_zmq_open_monitor(m->zmq, m->context, c->socket, name,
                            ZMQ_EVENT_DISCONNECTED |
                                ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                                ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                ZMQ_EVENT_HANDSHAKE_FAILED_AUTH,
                            &c->monitor));
    if (m->zmq->zmq_connect(c->socket, c->address))
        return rt_zmq_error(m->zmq, "cannot connect");
    send_hello(m, c->socket);
    return OK;
}

static void
add_connection(RtMember *m, const char *address)
{
    for (int i = 0; i < m->num_connections; i++)
        if (strcmp(m->connections[i].address, address) == 0)
            return;
    if (m->num_connections == RT_MOST_CONNECTIONS)
        return;
    RtConnection *c = &m->connections[m->num_connections++];
    *c = (RtConnection){.address = arena_strdup(m->arena, address)};
    Status st = rt_zmq_check_address(m->zmq, &m->keys, address);
    if (!st)
        st = open_connection(m, c);
    if (st)
        stop_here(m, (int)status_kind(st), status_message(st));
    status_free(st);
}

/* All numbers of a name, of both families; a name may get some later. */
static void
resolve(RtMember *m, const char *address)
{
    Arena *a = arena_new(NULL, "an address");
    struct addrinfo *list = NULL, hints = {.ai_socktype = SOCK_STREAM};
    const char *colon = strrchr(address, ':');
    char *host = colon ? arena_strndup(a, address, (size_t)(colon - address))
                       : arena_strdup(a, address);
    size_t n = strlen(host);
    if (n > 2 && host[0] == '[' && host[n - 1] == ']')
        host = arena_strndup(a, host + 1, n - 2);
    atomic_store(&m->liveness.calls, "the resolver of host names");
    m->resolver_error =
        colon ? getaddrinfo(host, colon + 1, &hints, &list) : EAI_NONAME;
    atomic_store(&m->liveness.calls, NULL);
    if (!m->resolver_error) {
        for (struct addrinfo *at = list; at; at = at->ai_next) {
            char number[NI_MAXHOST];
            if (getnameinfo(at->ai_addr, at->ai_addrlen, number, sizeof number,
                            NULL, 0, NI_NUMERICHOST))
                continue;
            bool six = at->ai_family == AF_INET6;
            add_connection(m, arena_printf(a, "tcp://%s%s%s:%s", six ? "[" : "",
                                           number, six ? "]" : "", colon + 1));
        }
        freeaddrinfo(list);
    }
    arena_release(a);
}

static void
seek(RtMember *m, double now)
{
    if (m->resolved > 0 && now - m->resolved < resolve_every)
        return;
    m->resolved = now;
    for (int i = 0; i < m->options.num_addresses; i++)
        resolve(m, m->options.addresses[i]);
}

/* The first connection on which the server answered is kept. */
static void
keep(RtMember *m, RtConnection *c, double now)
{
    m->server = c;
    m->heard = now;
    for (int i = 0; i < m->num_connections; i++)
        if (&m->connections[i] != c)
            close_connection(m, &m->connections[i]);
    move_to(m, MEMBER_HEARD);
}

/* The addresses, their numbers, or why there are none. */
static const char *
tried(RtMember *m, Arena *a)
{
    Str s = str_new(a);
    for (int i = 0; i < m->options.num_addresses; i++)
        str_addf(&s, "%s%s", i ? ", " : "", m->options.addresses[i]);
    for (int i = 0; i < m->num_connections; i++)
        str_addf(&s, "%s%s", i ? ", " : " (",
                 m->connections[i].address + strlen("tcp://"));
    if (!m->num_connections && m->resolver_error)
        str_addf(&s, " (this machine finds no host of this name: %s",
                 gai_strerror(m->resolver_error));
    return arena_printf(a, "%s%s", str_text(&s),
                        m->num_connections || m->resolver_error ? ")" : "");
}

static void
say_seeking(RtMember *m, double now)
{
    if (now - m->said < SAY_EVERY && now - m->began < m->timeout)
        return;
    m->said = now;
    Arena *a = arena_new(NULL, "the control server");
    const char *at = tried(m, a);
    if (now - m->began >= m->timeout)
        stop_here(m, 3,
                  message_printf(a,
                                 "rank %d: the control server at %s has not "
                                 "answered after %.0f seconds (--timeout "
                                 "allows more)",
                                 m->job.rank, at, now - m->began));
    else
        rt_server_print(NULL, RT_SAY_NOTE,
                        message_printf(a,
                                       "rank %d waits for the control server "
                                       "at %s",
                                       m->job.rank, at),
                        "");
    arena_release(a);
}

/* ---- events of connections ---------------------------------------------- */

/* "10.0.0.1:17000 of rank 0 (h1, pid 7)" */
static const char *
server_name(const RtMember *m, Arena *a)
{
    const char *address = m->server->address + strlen("tcp://");
    if (m->server_rank < 0 || !m->job.peers)
        return address;
    const RtJobPeer *peer = &m->job.peers[m->server_rank];
    return message_printf(a, "%s of rank %d (%s, pid %lld)", address,
                          m->server_rank, peer->host, (long long)peer->pid);
}

/* A whole line: the call that this process waits in, or "". */
static const char *
own_call(const RtMember *m, Arena *a)
{
    RtHeartbeat at;
    rt_positions_read(&m->positions, &at);
    if (at.state != RT_JOB_WAITS || at.wait_site < 0 ||
        at.wait_site >= m->hello.num_sites)
        return "";
    const RtJobSite *site = &m->hello.sites[at.wait_site];
    const char *text = message_printf(
        a, "rank %d waits here for others (%s, call %lld, step %lld)",
        m->job.rank, site->what, (long long)at.wait_call, (long long)at.step);
    return arena_printf(a, "%s: note: %s\n", site->where, text);
}

/* Its connection is closed; the run gets a moment to come to where it lacks the
 * others, and a message that was under way to come. */
static void
look_for_lost(RtMember *m, double now)
{
    if (m->server_lost <= 0 || now - m->server_lost < last_calls)
        return;
    Arena *a = arena_new(NULL, "the control server");
    const char *name = server_name(m, a);
    const char *line =
        message_printf(a,
                       "rank %d has lost the control server (%s): the "
                       "process that it belongs to is dead, or the "
                       "network between them",
                       m->job.rank, name);
    stop_with(m, 3, line, own_call(m, a));
    arena_release(a);
}

static void
count_refusals(RtMember *m)
{
    for (int i = 0; i < m->num_connections; i++)
        if (m->connections[i].refusals < MOST_REFUSALS)
            return;
    Arena *a = arena_new(NULL, "the control server");
    stop_here(m, 1,
              message_printf(a,
                             "the control server at %s does not accept this "
                             "process: it has another key, or is not one of "
                             "tfd-run; give all processes the same --key FILE",
                             tried(m, a)));
    arena_release(a);
}

static void
read_events(RtMember *m, RtConnection *c)
{
    const int tells =
        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    int event;
    int32_t value;
    while (c->monitor &&
           rt_zmq_next_event(m->zmq, c->monitor, &event, &value)) {
        if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
            c->handshake = true;
        } else if (event != ZMQ_EVENT_DISCONNECTED || !c->handshake) {
            /* It may close without a word, and be asked again; after an error
             * of the protocol libzmq does not try again. */
            c->refusals += event & tells ? MOST_REFUSALS : 1;
            count_refusals(m);
        } else if (c == m->server) {
            m->server_lost = clock_seconds();
            m->server_fd = -1;
        }
    }
}

/* ---- frames ------------------------------------------------------------- */

/* Who has joined over a network has told where it answers link tests. */
static bool
is_local(const RtWelcome *w)
{
    for (int i = 0; i < w->size; i++)
        if (w->peers[i].addresses.num)
            return false;
    return true;
}

static void
take_welcome(RtMember *m, RtFrame *f)
{
    RtWelcome w = {0};
    f->a = m->arena;
    rt_frame_welcome(f, &w);
    if (!rt_frame_is_good(f) || w.size != m->job.size)
        return;
    RtJobPeer *peers = NEW_ARRAY(m->arena, RtJobPeer, (size_t)w.size);
    for (int i = 0; i < w.size; i++)
        peers[i] = w.peers[i].peer;
    m->job.peers = peers;
    m->job.is_local = is_local(&w);
    m->job.id = w.id;
    m->server_rank = w.server >= 0 && w.server < w.size ? w.server : -1;
    m->job.local_rank = peers[m->job.rank].local_rank;
    m->job.local_size = peers[m->job.rank].local_size;
    rt_link_test_begin(m, &w);
    move_to(m, MEMBER_LINKS);
}

static void
take_all(RtMember *m, RtFrame *f)
{
    pthread_mutex_lock(&m->lock);
    if (m->exchange_arena && f->number == m->exchange_number) {
        Arena *a = m->exchange_arena;
        RtBytes *all = NEW_ARRAY(a, RtBytes, (size_t)m->job.size);
        rt_frame_all(f, all, m->job.size);
        for (int i = 0; i < m->job.size; i++)
            if (all[i].len)
                all[i].data = arena_copy(a, all[i].data, all[i].len);
        m->exchange_all = all;
        m->exchange_done = rt_frame_is_good(f);
        pthread_cond_broadcast(&m->changed);
    }
    pthread_mutex_unlock(&m->lock);
}

static void
take_bye(RtMember *m, const RtEnd *bye)
{
    pthread_mutex_lock(&m->lock);
    m->bye = *bye;
    m->has_bye = true;
    m->phase = MEMBER_DONE;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

static void
take(RtMember *m, RtConnection *c, RtFrame *f, double now)
{
    RtEnd end = {0};
    m->heard = now;
    switch ((RtFrameType)f->type) {
    case RT_FRAME_HEARD:
        if (!m->server && f->number == m->nonce)
            keep(m, c, now);
        break;
    case RT_FRAME_WELCOME:
        if (phase_of(m) == MEMBER_HEARD)
            take_welcome(m, f);
        break;
    case RT_FRAME_GO:
        if (phase_of(m) == MEMBER_LINKED)
            move_to(m, MEMBER_GOES);
        break;
    case RT_FRAME_ALL:
        take_all(m, f);
        break;
    case RT_FRAME_STOP:
    case RT_FRAME_BYE:
        rt_frame_end(f, &end);
        if (!rt_frame_is_good(f))
            break;
        if (f->type == RT_FRAME_BYE)
            take_bye(m, &end);
        else
            stop(m, &end);
        break;
    default:
        break;
    }
}

static void
read_messages(RtMember *m, RtConnection *c)
{
    while (c->socket) {
        zmq_msg_t body;
        m->zmq->zmq_msg_init(&body);
        bool got = m->zmq->zmq_msg_recv(&body, c->socket, ZMQ_DONTWAIT) >= 0;
        if (got) {
            m->server_fd = m->zmq->zmq_msg_get(&body, ZMQ_SRCFD);
            Arena *a = arena_new(NULL, "a frame");
            RtFrame f = rt_frame_read(a, m->zmq->zmq_msg_data(&body),
                                      m->zmq->zmq_msg_size(&body));
            if (!f.bad)
                take(m, c, &f, clock_seconds());
            arena_release(a);
        }
        m->zmq->zmq_msg_close(&body);
        if (!got)
            return;
    }
}

/* ---- a turn ------------------------------------------------------------- */

static void
say_silence(RtMember *m, double silence)
{
    Arena *a = arena_new(NULL, "the control server");
    const char *name = server_name(m, a);
    const char *notes = own_call(m, a);
    if (silence >= m->silence)
        stop_with(m, 3,
                  message_printf(a,
                                 "rank %d has not heard the control server "
                                 "(%s) for %.1f seconds: the process that it "
                                 "belongs to is stopped, or its host or "
                                 "network is gone",
                                 m->job.rank, name, silence),
                  notes);
    else
        rt_server_print(NULL, RT_SAY_NOTE,
                        message_printf(a,
                                       "rank %d has not heard the control "
                                       "server (%s) for %.1f seconds",
                                       m->job.rank, name, silence),
                        notes);
    m->silence_said = true;
    arena_release(a);
}

/* A server that sends five heartbeats a second, and is not heard: this process
 * may have been stopped meanwhile, which does not count. */
static void
look_for_silence(RtMember *m, double now)
{
    double gap = now - m->looked;
    if (gap > 0.5)
        m->heard += gap;
    m->looked = now;
    if (now - m->heard >= silence_noted && rt_zmq_has_unread(m->server_fd))
        m->heard = now;
    double silence = now - m->heard;
    if (silence < silence_noted)
        m->silence_said = false;
    else if (silence >= m->silence || !m->silence_said)
        say_silence(m, silence);
}

static void
dump(RtMember *m, const char *reason)
{
    RtDump d = {m->options.diagnose, m->job.rank,        m->job.host,
                m->hello.sites,      m->hello.num_sites, reason};
    Status st = rt_positions_dump(&m->positions, &d);
    if (st)
        rt_server_print(NULL, RT_SAY_NOTE, status_message(st), "");
    status_free(st);
}

static void
dump_at_end(RtMember *m, const char *reason)
{
    if (!m->dumped)
        dump(m, reason);
    m->dumped = true;
}

static void
look_at_dumps(RtMember *m)
{
    if (!m->options.diagnose)
        return;
    atomic_bool *wanted = m->options.dump;
    pthread_mutex_lock(&m->lock);
    bool stopped = m->stopped;
    pthread_mutex_unlock(&m->lock);
    if (wanted && atomic_exchange(wanted, false))
        dump(m, "asked for by SIGUSR2");
    if (stopped)
        dump_at_end(m, m->stop.reason);
}

/* Before the thread ends: of a run that failed, or was stopped so late that
 * nobody has looked since. */
static void
look_at_end(RtMember *m)
{
    bool failed = m->end_wanted && m->end.exit_status != 0;
    if (m->options.diagnose && m->server && (m->stopped || failed))
        dump_at_end(m, m->stopped ? m->stop.reason : m->end.reason);
}

static void
turn(RtMember *m, double now)
{
    RtMemberPhase phase = phase_of(m);
    if (phase == MEMBER_SEEKS) {
        seek(m, now);
        say_seeking(m, now);
    }
    for (int i = 0; i < m->num_connections; i++) {
        read_messages(m, &m->connections[i]);
        read_events(m, &m->connections[i]);
    }
    bool tested = !m->links || rt_link_test_turn(m, now);
    if (tested && phase_of(m) == MEMBER_LINKS) {
        send_linked(m);
        move_to(m, MEMBER_LINKED);
    }
    if (!m->server || phase_of(m) == MEMBER_DONE)
        return;
    send_wanted(m);
    if (now - m->heartbeat >= heartbeat_every) {
        m->heartbeat = now;
        tell_at(m);
        send_heartbeat(m);
    }
    look_for_silence(m, now);
    look_for_lost(m, now);
    look_at_dumps(m);
}

static int
list_items(RtMember *m, zmq_pollitem_t *items)
{
    int n = 0;
    items[n++] = (zmq_pollitem_t){NULL, m->bell, ZMQ_POLLIN, 0};
    for (int i = 0; i < m->num_connections; i++) {
        const RtConnection *c = &m->connections[i];
        if (c->socket)
            items[n++] = (zmq_pollitem_t){c->socket, 0, ZMQ_POLLIN, 0};
        if (c->monitor)
            items[n++] = (zmq_pollitem_t){c->monitor, 0, ZMQ_POLLIN, 0};
    }
    if (m->links)
        n += rt_link_test_poll(m, items + n, MOST_ITEMS - n);
    return n;
}

static bool
is_closing(RtMember *m)
{
    uint64_t count;
    if (read(m->bell, &count, sizeof count) < 0)
        count = 0; /* nobody rang */
    pthread_mutex_lock(&m->lock);
    bool closing = m->closing;
    pthread_mutex_unlock(&m->lock);
    return closing;
}

void *
rt_member_run(void *data)
{
    RtMember *m = data;
    zmq_pollitem_t items[MOST_ITEMS];
    m->began = m->looked = m->said = clock_seconds();
    while (!is_closing(m)) {
        rt_turn_begins(&m->liveness);
        turn(m, clock_seconds());
        m->zmq->zmq_poll(items, list_items(m, items), TURN_MS);
    }
    look_at_end(m);
    for (int i = 0; i < m->num_connections; i++)
        close_connection(m, &m->connections[i]);
    return NULL;
}
