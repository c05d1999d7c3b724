/*
 * data.c - datasets: their sources, and how methods append stages
 *
 * A dataset is a list of stages (ir/dataset/stages.def) and the type of its
 * elements. The IR gets it when it is distributed, under the name of its
 * declaration. (Methods themselves: data_stages.c; sources that read files:
 * data_files.c.)
 */
#include "frontend/data/data.h"

#include "frontend/builtins/builtins.h"
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/hint.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/call.h"
#include <assert.h>
#include <string.h>
#include "ir/type_bounds.h"

FeData *
fe_data(Lower *cx)
{
    FeData *data = cx->data;
    if (!data) {
        data = cx->data = NEW(cx->arena, FeData);
        data->names = map_new(cx->arena);
    }
    return data;
}

const char *
fe_data_name(Lower *cx, const char *base)
{
    return fe_unique_name(cx, fe_data(cx)->names, base);
}

/* ---- elements ----------------------------------------------------------- */

FeValue *
fe_dataset_value(Lower *cx, FeDataset *ds)
{
    if (ds->num_stages > IR_MAX_STAGES)
        return fe_error(cx, ds->loc, "a dataset of more than %d stages",
                        IR_MAX_STAGES);
    FeValue *v = fe_value_new(cx->arena, FE_DATASET);
    v->dataset = ds;
    return v;
}

FeValue *
fe_data_type(Lower *cx, IrType t, Loc loc)
{
    int64_t bytes;
    if (ir_type_bytes(cx->module, &t, &bytes))
        return fe_value_type(cx->arena, t);
    return fe_error(cx, loc, "an element of type %s is too large",
                    fe_type_text(cx, &t));
}

void
fe_dataset_push(Lower *cx, FeDataset *ds, IrStage stage)
{
    assert(ds->others.len == ds->stages.len);
    FeValues leaves = {0};
    fe_value_leaves(cx->arena, ds->element, &leaves);
    for (int i = 0; i < leaves.len; i++)
        VEC_PUSH(cx->arena, stage.types, *leaves.data[i]->type);
    VEC_PUSH(cx->arena, ds->stages, stage);
    VEC_PUSH(cx->arena, ds->others, NULL);
    ds->num_stages++;
}

FeValue *
fe_data_source(Lower *cx, FeValue *element, IrStage stage)
{
    FeDataset *ds = NEW(cx->arena, FeDataset);
    ds->element = element;
    ds->loc = stage.loc;
    ds->source = (StageKind)stage.kind;
    fe_dataset_push(cx, ds, stage);
    return fe_dataset_value(cx, ds);
}

FeDataset *
fe_dataset_extend(Lower *cx, const FeDataset *ds, Loc loc)
{
    FeDataset *copy = NEW(cx->arena, FeDataset);
    *copy = *ds;
    copy->name = NULL;
    copy->loc = loc;
    copy->stages.data = NULL;
    copy->stages.len = copy->stages.cap = 0;
    copy->others.data = NULL;
    copy->others.len = copy->others.cap = 0;
    for (int i = 0; i < ds->stages.len; i++) {
        VEC_PUSH(cx->arena, copy->stages, ds->stages.data[i]);
        VEC_PUSH(cx->arena, copy->others, ds->others.data[i]);
    }
    return copy;
}

FeValue *
fe_dataset_declare(Lower *cx, const AstNode *n)
{
    FeData *data = fe_data(cx);
    data->declaring = n->dataset.name;
    FeValue *v = fe_eval(cx, n->dataset.value);
    data->declaring = NULL;
    if (fe_is_poison(v))
        return v;
    if (v->kind != FE_DATASET)
        return fe_error(cx, n->dataset.value->loc,
                        "%s where a dataset is "
                        "needed",
                        fe_describe(cx, v));
    FeDataset *ds = fe_dataset_extend(cx, v->dataset, n->loc);
    ds->name = fe_data_name(cx, n->dataset.name);
    return fe_dataset_value(cx, ds);
}

/* ---- sources ------------------------------------------------------------ */

FeValue *
fe_builtin_range(Lower *cx, const FeArgs *in)
{
    int64_t start = 0, stop = 0;
    bool has_stop = fe_arg(in, 1) != NULL;
    if (!fe_arg_int(cx, in, 0, has_stop ? "the start" : "the stop", &start) ||
        !fe_arg_int(cx, in, 1, "the stop", &stop))
        return &fe_poison;
    if (!has_stop) {
        stop = start;
        start = 0;
    }
    IrStage stage = {
        .kind = STAGE_range, .ints = {start, stop}, .loc = in->loc};
    FeValue *type =
        fe_value_type(cx->arena, ir_type_scalar(DT_i64, LOCAL_HOST));
    return fe_data_source(cx, type, stage);
}

/* ---- tensors in the program --------------------------------------------- */

/* Rows of the components of tensors(...), one component after the other. */
typedef struct Rows {
    Lower *cx;
    Loc loc;
    int64_t count; /* -1 before the first component */
    char *data;
    int64_t size;
} Rows;

/* Appends the elements of a list of constants. */
static bool
append_elements(Rows *r, FeValue *list, DType t)
{
    FeValues leaves = {0};
    Lower *cx = r->cx;
    size_t width = dtype_info[t].bytes;
    fe_value_leaves(cx->arena, list, &leaves);
    char *data =
        arena_alloc(cx->arena, (size_t)r->size + (size_t)leaves.len * width);
    if (r->size)
        memcpy(data, r->data, (size_t)r->size);
    r->data = data;
    for (int i = 0; i < leaves.len; i++) {
        Scalar s;
        if (leaves.data[i]->kind != FE_CONST) {
            fe_error(cx, r->loc,
                     "the rows of a dataset must be known when "
                     "the program is compiled");
            return false;
        }
        if (!fe_constant_as(cx, leaves.data[i], t, r->loc, &s))
            return false;
        scalar_store(t, r->data + r->size, i, s);
    }
    r->size += (int64_t)((size_t)leaves.len * width);
    return true;
}

/* The type of a row of a list. */
static FeValue *
component(Rows *r, FeValue *list)
{
    IrType t;
    Lower *cx = r->cx;
    if (!fe_type_of(cx, list, &t) || t.rank == 0 || list->kind != FE_NEST)
        return fe_error(cx, r->loc,
                        "a dataset of tensors is made of lists of "
                        "rows, not of %s",
                        fe_describe(cx, list));
    if (r->count >= 0 && r->count != t.dims[0].c)
        return fe_error(
            cx, r->loc,
            "lists of rows are of one length, and these have %lld and %lld",
            (long long)t.dims[0].c, (long long)r->count);
    r->count = t.dims[0].c;
    if (!append_elements(r, list, t.dtype))
        return &fe_poison;
    IrType row = ir_type_scalar(t.dtype, LOCAL_HOST);
    row.rank = t.rank - 1;
    memcpy(row.dims, t.dims + 1, (size_t)row.rank * sizeof *row.dims);
    return fe_value_type(cx->arena, row);
}

/* A list is a component, tuples are made of them. */
static FeValue *
components(Rows *r, FeValue *v)
{
    if (v->kind != FE_NEST || v->nest.kind == NEST_LIST)
        return component(r, v);
    FeValue **items = NEW_ARRAY(r->cx->arena, FeValue *, (size_t)v->nest.len);
    for (int i = 0; i < v->nest.len; i++)
        items[i] = components(r, v->nest.items[i]);
    if (v->nest.kind == NEST_NAMED)
        return fe_value_named(r->cx->arena, v->nest.len, v->nest.names, items);
    return fe_value_tuple(r->cx->arena, v->nest.len, items);
}

FeValue *
fe_builtin_tensors(Lower *cx, const FeArgs *in)
{
    Rows r = {.cx = cx, .loc = fe_arg_loc(in, 0), .count = -1};
    FeValue *element = components(&r, fe_arg(in, 0));
    if (fe_value_has_poison(element))
        return &fe_poison;
    if (r.count < 0)
        return fe_error(cx, r.loc,
                        "a dataset of tensors has one list of rows or more");
    IrStage stage = {.kind = STAGE_tensors,
                     .ints = {r.count},
                     .data = r.data,
                     .data_size = r.size,
                     .loc = in->loc};
    return fe_data_source(cx, element, stage);
}

/* ---- the table ---------------------------------------------------------- */

static const struct {
    const char *name, *params;
    FeBuiltinFn *lower;
} methods[] = {
#define METHOD(name, params, doc) {#name, params, fe_method_##name},
#include "frontend/builtins/builtins.def"
};

enum { NUM_METHODS = sizeof methods / sizeof *methods };

/* The name in d.name(...), which ends where the arguments begin; the whole call
 * where that is not on its first line. */
static Loc
name_loc(Lower *cx, const char *name, const FeCall *call)
{
    const char *text = fe_source(cx, call->loc), *last = NULL;
    const char *dotted = fe_format(cx, ".%s(", name);
    for (const char *at = text; at && (at = strstr(at, dotted)); at++)
        last = at;
    if (!last)
        return call->loc;
    Loc loc = call->loc;
    loc.col += (uint32_t)(last - text) + 1;
    loc.len = (uint16_t)strlen(name);
    return loc;
}

/* What is written in place of a stage that tf.data or PyTorch's datasets alone
 * have, or the name that was meant; NULL: neither is known. */
static const char *
method_note(Lower *cx, const char *name)
{
    static const char *const modules[] = {"tf.data.Dataset", "tf.data",
                                          "torch.utils.data"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        const FeForeign *f = fe_hint_elsewhere(modules[i], name);
        if (f && strncmp(f->theirs, modules[i], strlen(modules[i])) == 0)
            return fe_elsewhere_note(cx, modules[i], name);
    }
    const char *names[NUM_METHODS];
    for (int i = 0; i < NUM_METHODS; i++)
        names[i] = methods[i].name;
    const char *near = nearest_name(name, names, NUM_METHODS);
    return near ? fe_format(cx, "did you mean \"%s\"?", near) : NULL;
}

static FeValue *
unknown_method(Lower *cx, const char *name, const FeCall *call)
{
    return fe_error_note(cx, name_loc(cx, name, call), method_note(cx, name),
                         "a dataset has no \"%s\"", name);
}

bool
fe_dataset_has_method(const char *name)
{
    for (int i = 0; i < NUM_METHODS; i++)
        if (!strcmp(methods[i].name, name))
            return true;
    return false;
}

FeValue *
fe_dataset_method(Lower *cx, FeValue *ds, const char *name, const FeCall *call)
{
    FeArgs in = {.self = ds};
    for (int i = 0; i < NUM_METHODS; i++) {
        if (strcmp(methods[i].name, name) != 0)
            continue;
        if (!fe_bind_args(cx, call, methods[i].params, &in))
            return &fe_poison;
        return methods[i].lower(cx, &in);
    }
    return unknown_method(cx, name, call);
}
