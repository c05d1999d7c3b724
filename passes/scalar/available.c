/*
 * available.c - the reads and writes of variables whose value is available
 */
#include "passes/scalar/available.h"

AvailableAccesses
available_new(Arena *a)
{
    return (AvailableAccesses){map_new(a)};
}

IrOp *
available_access(const AvailableAccesses *l, const IrOp *access)
{
    return map_get(l->ops, ir_text(access, A_var));
}

void
available_note(AvailableAccesses *l, IrOp *access)
{
    map_set(l->ops, ir_text(access, A_var), access);
}

static void
forget_written(IrOp *op, void *data)
{
    AvailableAccesses *l = data;
    if (op->kind == OP_write && available_access(l, op))
        map_set(l->ops, ir_text(op, A_var), NULL);
}

void
available_kill_written(AvailableAccesses *l, IrOp *op)
{
    ir_walk_op(op, forget_written, l);
}
