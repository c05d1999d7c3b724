/*
 * deferred.c - what a program leaves to the host until it has executed
 */
#include "runtime/hal/deferred.h"

#include <assert.h>

enum { USUAL_BYTES = 64 << 10 };

RtDeferrals *
rt_deferrals_new(Arena *a, size_t most)
{
    RtDeferrals *d = NEW(a, RtDeferrals);
    d->capacity = USUAL_BYTES + on_lines(most);
    d->bytes = arena_alloc_on_lines(a, d->capacity);
    return d;
}

bool
rt_deferrals_fit(const RtDeferrals *d, size_t bytes)
{
    return d->num < RT_MOST_DEFERRED && bytes <= d->capacity - d->used;
}

char *
rt_deferrals_add(RtDeferrals *d, const RtDeferred *item, size_t bytes)
{
    assert(rt_deferrals_fit(d, bytes));
    d->items[d->num] = *item;
    d->at[d->num++] = d->used;
    d->used += bytes;
    return d->bytes + d->at[d->num - 1];
}

int32_t
rt_deferrals_look(RtDeferrals *d)
{
    int32_t status = 0;
    for (int i = 0; i < d->num && !status; i++) {
        const RtDeferred *item = &d->items[i];
        status = item->look(item, d->bytes + d->at[i]);
    }
    d->num = 0;
    d->used = 0;
    return status;
}
