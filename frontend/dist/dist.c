/*
 * dist.c - changing the context of execution: run, merge, update
 *
 * Each is an operation with a region; values around it are visible in it, and
 * values that leave it are the operation's results.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/needs_step.h"
#include "frontend/context/scope.h"
#include "frontend/emit/region.h"
#include "frontend/lower/call.h"

/* ---- run ---------------------------------------------------------------- */

static bool
check_cross(Lower *cx, const char *what, const char *note, Loc loc)
{
    if (fe_is_cross(cx))
        return true;
    fe_error_note(cx, loc, cx->context == FE_REPLICA ? note : NULL,
                  "\"%s\" needs cross-replica context, and this is %s", what,
                  fe_context_name(cx->context));
    return false;
}

FeValue *
fe_run(Lower *cx, const AstNode *n)
{
    FeRegion saved;
    const AstNode *node = n->run.call;
    if (!check_cross(cx, "run", "call the function without run", n->loc))
        return &fe_poison;
    FeValue *callee = fe_eval(cx, node->call.callee);
    FeCall call = fe_call_args(cx, node, callee, fe_callee_name(callee));
    call.loc = n->loc;
    IrOp *op = fe_region_open(cx, OP_run, FE_REPLICA, n->loc, &saved);
    if (!op)
        return &fe_poison;
    FeValue *result = fe_call(cx, callee, &call, "run");
    return fe_region_close(cx, op, &saved, result, n->loc);
}

/* ---- merge -------------------------------------------------------------- */

/* The scope of the block, with the operands of the merge. */
static FeScope *
merge_scope(Lower *cx, const AstList *args)
{
    FeScope *scope = fe_scope_new(cx, cx->scope, SCOPE_MERGE);
    for (int i = 0; i < args->len; i++) {
        const AstNode *arg = args->data[i];
        const char *name = arg->formal.name;
        FeValue *v = arg->formal.value ? fe_eval(cx, arg->formal.value)
                                       : fe_lookup(cx, name, arg->loc);
        fe_bind(cx, scope, name, v, arg->loc);
    }
    return scope;
}

static bool
has_poison(const FeScope *scope)
{
    for (int i = 0; i < scope->names.len; i++)
        if (fe_value_has_poison(scope->names.data[i]->value))
            return true;
    return false;
}

/* Outside of a step. */
static FeValue *
refuse_merge(Lower *cx, const FeScope *scope, Loc loc)
{
    if (has_poison(scope) || fe_refuse_library_in_main(cx, loc))
        return &fe_poison;
    const IrCall *call = cx->context == FE_CROSS ? fe_call_in_main(cx) : NULL;
    return fe_error_show(cx, loc, call ? call->loc : NO_LOC,
                         call ? fe_run_note(cx, call->loc)
                         : fe_is_cross(cx)
                             ? "write the lines of its block without merge"
                             : NULL,
                         "\"merge\" needs replica context, and this is %s",
                         fe_context_name(cx->context));
}

FeValue *
fe_merge(Lower *cx, const AstNode *n)
{
    FeRegion saved;
    FeScope *scope = merge_scope(cx, &n->merge.args);
    if (cx->context != FE_REPLICA)
        return refuse_merge(cx, scope, n->loc);
    if (!fe_check_together(cx, "merge", n->loc))
        return &fe_poison;
    IrOp *op = fe_region_open(cx, OP_merge, FE_MERGE, n->loc, &saved);
    if (!op)
        return &fe_poison;
    FeValue *result = fe_exec_body(cx, scope, n->merge.body);
    return fe_region_close(cx, op, &saved, result, n->loc);
}

/* ---- update ------------------------------------------------------------- */

/* Checks the target of an update; *var is its variable, NULL for a non_slot
 * one. */
static bool
read_target(Lower *cx, const AstNode *n, IrVar **var)
{
    FeValues leaves = {0};
    FeValue *target = fe_eval(cx, n->update.target);
    Loc loc = n->update.target->loc;
    *var = NULL;
    if (fe_value_has_poison(target))
        return false;
    fe_value_leaves(cx->arena, target, &leaves);
    for (int i = 0; i < leaves.len; i++) {
        const FeValue *leaf = leaves.data[i];
        if (leaf->kind != FE_VAR) {
            fe_error(cx, loc, "an update is of variables, not of %s",
                     fe_describe(cx, leaf));
            return false;
        }
    }
    if (n->update.non_slot)
        return true;
    if (target->kind != FE_VAR) {
        fe_error(cx, loc, "an update is of one variable, not of %s",
                 fe_describe(cx, target));
        return false;
    }
    *var = target->var;
    return true;
}

/* Under central storage an update is made once, where the variables are: what
 * it gives cannot be each replica's own. */
static bool
gives_one_value(Lower *cx, const IrOp *update)
{
    bool is_central = ir_strategy_info[cx->module->strategy].central;
    for (int i = 0; is_central && i < update->num_results; i++) {
        if (update->results[i]->type.locality != LOCAL_PER_REPLICA)
            continue;
        fe_error_note(cx, update->loc,
                      "return what is the same on all replicas, and use the "
                      "rest behind the update",
                      "one device makes an update under central_storage, and "
                      "this one gives a value that each replica has of its "
                      "own");
        return false;
    }
    return true;
}

FeValue *
fe_update(Lower *cx, const AstNode *n)
{
    FeRegion saved;
    IrVar *var;
    if (!check_cross(cx, "update",
                     "the block of a merge is cross-replica "
                     "context",
                     n->loc) ||
        !read_target(cx, n, &var))
        return &fe_poison;
    FeScope *scope = fe_scope_new(cx, cx->scope, SCOPE_FUNC);
    IrOp *op = fe_region_open(cx, OP_update, FE_UPDATE, n->loc, &saved);
    if (!op)
        return &fe_poison;
    if (var)
        ir_set_text(op, A_var, var->name);
    cx->updated = var;
    FeValue *result = fe_exec_body(cx, scope, n->update.body);
    result = fe_region_close(cx, op, &saved, result, n->loc);
    return gives_one_value(cx, op) ? result : &fe_poison;
}
