/*
 * deferred.h - what a program leaves to the host until it has executed
 *
 * A program that enqueues its work does not wait for the values that it prints
 * and asserts: they are copied at their point of the program to memory of the
 * host, and looked at when the host waits for the device anyway.
 */
#ifndef TFD_RUNTIME_HAL_DEFERRED_H
#define TFD_RUNTIME_HAL_DEFERRED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/base/cache_line.h"

enum { RT_MOST_DEFERRED = 256 }; /* before the host has to look */

typedef struct RtDeferred RtDeferred;

/* bytes: the copied values one after the other, each from a line on.  0, or a
 * status with which the program ends: nothing that comes after it is looked at.
 */
typedef int32_t RtLook(const RtDeferred *item, const char *bytes);

struct RtDeferred {
    RtLook *look;
    void *context; /* for look, as the rest is */
    const void *op;
    int started, met; /* collectives, so far */
};

/* In the order of the program. */
typedef struct RtDeferrals {
    char *bytes;
    size_t capacity, used;
    int num;
    RtDeferred items[RT_MOST_DEFERRED];
    size_t at[RT_MOST_DEFERRED]; /* in bytes */
} RtDeferrals;

/* With room for several, of which none has more than most bytes.  They last as
 * long as the arena. */
RtDeferrals *rt_deferrals_new(Arena *a, size_t most);
/* false: the host has to look at the others before. */
bool rt_deferrals_fit(const RtDeferrals *d, size_t bytes);
/* Where so many bytes are to be copied. */
char *rt_deferrals_add(RtDeferrals *d, const RtDeferred *item, size_t bytes);
/* All copies have executed: looks at them, and forgets them. */
int32_t rt_deferrals_look(RtDeferrals *d);

#endif
