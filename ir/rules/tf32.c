/*
 * tf32.c - products that tensor cores may compute (D36)
 */
#include "ir/rules/tf32.h"

#include "ir/ops/op.h"

bool
ir_can_be_tf32(const IrOp *op)
{
    return ir_attr_index(op->kind, A_tf32) >= 0 &&
           dtype_compute(op->results[0]->type.dtype) == DT_f32;
}

bool
ir_is_tf32(const IrOp *op)
{
    return ir_can_be_tf32(op) && ir_int(op, A_tf32);
}
