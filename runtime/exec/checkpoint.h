/*
 * checkpoint.h - checkpoints that a run makes, and the one it resumes from
 */
#ifndef TFD_RUNTIME_EXEC_CHECKPOINT_H
#define TFD_RUNTIME_EXEC_CHECKPOINT_H

#include "ir/analysis/live.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/data.h"
#include "runtime/exec/executor.h"

/* What the processes of a job have of a checkpoint. */
typedef struct RtParts {
    RtArchive own;          /* this process's */
    RtArchive bytes;        /* of all; the chief has */
    RtArchive *readers;     /* of each, by rank */
    RtWorkerState *workers; /* of an iterator: those not open in the chief */
} RtParts;

/* What a coordinator's checkpoint has beside main's: other tasks have parts of
 * its state. */
typedef struct RtCoordinatorState {
    /* Before one is written: main has what the other tasks have. */
    Status (*collect)(RtInvocation *main, const IrSafepoint *p);
    void (*archive)(RtRun *run, RtArchive *ar);
    /* After one was read: they have what main has. */
    Status (*distribute)(RtRun *run);
} RtCoordinatorState;

typedef struct RtResume {
    bool is_on;                            /* checkpoints are made */
    const RtCoordinatorState *coordinator; /* NULL: the run is none */
    RtCheckpoints *folder; /* the chief's; NULL: it is not open */
    RtArchive written;     /* of the last one */
    RtParts parts;         /* in a job */
    int64_t step;          /* after which it was made */
    int64_t bytes;         /* about what it takes */
    IrSafepoint *safepoints;
    int num_safepoints;
    Arena *arena; /* of `read`, until main is entered */
    RtArchive read;
    bool is_resuming; /* main is to be entered with what was read */
    const char *events_name;
    int64_t events_bytes;
} RtResume;

/* Lists what each safepoint of main keeps, and how much that is. */
void rt_list_safepoints(RtRun *run, IrFunc *main);
/* Then: opens the folder, and reads seed and params of a
 * resumed run.  The rest is read once everything is open, before main is
 * called. */
Status rt_open_checkpoints(RtRun *run) MUST_USE;
Status rt_resume(RtRun *run, RtInvocation *main) MUST_USE;
/* The variables become what they were at a checkpoint of another run. */
Status rt_restore_variables(RtRun *run, const RtCheckpoint *c) MUST_USE;
/* The file of summaries, new or the one that was begun. */
Status rt_open_events(RtRun *run) MUST_USE;
/* Main is at this safepoint: makes a checkpoint when it is time. */
Status rt_checkpoint(RtInvocation *main, int32_t safepoint) MUST_USE;
/* Waits for the last one; returns whether it was written. */
Status rt_end_checkpoints(RtRun *run) MUST_USE;
void rt_close_checkpoints(RtRun *run);

#endif
