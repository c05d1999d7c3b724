/*
 * exchange.h - how the processes of a job set up what joins them
 *
 * Before they share memory, or have links, processes know each other only
 * through what started them (rt_job_exchange).  It hands everybody's bytes to
 * everybody, which is slow, and enough to say where memory and links are.
 */
#ifndef TFD_RUNTIME_CLUSTER_SEGMENTS_EXCHANGE_H
#define TFD_RUNTIME_CLUSTER_SEGMENTS_EXCHANGE_H

#include "runtime/cluster/control/job.h"

typedef struct RtExchange {
    int rank, size; /* of this process, and how many there are */
    /* As rt_job_exchange, for data. */
    Status (*exchange)(void *data, const char *name, const void *own,
                       size_t bytes, Arena *a, RtBytes **all);
    void *data;
} RtExchange;

static inline Status
rt_exchange_bytes(const RtExchange *x, const char *name, const void *own,
                  size_t bytes, Arena *a, RtBytes **all)
{
    return x->exchange(x->data, name, own, bytes, a, all);
}

static inline Status
rt_job_exchange_of(void *job, const char *name, const void *own, size_t bytes,
                   Arena *a, RtBytes **all)
{
    return rt_job_exchange(job, name, own, bytes, a, all);
}

/* That of a job, as long as it is open. */
static inline RtExchange
rt_exchange_of_job(RtJob *job)
{
    return (RtExchange){job->rank, job->size, rt_job_exchange_of, job};
}

#endif
