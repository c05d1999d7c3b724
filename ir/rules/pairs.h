/*
 * pairs.h - the orders in which products of bf16 are added
 *
 * All is f32.  Operands that are subnormal count as zeros of their sign, and so
 * does each result that would be.
 *
 *   two chains   that of the instruction tdpbf16ps of x86 (D4): products are
 *                taken 32 at a time.  Of these, the ones of even number and the
 *                ones of odd number are two chains of fused multiply-adds, each
 *                from 0; the sum of both is added to the sum of the earlier
 *                ones.  The last products are filled up to 32 with those of
 *                zeros.
 *   one chain    that of the instruction vdpbf16ps of x86 (D37): products are
 *                taken two at a time, and are added to the sum by fused
 *                multiply-adds, the second of the two first.  A last one alone
 *                has zeros as its second.
 */
#ifndef TFD_IR_RULES_PAIRS_H
#define TFD_IR_RULES_PAIRS_H

#include "ir/ir.h"

enum { IR_PAIRS_GROUP = 32 };

typedef enum IrPairOrder {
    IR_NO_PAIRS, /* the order of other dtypes */
    IR_TWO_CHAINS,
    IR_ONE_CHAIN
} IrPairOrder;

/* Whether op, of any kind, is a contraction of bf16 that adds its products in
 * one of these orders: all but convolutions of each channel alone, which are no
 * product of matrices. */
bool ir_adds_pairs(const IrOp *op);
/* In which. */
IrPairOrder ir_pair_order(const IrOp *op);

/* Products that are added one after the other; {order} is none. */
typedef struct IrPairs {
    IrPairOrder order;
    float chains[2]; /* of the current group, even and odd */
    float first[2];  /* the operands of a product that waits for its second */
    float sum;       /* of the earlier groups or pairs */
    int count;       /* products in the current group or pair */
} IrPairs;

/* Adds x * y, both numbers of bf16. */
void ir_pairs_add(IrPairs *p, float x, float y);
float ir_pairs_sum(const IrPairs *p);

#endif
