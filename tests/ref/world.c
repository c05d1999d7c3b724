/*
 * world.c - main's operations on the outside world: data, print, assert,
 * checkpoints
 */
#include "tests/ref/interp_impl.h"

#include <string.h>
#include "ir/base/number/format.h"
#include "ir/ir.h"

/* ---- lines -------------------------------------------------------------- */

/* The text of print and assert, whose values begin with operand `first`. */
static const char *
text_of(Interp *in, int r, const IrOp *op, int first, Arena *a)
{
    Str text = str_new(a);
    int n = op->num_operands - first;
    FormatArg *args = NEW_ARRAY(a, FormatArg, (size_t)n);
    for (int i = 0; i < n; i++) {
        const RefTensor *x = interp_value(in, r, op->operands[first + i]);
        args[i] = (FormatArg){x->dtype, x->rank, x->dims, x->data};
    }
    int num = in->m->params.len;
    FormatName *names = NEW_ARRAY(a, FormatName, (size_t)num + 1);
    for (int i = 0; i < num; i++)
        names[i] = (FormatName){in->m->params.data[i]->name,
                                in->m->params.data[i]->text};
    format_text(&text, format_fill(a, ir_text(op, A_format), names, num), n,
                args);
    return str_text(&text);
}

static void
put_line(Interp *in, const char *text)
{
    if (in->output)
        str_addf(in->output, "%s\n", text);
    if (in->options->printed)
        in->options->printed(in->options->data, text);
}

static void
note_line(Interp *in, int r, const IrOp *op)
{
    int number = in->num_printed[r]++;
    if (r > 0 && !ir_int(op, A_each))
        return;
    Line line = {r, number, text_of(in, r, op, 0, in->arena)};
    VEC_PUSH(in->arena, in->lines, line);
}

static const char *
line_of(const Interp *in, int number, int replica)
{
    for (int i = 0; i < in->lines.len; i++)
        if (in->lines.data[i].number == number &&
            in->lines.data[i].replica == replica)
            return in->lines.data[i].text;
    return NULL;
}

/* First the first line of each replica, then the second ones. */
void
world_end_step(Interp *in)
{
    int most = 0;
    for (int r = 0; r < in->num_replicas; r++) {
        most = in->num_printed[r] > most ? in->num_printed[r] : most;
        in->num_printed[r] = 0;
    }
    for (int i = 0; i < most; i++)
        for (int r = 0; r < in->num_replicas; r++) {
            const char *line = line_of(in, i, r);
            if (line)
                put_line(in, line);
        }
    in->lines.len = 0;
}

static Status
check_assert(Interp *in, int r, const IrOp *op)
{
    if (ref_get(interp_value(in, r, op->operands[0]), 0).i)
        return OK;
    Arena *a = arena_new(NULL, "assert");
    Status st = status_new(STATUS_INPUT, "%s", text_of(in, r, op, 1, a));
    arena_release(a);
    return st;
}

Status
world_do_in_step(Interp *in, int r, const IrOp *op)
{
    if (op->kind == OP_assert)
        return check_assert(in, r, op);
    if (op->kind == OP_summary) /* no observer */
        return OK;
    if (op->kind != OP_print)
        return status_new(STATUS_INPUT, "%s in a step",
                          ir_op_info[op->kind].name);
    note_line(in, r, op);
    return OK;
}

/* ---- params ------------------------------------------------------------- */

Scalar
world_param(const Interp *in, const char *name)
{
    const IrParam *p = ir_param_find(in->m, name);
    for (int i = 0; i < in->options->num_params; i++)
        if (!strcmp(in->options->params[i].name, name))
            return scalar_cast(in->options->params[i].value, p->dtype);
    return p->value;
}

/* ---- functions of datasets ---------------------------------------------- */

static void
point_to_element(Interp *in, const IrFunc *fn, void *const *args,
                 void *const *results)
{
    for (int i = 0; i < fn->body->args.len; i++)
        in->inputs[0][i] = args[i];
    for (int i = 0; i < ir_func_return(fn)->num_operands; i++)
        in->outputs[0][i] = results[i];
}

/* The batch of an element that is not divided yet. */
static void
set_element_rows(Interp *in, int64_t rows)
{
    for (int i = 0; i < in->m->symbols.len; i++)
        if (ir_symbol_is_alone(&in->m->symbols.data[i]))
            for (int r = 0; r < in->num_replicas; r++)
                in->rows[i * in->num_replicas + r] = rows;
}

static Status
call_element_fn(RtElementFn *self, void *const *args, void *const *results,
                int64_t rows)
{
    ElementFn *f = (ElementFn *)self;
    Interp *in = f->in;
    IrOp *end = ir_func_return(f->fn);
    point_to_element(in, f->fn, args, results);
    set_element_rows(in, rows);
    for (int i = 0; i < f->fn->body->args.len; i++) {
        RefTensor *arg = interp_shaped(in, 0, f->fn->body->args.data[i]);
        if (arg->data != args[i])
            memcpy(arg->data, args[i],
                   (size_t)arg->count * dtype_info[arg->dtype].bytes);
    }
    TRY(interp_alone(in, f->fn));
    for (int i = 0; i < end->num_operands; i++) {
        const RefTensor *x = interp_value(in, 0, end->operands[i]);
        if (x->data != results[i])
            memcpy(results[i], x->data,
                   (size_t)x->count * dtype_info[x->dtype].bytes);
    }
    return OK;
}

/* The interpreter, as pipelines see it. */
typedef struct Client {
    RtDataClient base;
    Interp *in;
} Client;

static RtElementFn *
element_fn(RtDataClient *c, const char *name)
{
    Interp *in = ((Client *)c)->in;
    ElementFn *f = NEW(in->arena, ElementFn);
    *f = (ElementFn){{call_element_fn}, in, ir_func_find(in->m, name)};
    return &f->base;
}

/* ---- iterators ---------------------------------------------------------- */

static Status
iter_of(Interp *in, const char *name, Feed **out)
{
    int i = 0;
    while (strcmp(in->m->iters.data[i]->name, name) != 0)
        i++;
    Client *client = NEW(in->arena, Client);
    *client = (Client){{element_fn, NULL}, in};
    RtDataOptions options = {.dir = in->options->data_dir,
                             .seed = in->options->seed,
                             .client = &client->base};
    Feed *feed = &in->feeds[i];
    if (!feed->it)
        TRY(rt_iter_new(in->m, in->m->iters.data[i], &options, &feed->it));
    *out = feed;
    return OK;
}

static void
take_rows(Interp *in, const IrOp *op, const RtIter *it)
{
    int32_t n = ir_next_rows(op);
    if (n < 0)
        return;
    Arena *a = arena_new(NULL, "rows");
    int64_t *rows = NEW_ARRAY(a, int64_t, (size_t)in->num_replicas);
    for (int r = 0; r < in->num_replicas; r++)
        rows[r] = rt_iter_rows(it, r);
    interp_set_rows(in, n, rows);
    arena_release(a);
}

static Status
do_iter_next(Interp *in, IrOp *op, RtIter *it)
{
    TRY(rt_iter_next(it));
    take_rows(in, op, it);
    for (int r = 0; r < in->num_replicas; r++)
        for (int i = 0; i < op->num_results; i++) {
            RefTensor *x = interp_shaped(in, r, op->results[i]);
            memcpy(x->data, rt_iter_data(it, r, i),
                   (size_t)x->count * dtype_info[x->dtype].bytes);
        }
    return OK;
}

/* Every replica's copy of a scalar of main. */
static void
give_scalar(Interp *in, IrOp *op, Scalar x)
{
    for (int r = 0; r < in->num_replicas; r++)
        ref_set(interp_shaped(in, r, op->results[0]), 0, x);
}

/* Of the dataset that the iterator goes over, whichever iterator began them. */
static uint64_t
passes_of(const Interp *in, const char *name)
{
    uint64_t passes = 0;
    const IrIter *iter = ir_iter_find(in->m, name);
    for (int i = 0; i < in->m->iters.len; i++)
        if (in->feeds[i].it && strcmp(in->m->iters.data[i]->datasets.data[0],
                                      iter->datasets.data[0]) == 0)
            passes += rt_iter_passes(in->feeds[i].it);
    return passes;
}

static Status
do_iter(Interp *in, IrOp *op)
{
    Feed *feed;
    bool any;
    TRY(iter_of(in, ir_text(op, A_iter), &feed));
    if (op->kind == OP_iter_open) {
        feed->steps = 0;
        return rt_iter_open(feed->it, passes_of(in, ir_text(op, A_iter)));
    }
    if (op->kind == OP_iter_next) {
        feed->steps++;
        return do_iter_next(in, op, feed->it);
    }
    TRY(rt_iter_has_next(feed->it, &any));
    bool enough =
        in->options->max_steps && feed->steps >= in->options->max_steps;
    give_scalar(in, op, scalar_int(DT_bool, any && !enough));
    return OK;
}

/* ---- checkpoints -------------------------------------------------------- */

static const char *
saved_key(Interp *in, const IrOp *op, int first, const char *var)
{
    return arena_printf(in->arena, "%s/%s",
                        text_of(in, 0, op, first, in->arena), var);
}

static void
do_save(Interp *in, const IrOp *op)
{
    int num_vars;
    const char *const *vars = ir_names(op, A_vars, &num_vars);
    for (int i = 0; i < num_vars; i++) {
        RefTensor *copy = NEW(in->arena, RefTensor);
        ref_copy(in->arena, copy, interp_value(in, 0, op->operands[i]));
        map_set(in->saved, saved_key(in, op, num_vars, vars[i]), copy);
    }
}

/* A result of restore, or the variable where it has none. */
static Status
restore_one(Interp *in, const IrOp *op, const char *var, IrValue *result)
{
    const RefTensor *saved = map_get(in->saved, saved_key(in, op, 0, var));
    if (!saved)
        return status_new(STATUS_INPUT, "no \"%s\" was saved", var);
    for (int r = 0; r < in->num_replicas; r++) {
        RefTensor *to =
            result ? interp_shaped(in, r, result) : replicas_var(in, r, var);
        memcpy(to->data, saved->data,
               (size_t)saved->count * dtype_info[saved->dtype].bytes);
    }
    return OK;
}

static Status
do_restore(Interp *in, IrOp *op)
{
    int num_vars, num_placed;
    const char *const *vars = ir_names(op, A_vars, &num_vars);
    const char *const *placed = ir_names(op, A_in_place, &num_placed);
    for (int i = 0; i < num_vars; i++)
        TRY(restore_one(in, op, vars[i], op->results[i]));
    for (int i = 0; i < num_placed; i++)
        TRY(restore_one(in, op, placed[i], NULL));
    return OK;
}

/* ---- all of main's ------------------------------------------------------ */

Status
world_do(Interp *in, IrOp *op)
{
    Arena *a;
    switch (op->kind) {
    case OP_print:
        a = arena_new(NULL, "print");
        put_line(in, text_of(in, 0, op, 0, a));
        arena_release(a);
        return OK;
    case OP_assert:
        return check_assert(in, 0, op);
    case OP_save:
        do_save(in, op);
        return OK;
    case OP_restore:
        return do_restore(in, op);
    case OP_summary: /* no observer */
        return OK;
    case OP_join: /* closures have ended where they were scheduled */
    case OP_cancel:
        return OK;
    case OP_done:
        give_scalar(in, op, scalar_int(DT_bool, true));
        return OK;
    case OP_evaluates: /* it trains */
        give_scalar(in, op, scalar_int(DT_bool, false));
        return OK;
    case OP_now: /* the time is constant */
        give_scalar(in, op, scalar_float(DT_f64, 0));
        return OK;
    case OP_iter_open:
    case OP_iter_has_next:
    case OP_iter_next:
        return do_iter(in, op);
    default:
        return status_new(STATUS_INPUT, "nobody knows how to execute %s",
                          ir_op_info[op->kind].name);
    }
}
