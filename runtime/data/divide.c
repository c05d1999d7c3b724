/*
 * divide.c - a global batch among the replicas
 *
 * Two algorithms, TensorFlow's (semantics.md 7.2).  Legacy cuts each batch of
 * b rows by itself, in parts of ceil(b / replicas).  V2 forgets the batches and
 * cuts the stream of rows by a cyclic list of sizes: G / replicas each, the
 * first G % replicas of them one more, where G is the size of a full batch.
 */
#include <string.h>
#include "ir/build.h"
#include "runtime/data/divide.h"

struct RtDivision {
    RtNode *input;
    int num_replicas;
    int num_components;
    bool legacy;
    bool is_static;           /* every batch is full */
    int64_t batch;            /* G */
    const int64_t *row_bytes; /* of each component */
    RtElement element;        /* the batch at hand */
    int64_t taken;            /* V2: rows of it that were given */
    bool ended;
};

/* ---- what can be divided, and how --------------------------------------- */

/* tfrecord, lines and bytes count as files for sharding auto. */
static bool
reads_files(const IrDataset *dataset)
{
    return dataset->stages.data[0].kind == STAGE_bytes;
}

static Status
choose_algorithm(RtDivision *d, const IrIter *iter, const IrDataset *dataset)
{
    bool files = reads_files(dataset);
    if (iter->shard == SHARD_FILE && !files)
        return status_new(STATUS_INPUT,
                          "%s: \"%s\" cannot be sharded by file: its source "
                          "is %s, which reads none",
                          rt_stage_place(d->input), dataset->name,
                          ir_stage_info[dataset->stages.data[0].kind].name);
    d->legacy =
        iter->shard == SHARD_DATA || (iter->shard == SHARD_AUTO && !files);
    return OK;
}

/* Whether t is a batch of rows of one size, of as many rows as `first`. */
static bool
is_batch(const IrModule *m, const IrType *t, Dim first)
{
    if (t->rank == 0 || !dim_equal(t->dims[0], first) ||
        ir_dim_full(m, first).c < 1)
        return false;
    if (!dim_is_const(first) && (first.c != 0 || first.k != 1))
        return false;
    for (int i = 1; i < t->rank; i++) {
        if (!dim_is_const(t->dims[i]))
            return false;
    }
    return true;
}

/* The front end lets only batches be distributed; a plan that was edited may
 * say something else. */
static Status
measure(RtDivision *d)
{
    const RtNode *n = d->input;
    const IrType *types = n->stage->types.data;
    Dim first = types[0].dims[0];
    int64_t *row_bytes =
        NEW_ARRAY(n->arena, int64_t, (size_t)d->num_components);
    for (int i = 0; i < d->num_components; i++) {
        if (!is_batch(n->module, &types[i], first))
            return status_new(
                STATUS_INPUT, "%s: %s is no batch that replicas can share",
                rt_stage_place(n), ir_type_text(n->module, &types[i]));
        row_bytes[i] = n->bytes[i] / ir_dim_full(n->module, first).c;
    }
    d->row_bytes = row_bytes;
    d->batch = ir_dim_full(n->module, first).c;
    d->is_static = dim_is_const(first);
    return OK;
}

Status
rt_division_new(RtNode *last, const IrIter *iter, const IrDataset *dataset,
                int num_replicas, RtDivision **out)
{
    RtDivision *d = NEW(last->arena, RtDivision);
    d->input = last;
    d->num_replicas = num_replicas;
    d->num_components = last->stage->types.len;
    TRY(measure(d));
    TRY(choose_algorithm(d, iter, dataset));
    d->element = rt_element_new(last);
    *out = d;
    return OK;
}

const char *
rt_division_name(const RtDivision *d)
{
    return d->legacy ? "legacy" : "V2";
}

/* The most rows of a part. */
static int64_t
most_rows(const RtDivision *d)
{
    return (d->batch - 1) / d->num_replicas + 1;
}

RtStep
rt_step_new(const RtDivision *d)
{
    Arena *a = d->input->arena;
    RtStep s = {.parts = NEW_ARRAY(a, RtElement, (size_t)d->num_replicas)};
    int64_t most = most_rows(d);
    for (int r = 0; r < d->num_replicas; r++) {
        s.parts[r].data = NEW_ARRAY(a, char *, (size_t)d->num_components);
        for (int i = 0; i < d->num_components; i++)
            s.parts[r].data[i] = rt_data_room(a, most * d->row_bytes[i]);
    }
    return s;
}

/* ---- dividing ----------------------------------------------------------- */

Status
rt_division_rewind(RtDivision *d, uint64_t pass)
{
    d->element.rows = d->taken = 0;
    d->ended = false;
    return rt_node_rewind(d->input, pass);
}

static Status
next_batch(RtDivision *d)
{
    d->taken = 0;
    TRY(rt_node_next(d->input, &d->element, &d->ended));
    if (d->ended)
        d->element.rows = 0;
    else if (d->is_static)
        d->element.rows = d->batch;
    return OK;
}

/* Rows first .. first + n - 1 of the batch at hand, behind those that the part
 * has. */
static void
give_rows(const RtDivision *d, RtElement *part, int64_t first, int64_t n)
{
    for (int i = 0; i < d->num_components; i++) {
        int64_t bytes = d->row_bytes[i];
        memcpy(part->data[i] + part->rows * bytes,
               d->element.data[i] + first * bytes, (size_t)(n * bytes));
    }
    part->rows += n;
}

static int64_t
min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static Status
legacy_next(RtDivision *d, RtStep *step)
{
    TRY(next_batch(d));
    int64_t rows = d->element.rows;
    int64_t each = (rows + d->num_replicas - 1) / d->num_replicas;
    for (int r = 0; r < d->num_replicas; r++) {
        int64_t first = min64(r * each, rows);
        give_rows(d, &step->parts[r], first, min64(each, rows - first));
    }
    return OK;
}

/* Fills the part with size rows of the stream, fewer at its end. */
static Status
fill_part(RtDivision *d, RtElement *part, int64_t size)
{
    while (part->rows < size) {
        if (d->taken == d->element.rows)
            TRY(next_batch(d));
        if (d->ended)
            return OK;
        int64_t n = min64(size - part->rows, d->element.rows - d->taken);
        give_rows(d, part, d->taken, n);
        d->taken += n;
    }
    return OK;
}

static Status
v2_next(RtDivision *d, RtStep *step)
{
    int64_t each = d->batch / d->num_replicas;
    int64_t one_more = d->batch % d->num_replicas;
    for (int r = 0; r < d->num_replicas && !d->ended; r++)
        TRY(fill_part(d, &step->parts[r], each + (r < one_more)));
    return OK;
}

static void
count_rows(const RtDivision *d, RtStep *step)
{
    step->all_rows = 0;
    for (int r = 0; r < d->num_replicas; r++)
        step->all_rows += step->parts[r].rows;
}

Status
rt_division_next(RtDivision *d, RtStep *step, bool *end)
{
    for (int r = 0; r < d->num_replicas; r++)
        step->parts[r].rows = 0;
    if (!d->ended)
        TRY(d->legacy ? legacy_next(d, step) : v2_next(d, step));
    count_rows(d, step);
    *end = step->all_rows == 0;
    return OK;
}

/* ---- checkpoints -------------------------------------------------------- */

/* Of the batch at hand, only V2 has rows to give. */
void
rt_division_carry(RtDivision *d, RtState *s)
{
    rt_state_bool(s, &d->ended);
    if (!d->legacy) {
        rt_element_carry(d->input, &d->element, s);
        rt_state_i64(s, &d->element.rows, 0, d->batch);
        rt_state_i64(s, &d->taken, 0, d->element.rows);
    }
    rt_node_carry(d->input, s);
}

void
rt_step_carry(const RtDivision *d, RtStep *step, RtState *s)
{
    for (int r = 0; r < d->num_replicas; r++) {
        RtElement *part = &step->parts[r];
        rt_state_i64(s, &part->rows, 0, most_rows(d));
        for (int i = 0; i < d->num_components; i++)
            rt_state_bytes(s, part->data[i],
                           (size_t)(part->rows * d->row_bytes[i]));
    }
    count_rows(d, step);
}
