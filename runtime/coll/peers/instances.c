/*
 * instances.c - what the transport between devices needs before the first step
 *
 * Instances are made when the plan is loaded.  When the devices are open each
 * is connected with all others.  For each device whose memory another one does
 * not reach there is memory of the host for the operands of all instances, and
 * once for results.
 */
#include <assert.h>
#include "runtime/coll/algorithm/algorithm.h"
#include "runtime/coll/peers/peers.h"

enum { ALIGN = 256 };

/* ---- instances ----------------------------------------------------------- */

/* Each algorithm combines an operand's elements in at most one range, except in
 * packs: each of them begins another one, if it has elements. */
static int
count_launches(RtAlgorithmChoice choice, int num,
               const RtReduceOperand *operands)
{
    int64_t ranges = 0;
    for (int i = 0; i < num; i++)
        ranges += (operands[i].most + COLL_SLICE_STEP - 1) / COLL_SLICE_STEP;
    return num + (int)(ranges < choice.packs ? ranges : choice.packs);
}

static void
make_work(RtLocalComm *comm, const PeersInstance *s, RtLocalWork *w)
{
    Arena *a = comm->arena;
    int devices = comm->coll.num_devices; /* as many phases as ring has */
    int phases = devices > PEERS_STAGED ? devices : PEERS_STAGED;
    size_t num_ptrs = (size_t)comm->coll.num_replicas + 1;
    PeersWork *own = arena_alloc_on_lines(a, sizeof *own);
    own->ends = NEW_ARRAY(a, RtEvent, (size_t)phases);
    own->launches = NEW_ARRAY(a, PeersLaunch, (size_t)s->num_launches);
    for (int i = 0; i < s->num_launches; i++)
        own->launches[i].ptrs = NEW_ARRAY(a, void *, num_ptrs);
    w->own = own;
}

static PeersInstance *
instance_new(RtLocalComm *comm, RtAlgorithmChoice choice, int num,
             const RtReduceOperand *operands)
{
    RtLocalNew make = {.choice = choice,
                       .num = num,
                       .operands = operands,
                       .bytes = sizeof(PeersInstance)};
    PeersInstance *s = (PeersInstance *)rt_local_new(comm, &make);
    s->num_launches = operands ? count_launches(choice, num, operands) : 0;
    s->staged_at = NEW_ARRAY(comm->arena, size_t, (size_t)num);
    s->stride = NEW_ARRAY(comm->arena, size_t, (size_t)num);
    for (int i = 0; i < comm->coll.num_devices; i++)
        make_work(comm, s, &s->base.works[i]);
    return s;
}

static size_t
align(int64_t bytes)
{
    return ((size_t)bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* One replica's operand is its own result, and that of the root is copied. */
static bool
needs_kernel(const RtColl *c, RtReduceOp how, const RtReduceOperand *operand)
{
    return operand->kernel < 0 && how != REDUCE_FIRST && c->num_replicas > 1;
}

Status
rt_peers_all_reduce_new(RtColl *c, RtReduceOp how, RtAlgorithmChoice choice,
                        int num, const RtReduceOperand *operands,
                        RtCollInstance **out)
{
    RtLocalComm *comm = (RtLocalComm *)c;
    assert(choice.algorithm != COLL_REPLICATED);
    TRY(rt_reduce_check(choice.algorithm, c->num_replicas));
    for (int i = 0; i < num; i++)
        if (needs_kernel(c, how, &operands[i]))
            return status_new(STATUS_INPUT,
                              "the plan has no kernel that combines values of "
                              "%s of %d replicas, which devices that execute "
                              "no code of the host need",
                              dtype_info[operands[i].dtype].name,
                              c->num_replicas);
    PeersInstance *s = instance_new(comm, choice, num, operands);
    for (int i = 0; i < num; i++)
        s->stride[i] = align(operands[i].most *
                             (int64_t)dtype_info[operands[i].dtype].bytes);
    *out = &s->base;
    return OK;
}

Status
rt_peers_all_gather_new(RtColl *c, RtAlgorithmChoice choice, int64_t most,
                        RtCollInstance **out)
{
    PeersInstance *s = instance_new((RtLocalComm *)c, choice, 1, NULL);
    s->stride[0] = align(most) + (size_t)c->num_replicas * ALIGN;
    *out = &s->base;
    return OK;
}

/* ---- connections --------------------------------------------------------- */

static Status
connect_all(PeersComm *comm)
{
    const RtCommConfig *config = &comm->local.config;
    int n = config->num_devices;
    comm->reaches = NEW_ARRAY(comm->local.arena, bool, (size_t)n *(size_t)n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            RtDevice *d = config->devices[i];
            bool *reaches = &comm->reaches[i * n + k];
            TRY(d->ops->connect(d, config->devices[k], reaches));
            *reaches |= i == k;
        }
    return OK;
}

/* Numbers the devices whose memory some device does not reach. */
static void
list_staged(PeersComm *comm)
{
    int n = comm->local.coll.num_devices;
    comm->staged = NEW_ARRAY(comm->local.arena, int, (size_t)n);
    for (int k = 0; k < n; k++) {
        bool is_reached = true;
        for (int i = 0; i < n; i++)
            is_reached &= comm->reaches[i * n + k];
        comm->staged[k] = is_reached ? -1 : comm->num_staged++;
    }
}

/* Gives all instances their places in memory of the host.  Its size. */
static size_t
place_all(const PeersComm *comm)
{
    const RtColl *c = &comm->local.coll;
    size_t each = (size_t)(c->num_replicas / c->num_devices);
    size_t at = 0, all = (size_t)comm->num_staged * each + 1;
    for (RtCollInstance *s = comm->local.instances; s; s = s->next) {
        PeersInstance *p = (PeersInstance *)s;
        for (int i = 0; i < s->num; i++) {
            p->staged_at[i] = at;
            at += p->stride[i] * (s->gathers ? 1 : all);
        }
    }
    return at;
}

Status
rt_peers_connect(RtColl *c)
{
    PeersComm *comm = (PeersComm *)c;
    RtDevice *first = comm->local.config.devices[0];
    TRY(connect_all(comm));
    list_staged(comm);
    if (!comm->num_staged)
        return OK;
    return first->ops->alloc_host(first, place_all(comm) + ALIGN, &comm->hosts);
}

/* ---- what is staged ------------------------------------------------------ */

static const PeersComm *
comm_of(const RtCollInstance *s)
{
    return (const PeersComm *)s->comm;
}

bool
rt_peers_reach(const RtCollInstance *s, int device, int other)
{
    return comm_of(s)->reaches[device * s->comm->coll.num_devices + other];
}

bool
rt_peers_is_staged(const RtCollInstance *s, int device)
{
    return comm_of(s)->staged[device] >= 0;
}

static RtDevicePtr
staged_at(const RtCollInstance *s, int i, int number)
{
    const PeersInstance *p = (const PeersInstance *)s;
    return (RtDevicePtr){comm_of(s)->hosts,
                         p->staged_at[i] + p->stride[i] * (size_t)number};
}

RtDevicePtr
rt_peers_staged_operand(const RtCollInstance *s, int i, int replica)
{
    int each = rt_local_replicas_each(s), device = replica / each;
    assert(rt_peers_is_staged(s, device));
    return staged_at(s, i, comm_of(s)->staged[device] * each + replica % each);
}

RtDevicePtr
rt_peers_staged_result(const RtCollInstance *s, int i)
{
    int each = rt_local_replicas_each(s);
    return staged_at(s, i, comm_of(s)->num_staged * each);
}

RtDevicePtr
rt_peers_staged_blocks(const RtCollInstance *s, int replica)
{
    int each = rt_local_replicas_each(s);
    size_t before = 0;
    for (int k = 0; k < replica; k++) {
        const RtAllGatherPart *p = &s->parts[k].gather;
        if (rt_peers_is_staged(s, k / each))
            before += align(p->outer * p->own_bytes);
    }
    return rt_ptr_add(staged_at(s, 0, 0), before);
}
