/*
 * pairs.h - the order in which products of bf16 are added
 *
 * That of the instruction tdpbf16ps of x86 (D4): products are taken 32 at a
 * time.  Of these, the ones of even number and the ones of odd number are two
 * chains of fused multiply-adds, each from 0; the sum of both is added to the
 * sum of the earlier ones.  All is f32.  Operands that are subnormal count as
 * zeros of their sign, and so does each result that would be.  The last
 * products are filled up to 32 with those of zeros.
 */
#ifndef TFD_IR_RULES_PAIRS_H
#define TFD_IR_RULES_PAIRS_H

#include "ir/ir.h"

enum { IR_PAIRS_GROUP = 32 };

/* Whether op is a contraction of bf16 that adds its products in this order: all
 * but convolutions of each channel alone, which are no product of matrices. */
bool ir_adds_pairs(const IrOp *op);

/* Products that are added one after the other; {0} is none. */
typedef struct IrPairs {
    float chains[2]; /* of the current group, even and odd */
    float sum;       /* of the earlier groups */
    int count;       /* products in the current group */
} IrPairs;

/* Adds x * y, both numbers of bf16. */
void ir_pairs_add(IrPairs *p, float x, float y);
float ir_pairs_sum(const IrPairs *p);

#endif
