/*
 * closures.c - launches of main as closures: arguments there, results back
 */
#include "runtime/ps/closures.h"

#include <assert.h>
#include <string.h>
#include "ir/analysis/batch.h"
#include "ir/analysis/lookups.h"
#include "runtime/ps/parts/batches.h"

/* ---- what is known when a plan is loaded -------------------------------- */

bool
rt_is_workers_iterator(const RtIterBinding *it)
{
    return it->ir->per_worker;
}

static const RtHostOp *
host_op_of(const RtFunction *fn, const IrOp *op)
{
    for (int i = 0; i < fn->num_ops; i++)
        if (fn->ops[i].op == op)
            return &fn->ops[i];
    return NULL;
}

static void
add_feed(RtClosures *c, RtClosureOp *op, const RtHostOp *next)
{
    for (int i = 0; i < op->feeds.len; i++)
        if (op->feeds.data[i] == next)
            return;
    VEC_PUSH(c->run->arena, op->feeds, next);
}

static RtArgument
argument_of(RtClosures *c, RtClosureOp *op, int i)
{
    const IrOp *def = op->h->op->operands[i]->def;
    if (op->h->in[i].place.space == SPACE_FRAME)
        return RT_ARGUMENT_host;
    if (def && def->kind == OP_iter_next) {
        const RtHostOp *next = host_op_of(c->main, def);
        if (next && rt_is_workers_iterator(next->iterator)) {
            add_feed(c, op, next);
            return RT_ARGUMENT_element;
        }
    }
    return RT_ARGUMENT_row;
}

static void
add_once(Arena *a, RtVarList *list, int var)
{
    for (int i = 0; i < list->len; i++)
        if (list->data[i] == var)
            return;
    VEC_PUSH(a, *list, var);
}

typedef struct Uses {
    RtRun *run;
    RtClosureOp *op;
} Uses;

static void
note_use(IrOp *ir, void *data)
{
    Uses *u = data;
    if (ir->kind != OP_read && ir->kind != OP_write)
        return;
    const IrModule *m = u->run->module;
    int var = ir_var_number(m, ir_var_find(m, ir_text(ir, A_var)));
    add_once(u->run->arena,
             ir->kind == OP_read ? &u->op->reads : &u->op->writes, var);
}

/* What is only looked up is not read as a whole. */
static void
find_lookups(RtClosures *c, RtClosureOp *op, const IrFunc *program)
{
    const IrModule *m = c->run->module;
    RtVarList reads = op->reads;
    op->reads = (RtVarList){0};
    for (int i = 0; i < reads.len; i++) {
        const IrVar *v = m->vars.data[reads.data[i]];
        IrLookups found = ir_lookups_find(c->run->arena, program, v);
        RtLookup l = {.var = reads.data[i]};
        for (int k = 0; k < found.params.len; k++)
            VEC_PUSH(c->run->arena, l.operands, found.params.data[k]);
        if (ir_is_looked_up(&found))
            VEC_PUSH(c->run->arena, op->lookups, l);
        else
            VEC_PUSH(c->run->arena, op->reads, l.var);
    }
}

/* The program that a task executes: one that pushes, if there is one. */
static const IrFunc *
program_of(const RtRun *run, const IrOp *launch)
{
    const char *pushes = ir_text(launch, A_worker);
    return ir_func_find(run->module,
                        pushes ? pushes : ir_text(launch, A_program));
}

static void
init_launch(RtClosures *c, RtClosureOp *op, const RtHostOp *h)
{
    RtRun *run = c->run;
    size_t n = (size_t)h->op->num_operands;
    op->h = h;
    op->number = c->list.len;
    op->is_scheduled = ir_int(h->op, A_scheduled);
    op->arguments = NEW_ARRAY(run->arena, RtArgument, n);
    for (int i = 0; i < h->op->num_operands; i++)
        op->arguments[i] = argument_of(c, op, i);
    op->is_set = NEW_ARRAY(run->arena, bool, (size_t)h->op->num_results);
    Uses uses = {run, op};
    ir_walk(program_of(run, h->op)->body, note_use, &uses);
    find_lookups(c, op, program_of(run, h->op));
    VEC_PUSH(run->arena, c->list, op);
}

void
rt_closures_init(RtClosures *c, RtRun *run, const RtFunction *main)
{
    *c = (RtClosures){.run = run, .main = main};
    c->passes = NEW_ARRAY(run->arena, uint64_t, (size_t)run->module->iters.len);
    c->numbers =
        NEW_ARRAY(run->arena, uint64_t, (size_t)run->module->iters.len);
    c->of_main = NEW_ARRAY(run->arena, RtClosureOp, (size_t)main->num_ops);
    for (int i = 0; i < main->num_ops; i++)
        if (main->ops[i].op->kind == OP_launch)
            init_launch(c, &c->of_main[i], &main->ops[i]);
}

void
rt_closures_open(RtClosures *c, int iter)
{
    const IrModule *m = c->run->module;
    const char *dataset = m->iters.data[iter]->datasets.data[0];
    c->numbers[iter] = 0;
    for (int i = 0; i < m->iters.len; i++)
        if (strcmp(m->iters.data[i]->datasets.data[0], dataset) == 0)
            c->numbers[iter] += c->passes[i];
    c->passes[iter]++;
}

RtClosureOp *
rt_closure_of(const RtClosures *c, const RtHostOp *h)
{
    return &c->of_main[h - c->main->ops];
}

RtClosureOp *
rt_closure_of_value(const RtClosures *c, const IrValue *v)
{
    if (!v->def || v->def->kind != OP_launch)
        return NULL;
    for (int i = 0; i < c->list.len; i++)
        if (c->list.data[i]->h->op == v->def)
            return c->list.data[i]->is_scheduled ? c->list.data[i] : NULL;
    return NULL;
}

/* ---- bytes -------------------------------------------------------------- */

static void
host_bytes(RtArchive *ar, void *value, size_t n)
{
    size_t part = rt_archive_begin_part(ar);
    rt_archive_bytes(ar, value, n);
    rt_archive_end_part(ar, part);
}

/* Bytes on a device, through the archive's own memory. */
static void
row_bytes(RtArchive *ar, RtDevicePtr row, size_t n)
{
    size_t part = rt_archive_begin_part(ar);
    char *bytes = rt_archive_place(ar, n);
    if (bytes && !ar->reads)
        rt_copy_out(bytes, row, n);
    rt_archive_end_part(ar, part);
    if (bytes && ar->reads && !ar->wrong)
        rt_copy_in(row, bytes, n);
}

/* The sizes of batches on all replicas, which are of this process. */
static void
batches(RtRun *run, RtArchive *ar)
{
    size_t n = (size_t)ir_num_pairs(run->module) * sizeof(IrBatchSizes);
    for (int r = 0; r < run->num_replicas; r++)
        rt_ps_batches(run, &run->replicas[r], ar);
    if (ar->reads && n)
        memcpy(run->main.dims, run->replicas[0].dims, n);
}

/* A value with a place in every replica's arena; what is equal on all is sent
 * once. */
static void
row(RtRun *run, RtArchive *ar, const RtValue *v, const IrValue *ir)
{
    bool is_equal = ir->type.locality == LOCAL_MIRRORED;
    int num = is_equal && !ar->reads ? 1 : run->num_replicas;
    size_t at = ar->at;
    for (int r = 0; r < num; r++) {
        const RtExecutor *replica = &run->replicas[r];
        if (is_equal)
            ar->at = at;
        row_bytes(ar, rt_row(replica, v), rt_value_bytes(v, replica->dims));
    }
}

static void
skip_row(RtRun *run, RtArchive *ar, const IrValue *ir)
{
    int num = ir->type.locality == LOCAL_MIRRORED ? 1 : run->num_replicas;
    for (int r = 0; r < num && !ar->wrong; r++)
        rt_archive_skip_part(ar);
}

static void
passes(RtClosures *c, const RtClosureOp *op, RtArchive *ar)
{
    for (int i = 0; i < op->feeds.len; i++) {
        const RtIterBinding *it = op->feeds.data[i]->iterator;
        rt_archive_u64(ar, &c->passes[it - c->run->iterators]);
        rt_archive_u64(ar, &c->numbers[it - c->run->iterators]);
    }
}

static bool
has_rows(const RtClosureOp *op)
{
    for (int i = 0; i < op->h->op->num_operands; i++)
        if (op->arguments[i] == RT_ARGUMENT_row)
            return true;
    return false;
}

void
rt_closure_arguments(RtClosures *c, const RtClosureOp *op, RtInvocation *main,
                     RtArchive *ar)
{
    const int64_t *dims = main->executor->dims;
    passes(c, op, ar);
    if (has_rows(op))
        batches(c->run, ar);
    for (int i = 0; i < op->h->op->num_operands && !ar->wrong; i++) {
        const RtValue *v = &op->h->in[i];
        if (op->arguments[i] == RT_ARGUMENT_host)
            host_bytes(ar, rt_host_value(main, v), rt_value_bytes(v, dims));
        else if (op->arguments[i] == RT_ARGUMENT_row)
            row(c->run, ar, v, op->h->op->operands[i]);
    }
}

void
rt_closure_feeds(const RtClosures *c, const RtClosureOp *op, RtFeeds *out)
{
    out->len = 0;
    for (int i = 0; i < op->feeds.len; i++) {
        int iter = (int)(op->feeds.data[i]->iterator - c->run->iterators);
        VEC_PUSH(c->run->arena, *out, ((RtFeed){iter, c->passes[iter], 0}));
    }
}

void
rt_closure_results(RtClosures *c, const RtClosureOp *op, RtArchive *ar)
{
    const IrOp *launch = op->h->op;
    assert(!ar->reads);
    if (launch->num_results == 0)
        return;
    batches(c->run, ar);
    for (int i = 0; i < launch->num_results; i++)
        row(c->run, ar, &op->h->out[i], launch->results[i]);
}

void
rt_closure_result(RtClosures *c, const RtClosureOp *op, int index,
                  RtArchive *ar)
{
    const IrOp *launch = op->h->op;
    assert(ar->reads);
    batches(c->run, ar);
    for (int i = 0; i < index && !ar->wrong; i++)
        skip_row(c->run, ar, launch->results[i]);
    if (!ar->wrong)
        row(c->run, ar, &op->h->out[index], launch->results[index]);
}
