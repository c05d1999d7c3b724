/*
 * declare.c - declarations of files and modules
 *
 * All names of a scope are bound first; each declaration is evaluated when its
 * name is first asked for, at the latest in its turn.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/data/data.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/region.h"
#include "frontend/emit/require_const.h"
#include "frontend/lower/lower_impl.h"
#include "frontend/lower/stmt.h"
#include "frontend/toplevel/toplevel.h"
#include "frontend/vars/vars.h"

#include <string.h>

/* ---- binding ------------------------------------------------------------ */

static void
bind_declaration(Lower *cx, FeScope *scope, const char *name,
                 const AstNode *decl, const AstNode *colocate, Loc loc)
{
    FeBinding *b = fe_bind(cx, scope, name, NULL, loc);
    b->decl = decl;
    b->colocate = colocate;
}

static void
bind_pattern(Lower *cx, FeScope *scope, const AstNode *pattern,
             const AstNode *decl)
{
    if (pattern->kind == AST_NAME) {
        bind_declaration(cx, scope, pattern->name.text, decl, NULL,
                         pattern->loc);
        return;
    }
    for (int i = 0; i < pattern->tuple.items.len; i++)
        bind_pattern(cx, scope, pattern->tuple.items.data[i], decl);
}

static void
bind_module(Lower *cx, FeScope *scope, const AstNode *n)
{
    FeValue *m = fe_value_new(cx->arena, FE_MODULE);
    m->module.module = n;
    m->module.scope = scope;
    fe_bind(cx, scope, n->module.name, m, n->loc);
}

static void
bind_colocated(Lower *cx, FeScope *scope, const AstNode *n)
{
    for (int i = 0; i < n->colocate.members.len; i++) {
        const AstNode *var = n->colocate.members.data[i];
        bind_declaration(cx, scope, var->var.name, var, n->colocate.target,
                         var->loc);
    }
}

/* Which members there are is known before any of them is made. */
static void
bind_choice(Lower *cx, FeScope *scope, const AstNode *n)
{
    bool holds;
    const AstNode *cond = n->choice.cond;
    FeValue *v = fe_eval_in(cx, scope, cond);
    if (fe_require_bool(cx, v, fe_ast_text(cx->arena, cond), cond->loc, &holds))
        fe_declare(cx, scope,
                   holds ? &n->choice.members : &n->choice.otherwise);
}

static void
bind_one(Lower *cx, FeScope *scope, const AstNode *n)
{
    switch (n->kind) {
    case AST_CONST:
        bind_declaration(cx, scope, n->const_.name, n, NULL, n->loc);
        break;
    case AST_PARAM:
        bind_declaration(cx, scope, n->param.name, n, NULL, n->loc);
        break;
    case AST_VAR:
        bind_declaration(cx, scope, n->var.name, n, NULL, n->loc);
        break;
    case AST_SLOT:
        bind_declaration(cx, scope, n->slot.name, n, NULL, n->loc);
        break;
    case AST_DATASET:
        bind_declaration(cx, scope, n->dataset.name, n, NULL, n->loc);
        break;
    case AST_LET:
        bind_pattern(cx, scope, n->let.pattern, n);
        break;
    case AST_FN:
        fe_bind(cx, scope, n->fn.name, fe_eval_in(cx, scope, n), n->loc);
        break;
    case AST_MODULE:
        bind_module(cx, scope, n);
        break;
    case AST_COLOCATE:
        bind_colocated(cx, scope, n);
        break;
    case AST_CHOICE:
        bind_choice(cx, scope, n);
        break;
    case AST_USE:
        fe_use_modules(cx, scope, n);
        break;
    default: /* STRATEGY, MAIN: no names */
        break;
    }
}

void
fe_declare(Lower *cx, FeScope *scope, const AstList *decls)
{
    for (int i = 0; i < decls->len; i++)
        bind_one(cx, scope, decls->data[i]);
}

/* ---- evaluating --------------------------------------------------------- */

static FeValue *
declare_const(Lower *cx, const FeBinding *b)
{
    const AstNode *value = b->decl->const_.value;
    FeValue *override =
        b->scope == cx->file ? fe_define_value(cx, b->name, value) : NULL;
    return override ? override : fe_eval(cx, value);
}

/* The default of a param: a constant of its dtype. */
static bool
param_default(Lower *cx, const AstNode *n, DType t, Scalar *out)
{
    FeValue *v = fe_eval(cx, n->param.value);
    if (v->kind == FE_CONST)
        return fe_constant_as(cx, v, t, n->param.value->loc, out);
    if (!fe_is_poison(v))
        fe_error(cx, n->param.value->loc,
                 "the default of a param is a constant, not %s",
                 fe_describe(cx, v));
    return false;
}

/* Whether it stands where a type does: there is no such type elsewhere. */
static bool
is_str(const AstNode *type)
{
    return type->type.dims.len == 0 && strcmp(type->type.dtype, "str") == 0;
}

static bool
text_default(Lower *cx, const AstNode *n, const char **out)
{
    FeValue *v = fe_eval(cx, n->param.value);
    return !fe_is_poison(v) &&
           fe_require_text(cx, v, "the default of a param of str",
                           n->param.value->loc, out);
}

static FeValue *
declare_param(Lower *cx, const FeBinding *b)
{
    const AstNode *n = b->decl;
    IrType t;
    if (cx->module->params.len == limit_value(LIMIT_params))
        return fe_stop(cx, b->loc, LIMIT_params);
    IrParam *p = NEW(cx->arena, IrParam);
    bool is_text = is_str(n->param.type);
    if (!is_text && !fe_eval_type(cx, n->param.type, NULL, &t))
        return &fe_poison;
    if (is_text)
        t = ir_type_scalar(DT_u8, LOCAL_HOST);
    if (t.rank)
        return fe_error(cx, n->param.type->loc, "a param is a scalar");
    bool is_valid = is_text ? text_default(cx, n, &p->text)
                            : param_default(cx, n, t.dtype, &p->value);
    if (!is_valid)
        return &fe_poison;
    p->name =
        intern(cx->names, fe_format(cx, "%s%s", b->scope->prefix, b->name));
    p->dtype = t.dtype;
    p->loc = n->loc;
    VEC_PUSH(cx->arena, cx->module->params, p);
    return is_text ? fe_value_late_text(cx->arena, p->name)
                   : fe_value_param(cx->arena, p);
}

static FeValue *
declare_var(Lower *cx, const FeBinding *b)
{
    FeValue *target = b->colocate ? fe_eval(cx, b->colocate) : NULL;
    return fe_var_declare(cx, b->scope, b->decl, target);
}

/* The names of a let get their values together. */
static void
assign_pattern(Lower *cx, FeScope *scope, const AstNode *pattern,
               FeValue *value)
{
    if (pattern->kind == AST_NAME) {
        FeBinding *b = fe_scope_find(scope, pattern->name.text);
        if (b) /* "_" is none */
            b->value = value;
        return;
    }
    const AstList *items = &pattern->tuple.items;
    bool fits = fe_check_names(cx, pattern, value);
    for (int i = 0; i < items->len; i++)
        assign_pattern(cx, scope, items->data[i],
                       fits ? value->nest.items[i] : &fe_poison);
}

static FeValue *
declare_let(Lower *cx, const FeBinding *b)
{
    const AstNode *pattern = b->decl->let.pattern;
    const char *name = pattern->kind == AST_NAME ? pattern->name.text : b->name;
    cx->path = fe_format(cx, "%s%s", b->scope->prefix, name);
    const AstNode *value = b->decl->let.value;
    FeValue *v = fe_as_stated(cx, pattern, b->decl->let.type,
                              fe_eval(cx, value), value->loc);
    assign_pattern(cx, b->scope, pattern, v);
    return b->value ? b->value : &fe_poison;
}

static FeValue *
declare(Lower *cx, const FeBinding *b)
{
    switch (b->decl->kind) {
    case AST_CONST:
        return declare_const(cx, b);
    case AST_PARAM:
        return declare_param(cx, b);
    case AST_VAR:
        return declare_var(cx, b);
    case AST_SLOT:
        return fe_slot_declare(cx, b->scope, b->decl);
    case AST_DATASET:
        return fe_dataset_declare(cx, b->decl);
    default:
        return declare_let(cx, b);
    }
}

FeValue *
fe_binding_value(Lower *cx, FeBinding *b)
{
    if (b->value)
        return b->value;
    if (cx->stopped)
        return &fe_poison;
    if (b->being_made)
        return fe_error(cx, b->loc, "\"%s\" is needed to make itself", b->name);
    FeRegion saved = fe_region_enter(cx, NULL, FE_TOP);
    FeLoop *loop = cx->loop;
    cx->divergence = NULL;
    cx->scope = b->scope;
    cx->path = NULL;
    cx->loop = NULL;
    b->being_made = true;
    FeValue *v = declare(cx, b);
    b->being_made = false;
    b->value = v;
    cx->loop = loop;
    fe_region_leave(cx, &saved);
    return v;
}

void
fe_evaluate(Lower *cx, FeScope *scope)
{
    for (int i = 0; i < scope->names.len; i++)
        fe_binding_value(cx, scope->names.data[i]);
}
