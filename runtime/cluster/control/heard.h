/*
 * heard.h - what the heartbeats of a process told, for --diagnose
 *
 * A process of another machine that was killed cannot write its last calls, and
 * nobody else has them.  What the control server has heard of it is less: where
 * it was ten times a second.
 */
#ifndef TFD_RUNTIME_CLUSTER_CONTROL_HEARD_H
#define TFD_RUNTIME_CLUSTER_CONTROL_HEARD_H

#include "runtime/cluster/control/position.h"

typedef struct RtHeard {
    int64_t num; /* that differed from the one before */
    struct {
        double at; /* on the server's clock */
        RtHeartbeat heartbeat;
    } last[RT_RING]; /* number i is at i % RT_RING */
} RtHeard;

void rt_heard_add(RtHeard *h, const RtHeartbeat *heartbeat, double now);
/* Writes them to FOLDER/rank-N-heartbeats.txt: the process may have written
 * its calls, to the same folder. */
Status rt_heard_dump(const RtHeard *h, const RtDump *dump, double now) MUST_USE;

#endif
