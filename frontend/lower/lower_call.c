/*
 * lower_call.c - calls: arguments, and who is called
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/elsewhere.h"
#include "frontend/context/eval.h"
#include "frontend/context/hint.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/call.h"
#include "frontend/lower/lower_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- arguments ---------------------------------------------------------- */

/* sum, mean, ... as the operation; a name of something else is NULL. */
static FeValue *
enum_name_value(Lower *cx, const char *word)
{
    const FeBuiltin *b = fe_builtin_find(word);
    if (!b)
        return fe_find_binding(cx, word).binding
                   ? NULL
                   : fe_value_text(cx->arena, word);
    FeValue *v = fe_value_new(cx->arena, FE_BUILTIN);
    v->builtin = b;
    return v;
}

static bool
takes_enum_name(const FeValue *callee, const FeArg *arg, int index)
{
    return callee && callee->kind == FE_BUILTIN &&
           arg->node->kind == AST_NAME &&
           fe_builtin_takes_enum_name(callee->builtin, arg->name, index);
}

static FeArg
eval_arg(Lower *cx, const AstNode *arg, int index, const FeValue *callee)
{
    bool named = arg->kind == AST_NAMED;
    const AstNode *node = named ? arg->named.value : arg;
    FeArg out = {.node = node, .loc = node->loc, .whole = arg->loc};
    out.name = named ? arg->named.name : NULL;
    if (takes_enum_name(callee, &out, index))
        out.value = enum_name_value(cx, node->name.text);
    if (!out.value)
        out.value = fe_eval_item(cx, node, out.name, index);
    return out;
}

FeCall
fe_call_args(Lower *cx, const AstNode *call, const FeValue *callee,
             const char *name)
{
    const AstList *args = &call->call.args;
    FeCall out = {.name = name, .num_args = args->len, .loc = call->loc};
    out.args = NEW_ARRAY(cx->arena, FeArg, (size_t)args->len);
    for (int i = 0; i < args->len; i++)
        out.args[i] = eval_arg(cx, args->data[i], i, callee);
    return out;
}

static const char *
arguments_note(Lower *cx, int n, const char *const *names)
{
    Str s = str_new(cx->arena);
    for (int i = 0; i < n; i++)
        str_addf(&s, "%s%s", i ? ", " : "it takes ", names[i]);
    return n ? str_text(&s) : "it takes none";
}

const char *
fe_written_arguments(Lower *cx, const FeCall *call)
{
    Str s = str_new(cx->arena);
    for (int i = 0; i < call->num_args; i++) {
        const FeArg *arg = &call->args[i];
        if (!arg->node)
            return NULL;
        str_addf(&s, "%s%s%s%s", i ? ", " : "", arg->name ? arg->name : "",
                 arg->name ? " = " : "", fe_ast_text(cx->arena, arg->node));
    }
    return str_text(&s);
}

/* The builtin called as elsewhere: zeros(3, 4), transpose(x, 1, 2),
 * log(x, 2.0). NULL where dropping arguments is all that is known of it. */
static const char *
elsewhere_note(Lower *cx, const FeCall *call)
{
    static const char *const names[] = {"reshape", "transpose", "flatten",
                                        "zeros",   "ones",      "log",
                                        "range",   "pad",       "recompute"};
    bool is_one = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is_one = is_one || strcmp(names[i], call->name) == 0;
    if (!is_one || fe_find_binding(cx, intern(cx->names, call->name)).binding)
        return NULL;
    IrType t;
    const char *args = fe_written_arguments(cx, call);
    if (!args)
        return NULL;
    FeElsewhere of = {.name = call->name,
                      .rank =
                          fe_type_of(cx, call->args[0].value, &t) ? t.rank : -1,
                      .args = args};
    return fe_other_call_here(cx, &of);
}

/* The call with so many of its arguments as the function takes. */
static const char *
too_many_note(Lower *cx, const FeCall *call, int n, const char *const *names)
{
    const char *here = elsewhere_note(cx, call);
    Str s = str_new(cx->arena);
    if (here)
        return fe_format(cx, "%s: write %s", arguments_note(cx, n, names),
                         here);
    str_addf(&s, "%s: write %s(", arguments_note(cx, n, names), call->name);
    for (int i = 0; i < n; i++) {
        const AstNode *node = call->args[i].node;
        if (!node || call->args[i].name)
            return arguments_note(cx, n, names);
        str_addf(&s, "%s%s", i ? ", " : "", fe_ast_text(cx->arena, node));
    }
    str_add(&s, ")");
    return str_text(&s);
}

/* print("value %f", x): print("value {x:f}"). */
static const char *
print_note(Lower *cx, const FeCall *call)
{
    const AstNode *first = call->args[0].node;
    const char *text =
        first && first->kind == AST_STRING ? fe_source(cx, first->loc) : NULL;
    Str s = str_new(cx->arena);
    int next = 1;
    if (!text && !first)
        return "values stand in the string: print(\"{x} {y}\")";
    if (!text)
        text = fe_format(cx, "\"{%s}\"", fe_ast_text(cx->arena, first));
    for (; *text; text++) {
        int len = *text == '%' ? (int)strspn(text + 1, "0123456789.+-") + 2 : 0;
        bool is_end = *text == '"' && !text[1];
        const AstNode *arg =
            next < call->num_args ? call->args[next].node : NULL;
        if (arg && len && strchr("dfigesx", text[len - 1])) {
            fe_add_hole(&s, text, len, fe_ast_text(cx->arena, arg));
            text += len - 1;
            next++;
            continue;
        }
        for (; is_end && next < call->num_args; next++)
            if (call->args[next].node && !call->args[next].name)
                str_addf(&s, "%s{%s}",
                         s.len > 1 && s.data[s.len - 1] == ' ' ? "" : " ",
                         fe_ast_text(cx->arena, call->args[next].node));
        str_addc(&s, *text);
    }
    return fe_format(cx, "values stand in the string: print(%s)", str_text(&s));
}

/* size = (3, 3) of kernel_size = 3, which elsewhere is of both axes. */
static const char *
renamed_note(Lower *cx, const FeCall *call, const FeArg *arg, const char *ours)
{
    const char *text = fe_ast_text(cx->arena, arg->node);
    bool is_one = strcmp(ours, "size") == 0 && arg->value->kind != FE_NEST;
    if (is_one && strstr(call->name, "2d"))
        text = fe_format(cx, "(%s, %s)", text, text);
    if (is_one && strstr(call->name, "3d"))
        text = fe_format(cx, "(%s, %s, %s)", text, text, text);
    return fe_format(cx, "write %s = %s", ours, text);
}

/* pad(x, low, high, value = -1.0), which is constant_values in NumPy. */
static bool
is_padding_value(const FeCall *call, const FeArg *arg)
{
    bool is_value = strcmp(arg->name, "value") == 0 ||
                    strcmp(arg->name, "constant_values") == 0;
    return is_value && strcmp(call->name, "pad") == 0;
}

static bool
unknown_argument(Lower *cx, const FeCall *call, const FeArg *arg, int n,
                 const char *const *names)
{
    const char *near = nearest_name(arg->name, names, n);
    const char *ours = fe_hint_argument(arg->name), *here = NULL;
    for (int i = 0; i < n && !here; i++)
        here = ours && strcmp(names[i], ours) == 0 ? ours : NULL;
    /* betas are two numbers, of which beta1 takes one. */
    bool is_renamed = here && arg->node && strcmp(here, "beta1") != 0;
    near = near ? near : here;
    fe_error_note(cx, arg->whole,
                  is_padding_value(call, arg)
                      ? "it pads with zeros: concat([fill((len(x), 1), value), "
                        "x], axis = 1) has a column of another value"
                  : is_renamed ? renamed_note(cx, call, arg, here)
                  : near       ? fe_format(cx, "did you mean \"%s\"?", near)
                               : arguments_note(cx, n, names),
                  "%s has no argument \"%s\"", call->name, arg->name);
    return false;
}

static bool
place_named(Lower *cx, const FeCall *call, FeArg *arg, int n,
            const char *const *names, FeArg **out)
{
    int at = 0;
    while (at < n && strcmp(names[at], arg->name) != 0)
        at++;
    if (at == n)
        return unknown_argument(cx, call, arg, n, names);
    if (out[at]) {
        fe_error(cx, arg->loc, "the argument \"%s\" is given twice", arg->name);
        return false;
    }
    out[at] = arg;
    return true;
}

bool
fe_match_args(Lower *cx, const FeCall *call, int n, const char *const *names,
              FeArg **out)
{
    bool ok = true;
    for (int i = 0; i < n; i++)
        out[i] = NULL;
    for (int i = 0; i < call->num_args; i++) {
        FeArg *arg = &call->args[i];
        if (arg->name) {
            ok = place_named(cx, call, arg, n, names, out) && ok;
        } else if (i < n) {
            out[i] = arg;
        } else {
            fe_error_note(cx, arg->loc,
                          strcmp(call->name, "print") == 0
                              ? print_note(cx, call)
                              : too_many_note(cx, call, n, names),
                          "%s takes %d argument%s, and %d are given",
                          call->name, n, n == 1 ? "" : "s", call->num_args);
            return false;
        }
    }
    return ok;
}

/* ---- callees ------------------------------------------------------------ */

const char *
fe_callee_name(const FeValue *callee)
{
    switch (callee->kind) {
    case FE_FUNC:
        return callee->func.fn->fn.name ? callee->func.fn->fn.name
                                        : "the function";
    case FE_MODULE:
        return callee->module.module->module.name;
    case FE_INSTANCE:
        return callee->instance->path;
    case FE_BUILTIN:
        return fe_builtin_name(callee->builtin);
    case FE_TYPE:
        return dtype_info[callee->type->dtype].name;
    default:
        return "this";
    }
}

static FeValue *
call_type(Lower *cx, const FeValue *type, const FeCall *call)
{
    static const char *const names[] = {"x"};
    FeArg *x;
    if (type->type->rank)
        return fe_error(cx, call->loc, "a type with a shape casts nothing");
    if (!fe_match_args(cx, call, 1, names, &x))
        return &fe_poison;
    if (!x)
        return fe_error(cx, call->loc, "%s needs something to cast",
                        call->name);
    return fe_cast(cx, x->value, type->type->dtype, call->loc);
}

static FeValue *
call_instance(Lower *cx, const FeInstance *instance, const FeCall *call,
              const char *verb)
{
    const char *name = intern(cx->names, "call");
    FeBinding *b = fe_instance_member(instance, name);
    const FeBinding *forward =
        fe_instance_member(instance, intern(cx->names, "forward"));
    if (!b)
        return fe_error_show(
            cx, call->loc, forward ? forward->loc : NO_LOC,
            forward ? "write fn call in place of fn forward" : NULL,
            "%s has no function \"call\" and cannot be called", instance->path);
    return fe_call(cx, fe_binding_value(cx, b), call, verb);
}

bool
fe_is_number_text(const char *text)
{
    char *end;
    strtod(text, &end);
    return *text && !*end;
}

const char *
fe_unquoted_note(Lower *cx, const FeValue *v)
{
    const char *name = v->kind == FE_STRING ? v->text.text : NULL;
    if (name && fe_is_number_text(name))
        return fe_format(cx, "a number is given without quotes: %s", name);
    if (!name || (!fe_builtin_find(name) &&
                  !fe_find_binding(cx, intern(cx->names, name)).binding))
        return NULL;
    return fe_format(cx, "a function is given without quotes: %s", name);
}

/* replica_id() and num_replicas(), which are functions elsewhere. */
static const char *
called_note(Lower *cx, FeValue *callee, const FeCall *call)
{
    IrType t;
    return !call->num_args && fe_type_of(cx, callee, &t)
               ? "leave the () out: it is a value, not a function"
               : fe_unquoted_note(cx, callee);
}

FeValue *
fe_call(Lower *cx, FeValue *callee, const FeCall *call, const char *verb)
{
    switch (callee->kind) {
    case FE_POISON:
        return callee;
    case FE_FUNC:
        return fe_call_func(cx, callee, call, verb);
    case FE_MODULE:
        return fe_call_module(cx, callee, call);
    case FE_INSTANCE:
        return call_instance(cx, callee->instance, call, verb);
    case FE_BUILTIN:
        return fe_builtin_call(cx, callee->builtin, call);
    case FE_TYPE:
        return call_type(cx, callee, call);
    default:
        return fe_error_note(cx, call->loc, called_note(cx, callee, call),
                             "%s cannot be called", fe_describe(cx, callee));
    }
}

/* Whether the fields of a named tuple, in order, are to fill the parameters: as
 * many, at least two of which need a value.  None has the name of another
 * field, which would be mistaken for it. */
static bool
fills_params(const FeNest *nest, const AstList *params)
{
    int needed = 0;
    if (nest->kind != NEST_NAMED || nest->len != params->len)
        return false;
    for (int i = 0; i < nest->len; i++) {
        const AstNode *formal = params->data[i];
        needed += !formal->formal.value;
        for (int k = 0; k < nest->len; k++)
            if (k != i && strcmp(nest->names[k], formal->formal.name) == 0)
                return false;
    }
    return needed > 1;
}

/* Whether a tuple given to f is to fill its parameters. */
static bool
is_spread(const FeValue *f, int n, FeValue *const *values)
{
    if (n != 1 || values[0]->kind != FE_NEST || f->kind != FE_FUNC)
        return false;
    const FeNest *nest = &values[0]->nest;
    const AstList *params = &f->func.fn->fn.params;
    return nest->kind == NEST_TUPLE ? params->len != 1
                                    : fills_params(nest, params);
}

FeValue *
fe_call_with(Lower *cx, FeValue *f, int n, FeValue *const *values, bool spread,
             const char *verb, Loc loc)
{
    if (spread && is_spread(f, n, values)) {
        n = values[0]->nest.len;
        values = values[0]->nest.items;
    }
    FeCall call = {.name = fe_callee_name(f), .num_args = n, .loc = loc};
    call.args = NEW_ARRAY(cx->arena, FeArg, (size_t)n);
    for (int i = 0; i < n; i++)
        call.args[i] = (FeArg){.value = values[i], .loc = loc};
    return fe_call(cx, f, &call, verb);
}

/* ---- CALL --------------------------------------------------------------- */

static bool
is_append(const FeValue *object, const char *name)
{
    return object->kind == FE_NEST && object->nest.kind == NEST_LIST &&
           strcmp(name, "append") == 0;
}

/* xs.append(e): the mut xs becomes append(xs, e). */
static FeValue *
append(Lower *cx, FeValue *list, const AstNode *n)
{
    const AstNode *target = n->call.callee->field.value;
    FeCall call = fe_call_args(cx, n, NULL, "append");
    FeArg *args = NEW_ARRAY(cx->arena, FeArg, (size_t)call.num_args + 1);
    args[0] = (FeArg){.value = list, .node = target, .loc = target->loc};
    for (int i = 0; i < call.num_args; i++)
        args[i + 1] = call.args[i];
    call.args = args;
    call.num_args++;
    FeValue *longer = fe_builtin_call(cx, fe_builtin_find("append"), &call);
    if (!fe_is_poison(longer))
        fe_assign(cx, target, AST_OP_NONE, longer, n);
    return &fe_none;
}

/* d.map(f): methods exist only for datasets; a field of anything else is a
 * value, which is called. */
static FeValue *
call_field(Lower *cx, const AstNode *n, FeValue **callee)
{
    const AstNode *field = n->call.callee;
    FeValue *object = fe_eval(cx, field->field.value);
    if (object->kind == FE_DATASET) {
        FeCall call = fe_call_args(cx, n, NULL, field->field.name);
        return fe_dataset_method(cx, object, field->field.name, &call);
    }
    if (is_append(object, field->field.name))
        return append(cx, object, n);
    *callee = fe_field_of(cx, object, field);
    return NULL;
}

/* The declaration that hides the function meant by a name; NULL if the callee
 * can be called, or none has that name. */
static const FeBinding *
hides_function(Lower *cx, const AstNode *name, const FeValue *callee)
{
    switch (callee->kind) {
    case FE_POISON:
    case FE_FUNC:
    case FE_MODULE:
    case FE_INSTANCE:
    case FE_BUILTIN:
    case FE_TYPE:
        return NULL;
    default:
        return name->kind == AST_NAME && fe_builtin_find(name->name.text)
                   ? fe_find_binding(cx, name->name.text).binding
                   : NULL;
    }
}

static FeValue *
refuse_hidden(Lower *cx, const FeBinding *b, const FeValue *callee, Loc loc)
{
    fe_error(cx, loc, "\"%s\" is %s here, not the function", b->name,
             fe_describe(cx, callee));
    diag_note(cx->diag, b->loc,
              "this declaration hides the function: give it another name");
    return &fe_poison;
}

FeValue *
fe_eval_call(Lower *cx, const AstNode *n)
{
    const FeBinding *hiding;
    FeValue *callee = NULL;
    if (n->call.callee->kind == AST_FIELD) {
        FeValue *result = call_field(cx, n, &callee);
        if (result)
            return result;
    } else {
        callee = fe_eval(cx, n->call.callee);
    }
    hiding = hides_function(cx, n->call.callee, callee);
    if (hiding)
        return refuse_hidden(cx, hiding, callee, n->call.callee->loc);
    FeCall call = fe_call_args(cx, n, callee, fe_callee_name(callee));
    return fe_call(cx, callee, &call, "called");
}
