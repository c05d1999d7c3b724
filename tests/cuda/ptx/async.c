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

static uint64_t
address_of(const Warp *w, Operand at, bool narrow, int64_t offset,
           uint32_t lane)
{
    if (narrow)
        return (uint32_t)(LANES(uint32_t, w, at)[lane] + (uint32_t)offset);
    return LANES(uint64_t, w, at)[lane] + (uint64_t)offset;
}

static Shadows
shadows_of(const Block *b, const AsyncCopy *c)
{
    Shadows s = b->shared_shadows;
    uint32_t n = c->to / b->kernel->grain[SPACE_SHARED];
    return (Shadows){s.written + n, s.read + n};
}

/* ---- the source --------------------------------------------------------- */

static const uint8_t *
locate_source(Warp *w, const AsyncCopy *c, uint32_t bytes)
{
    const Range *r = ptx_find_range(w->block, c->from);
    if (!r || !r->memory.host || r->memory.end - c->from < bytes)
        ptx_violate(w, c->insn, c->lane, PTX_OUT_OF_BOUNDS, c->from,
                    "%u bytes of global memory", bytes);
    uint64_t distance = c->from - r->memory.begin;
    for (uint32_t n = 0; r->memory.valid && n < bytes; n++)
        if (w->block->checks & PTX_CHECK_VALID &&
            !(r->memory.valid[distance + n] & PTX_VALID))
            ptx_violate(w, c->insn, c->lane, PTX_INVALID_READ, c->from,
                        "%u bytes of global memory", bytes);
    uint32_t grain = w->block->kernel->grain[SPACE_GLOBAL];
    ptx_note_read(r, distance, bytes);
    Shadows s = {r->shadows.written + distance / grain,
                 r->shadows.read + distance / grain};
    if (r->shadows.written)
        ptx_touch(w, c->insn, c->lane, TOUCH_READ, SPACE_GLOBAL, s, c->from,
                  bytes);
    return r->memory.host + distance;
}

/* ---- the instructions --------------------------------------------------- */

static void
check_target(Warp *w, const AsyncCopy *c)
{
    Block *b = w->block;
    uint64_t to = c->to;
    if (to + c->bytes > b->shared_bytes)
        ptx_violate(w, c->insn, c->lane, PTX_OUT_OF_BOUNDS, to,
                    "%u bytes of shared memory, of which there are %u",
                    c->bytes, b->shared_bytes);
    if ((to | c->from) % c->bytes)
        ptx_violate(w, c->insn, c->lane, PTX_MISALIGNED,
                    to % c->bytes ? to : c->from, "%u bytes", c->bytes);
    if (b->shared_shadows.written)
        ptx_shadow_begin_async(w, c->insn, c->lane, shadows_of(b, c), to,
                               c->bytes);
}

static void
begin_copy(Warp *w, const Insn *i, uint32_t lane)
{
    const Access *a = &i->access;
    uint64_t to = address_of(w, i->src[0], a->narrow, a->offset, lane);
    uint32_t kept = LANES(uint32_t, w, i->src[2])[lane];
    AsyncCopy c = {.to = (uint32_t)to,
                   .bytes = a->size,
                   .insn = i,
                   .lane = (uint8_t)lane,
                   .group = w->groups[lane]};
    c.from = address_of(w, i->src[1], a->from_narrow, a->from_offset, lane);
    if (to > UINT32_MAX)
        ptx_violate(w, i, lane, PTX_OUT_OF_BOUNDS, to, "shared memory");
    if (kept > a->size)
        ptx_violate(w, i, lane, PTX_UNDEFINED, 0, "%u bytes of %u", kept,
                    a->size);
    c.zeros = a->size - kept;
    check_target(w, &c);
    if (kept)
        locate_source(w, &c, kept);
    VEC_PUSH(w->block->machine->arena, w->copies, c);
}

void
ptx_async_copy(Warp *w, const Insn *i, uint32_t lanes)
{
    FOR_LANES_OF(l, lanes)
    begin_copy(w, i, l);
}

void
ptx_async_commit(Warp *w, const Insn *i, uint32_t lanes)
{
    (void)i;
    FOR_LANES_OF(l, lanes)
    w->groups[l]++;
}

static void
finish_copy(Warp *w, const AsyncCopy *c)
{
    Block *b = w->block;
    uint32_t kept = c->bytes - c->zeros;
    if (kept)
        memcpy(b->shared + c->to, locate_source(w, c, kept), kept);
    memset(b->shared + c->to + kept, 0, c->zeros);
    if (b->shared_shadows.written)
        ptx_shadow_end_async(w, c->lane, shadows_of(b, c), c->bytes);
}

/* wait_group n leaves the last n groups of each thread; wait_all (-1) leaves
 * nothing, not even what was not committed. */
void
ptx_async_wait(Warp *w, const Insn *i, uint32_t lanes)
{
    int left = 0;
    for (int n = 0; n < w->copies.len; n++) {
        AsyncCopy c = w->copies.data[n];
        bool mine = lanes >> c.lane & 1;
        int64_t first = (int64_t)w->groups[c.lane] - i->target;
        if (mine && (i->target < 0 || (int64_t)c.group < first))
            finish_copy(w, &c);
        else
            w->copies.data[left++] = c;
    }
    w->copies.len = left;
}
