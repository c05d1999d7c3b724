/*
 * launch.h - tfd-run -n: the parent of a job's processes
 *
 * It starts itself once for each rank, is their control server, passes signals
 * on, and ends when all have ended.  No process is left behind: each dies with
 * the parent, those that were judged are killed at once, and all others ten
 * seconds after the job was stopped.
 */
#ifndef TFD_RUNTIME_CLUSTER_LAUNCH_LAUNCH_H
#define TFD_RUNTIME_CLUSTER_LAUNCH_LAUNCH_H

#include <stdbool.h>
#include "ir/base/status.h"
#include "runtime/cluster/launch/restart.h"

typedef struct RtLaunchConfig {
    RtRestartPolicy policy;
    double silence;         /* as RtJobOptions */
    const char *diagnose;   /* as RtJobOptions */
    const char *checkpoint; /* the folder, where the policy has restarts */
    bool has_messages;      /* as RtJobConfig */
    double timeout;         /* as RtJobConfig */
    char **argv;            /* of this process, which its children get, too */
    char **resume_argv;     /* what they get when the job is started again */
} RtLaunchConfig;

/* Runs a job, again where its policy says so, and returns the exit status of
 * the last attempt, whose reason has been printed.  A
 * failure (nothing was started, or not all) is the caller's to print. */
Status rt_launch(const RtLaunchConfig *config, int *exit_status) MUST_USE;

/* Whether this process was started by rt_launch. */
bool rt_is_launched(void);

#endif
