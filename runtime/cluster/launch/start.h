/*
 * start.h - how this process finds its job
 */
#ifndef TFD_RUNTIME_CLUSTER_LAUNCH_START_H
#define TFD_RUNTIME_CLUSTER_LAUNCH_START_H

#include "runtime/cluster/control/job.h"
#include "runtime/cluster/resolve/resolve.h"

typedef struct RtStartConfig {
    RtResolveOptions resolve;
    const char *key_file; /* --key; NULL: the launcher's, or none */
    const char *mpi;      /* --mpi, the library's path; NULL: the launcher's */
    const char *diagnose; /* --diagnose */
    double silence;       /* --silence; 0: as usual */
    atomic_bool *dump;    /* as RtJobOptions */
} RtStartConfig;

/* *out is NULL where this process is alone, else in a. */
Status rt_find_job(Arena *a, const RtStartConfig *config,
                   const RtJobOptions **out) MUST_USE;

#endif
