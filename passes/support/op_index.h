/*
 * op_index.h - positions of the operations of a block
 */
#ifndef TFD_PASSES_SUPPORT_OP_INDEX_H
#define TFD_PASSES_SUPPORT_OP_INDEX_H

#include "ir/ir.h"

/* Gives each operation of b its position as id: 0, 1, ... */
void pass_index_ops(IrBlock *b);

/* For each operation of b, by its index: the first one of b that uses a result
 * of it, directly or in its regions; the last one of b if there is none.  In a;
 * after pass_index_ops. */
IrOp **pass_first_users(Arena *a, IrBlock *b);

#endif
