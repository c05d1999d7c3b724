/*
 * linktest.c - whether the processes of a job reach each other
 *
 * Each pair on different machines exchanges eight bytes before the first step:
 * the lower rank connects to all addresses of the higher one.  A firewall, or
 * an interface that only some have, so gets a line that names the pair, instead
 * of a run that waits.
 */
#include <string.h>
#include "ir/base/clock.h"
#include "ir/base/str.h"
#include "runtime/hal/system.h"
#include "runtime/cluster/control/interfaces.h"
#include "runtime/cluster/control/job_impl.h"

static const double patience = 5; /* seconds for all pairs */

typedef struct LinkPeer {
    int rank;
    const RtAddresses *addresses;
    void *socket;
    bool asked, answered;
} LinkPeer;

struct RtLinkTest {
    void *zap, *server;
    int port;
    LinkPeer *peers; /* that this process connects to */
    int num_peers;
    double began; /* 0: not yet */
    bool done;
};

static const uint8_t question[8] = "tfd link";

/* ---- listening ---------------------------------------------------------- */

/* Where IPv6 is switched off, only IPv4 can be bound. */
static Status
bind_all(RtMember *m, void *socket)
{
    if (m->zmq->zmq_bind(socket, m->keys.given ? "tcp://*:*"
                                               : "tcp://127.0.0.1:*") == 0)
        return OK;
    if (m->zmq->zmq_bind(socket, "tcp://0.0.0.0:*") == 0)
        return OK;
    return rt_zmq_error(m->zmq, "cannot listen for the test of links");
}

Status
rt_link_test_open(RtMember *m, RtAddresses *addresses)
{
    RtLinkTest *t = NEW(m->arena, RtLinkTest);
    m->links = t;
    if (m->keys.given)
        TRY(rt_zmq_open_zap(m->zmq, m->context, &t->zap));
    TRY(rt_zmq_server_socket(m->zmq, m->context, ZMQ_ROUTER, &m->keys, 4096,
                             &t->server));
    TRY(bind_all(m, t->server));
    t->port = rt_zmq_port(m->zmq, t->server);
    return rt_list_addresses(m->arena, t->port, addresses);
}

/* ---- asking ------------------------------------------------------------- */

static void
ask(RtMember *m, LinkPeer *p, bool same_machine)
{
    int one = 1;
    if (rt_zmq_member_socket(m->zmq, m->context, ZMQ_DEALER, &m->keys,
                             &p->socket)) {
        p->socket = NULL;
        return;
    }
    m->zmq->zmq_setsockopt(p->socket, ZMQ_IMMEDIATE, &one, sizeof one);
    for (int i = 0; i < p->addresses->num; i++) {
        const char *address = p->addresses->text[i];
        if (same_machine || !rt_zmq_is_loopback(address))
            m->zmq->zmq_connect(p->socket, address);
    }
}

static bool
same_machine(const RtWelcome *w, int a, int b)
{
    return strcmp(w->peers[a].peer.machine, w->peers[b].peer.machine) == 0;
}

void
rt_link_test_begin(RtMember *m, const RtWelcome *w)
{
    RtLinkTest *t = m->links;
    if (!t)
        return;
    t->peers = NEW_ARRAY(m->arena, LinkPeer, (size_t)w->size);
    t->began = clock_seconds();
    for (int i = m->job.rank + 1; i < w->size; i++) {
        bool same = same_machine(w, m->job.rank, i);
        if (same || !w->peers[i].addresses.num)
            continue;
        LinkPeer *p = &t->peers[t->num_peers++];
        *p = (LinkPeer){.rank = i, .addresses = &w->peers[i].addresses};
        ask(m, p, same);
    }
}

/* ---- turns -------------------------------------------------------------- */

int
rt_link_test_poll(RtMember *m, zmq_pollitem_t *items, int most)
{
    RtLinkTest *t = m->links;
    int n = 0;
    if (t->zap && n < most)
        items[n++] = (zmq_pollitem_t){t->zap, 0, ZMQ_POLLIN, 0};
    if (t->server && n < most)
        items[n++] = (zmq_pollitem_t){t->server, 0, ZMQ_POLLIN, 0};
    for (int i = 0; i < t->num_peers && n < most; i++)
        if (t->peers[i].socket && !t->peers[i].answered)
            items[n++] = (zmq_pollitem_t){t->peers[i].socket, 0, ZMQ_POLLIN, 0};
    return n;
}

/* Sends back what came. */
static void
answer(RtMember *m, RtLinkTest *t)
{
    uint8_t id[64], bytes[sizeof question];
    for (;;) {
        int n = m->zmq->zmq_recv(t->server, id, sizeof id, ZMQ_DONTWAIT);
        if (n < 0)
            return;
        int more = 0;
        size_t size = sizeof more;
        m->zmq->zmq_getsockopt(t->server, ZMQ_RCVMORE, &more, &size);
        int got =
            more ? m->zmq->zmq_recv(t->server, bytes, sizeof bytes, 0) : -1;
        if (got != (int)sizeof bytes || n > (int)sizeof id)
            continue;
        m->zmq->zmq_send(t->server, id, (size_t)n, ZMQ_SNDMORE | ZMQ_DONTWAIT);
        m->zmq->zmq_send(t->server, bytes, sizeof bytes, ZMQ_DONTWAIT);
    }
}

static void
look_at(RtMember *m, LinkPeer *p)
{
    uint8_t bytes[sizeof question];
    if (!p->socket || p->answered)
        return;
    if (!p->asked)
        p->asked = m->zmq->zmq_send(p->socket, question, sizeof question,
                                    ZMQ_DONTWAIT) >= 0;
    if (m->zmq->zmq_recv(p->socket, bytes, sizeof bytes, ZMQ_DONTWAIT) ==
        (int)sizeof bytes)
        p->answered = memcmp(bytes, question, sizeof bytes) == 0;
    if (p->answered) {
        m->zmq->zmq_close(p->socket);
        p->socket = NULL;
    }
}

bool
rt_link_test_turn(RtMember *m, double now)
{
    RtLinkTest *t = m->links;
    bool all = true;
    if (t->zap)
        rt_zmq_answer_zap(m->zmq, t->zap, &m->keys);
    answer(m, t);
    if (t->began <= 0)
        return false;
    for (int i = 0; i < t->num_peers; i++) {
        look_at(m, &t->peers[i]);
        all = all && t->peers[i].answered;
    }
    return all || now - t->began > patience;
}

static const char *
list_text(Arena *a, const RtAddresses *addresses)
{
    Str s = str_new(a);
    for (int i = 0; i < addresses->num; i++)
        if (!rt_zmq_is_loopback(addresses->text[i]))
            str_addf(&s, "%s%s", s.len ? ", " : "",
                     addresses->text[i] + strlen("tcp://"));
    return str_text(&s);
}

void
rt_link_test_result(const RtMember *m, Arena *a, RtLinked *out)
{
    const RtLinkTest *t = m->links;
    *out = (RtLinked){0};
    if (!t)
        return;
    out->unreached = NEW_ARRAY(a, RtUnreached, (size_t)t->num_peers);
    for (int i = 0; i < t->num_peers; i++) {
        const LinkPeer *p = &t->peers[i];
        if (!p->answered)
            out->unreached[out->num++] =
                (RtUnreached){p->rank, list_text(a, p->addresses)};
    }
}

void
rt_link_test_close(RtMember *m)
{
    RtLinkTest *t = m->links;
    if (!t)
        return;
    for (int i = 0; i < t->num_peers; i++)
        if (t->peers[i].socket)
            m->zmq->zmq_close(t->peers[i].socket);
    if (t->server)
        m->zmq->zmq_close(t->server);
    if (t->zap)
        m->zmq->zmq_close(t->zap);
    m->links = NULL;
}
