/*
 * per_replica.h - what each replica of a device does, and what all do once
 *
 * Several replicas may run on one device.  Values that are equal on all of
 * them, variables among them, are there once, and are computed once; they are
 * called shared.  The other operations are executed by each replica, one
 * replica after the other, in replica loops over several operations each, so
 * that a replica finds in the cache what it has just made.
 *
 * A replica loop writes no shared value, and those that it reads stay valid
 * until the last replica has finished.  The same holds for a device with one
 * replica, since a plan is compiled before the devices are known.
 */
#ifndef TFD_IR_ANALYSIS_PER_REPLICA_H
#define TFD_IR_ANALYSIS_PER_REPLICA_H

#include "ir/ir.h"

/* Whether v of a device program is there once for all replicas of a device.
 * Values made under a condition or loop that replicas go through differently
 * are each replica's own, whatever their locality. */
bool ir_value_is_shared(const IrValue *v);
bool ir_var_is_shared(const IrVar *var);

/* Whether each replica executes op of a device program, with all that is in
 * its regions, by itself.  Starts of collectives are among them: each replica
 * contributes; the done is the device's. */
bool ir_op_is_per_replica(const IrOp *op);

/* The last operation of the replica loop that op begins, which is per replica
 * and in a block that all replicas execute.  The loop ends before the next
 * operation of the device, except reads of variables and views: executing
 * these once more writes the bytes that are there already. */
const IrOp *ir_replica_loop_last(const IrOp *op);

#endif
