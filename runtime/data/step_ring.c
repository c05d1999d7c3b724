/*
 * step_ring.c - a worker's steps, made by one process for others of its machine
 *
 * A slot is a head, then a head for each part, then the components of the
 * parts, each on a cache line.
 */
#include "runtime/data/step_ring.h"

#include <assert.h>
#include <string.h>
#include "runtime/hal/wait.h"

typedef struct SlotHead {
    uint64_t index;
    uint32_t pass;
} SlotHead;

typedef struct PartHead {
    int64_t rows;
    bool given;
} PartHead;

/* In shared memory; the slots are behind the words. */
typedef struct Shared {
    RtWaitWord made;
    RtWaitWord taken[]; /* by each taker */
} Shared;

struct RtStepRing {
    RtStepSharing sharing;
    Shared *shared;
    char *slots;
    size_t slot_bytes;
    uint64_t number; /* of the next step that this process makes or takes */
};

/* ---- where things are ---------------------------------------------------- */

static size_t
head_bytes(const RtStepSharing *s)
{
    size_t parts = (size_t)rt_rebatch_num_parts(s->rebatch);
    return on_lines(sizeof(SlotHead) + parts * sizeof(PartHead));
}

static size_t
part_bytes(const RtStepSharing *s)
{
    size_t bytes = 0;
    for (int i = 0; i < rt_rebatch_num_components(s->rebatch); i++)
        bytes += on_lines((size_t)rt_rebatch_most_bytes(s->rebatch, i));
    return bytes;
}

static size_t
slot_bytes(const RtStepSharing *s)
{
    return head_bytes(s) +
           (size_t)rt_rebatch_num_parts(s->rebatch) * part_bytes(s);
}

static size_t
words_bytes(const RtStepSharing *s)
{
    return sizeof(Shared) + (size_t)s->num_takers * sizeof(RtWaitWord);
}

size_t
rt_step_ring_bytes(const RtStepSharing *s)
{
    return words_bytes(s) + (size_t)s->num_slots * slot_bytes(s);
}

RtStepRing *
rt_step_ring_new(Arena *a, const RtStepSharing *sharing, char *memory)
{
    RtStepRing *r = NEW(a, RtStepRing);
    *r = (RtStepRing){.sharing = *sharing,
                      .shared = (Shared *)(void *)memory,
                      .slots = memory + words_bytes(sharing),
                      .slot_bytes = slot_bytes(sharing)};
    if (sharing->taker >= 0)
        return r;
    r->shared->made.is_shared = true;
    for (int i = 0; i < sharing->num_takers; i++)
        r->shared->taken[i].is_shared = true;
    return r;
}

static char *
next_slot(const RtStepRing *r)
{
    return r->slots +
           (size_t)(r->number % (uint64_t)r->sharing.num_slots) * r->slot_bytes;
}

static PartHead *
part_head(char *slot, int part)
{
    return (PartHead *)(void *)(slot + sizeof(SlotHead)) + part;
}

static char *
part_data(const RtStepRing *r, char *slot, int part)
{
    return slot + head_bytes(&r->sharing) +
           (size_t)part * part_bytes(&r->sharing);
}

/* Between a part and its place in a slot. */
static void
copy_part(const RtStepRing *r, char *slot, int part, RtElement *e, bool puts)
{
    const RtRebatch *d = r->sharing.rebatch;
    char *at = part_data(r, slot, part);
    for (int i = 0; i < rt_rebatch_num_components(d); i++) {
        size_t n = (size_t)rt_rebatch_part_bytes(d, i, e->rows);
        memcpy(puts ? at : e->data[i], puts ? e->data[i] : at, n);
        at += on_lines((size_t)rt_rebatch_most_bytes(d, i));
    }
}

/* ---- the maker ----------------------------------------------------------- */

/* The taker that has taken the fewest. */
static const RtWaitWord *
slowest(const RtStepRing *r)
{
    uint32_t most = 0;
    const RtWaitWord *found = &r->shared->taken[0];
    for (int i = 0; i < r->sharing.num_takers; i++) {
        const RtWaitWord *w = &r->shared->taken[i];
        uint32_t left = (uint32_t)r->number - rt_wait_word_load(w);
        if (left > most) {
            most = left;
            found = w;
        }
    }
    return found;
}

bool
rt_step_ring_has_room(const RtStepRing *r)
{
    uint32_t left = (uint32_t)r->number - rt_wait_word_load(slowest(r));
    return left < (uint64_t)r->sharing.num_slots;
}

void
rt_step_ring_wait_for_room(RtStepRing *r)
{
    RtWaitWord *w = (RtWaitWord *)(uintptr_t)slowest(r);
    uint32_t taken = rt_wait_word_load(w);
    if ((uint32_t)r->number - taken >= (uint64_t)r->sharing.num_slots)
        rt_wait_word_wait(w, taken, false);
}

void
rt_step_ring_put(RtStepRing *r, uint32_t pass, uint64_t index,
                 const RtStep *step)
{
    char *slot = next_slot(r);
    assert(rt_step_ring_has_room(r));
    *(SlotHead *)(void *)slot = (SlotHead){index, pass};
    for (int k = 0; k < rt_rebatch_num_parts(r->sharing.rebatch); k++)
        *part_head(slot, k) = (PartHead){step->parts[k].rows, step->given[k]};
    for (int k = r->sharing.first; k < r->sharing.first + r->sharing.num; k++)
        copy_part(r, slot, k, &step->parts[k], true);
    r->number++;
    rt_wait_word_add(&r->shared->made, 1);
}

/* ---- takers -------------------------------------------------------------- */

static void
go_on(RtStepRing *r)
{
    r->number++;
    rt_wait_word_add(&r->shared->taken[r->sharing.taker], 1);
}

/* Whether the step in a slot comes before the one that is wanted. */
static bool
is_earlier(const SlotHead *h, uint32_t pass, uint64_t index)
{
    int32_t passes = (int32_t)(h->pass - pass);
    return passes < 0 || (passes == 0 && h->index < index);
}

/* Whether others have data is known here, and the data of this process. */
static void
copy_step(const RtStepRing *r, char *slot, RtStep *step)
{
    for (int k = 0; k < rt_rebatch_num_parts(r->sharing.rebatch); k++) {
        step->given[k] = part_head(slot, k)->given;
        step->parts[k].rows = part_head(slot, k)->rows;
    }
    for (int k = r->sharing.first; k < r->sharing.first + r->sharing.num; k++)
        copy_part(r, slot, k, &step->parts[k], false);
}

RtStepTaking
rt_step_ring_take(RtStepRing *r, uint32_t pass, uint64_t index, RtStep *step)
{
    while (rt_wait_word_load(&r->shared->made) != (uint32_t)r->number) {
        char *slot = next_slot(r);
        const SlotHead *h = (const SlotHead *)(void *)slot;
        if (is_earlier(h, pass, index)) {
            go_on(r);
            continue;
        }
        if (h->pass != pass || h->index != index)
            return STEP_NEVER;
        copy_step(r, slot, step);
        go_on(r);
        return STEP_TAKEN;
    }
    return STEP_NOT_YET;
}

void
rt_step_ring_wait_for_step(RtStepRing *r)
{
    uint32_t made = rt_wait_word_load(&r->shared->made);
    if (made == (uint32_t)r->number)
        rt_wait_word_wait(&r->shared->made, made, false);
}
