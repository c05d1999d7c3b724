/*
 * transport.h - the transports that communicators can be opened on
 *
 * A transport is one folder beside this file: it joins replicas that reach each
 * other in one way (shared memory, NCCL, MPI, sockets), and executes the
 * schedules of algorithm/algorithm.h.
 */
#ifndef TFD_RUNTIME_COLL_TRANSPORT_H
#define TFD_RUNTIME_COLL_TRANSPORT_H

#include "runtime/coll/coll.h"

typedef struct RtTransport {
    const char *name;
    int max_processes; /* 0: any number */
    /* What it needs of devices. */
    bool needs_tasks;         /* RtDeviceOps.run */
    bool needs_engine;        /* QUEUE_COLL beside programs */
    const RtDeviceCaps *caps; /* their kind; NULL: any */
    bool needs_carrier;       /* RtCommConfig.carrier */
    bool shares_memory; /* of its devices, if there are several processes */
    /* Sets *out to NULL where it does not join these processes, and why to the
     * reason, equal in all of them. */
    Status (*open)(const RtCommConfig *config, RtColl **out, Str *why);
} RtTransport;

/* Whether a wait takes longer than timeout, 0: than config says. */
static inline bool
rt_coll_is_late(const RtCommConfig *config, double timeout, RtWaited *waited)
{
    double most = timeout > 0.0 ? timeout : config->timeout;
    return rt_waited(waited, config->clock()) > most;
}

/* coll/shm: the replicas of one process, or of those of one machine, by tasks
 * of their devices on memory that all of them reach. */
Status rt_coll_shm_open(const RtCommConfig *config, RtColl **out,
                        Str *why) MUST_USE;

/* coll/peers: the replicas of one process, by kernels and copies that its
 * devices enqueue. */
Status rt_coll_peers_open(const RtCommConfig *config, RtColl **out,
                          Str *why) MUST_USE;
/* coll/nccl: GPUs of any number of processes, over NVIDIA's library. */
Status rt_coll_nccl_open(const RtCommConfig *config, RtColl **out,
                         Str *why) MUST_USE;
/* coll/messages: CPU devices of processes that a link joins. */
Status rt_coll_messages_open(const RtCommConfig *config, RtColl **out,
                             Str *why) MUST_USE;

#endif
