/*
 * simplify.h - simplify's rules about moves that meet (simplify_moves.c)
 */
#ifndef TFD_PASSES_SCALAR_SIMPLIFY_H
#define TFD_PASSES_SCALAR_SIMPLIFY_H

#include "ir/ir.h"

/* A reshape of a reshape, a transpose of a transpose: op takes the operand of
 * the inner one.  Whether it did. */
bool pass_simplify_skip_inner_move(IrOp *op);

/* A transpose that swaps the sides of a product which is there for it alone is
 * the product of the operands the other way round; else NULL. */
IrValue *pass_simplify_transposed_product(IrOp *op);

#endif
