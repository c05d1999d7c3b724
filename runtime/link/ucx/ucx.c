/*
 * ucx.c - a link over UCX
 *
 * A process has a worker, whose address the others get, and an endpoint to each
 * of them.  Messages are sent and received with tags of 64 bits, which have the
 * sender's rank.  The library's handling of errors stays off: with it there is
 * no shared memory, and a process that is stopped is not noticed anyway; who is
 * dead or silent the control server says.
 */
#include "runtime/link/ucx/ucx.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "runtime/hal/system.h"
#include "runtime/link/schedule.h"
#include "runtime/link/ucx/library.h"

enum { API_MAJOR = 1, API_MINOR = 10, END_TAG = RT_LINK_NUM_TAGS - 1 };

static const double linger_seconds = 10; /* for others, at the end */
static const UcpRequestParam as_usual;

typedef struct UcxLink {
    RtLink link;
    Arena *arena;
    const UcxLibrary *ucx;
    UcpContext *context;
    UcpWorker *worker;
    UcpAddress *address;
    size_t address_bytes;
    UcpEp **peers;
    int events;   /* the worker's descriptor */
    int readable; /* always: there is something to do already */
    bool is_connected;
    UcsStatus failed; /* UCX_OK: nothing has */
    const char *call; /* what has */
} UcxLink;

static UcxLink *
ucx_of(RtLink *l)
{
    return (UcxLink *)l;
}

static RtLinkAddress
ucx_address(RtLink *l)
{
    return (RtLinkAddress){ucx_of(l)->address, ucx_of(l)->address_bytes};
}

static Status
ucx_connect(RtLink *link, const RtLinkAddress *all)
{
    UcxLink *l = ucx_of(link);
    for (int k = 0; k < link->size; k++) {
        UcpEpParams params = {.field_mask = UCX_HAS_ADDRESS,
                              .address = all[k].bytes};
        if (k != link->rank)
            TRY(rt_ucx_check(
                l->ucx, "ucp_ep_create",
                l->ucx->ucp_ep_create(l->worker, &params, &l->peers[k])));
    }
    l->is_connected = true;
    return OK;
}

/* ---- transfers ----------------------------------------------------------- */

static void
fail(UcxLink *l, const char *call, UcsStatus status)
{
    if (l->failed)
        return;
    l->failed = status;
    l->call = call; /* progress says so */
}

static uint64_t
tag_of(int sender, uint32_t tag)
{
    return (uint64_t)sender << 32 | tag;
}

/* A request, or NULL: it has ended, or failed. */
static void *
begun(UcxLink *l, const char *call, UcsRequest r)
{
    if ((uintptr_t)r < (uintptr_t)(intptr_t)UCX_LAST_ERROR)
        return r;
    fail(l, call, (UcsStatus)(intptr_t)r);
    return NULL;
}

static void *
begin_send(UcxLink *l, int peer, uint32_t tag, const void *from, size_t n)
{
    return begun(l, "ucp_tag_send_nbx",
                 l->ucx->ucp_tag_send_nbx(l->peers[peer], from, n,
                                          tag_of(l->link.rank, tag),
                                          &as_usual));
}

static void *
begin_recv(UcxLink *l, int peer, uint32_t tag, void *to, size_t n)
{
    return begun(l, "ucp_tag_recv_nbx",
                 l->ucx->ucp_tag_recv_nbx(l->worker, to, n, tag_of(peer, tag),
                                          UINT64_MAX, &as_usual));
}

/* Whether a request has ended, which gives it back. */
static bool
has_ended(UcxLink *l, const char *call, void **request)
{
    if (!*request)
        return true;
    UcsStatus status = l->ucx->ucp_request_check_status(*request);
    if (status == UCX_IN_PROGRESS)
        return false;
    l->ucx->ucp_request_free(*request);
    *request = NULL;
    if (status < UCX_OK)
        fail(l, call, status);
    return true;
}

static void
ucx_send(RtLink *link, RtTransfer *t)
{
    void *r = begin_send(ucx_of(link), t->peer, t->tag, t->address, t->bytes);
    t->handle[0] = (uintptr_t)r;
}

static void
ucx_recv(RtLink *link, RtTransfer *t)
{
    void *r = begin_recv(ucx_of(link), t->peer, t->tag, t->address, t->bytes);
    t->handle[0] = (uintptr_t)r;
}

static Status
ucx_progress(RtLink *link, bool *moved)
{
    UcxLink *l = ucx_of(link);
    while (!l->failed && l->ucx->ucp_worker_progress(l->worker))
        *moved = true;
    return rt_ucx_check(l->ucx, l->call, l->failed);
}

static bool
ucx_test(RtLink *link, RtTransfer *t)
{
    UcxLink *l = ucx_of(link);
    void *request = (void *)(uintptr_t)t->handle[0];
    bool ended = has_ended(
        l, t->sends ? "ucp_tag_send_nbx" : "ucp_tag_recv_nbx", &request);
    t->handle[0] = (uintptr_t)request;
    return ended && !l->failed;
}

/* What is sent cannot be called back.  A request that is free gives itself back
 * when it ends. */
static void
ucx_cancel(RtLink *link, RtTransfer *t)
{
    UcxLink *l = ucx_of(link);
    void *request = (void *)(uintptr_t)t->handle[0];
    if (!request || l->failed)
        return;
    if (!t->sends)
        l->ucx->ucp_request_cancel(l->worker, request);
    l->ucx->ucp_request_free(request);
    t->handle[0] = 0;
}

/* The worker's descriptor tells of what comes after it was armed. */
static int
ucx_wait_fd(RtLink *link)
{
    UcxLink *l = ucx_of(link);
    return l->ucx->ucp_worker_arm(l->worker) == UCX_OK ? l->events
                                                       : l->readable;
}

/* ---- the end ------------------------------------------------------------- */

/* Makes progress until a request has ended; false: not in time. */
static bool
finish(UcxLink *l, const char *call, void *request, double deadline)
{
    while (!has_ended(l, call, &request)) {
        if (clock_seconds() > deadline) {
            l->ucx->ucp_request_free(request);
            return false;
        }
        l->ucx->ucp_worker_progress(l->worker);
    }
    return !l->failed;
}

/* The worker has to be there until all have what it sent: all meet, in rounds,
 * and have said so before they go. */
static void
meet(UcxLink *l)
{
    RtBruckRound r;
    char own = 0, other;
    double deadline = clock_seconds() + linger_seconds;
    for (int k = 0; rt_bruck_round(l->link.rank, l->link.size, k, &r); k++) {
        uint32_t tag = END_TAG - (uint32_t)k;
        void *recv = begin_recv(l, r.from, tag, &other, 1);
        void *send = begin_send(l, r.to, tag, &own, 1);
        if (!finish(l, "ucp_tag_send_nbx", send, deadline) ||
            !finish(l, "ucp_tag_recv_nbx", recv, deadline))
            return;
    }
    void *flush = begun(l, "ucp_worker_flush_nbx",
                        l->ucx->ucp_worker_flush_nbx(l->worker, &as_usual));
    finish(l, "ucp_worker_flush_nbx", flush, deadline);
}

static void
destroy_worker(UcxLink *l)
{
    if (l->address)
        l->ucx->ucp_worker_release_address(l->worker, l->address);
    if (l->worker)
        l->ucx->ucp_worker_destroy(l->worker);
    if (l->context)
        l->ucx->ucp_cleanup(l->context);
}

/* After a failure the library is left as it is: the process ends. */
static void
ucx_close(RtLink *link, bool failed)
{
    UcxLink *l = ucx_of(link);
    if (l->is_connected && !failed && !l->failed)
        meet(l);
    if (!l->is_connected || (!failed && !l->failed))
        destroy_worker(l);
    if (l->readable >= 0)
        close(l->readable);
    arena_release(l->arena);
}

static const RtLinkOps ucx_ops = {
    .name = "ucx",
    .address = ucx_address,
    .connect = ucx_connect,
    .send = ucx_send,
    .recv = ucx_recv,
    .progress = ucx_progress,
    .test = ucx_test,
    .cancel = ucx_cancel,
    .wait_fd = ucx_wait_fd,
    .close = ucx_close,
};

/* ---- opening ------------------------------------------------------------- */

static Status
init_context(UcxLink *l, UcpConfig *config, bool is_local)
{
    const UcxLibrary *ucx = l->ucx;
    UcpParams params = {.field_mask = UCX_HAS_FEATURES,
                        .features = UCX_TAGS | UCX_WAKEUP};
    if (is_local)
        TRY(rt_ucx_check(ucx, "ucp_config_modify",
                         ucx->ucp_config_modify(config, "NET_DEVICES", "lo")));
    return rt_ucx_check(ucx, "ucp_init_version",
                        ucx->ucp_init_version(API_MAJOR, API_MINOR, &params,
                                              config, &l->context));
}

static Status
open_context(UcxLink *l, bool is_local)
{
    UcpConfig *config;
    TRY(rt_ucx_check(l->ucx, "ucp_config_read",
                     l->ucx->ucp_config_read(NULL, NULL, &config)));
    Status st = init_context(l, config, is_local);
    l->ucx->ucp_config_release(config);
    return st;
}

/* Made by main's thread, and used by the carrier's. */
static Status
open_worker(UcxLink *l)
{
    const UcxLibrary *ucx = l->ucx;
    UcpWorkerParams params = {.field_mask = UCX_HAS_THREAD_MODE,
                              .thread_mode = UCX_SERIALIZED};
    TRY(rt_ucx_check(ucx, "ucp_worker_create",
                     ucx->ucp_worker_create(l->context, &params, &l->worker)));
    TRY(rt_ucx_check(ucx, "ucp_worker_get_efd",
                     ucx->ucp_worker_get_efd(l->worker, &l->events)));
    return rt_ucx_check(
        ucx, "ucp_worker_get_address",
        ucx->ucp_worker_get_address(l->worker, &l->address, &l->address_bytes));
}

static Status
open_all(UcxLink *l, bool is_local)
{
    l->readable = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->readable < 0)
        return rt_system_error("eventfd");
    TRY(open_context(l, is_local));
    return open_worker(l);
}

Status
rt_link_ucx_open(int rank, int size, bool is_local, RtLink **out)
{
    const UcxLibrary *ucx;
    TRY(rt_ucx_library_open(&ucx));
    Arena *a = arena_new(NULL, "messages over UCX");
    UcxLink *l = NEW(a, UcxLink);
    l->link = (RtLink){&ucx_ops, rank, size, -1};
    l->arena = a;
    l->ucx = ucx;
    l->peers = NEW_ARRAY(a, UcpEp *, (size_t)size);
    Status st = open_all(l, is_local);
    if (st) {
        ucx_close(&l->link, true);
        return st;
    }
    *out = &l->link;
    return OK;
}
