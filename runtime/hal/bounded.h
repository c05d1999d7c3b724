/*
 * bounded.h - calls of a library that may never return
 *
 * A library that is opened by name may be another one than the system's, or
 * damaged, and wait for ever.  Nobody can end such a call, so whoever must not
 * wait for it lets a thread make it, and leaves that thread behind: with all
 * that it uses, which is not freed then, until the process ends.
 */
#ifndef TFD_RUNTIME_HAL_BOUNDED_H
#define TFD_RUNTIME_HAL_BOUNDED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "ir/base/status.h"

/* How long to wait.  A time in which the process was stopped does not count. */
typedef struct RtBound {
    double seconds; /* 0: for ever */
    /* Called by who waits: whether to give up soon; NULL: never. */
    bool (*interrupted)(void *data);
    void *data;
} RtBound;

/* Calls call(data) in a thread of its own and waits for its end.  False: it has
 * not returned in time, or not within two seconds of an interrupt. */
bool rt_call_bounded(void (*call)(void *data), void *data,
                     const RtBound *bound);
/* Whether there ever was such a thread: the process must not clean up. */
bool rt_has_left_threads(void);

/* A thread that makes such calls in turns.  One other thread looks at it. */
typedef struct RtLiveness {
    _Atomic uint32_t turns;
    _Atomic(const char *) calls; /* whom it calls; NULL: the library */
    uint32_t seen;               /* of who looks, as all below */
    double since, looked;
} RtLiveness;

static inline void
rt_turn_begins(RtLiveness *w)
{
    atomic_fetch_add_explicit(&w->turns, 1, memory_order_relaxed);
}

/* To be asked again and again: whether the thread has been in one turn for the
 * bound's time, a second at least, or for some seconds after an interrupt. */
bool rt_is_stuck(RtLiveness *w, const RtBound *bound);

/* The failure of `who` (a process) where `calls` (a library) does not return
 * within the bound: STATUS_STOPPED after an interrupt. */
Status rt_not_returned(const char *who, const char *calls,
                       const RtBound *bound) MUST_USE;

#endif
