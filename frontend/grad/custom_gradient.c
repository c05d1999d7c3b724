/*
 * custom_gradient.c - fn f(x) = ... with grad(dy) = ...
 *
 * The body is lowered as any; its results pass through a custom_gradient, whose
 * region computes the gradients of the arguments from those of the results.  No
 * gradient flows to other values that the body uses.
 *
 * The gradient sees the names that the body sees at its beginning.  It gives
 * one value for each parameter, shaped like the argument; none stands for no
 * gradient.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/region.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/call.h"
#include "ir/rules/build.h"
#include "ir/rules/rules.h"

/* A float within an argument, to which gradients flow. */
typedef struct Input {
    const FeValue *leaf;
    IrValue *value;
} Input;

typedef struct CustomGradient {
    Lower *cx;
    const AstNode *fn; /* the function; its gradient is fn->fn.grad */
    FeScope *scope;    /* of its parameters */
    FeValues args;     /* one a parameter */
    VEC(Input) inputs;
    FeValues leaves; /* of the result */
    IrValues outputs;
    IrValues yields; /* one an input: NULL for no gradient */
} CustomGradient;

/* ---- inputs and outputs ------------------------------------------------- */

/* A per-replica value that cannot be computed with here is passed on. */
static bool
is_differentiable(Lower *cx, FeValue *leaf)
{
    IrType t;
    bool is_value = leaf->kind == FE_TENSOR || leaf->kind == FE_VAR;
    return is_value && cx->context != FE_TOP && fe_type_of(cx, leaf, &t) &&
           dtype_is_float(t.dtype) &&
           (!fe_is_cross(cx) || t.locality != LOCAL_PER_REPLICA);
}

static FeValue *
argument(const CustomGradient *og, const AstNode *formal)
{
    const FeBinding *b = fe_scope_find(og->scope, formal->formal.name);
    return b ? b->value : &fe_none; /* "_" */
}

static void
add_inputs(CustomGradient *og, FeValue *arg)
{
    Lower *cx = og->cx;
    FeValues leaves = {0};
    fe_value_leaves(cx->arena, arg, &leaves);
    for (int i = 0; i < leaves.len; i++) {
        Input in = {.leaf = leaves.data[i]};
        if (!is_differentiable(cx, leaves.data[i]))
            continue;
        in.value = fe_operand(cx, leaves.data[i], og->fn->loc);
        if (in.value)
            VEC_PUSH(cx->arena, og->inputs, in);
    }
}

static void
find_inputs(CustomGradient *og)
{
    const AstList *params = &og->fn->fn.params;
    for (int i = 0; i < params->len; i++) {
        VEC_PUSH(og->cx->arena, og->args, argument(og, params->data[i]));
        add_inputs(og, og->args.data[i]);
    }
}

static void
find_outputs(CustomGradient *og, FeValue *result)
{
    Lower *cx = og->cx;
    fe_value_leaves(cx->arena, result, &og->leaves);
    for (int i = 0; i < og->leaves.len; i++)
        if (is_differentiable(cx, og->leaves.data[i]))
            VEC_PUSH(cx->arena, og->outputs,
                     fe_operand(cx, og->leaves.data[i], og->fn->loc));
}

/* ---- the operation ------------------------------------------------------- */

static IrOp *
append_op(CustomGradient *og)
{
    Lower *cx = og->cx;
    IrValues operands = {0};
    VEC(IrType) types = {0};
    for (int i = 0; i < og->outputs.len; i++) {
        VEC_PUSH(cx->arena, operands, og->outputs.data[i]);
        VEC_PUSH(cx->arena, types, og->outputs.data[i]->type);
    }
    for (int i = 0; i < og->inputs.len; i++)
        VEC_PUSH(cx->arena, operands, og->inputs.data[i].value);
    IrOp *op = fe_nested_op(cx, OP_custom_gradient, operands.len, operands.data,
                            og->fn->fn.grad->loc);
    if (!op)
        return NULL;
    ir_op_results(op, types.len, types.data);
    for (int i = 0; i < types.len; i++) {
        IrValue *dy = ir_block_arg(op->regions[0], types.data[i], NULL);
        IrType t;
        if (ir_locality_of_arg(op, 0, i, &t))
            dy->type = t;
    }
    return op;
}

/* Inputs without a gradient are no operands. */
static void
close_op(CustomGradient *og, IrOp *op)
{
    IrValues yields = {0};
    int n = op->num_results;
    for (int i = 0; i < og->yields.len; i++) {
        if (!og->yields.data[i])
            continue;
        op->operands[n + yields.len] = og->inputs.data[i].value;
        VEC_PUSH(og->cx->arena, yields, og->yields.data[i]);
    }
    op->num_operands = n + yields.len;
    ir_build_yield(op->regions[0], yields.len, yields.data, op->loc);
}

/* result with the values that passed through op, or with their gradients and
 * none for the rest. */
static FeValue *
through_op(CustomGradient *og, FeValue *result, IrValue *const *values,
           bool is_gradient)
{
    Lower *cx = og->cx;
    FeValues leaves = {0};
    int next = 0;
    for (int i = 0; i < og->leaves.len; i++) {
        FeValue *leaf = og->leaves.data[i];
        if (is_differentiable(cx, leaf))
            leaf = fe_value_tensor(cx->arena, values[next++]);
        else if (is_gradient)
            leaf = &fe_none;
        VEC_PUSH(cx->arena, leaves, leaf);
    }
    FeValue *const *rest = leaves.data;
    return fe_value_rebuild(cx->arena, result, &rest);
}

/* ---- evaluating the gradient --------------------------------------------- */

/* Binds dy, or one name to each field of it. */
static FeScope *
bind_gradients(CustomGradient *og, FeValue *dy)
{
    Lower *cx = og->cx;
    const AstNode *grad = og->fn->fn.grad;
    const AstList *params = &grad->fn.params;
    bool spread = params->len != 1;
    int n = !spread ? 1 : dy->kind == FE_NEST ? dy->nest.len : 1;
    if (params->len != n) {
        fe_error(cx, grad->loc,
                 "%s gives %d value%s, whose gradients are %d, not %d",
                 og->fn->fn.name ? og->fn->fn.name : "the function", n,
                 n == 1 ? "" : "s", n, params->len);
        return NULL;
    }
    FeCall call = {.name = "grad", .num_args = n, .loc = grad->loc};
    call.args = NEW_ARRAY(cx->arena, FeArg, (size_t)n);
    for (int i = 0; i < n; i++)
        call.args[i] =
            (FeArg){.value = spread ? dy->nest.items[i] : dy, .loc = grad->loc};
    return fe_bind_params(cx, params, og->scope, &call);
}

static FeValue *
eval_gradient(CustomGradient *og, FeValue *dy)
{
    Lower *cx = og->cx;
    const AstNode *body = og->fn->fn.grad->fn.body;
    FeScope *scope = bind_gradients(og, dy);
    if (!scope)
        return &fe_poison;
    return body->kind == AST_BLOCK ? fe_exec_body(cx, scope, body)
                                   : fe_eval_in(cx, scope, body);
}

/* ---- gradients for the arguments ----------------------------------------- */

/* Where the gradient is written, as far as one can see: to be underlined. */
static const AstNode *
written_result(const AstNode *grad)
{
    const AstNode *n = grad->fn.body;
    if (n->kind != AST_BLOCK || n->block.stmts.len == 0)
        return n;
    const AstNode *last = n->block.stmts.data[n->block.stmts.len - 1];
    bool returns = last->kind == AST_RETURN && last->return_.value;
    return returns ? last->return_.value : n;
}

typedef struct Place {
    const char *name; /* of the parameter */
    Loc loc;          /* of its gradient */
} Place;

static IrValue *
refuse_shape(CustomGradient *og, const IrType *have, const IrType *want,
             Place at)
{
    Lower *cx = og->cx;
    const char *repair = NULL;
    if (have->dtype != want->dtype)
        repair =
            fe_format(cx, "cast it: %s(...)", dtype_info[want->dtype].name);
    else if (have->rank > want->rank)
        repair = "sum it over the axes that the argument does not have";
    fe_error_note(cx, at.loc, repair,
                  "the gradient of \"%s\" is %s, and \"%s\" is %s", at.name,
                  fe_type_text(cx, have), at.name, fe_type_text(cx, want));
    return NULL;
}

/* A number is fine where the argument is one. */
static IrValue *
gradient_of_leaf(CustomGradient *og, FeValue *d, const IrType *want, Place at)
{
    Lower *cx = og->cx;
    IrType have;
    if (!fe_type_of(cx, d, &have)) {
        fe_error(cx, at.loc, "the gradient of \"%s\" is %s", at.name,
                 fe_describe(cx, d));
        return NULL;
    }
    bool untyped = d->kind == FE_CONST && d->constant.untyped;
    if (!ir_type_same_shape(&have, want) ||
        (have.dtype != want->dtype && !untyped))
        return refuse_shape(og, &have, want, at);
    return fe_operand_as(cx, d, want->dtype, at.loc);
}

/* Takes the gradients d of arg, or none for all of it, in the order of the
 * inputs. */
static void
take_gradients(CustomGradient *og, const FeValue *arg, FeValue *d, Place at)
{
    Lower *cx = og->cx;
    if (arg->kind == FE_NEST) {
        bool alike = d->kind == FE_NEST && d->nest.len == arg->nest.len;
        if (!alike && d->kind != FE_NONE && !fe_value_has_poison(d))
            fe_error(cx, at.loc,
                     "the gradient of \"%s\" is %s, and \"%s\" is %s of %d",
                     at.name, fe_describe(cx, d), at.name, fe_describe(cx, arg),
                     arg->nest.len);
        for (int i = 0; i < arg->nest.len; i++)
            take_gradients(og, arg->nest.items[i],
                           alike ? d->nest.items[i] : &fe_none, at);
        return;
    }
    int next = og->yields.len;
    if (next == og->inputs.len || og->inputs.data[next].leaf != arg)
        return; /* a constant, an integer, a function: none is wanted */
    IrValue *dx = NULL;
    if (d->kind != FE_NONE && d->kind != FE_POISON)
        dx = gradient_of_leaf(og, d, &og->inputs.data[next].value->type, at);
    VEC_PUSH(cx->arena, og->yields, dx);
}

static const char *
plural(int n)
{
    return n == 1 ? "" : "s";
}

/* Assigns the results of the gradient to the parameters. */
static void
divide_gradients(CustomGradient *og, FeValue *d)
{
    const AstList *params = &og->fn->fn.params;
    const AstNode *node = written_result(og->fn->fn.grad);
    bool single = params->len == 1;
    int n = single ? 1 : d->kind == FE_NEST ? d->nest.len : d->kind != FE_NONE;
    if (fe_value_has_poison(d))
        return;
    if (n != params->len) {
        fe_error_note(og->cx, node->loc,
                      "none is written for a parameter without a gradient",
                      "there %s %d gradient%s, and %s has %d parameter%s",
                      n == 1 ? "is" : "are", n, plural(n),
                      og->fn->fn.name ? og->fn->fn.name : "the function",
                      params->len, plural(params->len));
        return;
    }
    bool apart = !single && node->kind == AST_TUPLE;
    for (int i = 0; i < n; i++) {
        Place at = {params->data[i]->formal.name,
                    apart ? node->tuple.items.data[i]->loc : node->loc};
        take_gradients(og, og->args.data[i], single ? d : d->nest.items[i], at);
    }
}

/* ---- all of it ----------------------------------------------------------- */

static FeValue *
replace_gradient(CustomGradient *og, FeValue *result)
{
    Lower *cx = og->cx;
    find_outputs(og, result);
    if (og->outputs.len == 0)
        return result; /* known when compiling, or no floats */
    IrOp *op = append_op(og);
    if (!op)
        return &fe_poison;
    FeRegion saved = fe_region_enter(cx, op->regions[0], cx->context);
    int64_t before = cx->num_errors;
    FeValue *dy = through_op(og, result, op->regions[0]->args.data, true);
    divide_gradients(og, eval_gradient(og, dy));
    close_op(og, op);
    fe_region_leave(cx, &saved);
    if (cx->num_errors > before)
        return &fe_poison;
    return through_op(og, result, op->results, false);
}

FeValue *
fe_custom_gradient(Lower *cx, const AstNode *fn, FeScope *scope,
                   FeValue *(*body)(Lower *cx, FeScope *scope,
                                    const AstNode *fn))
{
    CustomGradient og = {.cx = cx, .fn = fn, .scope = scope};
    find_inputs(&og);
    FeValue *result = body(cx, scope, fn);
    if (fe_value_has_poison(result))
        return &fe_poison;
    return replace_gradient(&og, result);
}
