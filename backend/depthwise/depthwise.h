/*
 * depthwise.h - convolutions of each channel alone, and of narrow groups
 *
 * A kernel with a contraction in a vector loop along which both operands run
 * is no product of matrices: each channel, a lane, has its own window sums, of
 * the same channel of x or of each of a few that are its group.  Two forms are
 * recognized, x seen through windows and y another operand:
 *
 *   conv          grid: others, windows; contraction: places, group.  y is
 *                 the weights
 *   conv_weights  grid: places, group; contraction: others, windows.  y is as
 *                 the result of conv
 *
 * For a register of channels x is packed, with zeros around, so that no load
 * needs a guard; for a group's channel each lane gets that one of its own
 * group.  The weights (or the sums of all places) stay in registers, if they
 * fit, while the windows of an image are gone through.
 */
#ifndef TFD_BACKEND_DEPTHWISE_DEPTHWISE_H
#define TFD_BACKEND_DEPTHWISE_DEPTHWISE_H

#include "backend/gemm/gemm.h"

/* Along an axis, place a of window i is number step i + a of x's places, of
 * which those from `first` up to `end` are in x. */
typedef struct DepthwiseAxis {
    const KVar *window, *place; /* either may be NULL: there is one */
    int64_t windows, places, step;
    int64_t first, end;
} DepthwiseAxis;

typedef struct Depthwise {
    const KNode *contract, *loop;
    bool of_weights;
    const KVar *channel;
    int64_t width;         /* channels of a group */
    const KNode *group;    /* channel / width; NULL: each channel is a group */
    const KVar *within;    /* the group's channel, of so many; NULL likewise */
    EmitSpace others;      /* indices before those of windows */
    DepthwiseAxis axes[2]; /* the first may have one window of one place */
    const KNode *x, *y;
    KernelSlice of_x, of_y;
    KernelSlice epilogue; /* what is computed from the result */
} Depthwise;

/* Places of x along an axis, for so many windows. */
static inline int64_t
be_depthwise_reach(const DepthwiseAxis *a, int64_t windows)
{
    return (windows - 1) * a->step + a->places;
}

enum {
    DEPTHWISE_MAX_PRODUCTS = 128,
    DEPTHWISE_PART_BYTES = 16 /* of a vector, within which one instruction moves
                                 elements */
};

/* Products of a window and a channel, DEPTHWISE_MAX_PRODUCTS at most: of each
 * place, of each channel of the group. */
static inline int64_t
be_depthwise_products(const Depthwise *d)
{
    return d->axes[0].places * d->axes[1].places * d->width;
}

/* Whether the kernel of e is a depthwise convolution, which is then returned in
 * *out. */
bool be_depthwise_match(Emit *e, Depthwise *out);

/* Whether n is a condition on places along an axis, which holds from the axis'
 * `first` up to its `end`. */
bool be_depthwise_limits(const Depthwise *d, const KNode *n);

/* Whether the kernel is a conv_weights, whose items share work; and whether one
 * thread executes all of them, since they share nearly all of it. */
bool be_depthwise_is_of_weights(const BeKernel *k);
bool be_depthwise_is_undivided(const BeKernel *k);

/* Executes all items from e->begin to e->end. */
void be_depthwise_emit(Emit *e, const Depthwise *d);

/* The state while the loops are emitted. */
typedef struct DepthwiseCode {
    Emit *e;
    const Depthwise *d;
    Type vector;
    int64_t bytes;       /* of a vector */
    int part;            /* elements that move by one instruction */
    int64_t place_bytes; /* of a packed place: of a vector for each part of a
                            group */
    int64_t band;        /* rows of windows that x is packed for */
    Val packed;          /* x: [reach of the band][reach of a row] */
    Val number,
        i; /* of the others' point; of the band's first row of windows */
    Val item, stop; /* the items of the band are from item up to stop */
    Val first;      /* the item of the first window of the others */
} DepthwiseCode;

/* Packs x for the band from window c->i on, of so many rows of windows, and the
 * present channels (depthwise_pack.c). */
void be_depthwise_pack(DepthwiseCode *c, Val rows);
/* The address of the packed places of a window, from that of window 0 of its
 * row, and that of the next row's; x of a product of the window that is so many
 * further on. */
Val be_depthwise_window(const DepthwiseCode *c, Val line, Val column);
Val be_depthwise_next_row(const DepthwiseCode *c, Val line);
Val be_depthwise_x(const DepthwiseCode *c, Val window, int64_t further,
                   int64_t product);
/* Sets an index, if there is one. */
void be_depthwise_set_index(Emit *e, const KVar *v, Val at);
/* Sets the indices of a product of a window. */
void be_depthwise_set_product(DepthwiseCode *c, int64_t product);
/* y at the present indices. */
Val be_depthwise_y(DepthwiseCode *c);
/* Sets the index of a window along an axis. */
void be_depthwise_set_window(DepthwiseCode *c, int axis, Val at);
/* All that follows the contraction, whose value is sums, one for each row of
 * the tile. */
void be_depthwise_epilogue(DepthwiseCode *c, const Val *sums);

/* The loads and stores of a slice along an index: a loop over it carries their
 * words, since their other terms are the same in all rounds. */
typedef struct DepthwiseWalk {
    const KVar *along;
    int num, first; /* numbers of the words that the loop carries */
    const KIndex *of[8];
    Val words[8];
} DepthwiseWalk;

/* Finds them, with their words at `begin` (where the index may be one of a loop
 * inside that of another walk); makes the loop carry the words; and hands on
 * those of the next round, l->step further on. */
void be_depthwise_walk(DepthwiseCode *c, const KernelSlice *slice,
                       const KVar *along, Val begin, DepthwiseWalk *w);
void be_depthwise_walk_carry(DepthwiseCode *c, DepthwiseWalk *w, BeLoop *l);
void be_depthwise_walk_next(DepthwiseCode *c, const DepthwiseWalk *w,
                            BeLoop *l);

/* The channels from number l->index on, in a loop that the caller ends with
 * be_loop_end; the tile has their lanes and mask. */
void be_depthwise_channels(DepthwiseCode *c, BeLoop *l);

/* Both forms (depthwise_windows.c, depthwise_weights.c). */
void be_depthwise_emit_windows(DepthwiseCode *c);
void be_depthwise_emit_weights(DepthwiseCode *c);

#endif
