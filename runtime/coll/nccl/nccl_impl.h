/*
 * nccl_impl.h - what the files of the transport over NCCL share
 *
 * From the bottom up: the library (library.c), ranks and their communicators
 * (ranks.c), messages of a collective (messages.c), how fast messages are
 * (measure.c), and the transport (nccl.c).
 */
#ifndef TFD_RUNTIME_COLL_NCCL_NCCL_IMPL_H
#define TFD_RUNTIME_COLL_NCCL_NCCL_IMPL_H

#include <pthread.h>
#include "ir/base/arena.h"
#include "runtime/coll/algorithm/algorithm.h"
#include "runtime/coll/coll.h"
#include "runtime/coll/nccl/api.h"

enum {
    NCCL_GRAIN = 4096, /* elements that a thread of a device combines */
    NCCL_ALIGN = 256   /* of what is received before it is combined */
};

/* ---- the library --------------------------------------------------------- */

typedef struct NcclLibrary {
#define NCCL_CALL(result, name, params) result(*name) params;
#include "runtime/coll/nccl/nccl.def"
#undef NCCL_CALL
    int version; /* 22809: 2.28.9 */
} NcclLibrary;

/* Opens it, once a process; it stays open. */
Status rt_nccl_library_open(const NcclLibrary **out) MUST_USE;

/* ---- ranks --------------------------------------------------------------- */

typedef struct NcclComm NcclComm;

/* One device of this process, which is one rank of NCCL. */
typedef struct NcclRank {
    NcclComm *comm;
    RtDevice *device;
    int rank;             /* among the devices of all processes */
    pthread_mutex_t lock; /* of the handle: whoever aborts takes it away */
    ncclComm_t handle;    /* NULL: there is none, or no longer */
    double timeout;       /* of its calls, as RtCollOps.done has it */
    bool is_late;         /* one has taken longer, and nothing follows it */
    const RtMemory *scratch;
    const RtMemory *messages; /* that measure.c sends; NULL: it has not */
    RtEvent arrived;          /* the last of them */
    double best;              /* seconds of one */
    size_t used;              /* of it, in a phase */
    void **ptrs;              /* of a kernel */
    int64_t *sizes;           /* of all replicas' blocks */
} NcclRank;

struct NcclComm {
    RtColl coll; /* first */
    const NcclLibrary *nccl;
    Arena *arena;
    RtCommConfig config;
    int each;                  /* replicas of a device */
    NcclRank *ranks;           /* for each device of this process */
    size_t scratch;            /* bytes that a rank needs */
    RtCollInstance *instances; /* newest first */
    atomic_bool stopped;
    pthread_t watcher;
    bool has_watcher;
    RtWaitWord bell; /* rung to stop */
    atomic_bool is_closing;
};

/* Connects all ranks, and sends a byte from each to each. */
Status rt_nccl_connect(RtColl *c) MUST_USE;
/* The ranks give their communicators back, or have been aborted. */
void rt_nccl_disconnect(RtColl *c);
void rt_nccl_abort(RtColl *c);

/* Whether a call of the rank was accepted; else its device fails, and all ranks
 * of this process are aborted. */
bool rt_nccl_check(NcclRank *r, ncclResult_t result, const char *call);

/* The stream of the rank's collectives, with its lock and in a group of calls;
 * NULL: it cannot do anything any more. */
CUstream rt_nccl_begin(NcclRank *r);
/* Ends the group, and waits until NCCL has taken it; this waits for no other
 * rank, but where NCCL has yet to connect what a collective needs: then the
 * rank may be late.  works: none of the calls was refused. */
bool rt_nccl_end(NcclRank *r, bool works);

/* A group of calls for all ranks of this process, by one thread, since each may
 * wait for the others: between the two each rank begins and ends its own. */
bool rt_nccl_begin_all(NcclComm *comm);
bool rt_nccl_end_all(NcclComm *comm, bool works);

/* The first failure of a device; OK: none has failed. */
Status rt_nccl_status(NcclComm *comm) MUST_USE;

/* RtCollOps.measure. */
Status rt_nccl_measure(RtColl *c, const int *partners,
                       IrLinkSpeed *out) MUST_USE;

/* ---- collectives --------------------------------------------------------- */

/* A device's part of an instance. */
typedef struct NcclWork {
    RtCollInstance *instance;
    NcclRank *rank;
    const RtAlgorithm *algorithm;
    _Atomic uint32_t call;
    int announced;             /* replicas of the device, in this call */
    RtAllReducePart **reduces; /* of each replica of the device */
    RtAllGatherPart *gathers;
    int64_t *counts;
    RtEvent end;
} NcclWork;

struct RtCollInstance {
    NcclComm *comm;
    RtCollInstance *next;
    bool gathers;
    RtReduceOp how;
    RtAlgorithmChoice choice;
    int num;
    RtReduceOperand *operands;
    NcclWork *works;                       /* for each device of this process */
    int64_t calls[NUM_IR_COLL_ALGORITHMS]; /* of its first device */
};

/* Of an all_gather each rank sends its own blocks. */
IrCollAlgorithm rt_nccl_algorithm(const NcclWork *w);
/* What an all_reduce enqueues. */
void rt_nccl_reduce(NcclWork *w);
/* The sizes of all replicas' blocks; then the blocks, when the host knows the
 * sizes. */
bool rt_nccl_gather(NcclWork *w);

/* The bytes that a rank receives before it combines, at most. */
size_t rt_nccl_reduce_scratch(const NcclComm *comm, RtAlgorithmChoice choice,
                              int num, const RtReduceOperand *operands);
size_t rt_nccl_gather_scratch(const NcclComm *comm, int64_t most);

#endif
