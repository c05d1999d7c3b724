/*
 * op_index.h - where the operations of a block stand
 */
#ifndef TFD_PASSES_SUPPORT_OP_INDEX_H
#define TFD_PASSES_SUPPORT_OP_INDEX_H

#include "ir/ir.h"

/* Gives each operation of b its position as id: 0, 1, ... */
void pass_index_ops(IrBlock *b);

/* For each operation of b, by its index: the first one of b that uses a result
 * of it, itself or inside of it; b's last one if there is none.  In a; after
 * pass_index_ops. */
IrOp **pass_first_users(Arena *a, IrBlock *b);

#endif
