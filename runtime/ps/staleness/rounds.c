/*
 * rounds.c - synchronous training: which closures of a round count
 */
#include "runtime/ps/staleness/rounds.h"

static int64_t
needed(const RtPsRounds *r)
{
    return r->size < r->need ? r->size : r->need;
}

void
rt_rounds_open(RtPsRounds *r, int64_t size)
{
    r->number++;
    r->is_open = true;
    r->size = size;
    r->counted = 0;
}

bool
rt_rounds_count(RtPsRounds *r, int64_t round)
{
    bool counts = r->is_open && round == r->number && r->counted < needed(r);
    r->counted += counts;
    r->sum_counted += counts;
    r->sum_dropped += !counts;
    return counts;
}

void
rt_rounds_leave(RtPsRounds *r, int64_t round)
{
    if (r->is_open && round == r->number && r->size > r->counted)
        r->size--;
}

bool
rt_rounds_are_complete(const RtPsRounds *r)
{
    return r->is_open && r->counted == needed(r);
}

void
rt_rounds_close(RtPsRounds *r)
{
    r->is_open = false;
}
