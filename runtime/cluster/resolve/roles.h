/*
 * roles.h - this process as a task of a parameter-server job
 *
 * A job has one coordinator, which executes main and schedules closures;
 * servers ("ps"), which hold the variables; and workers, which execute the
 * closures.  All run the same plan.  The coordinator listens, servers and
 * workers connect to it and learn from it where the servers listen.  An
 * evaluator, which it may have, reads the coordinator's checkpoints, and hears
 * from it only when the job ends.
 */
#ifndef TFD_RUNTIME_CLUSTER_RESOLVE_ROLES_H
#define TFD_RUNTIME_CLUSTER_RESOLVE_ROLES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum RtRole {
    RT_ROLE_alone, /* coordinator, server and worker at once */
    RT_ROLE_coordinator,
    RT_ROLE_ps,
    RT_ROLE_worker,
    RT_ROLE_evaluator
} RtRole;

typedef struct RtTaskOptions {
    RtRole role;
    int index;               /* of a server or worker, from 0 */
    int num_servers;         /* the coordinator's: how many there are */
    int num_workers;         /* to begin with; more may come */
    bool has_evaluator;      /* one will join */
    bool by_bytes;           /* the coordinator's: servers have equally many */
    uint64_t incarnation;    /* of a server or worker: larger than those that
                                it replaces */
    int crash;               /* of a worker: the signal by which the one
                                before it ended itself; 0: it did not */
    const char *listen;      /* the coordinator's, a server's: "127.0.0.1:0",
                                "*:17000"; NULL: "127.0.0.1:0" */
    const char *const *join; /* the coordinator's HOST:PORT, tried together */
    int num_join;
    int announce_fd;    /* the coordinator writes its port there, as
                           text and a line's end, a worker "joined" when it
                           has; then it is closed; -1: no */
    const uint8_t *key; /* RT_JOB_KEY bytes; NULL: loopback only */
    int64_t staleness;  /* the coordinator's: how many updates a closure may
                           lack; negative: any number */
    bool atomic;        /* the coordinator's: all servers commit the same
                           attempt of a closure */
    int64_t sync_need, sync_of; /* the coordinator's: of so many closures of
                                   a round the first ones count; 0: all */
    double silence;             /* seconds without a sign of life after which a
                                   worker's closures go to others; 0: 2 */
} RtTaskOptions;

#endif
