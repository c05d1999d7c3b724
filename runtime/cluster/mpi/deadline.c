/*
 * deadline.c - the end of a call into a library that waits for other processes
 */
#include "runtime/cluster/mpi/deadline.h"

#include <math.h>
#include "ir/base/clock.h"
#include "ir/base/thread.h"
#include "runtime/hal/wait.h"

#define LOOKS_EVERY 0.1 /* seconds */

static void *
wait_for_end(void *data)
{
    RtDeadline *d = data;
    RtWaited waited = {0};
    pthread_mutex_lock(&d->lock);
    while (!d->has_ended && rt_waited(&waited, clock_seconds()) < d->seconds) {
        struct timespec end = rt_time_after(fmin(d->seconds, LOOKS_EVERY));
        pthread_cond_clockwait(&d->changed, &d->lock, CLOCK_MONOTONIC, &end);
    }
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
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
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
