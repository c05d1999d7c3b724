/*
 * sources.c - where pipelines begin: range, tensors, bytes
 */
#include <string.h>
#include "runtime/base/file.h"
#include "runtime/data/node.h"

/* A source of elements that lie one after the other: element number `at` is
 * next of count. */
typedef struct Rows {
    const char *bytes; /* component after component; range has none */
    int64_t at, count;
    int64_t first; /* range: the first number */
} Rows;

static Status
rows_rewind(RtNode *n)
{
    Rows *r = n->state;
    r->at = 0;
    return OK;
}

/* ---- range -------------------------------------------------------------- */

static Status
range_next(RtNode *n, RtElement *e, bool *end)
{
    Rows *r = n->state;
    if (r->at == r->count) {
        *end = true;
        return OK;
    }
    int64_t x = r->first + r->at++;
    memcpy(e->data[0], &x, sizeof x);
    return OK;
}

static const RtNodeOps range_ops = {range_next, rows_rewind, NULL};

static void
range_new(RtNode *n, Rows *r)
{
    int64_t start = n->stage->ints[0], stop = n->stage->ints[1];
    r->first = start;
    r->count = stop > start ? stop - start : 0;
    n->ops = &range_ops;
}

/* ---- tensors and bytes -------------------------------------------------- */

static Status
rows_next(RtNode *n, RtElement *e, bool *end)
{
    Rows *r = n->state;
    if (r->at == r->count) {
        *end = true;
        return OK;
    }
    const char *component = r->bytes;
    for (int i = 0; i < n->stage->types.len; i++) {
        int64_t bytes = rt_component_bytes(n->stage, i, 0);
        memcpy(e->data[i], component + r->at * bytes, (size_t)bytes);
        component += r->count * bytes;
    }
    r->at++;
    return OK;
}

static const RtNodeOps rows_ops = {rows_next, rows_rewind, NULL};

static void
tensors_new(RtNode *n, Rows *r)
{
    r->count = n->stage->ints[0];
    r->bytes = n->stage->data;
    n->ops = &rows_ops;
}

static Status
bytes_new(RtNode *n, const RtDataOptions *options, Rows *r)
{
    char *data;
    size_t len;
    const char *path = rt_data_path(n->arena, options, n->stage->text);
    Status st = file_read(n->arena, path, &data, &len);
    if (st)
        return status_note(st, "opening the source bytes(\"%s\") at %s",
                           n->stage->text, rt_stage_place(n));
    r->bytes = data;
    r->count = (int64_t)len;
    n->ops = &rows_ops;
    return OK;
}

Status
rt_source_new(RtNode *n, const RtDataOptions *options)
{
    Rows *r = NEW(n->arena, Rows);
    n->state = r;
    switch ((StageKind)n->stage->kind) {
    case STAGE_range:
        range_new(n, r);
        return OK;
    case STAGE_tensors:
        tensors_new(n, r);
        return OK;
    case STAGE_bytes:
        return bytes_new(n, options, r);
    default:
        UNREACHABLE("%s is no source", ir_stage_info[n->stage->kind].name);
    }
}
