/*
 * deadline.c - the end of a call into a library that waits for other processes
 */
#include "runtime/cluster/mpi/deadline.h"

#include <errno.h>
#include <math.h>
#include <time.h>
#include "ir/base/thread.h"

static struct timespec
time_after(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double whole = floor(seconds);
    t.tv_sec += (time_t)whole;
    t.tv_nsec += (long)((seconds - whole) * 1e9);
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void *
wait_for_end(void *data)
{
    RtDeadline *d = data;
    struct timespec end = time_after(d->seconds);
    int error = 0;
    pthread_mutex_lock(&d->lock);
    while (!d->has_ended && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&d->changed, &d->lock, &end);
    if (!d->has_ended)
        fatal_error(STATUS_MACHINE,
                    "%s (%s) has not come back for %g seconds: another process "
                    "of the job has died, or does not come",
                    d->call, d->library, d->seconds);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

Status
rt_deadline_begin(RtDeadline *d, const char *call, const char *library,
                  double seconds)
{
    *d = (RtDeadline){.call = call, .library = library, .seconds = seconds};
    if (seconds <= 0)
        return OK;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, &clock);
    pthread_condattr_destroy(&clock);
    return thread_start(&d->thread, wait_for_end, d, "the deadline of MPI");
}

void
rt_deadline_end(RtDeadline *d)
{
    if (d->seconds <= 0)
        return;
    pthread_mutex_lock(&d->lock);
    d->has_ended = true;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
}
