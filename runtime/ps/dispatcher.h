/*
 * dispatcher.h - the coordinator's thread
 *
 * It knows servers and workers, gives closures to workers, and takes what they
 * end with.  Main schedules closures and waits for them; every wait is bounded
 * and ends when its caller says so.
 */
#ifndef TFD_RUNTIME_PS_DISPATCHER_H
#define TFD_RUNTIME_PS_DISPATCHER_H

#include <stdio.h>
#include "runtime/ps/queue.h"

typedef struct RtDispatcherConfig {
    const RtTaskOptions *task;
    const char *plan; /* its hash: all have the same */
    /* Whether main must not wait any longer. */
    bool (*is_stopped)(void *data);
    void *data;
} RtDispatcherConfig;

typedef struct RtDispatcher RtDispatcher;

/* Listens, and tells where (announce_fd). */
Status rt_dispatcher_open(RtPsNet *net, const RtDispatcherConfig *config,
                          RtDispatcher **out) MUST_USE;
/* All others are told that the job has ended. */
void rt_dispatcher_close(RtDispatcher *d);

/* Waits for all servers; their addresses. */
Status rt_dispatcher_servers(RtDispatcher *d, RtPsWelcome *out) MUST_USE;

/* Main's thread.  A closure's failure, or a server's end, is the failure of the
 * next call, once. */
Status rt_dispatcher_schedule(RtDispatcher *d, int64_t launch,
                              const RtArchive *arguments, int num_refs,
                              RtFuture **future) MUST_USE;
Status rt_dispatcher_join(RtDispatcher *d) MUST_USE;
Status rt_dispatcher_done(RtDispatcher *d, bool *out) MUST_USE;
/* Waits until the future is there. */
Status rt_dispatcher_wait(RtDispatcher *d, RtFuture *f) MUST_USE;
void rt_dispatcher_release(RtDispatcher *d, RtFuture *f);

/* What main executes itself is a closure, too: its id, and the end. */
Status rt_dispatcher_begin(RtDispatcher *d, int64_t *id, int64_t *low) MUST_USE;
void rt_dispatcher_end(RtDispatcher *d, int64_t id);

/* How many closures there were, and how many each worker has executed. */
void rt_dispatcher_print(RtDispatcher *d, FILE *to);

#endif
