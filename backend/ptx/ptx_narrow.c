/*
 * ptx_narrow.c - elements of operands as tensor cores multiply them (D36)
 *
 * f32 are rounded to TF32, ties away from zero; f32 that are numbers of bf16 or
 * f16 become those, two in a word of shared memory.
 */
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"
#include "backend/ptx/ptx_stage.h"

/* The bits of a half in the low bits of a word. */
static Val
low_half(const PtxTile *t, Val x)
{
    BeUnit *u = t->p->e.u;
    LLVMBuilderRef b = u->builder;
    if (t->t->mma == PTX_MMA_BF16) {
        x = LLVMBuildBitCast(b, x, u->i32, "");
        return LLVMBuildLShr(b, x, LLVMConstInt(u->i32, 16, 0), "");
    }
    x = LLVMBuildFPTrunc(b, x, LLVMHalfTypeInContext(u->context), "");
    return LLVMBuildZExt(b, LLVMBuildBitCast(b, x, u->i16, ""), u->i32, "");
}

static int
narrow_to_halves(const PtxTile *t, const Val *x, int num, Val *out)
{
    BeUnit *u = t->p->e.u;
    LLVMBuilderRef b = u->builder;
    if (num == 1) {
        out[0] = LLVMBuildTrunc(b, low_half(t, x[0]), u->i16, "");
        return 1;
    }
    for (int i = 0; i < num / 2; i++) {
        Val high = low_half(t, x[2 * i + 1]);
        high = LLVMBuildShl(b, high, LLVMConstInt(u->i32, 16, 0), "");
        out[i] = LLVMBuildOr(b, low_half(t, x[2 * i]), high, "");
    }
    return num / 2;
}

int
be_ptx_narrow(const PtxTile *t, const PtxOperand *o, const Val *x, int num,
              Val *out)
{
    BeUnit *u = t->p->e.u;
    if (be_ptx_has_halves(t->t))
        return narrow_to_halves(t, x, num, out);
    bool rounds = t->t->mma && !be_kernel_fits(o->value, DT_bf16) &&
                  !be_kernel_fits(o->value, DT_f16);
    for (int i = 0; i < num; i++) {
        out[i] = x[i];
        if (!rounds)
            continue;
        out[i] = be_intrinsic(u, "llvm.nvvm.f2tf32.rna", NULL, 0, &x[i], 1);
        out[i] = LLVMBuildBitCast(u->builder, out[i], t->type, "");
    }
    return num;
}
