/*
 * applied.c - the closures whose updates a server has applied
 */
#include "runtime/ps/applied.h"

#include <string.h>

static uint8_t *
byte_of(RtAppliedSet *s, int64_t id)
{
    return &s->bits[id % RT_PS_WINDOW / 8];
}

static uint8_t
bit_of(int64_t id)
{
    return (uint8_t)(1U << id % 8);
}

void
rt_applied_advance(RtAppliedSet *s, int64_t low)
{
    if (low - s->low >= RT_PS_WINDOW) {
        memset(s->bits, 0, sizeof s->bits);
        s->low = low;
    }
    for (; s->low < low; s->low++)
        *byte_of(s, s->low) &= (uint8_t)~bit_of(s->low);
}

bool
rt_applied_is_beyond(const RtAppliedSet *s, int64_t id)
{
    return id - s->low >= RT_PS_WINDOW;
}

bool
rt_applied_has(const RtAppliedSet *s, int64_t id)
{
    return id < s->low || (s->bits[id % RT_PS_WINDOW / 8] & bit_of(id));
}

void
rt_applied_add(RtAppliedSet *s, int64_t id)
{
    *byte_of(s, id) |= bit_of(id);
}

/* ---- what it is counted for ---------------------------------------------- */

void
rt_meter_init(RtPsMeter *m, Arena *a)
{
    *m = (RtPsMeter){.arena = a};
}

int
rt_staleness_row(int64_t staleness)
{
    int row = 0;
    while (staleness && row < RT_PS_STALENESS_ROWS - 1) {
        staleness >>= 1;
        row++;
    }
    return row;
}

static RtPsPuller *
find(RtPsMeter *m, const RtPsRoute *route)
{
    for (int i = 0; i < m->pullers.len; i++) {
        RtPsPuller *p = &m->pullers.data[i];
        if (p->route.len == route->len &&
            memcmp(p->route.id, route->id, route->len) == 0)
            return p;
    }
    return NULL;
}

/* Whoever connects again is another one, so places are used again. */
static RtPsPuller *
add(RtPsMeter *m, const RtPsRoute *route)
{
    RtPsPuller new = {.route = *route};
    if (m->pullers.len < RT_PS_MOST_TASKS) {
        VEC_PUSH(m->arena, m->pullers, new);
        return &m->pullers.data[m->pullers.len - 1];
    }
    RtPsPuller *p = &m->pullers.data[m->next];
    m->next = (m->next + 1) % RT_PS_MOST_TASKS;
    *p = new;
    return p;
}

void
rt_meter_pull(RtPsMeter *m, const RtPsRoute *from, size_t n)
{
    RtPsPuller *p = find(m, from);
    if (!p)
        p = add(m, from);
    p->has_pulled = true;
    p->closures = m->load.closures;
    m->load.pulled += (int64_t)n;
}

void
rt_meter_push(RtPsMeter *m, const RtPsRoute *from, size_t n)
{
    RtPsPuller *p = find(m, from);
    RtPsLoad *l = &m->load;
    if (p && p->has_pulled) {
        int64_t staleness = l->closures - p->closures;
        l->staleness[rt_staleness_row(staleness)]++;
        if (staleness > l->stalest)
            l->stalest = staleness;
        p->has_pulled = false;
    }
    l->closures++;
    l->pushed += (int64_t)n;
}
