/*
 * lower_nest.c - tuples, named tuples, lists: making them and taking them apart
 *
 * Nests exist only while compiling: their items are values like any other.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/elsewhere.h"
#include "frontend/context/eval.h"
#include "frontend/context/hint.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/slices.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/call.h"
#include "frontend/lower/lower_impl.h"
#include "frontend/lower/stmt.h"

#include <string.h>

/* ---- making ------------------------------------------------------------- */

static FeValue **
eval_items(Lower *cx, const AstList *items)
{
    FeValue **out = NEW_ARRAY(cx->arena, FeValue *, (size_t)items->len);
    for (int i = 0; i < items->len; i++)
        out[i] = fe_eval_item(cx, items->data[i], NULL, i);
    return out;
}

FeValue *
fe_eval_tuple(Lower *cx, const AstNode *n)
{
    const AstList *items = &n->tuple.items;
    return fe_value_tuple(cx->arena, items->len, eval_items(cx, items));
}

FeValue *
fe_eval_list(Lower *cx, const AstNode *n)
{
    const AstList *items = &n->list.items;
    return fe_value_list(cx->arena, items->len, eval_items(cx, items));
}

FeValue *
fe_eval_named_tuple(Lower *cx, const AstNode *n)
{
    const AstList *items = &n->named_tuple.items;
    if (items->len > limit_value(LIMIT_fields))
        return fe_report_limit(cx, n->loc, LIMIT_fields);
    const char **names = NEW_ARRAY(cx->arena, const char *, (size_t)items->len);
    FeValue **values = NEW_ARRAY(cx->arena, FeValue *, (size_t)items->len);
    for (int i = 0; i < items->len; i++) {
        const AstNode *item = items->data[i];
        names[i] = item->named.name;
        for (int k = 0; k < i; k++)
            if (names[k] == names[i])
                fe_error(cx, item->loc, "\"%s\" is there twice", names[i]);
        values[i] = fe_eval_item(cx, item->named.value, names[i], i);
    }
    return fe_value_named(cx->arena, items->len, names, values);
}

/* ---- ranges ------------------------------------------------------------- */

static bool
check_bound(Lower *cx, FeValue *v, Loc loc)
{
    IrType t;
    if (fe_is_poison(v))
        return false;
    if (fe_type_of(cx, v, &t) && t.rank == 0 && dtype_is_int(t.dtype))
        return true;
    fe_error(cx, loc, "the bound of a range is an integer, not %s",
             fe_describe(cx, v));
    return false;
}

static bool
is_untyped(const FeValue *v)
{
    return v->kind == FE_CONST && v->constant.untyped;
}

/* v, a bound, at the dtype of the other one. */
static FeValue *
bound_as(Lower *cx, FeValue *v, FeValue *other, Loc loc)
{
    IrType t;
    Scalar s;
    if (!is_untyped(v))
        return v;
    if (is_untyped(other) || !fe_type_of(cx, other, &t))
        return fe_default_typed(cx, v, loc);
    if (!fe_constant_as(cx, v, t.dtype, loc, &s))
        return &fe_poison;
    return fe_value_scalar(cx->arena, s);
}

bool
fe_range(Lower *cx, const AstNode *range, FeValue **from, FeValue **to)
{
    FeValue *a = fe_eval(cx, range->range.from);
    FeValue *b = fe_eval(cx, range->range.to);
    bool ok = check_bound(cx, a, range->range.from->loc);
    if (!check_bound(cx, b, range->range.to->loc) || !ok)
        return false;
    *from = bound_as(cx, a, b, range->range.from->loc);
    *to = bound_as(cx, b, a, range->range.to->loc);
    return !fe_is_poison(*from) && !fe_is_poison(*to);
}

bool
fe_range_is_known(const FeValue *from, const FeValue *to)
{
    int64_t a, b;
    return fe_value_is_int(from, &a) && fe_value_is_int(to, &b);
}

bool
fe_range_count(Lower *cx, FeValue *from, FeValue *to, Loc loc, int64_t *count)
{
    int64_t a, b;
    if (!fe_value_is_int(from, &a) || !fe_value_is_int(to, &b))
        return false;
    if (__builtin_sub_overflow(b, a, count))
        *count = b > a ? INT64_MAX : 0;
    if (*count < 0)
        *count = 0;
    if (*count <= limit_value(LIMIT_unroll))
        return true;
    fe_report_limit(cx, loc, LIMIT_unroll);
    return false;
}

FeValue *
fe_range_item(Lower *cx, FeValue *from, int64_t i)
{
    Scalar s = from->constant.scalar;
    return fe_value_scalar(cx->arena, scalar_int(s.dtype, s.i + i));
}

/* ---- comprehensions ----------------------------------------------------- */

static bool
range_items(Lower *cx, const AstNode *range, FeValues *out)
{
    FeValue *from, *to;
    int64_t count, a, b;
    if (!fe_range(cx, range, &from, &to) ||
        !fe_require_int(cx, from, "where a list begins", range->loc, &a) ||
        !fe_require_int(cx, to, "where a list ends", range->loc, &b) ||
        !fe_range_count(cx, from, to, range->loc, &count))
        return false;
    for (int64_t i = 0; i < count; i++)
        VEC_PUSH(cx->arena, *out, fe_range_item(cx, from, i));
    return true;
}

/* The items that a comprehension iterates over. */
static bool
iterated_items(Lower *cx, const AstNode *iter, FeValues *out)
{
    if (iter->kind == AST_RANGE)
        return range_items(cx, iter, out);
    FeValue *v = fe_eval(cx, iter);
    if (v->kind == FE_NEST) {
        fe_value_items(cx->arena, v, out);
        return true;
    }
    const char *count = fe_count_of(cx, iter);
    if (!fe_is_poison(v))
        fe_error_note(cx, iter->loc,
                      count ? fe_format(cx, "write %s in place of %s", count,
                                        fe_ast_text(cx->arena, iter))
                            : NULL,
                      "a list goes over a range or a nest, not %s",
                      fe_describe(cx, v));
    return false;
}

/* The item for one value of the pattern; NULL when the condition excludes it.
 */
static FeValue *
one_item(Lower *cx, const AstNode *n, FeValue *value, int number)
{
    bool wanted = true;
    const AstNode *cond = n->comprehension.cond;
    FeScope *around = cx->scope;
    cx->scope = fe_scope_new(cx, around, SCOPE_BLOCK);
    fe_bind_pattern(cx, n->comprehension.pattern, value, false);
    if (cond && !fe_require_bool(cx, fe_eval(cx, cond),
                                 "the condition of a list", cond->loc, &wanted))
        wanted = false;
    FeValue *item =
        wanted ? fe_eval_item(cx, n->comprehension.value, NULL, number) : NULL;
    cx->scope = around;
    return item;
}

FeValue *
fe_eval_comprehension(Lower *cx, const AstNode *n)
{
    FeValues over = {0}, items = {0};
    int64_t errors = cx->num_errors;
    if (!iterated_items(cx, n->comprehension.iter, &over))
        return &fe_poison;
    for (int i = 0; i < over.len && cx->num_errors == errors; i++) {
        FeValue *item = one_item(cx, n, over.data[i], items.len);
        if (item)
            VEC_PUSH(cx->arena, items, item);
    }
    if (cx->num_errors != errors)
        return &fe_poison;
    return fe_value_list(cx->arena, items.len, items.data);
}

/* ---- zip ---------------------------------------------------------------- */

/* The gradients of other variables than those that an optimizer is given. */
static bool
refuse_gradients(Lower *cx, int num_gradients, int num_vars)
{
    const AstNode *vars = fe_written_name(cx, "vars");
    const AstNode *grads = fe_written_name(cx, "grads");
    if (!vars || !grads)
        return false;
    bool is_grad = grads->kind == AST_CALL && grads->call.args.len == 2;
    const char *own = fe_ast_text(cx->arena, vars);
    const char *text =
        is_grad ? fe_edit(cx, grads->loc, grads->call.args.data[1]->loc, own)
                : NULL;
    FeOwn at = {.loc = grads->loc, .calls = fe_own_call(cx).calls};
    fe_error_own(cx, &at, NO_LOC,
                 fe_format(cx, "write %s, of the variables that come before it",
                           text ? text : fe_format(cx, "grad(loss, %s)", own)),
                 "there are %d gradients for %d variables", num_gradients,
                 num_vars);
    return true;
}

static void
refuse_lengths(Lower *cx, const FeArg *arg, int len, int other)
{
    bool is_library = diag_is_library(cx->diag, arg->loc.file);
    if (is_library && refuse_gradients(cx, len, other))
        return;
    fe_error_note(
        cx, arg->loc,
        is_library ? "variables and their own gradients: apply(vars, "
                     "grad(loss, vars))"
                   : NULL,
        "zip goes over nests of one length, and these have %d and %d items",
        len, other);
}

static bool
check_zipped(Lower *cx, const FeArg *arg, int len)
{
    const FeValue *v = arg->value;
    if (fe_is_poison(v))
        return false;
    if (arg->name)
        fe_error(cx, arg->loc, "zip has no argument \"%s\"", arg->name);
    else if (v->kind != FE_NEST)
        fe_error(cx, arg->loc, "zip goes over nests, not %s",
                 fe_describe(cx, v));
    else if (len >= 0 && v->nest.len != len)
        refuse_lengths(cx, arg, len, v->nest.len);
    else
        return true;
    return false;
}

FeValue *
fe_zip(Lower *cx, const FeCall *call)
{
    FeValues rows = {0};
    bool ok = true;
    if (call->num_args == 0)
        return fe_error(cx, call->loc, "zip needs nests to go over");
    const FeValue *first = call->args[0].value;
    int len = first->kind == FE_NEST ? first->nest.len : -1;
    for (int i = 0; i < call->num_args; i++)
        ok = check_zipped(cx, &call->args[i], len) && ok;
    if (!ok)
        return &fe_poison;
    FeValue **row = NEW_ARRAY(cx->arena, FeValue *, (size_t)call->num_args);
    for (int k = 0; k < len; k++) {
        for (int i = 0; i < call->num_args; i++)
            row[i] = call->args[i].value->nest.items[k];
        VEC_PUSH(cx->arena, rows,
                 fe_value_tuple(cx->arena, call->num_args, row));
    }
    return fe_value_list(cx->arena, rows.len, rows.data);
}

/* ---- taking apart ------------------------------------------------------- */

static const char *
field_names(Lower *cx, const FeNest *nest)
{
    Str s = str_new(cx->arena);
    for (int i = 0; i < nest->len; i++)
        str_addf(&s, "%s%s", i ? ", " : "it has ", nest->names[i]);
    return str_text(&s);
}

static const char *
nearest_field(Lower *cx, const FeValue *v, const char *name)
{
    if (v->kind == FE_NEST && v->nest.names)
        return nearest_name(name, v->nest.names, v->nest.len);
    if (v->kind == FE_INSTANCE)
        return fe_nearest_member(cx, v->instance->scope, name);
    return NULL;
}

/* Whether the items of a list have that field. */
static bool
items_have(const FeValue *v, const char *name)
{
    if (v->kind != FE_NEST || v->nest.kind != NEST_LIST || v->nest.len == 0)
        return false;
    const FeValue *item = v->nest.items[0];
    return item->kind == FE_INSTANCE
               ? fe_instance_member(item->instance, name) != NULL
               : item->kind == FE_NEST && fe_nest_field(&item->nest, name);
}

/* Of x.to(f64) or x.to(torch.float64); NULL of another field, or a device. */
static const char *
cast_note(Lower *cx, const char *name, const char *object, const char *args)
{
    DType t;
    if (strcmp(name, "to") != 0 || !args)
        return NULL;
    const char *point = strrchr(args, '.'), *dtype = point ? point + 1 : args;
    const char *ours = fe_hint_foreign(dtype);
    return dtype_by_name(ours ? ours : dtype, &t)
               ? fe_format(cx, "write %s(%s)", dtype_info[t].name, object)
               : NULL;
}

/* Of x.name(args), or of x.name where args is NULL; NULL: there is no such
 * function. */
static const char *
function_note(Lower *cx, FeValue *v, const char *name, const char *object,
              const char *args)
{
    IrType t;
    FeElsewhere call = {.name = name,
                        .object = object,
                        .rank = fe_type_of(cx, v, &t) ? t.rank : -1,
                        .args = args ? args : ""};
    const FeBuiltin *b = fe_builtin_find(name);
    const char *here = args && *args ? fe_call_here(cx, &call)
                       : args        ? fe_other_call_here(cx, &call)
                                     : NULL;
    bool is_same = here && strncmp(here, name, strlen(name)) == 0;
    if (here)
        return fe_format(cx, is_same ? "it is a function: %s" : "write %s",
                         here);
    return b ? fe_format(cx, "it is a function: %s(%s%s)", name, object,
                         fe_builtin_needs(cx->arena, b))
             : NULL;
}

static const char *
field_note(Lower *cx, FeValue *v, const AstNode *n)
{
    const char *name = n->field.name, *near = nearest_field(cx, v, name);
    const char *object = fe_ast_text(cx->arena, n->field.value);
    if (near)
        return fe_format(cx, "did you mean \"%s\"?", near);
    if (v->kind == FE_NEST && v->nest.names)
        return field_names(cx, &v->nest);
    if (items_have(v, name))
        return fe_format(cx, "its items have: [x.%s for x in %s]", name,
                         object);
    const char *args = fe_arguments_behind(cx, n->loc);
    if (v->kind == FE_DIST && fe_dataset_has_method(name))
        return fe_format(cx,
                         "a dataset has it: .%s(%s) stands behind the dataset, "
                         "within distribute(...)",
                         name, args ? args : "");
    const char *cast = cast_note(cx, name, object, args);
    if (cast)
        return cast;
    const char *hint = fe_hint_method(name, args);
    if (hint)
        return fe_filled(cx, hint, object, args);
    Loc behind = {n->loc.line, n->loc.col + n->loc.len, 0, n->loc.file};
    const char *rest = fe_line_from(cx, behind);
    if (!args && rest && *rest == '(' && fe_builtin_find(name))
        return fe_format(cx, "it is a function: %s(%s, ...)", name, object);
    const char *function = function_note(cx, v, name, object, args);
    return function ? function : fe_elsewhere_note(cx, NULL, name);
}

/* Of a module that was named and not called. */
static const char *
made_note(Lower *cx, const FeValue *v, const AstNode *n)
{
    const AstNode *m = v->module.module;
    const char *object = fe_ast_text(cx->arena, n->field.value);
    const char *args = m->module.params.len ? "..." : "";
    bool is_itself = strcmp(object, m->module.name) == 0;
    return fe_format(cx,
                     "a call makes an instance, which has it: let %s = %s(%s)",
                     is_itself ? "x" : object, m->module.name, args);
}

static FeValue *
unknown_field(Lower *cx, FeValue *v, const AstNode *n)
{
    const char *name = n->field.name;
    const char *note =
        v->kind == FE_MODULE ? made_note(cx, v, n) : field_note(cx, v, n);
    return fe_error_note(cx, n->loc, note, "%s has no field \"%s\"",
                         fe_describe(cx, v), name);
}

static FeValue *
instance_field(Lower *cx, FeValue *v, const AstNode *n)
{
    FeBinding *b = fe_instance_member(v->instance, n->field.name);
    return b ? fe_binding_value(cx, b) : unknown_field(cx, v, n);
}

/* NumPy's names for what builtins tell of a tensor, and TensorFlow's for what
 * they tell of a variable. */
static const struct {
    const char *field, *builtin;
} attributes[] = {
    {"shape", "shape"}, {"T", "transpose"},   {"dtype", "dtype"},
    {"ndim", "rank"},   {"device", "device"}, {"devices", "devices"},
};

static FeValue *
tensor_field(Lower *cx, FeValue *v, const AstNode *n)
{
    IrType t;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        if (strcmp(attributes[i].field, n->field.name) != 0)
            continue;
        FeArg x = {.value = v, .node = n->field.value, .loc = n->loc};
        FeCall call = {attributes[i].builtin, &x, 1, n->loc};
        return fe_type_of(cx, v, &t) || fe_is_slices(v)
                   ? fe_builtin_call(cx, fe_builtin_find(call.name), &call)
                   : unknown_field(cx, v, n);
    }
    return unknown_field(cx, v, n);
}

FeValue *
fe_field_of(Lower *cx, FeValue *v, const AstNode *n)
{
    FeValue *field;
    switch (v->kind) {
    case FE_POISON:
        return v;
    case FE_NEST:
        field = fe_nest_field(&v->nest, n->field.name);
        return field ? field : tensor_field(cx, v, n);
    case FE_INSTANCE:
        return instance_field(cx, v, n);
    case FE_NAMESPACE:
        return fe_namespace_field(cx, v->space,
                                  fe_ast_text(cx->arena, n->field.value),
                                  n->field.name, n->loc);
    default:
        return tensor_field(cx, v, n);
    }
}

FeValue *
fe_eval_field(Lower *cx, const AstNode *n)
{
    return fe_field_of(cx, fe_eval(cx, n->field.value), n);
}

/* The error that v, which n takes an element of, has none.  An argument of the
 * library was to be a tuple. */
static FeValue *
no_elements(Lower *cx, const FeValue *v, const AstNode *n)
{
    FeOwn at = fe_own(cx, n->element.value);
    const char *text = fe_own_text(cx, &at);
    bool is_argument = diag_is_library(cx->diag, n->loc.file) && text;
    if (!is_argument)
        at = fe_own_at(cx, n->loc);
    if (is_argument && n->element.value->kind == AST_NAME)
        return fe_error_own(cx, &at, NO_LOC,
                            fe_format(cx, "write (%s, %s)", text, text),
                            "\"%s\" takes a tuple, not %s",
                            n->element.value->name.text, fe_describe(cx, v));
    return fe_error_own(cx, &at, NO_LOC, NULL, "%s has no element %lld",
                        fe_describe(cx, v), (long long)n->element.index);
}

FeValue *
fe_eval_element(Lower *cx, const AstNode *n)
{
    FeValue *v = fe_eval(cx, n->element.value);
    int64_t i = n->element.index;
    if (fe_is_poison(v))
        return v;
    if (v->kind != FE_NEST)
        return no_elements(cx, v, n);
    if (i >= v->nest.len)
        return fe_error(cx, n->loc, "there is no element %lld: it has %d",
                        (long long)i, v->nest.len);
    return v->nest.items[i];
}
