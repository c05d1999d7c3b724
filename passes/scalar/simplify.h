/*
 * simplify.h - simplify's rules for successive moves (simplify_moves.c), for
 * integers between known bounds (simplify_ranges.c), for values whose elements
 * are all one known number (simplify_splats.c), and for rows that the
 * iterations of a loop change (simplify_rows.c)
 */
#ifndef TFD_PASSES_SCALAR_SIMPLIFY_H
#define TFD_PASSES_SCALAR_SIMPLIFY_H

#include "ir/ir.h"

/* A reshape of a reshape, a transpose of a transpose: op takes the operand of
 * the inner one.  Returns whether it did. */
bool pass_simplify_skip_inner_move(IrOp *op);

/* The replacement of a transpose that swaps the sides of a product with no
 * other use: the product of the operands in the other order; else NULL. */
IrValue *pass_simplify_transposed_product(IrOp *op);

/* The replacement of a comparison that always holds or never does, or of a
 * minimum or maximum that is its first operand; else NULL. */
IrValue *pass_simplify_range(IrOp *op);

/* x in every element of a value like op's result, before op. */
IrValue *pass_simplify_fill(IrOp *op, Scalar x, const IrReason *why);

/* The replacement of a choice between equal numbers, or of a sum of equal
 * numbers that every order of the additions gives exactly; else NULL. */
IrValue *pass_simplify_splat(IrOp *op);

/* Rows of a known number, each of which one iteration of the loop combines with
 * another value: the iteration sets them to what that gives.  Returns whether
 * there were any. */
bool pass_simplify_collected_rows(IrOp *loop);

#endif
