/*
 * stages.c - what pipelines do with elements, one after the other
 */
#include <string.h>
#include "runtime/base/philox.h"
#include "runtime/data/node.h"

/* The state of all stages here: what each uses of it is said beside it. */
typedef struct Stage {
    RtElement in;     /* room for an element of the input */
    RtElementFn fn;   /* map */
    int64_t count;    /* take, skip, repeat, shard: so many were given */
    bool ended;       /* the input has no more */
    int64_t held;     /* window, shuffle: elements in the ring or buffer */
    int64_t first;    /* window: the oldest of the ring */
    int64_t position; /* shuffle: elements given in this pass */
    RtElement buffer; /* window, shuffle: room for so many elements */
} Stage;

static Status
stage_rewind(RtNode *n)
{
    Stage *s = n->state;
    s->count = s->held = s->first = s->position = 0;
    s->ended = false;
    return OK;
}

static const IrStage *
input_stage(const RtNode *n)
{
    return n->input->stage;
}

static int64_t
input_bytes(const RtNode *n, int i)
{
    return rt_component_bytes(input_stage(n), i, 0);
}

static void
copy_in(const RtNode *n, RtElement *to, int64_t slot, const RtElement *from)
{
    for (int i = 0; i < input_stage(n)->types.len; i++) {
        int64_t bytes = input_bytes(n, i);
        memcpy(to->data[i] + slot * bytes, from->data[i], (size_t)bytes);
    }
}

static void
copy_out(const RtNode *n, RtElement *to, int64_t to_slot, const RtElement *from,
         int64_t slot)
{
    for (int i = 0; i < input_stage(n)->types.len; i++) {
        int64_t bytes = input_bytes(n, i);
        memcpy(to->data[i] + to_slot * bytes, from->data[i] + slot * bytes,
               (size_t)bytes);
    }
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
    return s->fn.call(s->fn.self, (void *const *)s->in.data,
                      (void *const *)e->data, s->in.rows);
}

/* ---- batch -------------------------------------------------------------- */

/* Puts the input's element as row number `row` of e. Elements of a batch have
 * one shape: those that are batches themselves must be equally long. */
static Status
add_row(RtNode *n, RtElement *e, int64_t row)
{
    Stage *s = n->state;
    if (row > 0 && s->in.rows != s->held)
        return status_new(
            STATUS_INPUT, "%s: cannot batch elements of %lld and of %lld rows",
            rt_stage_place(n), (long long)s->held, (long long)s->in.rows);
    s->held = s->in.rows;
    for (int i = 0; i < input_stage(n)->types.len; i++) {
        int64_t bytes = rt_component_bytes(input_stage(n), i, s->in.rows);
        memcpy(e->data[i] + row * bytes, s->in.data[i], (size_t)bytes);
    }
    return OK;
}

static Status
batch_next(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    int64_t size = n->stage->ints[0], row = 0;
    bool drop_remainder = n->stage->ints[1] != 0;
    for (; row < size && !s->ended; row += !s->ended) {
        TRY(rt_node_next(n->input, &s->in, &s->ended));
        if (!s->ended)
            TRY(add_row(n, e, row));
    }
    *end = row == 0 || (drop_remainder && row < size);
    e->rows = row;
    return OK;
}

/* ---- window ------------------------------------------------------------- */

/* The ring holds the last `size` elements; stride of them are replaced. */
static Status
window_next(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    int64_t size = n->stage->ints[0], stride = n->stage->ints[1];
    int64_t drop = s->count == 0 ? 0 : stride;
    int64_t kept = drop < s->held ? s->held - drop : 0;
    int64_t skipped = drop - (s->held - kept);
    s->first = (s->first + s->held - kept) % size;
    s->held = kept;
    while (s->held < size) {
        TRY(rt_node_next(n->input, &s->in, end));
        if (*end)
            return OK;
        if (skipped-- > 0)
            continue;
        copy_in(n, &s->buffer, (s->first + s->held) % size, &s->in);
        s->held++;
    }
    for (int64_t i = 0; i < size; i++)
        copy_out(n, e, i, &s->buffer, (s->first + i) % size);
    s->count++;
    return OK;
}

/* ---- shuffle ------------------------------------------------------------ */

__extension__ typedef unsigned __int128 Wide;

/* A number below `below`, for the position in the pass (D7). */
static int64_t
random_below(const RtNode *n, int64_t position, int64_t below)
{
    bool reshuffle = n->stage->ints[2] != 0, has_seed = n->stage->ints[3] != 0;
    uint64_t seed = has_seed ? (uint64_t)n->stage->ints[1] : n->seed;
    uint64_t pass = reshuffle ? (uint64_t)n->pass : 0;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)position,
                           (uint32_t)((uint64_t)position >> 32), (uint32_t)pass,
                           0x73687566u /* "shuf" */};
    uint32_t out[4];
    philox4x32(counter, key, out);
    uint64_t word = (uint64_t)out[1] << 32 | out[0];
    return (int64_t)((Wide)word * (uint64_t)below >> 64);
}

static Status
fill_shuffle_buffer(RtNode *n)
{
    Stage *s = n->state;
    while (!s->ended && s->held < n->stage->ints[0]) {
        TRY(rt_node_next(n->input, &s->in, &s->ended));
        if (!s->ended)
            copy_in(n, &s->buffer, s->held++, &s->in);
    }
    return OK;
}

/* Gives a random element of the buffer; the last one takes its place. */
static Status
shuffle_next(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    TRY(fill_shuffle_buffer(n));
    if (s->held == 0) {
        *end = true;
        return OK;
    }
    int64_t pick = random_below(n, s->position++, s->held);
    copy_out(n, e, 0, &s->buffer, pick);
    s->held--;
    if (pick != s->held)
        copy_out(n, &s->buffer, pick, &s->buffer, s->held);
    return OK;
}

/* ---- repeat, take, skip, shard, prefetch -------------------------------- */

static Status
pass_on(RtNode *n, RtElement *e, bool *end)
{
    return rt_node_next(n->input, e, end);
}

/* count passes in all; a pass without elements ends an endless one, too. */
static Status
repeat_next(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    for (;;) {
        TRY(rt_node_next(n->input, e, end));
        if (!*end) {
            s->ended = false;
            return OK;
        }
        s->count++;
        if (s->ended || s->count == n->stage->ints[0])
            return OK;
        s->ended = true;
        TRY(rt_node_rewind(n->input));
    }
}

static Status
repeat_rewind(RtNode *n)
{
    Stage *s = n->state;
    s->count = 0;
    s->ended = true;
    return OK;
}

static Status
take_next(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    if (s->count == n->stage->ints[0]) {
        *end = true;
        return OK;
    }
    s->count++;
    return rt_node_next(n->input, e, end);
}

static Status
skip_next(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    for (; s->count < n->stage->ints[0]; s->count++) {
        TRY(rt_node_next(n->input, e, end));
        if (*end)
            return OK;
    }
    return rt_node_next(n->input, e, end);
}

/* Elements index, index + num, ... */
static Status
shard_next(RtNode *n, RtElement *e, bool *end)
{
    Stage *s = n->state;
    int64_t num = n->stage->ints[0], index = n->stage->ints[1];
    for (;;) {
        TRY(rt_node_next(n->input, e, end));
        if (*end || s->count++ % num == index)
            return OK;
    }
}

/* ---- making them -------------------------------------------------------- */

static const RtNodeOps stage_ops[NUM_STAGES] = {
    [STAGE_map] = {map_next, stage_rewind, NULL},
    [STAGE_batch] = {batch_next, stage_rewind, NULL},
    [STAGE_window] = {window_next, stage_rewind, NULL},
    [STAGE_shuffle] = {shuffle_next, stage_rewind, NULL},
    [STAGE_repeat] = {repeat_next, repeat_rewind, NULL},
    [STAGE_take] = {take_next, stage_rewind, NULL},
    [STAGE_skip] = {skip_next, stage_rewind, NULL},
    [STAGE_shard] = {shard_next, stage_rewind, NULL},
    /* the iterator's thread makes elements ahead of all stages */
    [STAGE_prefetch] = {pass_on, stage_rewind, NULL},
};

/* Room for `count` elements of the input, in one piece a component. */
static Status
buffer_new(RtNode *n, int64_t count, RtElement *out)
{
    const IrStage *in = input_stage(n);
    for (int i = 0; i < in->types.len; i++)
        if (!type_is_static(&in->types.data[i]))
            return status_new(STATUS_INPUT,
                              "%s: %s needs elements of one shape; it must "
                              "stand before batch",
                              rt_stage_place(n),
                              ir_stage_info[n->stage->kind].name);
    out->data = NEW_ARRAY(n->arena, char *, (size_t)in->types.len);
    for (int i = 0; i < in->types.len; i++) {
        int64_t bytes = input_bytes(n, i);
        if (bytes == 0)
            bytes = 1;
        out->data[i] = arena_array(n->arena, (size_t)count, (size_t)bytes);
    }
    return OK;
}

Status
rt_stage_new(RtNode *n, const RtDataOptions *options)
{
    Stage *s = NEW(n->arena, Stage);
    n->state = s;
    n->ops = &stage_ops[n->stage->kind];
    if (!n->ops->next)
        UNREACHABLE("%s is no stage", ir_stage_info[n->stage->kind].name);
    s->in = rt_element_new(n->arena, n->module, input_stage(n));
    if (n->stage->kind == STAGE_map)
        s->fn = options->function(options->context, n->stage->func);
    if (n->stage->kind == STAGE_window || n->stage->kind == STAGE_shuffle)
        TRY(buffer_new(n, n->stage->ints[0], &s->buffer));
    return OK;
}
