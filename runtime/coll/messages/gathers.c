/*
 * gathers.c - all_gather as messages
 *
 * Only its replica knows how large a block is, so sizes are gathered first,
 * then the blocks: little by Bruck's algorithm, in log P messages, else from
 * each process to all others.  Blocks stand in turn from this process on until
 * they are put in their places.
 */
#include <string.h>
#include "runtime/coll/messages/messages_impl.h"

enum {
    BLOCK_STEPS = 64 /* steps of the rounds that bring blocks, from this on */
};

static int
local(const MsgInstance *s)
{
    return s->comm->config.num_local;
}

static size_t
outer(const MsgInstance *s)
{
    return (size_t)s->parts[0].gather.outer;
}

/* ---- sizes --------------------------------------------------------------- */

static void
set_own_sizes(MsgInstance *s)
{
    for (int i = 0; i < local(s); i++)
        s->sizes[i] = s->parts[i].gather.own_bytes;
}

static bool
gather_sizes(MsgPiece *p, int k)
{
    MsgInstance *s = p->instance;
    RtBruckRound r;
    size_t each = (size_t)local(s), bytes = each * sizeof *s->sizes;
    if (k == 0)
        set_own_sizes(s);
    if (!rt_bruck_round(p->comm->rank, p->comm->size, k, &r))
        return false;
    rt_msg_recv(p, r.from, k, s->sizes + (size_t)r.have * each,
                (size_t)r.num * bytes);
    rt_msg_send(p, r.to, k, s->sizes, (size_t)r.num * bytes);
    return true;
}

/* ---- blocks -------------------------------------------------------------- */

/* Of the blocks of one process, which has told their sizes: false if these
 * cannot be. */
static bool
sum_sizes(const MsgInstance *s, int q, size_t most, size_t *sum)
{
    *sum = 0;
    for (int i = 0; i < local(s); i++) {
        int64_t own = s->sizes[q * local(s) + i];
        size_t bytes;
        if (own < 0 || __builtin_mul_overflow((size_t)own, outer(s), &bytes) ||
            bytes > most - *sum)
            return false;
        *sum += bytes;
    }
    return true;
}

static bool
set_places(MsgInstance *s)
{
    int size = s->comm->size;
    for (int q = 0; q < size; q++) {
        size_t bytes;
        if (!sum_sizes(s, q, s->most - s->at[q], &bytes)) {
            rt_msg_fail_sizes(s->comm, (s->comm->rank + q) % size);
            return false;
        }
        s->at[q + 1] = s->at[q] + bytes;
    }
    return true;
}

static void
copy_own_blocks(const MsgInstance *s)
{
    char *to = s->blocks;
    for (int i = 0; i < local(s); i++) {
        size_t n = (size_t)s->sizes[i] * outer(s);
        if (n)
            memcpy(to, rt_ptr_address(s->parts[i].gather.in), n);
        to += n;
    }
}

static bool
gather_little(MsgPiece *p, int k)
{
    const MsgInstance *s = p->instance;
    RtBruckRound r;
    if (!rt_bruck_round(p->comm->rank, p->comm->size, k, &r))
        return false;
    rt_msg_recv(p, r.from, BLOCK_STEPS + k, s->blocks + s->at[r.have],
                s->at[r.have + r.num] - s->at[r.have]);
    rt_msg_send(p, r.to, BLOCK_STEPS + k, s->blocks, s->at[r.num]);
    return true;
}

static bool
send_to_all(MsgPiece *p, int k)
{
    const MsgInstance *s = p->instance;
    int size = p->comm->size, rank = p->comm->rank;
    if (k > 0)
        return false;
    for (int i = size - 1; i > 0; i--)
        rt_msg_recv(p, (rank + i) % size, BLOCK_STEPS, s->blocks + s->at[i],
                    s->at[i + 1] - s->at[i]);
    for (int i = 1; i < size; i++)
        rt_msg_send(p, (rank + i) % size, BLOCK_STEPS, s->blocks, s->at[1]);
    return true;
}

/* ---- the result ---------------------------------------------------------- */

/* From replica 0 on, as they are in a row of the result. */
static void
place_replica(const MsgInstance *s, int replica, size_t before, size_t row)
{
    const MsgComm *comm = s->comm;
    int n = comm->coll.num_replicas;
    int i = (replica - comm->config.first_local + n) % n, q = i / local(s);
    const char *from = s->blocks + s->at[q];
    size_t own = (size_t)s->sizes[i];
    for (int j = q * local(s); j < i; j++)
        from += (size_t)s->sizes[j] * outer(s);
    for (int d = 0; d < comm->coll.num_devices && own; d++) {
        char *to = rt_ptr_address(s->parts[d * comm->each].gather.out);
        for (size_t o = 0; o < outer(s); o++)
            memcpy(to + o * row + before, from + o * own, own);
    }
}

static void
place_all(const MsgInstance *s)
{
    int n = s->comm->coll.num_replicas, first = s->comm->config.first_local;
    size_t row = 0, before = 0;
    for (int i = 0; i < n; i++)
        row += (size_t)s->sizes[i];
    for (int r = 0; r < n; r++) {
        place_replica(s, r, before, row);
        before += (size_t)s->sizes[(r - first + n) % n];
    }
}

static bool
gather_blocks(MsgPiece *p, int k)
{
    MsgInstance *s = p->instance;
    if (k == 0) {
        if (!set_places(s))
            return true; /* nothing goes on */
        copy_own_blocks(s);
    }
    IrCollAlgorithm by = rt_msg_gather_algorithm(s->at[p->comm->size]);
    if (k == 0)
        s->calls[by]++;
    if (by == IR_COLL_GATHER ? gather_little(p, k) : send_to_all(p, k))
        return true;
    place_all(s);
    return false;
}

static bool
begin_round(MsgPiece *p)
{
    MsgInstance *s = p->instance;
    int k = p->round++;
    if (k == 0)
        s->sized = 0;
    if (k == s->sized && gather_sizes(p, k)) {
        s->sized++;
        return true;
    }
    return gather_blocks(p, k - s->sized);
}

const MsgAlgorithm rt_msg_gathering = {IR_COLL_GATHER, begin_round};
