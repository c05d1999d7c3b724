/*
 * guard.h - a thread that ends a task whose calls of libzmq do not return
 *
 * A server or worker that hangs in one is not lost, since its heartbeats are a
 * thread's, and it cannot hear that the job has ended.
 */
#ifndef TFD_RUNTIME_PS_WIRE_GUARD_H
#define TFD_RUNTIME_PS_WIRE_GUARD_H

#include "ir/base/arena.h"
#include "ir/base/status.h"

typedef struct RtPsGuard RtPsGuard;

/* Ends the process. */
typedef void (*RtPsGiveUp)(void *data);

/* give_up is called once nothing has gone on for so many seconds. */
Status rt_guard_start(double seconds, RtPsGiveUp give_up, void *data,
                      RtPsGuard **out) MUST_USE;
void rt_guard_stop(RtPsGuard *g); /* NULL: none */

/* It goes on.  NULL: nobody watches. */
void rt_guard_turn(RtPsGuard *g);
/* Time between these two does not count: it does something else. */
void rt_guard_pause(RtPsGuard *g);
void rt_guard_resume(RtPsGuard *g);

#endif
