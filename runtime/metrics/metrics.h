/*
 * metrics.h - --metrics: the numbers of a job, as a page for Prometheus
 */
#ifndef TFD_RUNTIME_METRICS_METRICS_H
#define TFD_RUNTIME_METRICS_METRICS_H

#include "runtime/exec/run_state.h"

/* Where a run is a coordinator and is to have one; what tasks do not. */
Status rt_metrics_open(RtRun *run) MUST_USE;
/* Before the coordinator is closed. */
void rt_metrics_close(RtRun *run);

#endif
