/*
 * recall.c - what was just written need not be read
 *
 * A read that follows a write of its variable in the same block gives the value
 * that was written: in a device program every read and write is of the
 * replica's own copy.  So what an update computes first and what it makes of it
 * can be one kernel, though a variable lies between them.
 */
#include <string.h>
#include "ir/build.h"
#include "passes/passes.h"
#include "passes/settle.h"

typedef struct Recall {
    PassCx *cx;
    VEC(IrOp *) writes; /* that nothing followed yet, one a variable */
} Recall;

static void
forget(Recall *r, const char *var)
{
    for (int i = r->writes.len - 1; i >= 0; i--)
        if (!strcmp(ir_text(r->writes.data[i], A_var), var))
            r->writes.data[i] = VEC_POP(r->writes);
}

static void
forget_written(IrOp *op, void *data)
{
    if (op->kind == OP_write)
        forget(data, ir_text(op, A_var));
}

static void
recall_read(Recall *r, IrOp *read)
{
    for (int i = 0; i < r->writes.len; i++) {
        const IrOp *write = r->writes.data[i];
        if (strcmp(ir_text(write, A_var), ir_text(read, A_var)) != 0)
            continue;
        ir_forward(read->results[0], write->operands[0]);
        ir_remove(read);
        return;
    }
}

static void
recall_block(Recall *outer, IrBlock *b)
{
    Recall r = {.cx = outer->cx};
    for (IrOp *op = b->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < op->num_regions; i++) {
            recall_block(&r, op->regions[i]);
            ir_walk(op->regions[i], forget_written, &r);
        }
        forget_written(op, &r);
        if (op->kind == OP_write)
            VEC_PUSH(r.cx->arena, r.writes, op);
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
        Recall r = {.cx = cx};
        recall_block(&r, fn->body);
        ir_apply_forwards(fn);
    }
    settle_programs(cx->m);
    return true;
}
