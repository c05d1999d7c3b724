/*
 * host_ops.h - the operations that compiled code leaves to the runtime
 */
#ifndef TFD_RUNTIME_OPS_HOST_OPS_H
#define TFD_RUNTIME_OPS_HOST_OPS_H

#include "runtime/exec/function.h"

#define HOST_OP(kind, where, part, prepare)                                    \
    RtOpPrepare rt_prepare_##prepare;                                          \
    RtOpRun rt_op_##kind;
#include "runtime/ops/host_ops.def"
#undef HOST_OP

/* The rows of host_ops.def by IrOpKind; other operations have zeros. */
extern const RtHostOpInfo rt_host_ops[NUM_OPS];

/* How an all_reduce_start combines the replicas' operands. */
RtReduceOp rt_reduce_op_of(const IrOp *start);

/* Seconds that the plan lets a replica wait in a collective for the others; 0:
 * none, or more than --timeout. */
double rt_own_timeout(const RtRun *run, const IrOp *start);

#endif
