/*
 * thread.c - starting threads
 *
 * TFD_FAIL=thread:N makes the Nth one fail.
 */
#include "runtime/base/thread.h"

#include <errno.h>
#include <string.h>
#include "runtime/base/fail.h"

Status
thread_start(pthread_t *thread, void *(*run)(void *), void *data,
             const char *what)
{
    int error = fail_here(FAIL_THREAD)
                    ? EAGAIN
                    : pthread_create(thread, NULL, run, data);
    return error
               ? status_new(STATUS_MACHINE, "cannot start a thread for %s: %s",
                            what, strerror(error))
               : OK;
}
