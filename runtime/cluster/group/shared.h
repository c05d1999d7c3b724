/*
 * shared.h - a group of processes that map one segment
 */
#ifndef TFD_RUNTIME_CLUSTER_GROUP_SHARED_H
#define TFD_RUNTIME_CLUSTER_GROUP_SHARED_H

#include "ir/base/str.h"
#include "runtime/cluster/group/group.h"
#include "runtime/cluster/segments/exchange.h"
#include "runtime/hal/wait.h"

typedef struct RtSharedGroupConfig {
    const RtExchange *exchange; /* lasts until the group is open */
    bool spin;                  /* whether waiting mains do at first */
    double timeout;             /* of a call that waits, in seconds of clock */
    RtClock *clock;
} RtSharedGroupConfig;

/* A call of all processes.  *out is NULL where they do not share memory, and
 * why is the reason, equal in all of them. */
Status rt_shared_group_open(const RtSharedGroupConfig *config, RtGroup **out,
                            Str *why) MUST_USE;

#endif
