/*
 * data_stages.c - methods of datasets, which append stages
 *
 * Each takes a copy of the dataset before it, sets the types of its elements,
 * and appends a stage.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/messages.h"
#include "frontend/data/data.h"
#include "frontend/emit/region.h"
#include "frontend/lower/call.h"

#include <string.h>

/* ---- map and filter ----------------------------------------------------- */

/* Number k of the functions of a dataset: "train.map1". */
static const char *
func_name(Lower *cx, const char *method)
{
    const char *of = fe_data(cx)->declaring, *name;
    int k = 0;
    do {
        name = fe_format(cx, "%s.%s%d", of ? of : "data", method, ++k);
    } while (ir_func_find(cx->module, name));
    return intern(cx->names, name);
}

static FeValue *
argument_leaf(FeValue *type, void *data)
{
    Lower *cx = data;
    return fe_value_tensor(cx->arena,
                           ir_block_arg(cx->block, *type->type, NULL));
}

/* The nest of the types of fn's result. */
static FeValue *
result_types(Lower *cx, const IrFunc *fn, FeValue *result)
{
    const IrOp *ret = ir_func_return(fn);
    FeValue **types =
        NEW_ARRAY(cx->arena, FeValue *, (size_t)ret->num_operands);
    for (int i = 0; i < ret->num_operands; i++) {
        IrType t = ret->operands[i]->type;
        t.locality = LOCAL_HOST;
        t.on = NULL;
        types[i] = fe_value_type(cx->arena, t);
    }
    FeValue *const *next = types;
    return fe_value_rebuild(cx->arena, result, &next);
}

/* The host function that f is for elements of ds; NULL after errors. *types are
 * those of its result. */
static IrFunc *
element_func(Lower *cx, const FeDataset *ds, FeValue *f, const FeArgs *in,
             FeValue **types)
{
    FeRegion saved;
    IrFunc *fn = fe_func_open(cx, func_name(cx, in->name), FUNC_HOST, FE_DATA,
                              fe_arg_loc(in, 0), &saved);
    FeValue *arg = fe_value_map(cx->arena, ds->element, argument_leaf, cx);
    FeValue *result =
        fe_call_with(cx, f, 1, &arg, true, "called", fe_arg_loc(in, 0));
    if (result->kind == FE_NONE)
        result = fe_error(cx, fe_arg_loc(in, 0),
                          "the function given to %s returns nothing", in->name);
    if (!fe_func_close(cx, fn, &saved, result, fe_arg_loc(in, 0)))
        return NULL;
    *types = result_types(cx, fn, result);
    return fn;
}

FeValue *
fe_method_map(Lower *cx, const FeArgs *in)
{
    FeValue *types;
    FeDataset *ds = fe_dataset_extend(cx, in->self->dataset, in->loc);
    IrFunc *fn = element_func(cx, ds, fe_arg(in, 0), in, &types);
    if (!fn)
        return &fe_poison;
    ds->element = types;
    IrStage stage = {.kind = STAGE_map, .func = fn->name, .loc = in->loc};
    fe_dataset_push(cx, ds, stage);
    return fe_dataset_value(cx, ds);
}

/* One bool, known to be one when compiling. */
static bool
is_condition(const FeValue *types)
{
    return types->kind == FE_TYPE && types->type->dtype == DT_bool &&
           types->type->rank == 0;
}

FeValue *
fe_method_filter(Lower *cx, const FeArgs *in)
{
    FeValue *types;
    FeDataset *ds = fe_dataset_extend(cx, in->self->dataset, in->loc);
    IrFunc *fn = element_func(cx, ds, fe_arg(in, 0), in, &types);
    if (!fn)
        return &fe_poison;
    if (!is_condition(types))
        return fe_error_note(cx, fe_arg_loc(in, 0),
                             "all(...) or any(...) makes one bool of several",
                             "filter takes a function that gives one bool, not "
                             "%s",
                             types->kind == FE_TYPE
                                 ? fe_type_text(cx, types->type)
                                 : fe_describe(cx, types));
    IrStage stage = {.kind = STAGE_filter, .func = fn->name, .loc = in->loc};
    fe_dataset_push(cx, ds, stage);
    return fe_dataset_value(cx, ds);
}

/* ---- stages with numbers ------------------------------------------------ */

/* The number that parameter i says, not below least. */
static bool
read_count(Lower *cx, const FeArgs *in, int i, const char *what, int64_t least,
           int64_t *out)
{
    if (!fe_arg_int(cx, in, i, what, out))
        return false;
    if (*out >= least)
        return true;
    const AstNode *n = in->args[i]->node;
    const FeBinding *b = n && n->kind == AST_NAME
                             ? fe_find_binding(cx, n->name.text).binding
                             : NULL;
    bool is_const = b && b->decl && b->decl->kind == AST_CONST;
    fe_error_show(cx, fe_arg_loc(in, i), is_const ? b->loc : NO_LOC,
                  is_const
                      ? fe_format(cx, "write const %s = %lld here, or more",
                                  b->name, (long long)least)
                      : NULL,
                  "%s is at least %lld, not %lld", what, (long long)least,
                  (long long)*out);
    return false;
}

/* The dataset with a stage that leaves the elements as they are. */
static FeValue *
with_stage(Lower *cx, const FeArgs *in, StageKind kind, int64_t a, int64_t b)
{
    FeDataset *ds = fe_dataset_extend(cx, in->self->dataset, in->loc);
    IrStage stage = {.kind = kind, .ints = {a, b}, .loc = in->loc};
    fe_dataset_push(cx, ds, stage);
    return fe_dataset_value(cx, ds);
}

FeValue *
fe_method_repeat(Lower *cx, const FeArgs *in)
{
    int64_t count = -1;
    if (fe_arg(in, 0) &&
        !read_count(cx, in, 0, "the number of passes", 0, &count))
        return &fe_poison;
    FeValue *v = with_stage(cx, in, STAGE_repeat, count, 0);
    if (count < 0 && !fe_is_poison(v))
        v->dataset->endless = true;
    return v;
}

FeValue *
fe_method_take(Lower *cx, const FeArgs *in)
{
    int64_t count;
    if (!read_count(cx, in, 0, "the number of elements", 0, &count))
        return &fe_poison;
    FeValue *v = with_stage(cx, in, STAGE_take, count, 0);
    if (!fe_is_poison(v))
        v->dataset->endless = false;
    return v;
}

FeValue *
fe_method_skip(Lower *cx, const FeArgs *in)
{
    int64_t count;
    if (!read_count(cx, in, 0, "the number of elements", 0, &count))
        return &fe_poison;
    return with_stage(cx, in, STAGE_skip, count, 0);
}

FeValue *
fe_method_prefetch(Lower *cx, const FeArgs *in)
{
    int64_t depth;
    if (!read_count(cx, in, 0, "the number of elements", 0, &depth))
        return &fe_poison;
    if (depth > IR_MAX_PREFETCH)
        return fe_error(cx, fe_arg_loc(in, 0),
                        "at most %d elements are made ahead, not %lld",
                        IR_MAX_PREFETCH, (long long)depth);
    return with_stage(cx, in, STAGE_prefetch, depth, 0);
}

FeValue *
fe_method_shard(Lower *cx, const FeArgs *in)
{
    int64_t num, index;
    if (fe_is_workers_shard(fe_arg(in, 0), fe_arg(in, 1)))
        return with_stage(cx, in, STAGE_shard, 0, 0);
    if (!read_count(cx, in, 0, "the number of shards", 1, &num) ||
        !read_count(cx, in, 1, "the index of a shard", 0, &index))
        return &fe_poison;
    if (index >= num)
        return fe_error(cx, fe_arg_loc(in, 1),
                        "the index of a shard of %lld is at most %lld, not "
                        "%lld",
                        (long long)num, (long long)(num - 1), (long long)index);
    return with_stage(cx, in, STAGE_shard, num, index);
}

FeValue *
fe_method_shuffle(Lower *cx, const FeArgs *in)
{
    int64_t buffer, seed = 0;
    bool reshuffle = true;
    if (!read_count(cx, in, 0, "the number of elements to shuffle", 1,
                    &buffer) ||
        !fe_arg_int(cx, in, 1, "the seed", &seed) ||
        !fe_arg_bool(cx, in, 2, "reshuffle", &reshuffle))
        return &fe_poison;
    FeDataset *ds = fe_dataset_extend(cx, in->self->dataset, in->loc);
    IrStage stage = {.kind = STAGE_shuffle,
                     .ints = {buffer, seed, reshuffle, fe_arg(in, 1) != NULL},
                     .loc = in->loc};
    fe_dataset_push(cx, ds, stage);
    return fe_dataset_value(cx, ds);
}

/* ---- stages that stack -------------------------------------------------- */

typedef struct Stack {
    Lower *cx;
    const FeArgs *in;
    Dim size;
} Stack;

static FeValue *
stack_leaf(FeValue *leaf, void *data)
{
    const Stack *s = data;
    IrType t = *leaf->type;
    if (!ir_type_is_static(&t))
        return fe_error_note(
            s->cx, s->in->loc,
            "batch(n, drop_remainder = true) makes batches of one size",
            "%s stacks elements of one shape, and the batches before it may "
            "be of several sizes",
            s->in->name);
    if (!fe_check_rank(s->cx, t.rank + 1, s->in->loc))
        return &fe_poison;
    memmove(t.dims + 1, t.dims, (size_t)t.rank * sizeof *t.dims);
    t.dims[0] = s->size;
    t.rank++;
    return fe_data_type(s->cx, t, s->in->loc);
}

/* The dataset with a stage whose elements are size of those before. */
static FeDataset *
stacked(Lower *cx, const FeArgs *in, IrStage stage, Dim size)
{
    Stack s = {cx, in, size};
    FeDataset *ds = fe_dataset_extend(cx, in->self->dataset, in->loc);
    ds->element = fe_value_map(cx->arena, ds->element, stack_leaf, &s);
    if (fe_value_has_poison(ds->element))
        return NULL;
    fe_dataset_push(cx, ds, stage);
    return ds;
}

FeValue *
fe_method_batch(Lower *cx, const FeArgs *in)
{
    int64_t size;
    bool drop = false;
    if (!read_count(cx, in, 0, "the size of a batch", 1, &size) ||
        !fe_arg_bool(cx, in, 1, "drop_remainder", &drop))
        return &fe_poison;
    Dim rows = ir_dim_const(size);
    if (!drop)
        rows = ir_dim_linear(0, 1, ir_symbol_alone(cx->module, size));
    IrStage stage = {.kind = STAGE_batch, .ints = {size, drop}, .loc = in->loc};
    FeDataset *ds = stacked(cx, in, stage, rows);
    if (!ds)
        return &fe_poison;
    ds->batch = size;
    ds->rows = rows;
    return fe_dataset_value(cx, ds);
}

FeValue *
fe_method_window(Lower *cx, const FeArgs *in)
{
    int64_t size, stride;
    if (!read_count(cx, in, 0, "the size of a window", 1, &size))
        return &fe_poison;
    stride = size;
    if (!read_count(cx, in, 1, "the stride", 1, &stride))
        return &fe_poison;
    IrStage stage = {
        .kind = STAGE_window, .ints = {size, stride}, .loc = in->loc};
    FeDataset *ds = stacked(cx, in, stage, ir_dim_const(size));
    if (!ds)
        return &fe_poison;
    ds->batch = 0;
    return fe_dataset_value(cx, ds);
}

/* Whether all elements of a pass can be kept. */
static bool
check_ends(Lower *cx, const FeArgs *in)
{
    if (!in->self->dataset->endless)
        return true;
    fe_error_note(
        cx, in->loc, fe_format(cx, "write .%s(...) before .repeat()", in->name),
        "%s keeps all elements in memory, and these have no end", in->name);
    return false;
}

/* They are always as many as the lanes, so they are batches, too. */
FeValue *
fe_method_lanes(Lower *cx, const FeArgs *in)
{
    int64_t num;
    if (!read_count(cx, in, 0, "the number of lanes", 1, &num) ||
        !check_ends(cx, in))
        return &fe_poison;
    IrStage stage = {.kind = STAGE_lanes, .ints = {num}, .loc = in->loc};
    FeDataset *ds = stacked(cx, in, stage, ir_dim_const(num));
    if (!ds)
        return &fe_poison;
    ds->batch = num;
    ds->rows = ir_dim_const(num);
    return fe_dataset_value(cx, ds);
}

FeValue *
fe_method_cache(Lower *cx, const FeArgs *in)
{
    return check_ends(cx, in) ? with_stage(cx, in, STAGE_cache, 0, 0)
                              : &fe_poison;
}

/* ---- unbatch ------------------------------------------------------------ */

typedef struct Unstack {
    Lower *cx;
    const FeArgs *in;
    const Dim *rows; /* of the components before; NULL: there are none */
} Unstack;

static FeValue *
unstack_leaf(FeValue *leaf, void *data)
{
    Unstack *u = data;
    IrType t = *leaf->type;
    if (t.rank == 0)
        return fe_error_note(u->cx, u->in->loc, "a batch comes of .batch(n)",
                             "unbatch takes elements apart along their first "
                             "dimension, and one of them is %s",
                             fe_type_text(u->cx, &t));
    if (u->rows && !ir_dim_equal(*u->rows, t.dims[0]))
        return fe_error(u->cx, u->in->loc,
                        "unbatch takes elements apart whose components have as "
                        "many rows, and one of them is %s",
                        fe_type_text(u->cx, &t));
    u->rows = &leaf->type->dims[0];
    t.rank--;
    memmove(t.dims, t.dims + 1, (size_t)t.rank * sizeof *t.dims);
    if (!ir_type_is_static(&t))
        return fe_error(u->cx, u->in->loc,
                        "unbatch gives elements of one shape, and these would "
                        "be %s",
                        fe_type_text(u->cx, &t));
    return fe_value_type(u->cx->arena, t);
}

FeValue *
fe_method_unbatch(Lower *cx, const FeArgs *in)
{
    Unstack u = {cx, in, NULL};
    FeDataset *ds = fe_dataset_extend(cx, in->self->dataset, in->loc);
    ds->element = fe_value_map(cx->arena, ds->element, unstack_leaf, &u);
    if (fe_value_has_poison(ds->element))
        return &fe_poison;
    IrStage stage = {.kind = STAGE_unbatch, .loc = in->loc};
    fe_dataset_push(cx, ds, stage);
    ds->batch = 0;
    return fe_dataset_value(cx, ds);
}

/* ---- two datasets ------------------------------------------------------- */

/* Argument 0; NULL after an error. */
static FeDataset *
read_dataset(Lower *cx, const FeArgs *in)
{
    FeValue *v = fe_arg(in, 0);
    if (v->kind == FE_DATASET)
        return v->dataset;
    fe_error(cx, fe_arg_loc(in, 0), "%s takes a dataset, not %s", in->name,
             fe_describe(cx, v));
    return NULL;
}

/* The symbol that a dimension of an element has; -1: none. */
static int32_t
symbol_of(Lower *cx, FeValue *element)
{
    FeValues leaves = {0};
    fe_value_leaves(cx->arena, element, &leaves);
    for (int i = 0; i < leaves.len; i++)
        for (int k = 0; k < leaves.data[i]->type->rank; k++)
            if (!ir_dim_is_const(leaves.data[i]->type->dims[k]))
                return leaves.data[i]->type->dims[k].sym;
    return -1;
}

typedef struct Renaming {
    Lower *cx;
    int32_t to;
} Renaming;

static FeValue *
rename_leaf(FeValue *leaf, void *data)
{
    const Renaming *r = data;
    IrType t = *leaf->type;
    for (int i = 0; i < t.rank; i++)
        if (!ir_dim_is_const(t.dims[i]))
            t.dims[i].sym = r->to;
    return fe_value_type(r->cx->arena, t);
}

/* The elements of other, for zip or concat with those of ds: batches of one
 * size have one name. */
static FeValue *
element_beside(Lower *cx, const FeDataset *ds, const FeDataset *other)
{
    const IrModule *m = cx->module;
    Renaming r = {cx, symbol_of(cx, ds->element)};
    int32_t from = symbol_of(cx, other->element);
    if (r.to < 0 || from < 0 ||
        m->symbols.data[r.to].bound != m->symbols.data[from].bound)
        return other->element;
    return fe_value_map(cx->arena, other->element, rename_leaf, &r);
}

/* ds with a stage that reads another dataset, too. */
static FeValue *
append_with_second(Lower *cx, const FeArgs *in, StageKind kind, FeDataset *ds,
                   FeDataset *other)
{
    bool static_rows = ir_dim_is_const(ds->rows);
    fe_dataset_push(cx, ds, (IrStage){.kind = kind, .loc = in->loc});
    VEC_LAST(ds->others) = other;
    ds->num_stages += other->num_stages;
    ds->source = ir_source_reading_less(ds->source, other->source);
    if (ds->batch != other->batch ||
        static_rows != ir_dim_is_const(other->rows))
        ds->batch = 0;
    return fe_dataset_value(cx, ds);
}

FeValue *
fe_method_zip(Lower *cx, const FeArgs *in)
{
    FeDataset *other = read_dataset(cx, in);
    if (!other)
        return &fe_poison;
    FeDataset *ds = fe_dataset_extend(cx, in->self->dataset, in->loc);
    FeValue *items[] = {ds->element, element_beside(cx, ds, other)};
    int32_t rows = symbol_of(cx, items[0]), beside = symbol_of(cx, items[1]);
    if (rows >= 0 && beside >= 0 && rows != beside)
        return fe_error_note(cx, in->loc, "zip the datasets before .batch(n)",
                             "batches of %lld rows cannot stand beside batches "
                             "of %lld",
                             (long long)ds->batch, (long long)other->batch);
    ds->element = fe_value_tuple(cx->arena, 2, items);
    ds->endless = ds->endless && other->endless;
    return append_with_second(cx, in, STAGE_zip, ds, other);
}

/* Whether elements are of the same types in the same nests. */
static bool
are_alike(Lower *cx, FeValue *a, FeValue *b)
{
    FeValues x = {0}, y = {0};
    fe_value_leaves(cx->arena, a, &x);
    fe_value_leaves(cx->arena, b, &y);
    if (!fe_value_alike(a, b) || x.len != y.len)
        return false;
    for (int i = 0; i < x.len; i++)
        if (x.data[i]->type->dtype != y.data[i]->type->dtype ||
            !ir_type_same_shape(x.data[i]->type, y.data[i]->type))
            return false;
    return true;
}

/* "(f32[4], i32)" */
static const char *
element_text(Lower *cx, FeValue *element)
{
    Str s = str_new(cx->arena);
    FeValues leaves = {0};
    if (element->kind == FE_TYPE)
        return fe_type_text(cx, element->type);
    fe_value_leaves(cx->arena, element, &leaves);
    for (int i = 0; i < leaves.len; i++)
        str_addf(&s, "%s%s", i ? ", " : "(",
                 fe_type_text(cx, leaves.data[i]->type));
    str_addc(&s, ')');
    return str_text(&s);
}

FeValue *
fe_method_concat(Lower *cx, const FeArgs *in)
{
    FeDataset *other = read_dataset(cx, in);
    if (!other)
        return &fe_poison;
    FeDataset *ds = fe_dataset_extend(cx, in->self->dataset, in->loc);
    if (!are_alike(cx, ds->element, element_beside(cx, ds, other)))
        return fe_error_note(cx, in->loc,
                             "make them alike by .map(f), and "
                             "batches of them afterwards",
                             "elements %s do not go on with elements %s",
                             element_text(cx, ds->element),
                             element_text(cx, other->element));
    ds->endless = ds->endless || other->endless;
    return append_with_second(cx, in, STAGE_concat, ds, other);
}
