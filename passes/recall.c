/*
 * recall.c - what was just written need not be read
 *
 * A read that follows a write of its variable in the same block gives the value
 * that was written: in a device program every read and write is of the
 * replica's own copy.  So what an update computes first and what it makes of it
 * can be one kernel, though a variable lies between them.
 */
#include "ir/build.h"
#include "passes/passes.h"
#include "passes/settle.h"

typedef struct Recall {
    Map *writes; /* of variables by name; NULL: forgotten */
} Recall;

static void
forget_written(IrOp *op, void *data)
{
    Recall *r = data;
    if (op->kind == OP_write && map_get(r->writes, ir_text(op, A_var)))
        map_set(r->writes, ir_text(op, A_var), NULL);
}

static void
recall_read(Recall *r, IrOp *read)
{
    const IrOp *write = map_get(r->writes, ir_text(read, A_var));
    if (!write)
        return;
    ir_forward(read->results[0], write->operands[0]);
    ir_remove(read);
}

static void
recall_block(PassCx *cx, IrBlock *b)
{
    Recall r = {map_new(cx->arena)};
    for (IrOp *op = b->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < op->num_regions; i++) {
            recall_block(cx, op->regions[i]);
            ir_walk(op->regions[i], forget_written, &r);
        }
        forget_written(op, &r);
        if (op->kind == OP_write)
            map_set(r.writes, ir_text(op, A_var), op);
        else if (op->kind == OP_read)
            recall_read(&r, op);
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
