/*
 * job.h - this process as one of a job
 *
 * A job is all processes that run one plan together.  Each of them is a
 * *member*: a thread of it keeps a connection to the job's *control server*,
 * which is the parent under tfd-run -n and a thread of rank 0 else.  The member
 * tells where its process is (heartbeats), and hears when the job has to end;
 * the server finds out who is dead, silent or not coming.
 */
#ifndef TFD_RUNTIME_CLUSTER_CONTROL_JOB_H
#define TFD_RUNTIME_CLUSTER_CONTROL_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"

enum {
    RT_JOB_KEY = 32,               /* bytes of a job's key */
    RT_JOB_EXCHANGE = 1000 * 1000, /* of one process in an exchange */
    RT_JOB_TIMEOUT = 300,          /* seconds, where none are given */
    RT_JOB_SILENCE = 5
};

typedef struct RtJobConfig RtJobConfig;
typedef struct RtJobOptions RtJobOptions;
typedef struct RtRendezvous RtRendezvous;

/* How processes that know no address find the control server, over something
 * that joins them already (MPI).  Called by main's thread. */
typedef struct RtRendezvousOps {
    /* Sets, in a, where rank 0 listens, at any free port ("*:0"), or the
     * addresses that the others connect to; and the key. */
    Status (*meet)(RtRendezvous *r, const RtJobConfig *config, Arena *a,
                   RtJobOptions *options);
    /* Of rank 0, when it listens at this port: the others' meet returns. */
    Status (*announce)(RtRendezvous *r, int port);
    /* Of all, when the job has ended.  After a failure returns early to the
     * process that speaks, whose message is lost if others end before it. */
    void (*leave)(RtRendezvous *r, bool failed, bool speaks);
} RtRendezvousOps;

struct RtRendezvous {
    const RtRendezvousOps *ops;
};

/* How this process finds its job: made from the environment and the command
 * line by the program (RtOptions.job). */
struct RtJobOptions {
    int rank, size;
    const char *id;   /* of the job; NULL: none */
    uint32_t attempt; /* restarts so far */
    /* Of the control server, HOST:PORT each, tried together. */
    const char *const *addresses;
    int num_addresses;
    /* Where this process, rank 0, listens as the control server ("*:17000",
     * "127.0.0.1:17000"); NULL: the server is elsewhere. */
    const char *listen;
    /* Tells where the server listens, instead of addresses and listen; NULL. */
    RtRendezvous *rendezvous;
    /* RT_JOB_KEY bytes that all have; NULL: loopback only. */
    const uint8_t *key;
    const char *diagnose; /* the folder for the last collectives; NULL: none */
    atomic_bool *dump;    /* set (SIGUSR2): write them now; may be NULL */
    double silence; /* seconds without a heartbeat that end the job; 0: 5 */
};

/* What has to be equal in all processes (identity.def). */
typedef enum RtIdentity {
#define IDENTITY(name, what, repair) RT_IDENTITY_##name,
#include "runtime/cluster/control/identity.def"
#undef IDENTITY
    RT_NUM_IDENTITIES
} RtIdentity;

/* A collective operation, or another one in which processes wait for each
 * other, as messages name it. */
typedef struct RtJobSite {
    const char *where; /* train.tfd:12:5 */
    const char *what;  /* all_reduce */
} RtJobSite;

/* What run.c knows.  Everything is copied. */
struct RtJobConfig {
    const char *identity[RT_NUM_IDENTITIES]; /* as text; NULL: none */
    const RtJobSite *sites;                  /* the same in all processes */
    int num_sites;
    int num_places;    /* threads that report where they are: local devices */
    bool has_messages; /* --link is given: they share no memory */
    double timeout;    /* seconds that others wait for a process; 0: 300 */
    double patience;   /* the same in a collective, if that is more */
    const atomic_bool *interrupted; /* set: stop joining; NULL: never */
};

/* What every process knows of each. */
typedef struct RtJobPeer {
    const char *host;
    const char *machine; /* equal for processes of one running kernel */
    int64_t pid;
    int local_rank; /* among those of its machine, by rank */
    int local_size;
} RtJobPeer;

typedef struct RtJob {
    int rank, size;
    int local_rank, local_size;
    const char *host;
    const char *id;         /* of the job: a name for files and segments */
    const uint8_t *key;     /* as of its options, or found; NULL: none */
    const RtJobPeer *peers; /* size of them, by rank */
    bool is_local;          /* all have joined over loopback: of one machine and
                               one network namespace */
} RtJob;

typedef struct RtBytes {
    const void *data;
    size_t len;
} RtBytes;

/* Joins the job and returns when all processes have joined, have the same
 * identity and reach each other.  A failure is a message that every process of
 * the job gets (rt_job_speaks); STATUS_INPUT: something differs. */
Status rt_job_open(const RtJobOptions *options, const RtJobConfig *config,
                   RtJob **out) MUST_USE;
/* The failure of a process, or of a parent, that is interrupted before that. */
Status rt_job_interrupted(void) MUST_USE;

/* All processes call it in the same order, on main's thread: everybody's bytes
 * by rank, in a.  At most RT_JOB_EXCHANGE of each; lengths may differ.  name
 * says what for and is compared.  Two hops over the control server, for what
 * happens a few times in a run.  Ends with a failure when the job stops. */
Status rt_job_exchange(RtJob *job, const char *name, const void *own,
                       size_t bytes, Arena *a, RtBytes **all) MUST_USE;

/* ---- where this process is ------------------------------------------------
 *
 * Each place is told by one thread at a time; nothing here waits, locks or
 * allocates.  Calls of collectives are counted from 1 by rt_job_calls. */

typedef enum RtJobState {
    RT_JOB_STARTS,  /* until main is called */
    RT_JOB_RUNS,    /* in its own work */
    RT_JOB_WAITS,   /* for other processes, in a collective */
    RT_JOB_READS,   /* waits for data */
    RT_JOB_SAVES,   /* writes to a disk */
    RT_JOB_RETURNED /* main has returned */
} RtJobState;

/* The next collective call begins: its operands are announced. */
void rt_job_calls(RtJob *job, int place, int32_t site);
/* Waits for the last call of this site; goes on. */
void rt_job_waits(RtJob *job, int place, int32_t site);
void rt_job_goes_on(RtJob *job, int place);
/* Main (place 0) has begun this step, or does something else. */
void rt_job_at(RtJob *job, int64_t step, RtJobState state);
/* The same of one that waits for data, at this site. */
void rt_job_reads(RtJob *job, int64_t step, int32_t site);
/* From now on this rank, of the same machine, makes the data it waits for. */
void rt_job_has_maker(RtJob *job, int rank);

/* locate: the site in whose work this process is now, -1: none is known; it is
 * called by the member's thread ten times a second until the job is closed, so
 * what a process does that never comes to its next call is named. */
void rt_job_locate(RtJob *job, int32_t (*locate)(void *data), void *data);

/* ---- the end ------------------------------------------------------------ */

/* Called once by the member's thread when the job ends because of another
 * process: reason is a complete line ("rank 2 (h3, pid 411) is dead; ...").
 * The run has to return soon, with rt_job_stopped.  If that has happened
 * already, it is called at once. */
void rt_job_on_stop(RtJob *job, void (*stop)(void *data, const char *reason),
                    void *data);
/* The failure of a run that was stopped; OK: it was not. */
Status rt_job_stopped(RtJob *job) MUST_USE;

/* Leaves the job: st is how the run of this process ended, not consumed.
 * Waits, boundedly, for the others' ends, and for the decision whose failure is
 * the job's.  Returns whether this process prints its message: another one
 * prints what is the consequence of its own.  *exit_status gets the job's. */
bool rt_job_close(RtJob *job, Status st, int *exit_status);

/* Whether this process prints why rt_job_open failed. */
bool rt_job_speaks(void);

#endif
