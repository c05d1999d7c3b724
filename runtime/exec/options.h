/*
 * options.h - options of a run
 */
#ifndef TFD_RUNTIME_EXEC_OPTIONS_H
#define TFD_RUNTIME_EXEC_OPTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "ir/base/status.h"
#include "ir/plan/plan.h"
#include "runtime/cluster/group/group.h"
#include "runtime/cluster/resolve/roles.h"
#include "runtime/link/carrier.h"
#include "runtime/cluster/segments/exchange.h"
#include "runtime/hal/wait.h"

typedef struct RtSet {
    const char *name, *value; /* --set NAME=VALUE */
} RtSet;

/* How a job has ended, for each of its processes. */
typedef struct RtJobEnd {
    bool is_silent; /* another process prints why */
    int exit_status;
    bool is_set; /* the run was in a job */
} RtJobEnd;

typedef struct RtOptions {
    const RtSet *sets;
    int num_sets;
    const char *data_dir; /* NULL: where the plan is */
    const char *metrics;  /* where a coordinator serves them; NULL: nowhere */
    const char *log_dir;  /* of event files; NULL: summaries are not kept */
    const char *devices;  /* NULL: as the plan says */
    const char *checkpoint_dir; /* NULL: none are made */
    int64_t every;              /* steps from one to the next */
    bool resume;                /* from the newest, if there is one */
    bool quiet;                 /* the resumed step is not reported to err */
    bool seed_given;            /* a resumed run has its own if not */
    uint64_t seed;
    int num_threads; /* of all devices; 0: as many as there are cores */
    /* Seconds that a collective may wait, and without progress; 0: the usual
     * time for collectives, and no limit for the rest. */
    double timeout;
    bool pipeline_threads; /* datasets are made ahead */
    bool stats;            /* are printed to err at the end */
    bool progress;         /* is shown on err */
    bool profile;          /* times by line and the like, on err at the end */
    const char *profile_json;  /* the same to this file, or NULL */
    const char *profile_trace; /* and what happened when; a file or NULL */
    bool compare;              /* each launch of a kernel with the CPU's */
    int64_t compare_steps;     /* in so many steps; 0: in all */
    bool check_nan; /* stops at what makes a number that is not finite */
    bool checksum;  /* of all variables is printed to out at the end */
    bool load_only; /* all is made ready, but main is not called */
    bool preflight; /* with load_only: then the processes measure each other */
    FILE *out;      /* what the program prints */
    FILE *err;
    /* The run is a process of this job; NULL: it is alone.  Then end, which
     * must be given, is how the job ended. */
    const RtJobOptions *job;
    RtJobEnd *end;
    /* The run is a task of a parameter-server job; NULL: it is alone. */
    const RtTaskOptions *task;
    /* For tests, instead of a job: the run is one of the group's processes,
     * each of which has its share of the replicas; NULL: it is alone.  Used by
     * one run, which does not close it. */
    RtGroup *group;
    const RtExchange *exchange; /* of the same processes, for set-up */
    RtCarrier *carrier; /* that joins them, and is not closed; NULL: memory */
    /* What joins the processes of a job: zmq, mpi or ucx; NULL: memory that
     * they share, if they do. */
    const char *link;
    const char *mpi;    /* path of the library; NULL: that of the launcher */
    bool is_wire_plain; /* data over zmq is not encrypted */
    /* Seconds on a clock, for all waits; NULL: clock_seconds. */
    RtClock *clock;
    const atomic_bool *interrupted; /* set: stop soon; NULL: never */
    /* Ends the process with this status, whose message it prints: a thread of
     * the run does not come back.  NULL: it is waited for. */
    void (*abandon)(const Plan *plan, Status st);
    /* Called at each safepoint of main, with the number of those so far; may
     * be NULL. */
    void (*on_step)(void *data, int64_t step);
    void *on_step_data;
} RtOptions;

#endif
