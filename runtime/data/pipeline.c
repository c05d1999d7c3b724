/*
 * pipeline.c - chains of nodes, and elements
 */
#include <assert.h>
#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "runtime/data/node.h"
#include "runtime/hal/cpu/wait.h"

/* ---- elements ----------------------------------------------------------- */

char *
rt_data_alloc(Arena *a, int64_t n)
{
    char *room = arena_alloc(a, (size_t)n + CACHE_LINE);
    return room + (CACHE_LINE - (uintptr_t)room % CACHE_LINE) % CACHE_LINE;
}

static const int64_t *
component_bytes(Arena *a, const IrModule *m, const IrStage *stage)
{
    int64_t *bytes = NEW_ARRAY(a, int64_t, (size_t)stage->types.len);
    for (int i = 0; i < stage->types.len; i++) {
        if (!ir_type_bytes(m, &stage->types.data[i], &bytes[i]))
            UNREACHABLE("an element of no finite size");
    }
    return bytes;
}

RtElement
rt_element_new(const RtNode *n)
{
    int num = n->stage->types.len;
    RtElement e = {.data = NEW_ARRAY(n->arena, char *, (size_t)num)};
    for (int i = 0; i < num; i++)
        e.data[i] = rt_data_alloc(n->arena, n->bytes[i]);
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
rt_node_rewind(RtNode *n, uint64_t pass)
{
    n->pass = pass;
    n->ended = false;
    return n->ops->rewind(n);
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

/* Those that read another dataset come with its own nodes: no two share one. */
static Status
make_other(RtNode *n, const RtDataOptions *options)
{
    const IrDataset *d = ir_dataset_find(n->module, n->stage->other);
    if (!d)
        UNREACHABLE("no dataset @%s", n->stage->other);
    return rt_pipeline_new(n->arena, n->module, d, options, &n->other);
}

static Status
make_node(RtNode *n, const RtDataOptions *options)
{
    if (ir_stage_info[n->stage->kind].is_source)
        return rt_source_new(n, options);
    if (n->stage->other)
        TRY(make_other(n, options));
    return rt_stage_new(n, options);
}

/* How many stages stand before the dataset d; in all, if that is NULL. */
static uint32_t
stages_before(const IrModule *m, const IrDataset *d)
{
    uint32_t num = 0;
    for (int i = 0; i < m->datasets.len && m->datasets.data[i] != d; i++)
        num += (uint32_t)m->datasets.data[i]->stages.len;
    return num;
}

/* The number of the dataset's first stage among all of the program, those of
 * every pipeline counted anew. */
static uint32_t
first_call_site(const IrModule *m, const IrDataset *d, int pipeline)
{
    return 1 + stages_before(m, d) +
           (uint32_t)pipeline * stages_before(m, NULL);
}

Status
rt_pipeline_new(Arena *arena, const IrModule *m, const IrDataset *d,
                const RtDataOptions *options, RtNode **out)
{
    uint32_t call_site = first_call_site(m, d, options->pipeline);
    RtNode *last = NULL;
    for (int i = 0; i < d->stages.len; i++) {
        const IrStage *stage = &d->stages.data[i];
        RtNode *n = NEW(arena, RtNode);
        *n = (RtNode){.input = last,
                      .module = m,
                      .dataset = d,
                      .stage = stage,
                      .arena = arena,
                      .bytes = component_bytes(arena, m, stage),
                      .seed = options->seed,
                      .client = options->client,
                      .kept_bytes = options->kept_bytes,
                      .call_site = call_site + (uint32_t)i};
        TRY(status_note(make_node(n, options), "opening the dataset \"%s\"",
                        d->name));
        last = n;
    }
    *out = last;
    return OK;
}
