/*
 * uses.c - walking, counting uses, replacing values
 *
 * A replacement is noted on the value and applied to a whole function in one
 * sweep, so that replacing thousands of values costs one walk.
 */
#include "ir/build.h"

void
ir_walk(IrBlock *b, void (*visit)(IrOp *op, void *data), void *data)
{
    for (IrOp *op = b->first, *next; op; op = next) {
        next = op->next;
        visit(op, data);
        if (op->block != b) /* removed */
            continue;
        for (int r = 0; r < op->num_regions; r++)
            ir_walk(op->regions[r], visit, data);
    }
}

static void
clear_uses(IrOp *op, void *data)
{
    (void)data;
    for (int i = 0; i < op->num_results; i++)
        op->results[i]->num_uses = 0;
    for (int r = 0; r < op->num_regions; r++) {
        IrValues *args = &op->regions[r]->args;
        for (int i = 0; i < args->len; i++)
            args->data[i]->num_uses = 0;
    }
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
    for (int i = 0; i < fn->body->args.len; i++)
        fn->body->args.data[i]->num_uses = 0;
    ir_walk(fn->body, clear_uses, NULL);
    ir_walk(fn->body, count_operands, NULL);
}

void
ir_forward(IrValue *old, IrValue *replacement)
{
    old->forward = replacement;
}

/* The end of the chain from v, which becomes one link long. */
static IrValue *
forwarded(IrValue *v)
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

static void
apply_to_operands(IrOp *op, void *data)
{
    (void)data;
    for (int i = 0; i < op->num_operands; i++)
        op->operands[i] = forwarded(op->operands[i]);
}

void
ir_apply_forwards(IrFunc *fn)
{
    ir_walk(fn->body, apply_to_operands, NULL);
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

static void
stamp(IrOp *op, void *data)
{
    if (!op->reason)
        op->reason = data;
}

void
ir_stamp(IrBlock *b, const IrReason *reason)
{
    ir_walk(b, stamp, (void *)reason);
}
