/*
 * pipeline.c - the chain of nodes of a dataset
 */
#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "runtime/data/node.h"

/* ---- making a chain ----------------------------------------------------- */

/* Stages that read another dataset create its nodes for themselves: no two
 * share one. */
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

/* The number of stages before the dataset d; of all, if d is NULL. */
static uint32_t
stages_before(const IrModule *m, const IrDataset *d)
{
    uint32_t num = 0;
    for (int i = 0; i < m->datasets.len && m->datasets.data[i] != d; i++)
        num += (uint32_t)m->datasets.data[i]->stages.len;
    return num;
}

/* The number of the dataset's first stage among all stages of the program, with
 * those of every pipeline counted separately. */
static uint32_t
first_call_site(const IrModule *m, const IrDataset *d, int pipeline)
{
    return 1 + stages_before(m, d) +
           (uint32_t)pipeline * stages_before(m, NULL);
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

/* A dataset that the program does not declare stands where its last stage does,
 * and has a name of the compiler's. */
static bool
is_declared(const IrDataset *d)
{
    Loc last = d->stages.data[d->stages.len - 1].loc;
    return d->loc.line != last.line || d->loc.col != last.col ||
           d->loc.file != last.file || d->loc.line == 0;
}

static Status
while_opening(const IrModule *m, const IrDataset *d, Status st)
{
    if (is_declared(d))
        return status_note(st, "opening the dataset \"%s\"", d->name);
    return status_note(st, "opening the dataset at %s:%u:%u",
                       diag_source_name(m->diag, d->loc.file), d->loc.line,
                       d->loc.col);
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
                      .worker = options->worker,
                      .num_workers = options->num_workers,
                      .call_site = call_site + (uint32_t)i};
        TRY(while_opening(m, d, make_node(n, options)));
        last = n;
    }
    *out = last;
    return OK;
}
