/*
 * sources.c - sources without files: range, tensors
 */
#include <string.h>
#include "ir/base/minmax.h"
#include "runtime/data/node.h"

/* Element number `at` of count is next. */
typedef struct Rows {
    const char *bytes; /* component after component; range has none */
    int64_t at, count;
} Rows;

static Status
rows_rewind(RtNode *n)
{
    Rows *r = n->state;
    r->at = 0;
    return OK;
}

static Status
rows_next(RtNode *n, RtElement *e, bool *end)
{
    Rows *r = n->state;
    *end = r->at == r->count;
    if (*end)
        return OK;
    const char *component = r->bytes;
    for (int i = 0; i < n->stage->types.len; i++) {
        memcpy(e->data[i], component + r->at * n->bytes[i],
               (size_t)n->bytes[i]);
        component += r->count * n->bytes[i];
    }
    r->at++;
    return OK;
}

static void
rows_archive(RtNode *n, RtArchive *ar)
{
    Rows *r = n->state;
    rt_archive_i64(ar, &r->at, 0, r->count);
}

static Status
rows_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    Rows *r = n->state;
    int64_t skipped = min_i64(*num, r->count - r->at);
    (void)e;
    r->at += skipped;
    *num -= skipped;
    *end = *num > 0;
    return OK;
}

static const RtNodeOps rows_ops = {rows_next, rows_rewind, rows_archive,
                                   rows_skip};

/* count elements that lie one after the other, component after component. */
static void
rows_new(RtNode *n, const char *bytes, int64_t count)
{
    Rows *r = NEW(n->arena, Rows);
    *r = (Rows){.bytes = bytes ? bytes : "", .count = count};
    n->state = r;
    n->ops = &rows_ops;
}

/* ---- range -------------------------------------------------------------- */

static Status
range_next(RtNode *n, RtElement *e, bool *end)
{
    Rows *r = n->state;
    *end = r->at == r->count;
    if (*end)
        return OK;
    int64_t x = n->stage->ints[0] + r->at++;
    memcpy(e->data[0], &x, sizeof x);
    return OK;
}

static const RtNodeOps range_ops = {range_next, rows_rewind, rows_archive,
                                    rows_skip};

static Status
range_new(RtNode *n)
{
    int64_t start = n->stage->ints[0], stop = n->stage->ints[1], count = 0;
    if (stop > start && __builtin_sub_overflow(stop, start, &count))
        return rt_stage_show(
            n, status_new(STATUS_INPUT, "%s: a range of more than 2^63 numbers",
                          rt_stage_location(n)));
    rows_new(n, NULL, count);
    n->ops = &range_ops;
    return OK;
}

/* ---- by kind ------------------------------------------------------------ */

Status
rt_source_new(RtNode *n, const RtDataOptions *options)
{
    if (ir_stage_info[n->stage->kind].reads)
        return rt_files_new(n, options);
    if (n->stage->kind == STAGE_range)
        return range_new(n);
    if (n->stage->kind != STAGE_tensors)
        UNREACHABLE("%s is no source", ir_stage_info[n->stage->kind].name);
    rows_new(n, n->stage->data, n->stage->ints[0]);
    return OK;
}
