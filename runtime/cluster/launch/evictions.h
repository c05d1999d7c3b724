/*
 * evictions.h - processes that the control server judged, for who started them
 *
 * The server's thread only says which: the number of a process that has ended
 * may be another process's as soon as its end is taken, so who takes it, main,
 * is also the only one who sends signals.
 */
#ifndef TFD_RUNTIME_CLUSTER_LAUNCH_EVICTIONS_H
#define TFD_RUNTIME_CLUSTER_LAUNCH_EVICTIONS_H

#include <stdatomic.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"

typedef struct RtEvictions {
    int bell; /* an event descriptor: readable once there are new ones */
    int size;
    atomic_bool *ranks; /* that are to be ended */
} RtEvictions;

/* Of ranks below size; they last as long as the arena.  A failure leaves what
 * can be closed. */
Status rt_evictions_open(Arena *a, int size, RtEvictions *out) MUST_USE;
/* Rank is to be ended: any thread. */
void rt_evictions_add(RtEvictions *e, int rank);
/* The least rank that is to be ended, which it forgets; -1: none.  Main's. */
int rt_evictions_next(RtEvictions *e);
/* No thread adds any more. */
void rt_evictions_close(RtEvictions *e);

#endif
