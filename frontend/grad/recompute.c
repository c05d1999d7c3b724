/*
 * recompute.c - recompute(f): f(), of which no value is kept for a gradient
 *
 * f is lowered as any function.  Its results pass through a recompute, which
 * also takes the values that f uses from outside: what the pass differentiate
 * computes again is made of them.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include "frontend/lower/call.h"
#include "ir/rules/build.h"
#include "ir/table.h"

typedef struct Recomputed {
    Lower *cx;
    const IrOp *before;  /* f; NULL: f begins its block */
    IR_TABLE(bool) seen; /* values that are made by f, or noted as operands */
    IrValues operands;   /* the results of f, then what it uses from outside */
} Recomputed;

static IrOp *
first_op(const Recomputed *r)
{
    return r->before ? r->before->next : r->cx->block->first;
}

/* Whether v has not been seen. */
static bool
is_new(Recomputed *r, const IrValue *v)
{
    bool *seen = IR_TABLE_SLOT(r->cx->arena, r->seen, v->number);
    bool is_first = !*seen;
    *seen = true;
    return is_first;
}

static void
note_made(IrOp *op, void *data)
{
    for (int i = 0; i < op->num_results; i++)
        is_new(data, op->results[i]);
    for (int i = 0; i < op->num_regions; i++)
        for (int k = 0; k < op->regions[i]->args.len; k++)
            is_new(data, op->regions[i]->args.data[k]);
}

static void
note_used(IrOp *op, void *data)
{
    Recomputed *r = data;
    for (int i = 0; i < op->num_operands; i++)
        if (is_new(r, op->operands[i]))
            VEC_PUSH(r->cx->arena, r->operands, op->operands[i]);
}

/* ---- results ------------------------------------------------------------- */

/* Whether f makes leaf, and gradients flow through it. */
static bool
is_made(const Recomputed *r, const FeValue *leaf)
{
    if (leaf->kind != FE_TENSOR || !dtype_is_float(leaf->tensor->type.dtype))
        return false;
    const bool *seen = IR_TABLE_FIND(r->seen, leaf->tensor->number);
    return seen && *seen;
}

/* The results of f with those of a recompute in place of what f makes. */
static FeValue *
through_recompute(Recomputed *r, FeValue *result, Loc loc)
{
    Lower *cx = r->cx;
    FeValues leaves = {0};
    VEC(IrType) types = {0};
    fe_value_leaves(cx->arena, result, &leaves);
    for (IrOp *op = first_op(r); op; op = op->next)
        ir_walk_op(op, note_made, r);
    for (int i = 0; i < leaves.len; i++) {
        if (!is_made(r, leaves.data[i]))
            continue;
        VEC_PUSH(cx->arena, r->operands, leaves.data[i]->tensor);
        VEC_PUSH(cx->arena, types, leaves.data[i]->tensor->type);
    }
    if (types.len == 0 || !fe_check_can_emit(cx, loc))
        return result;
    for (IrOp *op = first_op(r); op; op = op->next)
        ir_walk_op(op, note_used, r);
    IrOp *op = ir_build_op(cx->block, OP_recompute, r->operands.len,
                           r->operands.data, loc);
    ir_op_results(op, types.len, types.data);
    for (int i = 0, k = 0; i < leaves.len && k < types.len; i++)
        if (leaves.data[i]->kind == FE_TENSOR &&
            leaves.data[i]->tensor == r->operands.data[k])
            leaves.data[i] = fe_value_tensor(cx->arena, op->results[k++]);
    FeValue *const *next = leaves.data;
    return fe_value_rebuild(cx->arena, result, &next);
}

FeValue *
fe_recompute(Lower *cx, FeValue *f, Loc loc)
{
    Recomputed r = {.cx = cx, .before = cx->block->last};
    FeValue *result = fe_call_with(cx, f, 0, NULL, false, "called", loc);
    return fe_value_has_poison(result) ? &fe_poison
                                       : through_recompute(&r, result, loc);
}
