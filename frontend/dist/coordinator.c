/*
 * coordinator.c - closures: schedule, fetch, join, done
 *
 * schedule f(x) is an operation with a region, as run is; what a closure gives
 * is wrapped, so that a program says with fetch where it waits.  A closure is
 * cross-replica context of the worker that executes it: it runs steps on the
 * worker's replicas, reads and writes variables, and knows main's values as
 * they were when it was scheduled.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/region.h"
#include "frontend/lower/call.h"

/* ---- schedule ----------------------------------------------------------- */

static bool
check_main(Lower *cx, Loc loc)
{
    if (cx->context == FE_CROSS)
        return true;
    fe_refuse_outside_main(
        cx, "schedule", cx->context == FE_CLOSURE ? "call the function" : NULL,
        loc);
    return false;
}

/* A worker does not wait for what another one computes. */
static bool
check_arguments(Lower *cx, const FeCall *call)
{
    for (int i = 0; i < call->num_args; i++) {
        FeValues leaves = {0};
        fe_value_leaves(cx->arena, call->args[i].value, &leaves);
        for (int k = 0; k < leaves.len; k++) {
            if (leaves.data[k]->kind != FE_REMOTE)
                continue;
            fe_error_note(cx, call->args[i].loc,
                          "fetch(...) waits for its value",
                          "an argument of a closure is not the result of "
                          "another one");
            return false;
        }
    }
    return true;
}

typedef struct Results {
    Lower *cx;
    Loc loc;
} Results;

/* What a closure gives is read before it ends, and is one value. */
static FeValue *
own_result(FeValue *leaf, void *data)
{
    const Results *r = data;
    Lower *cx = r->cx;
    if (leaf->kind == FE_VAR)
        leaf = fe_value_tensor(cx->arena, fe_operand(cx, leaf, r->loc));
    if (leaf->kind == FE_TENSOR &&
        leaf->tensor->type.locality == LOCAL_PER_REPLICA)
        return fe_error_note(cx, r->loc, "combine them: reduce(sum, ...)",
                             "a closure gives main one value, and this one "
                             "has a value for each replica");
    return leaf;
}

FeValue *
fe_schedule(Lower *cx, const AstNode *n)
{
    FeRegion saved;
    const AstNode *node = n->schedule.call;
    if (!fe_check_coordinator(cx, "schedule", n->loc) ||
        !check_main(cx, n->loc))
        return &fe_poison;
    FeValue *callee = fe_eval(cx, node->call.callee);
    FeCall call = fe_call_args(cx, node, callee, fe_callee_name(callee));
    call.loc = n->loc;
    if (!check_arguments(cx, &call))
        return &fe_poison;
    IrOp *op = fe_region_open(cx, OP_schedule, FE_CLOSURE, n->loc, &saved);
    if (!op)
        return &fe_poison;
    FeValue *result = fe_call(cx, callee, &call, "scheduled");
    result =
        fe_value_map(cx->arena, result, own_result, &(Results){cx, n->loc});
    result = fe_region_close(cx, op, &saved, result, n->loc);
    if (fe_value_has_poison(result))
        return &fe_poison;
    FeValue *remote = fe_value_new(cx->arena, FE_REMOTE);
    remote->remote = result;
    return remote;
}

/* ---- waiting ------------------------------------------------------------ */

typedef struct Waited {
    Lower *cx;
    VEC(IrValue *) values;
} Waited;

static FeValue *
note_waited(FeValue *leaf, void *data)
{
    Waited *w = data;
    if (leaf->kind == FE_TENSOR)
        VEC_PUSH(w->cx->arena, w->values, leaf->tensor);
    return leaf;
}

static FeValue *
value_of(FeValue *leaf, void *data)
{
    Waited *w = data;
    if (leaf->kind != FE_REMOTE)
        return leaf;
    return fe_value_map(w->cx->arena, leaf->remote, note_waited, w);
}

FeValue *
fe_builtin_fetch(Lower *cx, const FeArgs *in)
{
    if (!fe_check_coordinator(cx, in->name, in->loc))
        return &fe_poison;
    Waited w = {.cx = cx};
    FeValue *values = fe_value_map(cx->arena, fe_arg(in, 0), value_of, &w);
    if (w.values.len)
        fe_emit(cx, fe_op(cx, OP_join, w.values.len, w.values.data, in->loc));
    return values;
}

static FeValue *
emit_wait(Lower *cx, IrOpKind kind, const FeArgs *in)
{
    if (!fe_check_coordinator(cx, in->name, in->loc))
        return &fe_poison;
    return fe_emit(cx, fe_op(cx, kind, 0, NULL, in->loc));
}

FeValue *
fe_builtin_join(Lower *cx, const FeArgs *in)
{
    return emit_wait(cx, OP_join, in);
}

FeValue *
fe_builtin_cancel(Lower *cx, const FeArgs *in)
{
    return emit_wait(cx, OP_cancel, in);
}

FeValue *
fe_builtin_done(Lower *cx, const FeArgs *in)
{
    return emit_wait(cx, OP_done, in);
}
