/*
 * status.c - tfd-run --status: what a coordinator says of its job
 *
 * Tasks count from their beginning on; what they do in a second is the
 * difference of two answers.
 */
#include "runtime/ps/status/status.h"

#include "ir/base/clock.h"
#include "runtime/ps/wire/sockets.h"
#include "runtime/ps/staleness/staleness.h"
#include "runtime/ps/wire/wire.h"

static const double patience = 3; /* seconds without an answer */

enum { TRY_MS = 200, BETWEEN_MS = 1000 /* two answers */ };

typedef struct Asking {
    Arena *arena;
    RtPsNet net;
    RtPsSocket socket;
    const char *coordinator;
    RtArchive out;
} Asking;

/* ---- asking ------------------------------------------------------------- */

/* Takes an answer that is there. */
static bool
take(Asking *k, RtPsStatus *s)
{
    RtArchive in;
    zmq_msg_t m;
    bool is_there = false;
    const RtZmq *z = k->net.zmq;
    z->zmq_msg_init(&m);
    while (!is_there && rt_ps_next(&k->net, &k->socket, &m)) {
        if (rt_ps_read(&in, k->arena, z->zmq_msg_data(&m),
                       z->zmq_msg_size(&m)) != RT_PS_STATUS)
            continue;
        rt_ps_status(&in, s);
        is_there = rt_ps_is_good(&in);
    }
    z->zmq_msg_close(&m);
    return is_there;
}

/* Once: a message is kept until there is a connection, and an answer that comes
 * twice would be taken for the next one. */
static Status
ask(Asking *k, RtPsStatus *s)
{
    double begun = clock_seconds();
    RtPsSocket *socket = &k->socket;
    rt_ps_begin(&k->out, RT_PS_ASK);
    rt_ps_send(&k->net, &k->socket, &k->out);
    while (clock_seconds() - begun < patience) {
        rt_ps_poll(&k->net, &socket, 1, TRY_MS);
        if (take(k, s))
            return OK;
    }
    return status_new(STATUS_MACHINE,
                      "no coordinator at %s has answered for %.0f s: none "
                      "listens there, or its job has another key (--key)",
                      k->coordinator, patience);
}

/* ---- printing ----------------------------------------------------------- */

/* Of a count, in a second. */
static double
rate(int64_t now, int64_t before, int64_t microseconds)
{
    return microseconds > 0
               ? (double)(now - before) * 1e6 / (double)microseconds
               : 0;
}

static void
print_closures(const RtPsStatus *s, const RtPsStatus *before, FILE *to)
{
    fprintf(to,
            "closures       %lld scheduled, %lld ended (%.1f/s), %lld wait, "
            "%lld again since their worker was lost, %lld cancelled\n",
            (long long)s->scheduled, (long long)s->ended,
            rate(s->ended, before->ended, s->at - before->at),
            (long long)s->waiting, (long long)s->put_back,
            (long long)s->cancelled);
}

static void
print_task(const char *kind, int64_t i, const RtPsTask *t, FILE *to)
{
    const char *state = !*t->host    ? "has not joined"
                        : t->is_lost ? "lost"
                                     : "lives";
    fprintf(to, "%s %-7lld %s", kind, (long long)i, state);
    if (*t->host)
        fprintf(to, ", %s (pid %lld), heard %.1f s ago", t->host,
                (long long)t->pid, (double)t->silent / 1e6);
}

static void
print_worker(const RtPsStatus *s, const RtPsStatus *before, int64_t i, FILE *to)
{
    const RtPsTask *t = &s->workers[i];
    int64_t done = i < before->num_workers ? before->workers[i].done : 0;
    print_task("worker", i, t, to);
    if (*t->host)
        fprintf(to, ": %lld closures (%.1f/s), %lld with it",
                (long long)t->done, rate(t->done, done, s->at - before->at),
                (long long)t->in_flight);
    fputc('\n', to);
}

static void
print_server(const RtPsTask *t, const RtPsLoad *l, const RtPsLoad *b, int64_t i,
             FILE *to)
{
    int64_t time = l->at - b->at;
    print_task("server", i, t, to);
    if (l->at)
        fprintf(to,
                ": %lld closures applied (%.1f/s), busy %.0f%%, variables %lld "
                "bytes, pulled %lld bytes (%.0f/s), pushed %lld (%.0f/s)",
                (long long)l->closures, rate(l->closures, b->closures, time),
                1e-4 * rate(l->busy, b->busy, time), (long long)l->variables,
                (long long)l->pulled, rate(l->pulled, b->pulled, time),
                (long long)l->pushed, rate(l->pushed, b->pushed, time));
    fputc('\n', to);
}

/* Of all servers. */
static void
print_staleness(const RtPsStatus *s, FILE *to)
{
    int64_t stalest = 0, refused = 0, rows[RT_PS_STALENESS_ROWS] = {0};
    for (int64_t i = 0; i < s->num_servers; i++) {
        const RtPsLoad *l = &s->loads[i];
        for (int row = 0; row < RT_PS_STALENESS_ROWS; row++)
            rows[row] += l->staleness[row];
        refused += l->refused;
        if (l->stalest > stalest)
            stalest = l->stalest;
    }
    fprintf(to, "staleness    ");
    rt_staleness_print(rows, to);
    fprintf(to, "  most %lld", (long long)stalest);
    if (s->staleness >= 0)
        fprintf(to, " of %lld, %lld refused", (long long)s->staleness,
                (long long)refused);
    fputc('\n', to);
}

static void
print(const RtPsStatus *s, const RtPsStatus *before, FILE *to)
{
    static const RtPsLoad none;
    print_closures(s, before, to);
    for (int64_t i = 0; i < s->num_workers; i++)
        print_worker(s, before, i, to);
    for (int64_t i = 0; i < s->num_servers; i++)
        print_server(&s->servers[i], &s->loads[i],
                     i < before->num_servers ? &before->loads[i] : &none, i,
                     to);
    print_staleness(s, to);
}

/* ---- the whole ---------------------------------------------------------- */

static Status
ask_twice(Asking *k, const uint8_t *key, FILE *to)
{
    RtPsStatus before, now;
    TRY(rt_ps_net_open(&k->net, key));
    TRY(rt_ps_connect(&k->net,
                      arena_printf(k->arena, "tcp://%s", k->coordinator),
                      &k->socket));
    TRY(ask(k, &before));
    k->net.zmq->zmq_poll(NULL, 0, BETWEEN_MS);
    TRY(ask(k, &now));
    print(&now, &before, to);
    return OK;
}

Status
rt_ps_print_status(const uint8_t *key, const char *coordinator, FILE *to)
{
    Arena *a = arena_new(NULL, "the status of a job");
    Asking k = {
        .arena = a, .coordinator = coordinator, .out = rt_archive_writer(a, 0)};
    Status st = ask_twice(&k, key, to);
    rt_ps_disconnect(&k.net, &k.socket);
    rt_ps_net_close(&k.net);
    arena_release(a);
    return st;
}
