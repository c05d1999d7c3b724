/*
 * iter.c - datasets of a run: iterators, and their compiled functions
 *
 * All sources are opened when the run begins, so that a file that is missing
 * is found then and not after hours.
 */
#include "runtime/ops/iter.h"

#include <string.h>
#include "ir/base/clock.h"
#include "ir/evaluation.h"
#include "ir/analysis/hooks.h"
#include "ir/ir.h"
#include "runtime/exec/end.h"
#include "runtime/exec/run_state.h"
#include "runtime/ops/batch.h"
#include "runtime/ops/host_ops.h"
#include "runtime/ops/same_files.h"
#include "runtime/ops/shared_steps.h"
#include "runtime/ps/client.h"
#include "runtime/ps/ps.h"

/* ---- functions of elements ---------------------------------------------- */

static Status
load_stages(RtRun *run, const IrDataset *ds)
{
    RtFunction *unused;
    for (int i = 0; i < ds->stages.len; i++) {
        if (ds->stages.data[i].func)
            TRY(rt_load_function(run, ds->stages.data[i].func, FUNC_HOST,
                                 &unused));
    }
    return OK;
}

Status
rt_load_elements(RtRun *run)
{
    for (int i = 0; i < run->module->datasets.len; i++)
        TRY(load_stages(run, run->module->datasets.data[i]));
    return OK;
}

/* An element's shapes name at most one batch: every n is that one. */
static void
set_rows(RtElementCall *e, int64_t rows)
{
    int pairs = ir_num_pairs(e->executor.run->module);
    for (int i = 0; i < pairs; i++)
        e->executor.batches[i].n = rows;
}

/* Steps that are made ahead may meet one that main never hears of; then the
 * next pass has its own. */
static void
forget_fault(RtFault *f)
{
    f->op = NULL;
    f->text.len = 0;
    f->notes.len = 0;
}

static Status
call_element(RtElementFn *f, void *const *in, void *const *out, int64_t rows)
{
    RtElementCall *e = (RtElementCall *)f;
    set_rows(e, rows);
    forget_fault(&e->executor.fault);
    e->inv.call.in = (char *const *)in;
    e->inv.call.out = (char *const *)out;
    atomic_store_explicit(&e->executor.running, &e->inv, memory_order_relaxed);
    int32_t end = e->inv.fn->code(&e->inv.call);
    atomic_store_explicit(&e->executor.running, NULL, memory_order_relaxed);
    if (end == EXEC_STOPPED)
        return rt_data_stopped();
    if (end == EXEC_OK)
        return OK;
    return rt_fault_in_words(e->executor.run, &e->executor.fault);
}

/* The run as a client of its pipelines. */
typedef struct Client {
    RtDataClient base;
    RtRun *run;
} Client;

static RtElementFn *
new_element(RtDataClient *c, const char *name)
{
    RtRun *run = ((Client *)c)->run;
    const RtFunction *fn = map_get(run->fns, name);
    RtElementCall *e = NEW(run->arena, RtElementCall);
    rt_executor_init(&e->executor, run, -1);
    rt_invocation_init(
        &e->inv, fn, &e->executor,
        arena_alloc_on_lines(e->executor.arena, (size_t)fn->ir->arena_bytes));
    VEC_PUSH(run->arena, run->elements, e);
    e->fn.call = call_element;
    return &e->fn;
}

static bool
gives_up(RtDataClient *c)
{
    const RtRun *run = ((Client *)c)->run;
    return rt_is_stopped(run) ||
           (run->ps_client && rt_ps_is_over(run->ps_client));
}

/* ---- opening and closing ------------------------------------------------ */

/* The bounds of its rows, whichever symbols they have. */
static void
note_bounds(RtRun *run, RtIterBinding *it)
{
    if (it->ir->rows < 0)
        return;
    const IrSymbol *n = &run->module->symbols.data[it->ir->rows];
    it->bound = n->bound;
    it->all_bound = n->partner < 0
                        ? INT64_MAX
                        : run->module->symbols.data[n->partner].bound;
}

static void
list_iterators(RtRun *run)
{
    int n = run->module->iters.len;
    run->iterators = NEW_ARRAY(run->arena, RtIterBinding, (size_t)n);
    for (int i = 0; i < n; i++) {
        run->iterators[i].ir = run->module->iters.data[i];
        run->iterators[i].is_evaluators = ir_is_evaluators_iter(
            run->module, run->module->iters.data[i]->name);
        note_bounds(run, &run->iterators[i]);
    }
}

/* Of several processes one may lack what others have. */
static Status
in_rank(const RtRun *run, Status st)
{
    if (!st || !run->job)
        return st;
    return status_note(st, "opening the datasets of rank %d (%s)", run->rank,
                       run->job->host);
}

/* Opens its sources. */
static Status
open_iterator(RtRun *run, RtIterBinding *it)
{
    Client *client = NEW(run->arena, Client);
    *client = (Client){{new_element, gives_up}, run};
    RtDataOptions options = {.dir = run->data_dir,
                             .texts = run->texts,
                             .num_texts = run->module->params.len,
                             .seed = rt_ps_data_seed(run),
                             .threads = run->options->pipeline_threads,
                             .first_local = run->first_local,
                             .num_local = run->num_local,
                             .client = &client->base,
                             .file_bytes = &run->stats.file_bytes,
                             .kept_bytes = &run->stats.kept_bytes};
    rt_ps_share_data(run, it, &options);
    return in_rank(run, rt_iter_new(run->module, it->ir, &options, &it->iter));
}

Status
rt_open_iterators(RtRun *run)
{
    if (!run->iterators)
        list_iterators(run);
    run->open_iterator = open_iterator;
    for (int i = 0; i < run->module->iters.len; i++)
        if (rt_ps_has_elements(run, &run->iterators[i]))
            TRY(open_iterator(run, &run->iterators[i]));
    TRY(rt_check_same_files(run));
    TRY(rt_share_steps(run));
    return rt_prepare_agreement(run);
}

void
rt_close_iterators(RtRun *run)
{
    for (int i = 0; run->iterators && i < run->module->iters.len; i++) {
        rt_end_copies(run, &run->iterators[i]);
        rt_iter_close(run->iterators[i].iter);
    }
    rt_unshare_steps(run);
    for (int i = 0; i < run->elements.len; i++)
        rt_executor_deinit(&run->elements.data[i]->executor);
}

/* ---- operations -------------------------------------------------------- */

Status
rt_prepare_iter(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    const char *name = ir_text(h->op, A_iter);
    if (!run->iterators)
        list_iterators(run);
    for (int i = 0; i < run->module->iters.len; i++) {
        if (strcmp(run->iterators[i].ir->name, name) == 0) {
            h->iterator = &run->iterators[i];
            return OK;
        }
    }
    return plan_refuse(run->plan, "@%s names no iterator \"%s\"", fn->ir->name,
                       name);
}

static int
num_components(const RtRun *run, const RtIterBinding *it)
{
    const IrDataset *ds =
        ir_dataset_find(run->module, it->ir->datasets.data[0]);
    return ds && ds->stages.len ? VEC_LAST(ds->stages).types.len : 0;
}

/* The symbols of the rows of n on single replicas. */
static RtReplicaRows *
rows_of_replicas(const RtRun *run, int32_t n)
{
    RtReplicaRows *list = NEW(run->arena, RtReplicaRows);
    for (int32_t i = 0; i < run->module->symbols.len; i++) {
        const IrSymbol *s = &run->module->symbols.data[i];
        RtReplicaWord w = {ir_symbol_word(run->module, i), s->replica};
        if (s->of == n)
            VEC_PUSH(run->arena, *list, w);
    }
    return list;
}

Status
rt_prepare_iter_next(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    TRY(rt_prepare_iter(run, fn, h));
    bool fits = h->op->num_results == num_components(run, h->iterator);
    for (int i = 0; i < h->op->num_results; i++)
        fits &= h->out[i].place.space == SPACE_ROW;
    if (!fits)
        return plan_refuse(run->plan,
                           "elements of \"%s\" have no place on the devices",
                           h->iterator->ir->datasets.data[0]);
    h->iterator->next = h;
    rt_find_parts_in_place(run, fn, h);
    int32_t n = ir_next_rows(h->op);
    h->batch = n < 0 ? -1 : ir_symbol_batch(run->module, n);
    if (n >= 0)
        h->replica_rows = rows_of_replicas(run, n);
    return OK;
}

/* All iterators of a dataset share the count of its passes. */
static uint64_t
passes_of(const RtRun *run, const IrIter *ir)
{
    uint64_t passes = 0;
    for (int i = 0; i < run->module->iters.len; i++) {
        const RtIterBinding *it = &run->iterators[i];
        if (it->iter &&
            strcmp(it->ir->datasets.data[0], ir->datasets.data[0]) == 0)
            passes += rt_iter_passes(it->iter);
    }
    return passes;
}

int32_t
rt_op_iter_open(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    RtIterBinding *it = h->iterator;
    if (rt_ps_opens_iterator(run, it))
        return EXEC_OK;
    rt_end_copies(run, it);
    Status st = it->iter ? OK : open_iterator(run, it);
    if (!st)
        st = rt_agree_on_open(run, it);
    if (!st)
        st = rt_iter_open(it->iter,
                          rt_ps_pass_of(run, it, passes_of(run, it->ir)));
    return st ? rt_fault_status(inv, h, st) : EXEC_OK;
}

int32_t
rt_op_iter_has_next(RtInvocation *inv, const RtHostOp *h)
{
    bool more = false;
    double begin = clock_seconds();
    Status st = rt_agree_on_next(inv->executor->run, h->iterator, &more);
    inv->executor->run->stats.data += clock_seconds() - begin;
    if (st)
        return rt_fault_status(inv, h, st);
    *rt_host_value(inv, &h->out[0]) = more;
    return EXEC_OK;
}

/* Every executor knows the rows of every replica. */
static void
set_replica_rows(RtExecutor *executor, const RtIterBinding *it,
                 const RtReplicaRows *list)
{
    for (int i = 0; i < list->len; i++) {
        RtReplicaWord w = list->data[i];
        executor->dims[w.word] = rt_iter_rows(it->iter, w.replica);
    }
}

/* The batch's n, N and row_start on every replica, and in main, where n is that
 * of replica 0; false if it is larger than its bound, for which arenas were
 * made. */
static bool
set_batch(RtRun *run, const RtHostOp *h)
{
    const RtIterBinding *it = h->iterator;
    int64_t all = rt_iter_all_rows(it->iter), before = 0;
    for (int r = 0; r < run->num_replicas; r++) {
        int64_t rows = rt_iter_rows(it->iter, r);
        if (rows > it->bound)
            return false;
        run->replicas[r].batches[h->batch] =
            (IrBatchSizes){.n = rows, .N = all, .row_start = before};
        before += rows;
        set_replica_rows(&run->replicas[r], it, h->replica_rows);
    }
    set_replica_rows(&run->main, it, h->replica_rows);
    IrBatchSizes *own = &run->main.batches[h->batch];
    own->n = rt_iter_rows(it->iter, 0);
    own->N = all;
    return all <= it->all_bound;
}

/* Main can ask before it takes an element, a closure cannot. */
static int32_t
fault_at_end(RtInvocation *inv, const RtHostOp *h)
{
    if (h->iterator->ir->per_worker)
        return rt_fault(inv, h, STATUS_INPUT,
                        "\"next\" finds no more elements on the workers: "
                        "schedule as many closures as there are, or give the "
                        "dataset .repeat()");
    return rt_fault(inv, h, STATUS_INPUT,
                    "\"next\" finds no more elements: a loop over all of them "
                    "is while has_next(it) { ... }");
}

int32_t
rt_op_iter_next(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    double begin = clock_seconds();
    bool more = true;
    if (!h->iterator->iter) /* workers take its elements */
        return EXEC_OK;
    Status st = rt_agree_on_next(run, h->iterator, &more);
    if (!more)
        return fault_at_end(inv, h);
    rt_end_copy(run, h->iterator);
    if (!st)
        st = rt_iter_next(h->iterator->iter);
    if (st)
        return rt_fault_status(inv, h, st);
    rt_agreed_step_is_taken(run, h->iterator);
    rt_note_state(run, RT_JOB_RUNS);
    if (h->batch >= 0 && !set_batch(run, h))
        return rt_fault(inv, h, STATUS_INPUT,
                        "a batch of \"%s\" is larger than the plan allows",
                        h->iterator->ir->datasets.data[0]);
    rt_hand_over_batch(run, h);
    run->stats.data += clock_seconds() - begin;
    return EXEC_OK;
}
