/*
 * per_replica.h - operations executed by each replica, and once for a device
 *
 * Several replicas may run on one device.  Values that are equal on all of
 * them, variables among them, are there once, and are computed once; they are
 * called shared.  The other operations are executed by each replica, one
 * replica after the other, in replica loops over several operations each, so
 * that a replica finds in the cache what it has just made.
 *
 * A replica loop writes no shared value, and those that it reads stay valid
 * until the last replica has finished.  The same holds for a device with one
 * replica of several, since a plan is compiled before the devices are known.
 */
#ifndef TFD_IR_ANALYSIS_PER_REPLICA_H
#define TFD_IR_ANALYSIS_PER_REPLICA_H

#include "ir/ir.h"

/* Whether v of a device program exists once for all replicas of a device.
 * Values made under a condition or loop that replicas execute differently
 * belong to each replica, whatever their locality. */
bool ir_value_is_shared(const IrValue *v);
bool ir_var_is_shared(const IrVar *var);

/* Whether each replica executes op of a device program, with all operations in
 * its regions, by itself.  The start of a collective is one, since each replica
 * contributes; its done is executed once for the device. */
bool ir_op_is_per_replica(const IrOp *op);

/* Whether a device may execute the replica loops of fn, a function of a module,
 * more than once: what one replica of several has read, others may still read.
 */
bool ir_func_repeats_replica_loops(const IrFunc *fn);

/* The last operation of the replica loop that op begins, which is per replica
 * and in a block that all replicas execute.  The loop ends before the next
 * operation of the device, except reads of variables and views: executing
 * these once more writes the bytes that are there already. */
const IrOp *ir_replica_loop_last(const IrOp *op);

#endif
