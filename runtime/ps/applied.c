/*
 * applied.c - the closures whose updates a server has applied
 */
#include "runtime/ps/applied.h"

#include <string.h>
#include "runtime/ps/staleness/staleness.h"

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
rt_meter_pull(RtPsMeter *m, size_t n)
{
    m->load.pulled += (int64_t)n;
}

bool
rt_meter_admits(RtPsMeter *m, int64_t clock)
{
    if (m->bound < 0 || clock == RT_PS_NO_PULL ||
        m->load.closures - clock <= m->bound)
        return true;
    m->load.refused++;
    return false;
}

void
rt_meter_push(RtPsMeter *m, int64_t clock, size_t n)
{
    RtPsLoad *l = &m->load;
    if (clock != RT_PS_NO_PULL) {
        int64_t staleness = l->closures - clock;
        l->staleness[rt_staleness_row(staleness)]++;
        l->staleness_sum += staleness;
        if (staleness > l->stalest)
            l->stalest = staleness;
    }
    l->closures++;
    l->pushed += (int64_t)n;
}

/* ---- pushes that are kept ------------------------------------------------ */

bool
rt_staging_has(const RtStaging *s, int64_t id, int64_t attempt)
{
    for (const RtStagedPush *p = s->first; p; p = p->next)
        if (p->id == id && p->attempt == attempt)
            return true;
    return false;
}

void
rt_staging_add(RtStaging *s, const RtStagedPush *from)
{
    Arena *a = arena_new(NULL, "a staged push");
    RtStagedPush *p = NEW(a, RtStagedPush);
    *p = *from;
    p->arena = a;
    p->bytes = arena_alloc(a, from->len + 1);
    if (from->len)
        memcpy(p->bytes, from->bytes, from->len);
    p->next = s->first;
    s->first = p;
}

/* Those with ids from one to another. */
static RtStagedPush *
take(RtStaging *s, int64_t from, int64_t to)
{
    RtStagedPush *taken = NULL;
    for (RtStagedPush **at = &s->first, *p; (p = *at);) {
        if (p->id < from || p->id > to) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        p->next = taken;
        taken = p;
    }
    return taken;
}

RtStagedPush *
rt_staging_take(RtStaging *s, int64_t id)
{
    return take(s, id, id);
}

void
rt_staged_free(RtStagedPush *list)
{
    for (RtStagedPush *next; list; list = next) {
        next = list->next;
        arena_release(list->arena);
    }
}

void
rt_staging_advance(RtStaging *s, int64_t low)
{
    rt_staged_free(take(s, 0, low - 1));
}
