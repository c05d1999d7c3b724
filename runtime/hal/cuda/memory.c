/*
 * memory.c - memory of GPUs and pinned memory of the host, and copies among
 * them
 *
 * All addresses are unified: memory of the host has one address, for the host
 * and for every GPU, and so has that of a GPU for those that may access it.
 * Kernels may only after they have been connected; copies between two GPUs are
 * the driver's matter.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/fail.h"
#include "runtime/hal/cuda/cuda_impl.h"

enum { PAGE_BYTES = 4096 };

/* ---- allocations --------------------------------------------------------- */

static CUdeviceptr
next_page(CUdeviceptr at)
{
    return (at + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

Status
rt_cuda_room(RtDevice *d, size_t *available, size_t *total)
{
    Cuda *c = rt_cuda_of(d);
    if (!rt_cuda_enter(c))
        return rt_device_status(d);
    TRY_CUDA(c->cu, d->name, cuMemGetInfo_v2, available, total);
    return OK;
}

static Status
no_memory(Cuda *c, size_t bytes)
{
    size_t available = 0, total = 0;
    TRY(rt_cuda_room(&c->device, &available, &total));
    return status_new(STATUS_MACHINE,
                      "no memory for the %zu bytes of %s: %zu of its %zu are "
                      "free",
                      bytes, c->device.name, available, total);
}

static Status
fill_with_zeros(Cuda *c, const CudaMemory *m)
{
    const RtDeviceOps *ops = c->device.ops;
    RtQueue *q = c->device.queues[QUEUE_COMPUTE];
    ops->fill(q, (RtDevicePtr){&m->memory, m->memory.begin}, 0,
              m->memory.bytes - m->memory.begin);
    rt_event_wait(ops->record(q));
    return rt_device_status(&c->device);
}

/* The address of what is left out is that of nothing. */
static void
keep(Cuda *c, CudaMemory *m, size_t bytes, size_t begin, char *host)
{
    m->memory = (RtMemory){.device = &c->device,
                           .bytes = bytes,
                           .address = (uintptr_t)next_page(m->at) - begin,
                           .host = host,
                           .begin = begin};
    m->next = c->memories;
    c->memories = m;
}

/* The driver aligns to 256 bytes at least. */
static Status
allocate(Cuda *c, size_t bytes, size_t begin, CudaMemory *m)
{
    begin = begin / PAGE_BYTES * PAGE_BYTES;
    CUresult r = c->cu->cuMemAlloc_v2(&m->at, bytes - begin + PAGE_BYTES);
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        return no_memory(c, bytes - begin);
    if (r)
        return rt_cuda_failure(c->cu, c->device.name, "cuMemAlloc_v2", r);
    keep(c, m, bytes, begin, NULL);
    return fill_with_zeros(c, m);
}

/* What is pinned is the host's, of which nobody says how much there is. */
static Status
allocate_host(Cuda *c, size_t bytes, size_t begin, CudaMemory *m)
{
    char text[512];
    void *at;
    CUresult r = c->cu->cuMemHostAlloc(&at, bytes + PAGE_BYTES,
                                       CU_MEMHOSTALLOC_PORTABLE |
                                           CU_MEMHOSTALLOC_DEVICEMAP);
    if (r) {
        rt_cuda_explain(c->cu, "cuMemHostAlloc", r, text, sizeof text);
        return status_new(STATUS_MACHINE,
                          "no pinned memory of the host for the %zu bytes that "
                          "%s shares with other GPUs: %s",
                          bytes, c->device.name, text);
    }
    m->at = (CUdeviceptr)(uintptr_t)at;
    keep(c, m, bytes, begin, (char *)(uintptr_t)next_page(m->at));
    memset(m->memory.host, 0, bytes);
    return OK;
}

static Status
allocate_either(RtDevice *d, size_t bytes, size_t begin,
                Status (*get)(Cuda *c, size_t bytes, size_t begin,
                              CudaMemory *m),
                const RtMemory **out)
{
    Cuda *c = rt_cuda_of(d);
    if (!rt_cuda_enter(c))
        return rt_device_status(d);
    CudaMemory *m = fail_here(FAIL_ALLOC) ? NULL : calloc(1, sizeof *m);
    if (!m)
        return status_new(STATUS_MACHINE, "no memory for the handles of %s",
                          d->name);
    Status st = get(c, bytes, begin, m);
    if (st && c->memories != m)
        free(m);
    *out = &m->memory;
    return st;
}

Status
rt_cuda_alloc(RtDevice *d, size_t bytes, size_t begin, bool dense,
              const RtMemory **out)
{
    (void)dense;
    return allocate_either(d, bytes, begin, allocate, out);
}

Status
rt_cuda_alloc_host(RtDevice *d, size_t bytes, const RtMemory **out)
{
    return allocate_either(d, bytes, 0, allocate_host, out);
}

void
rt_cuda_free_memories(Cuda *c)
{
    while (c->memories) {
        CudaMemory *m = c->memories;
        c->memories = m->next;
        if (m->memory.host)
            c->cu->cuMemFreeHost((void *)(uintptr_t)m->at);
        else
            c->cu->cuMemFree_v2(m->at);
        free(m);
    }
}

/* ---- access to other GPUs ------------------------------------------------ */

/* Another part of the process may have enabled it for the same context.  A GPU
 * that could reach each other one may still not reach all of them: without a
 * switch between them it has eight connections. */
static Status
enable_access(Cuda *c, const Cuda *other, bool *reaches)
{
    if (!rt_cuda_enter(c))
        return rt_device_status(&c->device);
    CUresult r = c->cu->cuCtxEnablePeerAccess(other->context, 0);
    *reaches = !r || r == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (*reaches || r == CUDA_ERROR_TOO_MANY_PEERS ||
        r == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
        return OK;
    return rt_cuda_failure(c->cu, c->device.name, "cuCtxEnablePeerAccess", r);
}

Status
rt_cuda_connect(RtDevice *d, RtDevice *other, bool *reaches)
{
    Cuda *c = rt_cuda_of(d);
    int can = 0;
    *reaches = d == other;
    if (d == other)
        return OK;
    TRY_CUDA(c->cu, d->name, cuDeviceCanAccessPeer, &can, c->number,
             rt_cuda_of(other)->number);
    return can ? enable_access(c, rt_cuda_of(other), reaches) : OK;
}

/* ---- copies -------------------------------------------------------------- */

CUdeviceptr
rt_cuda_address(RtDevicePtr p, size_t n)
{
    assert(p.offset <= p.memory->bytes && n <= p.memory->bytes - p.offset);
    (void)n;
    return p.memory->address + p.offset;
}

void
rt_cuda_copy(Cuda *c, CudaQueue *q, RtDevicePtr to, RtDevicePtr from, size_t n)
{
    CUdeviceptr target = rt_cuda_address(to, n),
                source = rt_cuda_address(from, n);
    if (!n)
        return;
    if (to.memory->host || from.memory->host)
        CALL_CUDA(c, cuMemcpyAsync, target, source, n, q->stream);
    else if (to.memory->device == from.memory->device)
        CALL_CUDA(c, cuMemcpyDtoDAsync_v2, target, source, n, q->stream);
    else
        CALL_CUDA(c, cuMemcpyPeerAsync, target,
                  rt_cuda_of(to.memory->device)->context, source,
                  rt_cuda_of(from.memory->device)->context, n, q->stream);
}

/* The last byte of the rows. */
static size_t
extent(const RtRowsCopy *rows, size_t pitch)
{
    return (rows->num_rows - 1) * pitch + rows->row_bytes;
}

static void
copy_each_row(Cuda *c, CudaQueue *q, const RtRowsCopy *rows)
{
    for (size_t i = 0; i < rows->num_rows; i++)
        rt_cuda_copy(c, q, rt_ptr_add(rows->to, i * rows->to_pitch),
                     rt_ptr_add(rows->from, i * rows->from_pitch),
                     rows->row_bytes);
}

/* Rows that are further from each other than the driver takes (2 GiB) are few.
 */
void
rt_cuda_copy_rows(Cuda *c, CudaQueue *q, const RtRowsCopy *rows)
{
    size_t most = (size_t)c->most_pitch;
    if (!rows->num_rows || !rows->row_bytes)
        return;
    if (rows->num_rows == 1 || rows->to_pitch > most ||
        rows->from_pitch > most) {
        copy_each_row(c, q, rows);
        return;
    }
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice =
            rt_cuda_address(rows->from, extent(rows, rows->from_pitch)),
        .srcPitch = rows->from_pitch,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = rt_cuda_address(rows->to, extent(rows, rows->to_pitch)),
        .dstPitch = rows->to_pitch,
        .WidthInBytes = rows->row_bytes,
        .Height = rows->num_rows,
    };
    CALL_CUDA(c, cuMemcpy2DAsync_v2, &copy, q->stream);
}
