/*
 * pipelines.c - datasets that a function makes, one for each pipeline
 *
 * distribute_from(fn(ctx) = dataset): the function is called when compiling,
 * once for each pipeline, with constants; so its dataset may be any that these
 * decide.  A replica takes whole elements of its pipeline, which may be
 * scalars. All pipelines give elements of one type, but for the most rows of a
 * batch.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/dispatch.h"
#include "frontend/context/messages.h"
#include "frontend/data/data.h"
#include "frontend/lower/call.h"

#include <string.h>
#include "ir/base/message.h"
#include "ir/type_bounds.h"

/* ---- the context -------------------------------------------------------- */

FeValue *
fe_builtin_per_replica_batch_size(Lower *cx, const FeArgs *in)
{
    int64_t batch, replicas = cx->module->num_replicas;
    if (!fe_arg_int(cx, in, 0, "the global batch", &batch))
        return &fe_poison;
    if (batch % replicas != 0)
        return fe_error(cx, fe_arg_loc(in, 0),
                        "a batch of %lld cannot be shared equally by %lld "
                        "replicas",
                        (long long)batch, (long long)replicas);
    return fe_value_int(cx->arena, batch / replicas);
}

static FeValue *
builtin_named(Lower *cx, const char *name)
{
    FeValue *v = fe_value_new(cx->arena, FE_BUILTIN);
    v->builtin = fe_builtin_find(name);
    return v;
}

FeValue *
fe_input_context(Lower *cx, FeValue *id, FeValue *num_pipelines, Loc loc)
{
    const char *names[] = {"pipeline_id", "num_pipelines", "num_replicas",
                           "per_replica_batch_size"};
    FeValue *fields[] = {id, num_pipelines, fe_builtin_value(cx, names[2], loc),
                         builtin_named(cx, names[3])};
    for (int i = 0; i < 4; i++)
        names[i] = intern(cx->names, names[i]);
    return fe_value_named(cx->arena, 4, names, fields);
}

/* ---- elements ----------------------------------------------------------- */

/* Whether the dimensions are the same, each batch being its pipeline's own. */
static bool
same_dim(Dim a, Dim b)
{
    if (ir_dim_is_const(a) || ir_dim_is_const(b))
        return ir_dim_equal(a, b);
    return a.k == b.k && a.c == b.c;
}

static bool
same_element_type(const IrType *a, const IrType *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = same_dim(a->dims[i], b->dims[i]);
    return same;
}

static bool
check_same(Lower *cx, const FeDataset *first, const FeDataset *ds, Loc loc)
{
    FeValues a = {0}, b = {0};
    bool same = fe_value_alike(first->element, ds->element);
    fe_value_leaves(cx->arena, first->element, &a);
    fe_value_leaves(cx->arena, ds->element, &b);
    for (int i = 0; same && i < a.len; i++)
        same = same_element_type(a.data[i]->type, b.data[i]->type);
    if (!same)
        fe_error(cx, loc,
                 "the pipelines' elements are of several types: the first of "
                 "them gives %s, and another one %s",
                 fe_type_text(cx, a.data[0]->type),
                 fe_type_text(cx, b.data[0]->type));
    return same;
}

/* The most rows of a batch of ds, 0 when its elements are of one shape. Batches
 * that stand side by side are of one size (zip). */
static int64_t
batch_bound(const Lower *cx, const FeDataset *ds)
{
    FeValues leaves = {0};
    fe_value_leaves(cx->arena, ds->element, &leaves);
    for (int i = 0; i < leaves.len; i++) {
        const IrType *t = leaves.data[i]->type;
        for (int k = 0; k < t->rank; k++)
            if (!ir_dim_is_const(t->dims[k]))
                return cx->module->symbols.data[t->dims[k].sym].bound;
    }
    return 0;
}

static FeValue *
replica_leaf(FeValue *leaf, void *data)
{
    const FeBatchRows *s = data;
    IrType t = *leaf->type;
    for (int i = 0; i < t.rank; i++)
        if (!ir_dim_is_const(t.dims[i]))
            t.dims[i].sym = s->rows.sym;
    t.locality = LOCAL_PER_REPLICA;
    return fe_value_type(s->cx->arena, t);
}

FeValue *
fe_replica_element(Lower *cx, const FeDistDataset *dist, int32_t *rows)
{
    FeBatchRows share = {.cx = cx};
    int64_t most = dist->max_rows;
    *rows = -1;
    if (most > 0) {
        *rows =
            ir_symbol_pair(cx->module, most, most * cx->module->num_replicas);
        share.rows = ir_dim_linear(0, 1, *rows);
    }
    return fe_value_map(cx->arena, dist->datasets.data[0]->element,
                        replica_leaf, &share);
}

/* ---- distribute_from ---------------------------------------------------- */

/* per_worker or per_replica, even if that name is bound: the number of
 * pipelines, 0 with a message. */
static int
read_pipelines(Lower *cx, const FeArgs *in)
{
    const char *word = fe_arg_enum_name(in, 1);
    const IrModule *m = cx->module;
    if (!in->args[1] || (word && strcmp(word, "per_worker") == 0))
        return m->num_workers;
    bool per_replica = word && strcmp(word, "per_replica") == 0;
    if (per_replica && !ir_strategy_info[m->strategy].workers)
        return m->num_replicas;
    if (per_replica)
        fe_error_note(cx, fe_arg_loc(in, 1), "leave it out",
                      "the strategy %s has a pipeline for each worker, and "
                      "none for each replica",
                      ir_strategy_names[m->strategy]);
    else
        fe_error(cx, fe_arg_loc(in, 1),
                 "pipelines is per_worker or per_replica");
    return 0;
}

/* The dataset of pipeline number id; NULL with a message. */
static FeDataset *
make_dataset(Lower *cx, const FeArgs *in, int id, int num_pipelines)
{
    Loc loc = fe_arg_loc(in, 0);
    FeValue *ctx =
        fe_input_context(cx, fe_value_int(cx->arena, id),
                         fe_value_int(cx->arena, num_pipelines), loc);
    FeValue *v = fe_call_with(cx, fe_arg(in, 0), 1, &ctx, false, "called", loc);
    if (fe_is_poison(v))
        return NULL;
    if (v->kind == FE_DATASET)
        return v->dataset;
    fe_error_note(cx, loc,
                  v->kind == FE_DIST
                      ? "leave out distribute: each replica takes whole "
                        "elements"
                      : NULL,
                  "the function given to distribute_from makes a dataset, not "
                  "%s",
                  fe_describe(cx, v));
    return NULL;
}

/* Whether a batch has its place in a plan for all replicas. */
static bool
check_bound(Lower *cx, int64_t rows, Loc loc)
{
    int64_t all;
    if (!__builtin_mul_overflow(rows, cx->module->num_replicas, &all) &&
        all <= IR_MAX_BYTES)
        return true;
    fe_error(cx, loc, "batches of %lld rows are too large", (long long)rows);
    return false;
}

bool
fe_add_pipeline(Lower *cx, FeDistDataset *dist, FeDataset *ds, Loc loc)
{
    int64_t rows = ds ? batch_bound(cx, ds) : 0;
    if (!ds || !check_bound(cx, rows, loc))
        return false;
    VEC_PUSH(cx->arena, dist->datasets, ds);
    if (rows > dist->max_rows)
        dist->max_rows = rows;
    return check_same(cx, dist->datasets.data[0], ds, loc);
}

FeValue *
fe_builtin_distribute_from(Lower *cx, const FeArgs *in)
{
    int n = read_pipelines(cx, in);
    FeDistDataset *dist = NEW(cx->arena, FeDistDataset);
    dist->per_pipeline = true;
    if (!n || !fe_input_options(cx, in, 2, dist))
        return &fe_poison;
    for (int i = 0; i < n; i++)
        if (!fe_add_pipeline(cx, dist, make_dataset(cx, in, i, n),
                             fe_arg_loc(in, 0)))
            return &fe_poison;
    return fe_value_dist_dataset(cx, dist);
}
