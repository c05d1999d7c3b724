/*
 * tf32.h - products that tensor cores may compute (D36)
 */
#ifndef TFD_IR_RULES_TF32_H
#define TFD_IR_RULES_TF32_H

#include "ir/ir.h"

/* Whether op is a product of matrices or a convolution that is computed in f32:
 * of f32, bf16 or f16. */
bool ir_can_be_tf32(const IrOp *op);
/* Whether it says that tensor cores may compute it. */
bool ir_is_tf32(const IrOp *op);

#endif
