/*
 * counters.h - counters of a run
 */
#ifndef TFD_RUNTIME_EXEC_COUNTERS_H
#define TFD_RUNTIME_EXEC_COUNTERS_H

#include <stdint.h>
#include "runtime/link/carrier.h"

/* What a replica has taken of a collective. */
typedef struct RtCollUse {
    int64_t bytes;  /* of its operands */
    double seconds; /* in start and, of a device's first, in done */
} RtCollUse;

typedef struct RtStats {
    double begin, ready;  /* clock_seconds() */
    double data, devices; /* seconds that main spent with them */
    double saving;        /* and with checkpoints, those before its end: */
    double saving_most;   /* with one */
    double saving_end;    /* and when it had ended, until the last was there */
    int64_t saved, saved_bytes; /* how many, after its first step */
    int64_t steps, launches;
    int64_t *program_runs;      /* of each of the plan, on all devices */
    int64_t resumed;            /* steps before this process */
    int64_t file_bytes;         /* that datasets have read */
    _Atomic int64_t kept_bytes; /* and store, uncounted by the plan */
    int64_t memory;             /* of the process before the run */
    RtLinkCount sent_before;    /* over the link, before main began */
} RtStats;

#endif
