/*
 * recorder.h - times that compiled code spends at its positions
 *
 * Compiled code calls the hook mark at each position (docs/abi.md); a recorder
 * gives the time since its last mark to the position that this one ends.  There
 * is one for main and one for each device, whose replicas take turns, so
 * nothing is shared; a mark reads the processor's time stamp and adds to two
 * words.  Marks of both begin and end are one, so no time is lost between
 * positions: those of main add up to its time.
 *
 * Programs that enqueue their work have no marks.  Their launches and
 * collectives come by hooks, where the device is asked to take the time, in
 * nanoseconds (RtProgramOps.begin_time).
 */
#ifndef TFD_RUNTIME_PROFILE_RECORDER_H
#define TFD_RUNTIME_PROFILE_RECORDER_H

#include <stdint.h>
#include "ir/base/status.h"
#include "ir/plan/abi.h"

typedef struct RtRun RtRun;

/* What was spent at one position. */
typedef struct RtTimes {
    uint64_t ticks, calls;
} RtTimes;

/* An entry of a trace: the time at which a position was reached. */
typedef struct RtMark {
    uint64_t at;
    int32_t slot; /* -1: the function ended */
} RtMark;

typedef struct RtRecorder {
    uint64_t last;    /* the time of the last mark */
    RtTimes *current; /* that of its position */
    RtTimes idle;     /* between functions */
    RtTimes *slots;   /* one for each position of each function */
    RtTimes *first;   /* what they were after the first step */
    RtMark *marks;    /* of a trace, or NULL */
    int64_t num_marks, max_marks;
} RtRecorder;

typedef struct RtProfile {
    TfdHooks hooks;      /* the run's, and those that take the time */
    const TfdHooks *run; /* the run's */
    int num_slots;
    RtRecorder main, *devices;           /* of this process */
    int64_t steps;                       /* that have ended */
    uint64_t begin, first_end, last_end; /* ticks: main's begin, and the ends of
                                            the first and the last step */
    double begin_seconds;                /* at begin, on clock_seconds() */
    double seconds_a_tick;               /* once it has ended */
    double device_tick;                  /* the same of a device's */
} RtProfile;

/* Makes the recorders, when all functions are loaded and no executor is made.
 * Refuses devices that take no times. */
Status rt_profile_open(RtRun *run) MUST_USE;
/* Main begins, has come to the end of a step, and has returned. */
void rt_profile_begin(RtRun *run);
void rt_profile_step(RtRun *run);
void rt_profile_end(RtRun *run);

#endif
