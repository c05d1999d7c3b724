/*
 * choose.c - the algorithm that takes the least time
 *
 * The rule is ir/analysis/collectives.h's, for what was measured between
 * neighbours and is the same in all processes.
 */
#include "runtime/coll/messages/messages_impl.h"

static bool
is_rounded(const MsgInstance *s)
{
    for (int i = 0; i < s->num; i++)
        if (s->kernels[i].value != dtype_compute(s->kernels[i].stored))
            return true;
    return false;
}

static IrCollProcesses
processes_of(const MsgInstance *s)
{
    const MsgComm *comm = s->comm;
    const RtLinkTopology *t = &comm->topology;
    return (IrCollProcesses){.size = comm->size,
                             .per_machine = t->per_machine,
                             .near = t->near,
                             .far = t->far,
                             .num_replicas = comm->coll.num_replicas,
                             .nodes = s->nodes->num,
                             .most_nodes = s->nodes->most,
                             .is_rounded = is_rounded(s)};
}

static const MsgAlgorithm *
find(IrCollAlgorithm by)
{
    for (int i = 0; i < NUM_MESSAGES_ALGORITHMS; i++)
        if (rt_msg_algorithms[i].by == by)
            return &rt_msg_algorithms[i];
    UNREACHABLE("processes cannot combine by %s", ir_coll_names[by]);
}

IrCollAlgorithm
rt_msg_gather_algorithm(size_t bytes)
{
    return bytes <= IR_COLL_BLOCKS_BYTES ? IR_COLL_GATHER : IR_COLL_EXCHANGE;
}

const MsgAlgorithm *
rt_msg_choose(const MsgInstance *s, size_t bytes)
{
    IrCollProcesses p = processes_of(s);
    int forced = s->comm->forced;
    if (forced < 0)
        return find(ir_coll_choose(&p, (double)bytes));
    const MsgAlgorithm *asked = &rt_msg_algorithms[forced]; /* at any size */
    return ir_coll_can(asked->by, &p) ? asked
                                      : &rt_msg_algorithms[MESSAGES_EXCHANGE];
}
