/*
 * match.c - which calls of which ranks belong together, and what they do
 *
 * A send belongs to the receive of the peer with the same number among those of
 * the two ranks; a collective to those of all ranks with its number.  What
 * would hang, or move bytes that nobody expects, is a complaint that names both
 * calls.
 */
#include <stdlib.h>
#include <string.h>
#include "tests/cuda/nccl/fake_nccl.h"

/* ---- comparing ----------------------------------------------------------- */

/* After a failure by request ranks may have left out what they had to do. */
void
nccl_must(bool is_so, const Request *a, const Request *b, const char *what)
{
    if (!is_so && !fake_exchange_has_failed())
        nccl_complain("%s: %s, but %s", what, a->site, b->site);
}

static void
add_partner(Work *w, Work *with, bool receives)
{
    Exchange *x = &w->exchange;
    int i = 0;
    while (i < x->num_partners && x->partners[i] != &with->exchange)
        i++;
    if (i == x->num_partners) {
        x->num_partners++;
        x->partners[i] = &with->exchange;
        x->receives[i] = false;
    }
    x->receives[i] |= receives;
}

/* What two ranks exchange with each other in one group of one must be in one
 * group of the other. */
static void
check_groups(const Request *a, const Request *b)
{
    const Exchange *x = &a->work->exchange;
    for (int i = 0; i < x->num_partners; i++) {
        const Work *w = (const Work *)x->partners[i];
        if (w->comm == b->comm)
            nccl_must(w == b->work, a, b, "the groups differ");
    }
}

/* ---- sends and receives -------------------------------------------------- */

void
nccl_check_pair(const Request *send, const Request *recv)
{
    nccl_must(send->count == recv->count, send, recv, "the counts differ");
    nccl_must(send->type == recv->type, send, recv, "the types differ");
    nccl_must(send->number == recv->number, send, recv,
              "the ranks call collectives in another order");
}

static void
pair(Request *send, Request *recv)
{
    nccl_check_pair(send, recv);
    check_groups(send, recv);
    check_groups(recv, send);
    send->partner = recv;
    recv->partner = send;
    send->work->exchange.missing--;
    recv->work->exchange.missing--;
    add_partner(send->work, recv->work, false);
    add_partner(recv->work, send->work, true);
}

/* The peer has begun a collective that r comes before. */
static void
check_not_passed(const Request *r, const Clique *c)
{
    for (const Round *round = c->rounds; round; round = round->next)
        if (round->number == r->number && round->requests[r->peer])
            nccl_must(false, r, round->requests[r->peer],
                      "the ranks call collectives in another order");
}

static void
match_message(Request *r)
{
    ncclComm_t peer = r->comm->clique->comms[r->peer];
    if (!peer)
        return; /* it is met when the operation could be executed */
    Request **wanted = r->kind == SEND ? &peer->recvs[r->comm->rank]
                                       : &peer->sends[r->comm->rank];
    Request **own =
        r->kind == SEND ? &r->comm->sends[r->peer] : &r->comm->recvs[r->peer];
    r->work->exchange.missing++;
    if (*wanted && !*own) {
        Request *other = *wanted;
        *wanted = other->next_unmatched;
        pair(r->kind == SEND ? r : other, r->kind == SEND ? other : r);
        return;
    }
    check_not_passed(r, r->comm->clique);
    while (*own)
        own = &(*own)->next_unmatched;
    *own = r;
}

/* ---- collectives --------------------------------------------------------- */

Round *
nccl_round_of(Clique *c, uint64_t number)
{
    Round **at = &c->rounds;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if (!*at) {
        *at = nccl_alloc(sizeof **at);
        (*at)->number = number;
    }
    return *at;
}

void
nccl_check_alike(const Request *a, const Request *b)
{
    nccl_must(a->kind == b->kind, a, b, "the collectives differ");
    nccl_must(a->count == b->count, a, b, "the counts differ");
    nccl_must(a->type == b->type, a, b, "the types differ");
    nccl_must(a->op == b->op, a, b, "the operations differ");
}

/* The peers that wait for a message of before. */
static void
check_no_messages(const Request *r)
{
    const Clique *c = r->comm->clique;
    for (int k = 0; k < c->num_ranks; k++) {
        if (!c->comms[k])
            continue;
        const Request *waits[] = {c->comms[k]->sends[r->comm->rank],
                                  c->comms[k]->recvs[r->comm->rank]};
        for (int i = 0; i < 2; i++)
            if (waits[i] && waits[i]->number <= r->number)
                nccl_must(false, waits[i], r,
                          "the ranks call collectives in another order");
    }
}

static void
match_collective(Request *r)
{
    Clique *c = r->comm->clique;
    Round *round = nccl_round_of(c, r->number);
    check_no_messages(r);
    r->work->exchange.missing += c->num_local - 1;
    for (int k = 0; k < c->num_ranks; k++) {
        Request *other = round->requests[k];
        if (!other || !c->comms[k] || k == r->comm->rank)
            continue;
        nccl_check_alike(other, r);
        check_groups(other, r);
        check_groups(r, other);
        add_partner(r->work, other->work, true);
        add_partner(other->work, r->work, true);
        r->work->exchange.missing--;
        other->work->exchange.missing--;
    }
    round->requests[r->comm->rank] = r;
}

/* ---- execution ----------------------------------------------------------- */

/* What may wait for another process, which may never come, is kept until this
 * one ends. */
static bool
is_kept(const Request *r)
{
    return !r->comm || r->comm->clique->is_shared;
}

static void
read_operand(Request *r)
{
    size_t n = r->count * nccl_bytes_of(r->type);
    if (r->kind == RECV)
        return;
    r->bytes = is_kept(r) ? nccl_alloc(n) : malloc(n ? n : 1);
    if (!r->bytes)
        nccl_complain("no memory for %zu bytes", n);
    memcpy(r->bytes, fake_exchange_read(&r->work->exchange, r->from, n), n);
}

static void
forget_bytes(Request *r)
{
    if (!is_kept(r))
        free(r->bytes);
    r->bytes = NULL;
}

/* The last rank here needs the operands of a collective no longer. */
static void
end_round(Round *round, const Clique *c)
{
    if (++round->num_done == c->num_local)
        for (int k = 0; k < c->num_ranks; k++)
            forget_bytes(round->requests[k]);
}

static Round *
round_of(const Request *r)
{
    return nccl_round_of(r->comm->clique, r->number);
}

/* In an order of the ranks, and of their pairs, that nobody can know. */
static void
reduce(Request *r, uint8_t *to)
{
    const Clique *c = r->comm->clique;
    const Round *round = round_of(r);
    size_t n = r->count * nccl_bytes_of(r->type);
    int order[MAX_RANKS];
    for (int i = 0; i < c->num_ranks; i++)
        order[i] = i;
    for (int i = c->num_ranks - 1; i > 0; i--) {
        /* the same for all ranks */
        int k = (int)((r->number * 2654435761u >> 7) % (uint64_t)(i + 1));
        int t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    memcpy(to, round->requests[order[0]]->bytes, n);
    for (int i = 1; i < c->num_ranks; i++)
        nccl_combine(r->type, r->op, to, round->requests[order[i]]->bytes,
                     r->count);
}

static void
write_result(Request *r)
{
    Exchange *x = &r->work->exchange;
    size_t n = r->count * nccl_bytes_of(r->type);
    const Clique *c = r->comm->clique;
    switch (r->kind) {
    case SEND:
        if (!c->comms[r->peer])
            forget_bytes(r); /* they are in the log */
        break;
    case RECV:
        memcpy(fake_exchange_write(x, r->to, n), r->partner->bytes, n);
        forget_bytes(r->partner);
        break;
    case ALL_GATHER:
        for (int k = 0; k < c->num_ranks; k++)
            memcpy(fake_exchange_write(x, r->to + (size_t)k * n, n),
                   round_of(r)->requests[k]->bytes, n);
        end_round(round_of(r), c);
        break;
    case ALL_REDUCE:
        reduce(r, fake_exchange_write(x, r->to, n));
        end_round(round_of(r), c);
        break;
    }
}

/* What has been read stays: partners may still write. */
static void
run(Exchange *x, ExchangePass pass)
{
    Work *w = (Work *)x;
    for (Request *r = w->first; r && !x->is_aborted; r = r->next)
        if (pass == EXCHANGE_READS)
            read_operand(r);
        else
            write_result(r);
    if (pass == EXCHANGE_READS)
        return;
    Work **at = &w->comm->pending;
    while (*at && *at != w)
        at = &(*at)->next_pending;
    if (*at)
        *at = w->next_pending;
}

/* ---- groups -------------------------------------------------------------- */

void
nccl_enqueue(Work *w, bool is_lost)
{
    w->exchange.run = run;
    fake_exchange_add(&w->exchange, w->first->stream);
    w->exchange.missing = is_lost;
    if (w->comm->clique->num_local < w->comm->clique->num_ranks)
        w->exchange.meets = nccl_meets_remotes;
    w->number = w->comm->groups++;
    w->next_pending = w->comm->pending;
    w->comm->pending = w;
    for (Request *r = w->first; r; r = r->next) {
        r->work = w;
        if (r->stream != w->first->stream)
            nccl_complain("a group on two streams: %s", r->site);
        if (r->kind == SEND || r->kind == RECV) {
            r->number = r->comm->collectives;
            match_message(r);
        } else {
            r->number = r->comm->collectives++;
            match_collective(r);
        }
    }
}

void
nccl_abort_work(ncclComm_t comm)
{
    for (Work *w = comm->pending; w; w = w->next_pending)
        w->exchange.is_aborted = true;
}

void
nccl_check_matched(ncclComm_t comm)
{
    for (Work *w = comm->pending; w; w = w->next_pending)
        nccl_complain("a communicator is destroyed before its work is done: %s",
                      w->first->site);
}
