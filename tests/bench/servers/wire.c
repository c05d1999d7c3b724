/*
 * wire.c - the time on the wire of a closure's pull and push
 *
 *   wire SERVERS ASKED PULLED PUSHED [ROUNDS [BURSTS]]
 *
 * Processes that only answer, and one that sends what a worker does in the same
 * order, through the same sockets, with a key: to each server PUSHED bytes and
 * behind them a question of ASKED bytes, whose answers of PULLED bytes all have
 * to be there before the next round.  Prints microseconds of a round, the least
 * of BURSTS, of ROUNDS each.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "runtime/ps/wire/sockets.h"

enum { MOST_SERVERS = 16, POLL_MS = 50 };

static const uint8_t key[32] = "a key that everybody knows";

typedef struct Sizes {
    size_t asked, pulled, pushed;
} Sizes;

static void
must(Status st)
{
    if (!st)
        return;
    fprintf(stderr, "wire: %s\n", status_message(st));
    exit(1);
}

/* A message says by each of its bytes what it is. */
enum { PUSH = 1, ACK, ASK, VALUES };

static RtArchive
bytes(Arena *a, size_t n, int kind)
{
    RtArchive ar = rt_archive_writer(a, n);
    memset(rt_archive_place(&ar, n ? n : 1), kind, n ? n : 1);
    return ar;
}

static int
kind_of(const RtZmq *z, zmq_msg_t *m)
{
    return *(const char *)z->zmq_msg_data(m);
}

_Noreturn static void
serve(int announce, Sizes s)
{
    RtPsNet net;
    RtPsListener l;
    RtPsRoute from;
    zmq_msg_t m;
    Arena *a = arena_new(NULL, "a server");
    RtArchive ack = bytes(a, 40, ACK), values = bytes(a, s.pulled, VALUES);
    must(rt_ps_net_open(&net, key));
    must(rt_ps_listen(&net, "127.0.0.1:0", &l));
    if (write(announce, &l.port, sizeof l.port) < 0)
        exit(1);
    RtPsSocket *items[] = {&l.router, &l.zap};
    net.zmq->zmq_msg_init(&m);
    for (;;) {
        rt_ps_poll(&net, items, 2, POLL_MS);
        while (rt_ps_next_from(&l, &from, &m))
            rt_ps_send_to(&l, &from,
                          kind_of(net.zmq, &m) == ASK ? &values : &ack);
    }
}

static int
start_server(pid_t *pid, Sizes s)
{
    int ends[2], port;
    if (pipe(ends))
        exit(1);
    *pid = fork();
    if (*pid == 0)
        serve(ends[1], s);
    if (read(ends[0], &port, sizeof port) != (ssize_t)sizeof port)
        exit(1);
    return port;
}

static void
wait_for_values(RtPsNet *net, RtPsSocket *sockets, int num)
{
    RtPsSocket *items[MOST_SERVERS];
    zmq_msg_t m;
    for (int i = 0; i < num; i++)
        items[i] = &sockets[i];
    net->zmq->zmq_msg_init(&m);
    for (int left = num; left;) {
        rt_ps_poll(net, items, num, POLL_MS);
        for (int i = 0; i < num; i++)
            while (sockets[i].has_news && rt_ps_next(net, &sockets[i], &m))
                left -= kind_of(net->zmq, &m) == VALUES;
    }
    net->zmq->zmq_msg_close(&m);
}

static double
burst(RtPsNet *net, RtPsSocket *sockets, int num, const Sizes *s, int rounds)
{
    Arena *a = arena_new(NULL, "messages");
    RtArchive push = bytes(a, s->pushed, PUSH), ask = bytes(a, s->asked, ASK);
    double begin = clock_seconds();
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < num; i++)
            rt_ps_send(net, &sockets[i], &push);
        for (int i = 0; i < num; i++)
            rt_ps_send(net, &sockets[i], &ask);
        wait_for_values(net, sockets, num);
    }
    double took = clock_seconds() - begin;
    arena_release(a);
    return took / rounds;
}

int
main(int argc, char **argv)
{
    RtPsNet net;
    pid_t pids[MOST_SERVERS];
    RtPsSocket sockets[MOST_SERVERS];
    char address[64];
    int num = argc > 4 ? atoi(argv[1]) : 0;
    if (num < 1 || num > MOST_SERVERS) {
        fprintf(stderr, "wire SERVERS ASKED PULLED PUSHED [ROUNDS [BURSTS]]\n");
        return 2;
    }
    Sizes s = {strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10),
               strtoul(argv[4], NULL, 10)};
    int rounds = argc > 5 ? atoi(argv[5]) : 500;
    int bursts = argc > 6 ? atoi(argv[6]) : 10;
    double best = 1e9;
    for (int i = 0; i < num; i++) {
        int port = start_server(&pids[i], s);
        snprintf(address, sizeof address, "tcp://127.0.0.1:%d", port);
        if (i == 0)
            must(rt_ps_net_open(&net, key));
        must(rt_ps_connect(&net, address, &sockets[i]));
    }
    for (int i = 0; i < bursts; i++) {
        double took = burst(&net, sockets, num, &s, rounds);
        best = took < best ? took : best;
    }
    printf("%.1f\n", best * 1e6);
    for (int i = 0; i < num; i++) {
        rt_ps_disconnect(&net, &sockets[i]);
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    rt_ps_net_close(&net);
    return 0;
}
