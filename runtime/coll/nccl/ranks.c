/*
 * ranks.c - the ranks of NCCL that this process has: one for each device
 *
 * Communicators do not block (ncclConfig_t.blocking is 0): making one and
 * finalizing it go on while the host asks for their state, so each can be given
 * up.  When all are there each rank sends a byte to each, so that NCCL makes
 * the connections of messages now, and not in the first step; it may make those
 * of collectives when all ranks have come to the first one.
 *
 * A thread, the watcher, asks ten times a second for errors that NCCL finds by
 * itself, of a peer that is gone; the device fails then.  It also aborts the
 * communicators, when one has failed or the run ends: ncclCommAbort may wait
 * for ever, and whoever ends the run must not.
 */
#include <assert.h>
#include <string.h>
#include <time.h>
#include "ir/base/thread.h"
#include "runtime/coll/nccl/nccl_impl.h"
#include "runtime/coll/transport.h"
#include "runtime/hal/cuda/native.h"

enum { PAUSE_NS = 20 * 1000, WARM_BYTES = 2 * NCCL_ALIGN };

/* ---- failures ------------------------------------------------------------ */

static void
ask_to_stop(NcclComm *comm)
{
    atomic_store(&comm->stopped, true);
    rt_wait_word_add(&comm->bell, 1);
}

static const char *
last_error(const NcclRank *r)
{
    const char *text = r->comm->nccl->ncclGetLastError(r->handle);
    return text && *text ? text : "it gives no reason";
}

bool
rt_nccl_check(NcclRank *r, ncclResult_t result, const char *call)
{
    if (result == ncclSuccess || result == ncclInProgress)
        return true;
    rt_device_fail(r->device, "%s has failed: %s says %s (%s)", r->device->name,
                   call, r->comm->nccl->ncclGetErrorString(result),
                   last_error(r));
    ask_to_stop(r->comm);
    return false;
}

#define CALL_NCCL(r, name, ...)                                                \
    rt_nccl_check(r, (r)->comm->nccl->name(__VA_ARGS__), #name)

/* ---- waiting for NCCL itself --------------------------------------------- */

/* Whether the rank's last call is complete; *works: without an error. */
static bool
is_settled(NcclRank *r, bool *works)
{
    ncclResult_t state = ncclSuccess;
    pthread_mutex_lock(&r->lock);
    *works = r->handle &&
             CALL_NCCL(r, ncclCommGetAsyncError, r->handle, &state) &&
             rt_nccl_check(r, state, "ncclCommGetAsyncError");
    pthread_mutex_unlock(&r->lock);
    return !*works || state != ncclInProgress;
}

/* false: it has failed, or is late. */
static bool
wait_until_settled(NcclRank *r, double timeout)
{
    static const struct timespec pause = {0, PAUSE_NS};
    RtWaited waited = {0};
    bool works;
    r->is_late = false;
    while (!is_settled(r, &works)) {
        if (atomic_load(&r->comm->stopped))
            return false;
        r->is_late = rt_coll_is_late(&r->comm->config, timeout, &waited);
        if (r->is_late)
            return false;
        nanosleep(&pause, NULL);
    }
    return works;
}

/* Before and after the program: late is the device's failure. */
static bool
settle(NcclRank *r, const char *what)
{
    bool works = wait_until_settled(r, 0.0);
    if (r->is_late) {
        rt_device_fail(r->device,
                       "%s has failed: %s has not ended after %g seconds",
                       r->device->name, what, r->comm->config.timeout);
        ask_to_stop(r->comm);
    }
    return works;
}

/* ---- groups of calls ----------------------------------------------------- */

static bool
start_group(NcclRank *r)
{
    return rt_nccl_check(r, r->comm->nccl->ncclGroupStart(), "ncclGroupStart");
}

CUstream
rt_nccl_begin(NcclRank *r)
{
    pthread_mutex_lock(&r->lock);
    bool is_usable =
        r->handle && !r->is_late && !atomic_load(&r->comm->stopped);
    CUstream stream =
        is_usable ? rt_cuda_native_stream(r->device->queues[QUEUE_COLL]) : NULL;
    if (stream && start_group(r))
        return stream;
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

bool
rt_nccl_end(NcclRank *r, bool works)
{
    ncclResult_t result = r->comm->nccl->ncclGroupEnd();
    works = works && rt_nccl_check(r, result, "ncclGroupEnd");
    pthread_mutex_unlock(&r->lock);
    return works &&
           (result == ncclSuccess || wait_until_settled(r, r->timeout));
}

bool
rt_nccl_begin_all(NcclComm *comm)
{
    return start_group(&comm->ranks[0]);
}

bool
rt_nccl_end_all(NcclComm *comm, bool works)
{
    ncclResult_t result = comm->nccl->ncclGroupEnd();
    works = works && rt_nccl_check(&comm->ranks[0], result, "ncclGroupEnd");
    for (int i = 0; works && i < comm->coll.num_devices; i++)
        works = settle(&comm->ranks[i], "ncclGroupEnd");
    return works;
}

/* ---- the watcher --------------------------------------------------------- */

static void
abort_rank(NcclRank *r)
{
    pthread_mutex_lock(&r->lock);
    if (r->handle) {
        rt_cuda_native_enter(r->device);
        r->comm->nccl->ncclCommAbort(r->handle);
    }
    r->handle = NULL;
    pthread_mutex_unlock(&r->lock);
}

static void
abort_all(NcclComm *comm)
{
    for (int i = 0; i < comm->coll.num_devices; i++)
        abort_rank(&comm->ranks[i]);
}

static void *
watch(void *data)
{
    NcclComm *comm = data;
    bool works;
    while (!atomic_load(&comm->is_closing) && !atomic_load(&comm->stopped)) {
        uint32_t rung = rt_wait_word_load(&comm->bell);
        for (int i = 0; i < comm->coll.num_devices; i++)
            is_settled(&comm->ranks[i], &works);
        if (!atomic_load(&comm->is_closing) && !atomic_load(&comm->stopped))
            rt_wait_word_wait(&comm->bell, rung, false);
    }
    if (atomic_load(&comm->stopped))
        abort_all(comm);
    return NULL;
}

void
rt_nccl_abort(RtColl *c)
{
    ask_to_stop((NcclComm *)c);
}

/* ---- connecting ---------------------------------------------------------- */

Status
rt_nccl_status(NcclComm *comm)
{
    for (int i = 0; i < comm->coll.num_devices; i++)
        TRY(rt_device_status(comm->ranks[i].device));
    return OK;
}

static bool
make_handle(NcclRank *r, ncclUniqueId id)
{
    ncclConfig_t config = NCCL_CONFIG_2_18;
    config.blocking = 0;
    return rt_cuda_native_enter(r->device) &&
           CALL_NCCL(r, ncclCommInitRankConfig, &r->handle,
                     r->comm->config.num_participants, id, r->rank, &config);
}

/* The first process makes it, and gives it to the others, whose exchange ends
 * with the job if it cannot. */
static Status
get_id(NcclComm *comm, ncclUniqueId *id)
{
    RtBytes *all;
    const RtExchange *exchange = comm->config.exchange;
    bool is_first = comm->config.rank == 0;
    memcpy(id, comm->config.id.bytes, sizeof *id);
    if (comm->config.size > 1 && !exchange)
        return OK;
    if (is_first && !CALL_NCCL(&comm->ranks[0], ncclGetUniqueId, id))
        return rt_nccl_status(comm);
    if (comm->config.size == 1)
        return OK;
    TRY(rt_exchange_bytes(exchange, "the id of NCCL", id,
                          is_first ? sizeof *id : 0, comm->arena, &all));
    assert(all[0].len == sizeof *id);
    memcpy(id, all[0].data, sizeof *id);
    return OK;
}

static bool
make_handles(NcclComm *comm, ncclUniqueId id)
{
    NcclRank *first = &comm->ranks[0];
    if (!start_group(first))
        return false;
    bool works = true;
    for (int i = 0; works && i < comm->coll.num_devices; i++)
        works = make_handle(&comm->ranks[i], id);
    ncclResult_t result = comm->nccl->ncclGroupEnd();
    works = works && rt_nccl_check(first, result, "ncclGroupEnd");
    for (int i = 0; works && i < comm->coll.num_devices; i++)
        works = settle(&comm->ranks[i], "ncclCommInitRankConfig");
    return works;
}

/* Byte 0 goes to all; what comes is behind it. */
static bool
warm_up(NcclRank *r)
{
    const NcclLibrary *nccl = r->comm->nccl;
    char *from = rt_ptr_address((RtDevicePtr){r->scratch, 0});
    int n = r->comm->config.num_participants;
    CUstream stream = rt_nccl_begin(r);
    if (!stream)
        return false;
    bool works = true;
    for (int k = 0; works && k < n; k++)
        if (k != r->rank)
            works =
                rt_nccl_check(
                    r, nccl->ncclSend(from, 1, ncclUint8, k, r->handle, stream),
                    "ncclSend") &&
                rt_nccl_check(r,
                              nccl->ncclRecv(from + NCCL_ALIGN + k, 1,
                                             ncclUint8, k, r->handle, stream),
                              "ncclRecv");
    return rt_nccl_end(r, works);
}

static bool
warm_up_all(NcclComm *comm)
{
    bool works = rt_nccl_begin_all(comm);
    if (!works)
        return false;
    for (int i = 0; works && i < comm->coll.num_devices; i++)
        works = warm_up(&comm->ranks[i]);
    return rt_nccl_end_all(comm, works);
}

static Status
allocate(NcclComm *comm)
{
    size_t num_replicas = (size_t)comm->coll.num_replicas;
    size_t sizes = num_replicas * sizeof(int64_t) + NCCL_ALIGN;
    size_t bytes = comm->scratch + sizes + WARM_BYTES;
    bytes += (size_t)comm->config.num_participants;
    for (int i = 0; i < comm->coll.num_devices; i++) {
        NcclRank *r = &comm->ranks[i];
        RtDevice *d = comm->config.devices[i];
        r->device = d;
        TRY(d->ops->alloc(d, bytes, 0, true, &r->scratch));
        d->ops->fill(d->queues[QUEUE_COLL], (RtDevicePtr){r->scratch, 0}, 0,
                     bytes);
    }
    return OK;
}

static Status
connect_ranks(NcclComm *comm)
{
    ncclUniqueId id;
    TRY(rt_nccl_library_open(&comm->nccl));
    TRY(allocate(comm));
    TRY(get_id(comm, &id));
    if (!make_handles(comm, id) || !warm_up_all(comm))
        return rt_nccl_status(comm);
    return OK;
}

static Status
start_watcher(NcclComm *comm)
{
    Status st = thread_start(&comm->watcher, watch, comm, "NCCL's watcher");
    comm->has_watcher = !st;
    if (st)
        abort_all(comm);
    return st;
}

/* Of ranks that do not connect the watcher has nothing to do but abort. */
Status
rt_nccl_connect(RtColl *c)
{
    NcclComm *comm = (NcclComm *)c;
    Status st = connect_ranks(comm);
    if (!st)
        return start_watcher(comm);
    ask_to_stop(comm);
    status_free(start_watcher(comm));
    return st;
}

/* ---- disconnecting ------------------------------------------------------- */

static bool
finalize(NcclRank *r)
{
    pthread_mutex_lock(&r->lock);
    bool works = r->handle && rt_cuda_native_enter(r->device) &&
                 CALL_NCCL(r, ncclCommFinalize, r->handle);
    pthread_mutex_unlock(&r->lock);
    return works;
}

static void
destroy(NcclRank *r)
{
    if (r->handle && rt_cuda_native_enter(r->device) &&
        CALL_NCCL(r, ncclCommDestroy, r->handle))
        r->handle = NULL;
}

void
rt_nccl_disconnect(RtColl *c)
{
    NcclComm *comm = (NcclComm *)c;
    bool works = true;
    atomic_store(&comm->is_closing, true);
    rt_wait_word_add(&comm->bell, 1);
    if (comm->has_watcher)
        pthread_join(comm->watcher, NULL);
    comm->has_watcher = false;
    for (int i = 0; works && i < c->num_devices; i++)
        works = finalize(&comm->ranks[i]);
    for (int i = 0; works && i < c->num_devices; i++)
        works = settle(&comm->ranks[i], "ncclCommFinalize");
    for (int i = 0; works && i < c->num_devices; i++)
        destroy(&comm->ranks[i]);
    abort_all(comm);
}
