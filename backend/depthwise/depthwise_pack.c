/*
 * depthwise_pack.c - x for a band of windows, with zeros around
 *
 * A row whose places along the first axis are in x has its first and last
 * places with all conditions, and those between with none.
 */
#include "backend/depthwise/depthwise.h"

/* Emits the nodes of b that x needs; conditions on the places along axes hold
 * where `inside` is set. */
static void
emit_x(DepthwiseCode *c, const KBlock *b, bool inside)
{
    Emit *e = c->e;
    const Depthwise *d = c->d;
    for (const KNode *n = b->first; n; n = n->next) {
        if (!be_slice_contains(&d->of_x, n))
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

/* Packs places begin .. end of a row at `to`; returns where those that follow
 * are packed. */
static Val
pack_places(DepthwiseCode *c, Val to, Val begin, Val end, bool inside)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
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
    emit_x(c, &e->k->body, inside);
    emit_x(c, &c->d->loop->loop.body, inside);
    emit_x(c, &c->d->contract->contract.body, inside);
    Val x = be_emit_get_as(e, c->d->x, 0, 0, true);
    be_store(u, x, to, (unsigned)c->bytes);
    be_loop_next(&l, 0, be_offset_const(u, to, c->bytes));
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
}
