/*
 * membership_impl.h - what the files of the membership share
 */
#ifndef TFD_RUNTIME_CLUSTER_CONTROL_MEMBERSHIP_IMPL_H
#define TFD_RUNTIME_CLUSTER_CONTROL_MEMBERSHIP_IMPL_H

#include "ir/base/str.h"
#include "runtime/cluster/control/heard.h"
#include "runtime/cluster/control/membership.h"

typedef enum RtMembershipPhase {
    PHASE_JOINING,
    PHASE_LINKING,
    PHASE_RUNNING,
    PHASE_STOPPED, /* all were told why */
    PHASE_OVER
} RtMembershipPhase;

/* A rank, and the process that has it. */
typedef struct RtMemberState {
    bool present, linked, ended;
    bool gone;         /* its connection is closed, or it was judged */
    bool silence_said; /* since its last sign */
    uint64_t nonce;    /* of its hello */
    RtRoute route;
    int fd;
    RtHello hello;
    RtLinked unreached;
    double heard;          /* when the last frame came */
    RtPositions positions; /* its memory, where that is mapped */
    RtHeartbeat heartbeat; /* where it is, or was when the last one came */
    RtHeard *told;         /* by its heartbeats; NULL: nobody asks for it */
    double moved;          /* when that was seen to be another place */
    double lost;           /* when it went without an end; 0: it did not */
    const char *lost_how;
    int lost_status;
    RtEnd end;
    double ended_at;
    Arena *bytes; /* of its part of an exchange; NULL: none came */
    RtExchangePart exchange;
    double window_began, window_waited; /* of the last look for slow ranks */
    int64_t window_step;
} RtMemberState;

struct RtMembership {
    Arena *arena;
    RtMembershipConfig config;
    RtMembershipPhase phase;
    bool begun;             /* all had joined, whatever came then */
    RtMemberState *members; /* by rank */
    double began, looked;   /* when; the last tick */
    double missing_said, heartbeat_sent, stopped;
    double exchange_began; /* its first part came; 0: none is pending */
    uint64_t exchange_number;
    bool exchange_said;
    int64_t awaited_call; /* what others wait in, and since when */
    int awaited_rank;
    double awaited_since;
    bool awaited_said;
    double slow_looked;
    bool slow_said;
    int exit_status; /* once stopped */
    int speaker;     /* the rank that prints why; -1: it was printed */
    const char *reason, *notes;
};

/* Sends to a member, or to all that are present and have not gone. */
void rt_membership_send(RtMembership *r, const RtMemberState *member,
                        const RtFrame *f);
void rt_membership_send_all(RtMembership *r, const RtFrame *f);

/* To a process, whether it is a member or not. */
void rt_membership_send_route(RtMembership *r, const RtRoute *to,
                              const RtFrame *f);
/* A frame of its type and number alone, to a process or to all members; why the
 * job was stopped. */
void rt_membership_send_simple(RtMembership *r, const RtRoute *to,
                               RtFrameType type, uint64_t number);
void rt_membership_send_simple_to_all(RtMembership *r, RtFrameType type);
void rt_membership_send_end(RtMembership *r, const RtRoute *to,
                            RtFrameType type);

/* Stops all: one line, whole lines below it or "".  The server prints it,
 * unless a rank does (speaker >= 0). */
void rt_membership_stop(RtMembership *r, int exit_status, int speaker,
                        const char *reason, const char *notes);

/* "rank 2 (h3, pid 411)" */
const char *rt_membership_name(const RtMembership *r, Arena *a, int rank);
/* "rank 2" or "ranks 0-2, 5" of those with which[rank]. */
const char *rt_membership_ranks(const RtMembership *r, Arena *a,
                                const bool *which);

/* Where a member is now; what is not of this job is left out. */
void rt_membership_locate(RtMembership *r, RtMemberState *member,
                          const RtHeartbeat *heartbeat, double now);

/* Seconds that others wait for a process. */
double rt_membership_timeout(const RtMembership *r);

/* membership_joining.c: a process says what it is, over connection fd; or that
 * it speaks another protocol; or whom it reaches.  Every few seconds: who has
 * not come. */
void rt_membership_hello(RtMembership *r, const RtRoute *from, int fd,
                         uint64_t nonce, const RtHello *h, double now);
void rt_membership_refuse_protocol(RtMembership *r, const RtRoute *from,
                                   int protocol);
void rt_membership_linked(RtMembership *r, RtMemberState *member,
                          const RtLinked *linked);
void rt_membership_say_missing(RtMembership *r, double now);

/* membership_exchanges.c: a member's part of the exchange of that number. */
void rt_membership_exchange(RtMembership *r, int rank, uint64_t number,
                            const RtExchangePart *exchange, double now);

/* failure_detector.c: looks for processes that are dead, silent, not coming or
 * slow. */
void rt_detect_failures(RtMembership *r, double now);

#endif
