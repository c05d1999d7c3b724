/*
 * rebatch.c - divides a dataset among the replicas of a worker
 *
 * Rebatching makes a stream of parts; each step takes one for each replica of
 * the worker.  There are three (ir/dataset/sharding.h).  Legacy cuts each
 * batch of b rows by itself, in parts of ceil(b / replicas), of which worker i
 * of n keeps every n-th when it is sharded by data.  V2 ignores the batches and
 * cuts the stream of rows by a cyclic list of sizes, which worker i begins at
 * the position of its replicas.  Whole elements are parts unchanged.
 *
 * Its position is `part`, `taken`, the two ends, and the current batch if it
 * has rows left.
 */
#include <assert.h>
#include <string.h>
#include "ir/base/cache_line.h"
#include "ir/base/minmax.h"
#include "ir/dataset/sharding.h"
#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "ir/type_text.h"
#include "runtime/data/rebatch.h"

struct RtRebatch {
    IrRebatch kind;
    Arena *arena;
    RtNode **inputs; /* the last stage of each pipeline of this worker */
    int num_inputs;  /* whole elements: one, or one a replica; else one */
    int num_own;     /* replicas of this worker */
    int num_replicas;
    int num_workers, worker;
    bool by_data; /* legacy: the other workers have the other parts */
    int num_components;
    int64_t *part_bytes; /* of each component of the largest part */

    int64_t batch;      /* G; this and the next three: of the batches */
    int64_t part_rows;  /* of the largest part */
    bool is_static;     /* every batch is full */
    int64_t *row_bytes; /* of each component */

    RtElement element; /* the current batch */
    int64_t taken;     /* V2: rows of it that were taken */
    int64_t part;      /* number of the next part of the pass */
    bool ended;        /* there are no more batches */
    bool over;         /* there are no more parts */
};

/* ---- pipelines ---------------------------------------------------------- */

/* The pipelines of the iterator that are this worker's: one, or one for each
 * replica of the only worker.  Returns the first. */
static int
assign_pipelines(RtRebatch *d, const IrIter *iter)
{
    int n = iter->datasets.len;
    bool per_worker = !iter->whole || n == d->num_workers;
    d->num_inputs = per_worker ? 1 : n;
    return iter->whole && per_worker ? d->worker : 0;
}

static Status
open_pipelines(RtRebatch *d, const IrModule *m, const IrIter *iter,
               const RtDataOptions *options)
{
    int first = assign_pipelines(d, iter);
    d->inputs = NEW_ARRAY(d->arena, RtNode *, (size_t)d->num_inputs);
    RtDataOptions *own = NEW(d->arena, RtDataOptions);
    *own = *options;
    for (int i = 0; i < d->num_inputs; i++) {
        const char *name = iter->datasets.data[first + i];
        own->pipeline = first + i;
        const IrDataset *dataset = ir_dataset_find(m, name);
        if (!dataset)
            UNREACHABLE("no dataset @%s", name);
        TRY(rt_pipeline_new(d->arena, m, dataset, own, &d->inputs[i]));
    }
    return OK;
}

/* ---- elements that can be divided ---------------------------------------- */

/* Whether t is a batch of rows of one size, of as many rows as `first`. */
static bool
is_batch(const IrModule *m, const IrType *t, Dim first)
{
    if (t->rank == 0 || !ir_dim_equal(t->dims[0], first) ||
        ir_dim_full(m, first).c < 1)
        return false;
    if (!ir_dim_is_const(first) && (first.c != 0 || first.k != 1))
        return false;
    for (int i = 1; i < t->rank; i++) {
        if (!ir_dim_is_const(t->dims[i]))
            return false;
    }
    return true;
}

/* The front end accepts only batches; an edited plan may have other elements.
 */
static Status
measure_batches(RtRebatch *d)
{
    const RtNode *n = d->inputs[0];
    const IrType *types = n->stage->types.data;
    Dim first = types[0].dims[0];
    for (int i = 0; i < d->num_components; i++) {
        if (!is_batch(n->module, &types[i], first))
            return rt_stage_show(
                n, status_new(STATUS_INPUT,
                              "%s: %s is no batch that replicas can share",
                              rt_stage_location(n),
                              ir_type_text(n->module, &types[i])));
        d->row_bytes[i] = n->bytes[i] / ir_dim_full(n->module, first).c;
    }
    d->batch = ir_dim_full(n->module, first).c;
    d->is_static = ir_dim_is_const(first);
    d->part_rows = (d->batch - 1) / d->num_replicas + 1;
    for (int i = 0; i < d->num_components; i++)
        d->part_bytes[i] = d->part_rows * d->row_bytes[i];
    d->element = rt_element_new(n);
    return OK;
}

/* Whole elements go to the replica that asks, from any pipeline. */
static void
measure_elements(RtRebatch *d)
{
    for (int i = 0; i < d->num_inputs; i++)
        for (int j = 0; j < d->num_components; j++)
            if (d->inputs[i]->bytes[j] > d->part_bytes[j])
                d->part_bytes[j] = d->inputs[i]->bytes[j];
}

static Status
check_policy(const RtRebatch *d, const IrIter *iter, const IrDataset *dataset)
{
    StageKind source = ir_dataset_source(d->inputs[0]->module, dataset);
    if (iter->shard != SHARD_FILE || ir_stage_info[source].reads)
        return OK;
    return rt_stage_show(
        d->inputs[0],
        status_new(STATUS_INPUT,
                   "%s: \"%s\" cannot be sharded by file: its source is %s, "
                   "which reads none; shard = data or off needs no files",
                   rt_stage_location(d->inputs[0]), dataset->name,
                   ir_stage_info[source].name));
}

/* Whether each worker has a file. */
static Status
check_files(const RtNode *last, const IrDataset *dataset, int num_workers)
{
    int64_t files = rt_pipeline_num_files(last);
    if (files >= num_workers)
        return OK;
    return rt_stage_show(
        last, status_new(STATUS_INPUT,
                         "%s: \"%s\" cannot be sharded by file: it has %lld "
                         "of them, and there are %d workers; shard = data or "
                         "off needs no files",
                         rt_stage_location(last), dataset->name,
                         (long long)files, num_workers));
}

/* Restricts the pipeline to the files of this worker. */
static Status
shard_files(RtRebatch *d, const IrDataset *dataset)
{
    TRY(check_files(d->inputs[0], dataset, d->num_workers));
    rt_pipeline_shard_files(d->inputs[0], d->num_workers, d->worker);
    return OK;
}

/* Restricts the pipeline to this worker's elements. */
static Status
shard(RtRebatch *d, const IrModule *m, const IrIter *iter)
{
    const IrDataset *dataset = ir_dataset_find(m, iter->datasets.data[0]);
    ShardPolicy policy = ir_iter_shard_policy(m, iter);
    d->by_data = policy == SHARD_DATA;
    TRY(check_policy(d, iter, dataset));
    return policy == SHARD_FILE && d->num_workers > 1 ? shard_files(d, dataset)
                                                      : OK;
}

/* Restricts the pipeline to what this worker of a coordinator has of it. */
static Status
take_workers_share(RtRebatch *d, const IrIter *iter,
                   const RtDataOptions *options)
{
    int num = options->num_workers, index = options->worker;
    for (int i = 0; i < d->num_inputs && num > 0; i++) {
        RtNode *last = d->inputs[i];
        if (iter->workers == WORKER_SHARD_FILE)
            TRY(check_files(last, last->dataset, num));
        if (iter->workers == WORKER_SHARD_FILE)
            rt_pipeline_shard_files(last, num, index);
        else if (iter->workers == WORKER_SHARD_DATA)
            rt_pipeline_shard_rows(&d->inputs[i], num, index);
        else if (iter->workers == WORKER_SHARD_DYNAMIC && options->dealer)
            rt_pipeline_deal_files(last, options->dealer);
    }
    return OK;
}

void
rt_rebatch_files(const RtRebatch *d, RtTakeFile *take, void *data)
{
    for (int i = 0; i < d->num_inputs; i++)
        rt_pipeline_files(d->inputs[i], take, data);
}

/* Whether every step must have an element for each replica: because their
 * shapes are equal, or they never end. */
static bool
is_complete(const IrModule *m, const IrIter *iter)
{
    const IrDataset *first = ir_dataset_find(m, iter->datasets.data[0]);
    return iter->whole &&
           (iter->rows < 0 ||
            ir_stage_is_endless(m, first, first->stages.len - 1));
}

bool
rt_step_exists(const IrModule *m, const IrIter *iter, int num_given, int num)
{
    return is_complete(m, iter) ? num_given == num : num_given > 0;
}

Status
rt_rebatch_new(Arena *arena, const IrModule *m, const IrIter *iter, int worker,
               const RtDataOptions *options, RtRebatch **out)
{
    RtRebatch *d = NEW(arena, RtRebatch);
    *d = (RtRebatch){.kind = ir_iter_rebatch(m, iter),
                     .arena = arena,
                     .num_own = m->num_replicas / m->num_workers,
                     .num_replicas = m->num_replicas,
                     .num_workers = m->num_workers,
                     .worker = worker};
    TRY(open_pipelines(d, m, iter, options));
    TRY(take_workers_share(d, iter, options));
    d->num_components = d->inputs[0]->stage->types.len;
    d->row_bytes = NEW_ARRAY(arena, int64_t, (size_t)d->num_components);
    d->part_bytes = NEW_ARRAY(arena, int64_t, (size_t)d->num_components);
    *out = d;
    if (d->kind == REBATCH_NONE) {
        measure_elements(d);
        return OK;
    }
    TRY(measure_batches(d));
    return shard(d, m, iter);
}

int
rt_rebatch_num_parts(const RtRebatch *d)
{
    return d->num_own;
}

int
rt_rebatch_num_components(const RtRebatch *d)
{
    return d->num_components;
}

int64_t
rt_rebatch_most_bytes(const RtRebatch *d, int component)
{
    return d->part_bytes[component];
}

/* The rows of whole elements that name no batch are arbitrary. */
int64_t
rt_rebatch_part_bytes(const RtRebatch *d, int component, int64_t rows)
{
    return d->kind == REBATCH_NONE ? d->part_bytes[component]
                                   : rows * d->row_bytes[component];
}

static RtNode *
input_of(const RtRebatch *d, int replica)
{
    return d->inputs[d->num_inputs == 1 ? 0 : replica];
}

RtStep
rt_step_new(const RtRebatch *d)
{
    RtStep s = {.parts = NEW_ARRAY(d->arena, RtElement, (size_t)d->num_own),
                .given = NEW_ARRAY(d->arena, bool, (size_t)d->num_own)};
    size_t num = (size_t)d->num_components;
    for (int r = 0; r < d->num_own; r++) {
        RtElement *part = &s.parts[r];
        part->data = NEW_ARRAY(d->arena, char *, num);
        for (size_t i = 0; i < num; i++)
            part->data[i] =
                arena_alloc_on_lines(d->arena, (size_t)d->part_bytes[i]);
        if (rt_node_lends(input_of(d, r)))
            part->own = arena_copy(d->arena, part->data, num * sizeof(char *));
    }
    return s;
}

/* ---- batches ------------------------------------------------------------ */

Status
rt_rebatch_rewind(RtRebatch *d, uint64_t pass)
{
    d->element.rows = d->taken = d->part = 0;
    d->ended = d->over = false;
    for (int i = 0; i < d->num_inputs; i++)
        TRY(rt_node_rewind(d->inputs[i], pass));
    return OK;
}

/* A part that may have borrowed its data is about to be written. */
static void
use_own_memory(const RtRebatch *d, RtElement *part)
{
    for (int i = 0; part->own && i < d->num_components; i++)
        part->data[i] = part->own[i];
}

/* The next batch into e; none has no rows. */
static Status
next_batch_into(RtRebatch *d, RtElement *e)
{
    TRY(rt_node_next(d->inputs[0], e, &d->ended));
    if (d->ended)
        e->rows = 0;
    else if (d->is_static)
        e->rows = d->batch;
    return OK;
}

static Status
next_batch(RtRebatch *d)
{
    d->taken = 0;
    return next_batch_into(d, &d->element);
}

/* Appends rows first .. first + n - 1 of the current batch to the part. */
static void
give_rows(const RtRebatch *d, RtElement *part, int64_t first, int64_t n)
{
    assert(first >= 0 && n >= 0 && first + n <= d->element.rows);
    assert(part->rows + n <= d->part_rows);
    for (int i = 0; i < d->num_components; i++) {
        int64_t bytes = d->row_bytes[i];
        memcpy(part->data[i] + part->rows * bytes,
               d->element.data[i] + first * bytes, (size_t)(n * bytes));
    }
    part->rows += n;
}

/* ---- parts -------------------------------------------------------------- */

/* Part `at` of the current batch: the same for all workers. */
static void
give_equal_part(const RtRebatch *d, RtElement *part, int64_t at)
{
    int64_t rows = d->element.rows;
    int64_t each = (rows + d->num_replicas - 1) / d->num_replicas;
    int64_t first = min_i64(at * each, rows);
    give_rows(d, part, first, min_i64(each, rows - first));
}

/* The only replica takes whole batches, without a copy. */
static Status
legacy_part_of_one(RtRebatch *d, RtElement *part)
{
    TRY(next_batch_into(d, part));
    d->over = d->ended;
    d->part += !d->over;
    return OK;
}

static Status
legacy_part(RtRebatch *d, RtElement *part)
{
    if (d->num_replicas == 1)
        return legacy_part_of_one(d, part);
    for (;;) {
        int64_t at = d->part % d->num_replicas;
        if (at == 0)
            TRY(next_batch(d));
        d->over = d->ended;
        if (d->over)
            return OK;
        d->part++;
        if (!d->by_data || at % d->num_workers == d->worker) {
            give_equal_part(d, part, at);
            return OK;
        }
    }
}

/* The next batch as the beginning of a part; more rows may follow only in
 * memory of its own. */
static Status
give_batch(RtRebatch *d, RtElement *part, int64_t size)
{
    TRY(next_batch_into(d, part));
    if (!part->own || part->rows == size)
        return OK;
    for (int i = 0; i < d->num_components; i++)
        if (part->data[i] != part->own[i])
            memcpy(part->own[i], part->data[i],
                   (size_t)(part->rows * d->row_bytes[i]));
    use_own_memory(d, part);
    return OK;
}

/* Fills the part with size rows of the stream, fewer at its end.  A part that
 * has room for a whole batch receives it without a copy. */
static Status
fill_part(RtRebatch *d, RtElement *part, int64_t size)
{
    if (size == d->batch && d->taken == d->element.rows)
        TRY(give_batch(d, part, size));
    while (part->rows < size) {
        if (d->taken == d->element.rows)
            TRY(next_batch(d));
        if (d->ended)
            return OK;
        int64_t n = min_i64(size - part->rows, d->element.rows - d->taken);
        give_rows(d, part, d->taken, n);
        d->taken += n;
    }
    return OK;
}

/* Empty parts are given even when the rows have ended; the stream ends at the
 * first part that should have rows. */
static Status
v2_part(RtRebatch *d, RtElement *part)
{
    int64_t first = (int64_t)d->worker * d->num_own;
    int64_t size = ir_rebatch_rows(d->batch, d->num_replicas, first + d->part);
    d->part++;
    if (!d->ended)
        TRY(fill_part(d, part, size));
    d->over = size > 0 && part->rows == 0;
    return OK;
}

/* A part of no rows, all of whose components are zeros. */
static void
clear_part(const RtRebatch *d, RtElement *part)
{
    part->rows = 0;
    for (int i = 0; i < d->num_components; i++)
        memset(part->data[i], 0, (size_t)d->part_bytes[i]);
}

/* The next element of the replica's pipeline, or zeros if it has none. */
static Status
whole_part(RtRebatch *d, RtElement *part, int replica, bool *given)
{
    bool end;
    TRY(rt_node_next(input_of(d, replica), part, &end));
    *given = !end;
    if (end)
        clear_part(d, part);
    return OK;
}

static Status
next_part(RtRebatch *d, RtElement *part, int replica, bool *given)
{
    part->rows = 0;
    use_own_memory(d, part);
    if (d->kind == REBATCH_NONE)
        return whole_part(d, part, replica, given);
    if (!d->over)
        TRY(d->kind == REBATCH_LEGACY ? legacy_part(d, part)
                                      : v2_part(d, part));
    *given = !d->over;
    return OK;
}

Status
rt_rebatch_next(RtRebatch *d, RtStep *step)
{
    for (int r = 0; r < d->num_own; r++)
        TRY(next_part(d, &step->parts[r], r, &step->given[r]));
    return OK;
}

/* ---- checkpoints -------------------------------------------------------- */

static void
batch_archive(RtRebatch *d, RtArchive *ar)
{
    bool has_rows = d->kind == REBATCH_V2 ? d->taken < d->element.rows
                                          : d->part % d->num_replicas != 0;
    rt_archive_bool(ar, &has_rows);
    if (!has_rows)
        return;
    rt_element_archive(d->inputs[0], &d->element, ar);
    rt_archive_i64(ar, &d->element.rows, 0, d->batch);
    rt_archive_i64(ar, &d->taken, 0, d->element.rows);
}

void
rt_rebatch_archive(RtRebatch *d, RtArchive *ar)
{
    rt_archive_bool(ar, &d->ended);
    rt_archive_bool(ar, &d->over);
    rt_archive_position(ar, &d->part);
    if (d->kind != REBATCH_NONE)
        batch_archive(d, ar);
    for (int i = 0; i < d->num_inputs; i++)
        rt_node_archive(d->inputs[i], ar);
}

/* A part of its rows, or a whole element. */
static void
part_archive(const RtRebatch *d, RtElement *part, int replica, RtArchive *ar)
{
    if (d->kind == REBATCH_NONE) {
        rt_element_archive(input_of(d, replica), part, ar);
        return;
    }
    rt_archive_i64(ar, &part->rows, 0, d->part_rows);
    for (int i = 0; i < d->num_components; i++)
        rt_archive_bytes(ar, part->data[i],
                         (size_t)(part->rows * d->row_bytes[i]));
}

void
rt_step_archive(const RtRebatch *d, RtStep *step, RtArchive *ar)
{
    for (int r = 0; r < d->num_own; r++) {
        rt_archive_bool(ar, &step->given[r]);
        if (step->given[r])
            part_archive(d, &step->parts[r], r, ar);
        else if (ar->reads)
            clear_part(d, &step->parts[r]);
    }
}
