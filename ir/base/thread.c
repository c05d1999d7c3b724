/*
 * thread.c - starting threads, and the cores there are for them
 *
 * TFD_FAIL=thread:N makes the Nth one fail.
 */
#include "ir/base/thread.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>
#include "ir/base/fail.h"
#include "ir/base/message.h"

/* The system's default is a limit of the user's, which may be small (and where
 * it is unlimited, 2 MB). */
static int
start_with_stack(pthread_t *thread, void *(*run)(void *), void *data)
{
    pthread_attr_t attr;
    size_t size = 0;
    int error = pthread_attr_init(&attr);
    if (error)
        return error;
    error = pthread_attr_getstacksize(&attr, &size);
    if (!error && size < THREAD_STACK_BYTES)
        error = pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
    if (!error)
        error = pthread_create(thread, &attr, run, data);
    pthread_attr_destroy(&attr);
    return error;
}

Status
thread_start(pthread_t *thread, void *(*run)(void *), void *data,
             const char *what)
{
    int error =
        fail_here(FAIL_THREAD) ? EAGAIN : start_with_stack(thread, run, data);
    if (!error)
        return OK;
    /* the system does not tell which of the two limits it was */
    const char *why = error == EAGAIN
                          ? MESSAGE("no memory for it, or too many threads")
                          : strerror(error);
    return status_new(STATUS_MACHINE, "cannot start a thread for %s: %s", what,
                      message_part(why));
}

/* Of more cores than a cpu_set_t has the system says no set. */
int
num_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}
