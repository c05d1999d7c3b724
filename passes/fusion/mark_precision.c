/*
 * mark_precision.c - products of which --precision changes the order of sums
 *
 * tf32       every product of matrices and convolution of f32, bf16 and f16
 *            says that tensor cores may round its operands to TF32 and add in
 *            their own order (D36).  Numbers of bf16 and f16 are numbers of
 *            TF32 already.  Only GPUs have tensor cores: all else computes what
 *            it always does.
 * vdpbf16ps  every one of bf16 says that its products are added in one chain,
 *            as that instruction does (D37), on every device.
 */
#include "ir/ir.h"
#include "ir/rules/pairs.h"
#include "ir/rules/tf32.h"
#include "passes/support/pass.h"

static void
mark_tf32(IrOp *op, void *data)
{
    (void)data;
    if (ir_can_be_tf32(op))
        ir_set_int(op, A_tf32, true);
}

static void
mark_one_chain(IrOp *op, void *data)
{
    (void)data;
    if (ir_adds_pairs(op))
        ir_set_int(op, A_one_chain, true);
}

bool
pass_mark_precision(PassCx *cx)
{
    PassPrecision precision = cx->options->precision;
    if (precision == PASS_EXACT)
        return true;
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next)
        ir_walk(fn->body, precision == PASS_TF32 ? mark_tf32 : mark_one_chain,
                NULL);
    return true;
}
