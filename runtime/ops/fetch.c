/*
 * fetch.c - param, now, fetch
 */
#include <string.h>
#include "ir/base/message.h"
#include "runtime/exec/run_state.h"
#include "runtime/hal/wait.h"
#include "runtime/ops/host_ops.h"

/* ---- param, now -------------------------------------------------------- */

Status
rt_prepare_param(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    (void)fn;
    for (int i = 0; i < run->module->params.len; i++) {
        const IrParam *p = run->module->params.data[i];
        if (strcmp(p->name, ir_text(h->op, A_param)) != 0)
            continue;
        char *value = arena_alloc(run->arena, dtype_info[p->dtype].bytes);
        scalar_store(p->dtype, value, 0, run->params[i]);
        h->param = value;
        if (h->out[0].dtype == p->dtype)
            return OK;
    }
    UNREACHABLE("no param \"%s\" of that type", ir_text(h->op, A_param));
}

int32_t
rt_op_param(RtInvocation *inv, const RtHostOp *h)
{
    rt_write_value(inv, &h->out[0], h->param);
    return EXEC_OK;
}

int32_t
rt_op_now(RtInvocation *inv, const RtHostOp *h)
{
    double now = rt_seconds() + inv->executor->run->now_offset;
    rt_write_value(inv, &h->out[0], &now);
    return EXEC_OK;
}

/* ---- fetch, fetch_var -------------------------------------------------- */

Status
rt_prepare_fetch(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    (void)fn;
    int64_t replica = ir_int(h->op, A_replica);
    if (h->in[0].place.space != SPACE_ROW ||
        h->out[0].place.space != SPACE_FRAME || replica < 0 ||
        replica >= run->num_replicas)
        return plan_refuse(run->plan, "it fetches from where there is nothing");
    return OK;
}

/* The size depends on the replica where the value was made. */
int32_t
rt_op_fetch(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    const RtExecutor *replica = &run->replicas[ir_int(h->op, A_replica)];
    rt_copy_out(rt_host_value(inv, &h->out[0]), rt_row(replica, &h->in[0]),
                rt_value_bytes(&h->in[0], replica->dims));
    return EXEC_OK;
}

Status
rt_prepare_fetch_var(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    (void)fn;
    h->var = ir_var_find(run->module, ir_text(h->op, A_var));
    if (h->out[0].place.space != SPACE_FRAME)
        return plan_refuse(run->plan,
                           "it fetches \"%s\" to where main has nothing",
                           h->var->name);
    return OK;
}

int32_t
rt_op_fetch_var(RtInvocation *inv, const RtHostOp *h)
{
    const RtExecutor *first = &inv->executor->run->replicas[0];
    rt_copy_out(rt_host_value(inv, &h->out[0]),
                rt_ptr_add(first->base, (size_t)h->var->place.offset),
                rt_value_bytes(&h->out[0], first->dims));
    return EXEC_OK;
}
