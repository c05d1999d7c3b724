/*
 * per_replica.c - operations executed by each replica, and once for a device
 */
#include "ir/analysis/per_replica.h"

#include <assert.h>
#include "ir/rules/locality.h"

bool
ir_value_is_shared(const IrValue *v)
{
    return v->type.locality != LOCAL_PER_REPLICA &&
           !ir_divergence(ir_value_block(v));
}

bool
ir_var_is_shared(const IrVar *var)
{
    return !ir_var_is_own(var);
}

static bool
is_diverging(const IrOp *op)
{
    return op->num_regions && ir_divergence(op->regions[0]) == op;
}

static bool
writes_own_variable(const IrOp *op)
{
    const IrModule *m = op->block->func->module;
    return ir_var_is_own(ir_var_find(m, ir_text(op, A_var)));
}

bool
ir_op_is_per_replica(const IrOp *op)
{
    if (ir_op_split(op->kind))
        return ir_op_is_start(op->kind);
    switch (op->kind) {
    case OP_return:
    case OP_yield:
        return false;
    case OP_write:
        return writes_own_variable(op);
    case OP_if:
    case OP_for:
    case OP_while:
        return is_diverging(op);
    default:
        return !op->num_results ||
               op->results[0]->type.locality == LOCAL_PER_REPLICA;
    }
}

bool
ir_func_repeats_replica_loops(const IrFunc *fn)
{
    return fn->kind == FUNC_PROGRAM && fn->module->num_replicas > 1;
}

/* Whether it is harmless to execute op of the device once for each replica. */
static bool
may_join_loop(const IrOp *op)
{
    bool is_view = (ir_op_info[op->kind].traits & VIEW) &&
                   ir_op_info[op->kind].effect == PURE;
    return is_view || op->kind == OP_read;
}

const IrOp *
ir_replica_loop_last(const IrOp *op)
{
    const IrOp *last = op;
    assert(ir_op_is_per_replica(op) && !ir_divergence(op->block));
    for (; op; op = op->next) {
        if (ir_op_is_per_replica(op))
            last = op;
        else if (!may_join_loop(op))
            break;
    }
    return last;
}
