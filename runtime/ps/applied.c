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
