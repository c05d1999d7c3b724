/*
 * recall.c - what was just written need not be read
 *
 * A read that follows a write of its variable in the same block gives the value
 * that was written: in a device program every read and write is of the
 * replica's own copy.  So what an update computes first and what it makes of it
 * can be one kernel, though a variable lies between them.
 */
#include "ir/ir.h"
#include "passes/scalar/latest.h"
#include "passes/support/pass.h"
#include "passes/support/settle.h"

static void
recall_read(const Latest *writes, IrOp *read)
{
    const IrOp *write = latest_of(writes, read);
    if (!write)
        return;
    ir_forward(read->results[0], write->operands[0]);
    ir_remove(read);
}

static void
recall_block(PassCx *cx, IrBlock *b)
{
    Latest writes = latest_new(cx->arena);
    for (IrOp *op = b->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < op->num_regions; i++)
            recall_block(cx, op->regions[i]);
        latest_forget_written(&writes, op);
        if (op->kind == OP_write)
            latest_note(&writes, op);
        else if (op->kind == OP_read)
            recall_read(&writes, op);
    }
}

bool
pass_recall(PassCx *cx)
{
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_PROGRAM)
            continue;
        recall_block(cx, fn->body);
        ir_apply_forwards(fn);
    }
    settle_programs(cx->m);
    return true;
}
