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

static void
set_index(Emit *e, const KVar *v, Val at)
{
    if (v)
        e->indices[v->id] = (EmitIndex){.base = at};
}

/* Window 0 at a place. */
static void
set_place(DepthwiseCode *c, int axis, Val at)
{
    const DepthwiseAxis *a = &c->d->axes[axis];
    if (a->place)
        set_index(c->e, a->window, be_emit_word(c->e, 0));
    set_index(c->e, a->place ? a->place : a->window, at);
}

/* Places begin .. end of a row, which is packed at `to`. */
static void
pack_places(DepthwiseCode *c, Val to, Val begin, Val end, bool inside)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_word(u, 1), "place");
    be_loop_body(u, &l);
    set_place(c, 1, l.index);
    emit_x(c, &e->k->body, inside);
    emit_x(c, &c->d->loop->loop.body, inside);
    emit_x(c, &c->d->contract->contract.body, inside);
    Val at = be_mul(u, l.index, be_word(u, c->bytes));
    Val x = be_emit_get_as(e, c->d->x, 0, 0, true);
    be_store(u, x, be_offset(u, to, at), (unsigned)c->bytes);
    be_loop_end(u, &l);
}

/* Whether first <= at < end. */
static Val
is_between(BeUnit *u, Val at, int64_t first, int64_t end)
{
    Val low = be_icmp(u, LLVMIntSGE, at, be_word(u, first));
    Val high = be_icmp(u, LLVMIntSLT, at, be_word(u, end));
    return be_and(u, low, high);
}

void
be_depthwise_pack(DepthwiseCode *c, Val rows)
{
    BeUnit *u = c->e->u;
    const DepthwiseAxis *a = c->d->axes;
    int64_t all = be_depthwise_reach(&a[1], a[1].windows);
    Val step = be_word(u, a[0].step), last = be_sub(u, rows, be_word(u, 1));
    Val reach = be_add(u, be_mul(u, last, step), be_word(u, a[0].places));
    Val begin = be_mul(u, c->i, step);
    BeLoop l;
    be_loop_begin(u, &l, be_word(u, 0), reach, be_word(u, 1), "row");
    be_loop_body(u, &l);
    Val at = be_add(u, begin, l.index), none = be_word(u, all);
    Val in = is_between(u, at, a[0].first, a[0].end);
    Val first = be_select(u, in, be_word(u, a[1].first), none);
    Val end = be_select(u, in, be_word(u, a[1].end), none);
    Val to =
        be_offset(u, c->packed, be_mul(u, l.index, be_word(u, all * c->bytes)));
    set_place(c, 0, at);
    pack_places(c, to, be_word(u, 0), first, false);
    pack_places(c, to, first, end, true);
    pack_places(c, to, end, none, false);
    be_loop_end(u, &l);
}
