/*
 * choose.c - the algorithm that takes the least time
 *
 * A model of two numbers, which were measured between neighbours and are the
 * same in all processes: the latency of a message and the rate of bytes.
 * Messages of a round that go to several processes follow each other at once,
 * and count a quarter of a latency each.
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

static double
seconds(const MsgInstance *s, RtMessagesAlgorithm algorithm, double bytes)
{
    const MsgComm *comm = s->comm;
    double latency = comm->speed.latency, size = comm->size;
    double rate = comm->speed.rate, slices = bytes * (size - 1) / size;
    double nodes = s->nodes->num, most = s->nodes->most;
    double rounds = rounds_of(comm->size);
    switch (algorithm) {
    case MESSAGES_GATHER:
        return rounds * latency + (nodes - nodes / size) * bytes / rate;
    case MESSAGES_EXCHANGE:
        return 2 * (1 + (size - 2) / 4) * latency + (most + 1) * slices / rate;
    case MESSAGES_HALVING:
        return 2 * rounds * latency + 2 * slices / rate;
    case MESSAGES_DOUBLING:
        return rounds * (latency + bytes / rate);
    case NUM_MESSAGES_ALGORITHMS:
        break;
    }
    UNREACHABLE("an algorithm of number %d", algorithm);
}

static bool
can_go(const MsgInstance *s, RtMessagesAlgorithm algorithm, size_t bytes)
{
    const MsgAlgorithm *w = &rt_msg_algorithms[algorithm];
    if (algorithm == MESSAGES_GATHER && bytes > MSG_GATHER_BYTES)
        return false;
    return !w->can || w->can(s);
}

const MsgAlgorithm *
rt_msg_choose(const MsgInstance *s, size_t bytes)
{
    int forced = s->comm->forced, best = MESSAGES_EXCHANGE;
    if (forced >= 0)
        return &rt_msg_algorithms[rt_msg_algorithms[forced].can &&
                                          !rt_msg_algorithms[forced].can(s)
                                      ? MESSAGES_EXCHANGE
                                      : forced];
    for (int algorithm = 0; algorithm < NUM_MESSAGES_ALGORITHMS; algorithm++)
        if (can_go(s, (RtMessagesAlgorithm)algorithm, bytes) &&
            seconds(s, (RtMessagesAlgorithm)algorithm, (double)bytes) <
                seconds(s, (RtMessagesAlgorithm)best, (double)bytes))
            best = algorithm;
    return &rt_msg_algorithms[best];
}
