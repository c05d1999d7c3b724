/*
 * mark_tf32.c - products that tensor cores may compute
 *
 * With --precision tf32 every product of matrices and convolution of f32, bf16
 * and f16 says that tensor cores may round its operands to TF32 and add in
 * their own order (D36).  Numbers of bf16 and f16 are numbers of TF32 already.
 * Only GPUs have tensor cores: all else computes what it always does.
 */
#include "ir/ir.h"
#include "ir/rules/tf32.h"
#include "passes/support/pass.h"

static void
mark(IrOp *op, void *data)
{
    (void)data;
    if (ir_can_be_tf32(op))
        ir_set_int(op, A_tf32, true);
}

bool
pass_mark_tf32(PassCx *cx)
{
    if (cx->options->tf32)
        for (IrFunc *fn = cx->m->first; fn; fn = fn->next)
            ir_walk(fn->body, mark, NULL);
    return true;
}
