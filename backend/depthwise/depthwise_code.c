/*
 * depthwise_code.c - indices and operands of depthwise convolutions
 */
#include "backend/depthwise/depthwise.h"

enum { MAX_LANES = 64 };

/* ---- indices ------------------------------------------------------------- */

void
be_depthwise_set_index(Emit *e, const KVar *v, Val at)
{
    if (v)
        e->indices[v->id] = (EmitIndex){.base = at};
}

void
be_depthwise_set_product(DepthwiseCode *c, int64_t product)
{
    const Depthwise *d = c->d;
    const KVar *vars[] = {d->axes[0].place, d->axes[1].place, d->within};
    int64_t sizes[] = {d->axes[0].places, d->axes[1].places, d->width};
    for (int i = 2; i >= 0; product /= sizes[i], i--) {
        Val word = be_emit_word(c->e, product % sizes[i]);
        be_depthwise_set_index(c->e, vars[i], word);
    }
}

void
be_depthwise_set_window(DepthwiseCode *c, int axis, Val at)
{
    be_depthwise_set_index(c->e, c->d->axes[axis].window, at);
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

/* ---- addresses ----------------------------------------------------------- */

/* Of a group's channels, those in a register begin at its first. */
static bool
is_axis(const DepthwiseCode *c, const KVar *v)
{
    const Depthwise *d = c->d;
    bool is = v == d->channel || (d->group && v == d->group->divide.var) ||
              (v == d->within && d->width <= c->e->tile.lanes);
    for (int i = 0; i < d->others.count; i++)
        is |= v == d->others.vars[i];
    for (int i = 0; i < 2; i++)
        is |= v == d->axes[i].window || v == d->axes[i].place;
    return is;
}

/* Whether x has terms of the convolution's own indices alone: these are set
 * before the loop, others by nodes within it. */
static bool
is_of_axes(const DepthwiseCode *c, const KIndex *x)
{
    for (int i = 0; i < x->num_terms; i++)
        if (!is_axis(c, x->terms[i].var))
            return false;
    return true;
}

static void
add_words(DepthwiseCode *c, const KernelSlice *slice, const KBlock *b,
          DepthwiseWalk *w)
{
    enum { MOST = sizeof w->of / sizeof w->of[0] };
    for (const KNode *n = b->first; n; n = n->next) {
        const KIndex *at = n->kind == K_LOAD    ? &n->load.at
                           : n->kind == K_STORE ? &n->store.at
                                                : NULL;
        if (!at || !be_slice_contains(slice, n) || !is_of_axes(c, at) ||
            w->num == MOST)
            continue;
        w->of[w->num] = at;
        w->words[w->num++] = be_address_of(c->e, at).base;
    }
}

/* The word of x where the index is `count` greater. */
static Val
further(DepthwiseCode *c, const KIndex *x, const KVar *along, Val word,
        Val count)
{
    BeUnit *u = c->e->u;
    Val step = be_emit_dim(c->e, be_index_coef(x, along));
    return be_add(u, word, be_mul(u, step, count));
}

void
be_depthwise_walk(DepthwiseCode *c, const KernelSlice *slice, const KVar *along,
                  Val begin, DepthwiseWalk *w)
{
    *w = (DepthwiseWalk){.along = along};
    be_depthwise_set_index(c->e, along, be_emit_word(c->e, 0));
    add_words(c, slice, &c->e->k->body, w);
    add_words(c, slice, &c->d->loop->loop.body, w);
    add_words(c, slice, &c->d->contract->contract.body, w);
    for (int i = 0; i < w->num; i++)
        w->words[i] = further(c, w->of[i], along, w->words[i], begin);
}

void
be_depthwise_walk_carry(DepthwiseCode *c, DepthwiseWalk *w, BeLoop *l)
{
    w->first = l->num_carried;
    for (int i = 0; i < w->num; i++) {
        Val word = be_loop_carry(c->e->u, l, w->words[i]);
        EmitCarried here = {w->of[i], word};
        VEC_PUSH(c->e->arena, c->e->carried, here);
    }
}

void
be_depthwise_walk_next(DepthwiseCode *c, const DepthwiseWalk *w, BeLoop *l)
{
    for (int i = 0; i < w->num; i++) {
        int number = w->first + i;
        Val word = further(c, w->of[i], w->along, l->carried[number], l->step);
        be_loop_next(l, number, word);
    }
    c->e->carried.len -= w->num;
}

/* ---- operands ------------------------------------------------------------ */

Val
be_depthwise_window(const DepthwiseCode *c, Val line, Val column)
{
    BeUnit *u = c->e->u;
    const DepthwiseAxis *a = &c->d->axes[1];
    return be_offset(u, line,
                     be_mul(u, column, be_word(u, a->step * c->place_bytes)));
}

Val
be_depthwise_next_row(const DepthwiseCode *c, Val line)
{
    const DepthwiseAxis *a = c->d->axes;
    int64_t size = be_depthwise_reach(&a[1], a[1].windows) * c->place_bytes;
    return be_offset_const(c->e->u, line, a[0].step * size);
}

/* Channel k of each lane's group, from the packed vector that has it. */
static Val
channel_of_groups(const DepthwiseCode *c, Val x, int64_t k)
{
    int from[MAX_LANES], lanes = c->e->tile.lanes, width = (int)c->d->width;
    int run = width < c->part ? width : c->part;
    for (int i = 0; i < lanes; i++)
        from[i] = i / run * run + (int)k % run;
    return be_permute(c->e->u, x, from, lanes);
}

Val
be_depthwise_x(const DepthwiseCode *c, Val window, int64_t further,
               int64_t product)
{
    const DepthwiseAxis *a = &c->d->axes[1];
    int64_t width = c->d->width, place = product / width, k = product % width;
    int64_t row = place / a->places;
    int64_t column = place % a->places + further * a->step;
    int64_t at = row * be_depthwise_reach(a, a->windows) + column;
    int64_t bytes = at * c->place_bytes + k / c->part * c->bytes;
    BeUnit *u = c->e->u;
    Val x = be_load(u, c->vector, be_offset_const(u, window, bytes),
                    (unsigned)c->bytes);
    return width == 1 ? x : channel_of_groups(c, x, k);
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
