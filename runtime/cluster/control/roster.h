/*
 * roster.h - who belongs to a job, and how it ends: the control server's mind
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

#include "runtime/cluster/control/frame.h"

/* Where a frame came from, and where one goes: a routing id of ZeroMQ. */
typedef struct RtRoute {
    uint8_t id[16];
    uint8_t len;
} RtRoute;

typedef enum RtSay { RT_SAY_ERROR, RT_SAY_NOTE } RtSay;

typedef struct RtRosterOut {
    void *data;
    void (*send)(void *data, const RtRoute *to, const RtFrame *frame);
    /* One line without its beginning ("tfd-run: error: "), and whole lines
     * that stand below it, which may be "". */
    void (*say)(void *data, RtSay say, const char *line, const char *lines);
    /* A rank was judged: whoever started it ends it.  May be NULL. */
    void (*condemn)(void *data, int rank);
} RtRosterOut;

typedef struct RtRosterConfig {
    const char *id; /* of the job */
    int size;
    uint32_t attempt;
    double silence; /* seconds without a beat that end the job; 0: 5 */
    RtRosterOut out;
} RtRosterConfig;

typedef struct RtRoster RtRoster;

/* In a, which lives longer.  now is the time at the beginning; all times are
 * of one clock in seconds. */
RtRoster *rt_roster_new(Arena *a, const RtRosterConfig *config, double now);

/* A message of n bytes came over the connection fd (-1: not known). */
void rt_roster_receive(RtRoster *r, const RtRoute *from, int fd,
                       const void *bytes, size_t n, double now);
/* A connection was closed. */
void rt_roster_closed(RtRoster *r, int fd, double now);
/* The process of a rank ended, as whoever started it knows: how completes
 * "rank 2 (h3, pid 411) ...". */
void rt_roster_lost(RtRoster *r, int rank, const char *how, int exit_status,
                    double now);
/* Several times a second. */
void rt_roster_tick(RtRoster *r, double now);
/* Whether all have joined; whether the job is over, and how. */
bool rt_roster_has_begun(const RtRoster *r);
bool rt_roster_is_stopped(const RtRoster *r);
bool rt_roster_has_ended(const RtRoster *r, int *exit_status);

#endif
