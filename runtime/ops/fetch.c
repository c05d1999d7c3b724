/*
 * fetch.c - param, now, evaluates, fetch
 */
#include <string.h>
#include "ir/analysis/per_replica.h"
#include "ir/base/clock.h"
#include "ir/base/message.h"
#include "runtime/evaluator/evaluator.h"
#include "runtime/exec/end.h"
#include "runtime/exec/not_finite.h"
#include "runtime/exec/run_state.h"
#include "runtime/ops/host_ops.h"
#include "runtime/ps/ps.h"

/* ---- param, now, evaluates ----------------------------------------------- */

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
    RtRun *run = inv->executor->run;
    double now = clock_seconds() + run->now_offset;
    Status st = rt_broadcast(run, 0, &now, sizeof now);
    rt_write_value(inv, &h->out[0], &now);
    return st ? rt_fault_status(inv, h, st) : EXEC_OK;
}

int32_t
rt_op_evaluates(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    bool evaluates = run->evaluator;
    Status st = evaluates ? rt_evaluator_restore(run) : OK;
    rt_write_value(inv, &h->out[0], &evaluates);
    return st ? rt_fault_status(inv, h, st) : EXEC_OK;
}

/* ---- fetch, fetch_var -------------------------------------------------- */

/* A loss that is nan is said once. */
static void
look_at(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    const RtValue *v = &h->out[0];
    if (v->rank == 0) {
        rt_note_scalar(run, h->op, v->dtype, rt_host_value(inv, v));
        rt_warn_not_finite(run);
    }
}

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

/* Bytes that the process with a replica has copied to the host, to the mains of
 * all. */
static int32_t
share(RtInvocation *inv, const RtHostOp *h, int replica, void *bytes, size_t n)
{
    RtRun *run = inv->executor->run;
    Status st = rt_devices_status(run);
    if (!st)
        st = rt_broadcast(run, rt_rank_of(run, replica), bytes, n);
    return st ? rt_fault_status(inv, h, st) : EXEC_OK;
}

/* The size depends on the replica where the value was made.  What is equal on
 * all replicas a process has itself. */
static int32_t
fetch(RtInvocation *inv, const RtHostOp *h)
{
    const RtRun *run = inv->executor->run;
    int number = (int)ir_int(h->op, A_replica);
    const RtExecutor *replica = &run->replicas[number];
    size_t n = rt_value_bytes(&h->in[0], replica->dims);
    void *to = rt_host_value(inv, &h->out[0]);
    bool is_equal = h->op->operands[0]->type.locality == LOCAL_MIRRORED;
    if (is_equal || rt_is_local(run, number))
        rt_copy_out(to, rt_row(is_equal ? run->locals : replica, &h->in[0]), n);
    return is_equal ? EXEC_OK : share(inv, h, number, to, n);
}

int32_t
rt_op_fetch(RtInvocation *inv, const RtHostOp *h)
{
    int32_t end = EXEC_OK;
    if (rt_ps_coordinates(inv->executor->run))
        end = rt_ps_settle(inv, h, 0);
    if (end == EXEC_OK)
        end = fetch(inv, h);
    if (end == EXEC_OK)
        look_at(inv, h);
    return end;
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

static int32_t
fetch_var(RtInvocation *inv, const RtHostOp *h)
{
    const RtRun *run = inv->executor->run;
    size_t n = rt_value_bytes(&h->out[0], run->replicas[0].dims);
    void *to = rt_host_value(inv, &h->out[0]);
    bool is_central = h->var->type.locality == LOCAL_ON;
    bool is_equal = ir_var_is_shared(h->var) && !is_central;
    int from = is_equal ? run->first_local : is_central ? run->module->home : 0;
    if (rt_is_local(run, from))
        rt_copy_out(
            to,
            rt_ptr_add(run->replicas[from].base, (size_t)h->var->place.offset),
            n);
    return is_equal ? EXEC_OK : share(inv, h, from, to, n);
}

int32_t
rt_op_fetch_var(RtInvocation *inv, const RtHostOp *h)
{
    int32_t end = EXEC_OK;
    if (rt_ps_coordinates(inv->executor->run))
        end = rt_ps_pull_variable(inv, h, h->var);
    if (end == EXEC_OK)
        end = fetch_var(inv, h);
    if (end == EXEC_OK)
        look_at(inv, h);
    return end;
}
