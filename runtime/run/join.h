/*
 * join.h - a run joins the job of which it is a process
 */
#ifndef TFD_RUNTIME_RUN_JOIN_H
#define TFD_RUNTIME_RUN_JOIN_H

#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* How many of its plan's devices a process takes, which has so many replicas.
 */
static inline int
rt_num_planned(int num_devices, int num_local)
{
    int num = num_local < num_devices ? num_local : num_devices;
    while (num_local % num)
        num--;
    return num;
}

/* Joins options->job, if there is one, and opens the group with its processes:
 * once the plan is read, before anything else is opened. */
Status rt_join_job(RtRun *run) MUST_USE;
/* Once the communicator is open: from now on the end of the job stops the run.
 */
Status rt_follow_job(RtRun *run) MUST_USE;
/* The run is ready: the job learns where main is. */
void rt_locate_for_job(RtRun *run);
/* Last, when communicator and group are closed: st is how the run ended. */
void rt_close_link(RtRun *run, Status st);

#endif
