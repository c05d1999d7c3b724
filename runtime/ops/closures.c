/*
 * closures.c - join, cancel, done, push: what main schedules, and what it
 * changes
 *
 * A process that has coordinator, worker and servers in one executes a closure
 * where main schedules it, on the variables that are there: nothing is left to
 * wait for, and nothing has to be sent.
 */
#include "runtime/exec/run_state.h"
#include "runtime/ops/host_ops.h"
#include "runtime/ops/print.h"
#include "runtime/ps/ps.h"

int32_t
rt_op_join(RtInvocation *inv, const RtHostOp *h)
{
    return rt_ps_wait(inv, h);
}

int32_t
rt_op_cancel(RtInvocation *inv, const RtHostOp *h)
{
    (void)h;
    rt_ps_cancel(inv->executor->run);
    return EXEC_OK;
}

int32_t
rt_op_done(RtInvocation *inv, const RtHostOp *h)
{
    bool all_ended;
    int32_t end = rt_ps_are_done(inv, h, &all_ended);
    rt_write_value(inv, &h->out[0], &all_ended);
    return end;
}

/* The verifier compares the types of what is pushed and of the update's
 * parameters. */
Status
rt_prepare_push(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    TRY(rt_load_function(run, ir_text(h->op, A_update), FUNC_PROGRAM,
                         &h->update));
    if (h->update->num_in != h->op->num_operands || h->update->num_out)
        return plan_refuse(run->plan, "@%s does not take what @%s pushes",
                           h->update->ir->name, fn->ir->name);
    rt_note_copies(run, h->op);
    return OK;
}

int32_t
rt_op_push(RtInvocation *inv, const RtHostOp *h)
{
    const RtRun *run = inv->executor->run;
    if (!run->push)
        return EXEC_OK;
    return rt_is_ahead(inv->executor) ? rt_defer(inv, h, true)
                                      : run->push(inv, h);
}
