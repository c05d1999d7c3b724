/*
 * restart.h - whether a job is started again, and in how many processes
 *
 * A job that fails is started again from its newest checkpoint, as often as
 * --restarts allows.  Wrong input fails again, and an interrupt is wanted, so
 * those end it.  Processes that cannot be had are noticed by attempts that fail
 * before all have joined: after RT_JOIN_FAILURES of them in a row the next one
 * has fewer processes; the attempt after one that has trained asks for all of
 * them again.
 */
#ifndef TFD_RUNTIME_CLUSTER_LAUNCH_RESTART_H
#define TFD_RUNTIME_CLUSTER_LAUNCH_RESTART_H

#include <stdbool.h>

enum { RT_JOIN_FAILURES = 2 };

typedef struct RtRestartPolicy {
    int size;          /* processes */
    int min_processes; /* 0: always size */
    int num_replicas;  /* that a number of processes has to divide */
    int restarts;      /* at most */
} RtRestartPolicy;

/* One attempt: how many processes it has, then how it ended. */
typedef struct RtAttempt {
    int number; /* restarts before it */
    int size;
    double delay;      /* seconds to wait before it */
    int join_failures; /* attempts in a row that never had all processes */
    bool joined;       /* all processes had joined */
    bool interrupted;  /* by a signal to the parent */
    int exit_status;
    char reason[1024]; /* a line without its end */
} RtAttempt;

RtAttempt rt_first_attempt(const RtRestartPolicy *policy);
/* Whether another attempt follows the last one; then *next is that. */
bool rt_next_attempt(const RtRestartPolicy *policy, const RtAttempt *last,
                     RtAttempt *next);

#endif
