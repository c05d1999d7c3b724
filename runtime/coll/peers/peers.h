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
    bool *reaches; /* [i * devices + k]: kernels of i reach k's memory */
    /* The place among those whose memory some device does not reach, or -1. */
    int *staged;
    int num_staged;
    const RtMemory *hosts; /* memory of the host; NULL: none is staged */
} PeersComm;

typedef struct PeersInstance {
    RtCollInstance base;
    int num_launches; /* that a device has in a call, at most */
    /* In the memory of the host, where there is any: operand i of replica r of
     * those of staged devices is at staged_at[i] + r * stride[i], behind the
     * last one's the result.  Of an all_gather the blocks of these replicas,
     * from staged_at[0] on. */
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

Status rt_peers_all_reduce_new(RtColl *c, RtReduceOp how,
                               RtAlgorithmChoice choice, int num,
                               const RtReduceOperand *operands,
                               RtCollInstance **out) MUST_USE;
Status rt_peers_all_gather_new(RtColl *c, RtAlgorithmChoice choice,
                               int64_t most, RtCollInstance **out) MUST_USE;
Status rt_peers_connect(RtColl *c) MUST_USE;

/* Whether kernels of one device reach the memory of another one. */
bool rt_peers_reach(const RtCollInstance *s, int device, int other);
/* Whether what others read of a device is in the memory of the host, too. */
bool rt_peers_is_staged(const RtCollInstance *s, int device);
/* Where an operand of a replica of a staged device, its blocks, and a result
 * are in the memory of the host. */
RtDevicePtr rt_peers_staged_operand(const RtCollInstance *s, int i,
                                    int replica);
RtDevicePtr rt_peers_staged_blocks(const RtCollInstance *s, int replica);
RtDevicePtr rt_peers_staged_result(const RtCollInstance *s, int i);

#endif
