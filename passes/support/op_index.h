/*
 * op_index.h - positions of the operations of a block
 */
#ifndef TFD_PASSES_SUPPORT_OP_INDEX_H
#define TFD_PASSES_SUPPORT_OP_INDEX_H

#include "ir/analysis/users.h"

/* Gives each operation of b its position as id: 0, 1, ... */
void pass_index_ops(IrBlock *b);

/* The first operation of op's block that uses a result of op, directly or in its
 * regions; the block's last one if there is none.  After pass_index_ops, and
 * while op's users are where they were when `users` was found. */
IrOp *pass_first_user(const IrUsers *users, const IrOp *op);

#endif
