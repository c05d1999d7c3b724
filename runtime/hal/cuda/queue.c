/*
 * queue.c - the queues of a GPU are streams of the driver
 *
 * A queue has some events of the driver, which its marks take in turns.  An old
 * mark whose event has been taken again counts as the newer one: it is late
 * then, but never early.  The host waits by asking: a call that waits in the
 * driver would have no bound (D19).
 *
 * A program's own marks are not those of its queue, of which main already knows
 * the one at the program's end: they are as many more on the same stream.
 */
#include <time.h>
#include "runtime/hal/cuda/cuda_impl.h"
#include "runtime/hal/cuda/native.h"

#define BOUND 0.1 /* seconds of a wait */

enum { ASKED_AT_ONCE = 200, PAUSE_NS = 20 * 1000 };

/* ---- failures ------------------------------------------------------------ */

bool
rt_cuda_check(Cuda *c, CUresult r, const char *call)
{
    char text[512];
    if (!r)
        return true;
    rt_cuda_explain(c->cu, call, r, text, sizeof text);
    rt_device_fail(&c->device, "%s has failed: %s", c->device.name, text);
    return false;
}

bool
rt_cuda_enter(Cuda *c)
{
    static _Thread_local uint64_t current; /* a serial number */
    if (rt_device_has_failed(&c->device))
        return false;
    if (current == c->serial)
        return true;
    current = 0;
    if (!CALL_CUDA(c, cuCtxSetCurrent, c->context))
        return false;
    current = c->serial;
    return true;
}

/* ---- waiting ------------------------------------------------------------- */

static void
pause_between(int asked, bool spin)
{
    static const struct timespec pause = {0, PAUSE_NS};
    if (spin && asked < ASKED_AT_ONCE)
        __builtin_ia32_pause();
    else
        nanosleep(&pause, NULL);
}

bool
rt_cuda_poll(Cuda *c, CUevent e, double seconds)
{
    double end = 0.0;
    for (int asked = 0;; asked++) {
        if (!rt_cuda_enter(c))
            return true;
        CUresult r = c->cu->cuEventQuery(e);
        if (r != CUDA_ERROR_NOT_READY) {
            rt_cuda_check(c, r, "cuEventQuery");
            return true;
        }
        double now = c->clock();
        end = asked ? end : now + seconds;
        if (now >= end)
            return false;
        pause_between(asked, c->spin);
    }
}

/* ---- events -------------------------------------------------------------- */

static CUevent
event_of(CudaQueue *q, uint64_t value)
{
    return q->events[value % CUDA_EVENTS];
}

uint64_t
rt_cuda_mark(Cuda *c, CudaQueue *q)
{
    uint64_t last = q->recorded;
    if (q->has_more && rt_cuda_enter(c) &&
        CALL_CUDA(c, cuEventRecord, event_of(q, last + 1), q->stream)) {
        atomic_store_explicit(&q->recorded, ++last, memory_order_release);
        q->has_more = false;
    }
    return last;
}

void
rt_cuda_wait_mark(Cuda *c, CudaQueue *q, CudaQueue *other, uint64_t value)
{
    bool is_own = other->queue.device == &c->device;
    if (!value || (is_own && value <= other->completed) || !rt_cuda_enter(c))
        return;
    CALL_CUDA(c, cuStreamWaitEvent, q->stream, event_of(other, value), 0);
    q->has_more = true;
}

bool
rt_cuda_has_happened(Cuda *c, CudaQueue *q, uint64_t value)
{
    if (value <= q->completed)
        return true;
    if (!rt_cuda_poll(c, event_of(q, value), BOUND))
        return false;
    atomic_store_explicit(&q->completed, value, memory_order_release);
    return true;
}

/* ---- opening and closing ------------------------------------------------- */

static Status
open_events(Cuda *c, CudaQueue *q)
{
    q->queue.device = &c->device;
    for (int i = 0; i < CUDA_EVENTS; i++)
        TRY_CUDA(c->cu, c->device.name, cuEventCreate, &q->events[i],
                 CU_EVENT_DISABLE_TIMING);
    return OK;
}

Status
rt_cuda_queue_open(Cuda *c, RtQueueKind kind)
{
    CudaQueue *q = &c->queues[kind];
    c->device.queues[kind] = &q->queue;
    TRY_CUDA(c->cu, c->device.name, cuStreamCreate, &q->stream,
             CU_STREAM_NON_BLOCKING);
    return open_events(c, q);
}

Status
rt_cuda_marks_open(Cuda *c)
{
    c->marks.stream = c->queues[QUEUE_COMPUTE].stream;
    return open_events(c, &c->marks);
}

void
rt_cuda_queue_drain(Cuda *c, CudaQueue *q)
{
    CUevent last = q->events[0];
    if (!last || c->cu->cuEventRecord(last, q->stream))
        return;
    for (int asked = 0; c->cu->cuEventQuery(last) == CUDA_ERROR_NOT_READY;
         asked++)
        pause_between(asked, c->spin);
}

void
rt_cuda_marks_close(Cuda *c)
{
    c->marks.stream = NULL;
    rt_cuda_queue_close(c, &c->marks);
}

void
rt_cuda_queue_close(Cuda *c, CudaQueue *q)
{
    for (int i = 0; i < CUDA_EVENTS && q->events[i]; i++)
        c->cu->cuEventDestroy_v2(q->events[i]);
    if (q->stream)
        c->cu->cuStreamDestroy_v2(q->stream);
}

/* ---- for other libraries ------------------------------------------------- */

CUstream
rt_cuda_native_stream(RtQueue *queue)
{
    CudaQueue *q = (CudaQueue *)queue;
    if (!rt_cuda_enter(rt_cuda_of(queue->device)))
        return NULL;
    q->has_more = true;
    return q->stream;
}

bool
rt_cuda_native_enter(RtDevice *d)
{
    return rt_cuda_enter(rt_cuda_of(d));
}
