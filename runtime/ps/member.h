/*
 * member.h - a server or worker and its connection to the coordinator
 */
#ifndef TFD_RUNTIME_PS_MEMBER_H
#define TFD_RUNTIME_PS_MEMBER_H

#include "runtime/ps/wire/guard.h"
#include "runtime/ps/heartbeat.h"
#include "runtime/ps/wire/sockets.h"
#include "runtime/ps/wire/wire.h"

typedef struct RtMemberConfig {
    const RtTaskOptions *task;
    const char *plan;    /* its hash */
    const char *address; /* of a server, where it listens; else "" */
    double timeout;      /* seconds for a coordinator to answer */
    bool (*is_stopped)(void *data);
    /* NULL, or whether the job has ended already, where nobody answers. */
    bool (*is_over)(void *data);
    void *data;
    RtPsGuard *guard; /* NULL: none */
} RtMemberConfig;

typedef struct RtPsMember {
    Arena *arena;
    RtPsNet *net;
    RtMemberConfig config;
    const char *host;        /* this machine's name */
    uint64_t job;            /* that it has joined */
    const char *coordinator; /* its address */
    RtPsSocket socket;       /* to it */
    RtHeartbeats *heartbeats;
    RtArchive out;
    double heard, greeted; /* from the coordinator; by this */
    double checked;        /* rt_ps_member_check was called */
} RtPsMember;

/* Says who it is to each of the coordinator's addresses until it is told where
 * all servers are, which *welcome gets.  Refused: STATUS_USAGE; nobody answers,
 * or not any more: STATUS_MACHINE; nobody answers, for is_over: STATUS_STOPPED.
 */
Status rt_ps_member_join(RtPsNet *net, const RtMemberConfig *config,
                         RtPsMember *m, RtPsWelcome *welcome) MUST_USE;
void rt_ps_member_leave(RtPsMember *m); /* also for one of zeros */

/* Seconds between two messages whose answers show that the coordinator lives:
 * usual, or less where that were too seldom for --silence. */
double rt_ps_member_interval(const RtPsMember *m, double usual);

/* Seconds without a word of the coordinator after which it is lost. */
double rt_ps_member_patience(const RtPsMember *m);

/* Says again who it is, now and then (rt_ps_member_interval): the answer shows
 * that the coordinator lives. */
void rt_ps_member_greet(RtPsMember *m);

/* The failure if the coordinator has not been heard for long, or the run is to
 * stop; to be called often, after what has come was read. */
Status rt_ps_member_check(RtPsMember *m) MUST_USE;

/* What a message REFUSED says. */
Status rt_ps_member_refused(RtPsMember *m, RtArchive *in) MUST_USE;

#endif
