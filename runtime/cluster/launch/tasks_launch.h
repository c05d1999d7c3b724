/*
 * tasks_launch.h - tfd-run -n workers=3,ps=2: the parent of a job's tasks
 *
 * It starts itself for the coordinator, then for each server and worker, which
 * join the coordinator; starts workers that die again; passes signals on; and
 * ends when the coordinator has ended.  A job that fails otherwise is started
 * again from its newest checkpoint, as often as --restarts allows.  No process
 * is left behind: each dies with the parent, and all within two seconds of the
 * coordinator.
 */
#ifndef TFD_RUNTIME_CLUSTER_LAUNCH_TASKS_LAUNCH_H
#define TFD_RUNTIME_CLUSTER_LAUNCH_TASKS_LAUNCH_H

#include <stdbool.h>
#include "ir/base/status.h"
#include "runtime/cluster/resolve/task_counts.h"

typedef struct RtTasksLaunchConfig {
    RtTaskCounts counts;
    int argc;
    char **argv;        /* of this process, which its children get, too */
    char **resume_argv; /* what they get when the job is started again: one
                           word more, unless it is argv */
    int restarts;       /* at most */
    double timeout;     /* seconds until the coordinator listens; 0: 300 */
    bool quiet;         /* that a worker is started again is not said */
} RtTasksLaunchConfig;

/* Runs a job and returns its exit status, the coordinator's unless that had to
 * be ended; the reason has been printed.  A failure (nothing was started, or
 * not all) is the caller's to print. */
Status rt_launch_tasks(const RtTasksLaunchConfig *config,
                       int *exit_status) MUST_USE;

#endif
