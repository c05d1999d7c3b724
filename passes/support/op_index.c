/*
 * op_index.c - positions of the operations of a block
 */
#include "passes/support/op_index.h"

void
pass_index_ops(IrBlock *b)
{
    int i = 0;
    for (IrOp *op = b->first; op; op = op->next)
        op->id = i++;
}

/* The operation of block b that op is, or is inside of; NULL if op is not in b.
 */
static IrOp *
in_block(IrOp *op, const IrBlock *b)
{
    while (op && op->block != b)
        op = op->block->op;
    return op;
}

IrOp *
pass_first_user(const IrUsers *users, const IrOp *op)
{
    IrOp *first = op->block->last;
    for (int i = 0; i < op->num_results; i++) {
        const IrOpList *of = ir_users_of(users, op->results[i]);
        IrOp *user = of->len ? in_block(of->data[0], op->block) : NULL;
        if (user && user->id < first->id)
            first = user;
    }
    return first;
}
