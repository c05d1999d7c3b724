/*
 * lower_module.c - instances of modules
 *
 * An instance is a scope with the members of the module, evaluated in their
 * order within the module's parameters.  Its variables are named by its path:
 * the names of the lets on the way, and numbers in lists and arguments.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/lower/call.h"
#include "frontend/lower/lower_impl.h"

/* The path of the let around; one that several instances would have (those of
 * a loop in a function) is numbered. */
static const char *
new_path(Lower *cx)
{
    return fe_unique_name(cx, cx->instances, cx->path);
}

static FeInstance *
make_instance(Lower *cx, const AstNode *module, FeScope *params, Loc loc)
{
    FeInstance *x = NEW(cx->arena, FeInstance);
    x->module = module;
    x->path = new_path(cx);
    x->loc = loc;
    x->scope = fe_scope_new(cx, params, SCOPE_INSTANCE);
    x->scope->instance = x;
    x->scope->prefix = fe_format(cx, "%s.", x->path);
    fe_declare(cx, x->scope, &module->module.members);
    fe_evaluate(cx, x->scope);
    return x;
}

FeValue *
fe_call_module(Lower *cx, FeValue *m, const FeCall *call)
{
    const AstNode *module = m->module.module;
    if (!cx->path)
        return fe_error_note(
            cx, call->loc,
            fe_format(cx, "let x = %s(...) at the top level", call->name),
            "an instance of a module is made by a let at the "
            "top level or in a module");
    if (!fe_call_push(cx, call, "made", module, m->module.scope))
        return &fe_poison;
    FeValue *v = &fe_poison;
    FeScope *params =
        fe_bind_params(cx, &module->module.params, m->module.scope, call);
    if (params) {
        v = fe_value_new(cx->arena, FE_INSTANCE);
        v->instance = make_instance(cx, module, params, call->loc);
    }
    fe_call_pop(cx);
    return v;
}

FeBinding *
fe_instance_member(const FeInstance *instance, const char *name)
{
    return fe_scope_find(instance->scope, name);
}
