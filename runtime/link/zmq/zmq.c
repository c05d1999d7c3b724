/*
 * zmq.c - a link over sockets of ZeroMQ
 *
 * A process has a PULL socket, to which all others connect a PUSH socket each.
 * A message is two frames: who sends it, its tag, its bytes and its number;
 * then the bytes.  The library sends a copy of them, so that nothing of a
 * stopped run is read later. Received messages wait in a list until somebody
 * wants their tag.
 *
 * A connection that is closed, by the network or what is in it, the library
 * makes again, without a word and without the messages that were under way.  So
 * messages of a pair are numbered; and who has waited for one for some seconds
 * asks the other one, whose answer has the number of the next one.
 *
 * With a key, connections are encrypted, and only the job's processes can make
 * them (cluster/zmq/socket.h).  Who may is answered with the messages: one
 * descriptor tells of both.
 */
#include "runtime/link/zmq/zmq.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "runtime/hal/system.h"
#include "runtime/cluster/zmq/socket.h"

enum {
    MOST_ADDRESSES = 16,
    MOST_TEXT = 64,
    LINGER_MS = 10000 /* for what others have not read at the end */
};

static const double patience = 2; /* seconds until who waits asks */

/* Tags of messages without a transfer, which have one byte. */
enum { QUESTION = RT_LINK_NUM_TAGS, ANSWER };

typedef struct Header {
    uint32_t rank, tag;
    uint64_t bytes;
    uint64_t number; /* messages of transfers that were sent before it */
} Header;

/* With another process: messages of transfers, and since when one of its is
 * waited for. */
typedef struct Pair {
    uint64_t sent, received;
    double since; /* 0: none is */
} Pair;

/* A message that has come before its transfer. */
typedef struct Early {
    struct Early *next;
    uint32_t tag;
    zmq_msg_t message;
} Early;

typedef struct Address {
    uint32_t port, num;
    unsigned char machine[36]; /* equal for processes of one machine */
    char at[MOST_ADDRESSES][MOST_TEXT];
} Address;

typedef struct ZmqLink {
    RtLink link;
    const RtZmq *zmq;
    Arena *arena;
    void *context, *pull, *zap;
    void **push; /* to each */
    int events;  /* a descriptor of pull and zap */
    Address address;
    RtCurveKeys keys;
    Pair *pairs;   /* of each */
    double now;    /* when there was progress last */
    Early **early; /* of each, oldest first */
    Early *unused;
    Status failure; /* of a message to another one, until progress returns it */
} ZmqLink;

static ZmqLink *
zmq_of(RtLink *l)
{
    return (ZmqLink *)l;
}

/* ---- addresses ----------------------------------------------------------- */

/* Of a running kernel. */
static void
read_machine(Address *a)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f) {
        if (fread(a->machine, 1, sizeof a->machine, f) == 0)
            a->machine[0] = 0;
        fclose(f);
    }
}

static void
add_interface(Address *a, const struct ifaddrs *i)
{
    const struct sockaddr_in *in = (const void *)i->ifa_addr;
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET ||
        !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK) ||
        a->num == MOST_ADDRESSES)
        return;
    inet_ntop(AF_INET, &in->sin_addr, a->at[a->num++], MOST_TEXT);
}

static void
find_interfaces(Address *a, const char *interface)
{
    struct ifaddrs *all;
    if (interface) {
        snprintf(a->at[a->num++], MOST_TEXT, "%s", interface);
        return;
    }
    if (getifaddrs(&all) == 0) {
        for (const struct ifaddrs *i = all; i; i = i->ifa_next)
            add_interface(a, i);
        freeifaddrs(all);
    }
    if (a->num == 0)
        snprintf(a->at[a->num++], MOST_TEXT, "127.0.0.1");
}

static Status
listen_at(ZmqLink *l, const char *interface)
{
    char text[128];
    snprintf(text, sizeof text, "tcp://%s:*",
             interface ? interface : "0.0.0.0");
    if (l->zmq->zmq_bind(l->pull, text))
        return rt_zmq_error(l->zmq, text);
    l->address.port = (uint32_t)rt_zmq_port(l->zmq, l->pull);
    find_interfaces(&l->address, interface);
    read_machine(&l->address);
    return OK;
}

static RtLinkAddress
zmq_address(RtLink *l)
{
    return (RtLinkAddress){&zmq_of(l)->address, sizeof(Address)};
}

/* ---- connecting ---------------------------------------------------------- */

static bool
has_address(const Address *a, const char *at)
{
    for (uint32_t i = 0; i < a->num; i++)
        if (strcmp(a->at[i], at) == 0)
            return true;
    return false;
}

/* On one machine, where all have the same. */
static bool
are_equal(const Address *a, const Address *b)
{
    for (uint32_t i = 0; i < a->num; i++)
        if (!has_address(b, a->at[i]))
            return false;
    return a->num == b->num;
}

/* Characters that both begin with. */
static size_t
common(const char *x, const char *y)
{
    size_t n = 0;
    while (x[n] && x[n] == y[n])
        n++;
    return n;
}

/* The first address of the other one in a network of ours, or its first.  One
 * that both have, as of a bridge for containers, leads to this machine. */
static const char *
choose_address(const ZmqLink *l, const Address *other)
{
    size_t best = 0;
    const char *chosen = other->at[0];
    if (are_equal(&l->address, other))
        return chosen;
    for (uint32_t i = 0; i < other->num; i++)
        for (uint32_t k = 0; k < l->address.num; k++) {
            size_t n = 1 + common(other->at[i], l->address.at[k]);
            if (n > best && !has_address(&l->address, other->at[i])) {
                best = n;
                chosen = other->at[i];
            }
        }
    return chosen;
}

static Status
connect_to(ZmqLink *l, int peer, const RtLinkAddress *blob)
{
    char text[128];
    Address other;
    if (blob->len != sizeof other)
        return status_new(STATUS_INPUT,
                          "rank %d has no address of ZeroMQ: all processes use "
                          "one link",
                          peer);
    memcpy(&other, blob->bytes, sizeof other);
    if (other.num == 0 || other.num > MOST_ADDRESSES || other.port == 0 ||
        other.port > 65535)
        return status_new(STATUS_INPUT, "rank %d has a damaged address", peer);
    other.at[other.num - 1][MOST_TEXT - 1] = 0;
    snprintf(text, sizeof text, "tcp://%.63s:%u", choose_address(l, &other),
             other.port);
    TRY(rt_zmq_member_socket(l->zmq, l->context, ZMQ_PUSH, &l->keys,
                             &l->push[peer]));
    if (l->zmq->zmq_connect(l->push[peer], text))
        return rt_zmq_error(l->zmq, text);
    return OK;
}

static Status
zmq_link_connect(RtLink *link, const RtLinkAddress *all)
{
    ZmqLink *l = zmq_of(link);
    for (int k = 0; k < link->size; k++)
        if (k != link->rank)
            TRY(connect_to(l, k, &all[k]));
    return OK;
}

/* ---- sending ------------------------------------------------------------- */

/* The library takes a copy, so a transfer has ended when it begins, and a
 * cancelled one has nothing that is still read.  How much waits to be sent is
 * bounded by what the others have to send first. */
static void
send_message(ZmqLink *l, int peer, uint32_t tag, const void *from, size_t n)
{
    void *socket = l->push[peer];
    Header h = {(uint32_t)l->link.rank, tag, n, l->pairs[peer].sent};
    if (l->failure)
        return;
    if (l->zmq->zmq_send(socket, &h, sizeof h, ZMQ_SNDMORE | ZMQ_DONTWAIT) <
            0 ||
        l->zmq->zmq_send(socket, from, n, ZMQ_DONTWAIT) < 0)
        l->failure = rt_zmq_error(l->zmq, "messages to other processes");
}

static void
zmq_link_send(RtLink *link, RtTransfer *t)
{
    ZmqLink *l = zmq_of(link);
    send_message(l, t->peer, t->tag, t->address, t->bytes);
    l->pairs[t->peer].sent++;
}

/* ---- receiving ----------------------------------------------------------- */

static void
zmq_link_recv(RtLink *link, RtTransfer *t)
{
    (void)link;
    (void)t; /* test looks for it */
}

static Early *
new_early(ZmqLink *l)
{
    Early *e = l->unused;
    if (e)
        l->unused = e->next;
    else
        e = NEW(l->arena, Early); /* as many as are ever early */
    e->next = NULL;
    return e;
}

static void
free_early(ZmqLink *l, Early *e)
{
    l->zmq->zmq_msg_close(&e->message);
    e->next = l->unused;
    l->unused = e;
}

static void
keep(ZmqLink *l, const Header *h, Early *e)
{
    Early **end = &l->early[h->rank];
    while (*end)
        end = &(*end)->next;
    e->tag = h->tag;
    *end = e;
}

/* Whether the frame that was taken last is not its message's last one. */
static bool
has_more(const ZmqLink *l)
{
    int more = 0;
    size_t n = sizeof more;
    return l->zmq->zmq_getsockopt(l->pull, ZMQ_RCVMORE, &more, &n) == 0 && more;
}

/* The second frame of two, which a message of this job has. */
static bool
take_body(const ZmqLink *l, const Header *h, zmq_msg_t *body)
{
    const RtZmq *zmq = l->zmq;
    return has_more(l) && zmq->zmq_msg_recv(body, l->pull, ZMQ_DONTWAIT) >= 0 &&
           !zmq->zmq_msg_more(body) && h->rank < (uint32_t)l->link.size &&
           h->rank != (uint32_t)l->link.rank && h->tag <= ANSWER &&
           h->bytes == zmq->zmq_msg_size(body);
}

/* The other frames of a message that is none of this job: the next one begins
 * behind them. */
static void
drop_rest(const ZmqLink *l)
{
    char none;
    while (has_more(l) &&
           l->zmq->zmq_recv(l->pull, &none, sizeof none, ZMQ_DONTWAIT) >= 0)
        ;
}

static Status
lost_messages(const ZmqLink *l, uint32_t peer)
{
    return status_new(STATUS_MACHINE,
                      "rank %d has lost messages of rank %u: a connection "
                      "between them, over zmq, was closed by the network or "
                      "what is in it",
                      l->link.rank, (unsigned)peer);
}

/* One of this job. */
static Status
take_numbered(ZmqLink *l, const Header *h, Early *e)
{
    Pair *pair = &l->pairs[h->rank];
    bool is_lost = h->number != pair->received;
    pair->since = 0;
    if (h->tag < RT_LINK_NUM_TAGS && !is_lost) {
        pair->received++;
        keep(l, h, e);
        return OK;
    }
    free_early(l, e);
    if (h->tag == QUESTION)
        send_message(l, (int)h->rank, ANSWER, "", 1);
    return is_lost ? lost_messages(l, h->rank) : OK;
}

/* The next message; false: there is none. */
static Status
take_message(ZmqLink *l, bool *any)
{
    Header h;
    const RtZmq *zmq = l->zmq;
    int n = zmq->zmq_recv(l->pull, &h, sizeof h, ZMQ_DONTWAIT);
    *any = n >= 0;
    if (n < 0)
        return zmq->zmq_errno() == EAGAIN || zmq->zmq_errno() == EINTR
                   ? OK
                   : rt_zmq_error(zmq, "messages of other processes");
    Early *e = new_early(l);
    zmq->zmq_msg_init(&e->message);
    if (n == sizeof h && take_body(l, &h, &e->message))
        return take_numbered(l, &h, e);
    drop_rest(l);
    free_early(l, e);
    return OK;
}

static void
answer_strangers(ZmqLink *l)
{
    int events = 0;
    size_t n = sizeof events;
    if (l->zap &&
        l->zmq->zmq_getsockopt(l->zap, ZMQ_EVENTS, &events, &n) == 0 &&
        (events & ZMQ_POLLIN))
        rt_zmq_answer_zap(l->zmq, l->zap, &l->keys);
}

static Status
zmq_link_progress(RtLink *link, bool *moved)
{
    ZmqLink *l = zmq_of(link);
    Status failure = l->failure;
    l->failure = OK;
    TRY(failure);
    l->now = clock_seconds();
    answer_strangers(l);
    for (;;) {
        bool any;
        TRY(take_message(l, &any));
        if (!any)
            return OK;
        *moved = true;
    }
}

/* A message of that process is waited for. */
static void
wait_for(ZmqLink *l, int peer)
{
    Pair *pair = &l->pairs[peer];
    if (pair->since > 0 && l->now - pair->since < patience)
        return;
    if (pair->since > 0)
        send_message(l, peer, QUESTION, "", 1);
    pair->since = l->now;
}

static bool
zmq_link_test(RtLink *link, RtTransfer *t)
{
    ZmqLink *l = zmq_of(link);
    if (t->sends)
        return true;
    for (Early **at = &l->early[t->peer]; *at; at = &(*at)->next) {
        Early *e = *at;
        if (e->tag != t->tag)
            continue;
        size_t n = l->zmq->zmq_msg_size(&e->message);
        memcpy(t->address, l->zmq->zmq_msg_data(&e->message),
               n < t->bytes ? n : t->bytes);
        *at = e->next;
        free_early(l, e);
        return true;
    }
    wait_for(l, t->peer);
    return false;
}

/* ---- the end ------------------------------------------------------------- */

static void
zmq_link_cancel(RtLink *link, RtTransfer *t)
{
    (void)link;
    (void)t; /* a message that comes for it stays in the list */
}

static int
zmq_wait_fd(RtLink *link)
{
    return zmq_of(link)->events;
}

static void
close_socket(const ZmqLink *l, void *socket, int linger_ms)
{
    if (!socket)
        return;
    l->zmq->zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    l->zmq->zmq_close(socket);
}

static void
zmq_link_close(RtLink *link, bool failed)
{
    ZmqLink *l = zmq_of(link);
    for (int k = 0; k < link->size; k++) {
        close_socket(l, l->push[k], failed ? 0 : LINGER_MS);
        while (l->early[k]) {
            Early *e = l->early[k];
            l->early[k] = e->next;
            free_early(l, e);
        }
    }
    close_socket(l, l->pull, 0);
    close_socket(l, l->zap, 0);
    if (l->events >= 0)
        close(l->events);
    if (l->context)
        l->zmq->zmq_ctx_term(l->context);
    status_free(l->failure);
    arena_release(l->arena);
}

static const RtLinkOps zmq_ops = {
    .name = "zmq",
    .address = zmq_address,
    .connect = zmq_link_connect,
    .send = zmq_link_send,
    .recv = zmq_link_recv,
    .progress = zmq_link_progress,
    .test = zmq_link_test,
    .cancel = zmq_link_cancel,
    .wait_fd = zmq_wait_fd,
    .close = zmq_link_close,
};

static Status
add_event(ZmqLink *l, void *socket)
{
    int fd;
    size_t n = sizeof fd;
    struct epoll_event e = {.events = EPOLLIN};
    if (!socket)
        return OK;
    if (l->zmq->zmq_getsockopt(socket, ZMQ_FD, &fd, &n))
        return rt_zmq_error(l->zmq, "ZMQ_FD");
    if (epoll_ctl(l->events, EPOLL_CTL_ADD, fd, &e))
        return rt_system_error("epoll_ctl");
    return OK;
}

static Status
open_sockets(ZmqLink *l, const char *interface, const uint8_t *key)
{
    l->events = epoll_create1(EPOLL_CLOEXEC);
    l->context = l->zmq->zmq_ctx_new();
    if (!l->context || l->events < 0)
        return rt_system_error("epoll and a context of libzmq");
    TRY(rt_zmq_keys(l->zmq, key, &l->keys));
    if (key)
        TRY(rt_zmq_open_zap(l->zmq, l->context, &l->zap));
    TRY(rt_zmq_server_socket(l->zmq, l->context, ZMQ_PULL, &l->keys, 0,
                             &l->pull));
    TRY(listen_at(l, interface));
    TRY(add_event(l, l->pull));
    return add_event(l, l->zap);
}

Status
rt_link_zmq_open(int rank, int size, const char *interface, const uint8_t *key,
                 RtLink **out)
{
    const RtZmq *zmq;
    TRY(rt_zmq_open(&zmq));
    Arena *a = arena_new(NULL, "messages over ZeroMQ");
    ZmqLink *l = NEW(a, ZmqLink);
    l->link = (RtLink){&zmq_ops, rank, size, -1};
    l->zmq = zmq;
    l->arena = a;
    l->events = -1;
    l->push = NEW_ARRAY(a, void *, (size_t)size);
    l->pairs = NEW_ARRAY(a, Pair, (size_t)size);
    l->early = NEW_ARRAY(a, Early *, (size_t)size);
    Status st = open_sockets(l, interface, key);
    if (st) {
        zmq_link_close(&l->link, true);
        return st;
    }
    *out = &l->link;
    return OK;
}
