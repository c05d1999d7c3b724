/*
 * job_run.h - runs a plan in several processes of a test
 */
#ifndef TFD_TESTS_CLUSTER_JOB_RUN_H
#define TFD_TESTS_CLUSTER_JOB_RUN_H

#include "tests/unit/unit.h"

#include "tests/cluster/forked.h"
#include "tests/devices/build.h"

/* How the processes of a job ended: what rank r printed, and its failure. */
typedef struct JobEnd {
    const char *out[FORKED_MOST], *err[FORKED_MOST];
    int exit_status[FORKED_MOST];
    const char *message[FORKED_MOST]; /* "": none */
} JobEnd;

/* Runs p in size processes, each on `devices` (NULL: its share of the plan's).
 * What rank r does before its run is begun: prepare(data, r, its options),
 * which may be NULL. */
typedef struct JobRun {
    int size;
    const char *devices;
    RtOptions options;
    void (*prepare)(void *data, int rank, RtOptions *options);
    void *data;
} JobRun;

JobEnd run_job(Arena *a, const Plan *p, const JobRun *job);

/* What one process prints, with --checksum, and what so many do. */
const char *output_of(Arena *a, const Plan *p, const JobRun *job);
void assert_job_prints(Arena *a, const Plan *p, const JobRun *job,
                       const char *want);

#endif
