/*
 * applied.h - the closures whose updates a server has applied
 *
 * One bit for each of the RT_PS_WINDOW closures from `low` on; all before it
 * have ended, and are taken for applied.
 */
#ifndef TFD_RUNTIME_PS_APPLIED_H
#define TFD_RUNTIME_PS_APPLIED_H

#include <stdbool.h>
#include <stdint.h>
#include "ir/base/vec.h"
#include "runtime/ps/sockets.h"
#include "runtime/ps/wire.h"

typedef struct RtAppliedSet {
    int64_t low;
    uint8_t bits[RT_PS_WINDOW / 8];
} RtAppliedSet;

/* All before low have ended: it never goes back. */
void rt_applied_advance(RtAppliedSet *s, int64_t low);
/* Whether id is beyond what the set can hold: a message that is damaged. */
bool rt_applied_is_beyond(const RtAppliedSet *s, int64_t id);
bool rt_applied_has(const RtAppliedSet *s, int64_t id);
void rt_applied_add(RtAppliedSet *s, int64_t id);

/* ---- what it is counted for ----------------------------------------------
 *
 * A server counts what it sends and applies, how long it is busy, and how stale
 * the values were that a closure computed with: the *staleness* of a push is
 * how many other closures' updates the server has applied since the one who
 * pushes has pulled from it.  A push without a pull before it has none.
 */

/* Who has pulled, and has not pushed since. */
typedef struct RtPsPuller {
    RtPsRoute route;
    bool has_pulled;
    int64_t closures; /* that were applied then */
} RtPsPuller;

typedef struct RtPsMeter {
    Arena *arena;
    RtPsLoad load;
    VEC(RtPsPuller) pullers;
    int next; /* that is replaced where there are RT_PS_MOST_TASKS */
} RtPsMeter;

void rt_meter_init(RtPsMeter *m, Arena *a);
/* A pull was answered, or a closure's updates are applied the first time, with
 * a message of n bytes. */
void rt_meter_pull(RtPsMeter *m, const RtPsRoute *from, size_t n);
void rt_meter_push(RtPsMeter *m, const RtPsRoute *from, size_t n);

/* The row of a histogram that counts this staleness: row 0 is 0, row i from
 * 2^(i-1) to 2^i - 1, and the last one all that is more. */
int rt_staleness_row(int64_t staleness);

#endif
