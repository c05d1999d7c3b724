/*
 * stats.h - --stats: time, memory and bytes that a run took
 */
#ifndef TFD_RUNTIME_RUN_STATS_H
#define TFD_RUNTIME_RUN_STATS_H

#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* Begins to count, before the run takes any memory. */
void rt_begin_stats(RtRun *run);
/* Of all processes, by the chief to options->err. */
Status rt_print_stats(RtRun *run) MUST_USE;

#endif
