/*
 * pipeline.c - chains of nodes, and elements
 */
#include <string.h>
#include "ir/build.h"
#include "runtime/data/node.h"

int64_t
rt_component_bytes(const IrStage *stage, int i, int64_t rows)
{
    const IrType *t = &stage->types.data[i];
    int64_t n = (int64_t)dtype_info[t->dtype].bytes;
    for (int d = 0; d < t->rank; d++)
        n *= dim_value(t->dims[d], rows);
    return n;
}

int64_t
rt_row_bytes(const IrStage *stage, int i)
{
    const IrType *t = &stage->types.data[i];
    int64_t n = (int64_t)dtype_info[t->dtype].bytes;
    for (int d = 1; d < t->rank; d++)
        n *= dim_value(t->dims[d], 0);
    return n;
}

RtElement
rt_element_new(Arena *a, const IrModule *m, const IrStage *stage)
{
    RtElement e = {.data = NEW_ARRAY(a, char *, (size_t)stage->types.len)};
    for (int i = 0; i < stage->types.len; i++) {
        int64_t bytes = 0;
        if (!ir_type_bytes(m, &stage->types.data[i], &bytes))
            UNREACHABLE("an element of no finite size");
        e.data[i] = arena_alloc(a, (size_t)bytes + 1);
    }
    return e;
}

const char *
rt_data_path(Arena *a, const RtDataOptions *options, const char *path)
{
    if (path[0] == '/' || !options->dir || !options->dir[0])
        return path;
    return arena_printf(a, "%s/%s", options->dir, path);
}

const char *
rt_stage_place(const RtNode *n)
{
    Loc loc = n->stage->loc;
    return arena_printf(n->arena, "%s:%u:%u",
                        diag_source_name(n->module->diag, loc.file), loc.line,
                        loc.col);
}

Status
rt_node_next(RtNode *n, RtElement *e, bool *end)
{
    *end = false;
    return n->ops->next(n, e, end);
}

Status
rt_node_rewind(RtNode *n)
{
    if (n->input)
        TRY(rt_node_rewind(n->input));
    n->pass++;
    return n->ops->rewind(n);
}

void
rt_node_close(RtNode *n)
{
    for (; n; n = n->input)
        if (n->ops && n->ops->close)
            n->ops->close(n);
}

static Status
make_node(RtNode *n, const RtDataOptions *options)
{
    if (n->stage->kind == STAGE_npy)
        return rt_npy_new(n, options);
    if (ir_stage_info[n->stage->kind].is_source)
        return rt_source_new(n, options);
    return rt_stage_new(n, options);
}

Status
rt_pipeline_new(Arena *arena, const IrModule *m, const IrDataset *d,
                const RtDataOptions *options, RtNode **out)
{
    RtNode *last = NULL;
    for (int i = 0; i < d->stages.len; i++) {
        RtNode *n = NEW(arena, RtNode);
        *n = (RtNode){.input = last,
                      .module = m,
                      .stage = &d->stages.data[i],
                      .arena = arena,
                      .seed = options->seed + (uint64_t)i,
                      .pass = -1};
        Status st = make_node(n, options);
        if (st) {
            rt_node_close(last);
            return status_note(st, "opening the dataset \"%s\"", d->name);
        }
        last = n;
    }
    *out = last;
    return OK;
}
