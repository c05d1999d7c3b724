/*
 * pass.c - queries of passes about a module
 */
#include "passes/support/pass.h"

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
