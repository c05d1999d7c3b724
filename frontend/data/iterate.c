/*
 * iterate.c - distributed datasets and their iterators
 *
 * A batch is divided among the replicas: its leading dimension becomes n, this
 * replica's rows, with N those of all; also where this number of replicas gives
 * it one value, so that a program is right or wrong for all numbers alike (pass
 * `static_batches` makes it a constant).  Which replica gets which rows is
 * decided by the runner; none gets more than its equal share, rounded up.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/dispatch.h"
#include "frontend/context/messages.h"
#include "frontend/data/data.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/region.h"
#include "frontend/lower/call.h"

#include <string.h>
#include "ir/dataset/sharding.h"
#include "ir/rules/build.h"
#include "ir/words.h"

/* ---- distribute --------------------------------------------------------- */

const char *
fe_arg_enum_name(const FeArgs *in, int i)
{
    const FeArg *arg = in->args[i];
    if (arg && arg->node && arg->node->kind == AST_NAME)
        return arg->node->name.text;
    return arg && arg->value->kind == FE_STRING ? arg->value->text.text : NULL;
}

static bool
read_shard(Lower *cx, const FeArgs *in, ShardPolicy *out)
{
    const char *word = fe_arg_enum_name(in, 1);
    *out = SHARD_AUTO;
    if (!in->args[1])
        return true;
    int i = word ? ir_word_index(ir_shard_words, word, strlen(word)) : -1;
    if (i < 0) {
        fe_error(cx, fe_arg_loc(in, 1), "shard is auto, file, data or off");
        return false;
    }
    *out = (ShardPolicy)i;
    return true;
}

/* The runner finds out about sources that may be files. */
static bool
check_shard(Lower *cx, const FeDistDataset *dist, Loc loc)
{
    const IrStageInfo *source = &ir_stage_info[dist->datasets.data[0]->source];
    if (dist->shard != SHARD_FILE || source->reads)
        return true;
    fe_error_note(
        cx, loc, "shard = data gives each pipeline its part of them",
        "the elements of %s cannot be sharded by file: it reads no file",
        source->name);
    return false;
}

/* Whether .batch(n) can follow: it stacks what is of one shape. */
static bool
can_be_batched(Lower *cx, const FeDataset *ds)
{
    FeValues leaves = {0};
    fe_value_leaves(cx->arena, ds->element, &leaves);
    for (int i = 0; i < leaves.len; i++)
        if (!ir_type_is_static(leaves.data[i]->type))
            return false;
    return true;
}

/* The pipeline with a batch at its end, and its place; NULL where it is not
 * written in one line. */
static const char *
batched(Lower *cx, const FeDataset *ds, const FeArgs *in, Loc *place)
{
    const AstNode *n = in->args[0]->node;
    const FeBinding *b = n && n->kind == AST_NAME
                             ? fe_find_binding(cx, n->name.text).binding
                             : NULL;
    if (b && b->decl && b->decl->kind == AST_DATASET)
        n = b->decl->dataset.value;
    if (!n)
        return NULL;
    *place = n->loc;
    const char *text = fe_source(cx, n->loc);
    return text && text[strlen(text) - 1] == ')'
               ? fe_format(cx, "%s.batch(%lld)", text,
                           (long long)(ds->batch ? ds->batch : 32))
               : NULL;
}

/* Only the leading dimension of an element is that of the batch. */
static bool
check_rows(Lower *cx, const FeDataset *ds, const IrType *t, const FeArgs *in)
{
    bool ok = t->rank > 0 && ir_dim_equal(t->dims[0], ds->rows);
    for (int i = 1; i < t->rank; i++)
        ok = ok && ir_dim_is_const(t->dims[i]);
    if (ok)
        return true;
    Loc place;
    bool can = can_be_batched(cx, ds);
    const char *text = can ? batched(cx, ds, in, &place) : NULL;
    const char *note =
        can ? "end the pipeline in .batch(n)"
            : "what a map after .batch(n) gives begins with the rows of the "
              "batch, all of them: compute other values in the step, or by a "
              "map before .batch(n)";
    fe_error_show(cx, in->loc, text ? place : NO_LOC,
                  text ? fe_format(cx, "end it in .batch(n), as in %s", text)
                       : note,
                  "a distributed dataset has batches, and each element of this "
                  "one is %s, not rows of a batch",
                  fe_type_text(cx, t));
    return false;
}

/* A zip of batches with what is no batch, or one of another size, is none. */
static void
refuse_unbatched(Lower *cx, const FeDataset *ds, const FeArgs *in)
{
    Loc place;
    bool can = can_be_batched(cx, ds);
    const char *text = can ? batched(cx, ds, in, &place) : NULL;
    const char *note =
        can ? "add .batch(n) to it: n is the global batch"
            : "what stands beside its batches has other sizes: zip first, and "
              "make batches of the pairs, as in a.zip(b).batch(n)";
    fe_error_show(cx, in->loc, text ? place : NO_LOC,
                  text ? fe_format(cx,
                                   "write %s here: its number is that of "
                                   "the global batch",
                                   text)
                       : note,
                  "distribute takes a dataset of batches, and this one has "
                  "none");
}

static bool
check_batched(Lower *cx, FeDataset *ds, const FeArgs *in)
{
    FeValues leaves = {0};
    if (ds->batch == 0) {
        refuse_unbatched(cx, ds, in);
        return false;
    }
    fe_value_leaves(cx->arena, ds->element, &leaves);
    for (int i = 0; i < leaves.len; i++)
        if (!check_rows(cx, ds, leaves.data[i]->type, in))
            return false;
    return true;
}

FeValue *
fe_value_dist_dataset(Lower *cx, FeDistDataset *dist)
{
    FeValue *v = fe_value_new(cx->arena, FE_DIST);
    v->dist = dist;
    return v;
}

FeValue *
fe_builtin_distribute(Lower *cx, const FeArgs *in)
{
    FeValue *ds = fe_arg(in, 0);
    FeDistDataset *dist = NEW(cx->arena, FeDistDataset);
    if (ds->kind != FE_DATASET)
        return fe_error(cx, fe_arg_loc(in, 0),
                        "distribute takes a dataset, not %s",
                        fe_describe(cx, ds));
    VEC_PUSH(cx->arena, dist->datasets, ds->dataset);
    if (!read_shard(cx, in, &dist->shard) ||
        !check_shard(cx, dist, fe_arg_loc(in, 1)) ||
        !fe_input_options(cx, in, 2, dist) ||
        !check_batched(cx, ds->dataset, in))
        return &fe_poison;
    return fe_value_dist_dataset(cx, dist);
}

/* ---- in the IR ---------------------------------------------------------- */

/* The dataset of the module that ds is; made when it is first asked for. */
static const char *
ir_dataset_of(Lower *cx, FeDataset *ds)
{
    IrModule *m = cx->module;
    if (!ds->name)
        ds->name = fe_data_name(cx, "data");
    if (ir_dataset_find(m, ds->name))
        return ds->name;
    IrDataset *d = NEW(m->arena, IrDataset);
    d->name = ds->name;
    d->loc = ds->loc;
    for (int i = 0; i < ds->stages.len; i++) {
        IrStage stage = ds->stages.data[i];
        if (ds->others.data[i])
            stage.other = ir_dataset_of(cx, ds->others.data[i]);
        VEC_PUSH(m->arena, d->stages, stage);
    }
    VEC_PUSH(m->arena, m->datasets, d);
    return ds->name;
}

/* "train.it", "train.it2", ... */
static const char *
iter_name(Lower *cx, const char *dataset)
{
    const char *name = fe_format(cx, "%s.it", dataset);
    for (int i = 2; ir_iter_find(cx->module, name); i++)
        name = fe_format(cx, "%s.it%d", dataset, i);
    return intern(cx->names, name);
}

/* The leading dimension of a replica's part of a batch, whose symbol is the
 * iterator's.  Workers that cut batches of their own may all have large parts.
 */
static Dim
replica_rows(Lower *cx, const FeDataset *ds, IrIter *it)
{
    IrModule *m = cx->module;
    int64_t replicas = m->num_replicas, all = ds->batch;
    int64_t bound = all / replicas + (all % replicas != 0);
    if (!ir_iter_is_in_step(m, it))
        all = bound * replicas;
    it->rows = ir_symbol_pair(m, bound, all);
    return ir_dim_linear(0, 1, it->rows);
}

static FeValue *
rebatch_leaf(FeValue *leaf, void *data)
{
    const FeBatchRows *s = data;
    IrType t = *leaf->type;
    t.dims[0] = s->rows;
    t.locality = LOCAL_PER_REPLICA;
    return fe_value_type(s->cx->arena, t);
}

/* A replica's part of an element. */
static FeValue *
replica_part(Lower *cx, const FeDistDataset *dist, IrIter *it)
{
    if (dist->per_pipeline)
        return fe_replica_element(cx, dist, &it->rows);
    const FeDataset *ds = dist->datasets.data[0];
    FeBatchRows share = {cx, replica_rows(cx, ds, it)};
    return fe_value_map(cx->arena, ds->element, rebatch_leaf, &share);
}

/* The iterator of the module, and in the list of those with their elements. */
static IrIter *
add_iter(Lower *cx, const FeDistDataset *dist, Loc loc)
{
    IrModule *m = cx->module;
    IrIter *it = NEW(m->arena, IrIter);
    for (int i = 0; i < dist->datasets.len; i++)
        VEC_PUSH(m->arena, it->datasets,
                 ir_dataset_of(cx, dist->datasets.data[i]));
    it->name = iter_name(cx, it->datasets.data[0]);
    it->whole = dist->per_pipeline;
    it->shard = dist->shard;
    it->per_worker = dist->per_worker;
    it->workers = dist->workers;
    it->buffer = dist->buffer;
    it->on_host = dist->on_host;
    it->loc = loc;
    FeIterInfo info = {it, replica_part(cx, dist, it), dist->per_worker};
    VEC_PUSH(m->arena, m->iters, it);
    VEC_PUSH(cx->arena, fe_data(cx)->iters, info);
    return it;
}

FeValue *
fe_iter_open(Lower *cx, FeValue *dist, Loc loc)
{
    if (fe_is_poison(dist))
        return dist;
    if (dist->kind == FE_DATASET)
        return fe_error_note(cx, loc, "write distribute(...) around it",
                             "a dataset has no elements in main until it is "
                             "distributed");
    if (dist->kind != FE_DIST)
        return fe_error(cx, loc,
                        "an iterator goes over a distributed dataset, "
                        "not over %s",
                        fe_describe(cx, dist));
    if (!fe_check_can_emit(cx, loc))
        return &fe_poison;
    IrIter *it = add_iter(cx, dist->dist, loc);
    IrOp *op = fe_op(cx, OP_iter_open, 0, NULL, loc);
    ir_set_text(op, A_iter, it->name);
    fe_emit(cx, op);
    FeValue *v = fe_value_new(cx->arena, FE_ITER);
    v->iter = it;
    return v;
}

static const FeIterInfo *
info_of(Lower *cx, const IrIter *it)
{
    const FeData *data = fe_data(cx);
    int i = data->iters.len - 1;
    while (data->iters.data[i].iter != it)
        i--;
    return &data->iters.data[i];
}

/* Main takes the elements of distributed datasets, and a closure those that its
 * worker has of a per-worker one. */
static bool
check_taker(Lower *cx, const IrIter *it, Loc loc)
{
    bool per_worker = info_of(cx, it)->per_worker;
    if (per_worker && cx->context == FE_CROSS)
        fe_error_note(cx, loc,
                      "take it in a function that main schedules: schedule "
                      "f(iterator)",
                      "the elements of a per-worker dataset are on the "
                      "workers, and this is main");
    else if (!per_worker && cx->context == FE_CLOSURE)
        fe_error_note(cx, loc,
                      "let it = iter(per_worker(...)) makes one for closures",
                      "a closure takes elements of a per-worker dataset, and "
                      "this iterator is main's");
    else
        return true;
    return false;
}

FeValue *
fe_iter_has_next(Lower *cx, FeValue *iter, Loc loc)
{
    if (fe_is_poison(iter))
        return iter;
    if (!check_taker(cx, iter->iter, loc))
        return &fe_poison;
    IrOp *op = fe_op(cx, OP_iter_has_next, 0, NULL, loc);
    ir_set_text(op, A_iter, iter->iter->name);
    return fe_emit(cx, op);
}

static bool
is_taken_in(const IrBlock *b, const IrIter *it)
{
    for (const IrOp *op = b->last; op; op = op->prev)
        if (op->kind == OP_iter_next &&
            strcmp(ir_text(op, A_iter), it->name) == 0)
            return true;
    return false;
}

/* Whether an element of the iterator was taken before, in this iteration of the
 * innermost loop. */
static bool
is_taken(const Lower *cx, const IrIter *it)
{
    const IrBlock *b = cx->block;
    while (!is_taken_in(b, it)) {
        if (!b->op || b->op->kind != OP_if)
            return false;
        b = b->op->block;
    }
    return true;
}

/* The symbol of the element to be taken.  Elements that one iteration of a loop
 * takes may be used side by side, so each has its own rows. */
static int32_t
next_rows(Lower *cx, const IrIter *it)
{
    IrModule *m = cx->module;
    if (it->rows < 0 || !is_taken(cx, it))
        return it->rows;
    const IrSymbol *n = &m->symbols.data[it->rows];
    return ir_symbol_pair(m, n->bound, m->symbols.data[n->partner].bound);
}

static IrType
with_rows(IrType t, int32_t rows)
{
    for (int i = 0; i < t.rank; i++)
        if (!ir_dim_is_const(t.dims[i]))
            t.dims[i].sym = rows;
    return t;
}

static FeValue *
take_element(Lower *cx, FeValue *iter, Loc loc)
{
    FeValues leaves = {0};
    FeValue *element = info_of(cx, iter->iter)->element;
    int32_t rows = next_rows(cx, iter->iter);
    fe_value_leaves(cx->arena, element, &leaves);
    IrType *types = NEW_ARRAY(cx->arena, IrType, (size_t)leaves.len);
    for (int i = 0; i < leaves.len; i++)
        types[i] = with_rows(*leaves.data[i]->type, rows);
    IrOp *op = ir_build_op(cx->block, OP_iter_next, 0, NULL, loc);
    ir_set_text(op, A_iter, iter->iter->name);
    ir_op_results(op, leaves.len, types);
    for (int i = 0; i < leaves.len; i++)
        leaves.data[i] = fe_value_tensor(cx->arena, op->results[i]);
    FeValue *const *next = leaves.data;
    return fe_value_rebuild(cx->arena, element, &next);
}

/* Of the operation whose region the closure is: its worker takes the element
 * before it begins. */
static FeValue *
take_for_closure(Lower *cx, FeValue *iter, Loc loc)
{
    IrOp *schedule = cx->block->op;
    if (!schedule || schedule->kind != OP_schedule)
        return fe_error_note(cx, loc,
                             "take it before the if or the loop; a closure "
                             "may take several",
                             "a worker takes the elements of a closure before "
                             "it begins, and this \"next\" is conditional");
    FeRegion saved = fe_region_enter(cx, schedule->block, FE_CROSS);
    FeValue *element = take_element(cx, iter, loc);
    fe_region_leave(cx, &saved);
    IrOp *taken = schedule->block->last;
    ir_remove(taken);
    ir_insert_before(schedule, taken);
    return element;
}

FeValue *
fe_iter_next(Lower *cx, FeValue *iter, Loc loc)
{
    if (fe_is_poison(iter) || !fe_check_can_emit(cx, loc) ||
        !check_taker(cx, iter->iter, loc))
        return &fe_poison;
    return cx->context == FE_CLOSURE ? take_for_closure(cx, iter, loc)
                                     : take_element(cx, iter, loc);
}

/* ---- by hand ------------------------------------------------------------ */

FeValue *
fe_builtin_iter(Lower *cx, const FeArgs *in)
{
    return fe_iter_open(cx, fe_arg(in, 0), in->loc);
}

static bool
check_iter(Lower *cx, const FeArgs *in)
{
    FeValue *v = fe_arg(in, 0);
    if (v->kind == FE_ITER)
        return true;
    fe_error_note(cx, fe_arg_loc(in, 0),
                  v->kind == FE_DIST ? "let it = iter(...) makes one of it"
                                     : NULL,
                  "%s takes an iterator, not %s", in->name, fe_describe(cx, v));
    return false;
}

FeValue *
fe_builtin_has_next(Lower *cx, const FeArgs *in)
{
    return check_iter(cx, in) ? fe_iter_has_next(cx, fe_arg(in, 0), in->loc)
                              : &fe_poison;
}

FeValue *
fe_builtin_next(Lower *cx, const FeArgs *in)
{
    return check_iter(cx, in) ? fe_iter_next(cx, fe_arg(in, 0), in->loc)
                              : &fe_poison;
}
