/*
 * start.h - how this process finds its job
 */
#ifndef TFD_RUNTIME_CLUSTER_LAUNCH_START_H
#define TFD_RUNTIME_CLUSTER_LAUNCH_START_H

#include "runtime/cluster/control/job.h"
#include "runtime/cluster/resolve/resolve.h"
#include "runtime/cluster/resolve/roles.h"

typedef struct RtStartConfig {
    RtResolveOptions resolve;
    const char *key_file; /* --key; NULL: the launcher's, or none */
    const char *mpi;      /* --mpi, the library's path; NULL: the launcher's */
    const char *diagnose; /* --diagnose */
    double silence;       /* --silence; 0: as usual */
    int64_t staleness;    /* --staleness; negative: none */
    bool by_bytes;        /* --placement bytes */
    bool atomic;          /* --atomic, --sync, --staleness 0 */
    int64_t sync_need, sync_of; /* --sync; 0: none */
    atomic_bool *dump;          /* as RtJobOptions */
} RtStartConfig;

/* *out is NULL where this process is alone, else in a; *spec, whose contents
 * are in a, is what was found of the job, also where that is one process. */
Status rt_find_job(Arena *a, const RtStartConfig *config, RtClusterSpec *spec,
                   const RtJobOptions **out) MUST_USE;

/* The same of a parameter-server job: *out is NULL where this process is
 * coordinator, server and worker at once. */
Status rt_find_task(Arena *a, const RtStartConfig *config, RtClusterSpec *spec,
                    const RtTaskOptions **out) MUST_USE;
/* The job's RT_JOB_KEY bytes: those of --key, else the launcher's; NULL: there
 * are none. */
Status rt_read_key(Arena *a, const char *path, const uint8_t **out) MUST_USE;
/* Prints which task it is, and why. */
Status rt_print_task(Arena *a, const RtStartConfig *config, FILE *to) MUST_USE;

#endif
