/*
 * carrier.h - the thread that moves messages beside the program
 *
 * A carrier alone calls its link.  Other threads submit jobs to it, which it
 * takes in their order; a job begins transfers, whose ends begin the next ones.
 * So a collective operation goes on while the program computes.
 *
 * With transfers in flight the carrier polls for 50 microseconds after the last
 * event, giving its core to whoever wants it, and then sleeps: on the link's
 * descriptor if it has one, else for naps of at most 200 microseconds.  It
 * calls progress from time to time also when nothing is in flight: libraries
 * without threads may have told the end of a message that is not yet on its
 * way.
 */
#ifndef TFD_RUNTIME_LINK_CARRIER_H
#define TFD_RUNTIME_LINK_CARRIER_H

#include "ir/analysis/collectives.h"
#include "runtime/hal/wait.h"
#include "runtime/link/link.h"

typedef struct RtCarrier RtCarrier;
typedef struct RtCarrierJob RtCarrierJob;

/* What another thread wants done.  Lasts until run is called. */
struct RtCarrierJob {
    void (*run)(RtCarrierJob *job); /* by the carrier; must not wait */
    void *owner;
    RtCarrierJob *next; /* the carrier's */
};

/* Told once when the carrier stops before its end. */
typedef struct RtCarrierListener RtCarrierListener;
struct RtCarrierListener {
    /* By the carrier, after it has cancelled all transfers; why the link has
     * failed, or NULL after rt_carrier_stop.  Calls nothing of the carrier. */
    void (*stopped)(RtCarrierListener *l, const char *why);
    RtCarrierListener *next;
};

/* Which processes share a machine, and how fast messages are, as measured
 * between neighbours; the same in all processes. */
typedef struct RtLinkTopology {
    int per_machine;  /* processes 0 .. n - 1 are on one machine, n .. 2n - 1
                         on the next one; 1: nothing is known */
    IrLinkSpeed near; /* of one machine; far, if per_machine is 1 */
    IrLinkSpeed far;  /* of different machines, all sending at a time */
} RtLinkTopology;

/* What this process has sent since the carrier was opened. */
typedef struct RtLinkCount {
    int64_t messages, bytes;
    int64_t near_messages, near_bytes; /* of these, those in memory */
} RtLinkCount;

/* Connects the link, with the addresses of all by rank, and starts the thread.
 * The carrier owns the link from now on, also after a failure. */
Status rt_carrier_open(RtLink *link, const RtLinkAddress *all,
                       RtCarrier **out) MUST_USE;
/* After the last transfer, or after rt_carrier_stop. */
void rt_carrier_close(RtCarrier *c);

int rt_carrier_rank(const RtCarrier *c);
int rt_carrier_size(const RtCarrier *c);
const char *rt_carrier_link(const RtCarrier *c); /* its name */
/* Whether messages to a peer go through memory, and not over the link; and
 * whether those of any two processes of the job may. */
bool rt_carrier_is_near(const RtCarrier *c, int peer);
bool rt_carrier_has_near(const RtCarrier *c);
/* Any thread. */
RtLinkCount rt_carrier_sent(const RtCarrier *c);
/* One process a machine, 20 microseconds and 1 GB/s until it is set. */
RtLinkTopology rt_carrier_topology(const RtCarrier *c);
void rt_carrier_set_topology(RtCarrier *c, RtLinkTopology topology);
/* By all processes, before other transfers: measures the topology's speeds.  A
 * failure after `timeout` seconds names who does not answer. */
Status rt_carrier_measure(RtCarrier *c, double timeout) MUST_USE;
/* By both processes of a pair, each with the other's rank, with nothing else
 * in flight between them.  *stopped: ends the wait when it is not 0. */
Status rt_carrier_measure_pair(RtCarrier *c, int peer, double timeout,
                               const _Atomic int32_t *stopped,
                               IrLinkSpeed *out) MUST_USE;
/* The end of a measurement that was stopped: another process says why. */
Status rt_messages_stopped(void) MUST_USE;

/* Any thread; never waits and allocates nothing.  Jobs of one thread are run in
 * their order.  One that comes after the end of the carrier is not run. */
void rt_carrier_submit(RtCarrier *c, RtCarrierJob *job);
/* Runs a job and waits for its end. */
void rt_carrier_call(RtCarrier *c, RtCarrierJob *job);

/* Begins transfers, of which `end` and `owner` are set here, and waits for
 * them: the receives stand first.  After `timeout` seconds, or a stop, those
 * that have not ended are cancelled, and their has_ended is false. */
bool rt_carrier_transfer(RtCarrier *c, RtTransfer *all, int num_receives,
                         int num, double timeout, const atomic_bool *stopped);

/* By jobs and by ends of transfers: begin one.  After a stop nothing begins. */
void rt_carrier_send(RtCarrier *c, RtTransfer *t);
void rt_carrier_recv(RtCarrier *c, RtTransfer *t);
/* By jobs: ends one that is in flight, without telling it. */
void rt_carrier_cancel(RtCarrier *c, RtTransfer *t);

/* Any thread: cancels all transfers, and those that would begin later.  Returns
 * at once; listeners are told. */
void rt_carrier_stop(RtCarrier *c);
bool rt_carrier_has_stopped(const RtCarrier *c);
/* Why the link has failed; OK: it has not. */
Status rt_carrier_failure(RtCarrier *c) MUST_USE;

/* l is told by this call if the carrier has stopped already. */
void rt_carrier_listen(RtCarrier *c, RtCarrierListener *l);
/* By a thread that is not the carrier's; returns when l is not told any more.
 */
void rt_carrier_unlisten(RtCarrier *c, RtCarrierListener *l);

#endif
