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
#include "runtime/ps/wire/sockets.h"
#include "runtime/ps/wire/wire.h"

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
 * how many other closures' updates the server has applied since it answered the
 * pull.  A push without a pull before it has none.
 */

typedef struct RtPsMeter {
    RtPsLoad load;
    int64_t bound; /* of staleness; negative: none */
} RtPsMeter;

/* What a pull is answered with: a push says it again. */
static inline int64_t
rt_meter_clock(const RtPsMeter *m)
{
    return m->load.closures;
}

void rt_meter_pull(RtPsMeter *m, size_t n);
/* Whether the updates of a push with values of that clock, RT_PS_NO_PULL for
 * none, may be applied.  If not, it is one of a worker that was taken for lost,
 * and is counted as refused. */
bool rt_meter_admits(RtPsMeter *m, int64_t clock);
/* A closure's updates are applied the first time, with a message of n bytes. */
void rt_meter_push(RtPsMeter *m, int64_t clock, size_t n);

/* ---- pushes that are kept -------------------------------------------------
 *
 * In a job with --atomic, until the coordinator says which attempt of their
 * closure counts.
 */

typedef struct RtStagedPush {
    int64_t id, attempt;
    RtPsRoute from;
    RtPsRequest head;
    int64_t clock; /* of the values that it was computed with */
    Arena *arena;  /* its own, with all of it */
    char *bytes;   /* the updates */
    size_t len;
    struct RtStagedPush *next;
} RtStagedPush;

typedef struct RtStaging {
    RtStagedPush *first;
} RtStaging;

bool rt_staging_has(const RtStaging *s, int64_t id, int64_t attempt);
/* Keeps a copy. */
void rt_staging_add(RtStaging *s, const RtStagedPush *p);
/* All attempts of a closure, which are not kept any more; rt_staged_free. */
RtStagedPush *rt_staging_take(RtStaging *s, int64_t id);
void rt_staged_free(RtStagedPush *list);
/* All before low have ended. */
void rt_staging_advance(RtStaging *s, int64_t low);

#endif
