/*
 * staging.c - copies between a GPU and pageable memory of the host
 *
 * The driver copies asynchronously only from and to pinned memory.  What goes
 * to the device is copied to a ring of it when the copy is enqueued; what comes
 * from the device is in the ring when the next mark of its queue has happened,
 * and the host copies it to its place when it next waits, or needs the space.
 * Pieces leave the ring in the order in which they came.
 */
#include <assert.h>
#include <string.h>
#include "runtime/hal/cuda/cuda_impl.h"

static CudaStaged *
staged(CudaStaging *s, uint64_t number)
{
    return &s->staged[number % CUDA_STAGED];
}

/* ---- what the driver has copied ------------------------------------------ */

static void
finish(Cuda *c, CudaStaged *p)
{
    if (!p->to)
        return;
    if (!rt_device_has_failed(&c->device))
        memcpy(p->to, c->staging.ring + p->begin, p->bytes);
    p->to = NULL;
    c->staging.num_out--;
}

/* Waits for all pieces of a queue.  Marks are made by the thread whose queue it
 * is, which may be another one: main and a program of the device stage at the
 * same time.  A queue that a program captures has marks after its pieces. */
static void
wait_for_pieces(Cuda *c, const CudaQueue *q)
{
    CudaStaging *s = &c->staging;
    if (!rt_cuda_enter(c) || !CALL_CUDA(c, cuEventRecord, s->done, q->stream))
        return;
    while (!rt_cuda_poll(c, s->done, 0.1))
        ;
    for (uint64_t i = s->first; i < s->next; i++)
        if (staged(s, i)->queue == q)
            staged(s, i)->mark = 0;
}

/* Waits for the oldest piece, whose space is free then. */
static void
retire(Cuda *c)
{
    CudaStaged *p = staged(&c->staging, c->staging.first);
    if (p->mark > p->queue->recorded)
        wait_for_pieces(c, p->queue);
    while (!rt_cuda_has_happened(c, p->queue, p->mark))
        ;
    finish(c, p);
    c->staging.first++;
}

void
rt_cuda_staging_flush(Cuda *c)
{
    CudaStaging *s = &c->staging;
    pthread_mutex_lock(&s->lock);
    for (uint64_t i = s->first; i < s->next && s->num_out; i++) {
        CudaStaged *p = staged(s, i);
        if (p->mark <= p->queue->completed)
            finish(c, p);
    }
    pthread_mutex_unlock(&s->lock);
}

bool
rt_cuda_poll_mark(Cuda *c, CudaQueue *q, uint64_t value)
{
    if (!rt_cuda_has_happened(c, q, value))
        return false;
    rt_cuda_staging_flush(c);
    return true;
}

/* ---- space --------------------------------------------------------------- */

/* Where n bytes are free now.  Pieces are next to each other from the oldest to
 * head, perhaps around the end of the ring. */
static bool
find_space(const CudaStaging *s, size_t n, size_t *at)
{
    if (s->first == s->next) {
        *at = 0;
        return true;
    }
    size_t oldest = s->staged[s->first % CUDA_STAGED].begin;
    *at = s->head;
    if (s->next - s->first == CUDA_STAGED)
        return false;
    if (s->head <= oldest)
        return oldest - s->head > n;
    if (CUDA_STAGING - s->head >= n)
        return true;
    *at = 0;
    return oldest > n;
}

static CudaStaged *
reserve(Cuda *c, CudaQueue *q, size_t n)
{
    CudaStaging *s = &c->staging;
    size_t at, rounded = on_lines(n);
    assert(n && n <= CUDA_PIECE);
    while (!find_space(s, rounded, &at))
        retire(c);
    CudaStaged *p = staged(s, s->next++);
    p->begin = at;
    p->end = s->head = at + rounded;
    p->queue = q;
    p->mark = q->recorded + 1;
    p->bytes = n;
    p->to = NULL;
    return p;
}

/* ---- copies -------------------------------------------------------------- */

static bool
piece_in(Cuda *c, CudaQueue *q, CUdeviceptr to, const char *from, size_t n)
{
    CudaStaged *p = reserve(c, q, n);
    char *at = c->staging.ring + p->begin;
    memcpy(at, from, n);
    q->has_more = true;
    return CALL_CUDA(c, cuMemcpyHtoDAsync_v2, to, at, n, q->stream);
}

static bool
piece_out(Cuda *c, CudaQueue *q, char *to, CUdeviceptr from, size_t n)
{
    CudaStaged *p = reserve(c, q, n);
    char *at = c->staging.ring + p->begin;
    q->has_more = true;
    if (!CALL_CUDA(c, cuMemcpyDtoHAsync_v2, at, from, n, q->stream))
        return false;
    p->to = to;
    c->staging.num_out++;
    return true;
}

void
rt_cuda_stage_in(Cuda *c, CudaQueue *q, CUdeviceptr to, const char *from,
                 size_t n)
{
    bool works = true;
    pthread_mutex_lock(&c->staging.lock);
    for (size_t at = 0, piece; works && at < n; at += piece) {
        piece = n - at < CUDA_PIECE ? n - at : CUDA_PIECE;
        works = piece_in(c, q, to + at, from + at, piece);
    }
    pthread_mutex_unlock(&c->staging.lock);
}

void
rt_cuda_stage_out(Cuda *c, CudaQueue *q, char *to, CUdeviceptr from, size_t n)
{
    bool works = true;
    pthread_mutex_lock(&c->staging.lock);
    for (size_t at = 0, piece; works && at < n; at += piece) {
        piece = n - at < CUDA_PIECE ? n - at : CUDA_PIECE;
        works = piece_out(c, q, to + at, from + at, piece);
    }
    pthread_mutex_unlock(&c->staging.lock);
}

/* ---- opening and closing ------------------------------------------------- */

Status
rt_cuda_staging_open(Cuda *c)
{
    CudaStaging *s = &c->staging;
    void *ring;
    pthread_mutex_init(&s->lock, NULL);
    TRY_CUDA(c->cu, c->device.name, cuEventCreate, &s->done,
             CU_EVENT_DISABLE_TIMING);
    TRY_CUDA(c->cu, c->device.name, cuMemHostAlloc, &ring, CUDA_STAGING, 0);
    s->ring = ring;
    return OK;
}

void
rt_cuda_staging_close(Cuda *c)
{
    if (c->staging.done)
        c->cu->cuEventDestroy_v2(c->staging.done);
    if (c->staging.ring)
        c->cu->cuMemFreeHost(c->staging.ring);
}
