/*
 * live.c - what main may still read after a safepoint
 *
 * The values that exist at the end of an iteration are the carried values of
 * the loop and, in each block around it, the arguments and the results of
 * earlier operations.  A value is live if a later operation reads it; inside an
 * outer loop, all operations of that loop count as later, because of its next
 * iteration.
 */
#include "ir/analysis/live.h"

#include <assert.h>
#include <stdlib.h>
#include "ir/analysis/footprint.h"
#include "ir/analysis/hooks.h"
#include "ir/analysis/per_replica.h"
#include "ir/loop.h"
#include "ir/ptrmap.h"
#include "ir/type_bounds.h"

typedef struct Live {
    Arena *arena;
    PtrMap there;
    IrValues list;
} Live;

/* ---- what is there ------------------------------------------------------ */

static void
add_values(Live *l, int n, IrValue *const *values)
{
    for (int i = 0; i < n; i++)
        ir_ptrmap_set(&l->there, values[i], values[i]);
}

/* Visits the blocks around op, outermost last. */
static void
add_visible(Live *l, const IrOp *op)
{
    for (; op; op = op->block->op) {
        add_values(l, op->block->args.len, op->block->args.data);
        for (const IrOp *before = op->prev; before; before = before->prev)
            add_values(l, before->num_results, before->results);
    }
}

/* ---- what is read ------------------------------------------------------- */

static void
take(Live *l, IrValue *v)
{
    if (!ir_ptrmap_get(&l->there, v))
        return;
    ir_ptrmap_set(&l->there, v, NULL);
    VEC_PUSH(l->arena, l->list, v);
}

static void
take_operands(IrOp *op, void *data)
{
    for (int i = 0; i < op->num_operands; i++)
        take(data, op->operands[i]);
}

static void
take_regions(Live *l, const IrOp *op)
{
    for (int r = 0; r < op->num_regions; r++)
        ir_walk(op->regions[r], take_operands, l);
}

static void
take_after(Live *l, const IrOp *op)
{
    for (IrOp *after = op->next; after; after = after->next) {
        take_operands(after, l);
        take_regions(l, after);
    }
}

IrValues
ir_live_at_safepoint(Arena *a, const IrOp *loop)
{
    assert(ir_is_loop(loop));
    Live l = {.arena = a, .there = {.arena = a}};
    const IrValues *carried = &loop->regions[0]->args;
    add_visible(&l, loop);
    add_values(&l, carried->len, carried->data);
    for (int i = 0; i < carried->len; i++)
        take(&l, carried->data[i]);
    take_regions(&l, loop);
    for (const IrOp *op = loop; op; op = op->block->op) {
        const IrOp *around = op->block->op;
        if (around && ir_is_loop(around))
            take_regions(&l, around);
        else
            take_after(&l, op);
    }
    return l.list;
}

/* ---- as ranges of bytes ------------------------------------------------- */

static void
add_extent(const IrModule *m, IrExtents *to, const IrType *t, IrPlace place)
{
    int64_t bytes;
    if (!ir_type_bytes(m, t, &bytes) || bytes <= 0)
        return;
    VEC_PUSH(m->arena, *to, ((IrExtent){place.offset, place.offset + bytes}));
}

static int
by_begin(const void *a, const void *b)
{
    const IrExtent *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Sorts ranges, and merges those that touch. */
static void
merge(IrExtents *e)
{
    int n = 0;
    if (e->len)
        qsort(e->data, (size_t)e->len, sizeof *e->data, by_begin);
    for (int i = 0; i < e->len; i++) {
        IrExtent *last = n ? &e->data[n - 1] : NULL;
        if (!last || e->data[i].begin > last->end)
            e->data[n++] = e->data[i];
        else if (e->data[i].end > last->end)
            last->end = e->data[i].end;
    }
    e->len = n;
}

int64_t
ir_extents_bytes(const IrExtents *e)
{
    int64_t sum = 0;
    for (int i = 0; i < e->len; i++)
        sum += e->data[i].end - e->data[i].begin;
    return sum;
}

static void
add_live(const IrModule *m, IrSafepoint *s)
{
    IrValues live = ir_live_at_safepoint(m->arena, s->loop);
    for (int i = 0; i < live.len; i++) {
        const IrValue *v = live.data[i];
        bool own = v->type.locality == LOCAL_PER_REPLICA;
        if (v->place.space == SPACE_FRAME)
            add_extent(m, &s->frame, &v->type, v->place);
        if (v->place.space == SPACE_ROW)
            add_extent(m, own ? &s->own : &s->shared, &v->type, v->place);
    }
}

IrExtents *
ir_extents_of(IrSafepoint *s, const IrVar *v)
{
    return v->type.locality == LOCAL_ON ? &s->central
           : ir_var_is_shared(v)        ? &s->shared
                                        : &s->own;
}

static void
add_variables(const IrModule *m, IrSafepoint *s)
{
    for (int i = 0; i < m->vars.len; i++) {
        const IrVar *v = m->vars.data[i];
        add_extent(m, ir_extents_of(s, v), &v->type, v->place);
    }
}

IrSafepoint
ir_safepoint(const IrModule *m, IrFunc *main, IrOp *loop)
{
    IrSafepoint s = {.loop = loop};
    IrExtent counters = {main->arena_bytes, ir_frame_bytes(main)};
    add_live(m, &s);
    add_variables(m, &s);
    if (counters.begin < counters.end)
        VEC_PUSH(m->arena, s.frame, counters);
    merge(&s.frame);
    merge(&s.shared);
    merge(&s.central);
    merge(&s.own);
    return s;
}
