/*
 * region.c - where operations go: regions, functions, and back again
 */
#include "frontend/emit/region.h"

#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/type_of.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"

#include <assert.h>
#include <string.h>

/* ---- places ------------------------------------------------------------- */

FeRegion
fe_region_enter(Lower *cx, IrBlock *block, FeContext context)
{
    assert((block == NULL) == (context == FE_TOP));
    FeRegion saved = {cx->block, cx->context,       cx->divergence, cx->updated,
                      cx->scope, cx->module->calls, cx->path};
    cx->block = block;
    cx->context = context;
    return saved;
}

void
fe_region_leave(Lower *cx, const FeRegion *saved)
{
    cx->block = saved->block;
    cx->context = saved->context;
    cx->divergence = saved->divergence;
    cx->updated = saved->updated;
    cx->scope = saved->scope;
    cx->module->calls = saved->calls;
    cx->path = saved->path;
}

const FeDivergence *
fe_divergence(const Lower *cx)
{
    return cx->divergence;
}

bool
fe_differs(Lower *cx, const AstNode *n)
{
    IrType t;
    FeMark mark = fe_mark(cx);
    FeValue *v = fe_eval(cx, n);
    bool found = fe_type_of(cx, v, &t) && t.locality == LOCAL_PER_REPLICA;
    fe_rewind(cx, &mark);
    return found;
}

/* The one side of d's condition that differs, where the condition is made of
 * two and a sum of this one would be the same on all; or NULL. */
static const AstNode *
side_that_differs(Lower *cx, const FeDivergence *d)
{
    if (!d->cond || d->cond->kind != AST_BINARY)
        return NULL;
    const AstNode *left = d->cond->binary.left, *right = d->cond->binary.right;
    FeRegion saved = fe_region_enter(cx, cx->block, cx->context);
    cx->scope = d->scope;
    cx->divergence = NULL;
    bool on_left = fe_differs(cx, left), on_right = fe_differs(cx, right);
    fe_region_leave(cx, &saved);
    const AstNode *side = on_left ? left : right;
    bool is_id =
        side->kind == AST_NAME && strcmp(side->name.text, "replica_id") == 0;
    return on_left == on_right || side->kind == AST_BINARY || is_id ? NULL
                                                                    : side;
}

/* The condition of a value that is the same on all replicas: of l > 1.0,
 * all_reduce(sum, l) > 1.0. */
static const char *
same_condition(Lower *cx, const FeDivergence *d)
{
    const AstNode *side = side_that_differs(cx, d);
    const char *text = side ? fe_edit(cx, d->cond->loc, side->loc,
                                      fe_format(cx, "all_reduce(sum, %s)",
                                                fe_ast_text(cx->arena, side)))
                            : NULL;
    return text ? fe_format(cx,
                            "this condition differs among the replicas: write "
                            "%s, which is the same on all",
                            text)
                : "this condition differs among the replicas; one of what "
                  "all_reduce(sum, ...) makes is the same on all";
}

bool
fe_check_together(Lower *cx, const char *what, Loc loc)
{
    const FeDivergence *d = fe_divergence(cx);
    if (!d)
        return true;
    FeOwn at = fe_own_at(cx, loc), call = fe_own_call(cx);
    const char *text =
        diag_is_library(cx->diag, loc.file) ? fe_source(cx, call.loc) : NULL;
    if (text) /* adam.apply, of adam.apply(...) */
        what = fe_format(cx, "%.*s", (int)strcspn(text, "("), text);
    fe_error_own(cx, text ? &call : &at, d->loc, same_condition(cx, d),
                 "%s needs all replicas, and under this \"%s\" not all may "
                 "come to it",
                 what, d->what);
    return false;
}

IrOp *
fe_nested_op(Lower *cx, IrOpKind kind, int n, IrValue *const *operands, Loc loc)
{
    int depth = 0;
    if (!fe_check_can_emit(cx, loc))
        return NULL;
    for (const IrBlock *b = cx->block; b->op; b = b->op->block)
        depth++;
    if (depth >= limit_value(LIMIT_control)) {
        fe_stop(cx, loc, LIMIT_control);
        return NULL;
    }
    return ir_build_op(cx->block, kind, n, operands, loc);
}

/* ---- values that leave a region ----------------------------------------- */

/* Whether leaf has to be a result of the operation to be known outside. */
static bool
is_made_here(const Lower *cx, const FeValue *leaf)
{
    return leaf->kind == FE_TENSOR && fe_block_of(leaf->tensor) == cx->block;
}

/* A length is another thing in another context: its value leaves. */
static void
fix_lengths(Lower *cx, FeValues *leaves, Loc loc)
{
    for (int i = 0; i < leaves->len; i++)
        if (leaves->data[i]->kind == FE_DIM && cx->context == FE_REPLICA)
            leaves->data[i] =
                fe_value_tensor(cx->arena, fe_handle(cx, leaves->data[i], loc));
}

IrOp *
fe_region_open(Lower *cx, IrOpKind kind, FeContext context, Loc loc,
               FeRegion *saved)
{
    IrOp *op = fe_nested_op(cx, kind, 0, NULL, loc);
    if (!op)
        return NULL;
    *saved = fe_region_enter(cx, op->regions[0], context);
    cx->divergence = NULL;
    return op;
}

FeValue *
fe_region_close(Lower *cx, IrOp *op, const FeRegion *saved, FeValue *result,
                Loc loc)
{
    FeValues leaves = {0};
    IrValues yields = {0};
    FeValues results = {0}; /* those that get their values when op has them */
    assert(cx->block == op->regions[0]);
    fe_value_leaves(cx->arena, result, &leaves);
    fix_lengths(cx, &leaves, loc);
    for (int i = 0; i < leaves.len; i++) {
        if (!is_made_here(cx, leaves.data[i]))
            continue;
        VEC_PUSH(cx->arena, yields, leaves.data[i]->tensor);
        leaves.data[i] = fe_value_new(cx->arena, FE_TENSOR);
        VEC_PUSH(cx->arena, results, leaves.data[i]);
    }
    ir_build_yield(cx->block, yields.len, yields.data, loc);
    fe_region_leave(cx, saved);
    ir_op_close(op);
    for (int i = 0; i < results.len; i++)
        results.data[i]->tensor = op->results[i];
    FeValue *const *next = leaves.data;
    return fe_value_rebuild(cx->arena, result, &next);
}

/* ---- functions ---------------------------------------------------------- */

IrFunc *
fe_func_open(Lower *cx, const char *name, IrFuncKind kind, FeContext context,
             Loc loc, FeRegion *saved)
{
    IrFunc *fn = ir_func_new(cx->module, name, kind, loc);
    *saved = fe_region_enter(cx, fn->body, context);
    cx->divergence = NULL;
    cx->path = NULL;
    return fn;
}

bool
fe_func_close(Lower *cx, IrFunc *fn, const FeRegion *saved, FeValue *result,
              Loc loc)
{
    FeValues leaves = {0};
    IrValues values = {0};
    bool ok = true;
    assert(cx->block == fn->body);
    if (result->kind != FE_NONE)
        fe_value_leaves(cx->arena, result, &leaves);
    for (int i = 0; i < leaves.len; i++) {
        IrValue *x = fe_operand(cx, leaves.data[i], loc);
        VEC_PUSH(cx->arena, values, x);
        ok = ok && x;
    }
    if (ok)
        ir_build_return(fn->body, values.len, values.data, loc);
    fe_region_leave(cx, saved);
    return ok;
}

/* ---- going back --------------------------------------------------------- */

FeMark
fe_mark(Lower *cx)
{
    const IrModule *m = cx->module;
    FeMark mark = {
        .diag = diag_mark(cx->diag),
        .block = cx->block,
        .last = cx->block ? cx->block->last : NULL,
        .last_func = m->last,
        .num_writes = cx->writes.len,
        .num_checked = cx->checked.len,
        .num_summed = cx->summed.len,
        .num_iters = m->iters.len,
        .num_symbols = m->symbols.len,
        .num_datasets = m->datasets.len,
        .num_errors = cx->num_errors,
        .num_sites = cx->num_sites,
        .needs_constant = cx->needs_constant,
    };
    return mark;
}

void
fe_rewind(Lower *cx, const FeMark *mark)
{
    IrModule *m = cx->module;
    assert(cx->block == mark->block);
    assert(cx->writes.len >= mark->num_writes);
    assert(cx->checked.len >= mark->num_checked);
    assert(cx->summed.len >= mark->num_summed);
    diag_rewind(cx->diag, mark->diag);
    while (cx->block && cx->block->last != mark->last)
        ir_remove(cx->block->last);
    while (m->last != mark->last_func)
        ir_func_remove(m->last);
    fe_undo_writes(cx, mark->num_writes);
    cx->checked.len = mark->num_checked;
    cx->summed.len = mark->num_summed;
    m->iters.len = mark->num_iters;
    ir_symbols_cut(m, mark->num_symbols);
    m->datasets.len = mark->num_datasets;
    cx->num_errors = mark->num_errors;
    cx->num_sites = mark->num_sites;
    cx->needs_constant = mark->needs_constant;
}
