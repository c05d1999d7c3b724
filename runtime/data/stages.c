/*
 * stages.c - stages that transform elements one by one
 *
 * A node whose pass has ended is not called again (rt_node_next ensures that),
 * so a stage can stop at any point and need not record that its input has
 * ended.
 */
#include <assert.h>
#include <string.h>
#include "ir/base/minmax.h"
#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "runtime/data/node.h"

/* The state of all stages here; each field names the stages that use it. */
typedef struct Stage {
    RtElement in;    /* room for an element of the input, if one needs it */
    RtElementFn *fn; /* map, filter */
    int64_t count;   /* elements given; repeat: passes begun; unbatch: rows of
                      * the element at hand that were given; skip: above 0 once
                      * it has skipped; shard: elements of the input */
    int64_t rows;    /* unbatch: of that element */
    int64_t held;    /* window: elements in the ring */
    int64_t first;   /* window: where in the ring the oldest is */
    char **ring;     /* window: room for as many elements as one has */
    bool any;        /* repeat: this pass had an element */
    bool may_fail;   /* map: its function may end the run */
} Stage;

static Status
stage_rewind(RtNode *n)
{
    Stage *s = n->state;
    s->count = s->rows = s->held = s->first = 0;
    return rt_node_rewind(n->input, n->pass);
}

/* For stages whose only state is the number of elements given. */
static void
count_archive(RtNode *n, RtArchive *ar)
{
    Stage *stage = n->state;
    rt_archive_position(ar, &stage->count);
}

/* For stages without state. */
static void
nothing_archive(RtNode *n, RtArchive *ar)
{
    (void)n;
    (void)ar;
}

/* ---- map ---------------------------------------------------------------- */

static Status
map_next(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    TRY(rt_node_next(n->input, &s->in, end));
    if (*end)
        return OK;
    e->rows = s->in.rows;
    return s->fn->call(s->fn, (void *const *)s->in.data, (void *const *)e->data,
                       s->in.rows);
}

/* An element that is left out does not end the run, so that of a function that
 * may each is made. */
static Status
map_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    Stage *s = n->state;
    return s->may_fail ? rt_node_drop(n, num, e, end)
                       : rt_node_skip(n->input, num, &s->in, end);
}

static void
note_effect(IrOp *op, void *may_fail)
{
    IrEffect effect = ir_op_info[op->kind].effect;
    if (effect != PURE && effect != CONTROL)
        *(bool *)may_fail = true;
}

static bool
may_fail(const RtNode *n)
{
    const IrFunc *fn = ir_func_find(n->module, n->stage->func);
    bool may = !fn;
    if (fn)
        ir_walk(fn->body, note_effect, &may);
    return may;
}

/* The element is made in its place; if the function rejects it, the next one is
 * made there. */
static Status
filter_next(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    bool pass = false;
    void *result = &pass;
    while (!pass) {
        TRY(rt_node_next(n->input, e, end));
        if (*end)
            return OK;
        TRY(s->fn->call(s->fn, (void *const *)e->data, &result, e->rows));
    }
    return OK;
}

/* ---- batch and window: elements stacked ---------------------------------- */

/* Between two stacks of elements of n's input. */
static void
copy_slot(const RtNode *n, char **to, int64_t to_slot, char **from,
          int64_t from_slot)
{
    for (int i = 0; i < n->stage->types.len; i++) {
        int64_t bytes = n->input->bytes[i];
        memcpy(to[i] + to_slot * bytes, from[i] + from_slot * bytes,
               (size_t)bytes);
    }
}

static Status
batch_next(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    int64_t size = n->stage->ints[0];
    bool drop_remainder = n->stage->ints[1] != 0;
    for (e->rows = 0; e->rows < size; e->rows++) {
        TRY(rt_node_next(n->input, &s->in, end));
        if (*end)
            break;
        copy_slot(n, e->data, e->rows, s->in.data, 0);
    }
    *end = e->rows == 0 || (drop_remainder && e->rows < size);
    return OK;
}

/* Leaves num * each elements of the input out, which has ended where it cannot
 * have so many; *skipped is how many there were. */
static Status
skip_groups(RtNode *n, int64_t num, int64_t each, int64_t *skipped, bool *end)
{
    Stage *s = n->state;
    int64_t all, missing;
    bool too_many = __builtin_mul_overflow(num, each, &all);
    missing = all = too_many ? INT64_MAX : all;
    TRY(rt_node_skip(n->input, &missing, &s->in, end));
    *skipped = all - missing;
    *end = *end || too_many;
    return OK;
}

/* The last one is made, as it may have less rows, or be dropped. */
static Status
batch_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    int64_t size = n->stage->ints[0], skipped;
    bool drop_remainder = n->stage->ints[1] != 0;
    if (*num == 0)
        return OK;
    TRY(skip_groups(n, *num - 1, size, &skipped, end));
    *num -= skipped / size + (!drop_remainder && skipped % size > 0);
    if (*end)
        return OK;
    TRY(batch_next(n, e, end));
    *num -= !*end;
    return OK;
}

/* The rows of the current batch are given one by one. */
static Status
unbatch_next(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    Dim rows = n->input->stage->types.data[0].dims[0];
    while (s->count == s->rows) {
        TRY(rt_node_next(n->input, &s->in, end));
        if (*end)
            return OK;
        s->count = 0;
        s->rows = rows.k * s->in.rows + rows.c;
    }
    for (int i = 0; i < n->stage->types.len; i++)
        memcpy(e->data[i], s->in.data[i] + s->count * n->bytes[i],
               (size_t)n->bytes[i]);
    s->count++;
    *end = false;
    return OK;
}

static void
unbatch_archive(RtNode *n, RtArchive *ar)
{
    Stage *stage = n->state;
    Dim rows = n->input->stage->types.data[0].dims[0];
    rt_archive_i64(ar, &stage->rows, 0, ir_dim_full(n->module, rows).c);
    rt_archive_i64(ar, &stage->count, 0, stage->rows);
    rt_element_archive(n->input, &stage->in, ar);
}

/* Takes the oldest elements off the ring, num strides; if it has fewer, the
 * next elements of the input are skipped.  *slid is how many there were. */
static Status
window_slide(RtNode *n, int64_t num, int64_t *slid, bool *end)
{
    Stage *s = n->state;
    int64_t size = n->stage->ints[0], stride = n->stage->ints[1], all, missing;
    bool too_many = __builtin_mul_overflow(num, stride, &all);
    all = too_many ? INT64_MAX : all;
    int64_t dropped = min_i64(all, s->held);
    s->first = (s->first + dropped) % size;
    s->held -= dropped;
    missing = all - dropped;
    TRY(rt_node_skip(n->input, &missing, &s->in, end));
    *slid = all - missing;
    *end = *end || too_many;
    return OK;
}

/* The elements in the ring, of which there are enough or it is the end. */
static Status
window_fill(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    int64_t size = n->stage->ints[0];
    for (; s->held < size && !*end; s->held += !*end) {
        TRY(rt_node_next(n->input, &s->in, end));
        if (!*end)
            copy_slot(n, s->ring, (s->first + s->held) % size, s->in.data, 0);
    }
    if (*end)
        return OK;
    for (int64_t i = 0; i < size; i++)
        copy_slot(n, e->data, i, s->ring, (s->first + i) % size);
    s->count++;
    return OK;
}

static Status
window_next(RtNode *n, RtElement *e, bool *end)
{
    const Stage *s = n->state;
    int64_t slid;
    if (s->count > 0)
        TRY(window_slide(n, 1, &slid, end));
    return *end ? OK : window_fill(n, e, end);
}

/* The last one is made, which may lack elements. */
static Status
window_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    const Stage *s = n->state;
    int64_t size = n->stage->ints[0], stride = n->stage->ints[1], slid;
    int64_t given = s->count > 0;
    if (*num == 0)
        return OK;
    TRY(window_slide(n, *num - 1 + given, &slid, end));
    if (!*end)
        TRY(window_fill(n, e, end));
    int64_t all = slid + s->held;
    *num -= (all < size ? 0 : (all - size) / stride + 1) - given;
    return OK;
}

static void
window_archive(RtNode *n, RtArchive *ar)
{
    Stage *stage = n->state;
    int64_t size = n->stage->ints[0];
    count_archive(n, ar);
    rt_archive_i64(ar, &stage->held, 0, size);
    rt_archive_i64(ar, &stage->first, 0, size - 1);
    for (int i = 0; i < n->stage->types.len; i++)
        rt_archive_bytes(ar, stage->ring[i], (size_t)n->bytes[i]);
}

/* ---- repeat ------------------------------------------------------------- */

/* The passes of the input are numbered on over those of the output; one
 * without end has 2^32 of them. */
static Status
rewind_input(RtNode *n)
{
    Stage *s = n->state;
    int64_t count = n->stage->ints[0];
    uint64_t passes = count < 0 ? (uint64_t)1 << 32 : (uint64_t)count;
    s->any = false;
    return rt_node_rewind(n->input, n->pass * passes + (uint64_t)s->count++);
}

static Status
repeat_rewind(RtNode *n)
{
    Stage *s = n->state;
    s->count = 0;
    return rewind_input(n);
}

/* Whether a pass that has ended was the last: an input without elements ends an
 * endless repetition, too. */
static bool
is_last_pass(const Stage *s, int64_t count)
{
    return count < 0 ? !s->any : s->count >= count;
}

static Status
repeat_next(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    int64_t count = n->stage->ints[0];
    *end = count == 0;
    while (!*end) {
        TRY(rt_node_next(n->input, e, end));
        if (!*end) {
            s->any = true;
            return OK;
        }
        *end = is_last_pass(s, count);
        if (!*end)
            TRY(rewind_input(n));
    }
    return OK;
}

/* Pass after pass: each may have another number of elements. */
static Status
repeat_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    Stage *s = n->state;
    int64_t count = n->stage->ints[0];
    *end = count == 0;
    while (!*end) {
        int64_t before = *num;
        TRY(rt_node_skip(n->input, num, e, end));
        s->any = s->any || *num < before;
        if (!*end)
            return OK;
        *end = is_last_pass(s, count);
        if (!*end)
            TRY(rewind_input(n));
    }
    return OK;
}

static void
repeat_archive(RtNode *n, RtArchive *ar)
{
    Stage *stage = n->state;
    count_archive(n, ar);
    rt_archive_bool(ar, &stage->any);
}

/* ---- take, skip, shard, prefetch ---------------------------------------- */

static Status
pass_on(RtNode *n, RtElement *e, bool *end)
{
    return rt_node_next(n->input, e, end);
}

static Status
skip_on(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    return rt_node_skip(n->input, num, e, end);
}

static Status
take_next(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    *end = s->count >= n->stage->ints[0];
    if (*end)
        return OK;
    s->count++;
    return rt_node_next(n->input, e, end);
}

static Status
take_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    Stage *s = n->state;
    int64_t wanted = min_i64(*num, n->stage->ints[0] - s->count);
    int64_t missing = wanted;
    TRY(rt_node_skip(n->input, &missing, e, end));
    s->count += wanted - missing;
    *num -= wanted - missing;
    *end = *num > 0;
    return OK;
}

static void
take_archive(RtNode *n, RtArchive *ar)
{
    Stage *stage = n->state;
    rt_archive_i64(ar, &stage->count, 0, n->stage->ints[0]);
}

/* Leaves out what the stage does, once in a pass. */
static Status
skip_first(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    int64_t num = n->stage->ints[0];
    if (s->count == 0)
        TRY(rt_node_skip(n->input, &num, e, end));
    s->count = 1;
    return OK;
}

static Status
skip_next(RtNode *n, RtElement *e, bool *end)
{
    TRY(skip_first(n, e, end));
    return *end ? OK : rt_node_next(n->input, e, end);
}

static Status
skip_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    TRY(skip_first(n, e, end));
    return *end ? OK : rt_node_skip(n->input, num, e, end);
}

/* Elements index, index + num, ... of the input, of which `count` were
 * taken. */
typedef struct Share {
    int64_t num, index;
    int64_t *count;
} Share;

static Status
share_next(RtNode *n, const Share *share, RtElement *e, bool *end)
{
    do
        TRY(rt_node_next(n->input, e, end));
    while (!*end && (*share->count)++ % share->num != share->index);
    return OK;
}

/* Of the count only the rest matters, which stays small however far it goes.
 * Where the input cannot have as many elements as are left out, it has ended.
 */
static Status
share_skip(RtNode *n, const Share *share, int64_t *num, RtElement *e, bool *end)
{
    int64_t rest = *share->count % share->num, all, missing;
    int64_t before = (share->index - rest + share->num) % share->num;
    if (*num == 0)
        return OK;
    bool too_many = __builtin_mul_overflow(*num - 1, share->num, &all) ||
                    __builtin_add_overflow(all, before + 1, &all);
    missing = all = too_many ? INT64_MAX : all;
    TRY(rt_node_skip(n->input, &missing, e, end));
    int64_t skipped = all - missing;
    *num -= skipped > before ? (skipped - before - 1) / share->num + 1 : 0;
    *share->count = (rest + skipped % share->num) % share->num;
    *end = *end || too_many;
    return OK;
}

/* Of num 0 that of the worker. */
static Share
shard_share(RtNode *n)
{
    Stage *s = n->state;
    int64_t num = n->stage->ints[0], workers = n->num_workers;
    if (num > 0)
        return (Share){num, n->stage->ints[1], &s->count};
    return (Share){workers > 0 ? workers : 1, n->worker, &s->count};
}

static Status
shard_next(RtNode *n, RtElement *e, bool *end)
{
    Share share = shard_share(n);
    return share_next(n, &share, e, end);
}

static Status
shard_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    Share share = shard_share(n);
    return share_skip(n, &share, num, e, end);
}

/* ---- elements of a worker ------------------------------------------------ */

/* A node like shard behind a source, which the program does not have. */
typedef struct WorkerRows {
    int64_t count;
    int num, index;
} WorkerRows;

static Status
worker_rows_next(RtNode *n, RtElement *e, bool *end)
{
    WorkerRows *w = n->state;
    Share share = {w->num, w->index, &w->count};
    return share_next(n, &share, e, end);
}

static Status
worker_rows_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    WorkerRows *w = n->state;
    Share share = {w->num, w->index, &w->count};
    return share_skip(n, &share, num, e, end);
}

static Status
worker_rows_rewind(RtNode *n)
{
    WorkerRows *w = n->state;
    w->count = 0;
    return rt_node_rewind(n->input, n->pass);
}

static void
worker_rows_archive(RtNode *n, RtArchive *ar)
{
    WorkerRows *w = n->state;
    rt_archive_position(ar, &w->count);
}

void
rt_pipeline_shard_rows(RtNode **last, int num, int index)
{
    static const RtNodeOps ops = {worker_rows_next, worker_rows_rewind,
                                  worker_rows_archive, worker_rows_skip};
    RtNode *n = *last;
    if (n->other)
        rt_pipeline_shard_rows(&n->other, num, index);
    if (n->input) {
        rt_pipeline_shard_rows(&n->input, num, index);
        return;
    }
    RtNode *rows = NEW(n->arena, RtNode);
    WorkerRows *w = NEW(n->arena, WorkerRows);
    *w = (WorkerRows){.num = num, .index = index};
    *rows = *n;
    rows->input = n;
    rows->ops = &ops;
    rows->state = w;
    *last = rows;
}

/* ---- constructors -------------------------------------------------------- */

static const RtNodeOps stage_ops[NUM_STAGES] = {
    [STAGE_map] = {map_next, stage_rewind, nothing_archive, map_skip},
    [STAGE_filter] = {filter_next, stage_rewind, nothing_archive, NULL},
    [STAGE_batch] = {batch_next, stage_rewind, nothing_archive, batch_skip},
    [STAGE_unbatch] = {unbatch_next, stage_rewind, unbatch_archive, NULL},
    [STAGE_window] = {window_next, stage_rewind, window_archive, window_skip},
    [STAGE_repeat] = {repeat_next, repeat_rewind, repeat_archive, repeat_skip},
    [STAGE_take] = {take_next, stage_rewind, take_archive, take_skip},
    [STAGE_skip] = {skip_next, stage_rewind, count_archive, skip_skip},
    [STAGE_shard] = {shard_next, stage_rewind, count_archive, shard_skip},
    /* the iterator's thread makes elements ahead of all stages */
    [STAGE_prefetch] = {pass_on, stage_rewind, nothing_archive, skip_on},
};

/* The front end refuses to stack batches of several sizes; an edited plan may
 * contain that. */
static Status
check_one_shape(const RtNode *n)
{
    const IrStage *in = n->input->stage;
    for (int i = 0; i < in->types.len; i++)
        if (!ir_type_is_static(&in->types.data[i]))
            return rt_stage_show(
                n,
                status_new(STATUS_INPUT, "%s: %s needs elements of one shape",
                           rt_stage_location(n),
                           ir_stage_info[n->stage->kind].name));
    return OK;
}

static Status
simple_new(RtNode *n, const RtDataOptions *options)
{
    StageKind kind = (StageKind)n->stage->kind;
    Stage *s = NEW(n->arena, Stage);
    n->state = s;
    n->ops = &stage_ops[kind];
    assert(n->ops->next);
    if (kind == STAGE_batch || kind == STAGE_window)
        TRY(check_one_shape(n));
    if (ir_stage_info[kind].has_func)
        s->fn = options->client->function(options->client, n->stage->func);
    s->may_fail = kind == STAGE_map && may_fail(n);
    if (kind == STAGE_window)
        s->ring = rt_element_new(n).data;
    s->in = rt_element_new(n->input);
    return OK;
}

Status
rt_stage_new(RtNode *n, const RtDataOptions *options)
{
    switch ((StageKind)n->stage->kind) {
    case STAGE_shuffle:
        rt_shuffle_new(n);
        return OK;
    case STAGE_lanes:
        TRY(check_one_shape(n));
        rt_lanes_new(n);
        return OK;
    case STAGE_cache:
        rt_cache_new(n);
        return OK;
    case STAGE_zip:
        rt_zip_new(n);
        return OK;
    case STAGE_concat:
        rt_concat_new(n);
        return OK;
    case STAGE_map:
    case STAGE_filter:
    case STAGE_batch:
    case STAGE_unbatch:
    case STAGE_window:
    case STAGE_repeat:
    case STAGE_take:
    case STAGE_skip:
    case STAGE_shard:
    case STAGE_prefetch:
        return simple_new(n, options);
    case STAGE_range:
    case STAGE_tensors:
    case STAGE_npy:
    case STAGE_npz:
    case STAGE_idx:
    case STAGE_csv:
    case STAGE_bytes:
    case STAGE_lines:
    case STAGE_tfrecord:
    case NUM_STAGES:
        break;
    }
    UNREACHABLE("%s is no stage", ir_stage_info[n->stage->kind].name);
}
