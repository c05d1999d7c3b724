/*
 * exchange.c - operations of several streams that are executed together
 *
 * What a device does after it has received comes after what the sender did
 * before.  Clocks of what was added in the meantime do not say so: each stream
 * has a list of what its exchanges have added, and an operation's clock is
 * completed when it is executed.
 */
#include "tests/cuda/fake/exchange.h"

#include <stdlib.h>
#include <string.h>
#include "tests/cuda/fake/calls.h"

typedef struct Learnt {
    uint64_t number; /* of the exchange in its stream */
    uint64_t clock[MAX_STREAMS];
} Learnt;

static struct Stream {
    Learnt *learnt; /* each has what those before it have */
    int num, cap;
} streams[MAX_STREAMS];

/* ---- clocks -------------------------------------------------------------- */

/* Of the stream's exchanges up to a number; NULL: none. */
static const Learnt *
find_learnt(const struct Stream *s, uint64_t number)
{
    int low = 0, high = s->num; /* those before low are */
    while (low < high) {
        int middle = (low + high) / 2;
        if (s->learnt[middle].number <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &s->learnt[low - 1] : NULL;
}

void
fake_complete_clock(Op *op)
{
    uint64_t known[MAX_STREAMS];
    memcpy(known, op->clock, sizeof known);
    for (int t = 0; t < fake_world.num_slots; t++) {
        const Learnt *l = find_learnt(&streams[t], known[t]);
        if (l)
            fake_join(op->clock, l->clock);
    }
}

static void
learn(Mark at, const uint64_t *clock)
{
    struct Stream *s = &streams[at.stream];
    if (s->num == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->learnt = realloc(s->learnt, (size_t)s->cap * sizeof *s->learnt);
        if (!s->learnt)
            fake_complain("no memory for exchanges");
    }
    Learnt *l = &s->learnt[s->num];
    memset(l, 0, sizeof *l);
    if (s->num)
        memcpy(l, &s->learnt[s->num - 1], sizeof *l);
    l->number = at.number;
    fake_join(l->clock, clock);
    s->num++;
}

void
fake_forget_exchanges(int slot)
{
    free(streams[slot].learnt);
    streams[slot] = (struct Stream){0};
}

/* ---- execution ----------------------------------------------------------- */

/* All that are executed with x, itself first. */
typedef struct Together {
    Exchange *all[MAX_STREAMS];
    int num;
} Together;

static void
collect(Together *t, Exchange *x)
{
    if (x->was_visited || x->is_aborted)
        return;
    if (t->num == MAX_STREAMS)
        fake_complain("an exchange of more than %d streams", MAX_STREAMS);
    x->was_visited = true;
    t->all[t->num++] = x;
    for (int i = 0; i < x->num_partners; i++)
        collect(t, x->partners[i]);
}

static void
collect_all(Together *t, Exchange *x)
{
    t->num = 0;
    collect(t, x);
    for (int i = 0; i < t->num; i++)
        t->all[i]->was_visited = false;
}

static bool
has_gone(const Exchange *x)
{
    for (int i = 0; i < x->num_partners; i++)
        if (x->partners[i]->is_aborted)
            return true;
    return x->missing > 0;
}

static void
complete_clocks(const Together *t)
{
    for (int i = 0; i < t->num; i++)
        fake_complete_clock(t->all[i]->op);
}

static void
take_pass(Together *t, ExchangePass pass)
{
    for (int i = 0; i < t->num; i++) {
        Exchange *x = t->all[i];
        if (pass == EXCHANGE_READS && x->has_read)
            continue;
        x->has_read = true;
        x->run(x, pass);
    }
}

/* Partners of other processes are given what they wait for, and have come. */
static bool
meet_others(Together *t)
{
    bool have_come = true;
    for (int i = 0; i < t->num; i++)
        if (t->all[i]->meets) {
            complete_clocks(t);
            take_pass(t, EXCHANGE_READS);
            have_come &= t->all[i]->meets(t->all[i]);
        }
    return have_come;
}

bool
fake_exchange_can_go_on(const Op *op, bool (*can)(const Op *op))
{
    Together t;
    if (op->exchange->is_aborted)
        return true;
    collect_all(&t, op->exchange);
    for (int i = 0; i < t.num; i++) {
        const Op *o = t.all[i]->op;
        if (has_gone(t.all[i]) || !o || !can(o))
            return false;
    }
    return meet_others(&t);
}

static void
learn_from_partners(const Exchange *x)
{
    for (int i = 0; i < x->num_partners; i++)
        if (x->receives[i])
            learn(x->op->mark, x->partners[i]->op->clock);
}

void
fake_exchange_execute(Op *op, void (*remove)(const Op *op))
{
    Together t;
    Exchange *own = op->exchange;
    if (own->is_aborted) {
        own->op = NULL;
        own->run(own, EXCHANGE_WRITES);
        remove(op);
        return;
    }
    collect_all(&t, own);
    complete_clocks(&t);
    take_pass(&t, EXCHANGE_READS);
    for (int i = 0; i < t.num; i++)
        learn_from_partners(t.all[i]);
    take_pass(&t, EXCHANGE_WRITES);
    for (int i = 0; i < t.num; i++) {
        const Op *done = t.all[i]->op;
        t.all[i]->op = NULL;
        remove(done);
    }
}

/* Raises need to what the exchanges among the first need[t] operations of each
 * stream need of other streams.  Whether it did. */
static bool
raise(uint64_t *need, const Op *op)
{
    Together t;
    uint64_t before[MAX_STREAMS];
    memcpy(before, need, sizeof before);
    collect_all(&t, op->exchange);
    for (int i = 0; i < t.num; i++)
        if (t.all[i]->op)
            fake_join(need, t.all[i]->op->clock);
    return memcmp(before, need, sizeof before) != 0;
}

/* Most runs have none: what is pending need not be searched for them. */
static bool has_exchanged;

bool
fake_exchanges_need(uint64_t *need)
{
    bool has_any = false;
    for (bool more = has_exchanged; more;) {
        more = false;
        for (int t = 0; t < fake_world.num_slots; t++) {
            CUstream s = fake_world.streams[t];
            for (const Op *op = s ? s->first : NULL;
                 op && op->mark.number <= need[t]; op = op->next)
                if (op->kind == OP_EXCHANGE) {
                    has_any = true;
                    more |= raise(need, op);
                }
        }
    }
    return has_any;
}

/* ---- for the other library ----------------------------------------------- */

void
fake_exchange_lock(void)
{
    if (fake_in_callback)
        fake_complain("NCCL is called by a function of cuLaunchHostFunc");
    fake_lock();
}

void
fake_exchange_unlock(void)
{
    fake_leave(NULL);
}

void
fake_exchange_add(Exchange *x, CUstream stream)
{
    if (stream && stream->capture)
        fake_complain("%s while the stream captures", x->call);
    CUcontext current = fake_current;
    fake_current = stream ? stream->context : current;
    has_exchanged = true;
    fake_enqueue(x->call, stream, (Op){.kind = OP_EXCHANGE, .exchange = x});
    fake_current = current;
    x->op = stream->last;
}

void
fake_exchange_go_on(Exchange *x)
{
    const Op op = *x->op; /* which is gone when it is executed */
    fake_run_until(op.mark, op.clock);
}

const uint8_t *
fake_exchange_read(const Exchange *x, CUdeviceptr at, size_t n)
{
    return fake_read(x->op, at, n);
}

uint8_t *
fake_exchange_write(const Exchange *x, CUdeviceptr at, size_t n)
{
    return fake_write(x->op, at, n);
}

int
fake_exchange_device(void)
{
    return fake_current ? fake_current->device->number : -1;
}

uint64_t
fake_exchange_random(uint64_t n)
{
    return fake_random(n);
}

void
fake_exchange_note_failure(void)
{
    fake_world.has_failed = true;
}

bool
fake_exchange_has_failed(void)
{
    return fake_world.has_failed;
}
