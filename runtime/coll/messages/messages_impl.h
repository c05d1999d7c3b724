/*
 * messages_impl.h - collectives as messages between processes
 *
 * messages.c announces calls to the carrier, pieces.c divides them,
 * algorithms.c and gathers.c are what is sent, and choose.c which of it.  All
 * but the first is called by the carrier's thread.
 */
#ifndef TFD_RUNTIME_COLL_MESSAGES_MESSAGES_IMPL_H
#define TFD_RUNTIME_COLL_MESSAGES_MESSAGES_IMPL_H

#include "runtime/coll/coll.h"
#include "runtime/coll/messages/layout.h"
#include "runtime/coll/messages/messages.h"
#include "runtime/coll/messages/nodes.h"
#include "runtime/hal/wait.h"
#include "runtime/link/carrier.h"
#include "runtime/link/schedule.h"

enum {
    MSG_NUM_SLOTS = 4,           /* pieces in flight */
    MSG_PIECE_BYTES = 512 << 10, /* of nodes, for each process */
    MSG_MOST_PIECE_BYTES = 4 << 20
};

typedef struct MsgComm MsgComm;
typedef struct MsgPiece MsgPiece;
typedef struct RtCollInstance MsgInstance;

/* An algorithm of a piece: rounds of messages, between which a process
 * combines. */
typedef struct MsgAlgorithm {
    IrCollAlgorithm by;
    /* Begins the piece's next round; false: there is none. */
    bool (*begin_round)(MsgPiece *p);
} MsgAlgorithm;

extern const MsgAlgorithm rt_msg_algorithms[NUM_MESSAGES_ALGORITHMS];
extern const MsgAlgorithm rt_msg_gathering; /* of an all_gather, whose `by`
                                               follows from the sizes */

/* One replica's operands and results of an instance. */
typedef struct MsgPart {
    _Alignas(CACHE_LINE) _Atomic uint32_t calls; /* of start */
    RtAllReducePart *reduces;
    RtAllGatherPart gather;
} MsgPart;

struct RtCollInstance {
    MsgComm *comm;
    MsgInstance *next; /* of the communicator's */
    bool gathers;
    int num;
    RtReduceOperand *operands;
    MsgPart *parts;             /* of each local replica */
    _Atomic uint64_t announced; /* local replicas, over all calls */
    RtWaitWord ended;           /* calls */
    RtCarrierJob first, last;   /* of a call's first and last local replica */

    /* The carrier's. */
    MsgInstance *next_queued; /* in the order of the program */
    bool is_ready, is_begun;  /* the call in the queue */
    RtNodes *nodes;
    int root; /* REDUCE_FIRST: the process whose node all get; else 0 */
    RtNodeKernel *kernels; /* for each operand */
    bool sends_operand;    /* from where it is */
    int64_t *counts;
    RtLayout layout;
    const MsgAlgorithm *algorithm;
    int64_t piece_steps, next_step;
    int pieces; /* in flight */

    /* Of an all_gather. */
    size_t most;
    int64_t *sizes; /* of each replica's blocks, from this process on */
    char *blocks;   /* in that order, too */
    size_t *at;     /* where those of each process begin, and the end */
    int sized;      /* rounds that brought the sizes */

    int64_t calls[NUM_IR_COLL_ALGORITHMS]; /* by each */
};

/* A piece in flight, and its memory. */
struct MsgPiece {
    MsgComm *comm;
    int slot;
    MsgInstance *instance; /* NULL: free */
    RtSteps steps;
    const MsgAlgorithm *algorithm;
    int round;
    int pending; /* transfers */
    int num_transfers;
    RtTransfer *transfers; /* 2 for each process */
    char *nodes;           /* own ones */
    char *received;
    char *sums; /* of nodes, while they grow */
    char *result;
    const void **in; /* scratch: a pointer for each node or replica */
};

struct MsgComm {
    RtColl coll;
    Arena *arena;
    RtCommConfig config;
    RtCarrier *carrier;
    int rank, size;
    int each; /* replicas of a device */
    RtLinkTopology topology;
    RtNodes *machines; /* as if each were a process */
    int forced;        /* algorithm; -1: by speed */
    MsgInstance *instances;
    atomic_bool stopped;
    RtCarrierListener listener;
    RtCarrierJob abort;
    atomic_bool abort_submitted;

    RtNodes *node_kinds[3]; /* of nodes, leaves, and the first replica */
    RtNodeScratch *scratch;
    MsgInstance *queue, **queue_end;
    uint32_t next_piece; /* over the whole run: the same everywhere */
    MsgPiece pieces[MSG_NUM_SLOTS];
    size_t node_bytes, received_bytes, result_bytes; /* of a piece */
};

/* ---- messages.c ---------------------------------------------------------- */

/* By the carrier: nothing goes on, since a rank has told sizes of its blocks
 * that cannot be. */
void rt_msg_fail_sizes(MsgComm *comm, int rank);

/* ---- pieces.c ------------------------------------------------------------ */

/* A call's first local replica has announced itself; its last one has. */
void rt_msg_queue(RtCarrierJob *job);
void rt_msg_ready(RtCarrierJob *job);
/* Nothing of the communicator is in flight any more, nor will be. */
void rt_msg_cancel(RtCarrierJob *job);
void rt_msg_send(MsgPiece *p, int peer, int step, const void *from, size_t n);
void rt_msg_recv(MsgPiece *p, int peer, int step, void *to, size_t n);
/* The memory of pieces, when all instances are known. */
void rt_msg_alloc(MsgComm *comm);

/* ---- choose.c ------------------------------------------------------------ */

/* Of an all_gather of so many bytes of all replicas. */
IrCollAlgorithm rt_msg_gather_algorithm(size_t bytes);
/* Of a call with so many bytes of a node. */
const MsgAlgorithm *rt_msg_choose(const MsgInstance *s, size_t bytes);

#endif
