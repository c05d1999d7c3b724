/*
 * depthwise_code.c - indices and operands of depthwise convolutions
 */
#include "backend/depthwise/depthwise.h"

/* ---- indices ------------------------------------------------------------- */

void
be_depthwise_set_place(DepthwiseCode *c, int64_t number)
{
    int64_t size = c->d->axes[1].places;
    int64_t at[] = {number / size, number % size};
    for (int i = 0; i < 2; i++) {
        const KVar *v = c->d->axes[i].place;
        if (v)
            c->e->indices[v->id] =
                (EmitIndex){.base = be_emit_word(c->e, at[i])};
    }
}

void
be_depthwise_set_window(DepthwiseCode *c, int axis, Val at)
{
    const KVar *v = c->d->axes[axis].window;
    if (v)
        c->e->indices[v->id] = (EmitIndex){.base = at};
}

void
be_depthwise_channels(DepthwiseCode *c, BeLoop *l)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    const KVar *v = c->d->channel;
    int lanes = e->tile.lanes;
    Val extent = be_emit_dim(e, v->extent);
    be_loop_begin(u, l, be_word(u, 0), extent, be_word(u, lanes), "channel");
    be_loop_body(u, l);
    bool whole = ir_dim_is_const(v->extent) && v->extent.c % lanes == 0;
    e->tile.mask[0] =
        whole ? NULL
              : be_emit_first_lanes(e, be_sub(u, extent, l->index), lanes);
    e->indices[v->id] = (EmitIndex){.base = l->index};
}

/* ---- operands ------------------------------------------------------------ */

Val
be_depthwise_window(const DepthwiseCode *c, Val row, Val column)
{
    BeUnit *u = c->e->u;
    const DepthwiseAxis *a = c->d->axes;
    int64_t line = be_depthwise_reach(&a[1], a[1].windows) * c->bytes;
    Val at = be_mul(u, row, be_word(u, a[0].step * line));
    Val along = be_mul(u, column, be_word(u, a[1].step * c->bytes));
    return be_offset(u, c->packed, be_add(u, at, along));
}

Val
be_depthwise_x(const DepthwiseCode *c, Val window, int64_t row, int64_t column)
{
    const DepthwiseAxis *a = &c->d->axes[1];
    int64_t at = row * be_depthwise_reach(a, a->windows) + column;
    BeUnit *u = c->e->u;
    return be_load(u, c->vector, be_offset_const(u, window, at * c->bytes),
                   (unsigned)c->bytes);
}

Val
be_depthwise_y(DepthwiseCode *c)
{
    Emit *e = c->e;
    const Depthwise *d = c->d;
    be_emit_slice(e, &d->of_y, &e->k->body);
    be_emit_slice(e, &d->of_y, &d->loop->loop.body);
    be_emit_slice(e, &d->of_y, &d->contract->contract.body);
    return be_emit_get_as(e, d->y, 0, 0, true);
}

static void
emit_rest(DepthwiseCode *c, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next) {
        if (n != c->d->contract && be_slice_contains(&c->d->epilogue, n))
            be_emit_node(c->e, n);
    }
}

void
be_depthwise_epilogue(DepthwiseCode *c, const Val *sums)
{
    Emit *e = c->e;
    for (int i = 0; i < e->tile.rows; i++)
        be_emit_set(e, c->d->contract, i, 0, sums[i]);
    emit_rest(c, &e->k->body);
    emit_rest(c, &c->d->loop->loop.body);
}
