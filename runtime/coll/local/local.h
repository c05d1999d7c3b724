/*
 * local.h - what communicators have in common whose participants meet in memory
 *
 * Every replica announces its part of a collective.  Each device then takes its
 * steps of the algorithm, phase by phase: the first when all replicas have
 * announced their parts, the next one when all devices have ended the phase
 * before.  Whether a phase has ended is known to the host by a word that counts
 * up; what a device does in a phase, and whether ending it means that it is
 * executed or enqueued, is the transport's matter.
 *
 * A device has a list of what it has started and not ended.  Whenever its last
 * replica starts anything, and in done, its program takes the phases of all in
 * the list that need not wait, so that devices that have several packs in
 * flight meet once for all of them.  In done it also waits for the others.
 *
 * What participants look at of each other, in each instance, is one block of
 * memory: two words on which they meet, and each replica's part.  It is the
 * process's own, or lies where all processes of a communicator map it
 * (rt_local_place); then addresses in it mean nothing to the others.  Words are
 * raised after what they announce has been written, and read before that is; so
 * whoever sees the word sees what was announced, another thread or another
 * process alike.  A process that ends, at whatever moment, leaves words that do
 * not rise any more: the others wait until they are stopped.
 */
#ifndef TFD_RUNTIME_COLL_LOCAL_LOCAL_H
#define TFD_RUNTIME_COLL_LOCAL_LOCAL_H

#include "ir/base/arena.h"
#include "runtime/coll/algorithm/algorithm.h"
#include "runtime/coll/coll.h"

typedef struct RtLocalComm RtLocalComm;

/* One replica's operands and results of an instance. */
typedef struct RtLocalPart {
    _Alignas(CACHE_LINE) _Atomic uint32_t calls; /* of start */
    RtAllGatherPart gather; /* at and out: of its own process */
} RtLocalPart;

/* Where all participants meet. */
typedef struct RtLocalMeeting {
    RtWaitWord started;   /* replicas, over all calls */
    RtWaitWord completed; /* phases, by all participants, over all calls */
} RtLocalMeeting;

/* A device's work for an instance.  Its program alone looks at it, except for
 * what the transport has announced with a phase. */
typedef struct RtLocalWork {
    _Alignas(CACHE_LINE) RtCollInstance *instance;
    int device;                   /* of this process */
    int participant;              /* the same, among those of all processes */
    const RtAlgorithm *algorithm; /* of this call */
    uint32_t call;
    int announced;   /* replicas of the device, in this call */
    int phase;       /* the next */
    int num_phases;  /* of this call */
    uint32_t base;   /* `completed` when this call began */
    int64_t *counts; /* of elements; of an all_gather, of blocks */
    RtCollInstance *next_pending;
    double timeout; /* of the done at hand, as RtCollOps.done has it */
    void *own;      /* the transport's */
} RtLocalWork;

/* A transport's instances begin with this. */
struct RtCollInstance {
    RtLocalComm *comm;
    RtCollInstance *next;
    bool gathers;
    int num; /* operands */
    RtReduceOperand *operands;
    RtAlgorithmChoice choice;
    RtAllReducePart *reduces; /* for each replica of this process a part for
                                 each operand */
    RtLocalWork *works;       /* for each device of this process */
    int64_t calls[NUM_IR_COLL_ALGORITHMS]; /* of its first device */
    /* Where all participants meet: */
    RtLocalMeeting *meeting;
    RtLocalPart *parts; /* for each replica of all processes */
    char *beside;       /* the transport's, on cache lines of its own */
    size_t beside_bytes;
};

/* What a transport does. */
typedef struct RtLocalOps {
    /* Sets the algorithm and the number of phases of a call that begins. */
    void (*begin)(RtLocalWork *w);
    /* The next phase, which can begin.  false: the device has failed, and
     * others must not learn that the phase has ended. */
    bool (*take_phase)(RtLocalWork *w);
} RtLocalOps;

/* What a device has started and not ended, in that order. */
typedef struct RtLocalPending {
    _Alignas(CACHE_LINE) RtCollInstance *first;
} RtLocalPending;

/* A transport's communicators begin with this. */
struct RtLocalComm {
    RtColl coll;
    const RtLocalOps *ops;
    Arena *arena;
    RtCollInstance *instances; /* newest first */
    RtCommConfig config;
    /* Whether somebody has aborted: this process, and, where all participants
     * look once instances have where they meet (is_placed), anybody. */
    _Atomic uint32_t is_stopped;
    atomic_bool is_placed;
    _Atomic uint32_t *all_stopped;
    RtLocalPending *pending; /* for each device */
    int first_participant;   /* of this process */
};

/* ---- communicators and instances ----------------------------------------- */

/* A communicator of so many bytes. */
RtLocalComm *rt_local_open(const RtCommConfig *config, const RtCollOps *ops,
                           const RtLocalOps *local, size_t bytes);
/* RtCollOps.close, arrived, calls, abort */
void rt_local_close(RtColl *c);
bool rt_local_arrived(const RtCollInstance *s, int replica);
const int64_t *rt_local_calls(const RtCollInstance *s);
void rt_local_abort(RtColl *c);

/* What to make: an all_reduce of these operands, which are copied, or, where
 * they are NULL, an all_gather. */
typedef struct RtLocalNew {
    RtAlgorithmChoice choice;
    int num;
    const RtReduceOperand *operands;
    size_t bytes;        /* of the instance */
    size_t beside_bytes; /* that the transport wants where participants meet */
} RtLocalNew;
RtCollInstance *rt_local_new(RtLocalComm *comm, const RtLocalNew *make);

/* Of the memory in which the participants of all instances meet. */
size_t rt_local_meeting_bytes(const RtLocalComm *comm);
/* Puts it there: zeros, which all processes of the communicator map, and each
 * of which has made the same instances.  From then on an abort of one stops
 * all.  One process need not call it. */
void rt_local_place(RtLocalComm *comm, char *at);

/* ---- start and done ------------------------------------------------------ */

/* Notes the parts of a replica; with the first of a device a call begins. */
RtLocalWork *rt_local_reduce(RtCollInstance *s, int replica,
                             const RtAllReducePart *parts);
RtLocalWork *rt_local_gather(RtCollInstance *s, int replica,
                             const RtAllGatherPart *part);
/* Whether the replica that comes next is the last of the device. */
bool rt_local_is_last(const RtLocalWork *w);
/* Others may see its part.  Whether it was the last of the device. */
bool rt_local_announce(RtLocalWork *w, int replica);
/* Behind what the device has started before; takes what need not wait. */
void rt_local_start(RtLocalWork *w);
/* Takes the rest of the phases. */
RtCollResult rt_local_finish(RtLocalWork *w);

/* Waits until the device's next phase can begin, or, after its last one, until
 * all devices have ended theirs; without a timeout for as long as it takes. */
RtCollResult rt_local_wait(const RtLocalWork *w, bool has_timeout);
void rt_local_end_phase(RtLocalWork *w);

/* ---- operands and results ------------------------------------------------ */

RtDevice *rt_local_device(const RtLocalWork *w);
int rt_local_replicas_each(const RtCollInstance *s);
/* The parts of a replica of this process, one for each operand. */
RtAllReducePart *rt_local_reduces(const RtCollInstance *s, int replica);
/* A participant's first replica, whose results the others share. */
int rt_local_first_replica(const RtCollInstance *s, int participant);
RtCollShape rt_local_shape(const RtLocalWork *w);
/* Bytes of an element of operand i. */
size_t rt_local_width(const RtCollInstance *s, int i);
/* Where a replica's blocks begin in a row of the whole, and the bytes of a row.
 */
int64_t rt_local_row_offset(const RtCollInstance *s, int replica);
int64_t rt_local_row_bytes(const RtCollInstance *s);

#endif
