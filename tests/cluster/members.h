/*
 * members.h - a control server in the test's process, and members that it forks
 */
#ifndef TFD_TESTS_CLUSTER_MEMBERS_H
#define TFD_TESTS_CLUSTER_MEMBERS_H

#include <sys/types.h>
#include "runtime/cluster/control/job.h"
#include "runtime/cluster/control/server.h"

enum { MOST_MEMBERS = 8 };

/* What a member does once it has joined; its result is how its run ended.  It
 * may also not return. */
typedef Status MemberBody(RtJob *job, void *shared);

/* Changes what a rank says of itself, before it joins; may be NULL. */
typedef void MemberSetup(int rank, RtJobOptions *options, RtJobConfig *config);

typedef struct Members {
    int size;
    RtServer *server;
    char address[32];
    pid_t pids[MOST_MEMBERS];
    int statuses[MOST_MEMBERS]; /* exit status, or 128 and the signal */
    int exit_status;            /* of the job */
    double joined;              /* seconds from the first fork to the last GO */
    char *said;                 /* all that the server printed: lines */
    void *shared;               /* 4096 zeroed bytes that all share */
    MemberBody *body;
    MemberSetup *setup;
} Members;

extern const uint8_t members_key[RT_JOB_KEY];

/* Opens the server and forks; the caller may do something to them; waits until
 * the job is over and kills whoever is left. */
void members_start(Members *m, int size, MemberBody *body, MemberSetup *setup);
void members_wait(Members *m);
void members_free(Members *m);

/* Waits for a word of shared memory to have at least this value. */
void members_await(const _Atomic int *word, int value);

#endif
