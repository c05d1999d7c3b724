/*
 * exec_print.c - print and assert
 *
 * What main prints comes out at once.  What replicas print in a step is kept
 * until its end, and comes out line by line, for each line replica after
 * replica; of a line that is the same on all, replica 0 prints the only one.
 */
#include "runtime/exec/exec_print.h"

#include <errno.h>
#include <string.h>
#include "ir/base/io/file.h"
#include "ir/base/message.h"
#include "runtime/exec/exec_load.h"
#include "runtime/exec/run.h"

/* ---- loading ----------------------------------------------------------- */

Status
rt_check_format(RtRun *run, const RtFunction *fn, const RtHostOp *h, int first)
{
    int n = h->op->num_operands - first;
    DType *dtypes = NEW_ARRAY(run->arena, DType, (size_t)(n > 0 ? n : 0));
    for (int i = 0; i < n; i++)
        dtypes[i] = h->in[first + i].dtype;
    const char *why =
        format_check(run->arena, ir_text(h->op, A_format), n, dtypes);
    if (why)
        return plan_refuse(run->plan, "@%s prints %s", fn->ir->name,
                           message_part(why));
    return OK;
}

Status
rt_prepare_print(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    TRY(rt_check_format(run, fn, h, 0));
    h->each = ir_int(h->op, A_each) != 0;
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
    for (int i = 0; i < n; i++) {
        const RtValue *v = &h->in[first + i];
        for (int k = 0; k < v->rank; k++)
            executor->arg_dims[i][k] = rt_dim(&v->dims[k], executor->dims);
        executor->args[i] = (FormatArg){
            v->dtype, v->rank, executor->arg_dims[i], rt_value_pointer(inv, v)};
    }
    format_text(to, ir_text(h->op, A_format), n, executor->args);
}

Status
rt_flush(const RtRun *run)
{
    FILE *out = run->options->out;
    if (fflush(out) != 0 || ferror(out))
        return file_error(run->out_error ? run->out_error : errno,
                          "cannot write what the program prints");
    return OK;
}

/* glibc tells of a line that was taken and could not be written by ferror
 * alone. */
static void
write_out(RtRun *run, const char *text, size_t len)
{
    FILE *out = run->options->out;
    rt_progress_clear(&run->progress);
    if (run->out_error)
        return;
    if (fwrite(text, 1, len, out) < len || ferror(out))
        run->out_error = errno;
}

int32_t
rt_op_print(RtInvocation *inv, const RtHostOp *h)
{
    RtExecutor *executor = inv->executor;
    RtLines *lines = &executor->lines;
    bool by_main = executor->replica < 0;
    if (by_main)
        lines->text.len = 0;
    if (executor->replica <= 0 || h->each) {
        rt_add_text(&lines->text, inv, h, 0);
        str_addc(&lines->text, '\n');
    }
    if (by_main)
        write_out(executor->run, lines->text.data, lines->text.len);
    else
        VEC_PUSH(executor->arena, lines->ends, lines->text.len);
    return EXEC_OK;
}

/* Line i of what a replica printed, if it came that far. */
static void
write_line(RtRun *run, const RtLines *lines, int i)
{
    if (i >= lines->ends.len)
        return;
    size_t begin = i ? lines->ends.data[i - 1] : 0;
    if (lines->ends.data[i] > begin)
        write_out(run, lines->text.data + begin, lines->ends.data[i] - begin);
}

void
rt_print_lines(RtRun *run)
{
    int most = 0;
    for (int r = 0; r < run->num_replicas; r++) {
        int n = run->replicas[r].lines.ends.len;
        most = n > most ? n : most;
    }
    for (int i = 0; i < most; i++) {
        for (int r = 0; r < run->num_replicas; r++)
            write_line(run, &run->replicas[r].lines, i);
    }
    for (int r = 0; r < run->num_replicas; r++) {
        run->replicas[r].lines.ends.len = 0;
        run->replicas[r].lines.text.len = 0;
    }
}

/* Main on devices that execute nothing: all that it fetches is zeros. */
static bool
sees_no_results(const RtInvocation *inv)
{
    return inv->fn->ir->kind == FUNC_MAIN && inv->executor->run->caps->machine;
}

int32_t
rt_op_assert(RtInvocation *inv, const RtHostOp *h)
{
    if (*rt_value_pointer(inv, &h->in[0]) || sees_no_results(inv))
        return EXEC_OK;
    Str text = str_new(inv->executor->arena);
    message_part(ir_text(h->op, A_format));
    rt_add_text(&text, inv, h, 1);
    return rt_fault(inv, h, STATUS_INPUT, "%s", str_text(&text));
}
