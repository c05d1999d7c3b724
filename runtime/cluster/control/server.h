/*
 * server.h - the control server of a job
 *
 * A thread that has the membership, and sockets for it.  It is opened by the
 * parent under tfd-run -n, and by rank 0's process else.
 */
#ifndef TFD_RUNTIME_CLUSTER_CONTROL_SERVER_H
#define TFD_RUNTIME_CLUSTER_CONTROL_SERVER_H

#include "runtime/cluster/control/membership.h"
#include "runtime/hal/bounded.h"

typedef struct RtServerConfig {
    const char *id; /* of the job */
    int size;
    uint32_t attempt;
    int rank;                /* of this process; -1: it is none of the job's */
    double silence, joining; /* as RtMembershipConfig */
    const char *diagnose;    /* as RtJobOptions */
    const uint8_t *key;      /* RT_JOB_KEY bytes; NULL: loopback only */
    const char *address;     /* to listen on: 127.0.0.1:0, *:17000 */
    void *data;              /* of these, which are called by its thread: */
    void (*say)(void *data, RtSay say, const char *line, const char *lines);
    void (*evict)(void *data, int rank); /* as RtMembershipOut */
    /* Of the calls below that look at the membership, for its thread; lasts as
     * long as the server.  NULL: they wait for ever. */
    const RtBound *bound;
} RtServerConfig;

typedef struct RtServer RtServer;

/* Listens, and begins to serve. */
Status rt_server_open(const RtServerConfig *config, RtServer **out) MUST_USE;
int rt_server_port(const RtServer *s);
/* As of the membership; any thread. */
void rt_server_lost(RtServer *s, int rank, const char *how, int exit_status);
/* Whether the job was stopped; whether it is over, and how. */
bool rt_server_is_stopped(RtServer *s);
/* Whether all had joined, also of a job that has ended since. */
bool rt_server_has_begun(RtServer *s);
bool rt_server_has_ended(RtServer *s, int *exit_status);
/* Readable once the job is over. */
int rt_server_fd(const RtServer *s);
/* Whether its thread is in a call of libzmq that does not return within the
 * bound; then the calls above change and know nothing. */
bool rt_server_is_stuck(RtServer *s);
/* Its last messages get a second to leave. */
void rt_server_close(RtServer *s);

/* Closes it, or, where libzmq does not return, says so and leaves it.  All that
 * it said is printed. */
void rt_server_leave(RtServer *s);
/* As rt_call_bounded, of what closes sockets at the end of a job. */
bool rt_close_bounded(void (*call)(void *data), void *data, double seconds);

#endif
