/*
 * node.c - a chain of nodes at work: its elements, calls and state
 */
#include "runtime/data/node.h"

#include <assert.h>
#include "ir/base/cache_line.h"
#include "ir/ir.h"

/* ---- elements ----------------------------------------------------------- */

RtElement
rt_element_new(const RtNode *n)
{
    int num = n->stage->types.len;
    RtElement e = {.data = NEW_ARRAY(n->arena, char *, (size_t)num)};
    for (int i = 0; i < num; i++)
        e.data[i] = arena_alloc_on_lines(n->arena, (size_t)n->bytes[i]);
    return e;
}

/* The most rows that an element has; INT64_MAX where its types name none. */
static int64_t
bound_of(const RtNode *n)
{
    for (int i = 0; i < n->stage->types.len; i++) {
        const IrType *t = &n->stage->types.data[i];
        for (int k = 0; k < t->rank; k++)
            if (t->dims[k].sym >= 0)
                return n->module->symbols.data[t->dims[k].sym].bound;
    }
    return INT64_MAX;
}

void
rt_rows_archive(const RtNode *n, int64_t *rows, RtArchive *ar)
{
    int64_t bound = bound_of(n), none = 0;
    rt_archive_i64(ar, bound == INT64_MAX ? &none : rows, 0, bound);
}

void
rt_element_archive(const RtNode *n, RtElement *e, RtArchive *ar)
{
    rt_rows_archive(n, &e->rows, ar);
    for (int i = 0; i < n->stage->types.len; i++)
        rt_archive_bytes(ar, e->data[i], (size_t)n->bytes[i]);
}

/* ---- places ------------------------------------------------------------- */

const char *
rt_stage_location(const RtNode *n)
{
    Loc loc = n->stage->loc;
    return arena_printf(n->arena, "%s:%u:%u",
                        diag_source_name(n->module->diag, loc.file), loc.line,
                        loc.col);
}

Status
rt_stage_show(const RtNode *n, Status st)
{
    Arena *scratch = arena_new(NULL, "a stage's line");
    Str lines = str_new(scratch);
    diag_add_excerpt(&lines, n->module->diag, n->stage->loc);
    st = status_show(st, str_text(&lines));
    arena_release(scratch);
    return st;
}

/* ---- chains ------------------------------------------------------------- */

Status
rt_data_stopped(void)
{
    return status_new(STATUS_STOPPED, "no more data are waited for");
}

bool
rt_data_is_stopped(RtDataClient *c)
{
    return c && c->is_stopped && c->is_stopped(c);
}

/* A stage may ask its input for ever, and none would ever be given: so whoever
 * asks is asked first. */
Status
rt_node_next(RtNode *n, RtElement *e, bool *end)
{
    assert(n->ops);
    *end = n->ended;
    if (n->ended)
        return OK;
    if (rt_data_is_stopped(n->client))
        return rt_data_stopped();
    TRY(n->ops->next(n, e, end));
    n->ended = *end;
    return OK;
}

Status
rt_node_drop(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    while (*num > 0 && !*end) {
        TRY(rt_node_next(n, e, end));
        *num -= !*end;
    }
    return OK;
}

Status
rt_node_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    *end = n->ended;
    if (n->ended)
        return OK;
    if (!n->ops->skip)
        return rt_node_drop(n, num, e, end);
    if (rt_data_is_stopped(n->client))
        return rt_data_stopped();
    TRY(n->ops->skip(n, num, e, end));
    n->ended = *end;
    return OK;
}

Status
rt_node_rewind(RtNode *n, uint64_t pass)
{
    n->pass = pass;
    n->ended = false;
    return n->ops->rewind(n);
}

bool
rt_node_lends(const RtNode *n)
{
    while (n->stage->kind == STAGE_repeat || n->stage->kind == STAGE_prefetch)
        n = n->input;
    return n->stage->kind == STAGE_cache;
}

void
rt_node_archive(RtNode *n, RtArchive *ar)
{
    for (; n; n = n->input) {
        rt_archive_u64(ar, &n->pass);
        rt_archive_bool(ar, &n->ended);
        n->ops->archive(n, ar);
    }
}
