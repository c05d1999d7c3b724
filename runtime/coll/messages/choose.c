/*
 * choose.c - the algorithm that takes the least time
 *
 * A model of the numbers that were measured between neighbours and are the same
 * in all processes: the latency of a message and the rate of bytes, on a
 * machine and between machines. Messages of a round that go to several
 * processes follow each other at once, and count a quarter of a latency each.
 */
#include "runtime/coll/messages/messages_impl.h"

static int
rounds_of(int size)
{
    int n = 0;
    while (1 << n < size)
        n++;
    return n;
}

/* Messages one after the other, of so many bytes in all. */
static double
rounds_at(RtLinkSpeed speed, double rounds, double bytes)
{
    return rounds * speed.latency + bytes / speed.rate;
}

/* A round of messages to all others of num. */
static double
scatter_at(RtLinkSpeed speed, double num, double bytes)
{
    return num > 1 ? rounds_at(speed, 1 + (num - 2) / 4, bytes) : 0;
}

/* Of `bytes` that all combine, what a process sends of its share. */
static double
share(double bytes, double num)
{
    return bytes * (num - 1) / num;
}

static double
seconds(const MsgInstance *s, RtMessagesAlgorithm algorithm, double bytes)
{
    const MsgComm *comm = s->comm;
    const RtLinkTopology *t = &comm->topology;
    double size = comm->size, each = t->per_machine, machines = size / each;
    double nodes = s->nodes->num, most = s->nodes->most;
    double near = rounds_of(t->per_machine);
    double far = rounds_of(comm->size) - near;
    double away = size > 1 ? (size - each) / (size - 1) : 0; /* of messages */
    switch (algorithm) {
    case MESSAGES_GATHER:
        return rounds_at(t->far, near + far, (nodes - nodes / size) * bytes);
    case MESSAGES_EXCHANGE:
        return 2 * scatter_at(t->far, size, 0) +
               (most + 1) * share(bytes, size) *
                   (away / t->far.rate + (1 - away) / t->near.rate);
    case MESSAGES_HALVING:
        return rounds_at(t->near, 2 * near, 2 * share(bytes, each)) +
               rounds_at(t->far, 2 * far, 2 * share(bytes / each, machines));
    case MESSAGES_DOUBLING:
        return rounds_at(t->near, near, near * bytes) +
               rounds_at(t->far, far, far * bytes);
    case MESSAGES_HIERARCHY:
        return 2 * scatter_at(t->near, each, share(bytes, each)) +
               2 * scatter_at(t->far, machines, share(bytes / each, machines));
    case NUM_MESSAGES_ALGORITHMS:
        break;
    }
    UNREACHABLE("an algorithm of number %d", algorithm);
}

static bool
can_go(const MsgInstance *s, RtMessagesAlgorithm algorithm, size_t bytes)
{
    const MsgAlgorithm *a = &rt_msg_algorithms[algorithm];
    if (algorithm == MESSAGES_GATHER && bytes > MSG_GATHER_BYTES)
        return false;
    return !a->can || a->can(s);
}

const MsgAlgorithm *
rt_msg_choose(const MsgInstance *s, size_t bytes)
{
    int forced = s->comm->forced, best = MESSAGES_EXCHANGE;
    if (forced >= 0) /* at any size */
        return &rt_msg_algorithms[can_go(s, (RtMessagesAlgorithm)forced, 0)
                                      ? forced
                                      : MESSAGES_EXCHANGE];
    for (int algorithm = 0; algorithm < NUM_MESSAGES_ALGORITHMS; algorithm++)
        if (can_go(s, (RtMessagesAlgorithm)algorithm, bytes) &&
            seconds(s, (RtMessagesAlgorithm)algorithm, (double)bytes) <
                seconds(s, (RtMessagesAlgorithm)best, (double)bytes))
            best = algorithm;
    return &rt_msg_algorithms[best];
}
