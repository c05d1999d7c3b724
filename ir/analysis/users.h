/*
 * users.h - which operations use a value
 *
 * The table is made once for a function, in one walk; who needs the users of a
 * value asks it instead of walking over all operations.
 */
#ifndef TFD_IR_ANALYSIS_USERS_H
#define TFD_IR_ANALYSIS_USERS_H

#include "ir/ir.h"
#include "ir/table.h"

typedef VEC(IrOp *) IrOpList;

typedef struct IrUsers {
    Arena *arena;
    IR_TABLE(IrOpList) of; /* of values, by number */
} IrUsers;

/* The users of all values that the operations of b have as operands; with the
 * regions below, but for those of kernels. */
IrUsers ir_users_find(Arena *a, const IrBlock *b);

/* The users of v in the order of the text, each once: those that were there
 * when they were found, with the operands that they had. */
static inline const IrOpList *
ir_users_of(const IrUsers *users, const IrValue *v)
{
    static const IrOpList none = {0};
    const IrOpList *found = IR_TABLE_FIND(users->of, v->number);
    return found ? found : &none;
}

/* Whether v is an operand of op itself. */
static inline bool
ir_is_operand(const IrOp *op, const IrValue *v)
{
    for (int i = 0; i < op->num_operands; i++)
        if (op->operands[i] == v)
            return true;
    return false;
}

#endif
