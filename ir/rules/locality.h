/*
 * locality.h - localities of control flow
 */
#ifndef TFD_IR_RULES_LOCALITY_H
#define TFD_IR_RULES_LOCALITY_H

#include "ir/ir.h"

/* Gives run, merge, if, for, while and kernel the results that their regions'
 * yields say; localities are joined, and those of an if, for or while under a
 * per-replica condition are per_replica.  The yields of a kind must agree in
 * dtype and shape.  The arguments of a loop must have their final localities:
 * see ir_infer_localities. */
void ir_op_close(IrOp *op);

/* Infers the localities of fn anew, of loops' arguments and of control flow's
 * results too: the least that hold.  For whoever builds a loop before it knows
 * what the loop's values become, or replaced values by others that agree more.
 * Leaves what it cannot infer (iter_next, launch, grad) as it is. */
void ir_infer_localities(IrFunc *fn);

/* The if, for or while around b whose condition or count is per-replica, so
 * that replicas may go different ways to b; NULL when all go the same.  Asks
 * up to the operation or function that makes b's context. */
const IrOp *ir_divergence(const IrBlock *b);

#endif
