/*
 * latest.c - what was last done to each variable, on the way through a block
 */
#include "passes/scalar/latest.h"

Latest
latest_new(Arena *a)
{
    return (Latest){map_new(a)};
}

IrOp *
latest_of(const Latest *l, const IrOp *access)
{
    return map_get(l->ops, ir_text(access, A_var));
}

void
latest_note(Latest *l, IrOp *access)
{
    map_set(l->ops, ir_text(access, A_var), access);
}

static void
forget_written(IrOp *op, void *data)
{
    Latest *l = data;
    if (op->kind == OP_write && latest_of(l, op))
        map_set(l->ops, ir_text(op, A_var), NULL);
}

void
latest_forget_written(Latest *l, IrOp *op)
{
    ir_walk_op(op, forget_written, l);
}
