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
    double timeout;   /* seconds for servers to join */
    /* Whether main must not wait any longer. */
    bool (*is_stopped)(void *data);
    /* A failure that shows where main schedules closures of a launch.  Any
     * thread. */
    Status (*at_launch)(void *data, int64_t launch, const char *message);
    void *data;
} RtDispatcherConfig;

typedef struct RtDispatcher RtDispatcher;

/* Listens, and tells where (announce_fd). */
Status rt_dispatcher_open(RtPsNet *net, const RtDispatcherConfig *config,
                          RtDispatcher **out) MUST_USE;
/* All others are told that the job has ended. */
void rt_dispatcher_close(RtDispatcher *d);

/* Waits for all servers; their addresses, and the job. */
Status rt_dispatcher_servers(RtDispatcher *d, RtPsWelcome *out) MUST_USE;

/* Main's thread.  A closure's failure, or a server's end, is the failure of the
 * next call, once. */
Status rt_dispatcher_schedule(RtDispatcher *d, int64_t launch,
                              const RtArchive *arguments, const RtFeeds *feeds,
                              int num_refs, RtFuture **future) MUST_USE;
Status rt_dispatcher_join(RtDispatcher *d) MUST_USE;
Status rt_dispatcher_done(RtDispatcher *d, bool *out) MUST_USE;
/* Drops those that no worker has begun. */
void rt_dispatcher_cancel(RtDispatcher *d);
/* Waits until the future is there. */
Status rt_dispatcher_wait(RtDispatcher *d, RtFuture *f) MUST_USE;
void rt_dispatcher_release(RtDispatcher *d, RtFuture *f);
/* For waits of main's for servers: the failure if one of them is lost. */
Status rt_dispatcher_check(RtDispatcher *d) MUST_USE;

/* What main executes itself is a closure, too: its id, and the end. */
Status rt_dispatcher_begin(RtDispatcher *d, int64_t *id, int64_t *low) MUST_USE;
void rt_dispatcher_end(RtDispatcher *d, int64_t id);

/* ---- checkpoints --------------------------------------------------------- */

/* The params' values, for all that join: before it nobody is welcome. */
void rt_dispatcher_set_params(RtDispatcher *d, const RtArchive *params);
/* No closure is open, and each worker that lives tells its state. */
Status rt_dispatcher_save(RtDispatcher *d) MUST_USE;
/* The next id, and the workers' states; what is read is that of a new one. */
void rt_dispatcher_archive(RtDispatcher *d, RtArchive *ar);
/* Main begins, or goes on: workers get their states. */
void rt_dispatcher_begin_main(RtDispatcher *d);

/* The job has ended: an evaluator that it is to have, and that has just begun,
 * is waited for some seconds, so that it hears of the end. */
void rt_dispatcher_expect_evaluator(RtDispatcher *d);

/* How the job is, while show looks at it.  Any thread. */
void rt_dispatcher_show_status(RtDispatcher *d,
                               void (*show)(void *data, const RtPsStatus *s),
                               void *data);

/* How many closures there were, and how many each worker has executed. */
void rt_dispatcher_print(RtDispatcher *d, FILE *to);

#endif
