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

#endif
