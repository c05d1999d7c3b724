/*
 * instances.c - what the transport between devices needs before the first step
 *
 * Instances are made when the plan is loaded.  When the devices are open each
 * is connected with all others; if any two of them are without access to each
 * other's memory, there is memory of the host for the operands and results of
 * all instances.
 */
#include <assert.h>
#include "runtime/coll/algorithm/algorithm.h"
#include "runtime/coll/peers/peers.h"

enum { ALIGN = 256 };

/* ---- instances ----------------------------------------------------------- */

/* Each algorithm combines an operand's elements in at most one range, except in
 * packs: each of them begins another one, if it has elements. */
static int
count_launches(RtCollConfig config, int num, const RtReduceOperand *operands)
{
    int64_t ranges = 0;
    for (int i = 0; i < num; i++)
        ranges += (operands[i].most + COLL_SLICE_STEP - 1) / COLL_SLICE_STEP;
    return num + (int)(ranges < config.packs ? ranges : config.packs);
}

static void
make_work(RtLocalComm *comm, const PeersInstance *s, RtLocalWork *w)
{
    Arena *a = comm->arena;
    int devices = comm->coll.num_devices; /* as many phases as ring has */
    int phases = devices > PEERS_STAGED ? devices : PEERS_STAGED;
    size_t num_ptrs = (size_t)comm->coll.num_replicas + 1;
    PeersWork *own = rt_alloc_on_lines(a, sizeof *own);
    own->ends = NEW_ARRAY(a, RtEvent, (size_t)phases);
    own->launches = NEW_ARRAY(a, PeersLaunch, (size_t)s->num_launches);
    for (int i = 0; i < s->num_launches; i++)
        own->launches[i].ptrs = NEW_ARRAY(a, void *, num_ptrs);
    w->own = own;
}

static PeersInstance *
instance_new(RtLocalComm *comm, RtCollConfig config, int num,
             const RtReduceOperand *operands)
{
    RtLocalNew make = {.config = config,
                       .num = num,
                       .operands = operands,
                       .bytes = sizeof(PeersInstance)};
    PeersInstance *s = (PeersInstance *)rt_local_new(comm, &make);
    s->num_launches = operands ? count_launches(config, num, operands) : 0;
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

/* One replica's operand is its own result, and that of replica 0 is copied. */
static bool
needs_kernel(const RtColl *c, RtReduceOp how, const RtReduceOperand *operand)
{
    return operand->kernel < 0 && how != REDUCE_FIRST && c->num_replicas > 1;
}

Status
rt_peers_all_reduce_new(RtColl *c, RtReduceOp how, RtCollConfig config, int num,
                        const RtReduceOperand *operands, RtCollInstance **out)
{
    RtLocalComm *comm = (RtLocalComm *)c;
    assert(config.algorithm != COLL_REPLICATED);
    TRY(rt_reduce_check(config.algorithm, c->num_replicas));
    for (int i = 0; i < num; i++)
        if (needs_kernel(c, how, &operands[i]))
            return status_new(STATUS_INPUT,
                              "the plan has no kernel that combines values of "
                              "%s of %d replicas, which devices that execute "
                              "no code of the host need",
                              dtype_info[operands[i].dtype].name,
                              c->num_replicas);
    PeersInstance *s = instance_new(comm, config, num, operands);
    for (int i = 0; i < num; i++)
        s->stride[i] = align(operands[i].most *
                             (int64_t)dtype_info[operands[i].dtype].bytes);
    *out = &s->base;
    return OK;
}

Status
rt_peers_all_gather_new(RtColl *c, RtCollAlgorithm algorithm, int64_t most,
                        RtCollInstance **out)
{
    RtCollConfig config = {.algorithm = algorithm};
    PeersInstance *s = instance_new((RtLocalComm *)c, config, 1, NULL);
    s->stride[0] = align(most) + (size_t)c->num_replicas * ALIGN;
    *out = &s->base;
    return OK;
}

/* ---- connections --------------------------------------------------------- */

static Status
connect_all(const RtCommConfig *config, bool *reach)
{
    *reach = true;
    for (int i = 0; i < config->num_devices; i++)
        for (int k = 0; k < config->num_devices; k++) {
            RtDevice *d = config->devices[i];
            bool reaches;
            TRY(d->ops->connect(d, config->devices[k], &reaches));
            *reach &= reaches || i == k;
        }
    return OK;
}

/* Gives all instances their places in memory of the host.  Its size. */
static size_t
place_all(const PeersComm *comm)
{
    size_t at = 0, all = (size_t)comm->local.coll.num_replicas + 1;
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
    bool reach;
    TRY(connect_all(&comm->local.config, &reach));
    if (reach)
        return OK;
    return first->ops->alloc_host(first, place_all(comm) + ALIGN, &comm->hosts);
}

RtDevicePtr
rt_peers_staged(const RtLocalWork *w, int i, int replica)
{
    const PeersInstance *s = (const PeersInstance *)w->instance;
    const PeersComm *comm = (const PeersComm *)s->base.comm;
    return (RtDevicePtr){comm->hosts,
                         s->staged_at[i] + s->stride[i] * (size_t)replica};
}

RtDevicePtr
rt_peers_staged_blocks(const RtLocalWork *w, int replica)
{
    size_t before = 0;
    for (int k = 0; k < replica; k++) {
        const RtAllGatherPart *p = &w->instance->parts[k].gather;
        before += align(p->outer * p->own_bytes);
    }
    return rt_ptr_add(rt_peers_staged(w, 0, 0), before);
}
