/*
 * exec.h - a plan to its results
 *
 * A run opens devices, loads the plan's code, and calls the program's main on
 * the thread it is called on.  Everything that compiled code asks for at run
 * time is made ready before: on the path of a step there is no lookup, no lock
 * and no allocation.
 */
#ifndef TFD_RUNTIME_EXEC_EXEC_H
#define TFD_RUNTIME_EXEC_EXEC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "ir/base/status.h"
#include "ir/plan/plan.h"
#include "runtime/hal/cpu/wait.h"

typedef struct RtSet {
    const char *name, *value; /* --set NAME=VALUE */
} RtSet;

typedef struct RtOptions {
    const RtSet *sets;
    int num_sets;
    const char *data_dir; /* NULL: where the plan is */
    const char *log_dir;  /* of event files; NULL: summaries are not kept */
    const char *devices;  /* NULL: as the plan says */
    const char *checkpoint_dir; /* NULL: none are made */
    int64_t every;              /* steps from one to the next */
    bool resume;                /* from the newest, if there is any */
    bool quiet;                 /* where it resumes is not told to err */
    bool seed_given;            /* a resumed run has its own if not */
    uint64_t seed;
    int num_threads; /* of all devices; 0: as many as there are cores */
    /* Seconds that a collective may wait, and that nothing may go on for; 0:
     * the usual time for collectives, and no limit for the rest. */
    double timeout;
    bool pipeline_threads; /* datasets are made ahead */
    bool stats;            /* are printed to err at the end */
    bool progress;         /* is shown on err */
    bool checksum;         /* of all variables is printed to out at the end */
    bool load_only;        /* all is made ready, but main is not called */
    FILE *out;             /* what the program prints */
    FILE *err;
    /* Seconds, from which all waits are measured; NULL: rt_seconds. */
    RtClock *clock;
    const atomic_bool *interrupted; /* set: stop soon; NULL: never */
    /* Ends the process with this status, whose message it prints: a thread of
     * the run does not come back.  NULL: it is waited for. */
    void (*abandon)(const Plan *plan, Status st);
    /* Called after each iteration of a dataset loop of main, with the number
     * of those so far; may be NULL. */
    void (*on_step)(void *data, int64_t step);
    void *on_step_data;
} RtOptions;

/* Runs main of the plan to its end, from its beginning or from a checkpoint.
 * What goes wrong inside the program (an assert, a dataset, a collective that
 * waits too long) is an error with its place in plan->diag, too. */
Status rt_run(const Plan *plan, const RtOptions *options) MUST_USE;

/* Prints what ended a run, and gives the program's exit status. */
int rt_report(const Plan *plan, Status st, const char *program, FILE *to);

#endif
