/*
 * pool.c - offsets for buffers, with little waste
 *
 * Buffers are placed one after the other, each in a gap between those whose
 * lifetimes overlap.  The best order depends on the program, so several are
 * tried and the best result is kept: largest first (the greedy-by-size
 * heuristic of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural
 * Net Inference", 2020), by bytes times lifetime, those of the worst point
 * first, longest lifetime first, and by beginning; each into the lowest gap and
 * into the tightest one.  A result that needs only the bytes that are live at
 * the worst point is optimal and ends the search.  If there are too many
 * buffers to visit all pairs, they are only placed by beginning.
 */
#include "passes/memory/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "ir/analysis/hooks.h"

static int64_t
align_up(int64_t x, int64_t align)
{
    return (x + align - 1) / align * align;
}

static bool
live_together(const Buffer *a, const Buffer *b)
{
    return a->begin <= b->end && b->begin <= a->end;
}

/* ---- the worst point ---------------------------------------------------- */

typedef struct Worst {
    int at;        /* where most bytes are live */
    int64_t bytes; /* that many, in whole lines */
} Worst;

static int
by_begin(const void *x, const void *y)
{
    const Buffer *a = *(Buffer *const *)x, *b = *(Buffer *const *)y;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* Drops those of the n live buffers that have ended before a position. */
static int
drop_ended(Buffer **live, int n, int before, int64_t *bytes)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (live[i]->end >= before)
            live[kept++] = live[i];
        else
            *bytes -= ir_align_to_line(live[i]->bytes);
    }
    return kept;
}

static Worst
find_worst(const Pool *p)
{
    int n = p->buffers.len, num_live = 0;
    size_t size = (size_t)n * sizeof(Buffer *);
    Buffer **sorted = arena_copy(p->arena, p->buffers.data, size);
    Buffer **live = NEW_ARRAY(p->arena, Buffer *, (size_t)n);
    Worst worst = {0, 0};
    int64_t bytes = 0;
    qsort(sorted, (size_t)n, sizeof *sorted, by_begin);
    for (int i = 0; i < n; i++) {
        int at = sorted[i]->begin;
        num_live = drop_ended(live, num_live, at, &bytes);
        live[num_live++] = sorted[i];
        bytes += ir_align_to_line(sorted[i]->bytes);
        if (bytes > worst.bytes)
            worst = (Worst){at, bytes};
    }
    return worst;
}

/* ---- orders ------------------------------------------------------------- */

/* The key of an order; the greatest is placed first. */
typedef double Key(const Buffer *b, const Worst *worst);

static double
key_size(const Buffer *b, const Worst *worst)
{
    (void)worst;
    return (double)b->bytes;
}

static double
key_life(const Buffer *b, const Worst *worst)
{
    (void)worst;
    return b->end - b->begin + 1;
}

static double
key_area(const Buffer *b, const Worst *worst)
{
    return key_size(b, worst) * key_life(b, worst);
}

static double
key_worst(const Buffer *b, const Worst *worst)
{
    return b->begin <= worst->at && b->end >= worst->at;
}

static double
key_begin(const Buffer *b, const Worst *worst)
{
    (void)worst;
    return -(double)b->begin;
}

typedef struct Order {
    Key *first, *second; /* the second among equals of the first */
} Order;

static const Order orders[] = {
    {key_size, key_begin}, {key_area, key_size}, {key_worst, key_size},
    {key_worst, key_area}, {key_life, key_size}, {key_begin, key_size},
};

enum {
    NUM_ORDERS = sizeof orders / sizeof *orders,
    /* pairs of buffers that all trials may visit together */
    MAX_PAIRS = 1 << 26,
    MAX_BUFFERS = 1 << 15 /* up to which all pairs are visited */
};

typedef struct Ranked {
    double first, second;
    Buffer *buffer;
} Ranked;

static int
by_rank(const void *x, const void *y)
{
    const Ranked *a = x, *b = y;
    if (a->first != b->first)
        return a->first < b->first ? 1 : -1;
    if (a->second != b->second)
        return a->second < b->second ? 1 : -1;
    return (a->buffer->number > b->buffer->number) -
           (a->buffer->number < b->buffer->number);
}

static void
rank_buffers(const Pool *p, const Order *order, const Worst *worst, Ranked *out)
{
    for (int i = 0; i < p->buffers.len; i++) {
        Buffer *b = p->buffers.data[i];
        out[i] = (Ranked){.buffer = b};
        out[i].first = order->first(b, worst);
        out[i].second = order->second(b, worst);
    }
    qsort(out, (size_t)p->buffers.len, sizeof *out, by_rank);
}

/* ---- one trial ---------------------------------------------------------- */

typedef struct Gap {
    int64_t offset, waste; /* waste: unused bytes of the gap */
    bool found;
} Gap;

static void
consider(Gap *best, bool tightest, int64_t offset, int64_t waste)
{
    if (!best->found || (tightest && waste < best->waste))
        *best = (Gap){offset, waste, true};
}

/* An offset at which b overlaps none of the n placed buffers that live at the
 * same time, which are given in order of their offsets: in the lowest gap, or
 * in the tightest gap between others. */
static int64_t
find_gap(const Pool *p, const Buffer *b, int n, Buffer *const *placed,
         bool tightest)
{
    assert(b->align > 0 && b->bytes >= 0 && b->begin <= b->end);
    int64_t offset = align_up(p->base, b->align);
    Gap best = {0};
    for (int i = 0; i < n && (tightest || !best.found); i++) {
        const Buffer *other = placed[i];
        if (!live_together(b, other))
            continue;
        int64_t left = other->place.offset - (offset + b->bytes);
        if (left >= 0)
            consider(&best, tightest, offset, left);
        int64_t past = align_up(other->place.offset + other->bytes, b->align);
        if (past > offset)
            offset = past;
    }
    return best.found ? best.offset : offset;
}

/* Inserts b among the n placed ones, in order of their offsets. */
static void
insert(Buffer **placed, int n, Buffer *b)
{
    int i = n;
    for (; i > 0 && placed[i - 1]->place.offset > b->place.offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = b;
}

/* Places the buffers in the order of their ranks; returns the end of the last
 * one. */
static int64_t
try_order(const Pool *p, const Ranked *ranked, bool tightest, Buffer **placed)
{
    int64_t top = p->base;
    for (int i = 0; i < p->buffers.len; i++) {
        Buffer *b = ranked[i].buffer;
        b->place.offset = find_gap(p, b, i, placed, tightest);
        insert(placed, i, b);
        if (b->place.offset + b->bytes > top)
            top = b->place.offset + b->bytes;
    }
    return top;
}

/* The same in order of beginnings: a buffer that has ended cannot overlap later
 * ones. */
static int64_t
sweep(const Pool *p, Ranked *ranked, const Worst *worst, Buffer **placed)
{
    static const Order as_they_begin = {key_begin, key_size};
    int64_t top = p->base, dropped = 0;
    int n = 0;
    rank_buffers(p, &as_they_begin, worst, ranked);
    for (int i = 0; i < p->buffers.len; i++) {
        Buffer *b = ranked[i].buffer;
        n = drop_ended(placed, n, b->begin, &dropped);
        b->place.offset = find_gap(p, b, n, placed, false);
        insert(placed, n++, b);
        if (b->place.offset + b->bytes > top)
            top = b->place.offset + b->bytes;
    }
    return top;
}

/* ---- the best of all ---------------------------------------------------- */

static void
keep_offsets(const Pool *p, int64_t *offsets)
{
    for (int i = 0; i < p->buffers.len; i++)
        offsets[i] = p->buffers.data[i]->place.offset;
}

static void
take_offsets(const Pool *p, const int64_t *offsets)
{
    for (int i = 0; i < p->buffers.len; i++)
        p->buffers.data[i]->place.offset = offsets[i];
}

/* How many orders are worth trying. */
static int
num_trials(int n)
{
    int64_t fit = MAX_PAIRS / ((int64_t)n * n);
    return fit < 1 ? 1 : fit < 2 * NUM_ORDERS ? (int)fit : 2 * NUM_ORDERS;
}

int64_t
pass_pool_assign_offsets(Pool *p)
{
    assert(p->base >= 0);
    size_t n = (size_t)p->buffers.len;
    if (n == 0)
        return p->base;
    Worst worst = find_worst(p);
    int64_t best = INT64_MAX, *offsets = NEW_ARRAY(p->arena, int64_t, n);
    Ranked *ranked = NEW_ARRAY(p->arena, Ranked, n);
    Buffer **placed = NEW_ARRAY(p->arena, Buffer *, n);
    if (p->buffers.len > MAX_BUFFERS)
        return sweep(p, ranked, &worst, placed);
    int trials = num_trials(p->buffers.len);
    for (int i = 0; i < trials && best > p->base + worst.bytes; i++) {
        rank_buffers(p, &orders[i / 2], &worst, ranked);
        int64_t top = try_order(p, ranked, i % 2 == 1, placed);
        if (top >= best)
            continue;
        best = top;
        keep_offsets(p, offsets);
    }
    take_offsets(p, offsets);
    return best;
}
