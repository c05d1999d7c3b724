/*
 * restart.h - whether a job is started again, and in how many processes
 *
 * A job that fails is started again from its newest checkpoint, as often as
 * --restarts allows.  Wrong input fails again, and an interrupt is wanted, so
 * those end it.  Processes that cannot be had are noticed by attempts that fail
 * before all have joined: after RT_JOIN_FAILURES of them in a row the next one
 * has fewer processes.
 *
 * An attempt with fewer processes asks for replacements: after its first
 * checkpoint it stops, and the next one has all processes.  Where these do not
 * all join, the smaller number goes on, until it has made twice as many
 * checkpoints: so what asking costs stays a part of what is trained between.
 * Neither is a failure that counts.
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

/* Why an attempt follows the one before it. */
typedef enum RtAttemptKind {
    RT_ATTEMPT_FIRST,
    RT_ATTEMPT_RESTART, /* that one failed */
    RT_ATTEMPT_GROWS,   /* it had fewer processes, and stopped for this one */
    RT_ATTEMPT_SHRINKS  /* it had more processes, not all of which joined */
} RtAttemptKind;

/* One attempt: how many processes it has, then how it ended. */
typedef struct RtAttempt {
    RtAttemptKind kind;
    int number;   /* attempts before it */
    int restarts; /* failures before it that count */
    int size;
    double delay;      /* seconds to wait before it */
    int join_failures; /* attempts in a row that never had all processes */
    int smaller;     /* processes of the attempt that stopped for it; 0: none */
    int checkpoints; /* after so many it stops, to ask for replacements; of one
                        that has all processes, what the smaller one waits
                        for if they do not join.  0: nothing was asked for */
    bool joined;     /* all processes had joined */
    bool interrupted; /* by a signal to the parent */
    bool stopped;     /* after its checkpoints */
    int exit_status;
    char reason[1024]; /* a line without its end */
} RtAttempt;

RtAttempt rt_first_attempt(const RtRestartPolicy *policy);
/* Whether another attempt follows the last one; then *next is that. */
bool rt_next_attempt(const RtRestartPolicy *policy, const RtAttempt *last,
                     RtAttempt *next);
/* Whether an attempt need not wait long for all to join: fewer processes go on
 * without those that do not. */
bool rt_attempt_may_shrink(const RtRestartPolicy *policy,
                           const RtAttempt *attempt);
/* Whether an attempt that has made so many checkpoints stops. */
bool rt_attempt_asks(const RtRestartPolicy *policy, const RtAttempt *attempt,
                     int checkpoints);

#endif
