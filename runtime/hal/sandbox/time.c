/*
 * time.c - how long programs would wait for collectives (TFD_SANDBOX=timed)
 *
 * Queues take turns, so the time that passes says nothing.  Instead each queue
 * has a clock of its own.  That of a program advances by the processor time
 * that its code takes, but not its hooks; that of collectives by the time that
 * a link of some bandwidth and latency takes, which is begun when all devices
 * have enqueued their part.  A program that waits for a collective advances to
 * its end: that is exposed communication.  With no-overlap it waits at once.
 */
#include <math.h>
#include <stdio.h>
#include <time.h>
#include "runtime/hal/sandbox/sandbox_impl.h"

static World *const world = &rt_sandbox_world;

static bool
is_timed(void)
{
    return world->options.is_timed;
}

static double
processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void
rt_sandbox_clock_run(Queue *q)
{
    if (is_timed())
        q->began = processor_seconds();
}

void
rt_sandbox_clock_stop(Queue *q)
{
    if (!is_timed())
        return;
    double seconds = processor_seconds() - q->began;
    q->now += seconds;
    q->computed += seconds;
}

/* All devices have the same collectives in the same order: number k of one is
 * number k of each. */
static double *
ready_of(uint64_t k)
{
    return &world->ready[k % NUM_TIMES];
}

void
rt_sandbox_clock_enqueue(Queue *q, Op *op)
{
    const Queue *by = rt_sandbox_current;
    uint64_t k = q->enqueued;
    op->ready = by ? by->now : world->now;
    if (q->kind != QUEUE_COLL)
        return;
    if (world->last_ready < k + 1) {
        world->last_ready = k + 1;
        *ready_of(k) = 0.0;
    }
    *ready_of(k) = fmax(*ready_of(k), op->ready);
}

void
rt_sandbox_clock_begin(Queue *q, const Op *op)
{
    q->now = fmax(q->now, op->ready);
}

void
rt_sandbox_clock_end(Queue *q, const Op *op)
{
    const SandboxOptions *o = &world->options;
    uint64_t k = q->completed;
    if (is_timed() && op->kind == DO_RUN && q->kind == QUEUE_COLL) {
        double seconds = o->link_seconds + (double)op->n / o->link_bytes;
        q->now = fmax(q->now, *ready_of(k)) + seconds;
        q->transferred += seconds;
    }
    q->ends[k % NUM_TIMES] = q->now;
}

void
rt_sandbox_clock_waited(RtEvent e)
{
    Queue *by = rt_sandbox_current;
    const Queue *q = (const Queue *)e.queue;
    if (!is_timed() || !q || !e.value)
        return;
    double end = q->ends[(e.value - 1) % NUM_TIMES];
    double *now = by ? &by->now : &world->now;
    if (by)
        by->waited += fmax(end - *now, 0.0);
    *now = fmax(*now, end);
}

void
rt_sandbox_clock_report(const Sandbox *s)
{
    const Queue *q = &s->queues[QUEUE_COMPUTE];
    if (is_timed())
        fprintf(stderr,
                "sandbox: %s computed %.6f s, transferred %.6f s and waited "
                "%.6f s for it\n",
                s->device.name, q->computed, s->queues[QUEUE_COLL].transferred,
                q->waited);
}
