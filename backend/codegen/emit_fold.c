/*
 * emit_fold.c - combines partial results of a reduction
 *
 * Every machine folds stripes and chunks in its own way through memory or
 * registers; the single steps are here.
 *
 * Partial results begin with the neutral value, exact to the bit: for a sum of
 * floats that is -0.  So stripes without elements need no special case.  Only
 * the result of no elements at all is corrected at the end.
 *
 * The maximum of two floats takes about six instructions, one after the other,
 * for the sake of NaN and of zeros, the maximum of integers one.  So a CPU
 * makes each element a key first, an i32 of the same order: the bits of a
 * positive float ascend with it, those of a negative one descend.
 */
#include "backend/codegen/emit.h"

#include "ir/rules/eval.h"

static int
stripes_for(int64_t bound)
{
    int stripes = 1;
    while (stripes < IR_STRIPES && stripes < bound)
        stripes *= 2;
    return stripes;
}

EmitFold
be_fold_of(Emit *e, const KNode *n)
{
    EmitFold f = {.e = e, .node = n};
    f.info = &be_kernel_reduces[n->reduce.op];
    f.dtype = n->reduce.element->dtype;
    f.bound = be_ranges_bound(e->k, &n->reduce.ranges);
    f.stripes = stripes_for(f.bound);
    return f;
}

/* ---- keys --------------------------------------------------------------- */

enum { MAGNITUDE = 0x7fffffff };

EmitFold
be_fold_by_keys(Emit *e, const KNode *n)
{
    EmitFold f = be_fold_of(e, n);
    IrOpKind op = f.info->op;
    if ((op == OP_reduce_max || op == OP_reduce_min) && f.dtype == DT_f32) {
        f.dtype = DT_i32;
        f.has_keys = true;
    }
    return f;
}

/* The key whose bits are x, and the other way round. */
static Val
turn_negative(BeUnit *u, Val x)
{
    Type type = LLVMTypeOf(x);
    Val sign = LLVMBuildAShr(u->builder, x, be_int(type, 31), "");
    Val flip = be_and(u, sign, be_int(type, MAGNITUDE));
    return LLVMBuildXor(u->builder, x, flip, "");
}

/* NaN is ahead of all others. */
Val
be_fold_element(const EmitFold *f, Val x)
{
    BeUnit *u = f->e->u;
    if (!f->has_keys)
        return x;
    Type type = be_retype(LLVMTypeOf(x), u->i32);
    Val key = turn_negative(u, LLVMBuildBitCast(u->builder, x, type, ""));
    bool greatest = f->info->op == OP_reduce_max;
    Val ahead = be_int(type, greatest ? INT32_MAX : INT32_MIN);
    return be_select(u, be_fcmp(u, LLVMRealUNO, x, x), ahead, key);
}

static Val
value_of_key(const EmitFold *f, Val key)
{
    BeUnit *u = f->e->u;
    return LLVMBuildBitCast(u->builder, turn_negative(u, key),
                            be_retype(LLVMTypeOf(key), u->f32), "");
}

/* ---- partial results ---------------------------------------------------- */

static Val
neutral_value(const EmitFold *f, Type type)
{
    bool arg = f->info->arg;
    IrOpKind op = f->info->op;
    if (arg)
        op = op == OP_argmax ? OP_reduce_max : OP_reduce_min;
    if (op == OP_sum && dtype_is_float(f->dtype))
        return be_float(type, -0.0);
    if (f->has_keys) /* of -inf or of inf */
        return be_int(type,
                      op == OP_reduce_max ? INT32_MIN | 0x7fffff : 0x7f800000);
    return be_emit_scalar(type, ir_eval_neutral(op, f->dtype));
}

EmitPartial
be_fold_neutral(const EmitFold *f, int lanes)
{
    const BeUnit *u = f->e->u;
    Type type = be_vector(be_emit_type(f->e, f->dtype), lanes);
    EmitPartial p = {neutral_value(f, type), NULL};
    if (f->info->arg)
        p.number = be_int(be_vector(u->i64, lanes), INT64_MAX);
    return p;
}

/* Whether y replaces x. */
static Val
is_ahead(const EmitFold *f, EmitPartial x, EmitPartial y)
{
    BeUnit *u = f->e->u;
    bool greatest = f->info->op == OP_argmax;
    Val pair[] = {y.value, x.value};
    Val ahead = be_emit_map(u, greatest ? OP_gt : OP_lt, f->dtype, pair);
    Val same = be_emit_map(u, OP_eq, f->dtype, pair);
    if (dtype_is_float(f->dtype)) {
        Val x_nan = be_fcmp(u, LLVMRealUNO, x.value, x.value);
        Val y_nan = be_fcmp(u, LLVMRealUNO, y.value, y.value);
        Val first = be_and(u, y_nan, LLVMBuildNot(u->builder, x_nan, ""));
        ahead = be_or(u, ahead, first);
        same = be_or(u, same, be_and(u, x_nan, y_nan));
    }
    Val earlier = be_icmp(u, LLVMIntSLT, y.number, x.number);
    return be_or(u, ahead, be_and(u, same, earlier));
}

EmitPartial
be_fold_combine(const EmitFold *f, EmitPartial x, EmitPartial y)
{
    BeUnit *u = f->e->u;
    Val pair[] = {x.value, y.value};
    if (!f->info->arg)
        return (EmitPartial){be_emit_map(u, f->info->fold, f->dtype, pair),
                             NULL};
    Val ahead = is_ahead(f, x, y);
    EmitPartial out = {.value = be_select(u, ahead, y.value, x.value)};
    out.number = be_select(u, ahead, y.number, x.number);
    return out;
}

EmitPartial
be_fold_select(const EmitFold *f, Val mask, EmitPartial x, EmitPartial y)
{
    BeUnit *u = f->e->u;
    EmitPartial p = {be_select(u, mask, x.value, y.value), NULL};
    if (f->info->arg)
        p.number = be_select(u, mask, x.number, y.number);
    return p;
}

Val
be_fold_result(const EmitFold *f, EmitPartial all)
{
    Emit *e = f->e;
    BeUnit *u = e->u;
    Val result = f->info->arg ? all.number : all.value;
    if (f->has_keys)
        return value_of_key(f, result);
    bool is_sum = f->info->op == OP_sum && dtype_is_float(f->dtype);
    if (!is_sum && !f->info->arg)
        return result;
    int64_t known;
    Val size = be_emit_ranges_size(e, &f->node->reduce.ranges);
    if (be_is_const(size, &known) && known > 0)
        return result;
    Val none = be_icmp(u, LLVMIntEQ, size, be_emit_word(e, 0));
    return be_select(u, none, be_zero(LLVMTypeOf(result)), result);
}
