/*
 * loop.h - one view of the two kinds of loops
 *
 *   for     %r = for %count, %init (%index, %x) { ... yield %next }
 *   while   %r = while %init (%x) { ... yield %test } (%x) { ... yield %next }
 *
 * Both carry values from iteration to iteration.  Carried value i is init[i]
 * before the first one, an argument of each region during one, next[i] after
 * it, and result[i] after the last one.
 */
#ifndef TFD_IR_LOOP_H
#define TFD_IR_LOOP_H

#include "ir/ir.h"

/* Valid as long as the loop and the yields of its regions are not changed. */
typedef struct IrLoop {
    const IrOp *op;
    IrBlock *test, *body; /* test: NULL for a for, which counts */
    IrValue *index;       /* of a for, else NULL */
    IrOp *yield;          /* of the body */
    int num_carried;
    int first_init; /* the operand that is the first initial value */
    IrValue **init, **next, **result;
    /* The arguments of the body, and of the region that is entered first. */
    IrValue **body_arg, **entry_arg;
} IrLoop;

bool ir_is_loop(const IrOp *op);
/* op must be a loop of the form that the verifier checks. */
IrLoop ir_loop(const IrOp *op);
/* Whether b is the test of a while: the value that it yields is not carried. */
bool ir_is_loop_test(const IrBlock *b);

#endif
