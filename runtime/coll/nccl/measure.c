/*
 * measure.c - how fast pairs of ranks exchange messages
 *
 * A rank and its partner send each other a message in one group, some times in
 * a row; the host measures until the last one has arrived on the device.  One
 * thread does so for all ranks of the process, in one group, as two of them may
 * be partners.
 */
#include <string.h>
#include "runtime/coll/nccl/nccl_impl.h"
#include "runtime/coll/transport.h"
#include "runtime/hal/cuda/native.h"
#include "runtime/link/carrier.h"

enum {
    SHORT = 8,
    LONG = 4 << 20,
    SHORT_TIMES = 20,
    LONG_TIMES = 2,
    ROUNDS = 2 /* of which the best counts; one more comes first */
};

/* A message of each rank to its partner, -1: it has none. */
typedef struct Message {
    const int *partners;
    size_t bytes;
    int times;
} Message;

static Status
alloc_room(NcclComm *comm)
{
    for (int i = 0; i < comm->coll.num_devices; i++) {
        NcclRank *r = &comm->ranks[i];
        RtDevice *d = r->device;
        if (r->messages)
            continue;
        TRY(d->ops->alloc(d, 2 * LONG, 0, true, &r->messages));
        d->ops->fill(d->queues[QUEUE_COLL], (RtDevicePtr){r->messages, 0}, 0,
                     2 * LONG);
    }
    return OK;
}

static bool
exchange(NcclRank *r, int partner, size_t n)
{
    const NcclLibrary *nccl = r->comm->nccl;
    char *at = rt_ptr_address((RtDevicePtr){r->messages, 0});
    CUstream stream = rt_nccl_begin(r);
    if (!stream)
        return false;
    bool works =
        rt_nccl_check(
            r, nccl->ncclSend(at, n, ncclUint8, partner, r->handle, stream),
            "ncclSend") &&
        rt_nccl_check(
            r,
            nccl->ncclRecv(at + LONG, n, ncclUint8, partner, r->handle, stream),
            "ncclRecv");
    return rt_nccl_end(r, works);
}

static bool
exchange_all(NcclComm *comm, const Message *m)
{
    bool works = rt_nccl_begin_all(comm);
    if (!works)
        return false;
    for (int i = 0; works && i < comm->coll.num_devices; i++)
        if (m->partners[i] >= 0)
            works = exchange(&comm->ranks[i], m->partners[i], m->bytes);
    return rt_nccl_end_all(comm, works);
}

/* false: it has not come in time, or never will. */
static bool
wait_for_last(NcclRank *r)
{
    RtWaited waited = {0};
    while (!r->device->ops->wait(r->arrived)) {
        if (atomic_load(&r->comm->stopped))
            return false;
        if (rt_coll_is_late(&r->comm->config, 0.0, &waited)) {
            rt_device_fail(r->device,
                           "%s has failed: a message of NCCL has not come "
                           "after %g seconds",
                           r->device->name, r->comm->config.timeout);
            return false;
        }
    }
    return true;
}

/* What is less than before counts. */
static bool
time_once(NcclComm *comm, const Message *m, int times)
{
    double begin = comm->config.clock();
    for (int k = 0; k < times; k++)
        if (!exchange_all(comm, m))
            return false;
    for (int i = 0; i < comm->coll.num_devices; i++) {
        NcclRank *r = &comm->ranks[i];
        r->arrived = r->device->ops->record(r->device->queues[QUEUE_COLL]);
    }
    for (int i = 0; i < comm->coll.num_devices; i++) {
        NcclRank *r = &comm->ranks[i];
        if (!wait_for_last(r))
            return false;
        double seconds = (comm->config.clock() - begin) / times;
        r->best = seconds < r->best ? seconds : r->best;
    }
    return true;
}

/* After the first one partners are at the same place. */
static Status
time_message(NcclComm *comm, Message m)
{
    bool works = time_once(comm, &m, 1);
    for (int i = 0; i < comm->coll.num_devices; i++)
        comm->ranks[i].best = comm->config.timeout;
    for (int k = 0; works && k < ROUNDS; k++)
        works = time_once(comm, &m, m.times);
    TRY(rt_nccl_status(comm));
    return works ? OK : rt_messages_stopped();
}

Status
rt_nccl_measure(RtColl *c, const int *partners, IrLinkSpeed *out)
{
    NcclComm *comm = (NcclComm *)c;
    TRY(alloc_room(comm));
    TRY(time_message(comm, (Message){partners, SHORT, SHORT_TIMES}));
    for (int i = 0; i < c->num_devices; i++)
        out[i].latency = comm->ranks[i].best;
    TRY(time_message(comm, (Message){partners, LONG, LONG_TIMES}));
    for (int i = 0; i < c->num_devices; i++) {
        double whole = comm->ranks[i].best, latency = out[i].latency;
        out[i].rate = LONG / (whole > latency ? whole - latency : whole);
    }
    return OK;
}
