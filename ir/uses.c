/*
 * uses.c - walking, counting uses, replacing values
 *
 * A replacement is noted on the value and applied to a whole function in one
 * sweep, so that replacing thousands of values costs one walk.
 */
#include "ir/ir.h"

#include <assert.h>

void
ir_walk_op(IrOp *op, void (*visit)(IrOp *op, void *data), void *data)
{
    const IrBlock *b = op->block;
    visit(op, data);
    if (op->block != b) /* removed */
        return;
    for (int r = 0; r < op->num_regions; r++)
        ir_walk(op->regions[r], visit, data);
}

void
ir_walk(IrBlock *b, void (*visit)(IrOp *op, void *data), void *data)
{
    for (IrOp *op = b->first, *next; op; op = next) {
        next = op->next;
        ir_walk_op(op, visit, data);
    }
}

/* Calls visit on every value that b and its regions define. */
static void
each_value(IrBlock *b, void (*visit)(IrValue *v))
{
    for (int i = 0; i < b->args.len; i++)
        visit(b->args.data[i]);
    for (IrOp *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->num_results; i++)
            visit(op->results[i]);
        for (int r = 0; r < op->num_regions; r++)
            each_value(op->regions[r], visit);
    }
}

static void
clear_uses(IrValue *v)
{
    v->num_uses = 0;
}

static void
count_operands(IrOp *op, void *data)
{
    (void)data;
    for (int i = 0; i < op->num_operands; i++)
        op->operands[i]->num_uses++;
}

void
ir_count_uses(IrFunc *fn)
{
    each_value(fn->body, clear_uses);
    ir_walk(fn->body, count_operands, NULL);
}

void
ir_forward(IrValue *old, IrValue *replacement)
{
    assert(replacement && old != replacement && !old->forward);
    old->forward = replacement;
}

/* The chain from v becomes one link long. */
IrValue *
ir_forwarded(IrValue *v)
{
    IrValue *end = v;
    while (end->forward)
        end = end->forward;
    while (v->forward) {
        IrValue *next = v->forward;
        v->forward = end;
        if (next == end)
            break;
        v = next;
    }
    return end;
}

void
ir_follow_forwards(IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        op->operands[i] = ir_forwarded(op->operands[i]);
}

static void
follow_forwards(IrOp *op, void *data)
{
    (void)data;
    ir_follow_forwards(op);
}

void
ir_apply_forwards(IrFunc *fn)
{
    ir_walk(fn->body, follow_forwards, NULL);
}

bool
ir_has_effects(const IrBlock *b)
{
    for (const IrOp *op = b->first; op; op = op->next) {
        IrEffect e = ir_op_info[op->kind].effect;
        if (e != PURE && e != READS && e != CONTROL)
            return true;
        for (int i = 0; i < op->num_regions; i++)
            if (ir_has_effects(op->regions[i]))
                return true;
    }
    return false;
}

typedef struct Collector {
    Arena *arena;
    VEC(IrOp *) ops;
} Collector;

static void
collect(IrOp *op, void *data)
{
    Collector *c = data;
    if (ir_op_info[op->kind].effect == COLLECTIVE)
        VEC_PUSH(c->arena, c->ops, op);
}

IrOp **
ir_collectives(const IrFunc *fn, Arena *a, int *count)
{
    Collector c = {.arena = a};
    ir_walk(fn->body, collect, &c);
    *count = c.ops.len;
    return c.ops.data;
}
