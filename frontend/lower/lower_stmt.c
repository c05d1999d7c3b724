/*
 * lower_stmt.c - statements without control flow: names and assignments
 *
 * An assignment to a mut binds its name to another value; branch.c and
 * lower_loop.c read the list of cx->writes to find the muts that control flow
 * changes.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/lower_impl.h"
#include "frontend/lower/stmt.h"

#include <string.h>

/* ---- names -------------------------------------------------------------- */

void
fe_name_value(FeValue *v, const char *name)
{
    if (v->kind == FE_TENSOR && !v->tensor->name && strcmp(name, "_") != 0)
        v->tensor->name = name;
}

/* Where a value becomes that of a mut. */
typedef struct Place {
    Lower *cx;
    Loc loc;
} Place;

/* A variable is read. */
static FeValue *
read_leaf(FeValue *leaf, void *data)
{
    const Place *p = data;
    if (leaf->kind == FE_VAR)
        return fe_value_tensor(p->cx->arena, fe_handle(p->cx, leaf, p->loc));
    return leaf;
}

/* Numbers get their dtype, too. */
static FeValue *
mut_leaf(FeValue *leaf, void *data)
{
    const Place *p = data;
    FeValue *v = read_leaf(leaf, data);
    return v == leaf ? fe_default_typed(p->cx, leaf, p->loc) : v;
}

static FeValue *
mut_value(Lower *cx, FeValue *value, Loc loc)
{
    Place p = {cx, loc};
    return fe_value_map(cx->arena, value, mut_leaf, &p);
}

/* A function that was made before keeps the names it saw: a second binding of a
 * name begins a new scope. */
static void
bind_name(Lower *cx, const AstNode *name, FeValue *value, bool is_mut)
{
    if (fe_scope_find(cx->scope, name->name.text))
        cx->scope = fe_scope_new(cx, cx->scope, SCOPE_BLOCK);
    if (is_mut)
        value = mut_value(cx, value, name->loc);
    fe_name_value(value, name->name.text);
    fe_bind(cx, cx->scope, name->name.text, value, name->loc)->is_mut = is_mut;
}

static const char *
one_name_note(Lower *cx, const AstNode *pattern, const FeValue *value)
{
    if (value->kind != FE_TENSOR && value->kind != FE_VAR)
        return NULL;
    const char *all = fe_ast_text(cx->arena, pattern);
    const AstNode *first = pattern->tuple.items.data[0];
    return fe_format(cx, "it is one value: write %s in place of %s",
                     fe_ast_text(cx->arena, first), all);
}

bool
fe_check_names(Lower *cx, const AstNode *pattern, const FeValue *value)
{
    int n = pattern->tuple.items.len;
    if (fe_is_poison(value) || (value->kind == FE_NEST && value->nest.len == n))
        return !fe_is_poison(value);
    if (value->kind == FE_NEST)
        fe_error_note(cx, pattern->loc,
                      n > value->nest.len
                          ? fe_format(cx, "leave %d of the names out",
                                      n - value->nest.len)
                          : "_ is the name of a value that is not used",
                      "%d names for %d values", n, value->nest.len);
    else
        fe_error_note(cx, pattern->loc, one_name_note(cx, pattern, value),
                      "%d names for %s", n, fe_describe(cx, value));
    return false;
}

static void
bind_tuple(Lower *cx, const AstNode *pattern, FeValue *value, bool is_mut)
{
    const AstList *items = &pattern->tuple.items;
    bool fits = fe_check_names(cx, pattern, value);
    for (int i = 0; i < items->len; i++)
        fe_bind_pattern(cx, items->data[i],
                        fits ? value->nest.items[i] : &fe_poison, is_mut);
}

void
fe_bind_pattern(Lower *cx, const AstNode *pattern, FeValue *value, bool is_mut)
{
    if (pattern->kind == AST_TUPLE)
        bind_tuple(cx, pattern, value, is_mut);
    else
        bind_name(cx, pattern, value, is_mut);
}

/* ---- assignment --------------------------------------------------------- */

static FeValue *
cannot_become(Lower *cx, const char *name, const char *was, const char *is,
              Loc loc)
{
    return fe_error(cx, loc, "\"%s\" is %s, and cannot become %s", name, was,
                    is);
}

/* A leaf of a mut: a number stays one, at its dtype. */
static FeValue *
next_leaf(Lower *cx, const char *name, FeValue *before, FeValue *value, Loc loc)
{
    IrType was, is;
    Scalar s;
    if (fe_is_poison(before) || fe_is_poison(value))
        return mut_value(cx, value, loc);
    bool was_number = fe_type_of(cx, before, &was);
    bool is_number = fe_type_of(cx, value, &is);
    if (was_number != is_number)
        return cannot_become(cx, name, fe_describe(cx, before),
                             fe_describe(cx, value), loc);
    if (!was_number)
        return value;
    if (value->kind == FE_CONST && value->constant.untyped)
        return fe_constant_as(cx, value, was.dtype, loc, &s)
                   ? fe_value_scalar(cx->arena, s)
                   : &fe_poison;
    if (value->kind == FE_DIM || value->kind == FE_NEST)
        return fe_value_tensor(cx->arena,
                               fe_operand_as(cx, value, was.dtype, loc));
    if (is.dtype != was.dtype)
        return fe_error_note(
            cx, loc, fe_format(cx, "%s(...) casts", dtype_info[was.dtype].name),
            "\"%s\" is of %s, and cannot become %s", name,
            dtype_info[was.dtype].name, dtype_info[is.dtype].name);
    return mut_value(cx, value, loc);
}

FeValue *
fe_next_value(Lower *cx, const char *name, FeValue *before, FeValue *value,
              Loc loc)
{
    if (before->kind != FE_NEST)
        return next_leaf(cx, name, before, value, loc);
    if (fe_is_poison(value))
        return value;
    if (!fe_value_alike(before, value))
        return value->kind == FE_NEST
                   ? mut_value(cx, value, loc)
                   : cannot_become(cx, name, fe_describe(cx, before),
                                   fe_describe(cx, value), loc);
    FeValues items = {0};
    for (int i = 0; i < before->nest.len; i++)
        VEC_PUSH(cx->arena, items,
                 fe_next_value(cx, name, before->nest.items[i],
                               value->nest.items[i], loc));
    return fe_value_with_items(cx->arena, before, items.data);
}

void
fe_assign_mut(Lower *cx, FeBinding *b, FeValue *value, Loc loc)
{
    FeValue *next = fe_next_value(cx, b->name, b->value, value, loc);
    fe_name_value(next, b->name);
    fe_write(cx, b, fe_limit_size(cx, next, loc));
}

/* The mut of that name; NULL if it is none, or, with a message, one that cannot
 * be reached. */
static FeBinding *
require_mut(Lower *cx, const char *name, Loc loc)
{
    FeFoundBinding found = fe_find_binding(cx, name);
    if (!found.binding || !found.binding->is_mut)
        return NULL;
    if (!found.leaves_func && !found.leaves_merge)
        return found.binding;
    fe_error_note(cx, loc, "return the new value, and assign it outside",
                  "\"%s\" is a mut of the code around, and assignments do not "
                  "reach out of %s",
                  name, found.leaves_merge ? "a merge" : "a function");
    return NULL;
}

/* Whether "let" stands before a name. */
static bool
is_written_let(Lower *cx, Loc name)
{
    Loc before = {name.line, name.col - 4, 4, name.file};
    const char *text = name.col > 4 ? fe_source(cx, before) : NULL;
    return text && strcmp(text, "let ") == 0;
}

/* A name that is neither a mut nor a variable. */
static void
refuse_target(Lower *cx, const char *name, const FeValue *v, Loc loc)
{
    FeFoundBinding found = fe_find_binding(cx, name);
    bool is_let = found.binding && is_written_let(cx, found.binding->loc);
    bool is_local = found.binding && found.binding->scope->kind >= SCOPE_FUNC;
    if (v->kind == FE_PARAM)
        fe_error(cx, loc, "\"%s\" is a param, which tfd-run --set sets", name);
    else if (is_let)
        fe_error_show(
            cx, loc, found.binding->loc,
            fe_format(cx, "write mut %s in place of let %s", name, name),
            "\"%s\" is declared by let, and does not change", name);
    else
        fe_error_note(
            cx, loc,
            is_local ? fe_format(cx, "declare it as mut %s = ...", name) : NULL,
            "\"%s\" is neither a mut nor a variable", name);
}

/* target op value, as an operator whose sides messages name. */
static FeValue *
apply_to_mut(Lower *cx, const AstNode *target, AstOp op, FeValue *before,
             FeValue *value, const AstNode *node)
{
    AstNode written = {.kind = AST_BINARY, .loc = node->loc};
    written.binary.op = op;
    written.binary.left = (AstNode *)target;
    written.binary.right = (AstNode *)node;
    cx->applied = &written;
    FeValue *next = fe_binary(cx, op, before, value, node->loc);
    cx->applied = NULL;
    return next;
}

static void
assign_name(Lower *cx, const AstNode *target, AstOp op, FeValue *value,
            const AstNode *node)
{
    const char *name = target->name.text;
    int64_t errors = cx->num_errors;
    FeBinding *b = require_mut(cx, name, target->loc);
    if (b) {
        if (op != AST_OP_NONE)
            value = apply_to_mut(cx, target, op, b->value, value, node);
        fe_assign_mut(cx, b, value, node->loc);
        return;
    }
    if (cx->num_errors != errors)
        return;
    FeValue *v = fe_lookup_target(cx, name, target->loc);
    if (v->kind == FE_VAR)
        fe_var_write(cx, v->var, op, value, node, node->loc);
    else if (!fe_is_poison(v))
        refuse_target(cx, name, v, target->loc);
}

/* All values are known before the first target is assigned to: variables are
 * read. */
static void
assign_tuple(Lower *cx, const AstNode *target, FeValue *value,
             const AstNode *node)
{
    const AstList *items = &target->tuple.items;
    Place p = {cx, node->loc};
    value = fe_value_map(cx->arena, value, read_leaf, &p);
    if (fe_is_poison(value))
        return;
    if (value->kind != FE_NEST || value->nest.len != items->len) {
        fe_error(cx, node->loc, "%d targets for %s", items->len,
                 fe_describe(cx, value));
        return;
    }
    for (int i = 0; i < items->len; i++)
        fe_assign(cx, items->data[i], AST_OP_NONE, value->nest.items[i], node);
}

static void
assign_field(Lower *cx, const AstNode *target, AstOp op, FeValue *value,
             const AstNode *node)
{
    FeValue *v = fe_eval(cx, target);
    if (v->kind == FE_VAR)
        fe_var_write(cx, v->var, op, value, node, node->loc);
    else if (!fe_is_poison(v))
        fe_error(cx, target->loc, "a field that is %s cannot be assigned to",
                 fe_describe(cx, v));
}

void
fe_assign(Lower *cx, const AstNode *target, AstOp op, FeValue *value,
          const AstNode *node)
{
    switch (target->kind) {
    case AST_NAME:
        assign_name(cx, target, op, value, node);
        break;
    case AST_TUPLE:
        assign_tuple(cx, target, value, node);
        break;
    case AST_INDEX:
        fe_assign_index(cx, target, op, value, node);
        break;
    default:
        assign_field(cx, target, op, value, node);
        break;
    }
}

/* ---- simple statements -------------------------------------------------- */

FeValue *
fe_as_stated(Lower *cx, const AstNode *pattern, const AstNode *type,
             FeValue *value, Loc loc)
{
    if (!type)
        return value;
    if (pattern->kind == AST_NAME)
        return fe_check_type(cx, pattern->name.text, type, value, loc);
    return fe_error_note(cx, type->loc, "declare them one by one",
                         "a type is for one name");
}

static void
exec_let(Lower *cx, const AstNode *n)
{
    const AstNode *pattern = n->let.pattern;
    const char *name = pattern->kind == AST_NAME ? pattern->name.text : NULL;
    FeValue *v = name ? fe_eval_item(cx, n->let.value, name, 0)
                      : fe_eval(cx, n->let.value);
    v = fe_as_stated(cx, pattern, n->let.type, v, n->let.value->loc);
    fe_bind_pattern(cx, pattern, v, false);
}

static void
exec_mut(Lower *cx, const AstNode *n)
{
    FeValue *v = fe_eval(cx, n->mut.value);
    v = fe_as_stated(cx, n->mut.pattern, n->mut.type, v, n->mut.value->loc);
    fe_bind_pattern(cx, n->mut.pattern, v, true);
}

static void
exec_assign(Lower *cx, const AstNode *n)
{
    FeValue *value = fe_eval(cx, n->assign.value);
    const AstNode *outer = cx->assigned;
    cx->assigned = n;
    fe_assign(cx, n->assign.target, n->assign.op, value, n->assign.value);
    cx->assigned = outer;
}

/* One without a name was refused when it was read. */
static void
exec_fn(Lower *cx, const AstNode *n)
{
    if (n->fn.name)
        fe_bind(cx, cx->scope, n->fn.name, fe_eval(cx, n), n->loc);
}

static void
exec_expr(Lower *cx, const AstNode *n)
{
    fe_eval(cx, n);
}

typedef void Executor(Lower *cx, const AstNode *n);

static Executor *const executors[NUM_AST_KINDS] = {
    [AST_LET] = exec_let, [AST_MUT] = exec_mut,    [AST_ASSIGN] = exec_assign,
    [AST_FN] = exec_fn,   [AST_FOR] = fe_exec_for, [AST_WHILE] = fe_exec_while,
};

void
fe_exec_simple(Lower *cx, const AstNode *n)
{
    Executor *execute = executors[n->kind];
    if (execute)
        execute(cx, n);
    else
        exec_expr(cx, n);
}
