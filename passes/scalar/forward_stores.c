/*
 * forward_stores.c - a read after a write gives the written value
 *
 * A read that follows a write of its variable in the same block gives the value
 * that was written: in a device program every read and write is of the
 * replica's own copy.  So the operations before a write and those after a read
 * of the same variable can be one kernel.
 *
 * A worker's program has pushed what it writes to the servers, and its own
 * copies are made anew for the next program: writes that nothing in it reads go
 * away, and with them the arithmetic of updates.
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

/* ---- what nothing reads -------------------------------------------------- */

typedef struct DeadStores {
    Map *read; /* names of variables that may be read later */
} DeadStores;

static void
note_read(IrOp *op, void *data)
{
    const DeadStores *d = data;
    if (op->kind == OP_read)
        map_set(d->read, ir_text(op, A_var), op);
}

static bool
is_dead(const DeadStores *d, const IrOp *op)
{
    return op->kind == OP_write && !map_get(d->read, ir_text(op, A_var));
}

/* From the last operation to the first.  In a loop all that it reads may follow
 * a write. */
static void
remove_dead_stores(DeadStores *d, IrBlock *b)
{
    for (IrOp *op = b->last, *prev; op; op = prev) {
        prev = op->prev;
        if (op->kind == OP_for || op->kind == OP_while)
            ir_walk_op(op, note_read, d);
        for (int i = op->num_regions - 1; i >= 0; i--)
            remove_dead_stores(d, op->regions[i]);
        note_read(op, d);
        if (is_dead(d, op))
            ir_remove(op);
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
        if (fn->worker_of)
            remove_dead_stores(&(DeadStores){map_new(cx->arena)}, fn->body);
    }
    pass_infer_localities(cx->m);
    return true;
}
