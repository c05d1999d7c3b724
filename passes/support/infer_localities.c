/*
 * infer_localities.c - localities of device programs
 */
#include "passes/support/infer_localities.h"

#include "ir/ir.h"
#include "ir/rules/locality.h"

/* In a device program a value is at least mirrored; on(v) is mirrored. */
static void
take_replica_localities(IrFunc *fn)
{
    for (int i = 0; i < fn->body->args.len; i++) {
        IrType *t = &fn->body->args.data[i]->type;
        if (t->locality != LOCAL_PER_REPLICA)
            t->locality = LOCAL_MIRRORED;
    }
    ir_infer_localities(fn);
}

/* With one replica a reduction is its operand, which is per_replica: then the
 * launch's result is, too. */
static void
take_returned_localities(IrOp *op, void *data)
{
    const IrModule *m = data;
    if (op->kind != OP_launch)
        return;
    const IrFunc *program = ir_func_find(m, ir_text(op, A_program));
    const IrOp *end = ir_func_return(program);
    for (int i = 0; i < op->num_results; i++) {
        IrType *t = &op->results[i]->type;
        if (end->operands[i]->type.locality > t->locality)
            t->locality = end->operands[i]->type.locality;
    }
}

void
pass_infer_localities(IrModule *m)
{
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM)
            take_replica_localities(fn);
    for (IrFunc *fn = m->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_MAIN)
            continue;
        ir_walk(fn->body, take_returned_localities, m);
        ir_infer_localities(fn);
    }
}
