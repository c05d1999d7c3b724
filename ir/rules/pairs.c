/*
 * pairs.c - the orders in which products of bf16 are added
 *
 * The product of two numbers of bf16 is exact in f64, and a sum of it and an
 * f32 that is rounded to f64 and then to f32 is the fused multiply-add: either
 * it is exact in f64, or the lesser part lies far below the last digit of an
 * f32.  A result is subnormal if it were below 2^-126 with as many digits as a
 * normal one has, as x86 defines it: the greatest is 2^-126 - 2^-151.
 */
#include "ir/rules/pairs.h"

#include <math.h>
#include "ir/ops/op.h"
#include "ir/rules/windows.h"

/* Channels of a group, of the operand that has windows. */
static int64_t
channels_of_group(const IrOp *op)
{
    const IrType *weights =
        op->kind == OP_conv ? &op->operands[1]->type : &op->results[0]->type;
    Dim channels = weights->dims[ir_windows_of(op).num_axes];
    return ir_dim_is_const(channels) ? channels.c : 2;
}

bool
ir_adds_pairs(const IrOp *op)
{
    if (ir_attr_index(op->kind, A_one_chain) < 0 ||
        op->operands[0]->type.dtype != DT_bf16)
        return false;
    if (op->kind == OP_conv || op->kind == OP_conv_weights)
        return ir_windows_of(op).groups == 1 || channels_of_group(op) > 1;
    return op->kind == OP_dot;
}

IrPairOrder
ir_pair_order(const IrOp *op)
{
    if (!ir_adds_pairs(op))
        return IR_NO_PAIRS;
    return ir_int(op, A_one_chain) ? IR_ONE_CHAIN : IR_TWO_CHAINS;
}

static float
flushed(double x)
{
    return fabs(x) < 0x1.ffffffp-127 ? (float)copysign(0, x) : (float)x;
}

/* The fused multiply-add of numbers of bf16 and a sum. */
static float
with_product(float sum, float x, float y)
{
    return flushed((double)flushed(x) * flushed(y) + sum);
}

void
ir_pairs_add(IrPairs *p, float x, float y)
{
    if (p->order == IR_ONE_CHAIN) {
        if (p->count == 1)
            p->sum = with_product(with_product(p->sum, x, y), p->first[0],
                                  p->first[1]);
        p->first[0] = x;
        p->first[1] = y;
        p->count = !p->count;
        return;
    }
    float *chain = &p->chains[p->count % 2];
    *chain = with_product(*chain, x, y);
    if (++p->count == IR_PAIRS_GROUP)
        *p = (IrPairs){.order = p->order, .sum = ir_pairs_sum(p)};
}

float
ir_pairs_sum(const IrPairs *p)
{
    IrPairs all = *p;
    if (p->count == 0)
        return p->sum;
    if (p->order == IR_ONE_CHAIN) {
        ir_pairs_add(&all, 0, 0);
        return all.sum;
    }
    for (; all.count < IR_PAIRS_GROUP; all.count++)
        all.chains[all.count % 2] += 0.0F;
    float both = flushed((double)all.chains[0] + all.chains[1]);
    return flushed((double)p->sum + both);
}
