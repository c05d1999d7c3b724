/*
 * sockets.c - sockets between the processes of a parameter-server job
 */
#include "runtime/ps/wire/sockets.h"

#include <assert.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include "runtime/hal/system.h"

/* Of a message that a listener takes: strangers without a key send none. */
static const int64_t most_bytes = (int64_t)8 << 30;

enum { TRIES = 3 }; /* of a call that sends */

Status
rt_ps_net_open(RtPsNet *net, const uint8_t *key)
{
    *net = (RtPsNet){0};
    rt_ps_damage_init(&net->damage);
    TRY(rt_zmq_open(&net->zmq));
    TRY(rt_zmq_keys(net->zmq, key, &net->keys));
    net->context = net->zmq->zmq_ctx_new();
    return net->context ? OK : rt_zmq_error(net->zmq, "cannot open sockets");
}

void
rt_ps_net_close(RtPsNet *net)
{
    if (net->context)
        net->zmq->zmq_ctx_term(net->context);
    net->context = NULL;
    rt_ps_damage_end(&net->damage, stderr);
}

/* ---- waiting ------------------------------------------------------------- */

/* The descriptor tells of messages only until libzmq looks at it, which it does
 * in any call: so a socket has news from when it is used for something else
 * until it was found empty.  After a failure it is closed: a context waits for
 * its sockets. */
static Status
use(RtPsNet *net, void *zmq, RtPsSocket *out)
{
    int fd;
    size_t n = sizeof fd;
    if (net->zmq->zmq_getsockopt(zmq, ZMQ_FD, &fd, &n)) {
        Status st = rt_zmq_error(net->zmq, "a socket has no descriptor");
        net->zmq->zmq_close(zmq);
        return st;
    }
    *out = (RtPsSocket){zmq, fd, true};
    return OK;
}

/* Where it cannot be known it is tried. */
static bool
has_message(RtPsNet *net, const RtPsSocket *s)
{
    int events = 0;
    size_t n = sizeof events;
    return net->zmq->zmq_getsockopt(s->zmq, ZMQ_EVENTS, &events, &n) ||
           events & ZMQ_POLLIN;
}

void
rt_ps_poll(RtPsNet *net, RtPsSocket *const *sockets, int num, int ms)
{
    struct pollfd fds[RT_PS_MOST_WAITED];
    bool any = false;
    assert(num <= RT_PS_MOST_WAITED);
    for (int i = 0; i < num; i++) {
        RtPsSocket *s = sockets[i];
        if (s->has_news && s->zmq)
            s->has_news = has_message(net, s);
        any |= s->has_news;
        fds[i] = (struct pollfd){.fd = s->fd, .events = POLLIN};
    }
    if (poll(fds, (nfds_t)num, any ? 0 : ms) <= 0)
        return;
    for (int i = 0; i < num; i++)
        sockets[i]->has_news |= fds[i].revents != 0;
}

/* ---- listening ---------------------------------------------------------- */

static Status
bind_to(RtPsListener *l, const char *at)
{
    const RtZmq *z = l->net->zmq;
    char address[256];
    snprintf(address, sizeof address, "tcp://%s", at);
    TRY(rt_zmq_check_address(z, &l->net->keys, address));
    if (z->zmq_bind(l->router.zmq, address))
        return status_new(STATUS_MACHINE, "cannot listen on %s: %s", at,
                          z->zmq_strerror(z->zmq_errno()));
    l->port = rt_zmq_port(z, l->router.zmq);
    return OK;
}

Status
rt_ps_listen(RtPsNet *net, const char *at, RtPsListener *out)
{
    void *zmq;
    *out = (RtPsListener){.net = net, .zap.fd = -1};
    if (net->keys.given) {
        TRY(rt_zmq_open_zap(net->zmq, net->context, &zmq));
        TRY(use(net, zmq, &out->zap));
    }
    TRY(rt_zmq_server_socket(net->zmq, net->context, ZMQ_ROUTER, &net->keys,
                             most_bytes, &zmq));
    TRY(use(net, zmq, &out->router));
    return bind_to(out, at);
}

void
rt_ps_listener_close(RtPsListener *l)
{
    enum { LINGER_MS = 1000 };
    int linger = LINGER_MS;
    if (l->router.zmq) {
        l->net->zmq->zmq_setsockopt(l->router.zmq, ZMQ_LINGER, &linger,
                                    sizeof linger);
        l->net->zmq->zmq_close(l->router.zmq);
    }
    if (l->zap.zmq)
        l->net->zmq->zmq_close(l->zap.zmq);
    *l = (RtPsListener){0};
}

bool
rt_ps_is_route(const RtPsRoute *a, const RtPsRoute *b)
{
    return a->len == b->len && memcmp(a->id, b->id, a->len) == 0;
}

/* All parts after the first are taken; a message has one. */
static bool
take_rest(const RtZmq *z, void *socket, zmq_msg_t *m)
{
    bool single = true;
    while (z->zmq_msg_more(m)) {
        single = false;
        if (z->zmq_msg_recv(m, socket, 0) < 0)
            return false;
    }
    return single;
}

bool
rt_ps_next_from(RtPsListener *l, RtPsRoute *from, zmq_msg_t *m)
{
    const RtZmq *z = l->net->zmq;
    void *router = l->router.zmq;
    if (l->zap.has_news && l->zap.zmq)
        rt_zmq_answer_zap(z, l->zap.zmq, &l->net->keys);
    while (z->zmq_msg_recv(m, router, ZMQ_DONTWAIT) >= 0) {
        size_t n = z->zmq_msg_size(m);
        from->len = n <= sizeof from->id ? (uint8_t)n : 0;
        memcpy(from->id, z->zmq_msg_data(m), from->len);
        if (z->zmq_msg_more(m) && z->zmq_msg_recv(m, router, 0) >= 0 &&
            take_rest(z, router, m) && from->len)
            return true;
    }
    l->router.has_news = false;
    return false;
}

void
rt_ps_send_to(RtPsListener *l, const RtPsRoute *to, const RtArchive *ar)
{
    const RtZmq *z = l->net->zmq;
    void *router = l->router.zmq;
    if (to->len &&
        z->zmq_send(router, to->id, to->len, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        z->zmq_send(router, ar->data, ar->len, ZMQ_DONTWAIT);
    l->router.has_news = true;
}

/* ---- connecting --------------------------------------------------------- */

Status
rt_ps_connect(RtPsNet *net, const char *address, RtPsSocket *out)
{
    void *socket;
    TRY(rt_zmq_check_address(net->zmq, &net->keys, address));
    TRY(rt_zmq_member_socket(net->zmq, net->context, ZMQ_DEALER, &net->keys,
                             &socket));
    if (net->zmq->zmq_connect(socket, address)) {
        Status st = rt_zmq_error(net->zmq, address);
        net->zmq->zmq_close(socket);
        return st;
    }
    return use(net, socket, out);
}

void
rt_ps_disconnect(RtPsNet *net, RtPsSocket *socket)
{
    if (socket->zmq)
        net->zmq->zmq_close(socket->zmq);
    *socket = (RtPsSocket){0};
}

bool
rt_ps_next(RtPsNet *net, RtPsSocket *socket, zmq_msg_t *m)
{
    while (net->zmq->zmq_msg_recv(m, socket->zmq, ZMQ_DONTWAIT) >= 0)
        if (take_rest(net->zmq, socket->zmq, m))
            return true;
    socket->has_news = false;
    return false;
}

/* A call that fails for a moment loses no message: those behind it would be
 * executed without it (a pull without the push before it). */
void
rt_ps_send(RtPsNet *net, RtPsSocket *socket, const RtArchive *ar)
{
    for (int i = 0; i < TRIES; i++)
        if (net->zmq->zmq_send(socket->zmq, ar->data, ar->len, ZMQ_DONTWAIT) >=
            0)
            break;
    socket->has_news = true;
}

/* ---- the parent --------------------------------------------------------- */

Status
rt_ps_announce(int fd, const char *line)
{
    char text[64];
    if (fd < 0)
        return OK;
    int n = snprintf(text, sizeof text, "%s\n", line);
    Status st = write(fd, text, (size_t)n) == n ? OK : rt_system_error("write");
    close(fd);
    return st;
}
