/*
 * async.c - cp.async: copies from global to shared memory
 *
 * A copy is made as late as the program allows: when its thread waits for its
 * group, or for all.  Until then the memory that it will write may not be
 * touched, and a kernel that does not wait finds what was there before.  Copies
 * of a thread that ends are never made.
 */
#include "tests/cuda/ptx/machine.h"

#include <string.h>

/* Those of all lanes; lanes that do not take part have the first one's. */
static void
read_addresses(const Warp *w, Operand at, bool narrow, int64_t offset,
               uint32_t lanes, uint64_t *out)
{
    uint32_t first = (uint32_t)__builtin_ctz(lanes);
    FOR_LANES(l)
    {
        uint32_t from = lanes >> l & 1 ? (uint32_t)l : first;
        out[l] =
            narrow ? (uint32_t)(LANES(uint32_t, w, at)[from] + (uint32_t)offset)
                   : LANES(uint64_t, w, at)[from] + (uint64_t)offset;
    }
}

static Touched
target_of(const Block *b, const AsyncCopy *c, uint32_t lanes)
{
    return (Touched){.lanes = lanes,
                     .bytes = c->bytes,
                     .address = c->to,
                     .stride = -1,
                     .shadows = b->shared_shadows};
}

/* ---- the source --------------------------------------------------------- */

static const Range *
find_source(Warp *w, const AsyncCopy *c, uint32_t lane)
{
    uint64_t from = c->from[lane];
    uint32_t bytes = c->kept[lane];
    const Range *r = ptx_find_range(w->block, from);
    if (!r || !r->memory.host || r->memory.end - from < bytes)
        ptx_violate(w, c->insn, lane, PTX_OUT_OF_BOUNDS, from,
                    "%u bytes of global memory", bytes);
    uint64_t distance = from - r->memory.begin;
    uint8_t valid = PTX_VALID;
    for (uint32_t n = 0; r->memory.valid && n < bytes; n++)
        valid &= r->memory.valid[distance + n];
    if (w->block->checks & PTX_CHECK_VALID && !valid)
        ptx_violate(w, c->insn, lane, PTX_INVALID_READ, from,
                    "%u bytes of global memory", bytes);
    ptx_note_read(r, distance, bytes);
    return r;
}

/* The lanes whose whole accesses are in a range. */
static uint32_t
lanes_within(const AsyncCopy *c, const Range *r, uint32_t lanes)
{
    uint32_t mask = 0;
    FOR_LANES(l)
    mask |= (uint32_t)(c->from[l] >= r->memory.begin &&
                       c->from[l] + c->bytes <= r->memory.end &&
                       c->kept[l] == c->bytes)
            << l;
    return mask & lanes;
}

/* A lane at the end of a range, or with fewer bytes. */
static void
touch_source_of(Warp *w, const AsyncCopy *c, const Range *r, uint32_t lane)
{
    uint32_t grain = w->block->kernel->grain[SPACE_GLOBAL];
    uint64_t n = (c->from[lane] - r->memory.begin) / grain;
    if (r->shadows.written)
        ptx_touch(w, c->insn, lane, TOUCH_READ, SPACE_GLOBAL,
                  (Shadows){r->shadows.written + n, r->shadows.read + n},
                  c->from[lane], c->kept[lane]);
}

static void
touch_sources(Warp *w, const AsyncCopy *c, uint32_t lanes)
{
    uint32_t left = 0;
    FOR_LANES_OF(l, lanes)
    left |= (uint32_t)(c->kept[l] != 0) << l;
    while (left) {
        uint32_t first = (uint32_t)__builtin_ctz(left);
        const Range *r = find_source(w, c, first);
        uint32_t within = lanes_within(c, r, left);
        FOR_LANES_OF(l, within & ~(1u << first))
        find_source(w, c, l);
        if (!within)
            touch_source_of(w, c, r, first);
        else if (r->shadows.written)
            ptx_touch_lanes(w, c->insn, SPACE_GLOBAL, TOUCH_READ,
                            &(Touched){.lanes = within,
                                       .bytes = c->bytes,
                                       .address = c->from,
                                       .base = r->memory.begin,
                                       .stride = -1,
                                       .shadows = r->shadows});
        left &= ~(within | 1u << first);
    }
}

/* ---- the instructions --------------------------------------------------- */

static void
check_lane(Warp *w, const AsyncCopy *c, uint32_t lane)
{
    Block *b = w->block;
    uint64_t to = c->to[lane], from = c->from[lane];
    if (c->kept[lane] > c->bytes)
        ptx_violate(w, c->insn, lane, PTX_UNDEFINED, 0, "%u bytes of %u",
                    c->kept[lane], c->bytes);
    if (to >= b->shared_bytes || to + c->bytes > b->shared_bytes)
        ptx_violate(w, c->insn, lane, PTX_OUT_OF_BOUNDS, to,
                    "%u bytes of shared memory, of which there are %u",
                    c->bytes, b->shared_bytes);
    if ((to | from) % c->bytes)
        ptx_violate(w, c->insn, lane, PTX_MISALIGNED, to % c->bytes ? to : from,
                    "%u bytes", c->bytes);
}

/* Lanes that copy nothing write zeros, and read nothing. */
static void
observe_copy(Warp *w, const AsyncCopy *c)
{
    uint32_t reading = 0;
    FOR_LANES_OF(l, c->lanes)
    reading |= (uint32_t)(c->kept[l] > 0) << l;
    ptx_observe(w, c->from, c->bytes, reading, false);
}

void
ptx_async_copy(Warp *w, const Insn *i, uint32_t lanes)
{
    const Access *a = &i->access;
    AsyncCopy c = {.insn = i, .lanes = lanes, .bytes = a->size};
    read_addresses(w, i->src[0], a->narrow, a->offset, lanes, c.to);
    read_addresses(w, i->src[1], a->from_narrow, a->from_offset, lanes, c.from);
    memcpy(c.kept, LANES(uint32_t, w, i->src[2]), sizeof c.kept);
    memcpy(c.groups, w->groups, sizeof c.groups);
    FOR_LANES_OF(l, lanes)
    check_lane(w, &c, l);
    Touched target = target_of(w->block, &c, lanes);
    if (w->block->shared_shadows.written)
        ptx_shadow_begin_async(w, i, &target);
    touch_sources(w, &c, lanes);
    observe_copy(w, &c);
    VEC_PUSH(w->block->machine->arena, w->copies, c);
}

void
ptx_async_commit(Warp *w, const Insn *i, uint32_t lanes)
{
    (void)i;
    FOR_LANES_OF(l, lanes)
    w->groups[l]++;
}

static void
finish_copies(Warp *w, const AsyncCopy *c, uint32_t lanes)
{
    Block *b = w->block;
    touch_sources(w, c, lanes);
    FOR_LANES_OF(l, lanes)
    {
        uint32_t kept = c->kept[l];
        if (kept) {
            const Range *r = ptx_find_range(b, c->from[l]);
            memcpy(b->shared + c->to[l],
                   r->memory.host + (c->from[l] - r->memory.begin), kept);
        }
        memset(b->shared + c->to[l] + kept, 0, c->bytes - kept);
    }
    Touched target = target_of(b, c, lanes);
    if (b->shared_shadows.written)
        ptx_shadow_end_async(w, &target);
}

/* wait_group n leaves the last n groups of each thread; wait_all (-1) leaves
 * nothing, not even what was not committed. */
void
ptx_async_wait(Warp *w, const Insn *i, uint32_t lanes)
{
    int left = 0;
    for (int n = 0; n < w->copies.len; n++) {
        AsyncCopy *c = &w->copies.data[n];
        uint32_t due = 0;
        FOR_LANES(l)
        due |=
            (uint32_t)(i->target < 0 || (int64_t)c->groups[l] <
                                            (int64_t)w->groups[l] - i->target)
            << l;
        due &= lanes & c->lanes;
        if (due)
            finish_copies(w, c, due);
        c->lanes &= ~due;
        if (c->lanes && left++ != n)
            w->copies.data[left - 1] = *c;
    }
    w->copies.len = left;
}
