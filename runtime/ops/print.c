/*
 * print.c - print and assert
 *
 * Main's lines are printed at once, those of replicas at the end of the step
 * (output.h); a line that is the same on all is printed by replica 0 only.
 *
 * A program that enqueues its work is ahead of the device: there both defer
 * what they do until the values that they need have been copied (D9).
 */
#include "runtime/ops/print.h"

#include "ir/base/message.h"
#include "ir/type_bounds.h"
#include "runtime/exec/not_finite.h"
#include "runtime/exec/output.h"
#include "runtime/exec/run_state.h"
#include "runtime/ops/host_ops.h"

/* ---- loading ----------------------------------------------------------- */

void
rt_note_copies(RtRun *run, const IrOp *op)
{
    int64_t sum = 0, bytes;
    for (int i = 0; i < op->num_operands; i++)
        if (ir_type_bytes(run->module, &op->operands[i]->type, &bytes))
            sum += bytes + CACHE_LINE;
    if (sum > run->max_copied_bytes)
        run->max_copied_bytes = sum;
}

Status
rt_check_format(RtRun *run, const RtFunction *fn, RtHostOp *h, int first)
{
    h->format = format_fill(run->arena, ir_text(h->op, A_format), run->texts,
                            run->module->params.len);
    if (!h->format)
        return plan_refuse(run->plan, "@%s prints a param that there is not",
                           fn->ir->name);
    int n = h->op->num_operands - first;
    DType *dtypes = NEW_ARRAY(run->arena, DType, (size_t)(n > 0 ? n : 0));
    for (int i = 0; i < n; i++)
        dtypes[i] = h->in[first + i].dtype;
    const char *why = format_check(run->arena, h->format, n, dtypes);
    if (why)
        return plan_refuse(run->plan, "@%s prints %s", fn->ir->name,
                           message_part(why));
    rt_note_copies(run, h->op);
    return OK;
}

Status
rt_prepare_print(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    TRY(rt_check_format(run, fn, h, 0));
    h->each = ir_int(h->op, A_each) != 0;
    fn->prints_each |= h->each;
    return OK;
}

Status
rt_prepare_assert(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    return rt_check_format(run, fn, h, 1);
}

/* ---- execution --------------------------------------------------------- */

void
rt_add_text(Str *to, RtInvocation *inv, const RtHostOp *h, int first)
{
    RtExecutor *executor = inv->executor;
    int n = h->op->num_operands - first;
    char *scratch = executor->copies;
    for (int i = 0; i < n; i++) {
        const RtValue *v = &h->in[first + i];
        for (int k = 0; k < v->rank; k++)
            executor->arg_dims[i][k] = rt_dim(&v->dims[k], executor->dims);
        executor->args[i] =
            (FormatArg){v->dtype, v->rank, executor->arg_dims[i],
                        rt_read_value(inv, v, &scratch)};
        if (v->rank == 0 && executor->replica >= 0)
            rt_note_scalar(executor->run, h->op, v->dtype,
                           executor->args[i].data);
    }
    format_text(to, h->format, n, executor->args);
}

bool
rt_is_ahead(const RtExecutor *executor)
{
    return executor->replica >= 0 && executor->run->enqueues &&
           !executor->deferred;
}

/* Executes it with copies of its operands, as if the replica were there. */
static int32_t
look(const RtDeferred *item, const char *bytes)
{
    RtInvocation *inv = item->context;
    const RtHostOp *h = item->op;
    RtExecutor *executor = inv->executor;
    int started = executor->started, met = executor->met;
    executor->deferred = bytes;
    executor->started = item->started;
    executor->met = item->met;
    int32_t end = h->run(inv, h);
    executor->deferred = NULL;
    executor->started = started;
    executor->met = met;
    return end;
}

int32_t
rt_defer(RtInvocation *inv, const RtHostOp *h, bool reads)
{
    RtExecutor *executor = inv->executor;
    RtDevice *d = executor->device;
    RtDeferred item = {look, inv, h, executor->started, executor->met};
    int n = reads ? h->op->num_operands : 0;
    for (int i = 0; i < n; i++)
        executor->parts[i] =
            (RtDevicePart){rt_device_value(inv, &h->in[i]),
                           rt_value_bytes(&h->in[i], executor->dims)};
    return d->ops->program->defer(d, &item, executor->parts, n);
}

/* Nothing of a step that failed in another process. */
static int32_t
print_in_main(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    Str *line = &inv->executor->lines.text;
    Status st = rt_settle(run);
    if (st)
        return rt_fault_status(inv, h, st);
    if (!rt_is_chief(run))
        return EXEC_OK;
    line->len = 0;
    rt_add_text(line, inv, h, 0);
    str_addc(line, '\n');
    rt_print(run, line->data, line->len);
    return EXEC_OK;
}

int32_t
rt_op_print(RtInvocation *inv, const RtHostOp *h)
{
    RtExecutor *executor = inv->executor;
    RtLines *lines = &executor->lines;
    bool has_line = executor->replica <= 0 || h->each;
    if (executor->replica < 0)
        return print_in_main(inv, h);
    if (rt_is_ahead(executor))
        return rt_defer(inv, h, has_line);
    if (has_line) {
        rt_add_text(&lines->text, inv, h, 0);
        str_addc(&lines->text, '\n');
    }
    VEC_PUSH(executor->arena, lines->lines,
             ((RtLine){lines->text.len, executor->met, false}));
    return EXEC_OK;
}

/* Whether main is on devices that execute nothing: all fetched values are
 * zeros. */
static bool
sees_no_results(const RtInvocation *inv)
{
    return inv->fn->ir->kind == FUNC_MAIN && inv->executor->run->caps->machine;
}

int32_t
rt_op_assert(RtInvocation *inv, const RtHostOp *h)
{
    char *scratch = inv->executor->copies;
    if (rt_is_ahead(inv->executor))
        return rt_defer(inv, h, true);
    if (*rt_read_value(inv, &h->in[0], &scratch) || sees_no_results(inv))
        return EXEC_OK;
    RtRun *run = inv->executor->run;
    Status st = inv->executor == &run->main ? rt_settle(run) : OK;
    if (st) /* the first cause is a step's, in another process */
        return rt_fault_status(inv, h, st);
    Str text = str_new(inv->executor->arena);
    (void)message_part(h->format); /* the program's own: for the record alone,
                                      the message has what rt_add_text makes */
    rt_add_text(&text, inv, h, 1);
    return rt_fault(inv, h, STATUS_INPUT, "%s", str_text(&text));
}
