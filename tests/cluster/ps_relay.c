/*
 * ps_relay.c - a member of a job that damages what others say
 *
 *   ps_relay COORDINATOR KEY SEED EVERY TYPE
 *
 * It has the job's key.  Workers join it instead of the coordinator, whose
 * address it has, and it passes on what they, the coordinator and the servers
 * say to each other (WELCOME says that servers are at ports of its own); but
 * before one message of EVERY of that type it sends damaged copies.  Prints its
 * port, and at SIGTERM how many of each type it has damaged.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/ps/wire/sockets.h"
#include "runtime/ps/wire/wire.h"

enum { MOST_PEERS = 256, MOST_CHANNELS = 8, COPIES = 3, POLL_MS = 20 };

/* Who has connected, and its connection to the one whom it wants. */
typedef struct Peer {
    RtPsRoute route;
    RtPsSocket up;
} Peer;

/* A port of the relay, and whom it stands for. */
typedef struct Channel {
    RtPsNet net;
    RtPsListener listener;
    const char *to;
    Peer peers[MOST_PEERS];
    int num_peers;
} Channel;

static Channel channels[MOST_CHANNELS];
static int num_channels;
static const uint8_t *key;
static uint64_t state;
static unsigned every;
static long num_damaged;
static volatile sig_atomic_t ended;
static const char *wanted;
static const char *const names[] = {
    "NONE",
#define FRAME(name, sender, doc) #name,
#include "runtime/ps/wire/frames.def"
#undef FRAME
};

static void
end(int number)
{
    (void)number;
    ended = 1;
}

static void
must(Status st)
{
    if (!st)
        return;
    fprintf(stderr, "ps_relay: %s\n", status_message(st));
    exit(1);
}

static uint64_t
chance(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

/* ---- damage -------------------------------------------------------------- */

static void
set_number(char *bytes, size_t n)
{
    static const int64_t numbers[] = {
        0, -1, 1, INT64_MAX, INT64_MIN, INT32_MAX, 1 << 20, 4096, 255};
    size_t size = chance(2) ? 8 : 4;
    int64_t x = numbers[chance(sizeof numbers / sizeof *numbers)];
    if (n >= size)
        memcpy(bytes + chance(n - size + 1), &x, size);
}

/* Cut, made longer, of another type, or with other numbers, mostly those near
 * its beginning. */
static void
damage(RtArchive *ar)
{
    size_t head = ar->len < 64 ? ar->len : 64;
    switch (chance(6)) {
    case 0:
        ar->len = chance(ar->len + 1);
        break;
    case 1:
        memset(rt_archive_place(ar, 1 + chance(64)), (int)chance(256), 1);
        break;
    case 2:
        ar->data[chance(head)] ^= (char)(1 << chance(8));
        break;
    case 3:
        ar->data[0] = (char)chance(RT_PS_NUM_TYPES + 1);
        break;
    case 4:
        set_number(ar->data, ar->len);
        break;
    default:
        set_number(ar->data, head);
        break;
    }
}

/* A copy in a. */
static RtArchive
copy(Arena *a, const RtArchive *m)
{
    RtArchive ar = rt_archive_writer(a, m->len + 1);
    rt_archive_bytes(&ar, m->data, m->len);
    return ar;
}

static RtPsType
type_of(Arena *a, const RtArchive *m)
{
    RtArchive in;
    return rt_ps_read(&in, a, m->data, m->len);
}

static int
copies_of(RtPsType type)
{
    if (strcmp(names[type], wanted) != 0 || chance(every))
        return 0;
    num_damaged += COPIES;
    return COPIES;
}

/* ---- channels ------------------------------------------------------------ */

static Channel *
open_channel(const char *to)
{
    Channel *c = &channels[num_channels++];
    if (num_channels > MOST_CHANNELS)
        exit(1);
    c->to = to;
    must(rt_ps_net_open(&c->net, key));
    must(rt_ps_listen(&c->net, "127.0.0.1:0", &c->listener));
    return c;
}

static Peer *
peer_of(Channel *c, const RtPsRoute *route)
{
    for (int i = 0; i < c->num_peers; i++)
        if (c->peers[i].route.len == route->len &&
            memcmp(c->peers[i].route.id, route->id, route->len) == 0)
            return &c->peers[i];
    if (c->num_peers == MOST_PEERS)
        exit(1);
    Peer *p = &c->peers[c->num_peers++];
    p->route = *route;
    must(rt_ps_connect(&c->net, c->to, &p->up));
    return p;
}

/* That of a server, at first sight a new one. */
static Channel *
channel_to(const char *server)
{
    for (int i = 1; i < num_channels; i++)
        if (strcmp(channels[i].to, server) == 0)
            return &channels[i];
    return open_channel(strdup(server));
}

/* The same, with the relay's ports as the servers' addresses. */
static void
rewrite_welcome(Arena *a, RtArchive *ar)
{
    RtArchive in;
    RtPsWelcome w;
    rt_ps_read(&in, a, ar->data, ar->len);
    rt_ps_welcome(&in, &w);
    for (int64_t i = 0; i < w.num_servers; i++)
        w.addresses[i] = arena_printf(
            a, "tcp://127.0.0.1:%d", channel_to(w.addresses[i])->listener.port);
    rt_ps_begin(ar, RT_PS_WELCOME);
    rt_ps_welcome(ar, &w);
}

/* To the one whom the peer wants, or back to it. */
static void
send_on(Channel *c, Peer *p, bool up, const RtArchive *m)
{
    if (up)
        rt_ps_send(&c->net, &p->up, m);
    else
        rt_ps_send_to(&c->listener, &p->route, m);
}

static void
pass_one(Channel *c, Peer *p, bool up, Arena *a, const RtArchive *m)
{
    RtPsType type = type_of(a, m);
    RtArchive whole = copy(a, m), in, one;
    for (int i = copies_of(type); i > 0; i--) {
        RtArchive ar = copy(a, m);
        damage(&ar);
        send_on(c, p, up, &ar);
    }
    if (type == RT_PS_WELCOME)
        rewrite_welcome(a, &whole);
    if (type != RT_PS_SEVERAL) {
        send_on(c, p, up, &whole);
        return;
    }
    rt_ps_read(&in, a, m->data, m->len);
    while (rt_ps_take(&in, a, &one, &type)) {
        one.at = 0;
        pass_one(c, p, up, a, &one);
    }
}

/* Of several that travel as one each may be damaged, or all. */
static void
pass_message(Channel *c, Peer *p, bool up, zmq_msg_t *m)
{
    Arena *a = arena_new(NULL, "a message");
    const RtZmq *z = c->net.zmq;
    RtArchive in = rt_archive_reader(a, z->zmq_msg_data(m), z->zmq_msg_size(m));
    pass_one(c, p, up, a, &in);
    arena_release(a);
}

static bool
pass(Channel *c)
{
    bool any = false;
    zmq_msg_t m;
    RtPsRoute from;
    c->net.zmq->zmq_msg_init(&m);
    while (rt_ps_next_from(&c->listener, &from, &m)) {
        pass_message(c, peer_of(c, &from), true, &m);
        any = true;
    }
    for (int i = 0; i < c->num_peers; i++)
        while (rt_ps_next(&c->net, &c->peers[i].up, &m)) {
            pass_message(c, &c->peers[i], false, &m);
            any = true;
        }
    c->net.zmq->zmq_msg_close(&m);
    return any;
}

static const uint8_t *
read_key(const char *path)
{
    static uint8_t bytes[32];
    int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, bytes, sizeof bytes) != (ssize_t)sizeof bytes)
        exit(1);
    close(fd);
    return bytes;
}

int
main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    signal(SIGTERM, end);
    key = read_key(argv[2]);
    state = strtoull(argv[3], NULL, 10);
    every = (unsigned)atoi(argv[4]);
    wanted = argv[5];
    char to[128];
    snprintf(to, sizeof to, "tcp://%s", argv[1]);
    printf("%d\n", open_channel(to)->listener.port);
    fflush(stdout);
    while (!ended) {
        bool any = false;
        for (int i = 0; i < num_channels; i++)
            any |= pass(&channels[i]);
        if (!any)
            usleep(200);
    }
    printf("%ld\n", num_damaged);
    fflush(stdout);
    _exit(0);
}
