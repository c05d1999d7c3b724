/*
 * speed.h - how fast two processes are that map each other's memory
 *
 * Each process has a segment, with a word for each other one and a block of
 * bytes.  Two processes that measure raise each other's words in turn, and copy
 * each other's block; several pairs may do so at the same time.
 */
#ifndef TFD_RUNTIME_CLUSTER_SEGMENTS_SPEED_H
#define TFD_RUNTIME_CLUSTER_SEGMENTS_SPEED_H

#include "runtime/cluster/segments/segments.h"

typedef struct RtMemorySpeed {
    double latency; /* seconds until one sees what the other has stored; 0 in
                       the higher rank: the lower one measures it */
    double rate;    /* bytes/s that this process copies from the other one */
} RtMemorySpeed;

typedef struct RtMemoryTest RtMemoryTest;

/* A call of all processes.  *out is NULL where some cannot map the memory of
 * others, and why is the reason. */
Status rt_memory_test_open(const RtExchange *x, bool spin, RtMemoryTest **out,
                           Str *why) MUST_USE;
/* Both processes of a pair, each with the other's rank.  *stopped: ends the
 * wait when it is not 0, as a failure does after `timeout` seconds in which
 * the peer has not come. */
Status rt_memory_test_pair(RtMemoryTest *t, int peer, double timeout,
                           const _Atomic int32_t *stopped,
                           RtMemorySpeed *out) MUST_USE;
void rt_memory_test_close(RtMemoryTest *t);

#endif
