/*
 * thread.c - starting threads
 *
 * TFD_FAIL=thread:N makes the Nth one fail.
 */
#include "ir/base/thread.h"

#include <errno.h>
#include <string.h>
#include "ir/base/fail.h"
#include "ir/base/message.h"

Status
thread_start(pthread_t *thread, void *(*run)(void *), void *data,
             const char *what)
{
    int error = fail_here(FAIL_THREAD)
                    ? EAGAIN
                    : pthread_create(thread, NULL, run, data);
    if (!error)
        return OK;
    /* the system does not tell which of the two limits it was */
    const char *why = error == EAGAIN
                          ? MESSAGE("no memory for it, or too many threads")
                          : strerror(error);
    return status_new(STATUS_MACHINE, "cannot start a thread for %s: %s", what,
                      message_part(why));
}
