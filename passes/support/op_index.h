/*
 * order.h - where the operations of a block stand
 */
#ifndef TFD_PASSES_SUPPORT_OP_INDEX_H
#define TFD_PASSES_SUPPORT_OP_INDEX_H

#include "ir/ir.h"

/* Gives each operation of b its position as id: 0, 1, ... */
void pass_index_ops(IrBlock *b);

/* The first operation of op's block that uses a result of op, itself or inside
 * of it; the block's last one if there is none.  After pass_index_ops. */
IrOp *pass_first_user(IrOp *op);
/* The same of all operations of b, which are numbered, by their ids; in a. */
IrOp **pass_first_users(Arena *a, IrBlock *b);

#endif
