/*
 * sockets.c - sockets between the processes of a parameter-server job
 */
#include "runtime/ps/wire/sockets.h"

#include <string.h>
#include <unistd.h>
#include "runtime/hal/system.h"

/* Of a message that a listener takes: strangers without a key send none. */
static const int64_t most_bytes = (int64_t)8 << 30;

Status
rt_ps_net_open(RtPsNet *net, const uint8_t *key)
{
    *net = (RtPsNet){0};
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
}

/* ---- listening ---------------------------------------------------------- */

static Status
bind_to(RtPsListener *l, const char *at)
{
    const RtZmq *z = l->net->zmq;
    char address[256];
    snprintf(address, sizeof address, "tcp://%s", at);
    TRY(rt_zmq_check_address(z, &l->net->keys, address));
    if (z->zmq_bind(l->router, address))
        return status_new(STATUS_MACHINE, "cannot listen on %s: %s", at,
                          z->zmq_strerror(z->zmq_errno()));
    l->port = rt_zmq_port(z, l->router);
    return OK;
}

Status
rt_ps_listen(RtPsNet *net, const char *at, RtPsListener *out)
{
    *out = (RtPsListener){.net = net};
    if (net->keys.given)
        TRY(rt_zmq_open_zap(net->zmq, net->context, &out->zap));
    TRY(rt_zmq_server_socket(net->zmq, net->context, ZMQ_ROUTER, &net->keys,
                             most_bytes, &out->router));
    return bind_to(out, at);
}

void
rt_ps_listener_close(RtPsListener *l)
{
    enum { LINGER_MS = 1000 };
    int linger = LINGER_MS;
    if (l->router) {
        l->net->zmq->zmq_setsockopt(l->router, ZMQ_LINGER, &linger,
                                    sizeof linger);
        l->net->zmq->zmq_close(l->router);
    }
    if (l->zap)
        l->net->zmq->zmq_close(l->zap);
    *l = (RtPsListener){0};
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
    if (l->zap)
        rt_zmq_answer_zap(z, l->zap, &l->net->keys);
    while (z->zmq_msg_recv(m, l->router, ZMQ_DONTWAIT) >= 0) {
        size_t n = z->zmq_msg_size(m);
        from->len = n <= sizeof from->id ? (uint8_t)n : 0;
        memcpy(from->id, z->zmq_msg_data(m), from->len);
        if (z->zmq_msg_more(m) && z->zmq_msg_recv(m, l->router, 0) >= 0 &&
            take_rest(z, l->router, m) && from->len)
            return true;
    }
    return false;
}

void
rt_ps_send_to(RtPsListener *l, const RtPsRoute *to, const RtArchive *ar)
{
    const RtZmq *z = l->net->zmq;
    if (to->len && z->zmq_send(l->router, to->id, to->len,
                               ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        z->zmq_send(l->router, ar->data, ar->len, ZMQ_DONTWAIT);
}

/* ---- connecting --------------------------------------------------------- */

Status
rt_ps_connect(RtPsNet *net, const char *address, void **out)
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
    *out = socket;
    return OK;
}

void
rt_ps_disconnect(RtPsNet *net, void *socket)
{
    if (socket)
        net->zmq->zmq_close(socket);
}

bool
rt_ps_next(RtPsNet *net, void *socket, zmq_msg_t *m)
{
    while (net->zmq->zmq_msg_recv(m, socket, ZMQ_DONTWAIT) >= 0)
        if (take_rest(net->zmq, socket, m))
            return true;
    return false;
}

void
rt_ps_send(RtPsNet *net, void *socket, const RtArchive *ar)
{
    net->zmq->zmq_send(socket, ar->data, ar->len, ZMQ_DONTWAIT);
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
