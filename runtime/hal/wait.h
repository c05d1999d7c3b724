/*
 * wait.h - threads that wait for each other
 *
 * A waiting thread spins for some 50 microseconds, if spinning pays, and then
 * sleeps in the kernel.  Spinning pays while every thread has a core of its
 * own: with more threads than cores a spinning one may occupy the core of the
 * thread that it waits for.
 */
#ifndef TFD_RUNTIME_HAL_WAIT_H
#define TFD_RUNTIME_HAL_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include "ir/base/cache_line.h"

/* A number that threads wait on; on a cache line of its own.  All zeros is a
 * word of 0, of one process. */
typedef struct RtWaitWord {
    _Alignas(CACHE_LINE) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
    uint32_t is_shared; /* it lies in memory that other processes map, too: set
                           before anybody waits */
} RtWaitWord;

static inline uint32_t
rt_wait_word_load(const RtWaitWord *w)
{
    return atomic_load_explicit(&w->value, memory_order_acquire);
}

/* Change the value, and wake its sleepers; a thread that sees the new value
 * sees all earlier writes. */
void rt_wait_word_store(RtWaitWord *w, uint32_t value);
uint32_t rt_wait_word_add(RtWaitWord *w, uint32_t n); /* the new value */

/* Changes the value; who sleeps sees it when it wakes, in a tenth of a second
 * or by rt_wait_word_wake. */
void rt_wait_word_add_quietly(RtWaitWord *w, uint32_t n);

/* Wakes sleepers to check their conditions, without a change. */
void rt_wait_word_wake(RtWaitWord *w);

/* The value once it is not old, or old after a tenth of a second or a wake:
 * every wait is bounded, so the caller checks its condition and waits again. */
uint32_t rt_wait_word_wait(RtWaitWord *w, uint32_t old, bool spin);

/* Whether that many busy threads should spin; TFD_SPIN=0 says no. */
bool rt_may_spin(int num_threads);

/* Seconds on a clock that only goes forward. */
typedef double RtClock(void);

/* How long a wait has taken, for who looks at it some ten times a second.  All
 * zeros: it has not begun. */
typedef struct RtWaited {
    bool has_begun;
    double seconds, looked;
} RtWaited;

/* To be asked at each look: the seconds since the first one.  A time without
 * looks counts as half a second at most, since the process may have been
 * stopped, and others with it. */
double rt_waited(RtWaited *w, double now);

/* The time on the clock of clock_seconds() after so many seconds, for waits of
 * the C library that take a clock: one that is set (CLOCK_REALTIME) could make
 * them wait for hours. */
struct timespec rt_time_after(double seconds);

#endif
