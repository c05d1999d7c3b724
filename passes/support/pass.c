/*
 * pass.c - queries of passes about a module
 */
#include "passes/support/pass.h"

static void
count(IrOp *op, void *num)
{
    (void)op;
    ++*(int64_t *)num;
}

int64_t
pass_num_ops(const IrOp *op)
{
    int64_t num = 0;
    ir_walk_op((IrOp *)op, count, &num);
    return num;
}

int64_t
pass_num_ops_of(const IrBlock *b)
{
    int64_t num = 0;
    ir_walk((IrBlock *)b, count, &num);
    return num;
}

PassStage
pass_stage(const IrModule *m)
{
    if (m->phase != PHASE_IR)
        return m->phase == PHASE_PLACED ? STAGE_placed : STAGE_replicated;
    for (const IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM)
            return STAGE_programs;
    return STAGE_step;
}
