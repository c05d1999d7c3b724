/*
 * divide.c - a global batch among the replicas
 *
 * Two algorithms, TensorFlow's (semantics.md 7.2).  Legacy cuts each batch of
 * b rows by itself, in parts of ceil(b / replicas).  V2 forgets the batches and
 * cuts the stream of rows by a cyclic list of sizes: G / replicas each, the
 * first G % replicas of them one more.
 *
 * Where every shape is static (drop_remainder) a step needs data for all
 * replicas: the pass ends with the first that lacks some.
 */
#include <string.h>
#include "ir/build.h"
#include "runtime/data/divide.h"

struct RtDivision {
    RtNode *input;
    const IrStage *stage; /* whose elements are divided */
    int num_replicas;
    bool legacy;
    bool whole_only;   /* static shapes */
    int64_t batch;     /* G: rows of a full batch */
    RtElement element; /* the batch at hand */
    int64_t taken;     /* V2: rows of it that were given */
    bool ended;
};

/* tfrecord, lines and bytes count as files for sharding auto. */
static bool
reads_files(const IrDataset *dataset)
{
    return dataset->stages.data[0].kind == STAGE_bytes;
}

static bool
uses_legacy(const IrIter *iter, const IrDataset *dataset)
{
    switch (iter->shard) {
    case SHARD_AUTO:
        return !reads_files(dataset);
    case SHARD_DATA:
        return true;
    case SHARD_FILE:
    case SHARD_OFF:
        return false;
    }
    UNREACHABLE("shard policy %d", iter->shard);
}

static bool
is_static(const IrStage *stage)
{
    for (int i = 0; i < stage->types.len; i++)
        if (!type_is_static(&stage->types.data[i]))
            return false;
    return true;
}

RtDivision *
rt_division_new(RtNode *last, const IrIter *iter, const IrDataset *dataset,
                int num_replicas)
{
    RtDivision *d = NEW(last->arena, RtDivision);
    d->input = last;
    d->stage = last->stage;
    d->num_replicas = num_replicas;
    d->legacy = uses_legacy(iter, dataset);
    d->whole_only = is_static(d->stage);
    d->batch = ir_dim_full(last->module, d->stage->types.data[0].dims[0]).c;
    d->element = rt_element_new(last->arena, last->module, d->stage);
    return d;
}

RtStep
rt_step_new(const RtDivision *d)
{
    Arena *a = d->input->arena;
    RtStep s = {.parts = NEW_ARRAY(a, RtElement, (size_t)d->num_replicas)};
    int64_t most = (d->batch + d->num_replicas - 1) / d->num_replicas;
    for (int r = 0; r < d->num_replicas; r++) {
        s.parts[r].data = NEW_ARRAY(a, char *, (size_t)d->stage->types.len);
        for (int i = 0; i < d->stage->types.len; i++) {
            size_t bytes = (size_t)(most * rt_row_bytes(d->stage, i));
            /* rounded up to a cache line */
            char *room = arena_alloc(a, bytes + 128);
            s.parts[r].data[i] = room + (64 - (uintptr_t)room % 64) % 64;
        }
    }
    return s;
}

void
rt_division_rewind(RtDivision *d)
{
    d->element.rows = d->taken = 0;
    d->ended = false;
}

static Status
next_batch(RtDivision *d)
{
    d->taken = 0;
    d->element.rows = 0;
    TRY(rt_node_next(d->input, &d->element, &d->ended));
    if (d->ended)
        d->element.rows = 0;
    else if (d->whole_only)
        d->element.rows = d->batch;
    return OK;
}

/* Rows first .. first + n - 1 of the batch at hand, behind those that the part
 * has. */
static void
give_rows(const RtDivision *d, RtElement *part, int64_t first, int64_t n)
{
    for (int i = 0; i < d->stage->types.len; i++) {
        int64_t bytes = rt_row_bytes(d->stage, i);
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

static int64_t
full_step_rows(const RtDivision *d)
{
    return d->whole_only ? d->batch : 1;
}

Status
rt_division_next(RtDivision *d, RtStep *step, bool *end)
{
    for (int r = 0; r < d->num_replicas; r++)
        step->parts[r].rows = 0;
    if (!d->ended)
        TRY(d->legacy ? legacy_next(d, step) : v2_next(d, step));
    step->all_rows = 0;
    for (int r = 0; r < d->num_replicas; r++)
        step->all_rows += step->parts[r].rows;
    *end = step->all_rows < full_step_rows(d);
    return OK;
}

const char *
rt_division_name(const RtDivision *d)
{
    return d->legacy ? "legacy" : "V2";
}
