/*
 * op_index.c - positions of the operations of a block
 */
#include "passes/support/op_index.h"

#include <assert.h>
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

typedef struct FirstUsers {
    const IrBlock *block;
    IrOp **users;
} FirstUsers;

static void
note_user(IrOp *op, void *data)
{
    FirstUsers *first = data;
    for (int i = 0; i < op->num_operands; i++) {
        const IrOp *def = op->operands[i]->def;
        if (!def || def->block != first->block)
            continue;
        IrOp *user = in_block(op, first->block);
        if (user->id < first->users[def->id]->id)
            first->users[def->id] = user;
    }
}

IrOp **
pass_first_users(Arena *a, IrBlock *b)
{
    assert(!b->first || b->first->id == 0);
    int n = b->last ? b->last->id + 1 : 0;
    FirstUsers first = {b, NEW_ARRAY(a, IrOp *, (size_t)n)};
    for (int i = 0; i < n; i++)
        first.users[i] = b->last;
    ir_walk(b, note_user, &first);
    return first.users;
}
