/*
 * dealer.c - a worker asks for its next file
 *
 * A question is asked again until it is answered: the answer stays the same.
 */
#include "runtime/ps/input/dealer.h"

#include <pthread.h>
#include <string.h>
#include "ir/base/clock.h"

enum { TRY_MS = 50, MOST_AT_ONCE = 100 /* messages in a turn */ };

static const double again = 0.5; /* seconds */

struct RtPsDealer {
    Arena *arena;
    RtPsNet *net;
    RtPsSocket socket;
    const char *coordinator;
    RtPsDealing who;
    double patience;
    pthread_mutex_t lock; /* of all of it */
    RtArchive out;
};

typedef struct OfIterator {
    RtFileDealer base;
    RtPsDealer *dealer;
    int64_t iter;
} OfIterator;

static bool
same_question(const RtPsDealing *a, const RtPsDealing *b)
{
    return a->index == b->index && a->incarnation == b->incarnation &&
           a->iter == b->iter && a->pass == b->pass && a->taken == b->taken &&
           a->num == b->num;
}

/* Whether the answer is there: answers to older questions are dropped. */
static bool
take_answer(RtPsDealer *d, RtPsDealing *question)
{
    zmq_msg_t m;
    bool is_there = false;
    const RtZmq *z = d->net->zmq;
    z->zmq_msg_init(&m);
    for (int i = 0;
         i < MOST_AT_ONCE && !is_there && rt_ps_next(d->net, &d->socket, &m);
         i++) {
        RtArchive in;
        RtPsDealing answer;
        Arena *scratch = arena_new(NULL, "an answer");
        if (rt_ps_read(&in, scratch, z->zmq_msg_data(&m),
                       z->zmq_msg_size(&m)) == RT_PS_DEALT) {
            rt_ps_dealing(&in, &answer);
            is_there = rt_ps_is_good(&in) && same_question(question, &answer) &&
                       answer.file >= 0 && answer.file <= question->num;
            question->file = is_there ? answer.file : 0;
        }
        arena_release(scratch);
    }
    z->zmq_msg_close(&m);
    return is_there;
}

static void
send_question(RtPsDealer *d, RtPsDealing *question)
{
    rt_ps_begin(&d->out, RT_PS_DEAL);
    rt_ps_dealing(&d->out, question);
    rt_ps_send(d->net, &d->socket, &d->out);
}

/* The seconds of a turn, but not those in which this process was stopped. */
static double
turn(double begin, double end)
{
    const double most = TRY_MS / 1e3;
    return end - begin < most ? end - begin : most;
}

static Status
ask(RtPsDealer *d, RtDataClient *client, RtPsDealing *question)
{
    double waited = 0, before = clock_seconds(), said = before - again;
    RtPsSocket *socket = &d->socket;
    while (!take_answer(d, question)) {
        double now = clock_seconds();
        waited += turn(before, now);
        before = now;
        if (rt_data_is_stopped(client))
            return rt_data_stopped();
        if (waited > d->patience)
            return status_new(STATUS_MACHINE,
                              "the coordinator at %s, which deals files to "
                              "workers, has not answered for %.0f s",
                              d->coordinator, d->patience);
        if (now - said >= again) {
            said = now;
            send_question(d, question);
        }
        rt_ps_poll(d->net, &socket, 1, TRY_MS);
    }
    return OK;
}

static Status
next_file(RtFileDealer *base, RtDataClient *client, uint64_t pass,
          int64_t taken, int64_t num, const char *names, int64_t *file)
{
    const OfIterator *of = (const OfIterator *)base;
    RtPsDealer *d = of->dealer;
    RtPsDealing question = d->who;
    question.iter = of->iter;
    question.pass = pass;
    question.taken = taken;
    question.num = num;
    question.names = names;
    pthread_mutex_lock(&d->lock);
    Status st = ask(d, client, &question);
    pthread_mutex_unlock(&d->lock);
    *file = question.file;
    return st;
}

Status
rt_ps_dealer_open(RtPsNet *net, const char *coordinator, const RtPsDealing *who,
                  double patience, RtPsDealer **out)
{
    RtPsSocket socket;
    TRY(rt_ps_connect(net, coordinator, &socket));
    Arena *a = arena_new(NULL, "a dealer of files");
    RtPsDealer *d = NEW(a, RtPsDealer);
    *d = (RtPsDealer){.arena = a,
                      .net = net,
                      .socket = socket,
                      .coordinator = coordinator,
                      .who = *who,
                      .patience = patience,
                      .out = rt_archive_writer(a, 0)};
    pthread_mutex_init(&d->lock, NULL);
    *out = d;
    return OK;
}

void
rt_ps_dealer_close(RtPsDealer *d)
{
    if (!d)
        return;
    rt_ps_disconnect(d->net, &d->socket);
    pthread_mutex_destroy(&d->lock);
    arena_release(d->arena);
}

RtFileDealer *
rt_ps_dealer_of(RtPsDealer *d, int64_t iter)
{
    pthread_mutex_lock(&d->lock);
    OfIterator *of = NEW(d->arena, OfIterator);
    pthread_mutex_unlock(&d->lock);
    *of = (OfIterator){{next_file}, d, iter};
    return &of->base;
}
