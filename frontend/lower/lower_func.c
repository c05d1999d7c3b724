/*
 * lower_func.c - functions, inlined where they are called
 *
 * A call binds the parameters in a scope of its own and evaluates the body
 * there.  The chain of calls is kept for messages.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/call.h"
#include "frontend/lower/lower_impl.h"
#include "frontend/lower/stmt.h"

#include <string.h>

/* ---- the chain of calls ------------------------------------------------- */

/* The instance that a function declared in scope is a member of, or NULL. */
static const FeInstance *
instance_around(const FeScope *scope)
{
    while (scope && scope->kind != SCOPE_INSTANCE)
        scope = scope->parent;
    return scope ? scope->instance : NULL;
}

static const char *
function_name(Lower *cx, const AstNode *callee, const FeInstance *instance)
{
    if (callee->kind == AST_MODULE)
        return callee->module.name;
    const char *name = callee->fn.name ? callee->fn.name : "fn";
    return instance
               ? fe_format(cx, "%s.%s", instance->module->module.name, name)
               : name;
}

bool
fe_call_push(Lower *cx, const FeCall *call, const char *verb,
             const AstNode *callee, const FeScope *scope)
{
    if (cx->num_calls >= limit_value(LIMIT_calls)) {
        fe_stop(cx, call->loc, LIMIT_calls);
        return false;
    }
    const FeInstance *instance = instance_around(scope);
    IrCall *to = NEW(cx->arena, IrCall);
    to->caller = cx->module->calls;
    to->note = fe_format(cx, "%s is %s from here", call->name, verb);
    to->function = function_name(cx, callee, instance);
    to->layer = instance ? instance->path : NULL;
    to->loc = call->loc;
    cx->module->calls = to;
    cx->num_calls++;
    return true;
}

void
fe_call_pop(Lower *cx)
{
    cx->module->calls = cx->module->calls->caller;
    cx->num_calls--;
}

/* ---- parameters --------------------------------------------------------- */

static const char *
type_text(Lower *cx, const AstNode *type)
{
    Str s = str_new(cx->arena);
    fe_ast_print(&s, type);
    return str_text(&s);
}

/* A dimension as it is to be written for a value: as it was where that is
 * right;
 * "_" of a share of a batch, whose length no number says. */
static const char *
dim_repair(Lower *cx, const AstNode *n, Dim is, Dim want)
{
    if (ir_dim_equal(is, want))
        return fe_ast_text(cx->arena, n);
    return ir_dim_is_const(is) ? fe_format(cx, "%lld", (long long)is.c) : "_";
}

/* ", where B is 8": the first name that has another value than is needed. */
static const char *
named_dims(Lower *cx, const AstList *dims, const IrType *is, const IrType *want)
{
    for (int i = 0; i < dims->len; i++) {
        const AstNode *n = dims->data[i];
        Dim d = want->dims[i];
        if (n->kind == AST_NAME && ir_dim_is_const(d) &&
            !ir_dim_equal(is->dims[i], d))
            return fe_format(cx, ", where %s is %lld", n->name.text,
                             (long long)d.c);
    }
    return "";
}

/* The type with the dimensions of a value that it is not of; is and want, what
 * both are, may be NULL. */
static const char *
type_note(Lower *cx, const AstNode *type, const IrType *is, const IrType *want)
{
    const AstList *dims = &type->type.dims;
    Str s = str_new(cx->arena);
    if (!is || is->rank != dims->len)
        return "its type is stated here";
    str_addf(&s, "%s%s", dtype_info[is->dtype].name, dims->len ? "[" : "");
    for (int i = 0; i < dims->len; i++) {
        const char *dim =
            dim_repair(cx, dims->data[i], is->dims[i], want->dims[i]);
        str_addf(&s, "%s%s", i ? ", " : "", dim);
    }
    str_add(&s, dims->len ? "]" : "");
    const char *repair = str_text(&s);
    return fe_format(cx,
                     "its type is stated here%s: write %s, or give it a value "
                     "of this type",
                     named_dims(cx, dims, is, want), repair);
}

static FeValue *
refuse_type(Lower *cx, const char *name, const AstNode *type, const char *have,
            const IrType *is, const IrType *want, Loc loc)
{
    const char *note = type_note(cx, type, is, want);
    return fe_error_show(cx, loc, type->loc, note,
                         "\"%s\" is %s, and %s is asked for", name, have,
                         type_text(cx, type));
}

/* The dimensions that the type of a parameter names, of an argument that is an
 * error: no further ones come of that. */
static FeValue *
poison_dims(Lower *cx, const AstNode *type)
{
    for (int i = 0; i < type->type.dims.len; i++) {
        const AstNode *n = type->type.dims.data[i];
        if (n->kind == AST_NAME && !fe_find_binding(cx, n->name.text).binding)
            fe_bind(cx, cx->scope, n->name.text, &fe_poison, n->loc);
    }
    return &fe_poison;
}

FeValue *
fe_check_type(Lower *cx, const char *name, const AstNode *type, FeValue *value,
              Loc loc)
{
    IrType have, want;
    Scalar s;
    if (fe_value_has_poison(value))
        return poison_dims(cx, type);
    if (!fe_type_of(cx, value, &have))
        return refuse_type(cx, name, type, fe_describe(cx, value), NULL, NULL,
                           loc);
    if (!fe_eval_type(cx, type, &have, &want))
        return &fe_poison;
    if (!ir_type_same_shape(&have, &want))
        return refuse_type(cx, name, type, fe_type_text(cx, &have), &have,
                           &want, loc);
    if (value->kind == FE_DIM && want.dtype == DT_i64)
        return fe_value_length(cx->arena, value->length.dim);
    if (value->kind == FE_CONST && value->constant.untyped)
        return fe_constant_as(cx, value, want.dtype, loc, &s)
                   ? fe_value_scalar(cx->arena, s)
                   : &fe_poison;
    if (value->kind == FE_NEST ||
        (value->kind == FE_DIM && value->length.untyped))
        return fe_value_tensor(cx->arena,
                               fe_operand_as(cx, value, want.dtype, loc));
    if (have.dtype != want.dtype)
        return refuse_type(cx, name, type, fe_type_text(cx, &have), &have,
                           &want, loc);
    return value;
}

static bool
is_in_library(Lower *cx, Loc loc)
{
    return !loc_is_same(fe_user_loc(cx, loc), loc);
}

/* Whether a parameter of the library may be a function: activation = none,
 * schedule = constant. */
static bool
may_be_function(const AstNode *formal)
{
    const AstNode *unless = formal->formal.value;
    return unless && (unless->kind == AST_NONE || unless->kind == AST_NAME);
}

/* The library takes a string only where it has one by default. */
static bool
check_unquoted(Lower *cx, const AstNode *formal, const FeArg *arg,
               const FeCall *call)
{
    const AstNode *unless = formal->formal.value;
    if (arg->value->kind != FE_STRING || !is_in_library(cx, formal->loc) ||
        is_in_library(cx, arg->loc) || (unless && unless->kind == AST_STRING))
        return true;
    const char *note = fe_unquoted_note(cx, arg->value);
    bool is_number = note && fe_is_number_text(arg->value->text.text);
    if (!is_number && !may_be_function(formal))
        note = NULL;
    fe_error_note(cx, arg->loc, note, "\"%s\" of %s takes %s",
                  formal->formal.name, call->name,
                  is_number ? "a number, not a string"
                  : note    ? "a function, not a string"
                            : "no string");
    return false;
}

/* A warning of a learning rate that nothing is trained with; false with a
 * message where it is no number. */
static bool
check_rate(Lower *cx, const AstNode *formal, const FeArg *arg)
{
    enum { MOST = 1000 };
    const FeValue *v = arg->value;
    if (strcmp(formal->formal.name, "lr") != 0 ||
        !is_in_library(cx, formal->loc) || is_in_library(cx, arg->loc))
        return true;
    bool is_wrong =
        v->kind == FE_NEST || v->kind == FE_STRING ||
        (v->kind == FE_CONST && v->constant.scalar.dtype == DT_bool);
    const char *unquoted = fe_unquoted_note(cx, v);
    if (is_wrong)
        fe_error_note(
            cx, arg->loc, unquoted ? unquoted : "write a number, as 0.01",
            "a learning rate is a number, not %s", fe_describe(cx, v));
    if (is_wrong || v->kind != FE_CONST)
        return !is_wrong;
    Scalar s = v->constant.scalar;
    double rate = dtype_is_float(s.dtype) ? s.f : (double)s.i;
    if (rate > MOST)
        fe_warning(cx, arg->loc, arg->loc, "write 0.01, and try 0.1 and 0.001",
                   "a learning rate of more than %d makes variables infinite",
                   MOST);
    return true;
}

/* "Dense(n_in, n_out, activation = none, dtype = f32)". */
static const char *
signature(Lower *cx, const char *name, const AstList *params)
{
    Str s = str_new(cx->arena);
    str_addf(&s, "%s(", name);
    for (int i = 0; i < params->len; i++) {
        const AstNode *formal = params->data[i];
        str_addf(&s, "%s%s", i ? ", " : "", formal->formal.name);
        if (formal->formal.value)
            str_addf(&s, " = %s", fe_ast_text(cx->arena, formal->formal.value));
    }
    str_add(&s, ")");
    return str_text(&s);
}

/* One value, next(it), that has as many fields as there are parameters. */
static const char *
taken_apart_note(Lower *cx, const FeCall *call, const AstList *params)
{
    const FeArg *arg = call->args;
    const FeNest *nest =
        call->num_args == 1 && arg->node && arg->value->kind == FE_NEST
            ? &arg->value->nest
            : NULL;
    if (!nest || nest->len != params->len)
        return NULL;
    Str s = str_new(cx->arena);
    for (int i = 0; i < params->len; i++)
        str_addf(&s, "%s%s", i ? ", " : "", params->data[i]->formal.name);
    const char *names = str_text(&s);
    return fe_format(
        cx, "take it apart before: let (%s) = %s, and write %s(%s)", names,
        fe_ast_text(cx->arena, arg->node), call->name, names);
}

/* Of a call with one element of a dataset, a named tuple whose fields are not
 * the parameters; NULL for other calls. */
static const char *
named_fields_note(Lower *cx, const FeCall *call)
{
    const FeArg *arg = call->args;
    const FeNest *nest =
        call->num_args == 1 && !arg->node && arg->value->kind == FE_NEST
            ? &arg->value->nest
            : NULL;
    if (!nest || nest->kind != NEST_NAMED || !nest->len)
        return NULL;
    Str s = str_new(cx->arena);
    for (int i = 0; i < nest->len; i++)
        str_addf(&s, "%srow.%s", i ? ", " : "", nest->names[i]);
    return fe_format(cx,
                     "it is called with one named tuple, which fn(row) takes: "
                     "its fields are %s",
                     str_text(&s));
}

/* The call with the argument, for a number of which an example can be given. */
static const char *
missing_note(Lower *cx, const FeCall *call, const AstList *params,
             const char *name)
{
    static const struct {
        const char *name, *value;
    } examples[] = {{"n_in", "4"},  {"n_out", "4"}, {"width", "8"}, {"n", "10"},
                    {"heads", "2"}, {"size", "3"},  {"lr", "0.01"}};
    const char *apart = taken_apart_note(cx, call, params);
    const char *fields = named_fields_note(cx, call);
    if (apart || fields)
        return apart ? apart : fields;
    Loc loc = call->loc;
    Loc end = {loc.line, loc.col + loc.len - 1, 0, loc.file};
    const char *is = signature(cx, call->name, params);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const char *text =
            strcmp(examples[i].name, name) == 0
                ? fe_edit(cx, loc, end,
                          fe_format(cx, "%s%s = %s", call->num_args ? ", " : "",
                                    name, examples[i].value))
                : NULL;
        if (text)
            return fe_format(cx, "write it, as in %s, of %s", text, is);
    }
    return fe_format(cx, "it is %s", is);
}

static bool
bind_param(Lower *cx, const AstList *params, int i, const FeArg *arg,
           const FeCall *call, FeScope *caller)
{
    const AstNode *formal = params->data[i];
    const char *name = formal->formal.name;
    FeValue *value;
    if (!arg && !formal->formal.value) {
        const AstNode *first = params->data[0];
        bool has_self = strcmp(first->formal.name, "self") == 0;
        if (has_self)
            fe_error_show(cx, call->loc, first->loc,
                          "leave self out here: functions of a module name its "
                          "members without it",
                          "%s asks for self, which functions of a module do "
                          "not have",
                          call->name);
        else
            fe_error_note(cx, call->loc, missing_note(cx, call, params, name),
                          "%s needs the argument \"%s\"", call->name, name);
        return false;
    }
    if (arg && (!check_rate(cx, formal, arg) ||
                !check_unquoted(cx, formal, arg, call)))
        return false;
    value = arg ? arg->value : fe_eval(cx, formal->formal.value);
    Loc loc = arg ? arg->loc : formal->formal.value->loc;
    bool left_out = value->kind == FE_NONE && formal->formal.value;
    if (formal->formal.type && !left_out)
        value = fe_check_type(cx, name, formal->formal.type, value, loc);
    fe_name_value(value, name);
    FeBinding *b = fe_bind(cx, cx->scope, name, value, loc);
    if (b && arg) {
        b->argument = arg->node;
        b->caller = caller;
    }
    return true;
}

FeScope *
fe_bind_params(Lower *cx, const AstList *params, FeScope *around,
               const FeCall *call)
{
    FeScope *scope = fe_scope_new(cx, around, SCOPE_FUNC);
    FeScope *saved = cx->scope;
    size_t n = (size_t)params->len;
    const char **names = NEW_ARRAY(cx->arena, const char *, n);
    FeArg **args = NEW_ARRAY(cx->arena, FeArg *, n);
    for (int i = 0; i < params->len; i++)
        names[i] = params->data[i]->formal.name;
    bool ok = fe_match_args(cx, call, params->len, names, args);
    cx->scope = scope;
    for (int i = 0; ok && i < params->len; i++)
        ok = bind_param(cx, params, i, args[i], call, saved);
    cx->scope = saved;
    return ok ? scope : NULL;
}

/* ---- calls -------------------------------------------------------------- */

static FeValue *
eval_body(Lower *cx, FeScope *scope, const AstNode *fn)
{
    if (fn->fn.body->kind == AST_BLOCK)
        return fe_exec_body(cx, scope, fn->fn.body);
    return fe_eval_in(cx, scope, fn->fn.body);
}

FeValue *
fe_call_func(Lower *cx, FeValue *f, const FeCall *call, const char *verb)
{
    const AstNode *fn = f->func.fn;
    if (!fe_call_push(cx, call, verb, fn, f->func.scope))
        return &fe_poison;
    FeScope *scope = fe_bind_params(cx, &fn->fn.params, f->func.scope, call);
    FeValue *result = &fe_poison;
    if (scope)
        result = fn->fn.grad ? fe_custom_gradient(cx, fn, scope, eval_body)
                             : eval_body(cx, scope, fn);
    fe_call_pop(cx);
    return result;
}
