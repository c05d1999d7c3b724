/*
 * peers.h - what the files of the transport between devices share
 */
#ifndef TFD_RUNTIME_COLL_PEERS_PEERS_H
#define TFD_RUNTIME_COLL_PEERS_PEERS_H

#include "runtime/coll/local/local.h"
#include "runtime/coll/transport.h"

enum {
    PEERS_GRAIN = 4096, /* elements that a thread of a device combines */
    PEERS_STAGED = 3    /* phases through memory of the host */
};

typedef struct PeersComm {
    RtLocalComm local;
    const RtMemory *hosts; /* NULL: devices reach each other's memory */
} PeersComm;

typedef struct PeersInstance {
    RtCollInstance base;
    int num_launches; /* that a device has in a call, at most */
    /* In the memory of the host, where there is any: operand i of replica r is
     * at staged_at[i] + r * stride[i], behind the last replica's the result.
     * Of an all_gather the blocks of all replicas, from staged_at[0] on. */
    size_t *staged_at, *stride;
} PeersInstance;

/* What devices are told to launch, until they have. */
typedef struct PeersLaunch {
    RtKernelLaunch launch;
    void **ptrs;     /* operands of all replicas, and the result */
    int64_t dims[3]; /* elements, elements, 0 */
} PeersLaunch;

/* Of RtLocalWork; others look at the events, which are written before they are
 * announced. */
typedef struct PeersWork {
    RtEvent ready; /* its replicas' operands are, and results may be written */
    RtEvent *ends; /* of each phase */
    int num_launches;
    PeersLaunch *launches;
} PeersWork;

Status rt_peers_all_reduce_new(RtColl *c, RtReduceOp how, RtCollConfig config,
                               int num, const RtReduceOperand *operands,
                               RtCollInstance **out) MUST_USE;
Status rt_peers_all_gather_new(RtColl *c, RtCollAlgorithm algorithm,
                               int64_t most, RtCollInstance **out) MUST_USE;
Status rt_peers_connect(RtColl *c) MUST_USE;

/* Where an operand of a replica is in the memory of the host; the result is
 * behind that of the last one. */
RtDevicePtr rt_peers_staged(const RtLocalWork *w, int i, int replica);
/* The same for the blocks of a replica. */
RtDevicePtr rt_peers_staged_blocks(const RtLocalWork *w, int replica);

#endif
