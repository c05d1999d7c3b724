/*
 * membership.h - who belongs to a job, and how it ends: what the control server
 * knows
 *
 * It takes frames, closed connections and the time, and gives frames and lines
 * to be printed; it knows no socket, no thread and no clock, so tests drive it
 * by hand.
 *
 * A job is joined when all ranks have said hello with the same identity and
 * reach each other; it ends when all have ended, or when one of them fails,
 * dies, falls silent or does not come for too long: then all others are
 * stopped, and told why.
 */
#ifndef TFD_RUNTIME_CLUSTER_CONTROL_ROSTER_H
#define TFD_RUNTIME_CLUSTER_CONTROL_ROSTER_H

#include "runtime/cluster/control/position.h"

/* Where a frame came from, and where one goes: a routing id of ZeroMQ. */
typedef struct RtRoute {
    uint8_t id[16];
    uint8_t len;
} RtRoute;

typedef enum RtSay { RT_SAY_ERROR, RT_SAY_NOTE } RtSay;

typedef struct RtMembershipOut {
    void *data;
    void (*send)(void *data, const RtRoute *to, const RtFrame *frame);
    /* One line without its beginning ("tfd-run: error: "), and whole lines
     * that stand below it, which may be "". */
    void (*say)(void *data, RtSay say, const char *line, const char *lines);
    /* A rank was judged: whoever started it ends it.  May be NULL. */
    void (*evict)(void *data, int rank);
} RtMembershipOut;

typedef struct RtMembershipConfig {
    const char *id; /* of the job */
    int size;
    uint32_t attempt;
    int server_rank; /* whose process is the control server; -1: none */
    /* Of the server (RtHello.machine): the memory in which processes of it tell
     * where they are is mapped.  NULL: none is. */
    const char *machine;
    const char *diagnose; /* as RtJobOptions, for those that cannot write */
    double silence; /* seconds without a heartbeat that end the job; 0: 5 */
    double joining; /* seconds in which all join; 0: the job's --timeout */
    RtMembershipOut out;
} RtMembershipConfig;

typedef struct RtMembership RtMembership;

/* In a, which lives longer.  now is the time at the beginning; all times are
 * of one clock in seconds. */
RtMembership *rt_membership_new(Arena *a, const RtMembershipConfig *config,
                                double now);

/* Unmaps what it has of the processes. */
void rt_membership_close(RtMembership *r);

/* A message of n bytes came over the connection fd (-1: not known). */
void rt_membership_receive(RtMembership *r, const RtRoute *from, int fd,
                           const void *bytes, size_t n, double now);
/* A connection was closed. */
void rt_membership_closed(RtMembership *r, int fd, double now);
/* The process of a rank ended, as whoever started it knows: how completes
 * "rank 2 (h3, pid 411) ...". */
void rt_membership_lost(RtMembership *r, int rank, const char *how,
                        int exit_status, double now);
/* Several times a second. */
void rt_membership_tick(RtMembership *r, double now);
/* Whether all had joined, also of a job that has ended since; whether the job
 * is over, and how. */
bool rt_membership_has_begun(const RtMembership *r);
bool rt_membership_is_stopped(const RtMembership *r);
bool rt_membership_has_ended(const RtMembership *r, int *exit_status);

#endif
