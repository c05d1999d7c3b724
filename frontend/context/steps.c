/*
 * steps.c - the work of lowering, counted against its limits
 *
 * Every node evaluated is a step, and steps are limited (D16): inlining can
 * make a short text long.  So is the memory that they take.
 */
#include "frontend/context/steps.h"

#include "frontend/context/messages.h"

#include <assert.h>

enum { WALKED_IN_STEP = 4 };

static int64_t
bytes_used(const Lower *cx)
{
    return (int64_t)(arena_bytes(cx->arena) - cx->first_bytes);
}

bool
fe_step(Lower *cx, Loc loc)
{
    if (cx->stopped)
        return false;
    LimitId exceeded = NUM_LIMITS;
    if (++cx->num_steps > limit_value(LIMIT_steps))
        exceeded = LIMIT_steps;
    else if (cx->depth >= limit_value(LIMIT_depth))
        exceeded = LIMIT_depth;
    else if (bytes_used(cx) > limit_value(LIMIT_memory))
        exceeded = LIMIT_memory;
    if (exceeded != NUM_LIMITS)
        fe_stop(cx, loc, exceeded);
    return exceeded == NUM_LIMITS;
}

void
fe_count_walk(Lower *cx, int64_t n)
{
    assert(n >= 0);
    cx->num_steps += n / WALKED_IN_STEP;
}

void
fe_count_walk_value(Lower *cx, const FeValue *v)
{
    if (v->kind == FE_NEST)
        fe_count_walk(cx, v->nest.leaves);
}
