/*
 * users.c - which operations use a value
 */
#include "ir/analysis/users.h"

static void
note_operands(IrUsers *users, IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++) {
        IrOpList *of =
            IR_TABLE_SLOT(users->arena, users->of, op->operands[i]->number);
        if (!of->len || VEC_LAST(*of) != op)
            VEC_PUSH(users->arena, *of, op);
    }
}

static void
note_block(IrUsers *users, const IrBlock *b)
{
    for (IrOp *op = b->first; op; op = op->next) {
        note_operands(users, op);
        for (int i = 0; op->kind != OP_kernel && i < op->num_regions; i++)
            note_block(users, op->regions[i]);
    }
}

IrUsers
ir_users_find(Arena *a, const IrBlock *b)
{
    IrUsers users = {.arena = a};
    note_block(&users, b);
    return users;
}
