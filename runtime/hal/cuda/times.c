/*
 * times.c - how long a GPU takes for the parts of a program
 *
 * An event between two parts takes the time when the GPU comes to it; the parts
 * are read when the program has ended, or all events are in use.  Each is the
 * time between two neighbouring events, since the driver gives it as a float:
 * counted from the beginning of the run it would lose what is short.
 */
#include "runtime/hal/cuda/cuda_impl.h"

/* The driver counts in milliseconds. */
#define NANOSECONDS 1e6

static bool
record(Cuda *c)
{
    CudaTimes *t = &c->times;
    CUevent *e = &t->events[t->num];
    if (!rt_cuda_may_enqueue(c) ||
        (!*e && !CALL_CUDA(c, cuEventCreate, e, CU_EVENT_DEFAULT)))
        return false;
    return CALL_CUDA(c, cuEventRecord, *e, c->queues[QUEUE_COMPUTE].stream);
}

/* All events have happened. */
static void
read_times(Cuda *c)
{
    CudaTimes *t = &c->times;
    int num = t->num;
    t->num = 0;
    for (int i = 0; i + 1 < num && rt_cuda_enter(c); i++) {
        float taken = 0.0F;
        if (!CALL_CUDA(c, cuEventElapsedTime, &taken, t->events[i],
                       t->events[i + 1]))
            return;
        *t->to[i] += (uint64_t)(NANOSECONDS * (double)taken);
    }
}

void
rt_cuda_begin_time(RtDevice *d, uint64_t *nanoseconds)
{
    Cuda *c = rt_cuda_of(d);
    CudaTimes *t = &c->times;
    if (!record(c))
        return;
    t->to[t->num++] = nanoseconds;
    if (t->num < CUDA_TIMES)
        return;
    rt_cuda_wait_for_work(c);
    read_times(c);
    if (record(c))
        t->to[t->num++] = nanoseconds;
}

void
rt_cuda_end_times(Cuda *c)
{
    CudaTimes *t = &c->times;
    if (t->num && record(c))
        t->num++;
}

void
rt_cuda_read_times(RtDevice *d)
{
    read_times(rt_cuda_of(d));
}

void
rt_cuda_times_close(Cuda *c)
{
    for (int i = 0; i < CUDA_TIMES && c->times.events[i]; i++)
        c->cu->cuEventDestroy_v2(c->times.events[i]);
}
