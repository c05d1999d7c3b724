/*
 * pass.c - places in the source for what passes insert
 */
#include "passes/support/pass.h"

Loc
pass_loc(const IrOp *op)
{
    const IrFunc *fn = op->block->func;
    for (; op; op = op->block->op)
        if (op->loc.line)
            return op->loc;
    return fn->loc;
}
