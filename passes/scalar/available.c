/*
 * available.c - the reads and writes of variables whose value is available
 */
#include "passes/scalar/available.h"

#include <assert.h>
AvailableAccesses
pass_available_new(Arena *a)
{
    return (AvailableAccesses){.arena = a, .ops = map_new(a)};
}

IrOp *
pass_available_access(const AvailableAccesses *l, const IrOp *access)
{
    assert(access->kind == OP_read || access->kind == OP_write);
    return map_get(l->ops, ir_text(access, A_var));
}

void
pass_available_note(AvailableAccesses *l, IrOp *access)
{
    assert(access->kind == OP_read || access->kind == OP_write);
    map_set(l->ops, ir_text(access, A_var), access);
}

static void
forget_written(IrOp *op, void *data)
{
    AvailableAccesses *l = data;
    if (op->kind == OP_write && pass_available_access(l, op))
        map_set(l->ops, ir_text(op, A_var), NULL);
    if (op->kind == OP_join || op->kind == OP_done)
        l->ops = map_new(l->arena);
}

void
pass_available_kill_written(AvailableAccesses *l, IrOp *op)
{
    ir_walk_op(op, forget_written, l);
}
