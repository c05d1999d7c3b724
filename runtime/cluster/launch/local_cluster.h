/*
 * local_cluster.h - tfd-run --local-cluster workers=3,ps=2
 *
 * Servers and workers of this machine without a coordinator.  They wait for
 * one, which is started by hand as often as wanted; each job gets new processes
 * in the places of those that have ended.
 */
#ifndef TFD_RUNTIME_CLUSTER_LAUNCH_LOCAL_CLUSTER_H
#define TFD_RUNTIME_CLUSTER_LAUNCH_LOCAL_CLUSTER_H

#include "ir/base/arena.h"
#include "ir/base/status.h"
#include "runtime/cluster/resolve/task_counts.h"

typedef struct RtLocalCluster {
    RtTaskCounts counts;
    int argc;
    char **argv;          /* of this process, which its children get, too */
    const char *plan;     /* as messages name it */
    const char *join;     /* where a coordinator will listen; NULL: any port */
    const char *key_file; /* NULL: one is made, and goes with it */
    bool has_timeout;     /* argv says how long they wait for a coordinator;
                             else they wait for ever */
} RtLocalCluster;

/* Prints how a coordinator joins, and returns when a signal ends it. */
Status rt_run_local_cluster(Arena *a, const RtLocalCluster *config) MUST_USE;

#endif
