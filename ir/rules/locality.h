/*
 * locality.h - localities of control flow
 */
#ifndef TFD_IR_RULES_LOCALITY_H
#define TFD_IR_RULES_LOCALITY_H

#include "ir/ir.h"

/* Gives run, merge, if, for, while and kernel the results that follow from the
 * yields of their regions; localities are joined, and those of an if, for or
 * while under a per-replica condition are per_replica.  The yields of a kind
 * must agree in dtype and shape.  The arguments of a loop must have their final
 * localities: see ir_infer_localities. */
void ir_op_close(IrOp *op);

/* Infers the localities of fn anew, of loops' arguments and of control flow's
 * results too: the least that hold.  For code that builds a loop before the
 * localities of its carried values are known, or that replaced values by others
 * of lower locality.  Operations that are not inferred (iter_next, launch,
 * grad) stay as they are. */
void ir_infer_localities(IrFunc *fn);

/* The if, for or while around b whose condition or count is per_replica, so
 * that replicas may take different paths to b; NULL when all take the same.
 * Searches up to the operation or function that makes b's context. */
const IrOp *ir_divergence(const IrBlock *b);

#endif
