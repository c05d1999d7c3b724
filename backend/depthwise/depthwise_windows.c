/*
 * depthwise_windows.c - the windows of depthwise convolutions
 *
 * Items are windows.  Some rows of them, a band, share packed x, for a register
 * of channels at a time; in a row some windows have their sums side by side in
 * registers, beside the weights where these fit.
 */
#include "backend/depthwise/depthwise.h"

enum {
    MAX_WINDOWS = 8,   /* side by side */
    SCRATCH = 2,       /* registers for other values */
    FEWEST_WINDOWS = 4 /* that hide the latency of their additions */
};

/* ---- windows side by side ------------------------------------------------ */

/* The weights of all places, or no more than the address of none where they
 * would not fit the registers. */
typedef struct Weights {
    bool held;
    Val at[64];
} Weights;

static bool
weights_fit(const DepthwiseCode *c)
{
    int64_t all = c->e->target->num_registers - SCRATCH - FEWEST_WINDOWS;
    return !c->d->group && be_depthwise_products(c->d) <= all;
}

static Val
weight_of(DepthwiseCode *c, const Weights *w, int64_t number)
{
    if (w->held)
        return w->at[number];
    be_depthwise_set_product(c, number);
    return be_depthwise_y(c);
}

static void
hold_weights(DepthwiseCode *c, Weights *w)
{
    int64_t count = be_depthwise_products(c->d);
    *w = (Weights){0};
    for (int64_t i = 0; weights_fit(c) && i < count; i++)
        w->at[i] = weight_of(c, w, i);
    w->held = weights_fit(c);
}

/* As many windows as there are registers for; prefers a number that divides
 * those of a row. */
static int
choose_windows(const DepthwiseCode *c)
{
    int64_t all = c->e->target->num_registers - SCRATCH;
    int64_t held = weights_fit(c) ? be_depthwise_products(c->d) : 1;
    int64_t most = all - held, row = c->d->axes[1].windows;
    most = most < MAX_WINDOWS ? most : MAX_WINDOWS;
    most = most < row ? most : row;
    for (int64_t n = most; n > most / 2; n--) {
        if (row % n == 0)
            return (int)n;
    }
    return (int)most;
}

/* Adds a product to the sums of windows side by side, the first of which has
 * its places at `window`. */
static void
add_product(DepthwiseCode *c, Val *sums, int count, Val weight, Val window,
            int64_t product)
{
    for (int i = 0; i < count; i++) {
        Val x = be_depthwise_x(c, window, i, product);
        sums[i] = be_intrinsic3(c->e->u, "llvm.fma", x, weight, sums[i]);
    }
}

/* A loop over one axis of places that carries the sums and the address of x. */
static void
begin_places(DepthwiseCode *c, BeLoop *l, int axis, Val *sums, int count,
             Val *x)
{
    BeUnit *u = c->e->u;
    const DepthwiseAxis *a = &c->d->axes[axis];
    be_loop_begin(u, l, be_word(u, 0), be_word(u, a->places), be_word(u, 1),
                  "place");
    for (int i = 0; i < count; i++)
        sums[i] = be_loop_carry(u, l, sums[i]);
    *x = be_loop_carry(u, l, *x);
    be_loop_body(u, l);
    be_depthwise_set_index(c->e, a->place, l->index);
}

static void
end_places(DepthwiseCode *c, BeLoop *l, Val *sums, int count, Val next)
{
    BeUnit *u = c->e->u;
    for (int i = 0; i < count; i++)
        be_loop_next(l, i, sums[i]);
    be_loop_next(l, count, next);
    be_loop_end(u, l);
    for (int i = 0; i < count; i++)
        sums[i] = be_loop_result(l, i);
}

/* The products of groups: code for a place, in loops. */
static void
add_groups(DepthwiseCode *c, Val *sums, int count, Val window)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    const DepthwiseAxis *a = &c->d->axes[1];
    int64_t line = be_depthwise_reach(a, a->windows) * c->place_bytes;
    BeLoop rows, columns;
    begin_places(c, &rows, 0, sums, count, &window);
    Val x = window;
    begin_places(c, &columns, 1, sums, count, &x);
    for (int64_t k = 0; k < c->d->width; k++) {
        be_depthwise_set_index(e, c->d->within, be_emit_word(e, k));
        add_product(c, sums, count, be_depthwise_y(c), x, k);
    }
    end_places(c, &columns, sums, count, be_offset_const(u, x, c->place_bytes));
    end_places(c, &rows, sums, count, be_offset_const(u, window, line));
}

/* Windows of a row from `column` on, as many as the tile has rows; the first
 * one's places are packed at `window`. */
static void
emit_windows(DepthwiseCode *c, const Weights *w, Val window, Val column)
{
    Emit *e = c->e;
    int count = e->tile.rows;
    Val sums[MAX_WINDOWS];
    for (int i = 0; i < count; i++)
        sums[i] = be_zero(c->vector);
    e->tile.rows = 1;
    if (c->d->group)
        add_groups(c, sums, count, window);
    for (int64_t p = 0; !c->d->group && p < be_depthwise_products(c->d); p++)
        add_product(c, sums, count, weight_of(c, w, p), window, p);
    e->tile.rows = count;
    be_depthwise_set_window(c, 1, column);
    be_depthwise_epilogue(c, sums);
}

/* Windows begin .. end of a row whose places are packed at `line`. */
static void
emit_steps(DepthwiseCode *c, const Weights *w, Val line, Val begin, Val end,
           int count)
{
    BeUnit *u = c->e->u;
    const DepthwiseAxis *a = &c->d->axes[1];
    DepthwiseWalk walk;
    BeLoop l;
    be_depthwise_walk(c, &c->d->epilogue, a->window, begin, &walk);
    Val window = be_depthwise_window(c, line, begin);
    be_loop_begin(u, &l, begin, end, be_word(u, count), "window");
    window = be_loop_carry(u, &l, window);
    be_depthwise_walk_carry(c, &walk, &l);
    be_loop_body(u, &l);
    c->e->tile.rows = count;
    emit_windows(c, w, window, l.index);
    c->e->tile.rows = 1;
    be_loop_next(&l, 0,
                 be_offset_const(u, window, count * a->step * c->place_bytes));
    be_depthwise_walk_next(c, &walk, &l);
    be_loop_end(u, &l);
}

/* Row i of windows, of those among the items; its places are packed at `line`.
 */
static void
emit_row(DepthwiseCode *c, const Weights *w, Val line, Val i)
{
    BeUnit *u = c->e->u;
    int count = choose_windows(c);
    Val all = be_word(u, c->d->axes[1].windows);
    Val first = be_add(u, c->first, be_mul(u, i, all));
    Val from = be_max(u, be_sub(u, c->item, first), be_word(u, 0));
    Val to = be_min(u, be_sub(u, c->stop, first), all);
    to = be_max(u, from, to);
    Val number = be_sub(u, to, from);
    Val rest = LLVMBuildURem(u->builder, number, be_word(u, count), "");
    Val middle = be_sub(u, to, rest);
    be_depthwise_set_window(c, 0, i);
    emit_steps(c, w, line, from, middle, count);
    if (count > 1)
        emit_steps(c, w, line, middle, to, 1);
}

/* ---- bands --------------------------------------------------------------- */

static void
emit_rows_of_band(DepthwiseCode *c, const Weights *w, Val rows)
{
    BeUnit *u = c->e->u;
    Val end = be_add(u, c->i, rows), line = c->packed;
    DepthwiseWalk walk;
    BeLoop l;
    be_depthwise_set_window(c, 1, be_word(u, 0));
    be_depthwise_walk(c, &c->d->epilogue, c->d->axes[0].window, c->i, &walk);
    be_loop_begin(u, &l, c->i, end, be_word(u, 1), "row");
    line = be_loop_carry(u, &l, line);
    be_depthwise_walk_carry(c, &walk, &l);
    be_loop_body(u, &l);
    emit_row(c, w, line, l.index);
    be_loop_next(&l, 0, be_depthwise_next_row(c, line));
    be_depthwise_walk_next(c, &walk, &l);
    be_loop_end(u, &l);
}

/* The band's rows for all channels. */
static void
emit_band(DepthwiseCode *c, Val rows)
{
    BeLoop channels;
    Weights w;
    be_depthwise_channels(c, &channels);
    be_depthwise_pack(c, rows);
    hold_weights(c, &w);
    emit_rows_of_band(c, &w, rows);
    be_loop_end(c->e->u, &channels);
}

void
be_depthwise_emit_windows(DepthwiseCode *c)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    const DepthwiseAxis *a = c->d->axes;
    Val all = be_word(u, a[0].windows * a[1].windows);
    Val width = be_word(u, a[1].windows), height = be_word(u, a[0].windows);
    BeLoop l;
    be_loop_begin(u, &l, e->begin, e->end, NULL, "band");
    be_loop_body(u, &l);
    c->item = l.index;
    c->number = LLVMBuildUDiv(u->builder, l.index, all, "");
    Val rest = LLVMBuildURem(u->builder, l.index, all, "");
    c->first = be_sub(u, l.index, rest);
    c->i = LLVMBuildUDiv(u->builder, rest, width, "");
    Val last = be_min(u, be_add(u, c->i, be_word(u, c->band)), height);
    Val stop = be_add(u, c->first, be_mul(u, last, width));
    c->stop = be_min(u, stop, e->end);
    be_space_delinearize(e, &c->d->others, c->number);
    emit_band(c, be_sub(u, last, c->i));
    l.step = be_sub(u, c->stop, l.index);
    be_loop_end(u, &l);
}
