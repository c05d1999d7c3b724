/*
 * value.c - values of expressions
 */
#include "frontend/value/value.h"

#include <assert.h>
#include <string.h>
#include "ir/ir.h"
#include "ir/type_text.h"

static const char *const kind_what[NUM_FE_KINDS] = {
#define FE_VALUE(KIND, what) [FE_##KIND] = what,
#include "frontend/value/values.def"
#undef FE_VALUE
};

static const char *const nest_what[] = {
    [NEST_TUPLE] = "a tuple",
    [NEST_NAMED] = "a named tuple",
    [NEST_LIST] = "a list",
    [NEST_SLICES] = "slices",
};

FeValue fe_poison = {.kind = FE_POISON};
FeValue fe_none = {.kind = FE_NONE};
FeValue fe_absent = {.kind = FE_NONE};

/* ---- making ------------------------------------------------------------- */

FeValue *
fe_value_new(Arena *a, FeKind kind)
{
    FeValue *v = NEW(a, FeValue);
    v->kind = kind;
    return v;
}

static FeValue *
constant(Arena *a, Scalar s, bool untyped)
{
    FeValue *v = fe_value_new(a, FE_CONST);
    v->constant.scalar = s;
    v->constant.untyped = untyped;
    return v;
}

FeValue *
fe_value_int(Arena *a, int64_t x)
{
    return constant(a, (Scalar){.dtype = DT_i64, .i = x}, true);
}

FeValue *
fe_value_float(Arena *a, double x)
{
    return constant(a, (Scalar){.dtype = DT_f64, .f = x}, true);
}

FeValue *
fe_value_bool(Arena *a, bool x)
{
    return constant(a, (Scalar){.dtype = DT_bool, .i = x}, false);
}

FeValue *
fe_value_scalar(Arena *a, Scalar s)
{
    return constant(a, s, false);
}

static FeValue *
length(Arena *a, Dim d, bool untyped)
{
    if (ir_dim_is_const(d))
        return constant(a, (Scalar){.dtype = DT_i64, .i = d.c}, untyped);
    FeValue *v = fe_value_new(a, FE_DIM);
    v->length.dim = d;
    v->length.untyped = untyped;
    return v;
}

FeValue *
fe_value_dim(Arena *a, Dim d)
{
    return length(a, d, true);
}

FeValue *
fe_value_length(Arena *a, Dim d)
{
    return length(a, d, false);
}

FeValue *
fe_value_tensor(Arena *a, IrValue *x)
{
    if (!x)
        return &fe_poison;
    FeValue *v = fe_value_new(a, FE_TENSOR);
    v->tensor = x;
    return v;
}

FeValue *
fe_value_param(Arena *a, IrParam *p)
{
    assert(p);
    FeValue *v = fe_value_new(a, FE_PARAM);
    v->param = p;
    return v;
}

FeValue *
fe_value_late_text(Arena *a, const char *param)
{
    FeValue *v = fe_value_new(a, FE_STRING);
    v->text.format = arena_printf(a, "{$%s}", param);
    v->text.len = (int64_t)strlen(v->text.format);
    return v;
}

FeValue *
fe_value_var(Arena *a, IrVar *x)
{
    assert(x);
    FeValue *v = fe_value_new(a, FE_VAR);
    v->var = x;
    return v;
}

/* text with its braces doubled, as a format has them. */
static const char *
escape_braces(Arena *a, const char *text)
{
    Str s = str_new(a);
    for (const char *p = text; *p; p++) {
        if (*p == '{' || *p == '}')
            str_addc(&s, *p);
        str_addc(&s, *p);
    }
    return str_text(&s);
}

FeValue *
fe_value_text(Arena *a, const char *text)
{
    assert(text);
    FeValue *v = fe_value_new(a, FE_STRING);
    v->text.text = arena_strdup(a, text);
    v->text.format = escape_braces(a, text);
    v->text.len = (int64_t)strlen(v->text.format);
    return v;
}

FeValue *
fe_value_type(Arena *a, IrType t)
{
    FeValue *v = fe_value_new(a, FE_TYPE);
    v->type = arena_copy(a, &t, sizeof t);
    return v;
}

/* Depth and leaves are limited by fe_limit_size, right after. */
static void
measure(FeNest *nest)
{
    nest->depth = 1;
    for (int i = 0; i < nest->len; i++) {
        const FeValue *item = nest->items[i];
        bool inner = item->kind == FE_NEST;
        nest->leaves += inner ? item->nest.leaves : 1;
        if (nest->leaves > INT32_MAX)
            nest->leaves = INT32_MAX;
        if (inner && item->nest.depth >= nest->depth)
            nest->depth = item->nest.depth + 1;
    }
}

static FeValue *
nest_new(Arena *a, FeNestKind kind, int n, FeValue *const *items)
{
    assert(n >= 0);
    FeValue *v = fe_value_new(a, FE_NEST);
    v->nest.kind = kind;
    v->nest.len = n;
    v->nest.items = NEW_ARRAY(a, FeValue *, (size_t)n);
    for (int i = 0; i < n; i++)
        v->nest.items[i] = items[i];
    measure(&v->nest);
    return v;
}

FeValue *
fe_value_tuple(Arena *a, int n, FeValue *const *items)
{
    return nest_new(a, NEST_TUPLE, n, items);
}

FeValue *
fe_value_list(Arena *a, int n, FeValue *const *items)
{
    return nest_new(a, NEST_LIST, n, items);
}

FeValue *
fe_value_named(Arena *a, int n, const char *const *names, FeValue *const *items)
{
    assert(n == 0 || names);
    FeValue *v = nest_new(a, NEST_NAMED, n, items);
    v->nest.names = NEW_ARRAY(a, const char *, (size_t)n);
    for (int i = 0; i < n; i++)
        v->nest.names[i] = names[i];
    return v;
}

FeValue *
fe_value_with_items(Arena *a, const FeValue *like, FeValue *const *items)
{
    assert(like->kind == FE_NEST);
    FeValue *v = nest_new(a, like->nest.kind, like->nest.len, items);
    v->nest.names = like->nest.names;
    return v;
}

/* ---- asking ------------------------------------------------------------- */

static const char *
constant_what(const FeValue *v)
{
    if (v->constant.scalar.dtype == DT_bool)
        return "a bool";
    return dtype_is_int(v->constant.scalar.dtype) ? "an integer" : "a number";
}

/* "an f32[n, 3]", "a bool". */
static const char *
tensor_what(Arena *a, const IrModule *m, const IrType *t)
{
    const char *name = dtype_info[t->dtype].name;
    return arena_printf(a, "%s %s%s", strchr("fi", name[0]) ? "an" : "a", name,
                        t->rank ? ir_dims_text(m, t->rank, t->dims) : "");
}

const char *
fe_value_describe(Arena *a, const IrModule *m, const FeValue *v)
{
    switch (v->kind) {
    case FE_CONST:
        return constant_what(v);
    case FE_NEST:
        return nest_what[v->nest.kind];
    case FE_TENSOR:
        return tensor_what(a, m, &v->tensor->type);
    case FE_VAR:
        return arena_printf(a, "the variable \"%s\"", v->var->name);
    case FE_PARAM:
        return arena_printf(a, "the param \"%s\"", v->param->name);
    default:
        return kind_what[v->kind];
    }
}

bool
fe_value_is_int(const FeValue *v, int64_t *x)
{
    if (v->kind != FE_CONST || !dtype_is_int(v->constant.scalar.dtype))
        return false;
    *x = v->constant.scalar.i;
    return true;
}

bool
fe_value_is_bool(const FeValue *v, bool *x)
{
    if (v->kind != FE_CONST || v->constant.scalar.dtype != DT_bool)
        return false;
    *x = v->constant.scalar.i != 0;
    return true;
}

bool
fe_value_has_poison(const FeValue *v)
{
    if (v->kind != FE_NEST)
        return fe_is_poison(v);
    for (int i = 0; i < v->nest.len; i++)
        if (fe_value_has_poison(v->nest.items[i]))
            return true;
    return false;
}

static bool
same_constant(const FeValue *a, const FeValue *b)
{
    const Scalar *x = &a->constant.scalar, *y = &b->constant.scalar;
    if (x->dtype != y->dtype || a->constant.untyped != b->constant.untyped)
        return false;
    if (dtype_is_float(x->dtype)) /* -0.0 is not 0.0, NaN is itself */
        return memcmp(&x->f, &y->f, sizeof x->f) == 0;
    return x->i == y->i;
}

static bool
same_nest(const FeNest *a, const FeNest *b)
{
    for (int i = 0; i < a->len; i++)
        if (!fe_value_same(a->items[i], b->items[i]))
            return false;
    return true;
}

static bool
same_text(const FeText *a, const FeText *b)
{
    return a->text && b->text && strcmp(a->text, b->text) == 0;
}

bool
fe_value_same(const FeValue *a, const FeValue *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case FE_POISON:
    case FE_NONE:
        return true;
    case FE_CONST:
        return same_constant(a, b);
    case FE_DIM:
        return ir_dim_equal(a->length.dim, b->length.dim) &&
               a->length.untyped == b->length.untyped;
    case FE_TENSOR:
        return a->tensor == b->tensor;
    case FE_PARAM:
        return a->param == b->param;
    case FE_VAR:
        return a->var == b->var;
    case FE_STRING:
        return same_text(&a->text, &b->text);
    case FE_TYPE:
        return a->type->dtype == b->type->dtype &&
               ir_type_same_shape(a->type, b->type);
    case FE_NEST:
        return fe_value_alike(a, b) && same_nest(&a->nest, &b->nest);
    case FE_FUNC:
        return a->func.fn == b->func.fn && a->func.scope == b->func.scope;
    case FE_MODULE:
        return a->module.module == b->module.module;
    case FE_INSTANCE:
        return a->instance == b->instance;
    case FE_SLOT:
        return a->slot == b->slot;
    case FE_DATASET:
        return a->dataset == b->dataset;
    case FE_DIST:
        return a->dist == b->dist;
    case FE_ITER:
        return a->iter == b->iter;
    case FE_REMOTE:
        return a->remote == b->remote;
    case FE_BUILTIN:
        return a->builtin == b->builtin;
    case FE_NAMESPACE:
        return a->space == b->space;
    case NUM_FE_KINDS:
        break;
    }
    return false;
}

/* ---- nests -------------------------------------------------------------- */

/* Nests are gone through; slices where they do not count as one. */
static bool
is_gone_through(const FeValue *v, bool slices_too)
{
    return v->kind == FE_NEST && (slices_too || v->nest.kind != NEST_SLICES);
}

static FeValue *
map_nest(Arena *a, FeValue *v, bool slices_too,
         FeValue *(*visit)(FeValue *, void *), void *data)
{
    if (!is_gone_through(v, slices_too))
        return visit(v, data);
    FeValues items = {0};
    for (int i = 0; i < v->nest.len; i++)
        VEC_PUSH(a, items,
                 map_nest(a, v->nest.items[i], slices_too, visit, data));
    return fe_value_with_items(a, v, items.data);
}

FeValue *
fe_value_map(Arena *a, FeValue *v, FeValue *(*visit)(FeValue *, void *),
             void *data)
{
    return map_nest(a, v, true, visit, data);
}

FeValue *
fe_value_map_parts(Arena *a, FeValue *v, FeValue *(*visit)(FeValue *, void *),
                   void *data)
{
    return map_nest(a, v, false, visit, data);
}

void
fe_value_items(Arena *a, const FeValue *nest, FeValues *out)
{
    assert(nest->kind == FE_NEST);
    for (int i = 0; i < nest->nest.len; i++)
        VEC_PUSH(a, *out, nest->nest.items[i]);
}

static void
list_value(Arena *a, FeValue *v, bool slices_too, FeValues *out)
{
    if (!is_gone_through(v, slices_too)) {
        VEC_PUSH(a, *out, v);
        return;
    }
    for (int i = 0; i < v->nest.len; i++)
        list_value(a, v->nest.items[i], slices_too, out);
}

void
fe_value_leaves(Arena *a, FeValue *v, FeValues *out)
{
    list_value(a, v, true, out);
}

void
fe_value_parts(Arena *a, FeValue *v, FeValues *out)
{
    list_value(a, v, false, out);
}

static FeValue *
next_leaf(FeValue *leaf, void *data)
{
    FeValue *const **leaves = data;
    (void)leaf;
    return *(*leaves)++;
}

FeValue *
fe_value_rebuild(Arena *a, FeValue *v, FeValue *const **leaves)
{
    return fe_value_map(a, v, next_leaf, leaves);
}

FeValue *
fe_value_rebuild_parts(Arena *a, FeValue *v, FeValue *const **parts)
{
    return fe_value_map_parts(a, v, next_leaf, parts);
}

static bool
same_names(const FeNest *a, const FeNest *b)
{
    for (int i = 0; a->names && i < a->len; i++)
        if (a->names[i] != b->names[i])
            return false;
    return true;
}

bool
fe_value_alike(const FeValue *a, const FeValue *b)
{
    if (a->kind != FE_NEST || b->kind != FE_NEST)
        return a->kind != FE_NEST && b->kind != FE_NEST;
    const FeNest *x = &a->nest, *y = &b->nest;
    if (x->kind != y->kind || x->len != y->len || !same_names(x, y))
        return false;
    for (int i = 0; i < x->len; i++)
        if (!fe_value_alike(x->items[i], y->items[i]))
            return false;
    return true;
}

FeValue *
fe_nest_field(const FeNest *nest, const char *name)
{
    for (int i = 0; nest->names && i < nest->len; i++)
        if (nest->names[i] == name)
            return nest->items[i];
    return NULL;
}
