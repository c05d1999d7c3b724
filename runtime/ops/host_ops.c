/*
 * host_ops.c - the table of the operations that the runtime executes
 *
 * The functions of a plan are loaded by this table, which is passed to a run:
 * so the loader does not depend on the operations.
 */
#include "runtime/ops/host_ops.h"

enum {
    IN_MAIN = 1 << FUNC_MAIN,
    IN_PROGRAM = 1 << FUNC_PROGRAM,
    IN_ELEMENT = 1 << FUNC_HOST
};

enum { ACTS, ENQUEUES };

const RtHostOpInfo rt_host_ops[NUM_OPS] = {
#define HOST_OP(kind, where, part, prepare)                                    \
    [OP_##kind] = {where, part, rt_op_##kind, rt_prepare_##prepare},
#include "runtime/ops/host_ops.def"
#undef HOST_OP
};

Status
rt_prepare_nothing(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    (void)run;
    (void)fn;
    (void)h;
    return OK;
}
