/*
 * forward_stores.c - a read after a write gives the written value
 *
 * A read that follows a write of its variable in the same block gives the value
 * that was written: in a device program every read and write is of the
 * replica's own copy.  So the operations before a write and those after a read
 * of the same variable can be one kernel.
 */
#include <assert.h>
#include "ir/ir.h"
#include "passes/scalar/available.h"
#include "passes/support/pass.h"
#include "passes/support/infer_localities.h"

static void
forward_read(const AvailableAccesses *writes, IrOp *read)
{
    const IrOp *write = pass_available_access(writes, read);
    if (!write)
        return;
    ir_forward(read->results[0], write->operands[0]);
    ir_remove(read);
}

static void
forward_block(PassCx *cx, IrBlock *b)
{
    AvailableAccesses writes = pass_available_new(cx->arena);
    for (IrOp *op = b->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < op->num_regions; i++)
            forward_block(cx, op->regions[i]);
        pass_available_kill_written(&writes, op);
        if (op->kind == OP_write)
            pass_available_note(&writes, op);
        else if (op->kind == OP_read)
            forward_read(&writes, op);
    }
}

bool
pass_forward_stores(PassCx *cx)
{
    assert(pass_stage(cx->m) == STAGE_replicated);
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_PROGRAM)
            continue;
        forward_block(cx, fn->body);
        ir_apply_forwards(fn);
    }
    pass_infer_localities(cx->m);
    return true;
}
