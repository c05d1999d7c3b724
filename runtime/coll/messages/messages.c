/*
 * messages.c - collectives between processes that a link joins
 *
 * start notes a replica's operands; with the first and with the last local
 * replica of a call it tells the carrier (pieces.c), which does all else beside
 * the program and counts the calls that have ended.  done waits for that count.
 */
#include "runtime/coll/messages/messages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/coll/messages/messages_impl.h"
#include "runtime/coll/transport.h"

static MsgComm *
comm_of(RtColl *c)
{
    return (MsgComm *)c;
}

/* ---- start and done ------------------------------------------------------ */

static MsgPart *
part_of(const MsgInstance *s, int replica)
{
    int local = replica - s->comm->config.first_local;
    assert(local >= 0 && local < s->comm->config.num_local);
    return &s->parts[local];
}

static void
announce(MsgInstance *s, MsgPart *part)
{
    MsgComm *comm = s->comm;
    uint64_t local = (uint64_t)comm->config.num_local;
    atomic_fetch_add(&part->calls, 1);
    if (part == s->parts)
        rt_carrier_submit(comm->carrier, &s->first);
    if ((atomic_fetch_add(&s->announced, 1) + 1) % local == 0)
        rt_carrier_submit(comm->carrier, &s->last);
}

static void
messages_all_reduce_start(MsgInstance *s, int replica,
                          const RtAllReducePart *parts)
{
    MsgPart *part = part_of(s, replica);
    assert(!s->gathers);
    if (atomic_load(&s->comm->stopped))
        return;
    memcpy(part->reduces, parts, (size_t)s->num * sizeof *parts);
    announce(s, part);
}

static void
messages_all_gather_start(MsgInstance *s, int replica,
                          const RtAllGatherPart *gather)
{
    MsgPart *part = part_of(s, replica);
    assert(s->gathers && gather->outer >= 0 && gather->own_bytes >= 0);
    if (atomic_load(&s->comm->stopped))
        return;
    part->gather = *gather;
    announce(s, part);
}

static RtCollResult
messages_done(MsgInstance *s, int device, double timeout)
{
    MsgComm *comm = s->comm;
    RtDevice *d = comm->config.devices[device];
    uint32_t call = atomic_load(&s->parts[device * comm->each].calls);
    RtWaited waited = {0};
    for (;;) {
        uint32_t ended = rt_wait_word_load(&s->ended);
        if ((int32_t)(ended - call) >= 0 && !atomic_load(&comm->stopped))
            return COLL_OK;
        if (atomic_load(&comm->stopped))
            return COLL_ABORTED;
        if (rt_coll_is_late(&comm->config, timeout, &waited))
            return COLL_TIMEOUT;
        d->ops->program->wait_word(d, &s->ended, ended);
    }
}

static bool
messages_arrived(const MsgInstance *s, int replica)
{
    const MsgComm *comm = s->comm;
    int local = replica - comm->config.first_local;
    uint32_t most = atomic_load(&s->parts[0].calls);
    assert(local >= 0 && local < comm->config.num_local);
    for (int i = 1; i < comm->config.num_local; i++) {
        uint32_t calls = atomic_load(&s->parts[i].calls);
        if ((int32_t)(calls - most) > 0)
            most = calls;
    }
    return atomic_load(&s->parts[local].calls) == most;
}

static const char *
messages_chosen(MsgInstance *s, int64_t *bytes)
{
    *bytes = 0;
    if (s->gathers) {
        *bytes = (int64_t)s->most;
        return ir_coll_names[rt_msg_gather_algorithm(s->most)];
    }
    for (int i = 0; i < s->num; i++)
        *bytes += s->operands[i].most * dtype_info[s->kernels[i].value].bytes;
    return ir_coll_names[rt_msg_choose(s, (size_t)*bytes)->by];
}

/* The carrier counts a call before it ends. */
static const int64_t *
messages_calls(const MsgInstance *s)
{
    return s->calls;
}

/* ---- the end ------------------------------------------------------------- */

static void
wake_all(MsgComm *comm)
{
    atomic_store(&comm->stopped, true);
    for (MsgInstance *s = comm->instances; s; s = s->next)
        rt_wait_word_wake(&s->ended);
}

/* Others may go on to use the carrier. */
static void
messages_abort(RtColl *c)
{
    MsgComm *comm = comm_of(c);
    wake_all(comm);
    if (!atomic_exchange(&comm->abort_submitted, true))
        rt_carrier_submit(comm->carrier, &comm->abort);
}

/* Without the link the devices cannot go on; a stop has its reason elsewhere.
 */
static void
carrier_has_stopped(RtCarrierListener *l, const char *why)
{
    MsgComm *comm = (MsgComm *)((char *)l - offsetof(MsgComm, listener));
    if (why)
        rt_device_fail(comm->config.devices[0], "%s", why);
    wake_all(comm);
}

void
rt_msg_fail_sizes(MsgComm *comm, int rank)
{
    rt_device_fail(comm->config.devices[0],
                   "rank %d gathers blocks of sizes that cannot be", rank);
    wake_all(comm);
}

/* The carrier touches no memory of devices any more. */
static void
messages_disconnect(RtColl *c)
{
    MsgComm *comm = comm_of(c);
    RtCarrierJob last = {rt_msg_cancel, comm, NULL};
    rt_carrier_call(comm->carrier, &last);
    rt_carrier_unlisten(comm->carrier, &comm->listener);
}

static void
messages_close(RtColl *c)
{
    arena_release(comm_of(c)->arena);
}

/* ---- instances ----------------------------------------------------------- */

static MsgInstance *
instance_new(MsgComm *comm, int num)
{
    Arena *a = comm->arena;
    size_t local = (size_t)comm->config.num_local;
    MsgInstance *s = arena_alloc_on_lines(a, sizeof *s);
    s->comm = comm;
    s->num = num;
    s->parts = arena_alloc_on_lines(a, local * sizeof *s->parts);
    for (size_t i = 0; i < local; i++)
        s->parts[i].reduces = NEW_ARRAY(a, RtAllReducePart, (size_t)num);
    s->first = (RtCarrierJob){rt_msg_queue, s, NULL};
    s->last = (RtCarrierJob){rt_msg_ready, s, NULL};
    s->next = comm->instances;
    comm->instances = s;
    return s;
}

enum { KIND_NODES, KIND_LEAVES, KIND_FIRST };

static bool
is_widened(DType t)
{
    return dtype_compute(t) != t;
}

/* Leaves where nodes would be more bytes. */
static int
kind_of_nodes(const MsgComm *comm, RtReduceOp how, int num,
              const RtReduceOperand *operands)
{
    bool widens = false;
    int local = comm->config.num_local;
    for (int i = 0; i < num; i++)
        widens |= is_widened(operands[i].dtype);
    if (how == REDUCE_FIRST)
        return KIND_FIRST;
    return widens && 2 * comm->node_kinds[KIND_NODES]->most > local
               ? KIND_LEAVES
               : KIND_NODES;
}

static Status
choose_kernel(RtReduceOp how, int kind, DType t, RtNodeKernel *out)
{
    DType value = kind == KIND_NODES ? dtype_compute(t) : t;
    *out = (RtNodeKernel){rt_reduce_kernel(how, t),
                          rt_reduce_kernel(how, value), t, value};
    if (!out->all || !out->values)
        return status_new(STATUS_INPUT, "processes cannot combine values of %s",
                          dtype_info[t].name);
    return OK;
}

/* All get the value of that replica. */
static void
take_root(MsgInstance *s, int replica)
{
    const MsgComm *comm = s->comm;
    s->root = replica / comm->config.num_local;
    if (replica)
        s->nodes = rt_nodes_of_one(comm->arena, comm->size, s->root, replica);
}

static Status
messages_all_reduce_new(RtColl *c, RtReduceOp how, RtAlgorithmChoice choice,
                        int num, const RtReduceOperand *operands,
                        MsgInstance **out)
{
    MsgComm *comm = comm_of(c);
    Arena *a = comm->arena;
    TRY(rt_reduce_check(choice.algorithm, c->num_replicas));
    MsgInstance *s = instance_new(comm, num);
    int kind = kind_of_nodes(comm, how, num, operands);
    s->operands = arena_copy(a, operands, (size_t)num * sizeof *operands);
    s->nodes = comm->node_kinds[kind];
    if (kind == KIND_FIRST)
        take_root(s, choice.root);
    s->kernels = NEW_ARRAY(a, RtNodeKernel, (size_t)num);
    s->counts = NEW_ARRAY(a, int64_t, (size_t)num);
    s->layout = rt_layout_new(a, num);
    for (int i = 0; i < num; i++) {
        RtNodeKernel *k = &s->kernels[i];
        TRY(choose_kernel(how, kind, operands[i].dtype, k));
        s->layout.operands[i].width[FORM_NODE] = dtype_info[k->value].bytes;
        s->layout.operands[i].width[FORM_RESULT] = dtype_info[k->stored].bytes;
    }
    s->sends_operand = num == 1 && comm->config.num_local == 1 &&
                       s->kernels[0].stored == s->kernels[0].value;
    *out = s;
    return OK;
}

static Status
messages_all_gather_new(RtColl *c, RtAlgorithmChoice choice, int64_t most,
                        MsgInstance **out)
{
    MsgComm *comm = comm_of(c);
    MsgInstance *s = instance_new(comm, 1);
    (void)choice; /* each sends its own blocks */
    s->gathers = true;
    s->most = (size_t)most;
    s->sizes = NEW_ARRAY(comm->arena, int64_t, (size_t)c->num_replicas);
    s->blocks = arena_alloc(comm->arena, s->most);
    s->at = NEW_ARRAY(comm->arena, size_t, (size_t)comm->size + 1);
    *out = s;
    return OK;
}

static Status
messages_connect(RtColl *c)
{
    MsgComm *comm = comm_of(c);
    rt_msg_alloc(comm);
    rt_carrier_listen(comm->carrier, &comm->listener);
    return OK;
}

void
rt_messages_force(RtColl *c, RtMessagesAlgorithm algorithm)
{
    comm_of(c)->forced = (int)algorithm;
}

/* ---- the communicator ---------------------------------------------------- */

static const RtCollOps messages_ops = {
    .name = "messages",
    .close = messages_close,
    .all_reduce_new = messages_all_reduce_new,
    .all_gather_new = messages_all_gather_new,
    .connect = messages_connect,
    .disconnect = messages_disconnect,
    .all_reduce_start = messages_all_reduce_start,
    .all_gather_start = messages_all_gather_start,
    .done = messages_done,
    .arrived = messages_arrived,
    .chosen = messages_chosen,
    .calls = messages_calls,
    .abort = messages_abort,
};

static void
make_nodes(MsgComm *comm)
{
    int n = comm->coll.num_replicas, size = comm->size;
    comm->node_kinds[KIND_NODES] = rt_nodes_new(comm->arena, n, size);
    comm->node_kinds[KIND_LEAVES] = rt_nodes_of_leaves(comm->arena, n, size);
    comm->node_kinds[KIND_FIRST] = rt_nodes_of_one(comm->arena, size, 0, 0);
    comm->machines =
        rt_nodes_new(comm->arena, n, size / comm->topology.per_machine);
    comm->scratch = rt_node_scratch_new(comm->arena, n);
}

/* The algorithm that TFD_ALL_REDUCE names, for tests; -1: it is not set. */
static Status
take_algorithm(int *out)
{
    const char *name = getenv("TFD_ALL_REDUCE");
    *out = -1;
    for (int i = 0; name && i < NUM_MESSAGES_ALGORITHMS; i++)
        if (strcmp(ir_coll_names[rt_msg_algorithms[i].by], name) == 0)
            *out = i;
    if (!name || *out >= 0)
        return OK;
    return status_new(STATUS_USAGE,
                      "TFD_ALL_REDUCE is gather, exchange, halving, doubling, "
                      "hierarchy or not set, not \"%s\"",
                      name);
}

Status
rt_coll_messages_open(const RtCommConfig *config, RtColl **out, Str *why)
{
    int forced;
    (void)why;
    TRY(take_algorithm(&forced));
    Arena *a = arena_new(NULL, "collectives");
    MsgComm *comm = arena_alloc_on_lines(a, sizeof *comm);
    assert(config->rank == rt_carrier_rank(config->carrier) &&
           config->size == rt_carrier_size(config->carrier) &&
           config->num_local * config->size == config->num_replicas);
    comm->coll = (RtColl){.ops = &messages_ops,
                          .over = rt_carrier_link(config->carrier),
                          .num_replicas = config->num_replicas,
                          .num_devices = config->num_devices};
    comm->arena = a;
    comm->config = *config;
    comm->carrier = config->carrier;
    comm->rank = config->rank;
    comm->size = config->size;
    comm->each = config->num_local / config->num_devices;
    comm->topology = rt_carrier_topology(config->carrier);
    comm->forced = forced;
    comm->queue_end = &comm->queue;
    comm->listener.stopped = carrier_has_stopped;
    comm->abort = (RtCarrierJob){rt_msg_cancel, comm, NULL};
    make_nodes(comm);
    *out = &comm->coll;
    return OK;
}
