/*
 * depthwise_pack.c - x for a band of windows, with zeros around
 *
 * Lanes run through the channels of x as they are in memory, those of a group
 * and then the next ones.  Machines move elements within parts of 16 bytes by
 * one instruction without a table; so of a group that is larger there is a
 * vector for each part of it, which all of the group's parts have.
 *
 * A row whose places along the first axis are in x has its first and last
 * places with all conditions, and those between with none.
 */
#include "backend/depthwise/depthwise.h"

enum { MAX_LANES = 64 };

/* Emits the nodes of b that x needs; conditions on the places along axes hold
 * where `inside` is set. */
static void
emit_x(DepthwiseCode *c, const KBlock *b, bool inside)
{
    Emit *e = c->e;
    const Depthwise *d = c->d;
    for (const KNode *n = b->first; n; n = n->next) {
        if (!be_slice_contains(&d->of_x, n) || n == d->group)
            continue;
        if (inside && be_depthwise_limits(d, n))
            be_emit_set(e, n, 0, 0, be_int(e->u->i1, 1));
        else
            be_emit_node(e, n);
    }
}

/* The index of the places of window 0. */
static const KVar *
place_index(const DepthwiseAxis *a)
{
    return a->place ? a->place : a->window;
}

/* Window 0 at a place. */
static void
set_place(DepthwiseCode *c, int axis, Val at)
{
    const DepthwiseAxis *a = &c->d->axes[axis];
    if (a->place)
        be_depthwise_set_index(c->e, a->window, be_emit_word(c->e, 0));
    be_depthwise_set_index(c->e, place_index(a), at);
}

/* x from channel number `from` of the first lane's group on. */
static Val
x_from(DepthwiseCode *c, int64_t from, bool inside)
{
    Emit *e = c->e;
    be_depthwise_set_index(e, c->d->within, be_emit_word(e, from));
    emit_x(c, &e->k->body, inside);
    emit_x(c, &c->d->loop->loop.body, inside);
    emit_x(c, &c->d->contract->contract.body, inside);
    return be_emit_get_as(e, c->d->x, 0, 0, true);
}

/* The part from channel k of each lane's group on, where x has the channels
 * from the group's first, or from another multiple of the lanes, on. */
static Val
part_of_groups(DepthwiseCode *c, Val x, int64_t k)
{
    int from[MAX_LANES], lanes = c->e->tile.lanes, width = (int)c->d->width;
    int run = width < lanes ? width : lanes;
    for (int i = 0; i < lanes; i++)
        from[i] = i / run * run + (int)k % run + i % c->part;
    return be_permute(c->e->u, x, from, lanes);
}

/* Packs a place at `to`. */
static void
pack_place(DepthwiseCode *c, Val to, bool inside)
{
    BeUnit *u = c->e->u;
    Val x = NULL;
    for (int64_t k = 0; k < c->d->width; k += c->part) {
        if (k % c->e->tile.lanes == 0)
            x = x_from(c, k, inside);
        Val part = c->d->width > c->part ? part_of_groups(c, x, k) : x;
        be_store(u, part, be_offset_const(u, to, k / c->part * c->bytes),
                 (unsigned)c->bytes);
    }
}

/* Packs places begin .. end of a row at `to`; returns where those that follow
 * are packed. */
static Val
pack_places(DepthwiseCode *c, Val to, Val begin, Val end, bool inside)
{
    BeUnit *u = c->e->u;
    const DepthwiseAxis *a = &c->d->axes[1];
    DepthwiseWalk walk;
    BeLoop l;
    set_place(c, 1, begin);
    be_depthwise_walk(c, &c->d->of_x, place_index(a), begin, &walk);
    be_loop_begin(u, &l, begin, end, be_word(u, 1), "place");
    to = be_loop_carry(u, &l, to);
    be_depthwise_walk_carry(c, &walk, &l);
    be_loop_body(u, &l);
    set_place(c, 1, l.index);
    pack_place(c, to, inside);
    be_loop_next(&l, 0, be_offset_const(u, to, c->place_bytes));
    be_depthwise_walk_next(c, &walk, &l);
    be_loop_end(u, &l);
    return be_loop_result(&l, 0);
}

/* Whether first <= at < end. */
static Val
is_between(BeUnit *u, Val at, int64_t first, int64_t end)
{
    Val low = be_icmp(u, LLVMIntSGE, at, be_word(u, first));
    Val high = be_icmp(u, LLVMIntSLT, at, be_word(u, end));
    return be_and(u, low, high);
}

/* A row of places, number `at` along the first axis; returns as above. */
static Val
pack_row(DepthwiseCode *c, Val to, Val at)
{
    BeUnit *u = c->e->u;
    const DepthwiseAxis *a = c->d->axes;
    Val none = be_word(u, be_depthwise_reach(&a[1], a[1].windows));
    Val in = is_between(u, at, a[0].first, a[0].end);
    Val first = be_select(u, in, be_word(u, a[1].first), none);
    Val end = be_select(u, in, be_word(u, a[1].end), none);
    set_place(c, 0, at);
    to = pack_places(c, to, be_word(u, 0), first, false);
    to = pack_places(c, to, first, end, true);
    return pack_places(c, to, end, none, false);
}

/* Lanes run along the group's channels, past its end, instead of the new ones;
 * or along these again. */
static void
run_within(DepthwiseCode *c, bool within)
{
    Emit *e = c->e;
    const Depthwise *d = c->d;
    if (!d->group)
        return;
    e->tile.lane = within ? d->within : d->channel;
    if (!within) {
        be_emit_find_varying(e, e->tile.row);
        return;
    }
    be_emit_find_varying_along(e, e->tile.row, d->within);
    Val first = e->indices[d->channel->id].base;
    Val width = be_emit_word(e, d->width);
    be_depthwise_set_index(e, d->within, be_emit_word(e, 0));
    be_depthwise_set_index(e, d->group->divide.var,
                           LLVMBuildUDiv(e->u->builder, first, width, ""));
}

void
be_depthwise_pack(DepthwiseCode *c, Val rows)
{
    BeUnit *u = c->e->u;
    const DepthwiseAxis *a = c->d->axes;
    Val step = be_word(u, a[0].step), last = be_sub(u, rows, be_word(u, 1));
    Val reach = be_add(u, be_mul(u, last, step), be_word(u, a[0].places));
    Val begin = be_mul(u, c->i, step), end = be_add(u, begin, reach);
    DepthwiseWalk walk;
    BeLoop l;
    run_within(c, true);
    set_place(c, 0, begin);
    set_place(c, 1, be_word(u, 0));
    be_depthwise_walk(c, &c->d->of_x, place_index(&a[0]), begin, &walk);
    be_loop_begin(u, &l, begin, end, be_word(u, 1), "row");
    Val to = be_loop_carry(u, &l, c->packed);
    be_depthwise_walk_carry(c, &walk, &l);
    be_loop_body(u, &l);
    be_loop_next(&l, 0, pack_row(c, to, l.index));
    be_depthwise_walk_next(c, &walk, &l);
    be_loop_end(u, &l);
    run_within(c, false);
}
