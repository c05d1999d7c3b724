/*
 * algorithms.c - the algorithms of a piece of an all_reduce
 *
 * Each is a number of rounds.  What a round needs of the one before has arrived
 * when it begins, and what that one sent has left: so a result may take the
 * place of an operand.
 */
#include <assert.h>
#include <string.h>
#include "runtime/coll/messages/messages_impl.h"

/* ---- nodes and results --------------------------------------------------- */

static const RtLayout *
layout_of(const MsgPiece *p)
{
    return &p->instance->layout;
}

static int
own_nodes(const MsgPiece *p)
{
    return rt_nodes_of(p->instance->nodes, p->comm->rank);
}

/* Of one node.  With operands of several dtypes the next node is aligned for
 * all of them; of one operand, which may be sent from its place, it is anyway.
 */
static size_t
node_bytes(const MsgPiece *p, RtSteps s)
{
    enum { ALIGN = 8 };
    size_t n = rt_layout_bytes(layout_of(p), FORM_NODE, s);
    return p->instance->num > 1 ? (n + ALIGN - 1) / ALIGN * ALIGN : n;
}

/* From the beginning of the piece. */
static size_t
offset_in(const MsgPiece *p, RtForm form, int64_t step)
{
    return rt_layout_offset(layout_of(p), form, step) -
           rt_layout_offset(layout_of(p), form, p->steps.begin);
}

/* Of a fragment of a range, from the beginning of the range. */
static size_t
fragment_offset(const MsgPiece *p, RtForm form, RtSteps s, const RtFragment *f)
{
    const RtLayoutOperand *o = &layout_of(p)->operands[f->operand];
    return o->offset[form] + (size_t)f->begin * o->width[form] -
           rt_layout_offset(layout_of(p), form, s.begin);
}

static const char *
operand_of(const MsgPiece *p, int i, int local)
{
    return rt_ptr_address(p->instance->parts[local].reduces[i].in);
}

/* One operand has its result where it will be, others in the piece's memory. */
static char *
result_at(const MsgPiece *p, int64_t step)
{
    const MsgInstance *s = p->instance;
    if (s->num == 1)
        return (char *)rt_ptr_address(s->parts[0].reduces[0].out) +
               rt_layout_offset(&s->layout, FORM_RESULT, step);
    return p->result + offset_in(p, FORM_RESULT, step);
}

/* ---- own nodes ----------------------------------------------------------- */

static void
make_fragment(const MsgPiece *p, int node, const RtFragment *f, char *to)
{
    const MsgInstance *s = p->instance;
    const int *begin = &s->nodes->begin[node];
    const RtNodeKernel *k = &s->kernels[f->operand];
    size_t at = (size_t)f->begin * dtype_info[k->stored].bytes;
    int n = begin[1] - begin[0], first = p->comm->config.first_local;
    for (int i = 0; i < n; i++)
        p->in[i] = operand_of(p, f->operand, begin[0] + i - first) + at;
    rt_node_make(k, p->comm->scratch, n, p->in, to, f->end - f->begin);
}

/* All own nodes of a range, one behind the other. */
static void
make_nodes(const MsgPiece *p, RtSteps s, char *to)
{
    int first = p->instance->nodes->first[p->comm->rank];
    for (int i = 0; i < own_nodes(p); i++) {
        RtFragment f = {.operand = -1};
        while (rt_layout_next(layout_of(p), s, &f))
            make_fragment(p, first + i, &f,
                          to + fragment_offset(p, FORM_NODE, s, &f));
        to += node_bytes(p, s);
    }
}

/* Own nodes of a slice: its operand itself, or where make_slices puts them. */
static char *
own_slice(const MsgPiece *p, RtSteps s)
{
    if (p->instance->sends_operand)
        return (char *)(uintptr_t)operand_of(p, 0, 0) +
               rt_layout_offset(layout_of(p), FORM_NODE, s.begin);
    return p->nodes + (size_t)own_nodes(p) * offset_in(p, FORM_NODE, s.begin);
}

static void
make_slices(const MsgPiece *p, int num)
{
    if (p->instance->sends_operand)
        return;
    for (int k = 0; k < num; k++) {
        RtSteps s = rt_steps_slice(p->steps, num, k);
        make_nodes(p, s, own_slice(p, s));
    }
}

/* ---- combining all nodes ------------------------------------------------- */

/* Where the nodes of a process are, of a range. */
typedef const char *NodesAt(const MsgPiece *p, RtSteps s, int process);

static void
combine_fragment(const MsgPiece *p, RtSteps s, NodesAt *at, const RtFragment *f)
{
    const RtNodes *nodes = p->instance->nodes;
    size_t offset = fragment_offset(p, FORM_NODE, s, f);
    size_t n = node_bytes(p, s);
    for (int q = 0; q < p->comm->size; q++) {
        const char *from = at(p, s, q) + offset;
        for (int i = nodes->first[q]; i < nodes->first[q + 1]; i++, from += n)
            p->in[i] = from;
    }
    rt_nodes_combine(
        &p->instance->kernels[f->operand], p->comm->scratch, nodes, p->in,
        result_at(p, s.begin) + fragment_offset(p, FORM_RESULT, s, f),
        f->end - f->begin);
}

static void
combine_all(const MsgPiece *p, RtSteps s, NodesAt *at)
{
    RtFragment f = {.operand = -1};
    while (rt_layout_next(layout_of(p), s, &f))
        combine_fragment(p, s, at, &f);
}

/* ---- gather -------------------------------------------------------------- */

/* Nodes of the first so many processes from this one on. */
static size_t
nodes_until(const MsgPiece *p, int place)
{
    const int *first = p->instance->nodes->first;
    int rank = p->comm->rank, size = p->comm->size, end = rank + place;
    return (size_t)(end <= size
                        ? first[end] - first[rank]
                        : first[size] - first[rank] + first[end - size]);
}

static const char *
gathered(const MsgPiece *p, RtSteps s, int process)
{
    int size = p->comm->size, place = (process - p->comm->rank + size) % size;
    return p->received + nodes_until(p, place) * node_bytes(p, s);
}

static bool
gather(MsgPiece *p)
{
    RtBruckRound r;
    int k = p->round++;
    size_t n = node_bytes(p, p->steps);
    if (k == 0)
        make_nodes(p, p->steps, p->received);
    if (!rt_bruck_round(p->comm->rank, p->comm->size, k, &r)) {
        combine_all(p, p->steps, gathered);
        return false;
    }
    size_t have = nodes_until(p, r.have);
    rt_msg_recv(p, r.from, k, p->received + have * n,
                (nodes_until(p, r.have + r.num) - have) * n);
    rt_msg_send(p, r.to, k, p->received, nodes_until(p, r.num) * n);
    return true;
}

/* ---- exchange ------------------------------------------------------------ */

static RtSteps
slice_of(const MsgPiece *p, int process)
{
    return rt_steps_slice(p->steps, p->comm->size, process);
}

static char *
received_from(const MsgPiece *p, int process)
{
    RtSteps own = slice_of(p, p->comm->rank);
    return p->received +
           (size_t)p->instance->nodes->first[process] * node_bytes(p, own);
}

static const char *
exchanged(const MsgPiece *p, RtSteps s, int process)
{
    return process == p->comm->rank ? own_slice(p, s)
                                    : received_from(p, process);
}

/* Everybody begins with another one, so that no process gets all at once. */
static int
peer_at(const MsgPiece *p, int i)
{
    return (p->comm->rank + i) % p->comm->size;
}

static void
send_slices(MsgPiece *p)
{
    const RtNodes *nodes = p->instance->nodes;
    int size = p->comm->size;
    size_t own = node_bytes(p, slice_of(p, p->comm->rank));
    make_slices(p, size);
    for (int i = size - 1; i > 0; i--) {
        int peer = peer_at(p, i);
        rt_msg_recv(p, peer, 0, received_from(p, peer),
                    (size_t)rt_nodes_of(nodes, peer) * own);
    }
    for (int i = 1; i < size; i++) {
        RtSteps s = slice_of(p, peer_at(p, i));
        rt_msg_send(p, peer_at(p, i), 0, own_slice(p, s),
                    (size_t)own_nodes(p) * node_bytes(p, s));
    }
}

static void
send_results(MsgPiece *p)
{
    RtSteps own = slice_of(p, p->comm->rank);
    int size = p->comm->size;
    combine_all(p, own, exchanged);
    for (int i = size - 1; i > 0; i--) {
        RtSteps s = slice_of(p, peer_at(p, i));
        rt_msg_recv(p, peer_at(p, i), 1, result_at(p, s.begin),
                    rt_layout_bytes(layout_of(p), FORM_RESULT, s));
    }
    for (int i = 1; i < size; i++)
        rt_msg_send(p, peer_at(p, i), 1, result_at(p, own.begin),
                    rt_layout_bytes(layout_of(p), FORM_RESULT, own));
}

static bool
exchange(MsgPiece *p)
{
    int k = p->round++;
    if (k == 0)
        send_slices(p);
    if (k == 1)
        send_results(p);
    return k < 2;
}

/* ---- halving and doubling --------------------------------------------------
 *
 * Ranks that differ in bit k combine in round k, so what they have are subtrees
 * of D2's tree that stand beside each other. */

static int
levels(const MsgPiece *p)
{
    int n = 0;
    while (1 << n < p->comm->size)
        n++;
    return n;
}

/* What a rank has after so many rounds of halving. */
static RtSteps
kept(const MsgPiece *p, int rank, int rounds)
{
    RtSteps s = p->steps;
    for (int k = 0; k < rounds; k++)
        s = rt_steps_slice(s, 2, rank >> k & 1);
    return s;
}

static RtSteps
whole(const MsgPiece *p, int rank, int rounds)
{
    (void)rank;
    (void)rounds;
    return p->steps;
}

/* What this process has of a range after so many rounds. */
static char *
sum_at(const MsgPiece *p, int rounds, RtSteps s)
{
    if (rounds > 0)
        return p->sums + offset_in(p, FORM_NODE, s.begin);
    if (p->instance->sends_operand)
        return own_slice(p, s);
    return p->nodes + offset_in(p, FORM_NODE, s.begin);
}

/* With what has come in the round before.  What is nearer to the root is on the
 * left. */
static void
add_received(MsgPiece *p, int rounds, RtSteps s)
{
    RtFragment f = {.operand = -1};
    int from_root = p->comm->rank ^ p->instance->root;
    bool is_right = from_root >> (rounds - 1) & 1;
    while (rt_layout_next(layout_of(p), s, &f)) {
        size_t at = fragment_offset(p, FORM_NODE, s, &f);
        const void *own = sum_at(p, rounds - 1, s) + at;
        const void *other = p->received + at;
        const void *in[] = {is_right ? other : own, is_right ? own : other};
        void *out = sum_at(p, rounds, s) + at;
        p->instance->kernels[f.operand].values(2, in, 1, &out, 0,
                                               f.end - f.begin);
    }
}

static void
store_sums(MsgPiece *p, int rounds, RtSteps s)
{
    RtFragment f = {.operand = -1};
    while (rt_layout_next(layout_of(p), s, &f))
        rt_node_store(
            &p->instance->kernels[f.operand],
            sum_at(p, rounds, s) + fragment_offset(p, FORM_NODE, s, &f),
            result_at(p, s.begin) + fragment_offset(p, FORM_RESULT, s, &f),
            f.end - f.begin);
}

/* The rounds that combine; ranges(p, rank, k) is what a rank needs after k of
 * them.  false: all have been. */
static bool
combine_round(MsgPiece *p, int k,
              RtSteps (*ranges)(const MsgPiece *, int rank, int rounds))
{
    int rank = p->comm->rank, n = levels(p), peer = rank ^ 1 << k;
    if (k == 0)
        make_slices(p, 1);
    if (k > 0)
        add_received(p, k, ranges(p, rank, k));
    if (k == n) {
        store_sums(p, n, ranges(p, rank, n));
        return false;
    }
    RtSteps mine = ranges(p, rank, k + 1), theirs = ranges(p, peer, k + 1);
    rt_msg_recv(p, peer, k, p->received, node_bytes(p, mine));
    rt_msg_send(p, peer, k, sum_at(p, k, theirs), node_bytes(p, theirs));
    return true;
}

static bool
doubling(MsgPiece *p)
{
    return combine_round(p, p->round++, whole);
}

/* After the slices are combined they are gathered the way they were divided. */
static bool
halving(MsgPiece *p)
{
    int rank = p->comm->rank, n = levels(p), k = p->round++;
    if (k <= n && combine_round(p, k, kept))
        return true;
    if (k == 2 * n)
        return false;
    int level = 2 * n - 1 - k, peer = rank ^ 1 << level;
    RtSteps mine = kept(p, rank, level + 1), theirs = kept(p, peer, level + 1);
    rt_msg_recv(p, peer, k, result_at(p, theirs.begin),
                rt_layout_bytes(layout_of(p), FORM_RESULT, theirs));
    rt_msg_send(p, peer, k, result_at(p, mine.begin),
                rt_layout_bytes(layout_of(p), FORM_RESULT, mine));
    return true;
}

/* ---- hierarchy -------------------------------------------------------------
 *
 * Within a machine each process combines a slice, of the machine's nodes, which
 * are a subtree of D2's tree; processes of the same place in their machines
 * exchange what they have.  So of an operand a machine sends no more than what
 * one process would. */

/* Of what a machine has, that of the process at a place in it. */
static RtSteps
place_slice(const MsgPiece *p, int place)
{
    return rt_steps_slice(p->steps, p->comm->topology.per_machine, place);
}

/* Of that, what a machine's process combines for all machines. */
static RtSteps
machine_slice(const MsgPiece *p, int machine)
{
    int n = p->comm->topology.per_machine;
    return rt_steps_slice(place_slice(p, p->comm->rank % n), p->comm->size / n,
                          machine);
}

/* Processes that exchange: `num` of them, whose ranks are `stride` apart; this
 * one is number `own`, and `root` has the root's value, if any has. */
typedef struct Peers {
    int first, stride, num, own, root;
} Peers;

static Peers
peers_of_machine(const MsgPiece *p)
{
    int n = p->comm->topology.per_machine, rank = p->comm->rank;
    return (Peers){rank - rank % n, 1, n, rank % n, p->instance->root % n};
}

static Peers
peers_of_place(const MsgPiece *p)
{
    int n = p->comm->topology.per_machine, rank = p->comm->rank;
    return (Peers){rank % n, n, p->comm->size / n, rank / n,
                   p->instance->root / n};
}

/* To each its slice of what this process has after so many rounds.  What comes
 * is received one behind the other. */
static void
scatter(MsgPiece *p, int step, Peers to, int rounds,
        RtSteps (*slice)(const MsgPiece *, int))
{
    size_t own = node_bytes(p, slice(p, to.own));
    for (int i = 1; i < to.num; i++) {
        int k = (to.own + to.num - i) % to.num;
        rt_msg_recv(p, to.first + k * to.stride, step,
                    p->received + (size_t)k * own, own);
    }
    for (int i = 1; i < to.num; i++) {
        int k = (to.own + i) % to.num;
        RtSteps s = slice(p, k);
        rt_msg_send(p, to.first + k * to.stride, step, sum_at(p, rounds, s),
                    node_bytes(p, s));
    }
}

/* The own slice's result to all, and theirs from them. */
static void
share_results(MsgPiece *p, int step, Peers with,
              RtSteps (*slice)(const MsgPiece *, int))
{
    RtSteps own = slice(p, with.own);
    for (int i = 1; i < with.num; i++) {
        int k = (with.own + with.num - i) % with.num;
        RtSteps s = slice(p, k);
        rt_msg_recv(p, with.first + k * with.stride, step,
                    result_at(p, s.begin),
                    rt_layout_bytes(layout_of(p), FORM_RESULT, s));
    }
    for (int i = 1; i < with.num; i++)
        rt_msg_send(p, with.first + (with.own + i) % with.num * with.stride,
                    step, result_at(p, own.begin),
                    rt_layout_bytes(layout_of(p), FORM_RESULT, own));
}

/* What was scattered, of all in turn; the root's in place of the first, which
 * is all that REDUCE_FIRST takes. */
static void
collect(const MsgPiece *p, Peers from, int rounds, RtSteps s, size_t at)
{
    size_t n = node_bytes(p, s);
    for (int k = 0; k < from.num; k++)
        p->in[k] = (k == from.own ? sum_at(p, rounds, s)
                                  : p->received + (size_t)k * n) +
                   at;
    p->in[0] = p->in[from.root];
}

/* The machine's nodes to one. */
static void
combine_machine(MsgPiece *p)
{
    Peers from = peers_of_machine(p);
    RtSteps s = place_slice(p, from.own);
    RtFragment f = {.operand = -1};
    while (rt_layout_next(layout_of(p), s, &f)) {
        size_t at = fragment_offset(p, FORM_NODE, s, &f);
        void *out = sum_at(p, 1, s) + at;
        collect(p, from, 0, s, at);
        p->instance->kernels[f.operand].values(from.num, p->in, 1, &out, 0,
                                               f.end - f.begin);
    }
}

/* Those of all machines to a result. */
static void
combine_machines(MsgPiece *p)
{
    Peers from = peers_of_place(p);
    RtSteps s = machine_slice(p, from.own);
    RtFragment f = {.operand = -1};
    while (rt_layout_next(layout_of(p), s, &f)) {
        collect(p, from, 1, s, fragment_offset(p, FORM_NODE, s, &f));
        rt_nodes_combine(&p->instance->kernels[f.operand], p->comm->scratch,
                         p->comm->machines, p->in,
                         result_at(p, s.begin) +
                             fragment_offset(p, FORM_RESULT, s, &f),
                         f.end - f.begin);
    }
}

static bool
hierarchy(MsgPiece *p)
{
    int k = p->round++;
    switch (k) {
    case 0:
        make_slices(p, 1);
        scatter(p, k, peers_of_machine(p), 0, place_slice);
        return true;
    case 1:
        combine_machine(p);
        scatter(p, k, peers_of_place(p), 1, machine_slice);
        return true;
    case 2:
        combine_machines(p);
        share_results(p, k, peers_of_place(p), machine_slice);
        return true;
    case 3:
        share_results(p, k, peers_of_machine(p), place_slice);
        return true;
    }
    return false;
}

const MsgAlgorithm rt_msg_algorithms[NUM_MESSAGES_ALGORITHMS] = {
    [MESSAGES_GATHER] = {IR_COLL_GATHER, gather},
    [MESSAGES_EXCHANGE] = {IR_COLL_EXCHANGE, exchange},
    [MESSAGES_HALVING] = {IR_COLL_HALVING, halving},
    [MESSAGES_DOUBLING] = {IR_COLL_DOUBLING, doubling},
    [MESSAGES_HIERARCHY] = {IR_COLL_HIERARCHY, hierarchy},
};
