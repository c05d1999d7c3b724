/*
 * watchdog.h - the thread that sees to it that a run ends
 */
#ifndef TFD_RUNTIME_EXEC_WATCHDOG_H
#define TFD_RUNTIME_EXEC_WATCHDOG_H

#include <pthread.h>
#include "runtime/exec/executor.h"
#include "runtime/hal/cpu/wait.h"

/* How far an executor was when the watchdog looked. */
typedef struct RtProgressSample {
    uint64_t num_ops;
    int32_t at;
} RtProgressSample;

typedef enum RtRunPhase {
    PHASE_RUNNING,   /* main is called, or about to be */
    PHASE_RETURNED,  /* and it has come back */
    PHASE_CLOSING,   /* threads are asked to end */
    PHASE_ABANDONED, /* the watchdog ends the process */
    PHASE_ENDED
} RtRunPhase;

/* Times are of rt_seconds(), 0 if there was none yet. */
typedef struct RtWatchdog {
    pthread_t thread;
    bool has_thread;
    RtWaitWord bell;      /* changes when the thread is to end */
    _Atomic int32_t stop; /* the word that loops look at: EXEC_STOPPED or 0 */
    atomic_int phase;     /* of RtRunPhase */
    atomic_int held;      /* how many wait for a disk: no time counts */
    _Atomic(RtExecutor *) failed; /* who did first; its fault is complete */
    _Atomic int64_t steps;        /* done by main */
    Status result;                /* PHASE_CLOSING: what the run ends with */
    Arena *arena;
    RtProgressSample *seen; /* of main and each replica */
    double moved;           /* the last time that another sample was seen */
    int64_t seen_steps;
    double stepped, longest; /* when the last step ended; the longest one */
    double interrupted, faulted, stopped, closed; /* when that was seen */
    RtFault fault;      /* the run made no progress for too long */
    bool wants_data;    /* an interrupted run that did not come to an end */
    RtNotes unfinished; /* was waiting for data, or was there */
} RtWatchdog;

/* Begins to watch, before main is called. */
Status rt_watchdog_start(RtRun *run) MUST_USE;
/* Main has come back; the run ends with st; all threads have ended.  Who comes
 * too late, when the process is being ended, does not return. */
void rt_watchdog_main_returned(RtRun *run);
void rt_watchdog_closing(RtRun *run, Status st);
void rt_watchdog_join(RtRun *run);
/* Between these two nobody counts the seconds. */
void rt_watchdog_suspend(RtRun *run);
void rt_watchdog_resume(RtRun *run);

/* All who run, and all who wait, are to come back with EXEC_STOPPED. */
void rt_stop(RtRun *run);
bool rt_is_stopped(const RtRun *run);
/* The user has interrupted the run. */
bool rt_is_interrupted(const RtRun *run);

#endif
