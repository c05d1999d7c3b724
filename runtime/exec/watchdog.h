/*
 * watchdog.h - the thread that ends runs without progress
 */
#ifndef TFD_RUNTIME_EXEC_WATCHDOG_H
#define TFD_RUNTIME_EXEC_WATCHDOG_H

#include <pthread.h>
#include "runtime/exec/executor.h"
#include "runtime/hal/wait.h"

/* The progress of an executor at the last sample. */
typedef struct RtProgressSample {
    uint64_t num_ops;
    int32_t at;
} RtProgressSample;

typedef enum RtRunPhase {
    PHASE_RUNNING,   /* main is called, or about to be */
    PHASE_RETURNED,  /* and it has returned */
    PHASE_CLOSING,   /* threads are asked to end */
    PHASE_ABANDONED, /* the watchdog ends the process */
    PHASE_ENDED
} RtRunPhase;

/* Times are of `watched`, so that those in which the process was stopped are
 * not idle; 0 if there was none yet. */
typedef struct RtWatchdog {
    pthread_t thread;
    bool has_thread;
    RtWaitWord bell;      /* changes when the thread is to end */
    _Atomic int32_t stop; /* the word that loops check: EXEC_STOPPED or 0 */
    atomic_int phase;     /* of RtRunPhase */
    atomic_bool looks;    /* at what closing takes away */
    atomic_int held;      /* threads that wait for a disk: no timeout */
    atomic_int prints;    /* threads that wait for a reader: none, either */
    _Atomic(RtExecutor *) failed; /* the first one with a fault, complete */
    _Atomic int64_t steps;        /* done by main */
    Status result;                /* PHASE_CLOSING: the status of the run */
    RtWaited watched;             /* the time that the thread has looked */
    Arena *arena;
    RtProgressSample *seen; /* of main and each replica */
    double looked;          /* at the last look */
    double moved;           /* the last time that a sample differed */
    int64_t seen_steps;
    double stepped, longest; /* when the last step ended; the longest one */
    double interrupted, faulted, stopped, closed; /* when that was seen */
    RtFault fault;      /* the run made no progress for too long */
    bool wants_data;    /* an interrupted run that did not end */
    RtNotes unfinished; /* was waiting for data, or was there */
} RtWatchdog;

/* Begins to watch, before main is called. */
Status rt_watchdog_start(RtRun *run) MUST_USE;
/* Main has returned; the run ends with st, which may also have failed before
 * main; all threads have ended.  Does not return if the watchdog is already
 * ending the process. */
void rt_watchdog_main_returned(RtRun *run);
void rt_watchdog_closing(RtRun *run, Status st);
void rt_watchdog_join(RtRun *run);
/* Time between these two does not count for the timeout. */
void rt_watchdog_suspend(RtRun *run);
void rt_watchdog_resume(RtRun *run);

/* All executors and all waits must end with EXEC_STOPPED. */
void rt_stop(RtRun *run);
bool rt_is_stopped(const RtRun *run);

#endif
