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
#include "ir/loop.h"

#include "ir/ptrmap.h"

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
