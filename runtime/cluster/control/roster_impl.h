/*
 * roster_impl.h - what the files of the roster share
 */
#ifndef TFD_RUNTIME_CLUSTER_CONTROL_ROSTER_IMPL_H
#define TFD_RUNTIME_CLUSTER_CONTROL_ROSTER_IMPL_H

#include "ir/base/str.h"
#include "runtime/cluster/control/roster.h"

typedef enum RtRosterPhase {
    PHASE_JOINING,
    PHASE_LINKING,
    PHASE_RUNNING,
    PHASE_STOPPED, /* all were told why */
    PHASE_OVER
} RtRosterPhase;

/* A rank, and the process that has it. */
typedef struct RtSeat {
    bool present, linked, ended;
    bool gone;         /* its connection is closed, or it was judged */
    bool silence_said; /* since its last sign */
    uint64_t nonce;    /* of its hello */
    RtRoute route;
    int fd;
    RtHello hello;
    RtLinked unreached;
    double heard; /* when the last frame came */
    RtBeat beat;  /* where it was then */
    double lost;  /* when it went without an end; 0: it did not */
    const char *lost_how;
    int lost_status;
    RtEnd end;
    double ended_at;
    Arena *bytes; /* of its part of an exchange; NULL: none came */
    RtExchangePart exchange;
    double window_began, window_waited; /* of the last look for slow ranks */
    int64_t window_step;
} RtSeat;

struct RtRoster {
    Arena *arena;
    RtRosterConfig config;
    RtRosterPhase phase;
    RtSeat *seats;        /* by rank */
    double began, looked; /* when; the last tick */
    double missing_said, pulsed, stopped;
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

/* Sends to a seat, or to all that are present and have not gone. */
void rt_roster_send(RtRoster *r, const RtSeat *seat, const RtFrame *f);
void rt_roster_send_all(RtRoster *r, const RtFrame *f);

/* Stops all: one line, whole lines below it or "".  The server prints it,
 * unless a rank does (speaker >= 0). */
void rt_roster_stop(RtRoster *r, int exit_status, int speaker,
                    const char *reason, const char *notes);

/* "rank 2 (h3, pid 411)" */
const char *rt_roster_name(const RtRoster *r, Arena *a, int rank);
/* "rank 2" or "ranks 0-2, 5" of those with which[rank]. */
const char *rt_roster_ranks(const RtRoster *r, Arena *a, const bool *which);

/* Seconds that others wait for a process. */
double rt_roster_timeout(const RtRoster *r);

/* verdict.c: looks for processes that are dead, silent, not coming or slow. */
void rt_roster_judge(RtRoster *r, double now);

#endif
