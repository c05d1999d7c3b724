/*
 * warp_ops.c - operations between the lanes of a warp
 *
 * They are called with all lanes of the mask that have not ended (execute.c).
 * A value that comes from any other lane is undefined, and reported.
 */
#include "tests/cuda/ptx/machine.h"

#include "tests/cuda/ptx/arith.h"
#include "tests/cuda/ptx/numbers.h"

/* The orders of decode.c's lists. */
enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };
enum { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };
enum { REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR };

/* ---- shfl.sync ------------------------------------------------ */

/* The lane that a lane reads, and whether it is in range; else it reads itself.
 * c has the clamp, and above it the mask of segments. */
static int
source_lane(int mode, int lane, u32 b, u32 c, bool *in_range)
{
    int bval = (int)(b & 31), cval = (int)(c & 31), mask = (int)(c >> 8 & 31);
    int max_lane = (lane & mask) | (cval & ~mask);
    int j = mode == SHFL_UP     ? lane - bval
            : mode == SHFL_DOWN ? lane + bval
            : mode == SHFL_BFLY ? lane ^ bval
                                : (lane & mask) | (bval & ~mask);
    *in_range = mode == SHFL_UP ? j >= max_lane : j <= max_lane;
    return *in_range ? j : lane;
}

void
ptx_shfl(Warp *w, const Insn *i, uint32_t lanes)
{
    const u32 *a = LANES(u32, w, i->src[1]), *b = LANES(u32, w, i->src[2]),
              *c = LANES(u32, w, i->src[3]);
    u32 value[NUM_LANES], inside[NUM_LANES];
    FOR_LANES_OF(l, lanes)
    {
        bool in_range;
        int j = source_lane(i->mode, (int)l, b[l], c[l], &in_range);
        if (!(lanes >> j & 1))
            ptx_violate(w, i, l, PTX_BAD_WARP_OP, 0,
                        "reads lane %d, which does not take part", j);
        value[l] = a[j];
        inside[l] = in_range;
    }
    FOR_LANES_OF(l, lanes)
    LANES(u32, w, i->dst[0])[l] = value[l];
    if (i->num_dst > 1)
        FOR_LANES_OF(l, lanes)
    LANES(u32, w, i->dst[1])[l] = inside[l];
}

/* ---- vote.sync, activemask, redux.sync ---------------------------------- */

void
ptx_vote(Warp *w, const Insn *i, uint32_t lanes)
{
    const u32 *a = LANES(u32, w, i->src[1]);
    u32 yes = 0;
    FOR_LANES_OF(l, lanes)
    yes |= (u32)(a[l] != i->is_negated) << l;
    u32 result = i->mode == VOTE_ALL   ? yes == lanes
                 : i->mode == VOTE_ANY ? yes != 0
                 : i->mode == VOTE_UNI ? yes == lanes || yes == 0
                                       : yes;
    u32 *d = LANES(u32, w, i->dst[0]);
    FOR_LANES_OF(l, lanes)
    d[l] = result;
}

void
ptx_activemask(Warp *w, const Insn *i, uint32_t lanes)
{
    u32 *d = LANES(u32, w, i->dst[0]);
    FOR_LANES_OF(l, lanes)
    d[l] = lanes;
}

static u32
reduced(int mode, bool is_signed, u32 x, u32 y)
{
    bool less = is_signed ? (s32)x < (s32)y : x < y;
    switch (mode) {
    case REDUX_ADD:
        return x + y;
    case REDUX_MIN:
        return less ? x : y;
    case REDUX_MAX:
        return less ? y : x;
    case REDUX_AND:
        return x & y;
    case REDUX_OR:
        return x | y;
    default:
        return x ^ y;
    }
}

void
ptx_redux(Warp *w, const Insn *i, uint32_t lanes)
{
    const u32 *a = LANES(u32, w, i->src[1]);
    u32 first = (u32)__builtin_ctz(lanes), result = a[first];
    FOR_LANES_OF(l, lanes & (lanes - 1))
    result = reduced(i->mode, i->to == TYPE_s32, result, a[l]);
    u32 *d = LANES(u32, w, i->dst[0]);
    FOR_LANES_OF(l, lanes)
    d[l] = result;
}

/* Orders the accesses of all lanes only if all take part. */
void
ptx_bar_warp(Warp *w, const Insn *i, uint32_t lanes)
{
    (void)i;
    w->syncs += lanes == w->live;
}
