/*
 * messages.h - collectives between processes that a link joins
 */
#ifndef TFD_RUNTIME_COLL_MESSAGES_MESSAGES_H
#define TFD_RUNTIME_COLL_MESSAGES_MESSAGES_H

#include "runtime/coll/coll.h"

/* The algorithms of an all_reduce, for P processes and D bytes of one. */
typedef enum RtMessagesAlgorithm {
    MESSAGES_GATHER,    /* everybody's nodes to all, in log P messages of up to
                           P D / 2 */
    MESSAGES_EXCHANGE,  /* a slice to each, which combines it and sends the
                           result to all: 2 (P - 1) messages of D / P */
    MESSAGES_HALVING,   /* 2 log P messages of D / 2, D / 4, ...; needs 2^k
                           processes of 2^m replicas, as does the next */
    MESSAGES_DOUBLING,  /* log P messages of D */
    MESSAGES_HIERARCHY, /* an exchange within each machine, of L processes, and
                           of what they have then among the M machines:
                           2 (L - 1) + 2 (M - 1) messages; needs machines of
                           2^k processes and 2^m replicas */
    NUM_MESSAGES_ALGORITHMS
} RtMessagesAlgorithm;

/* All calls from now on use it, if they can: for tests and measurements.
 * All processes, before the first start. */
void rt_messages_force(RtColl *c, RtMessagesAlgorithm algorithm);

#endif
