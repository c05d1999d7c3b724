/*
 * copies.c - memory of devices and of the host, and work that moves it
 */
#include <stdlib.h>
#include <string.h>
#include "tests/cuda/fake/calls.h"

/* ---- memory -------------------------------------------------------------- */

EXPORT
cuMemAlloc_v2(CUdeviceptr *at, size_t bytes)
{
    ENTER(CONTEXT);
    return fake_memory_new(fake_current, bytes, false, at);
}

static void
give_back(const char *call, Memory *m)
{
    fake_check_context(call, m->context, "memory");
    for (int i = 0; i < fake_world.options.devices; i++) {
        Device *d = &fake_world.devices[i];
        if (fake_reaches(d, m) && fake_num_pending(&d->context) &&
            !fake_may_leave_work())
            fake_complain("%s while operations are pending%s", call,
                          d == m->context->device ? "" : " on another device");
    }
    fake_memory_free(m);
}

EXPORT
cuMemFree_v2(CUdeviceptr at)
{
    ENTER(GIVES_BACK);
    Memory *m = fake_memory_find(at, 0);
    if (!m || m->at != at || m->is_pinned)
        fake_complain("%s of what is no allocation, or no longer", __func__);
    give_back(__func__, m);
    return failed;
}

EXPORT
cuMemGetInfo_v2(size_t *available, size_t *total)
{
    ENTER(CONTEXT);
    *total = fake_world.options.memory;
    *available = *total - fake_current->device->used;
    return CUDA_SUCCESS;
}

EXPORT
cuMemHostAlloc(void **at, size_t bytes, unsigned int flags)
{
    ENTER(CONTEXT);
    if (flags == (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)) {
        CUdeviceptr shared;
        CUresult wrong = fake_memory_new(fake_current, bytes, true, &shared);
        *at = wrong ? NULL : (void *)(uintptr_t)shared;
        return wrong;
    }
    if (flags || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    Pinned *p = fake_alloc(sizeof *p);
    *p = (Pinned){.serial = ++fake_world.serials,
                  .context = fake_current,
                  .at = fake_alloc(bytes),
                  .bytes = bytes,
                  .next = fake_world.pinned};
    fake_world.pinned = p;
    fake_current->device->pinned++;
    *at = p->at;
    return CUDA_SUCCESS;
}

static bool
uses_pinned(const Op *op, const void *data)
{
    return op->uses.pinned == ((const Pinned *)data)->serial;
}

EXPORT
cuMemFreeHost(void *at)
{
    ENTER(GIVES_BACK);
    Memory *m = fake_memory_find((CUdeviceptr)(uintptr_t)at, 0);
    if (m && m->is_pinned && m->at == (CUdeviceptr)(uintptr_t)at) {
        give_back(__func__, m);
        return failed;
    }
    Pinned **p = &fake_world.pinned;
    while (*p && (*p)->at != at)
        p = &(*p)->next;
    if (!*p)
        fake_complain("%s of what is not pinned memory, or no longer",
                      __func__);
    Pinned *gone = *p;
    if (fake_is_pending(uses_pinned, gone) && !fake_may_leave_work())
        fake_complain("%s of memory that a copy has yet to use", __func__);
    *p = gone->next;
    gone->context->device->pinned--;
    free(gone->at);
    free(gone);
    return failed;
}

/* ---- work ---------------------------------------------------------------- */

CUresult
fake_enqueue(const char *call, CUstream stream, Op op)
{
    if (!stream)
        fake_complain("%s on the stream that all others wait for", call);
    fake_check_context(call, stream->context, "a stream");
    op.call = call;
    op.device = stream->context->device;
    fake_check_uses(&op);
    if (stream->capture)
        return fake_capture(stream, &op);
    fake_count(&fake_world.counts, &op);
    fake_add(stream, &op);
    return CUDA_SUCCESS;
}

EXPORT
cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                     CUstream stream)
{
    ENTER(CONTEXT);
    return fake_enqueue(
        __func__, stream,
        (Op){.kind = OP_HTOD, .to = to, .host_from = from, .bytes = bytes});
}

EXPORT
cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(CONTEXT);
    return fake_enqueue(
        __func__, stream,
        (Op){.kind = OP_DTOH, .host_to = to, .from = from, .bytes = bytes});
}

EXPORT
cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                     CUstream stream)
{
    ENTER(CONTEXT);
    return fake_enqueue(
        __func__, stream,
        (Op){.kind = OP_DTOD, .to = to, .from = from, .bytes = bytes});
}

EXPORT
cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                  CUcontext from_context, size_t bytes, CUstream stream)
{
    ENTER(CONTEXT);
    const Memory *target = fake_memory_find(to, bytes);
    const Memory *source = fake_memory_find(from, bytes);
    if (!target || !source || target->context != to_context ||
        source->context != from_context)
        fake_complain("%s of %zu bytes that are not of these contexts",
                      __func__, bytes);
    return fake_enqueue(__func__, stream,
                        (Op){.kind = OP_DTOD,
                             .to = to,
                             .from = from,
                             .bytes = bytes,
                             .is_peer = true});
}

EXPORT
cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(CONTEXT);
    return fake_enqueue(
        __func__, stream,
        (Op){.kind = OP_DTOD, .to = to, .from = from, .bytes = bytes});
}

EXPORT
cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream)
{
    ENTER(CONTEXT);
    if (c->srcMemoryType != CU_MEMORYTYPE_UNIFIED ||
        c->dstMemoryType != CU_MEMORYTYPE_UNIFIED || c->srcXInBytes ||
        c->srcY || c->dstXInBytes || c->dstY || c->WidthInBytes > c->srcPitch ||
        c->WidthInBytes > c->dstPitch || !c->WidthInBytes || !c->Height ||
        c->srcPitch > (size_t)fake_world.options.pitch ||
        c->dstPitch > (size_t)fake_world.options.pitch)
        return CUDA_ERROR_INVALID_VALUE;
    return fake_enqueue(__func__, stream,
                        (Op){.kind = OP_ROWS,
                             .to = c->dstDevice,
                             .from = c->srcDevice,
                             .bytes = c->WidthInBytes,
                             .rows = c->Height,
                             .to_pitch = c->dstPitch,
                             .from_pitch = c->srcPitch});
}

/* num times a value of so many bytes. */
static CUresult
set(const char *call, CUdeviceptr to, unsigned value, unsigned value_bytes,
    size_t num, CUstream stream)
{
    if (to % value_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    return fake_enqueue(call, stream,
                        (Op){.kind = OP_SET,
                             .to = to,
                             .value = value,
                             .value_bytes = value_bytes,
                             .bytes = num * value_bytes});
}

EXPORT
cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes,
                CUstream stream)
{
    ENTER(CONTEXT);
    return set(__func__, to, byte, 1, bytes, stream);
}

EXPORT
cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t num,
                 CUstream stream)
{
    ENTER(CONTEXT);
    return set(__func__, to, value, 2, num, stream);
}

EXPORT
cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t num,
                 CUstream stream)
{
    ENTER(CONTEXT);
    return set(__func__, to, value, 4, num, stream);
}

EXPORT
cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    ENTER(CONTEXT);
    return fake_enqueue(
        __func__, stream,
        (Op){.kind = OP_CALL, .function = function, .data = data});
}
