/*
 * ptx_block.c - conditions, barriers, shuffles and shared memory of a block's
 *               threads
 */
#include "backend/ptx/ptx_emit.h"

void
be_ptx_barrier(Ptx *p)
{
    be_intrinsic(p->e.u, "llvm.nvvm.barrier0", NULL, 0, NULL, 0);
}

void
be_ptx_warp_barrier(Ptx *p)
{
    Val all = be_int(p->e.u->i32, -1);
    be_intrinsic(p->e.u, "llvm.nvvm.bar.warp.sync", NULL, 0, &all, 1);
}

/* ---- shuffles ----------------------------------------------------------- */

static Val
shuffle_word(Ptx *p, Val x, int distance)
{
    BeUnit *u = p->e.u;
    Val args[] = {be_int(u->i32, -1), x, be_int(u->i32, distance),
                  be_int(u->i32, PTX_WARP - 1)};
    return be_intrinsic(u, "llvm.nvvm.shfl.sync.bfly.i32", NULL, 0, args, 4);
}

/* Both halves of an i64. */
static Val
shuffle_long(Ptx *p, Val x, int distance)
{
    BeUnit *u = p->e.u;
    LLVMBuilderRef b = u->builder;
    Val half = be_int(u->i64, 32);
    Val high = LLVMBuildLShr(b, x, half, "");
    high = LLVMBuildTrunc(b, high, u->i32, "");
    Val low = LLVMBuildTrunc(b, x, u->i32, "");
    low = LLVMBuildZExt(b, shuffle_word(p, low, distance), u->i64, "");
    high = LLVMBuildZExt(b, shuffle_word(p, high, distance), u->i64, "");
    return LLVMBuildOr(b, LLVMBuildShl(b, high, half, ""), low, "");
}

Val
be_ptx_shuffle(Ptx *p, Val x, int distance)
{
    BeUnit *u = p->e.u;
    LLVMBuilderRef b = u->builder;
    Type type = LLVMTypeOf(x);
    bool is_float = type == u->f32 || type == u->f64;
    Type bits = type == u->f32 ? u->i32 : type == u->f64 ? u->i64 : type;
    if (is_float)
        x = LLVMBuildBitCast(b, x, bits, "");
    if (bits == u->i64) {
        x = shuffle_long(p, x, distance);
    } else {
        x = LLVMBuildZExt(b, x, u->i32, "");
        x = LLVMBuildTrunc(b, shuffle_word(p, x, distance), bits, "");
    }
    return is_float ? LLVMBuildBitCast(b, x, type, "") : x;
}

/* ---- conditions --------------------------------------------------------- */

PtxIf
be_ptx_if(Ptx *p, Val condition)
{
    BeUnit *u = p->e.u;
    PtxIf i = {.before = be_insert_block(u)};
    Block then = be_block(u, "then");
    i.after = be_block(u, "after");
    be_cond_br(u, condition, then, i.after);
    be_position_at_end(u, then);
    return i;
}

Val
be_ptx_end_if(Ptx *p, const PtxIf *i, Val x, Val otherwise)
{
    BeUnit *u = p->e.u;
    Block then = be_insert_block(u);
    be_br(u, i->after);
    be_position_at_end(u, i->after);
    if (!x)
        return NULL;
    Val v = LLVMBuildPhi(u->builder, LLVMTypeOf(x), "");
    Val values[] = {x, otherwise};
    Block from[] = {then, i->before};
    LLVMAddIncoming(v, values, from, 2);
    return v;
}

void
be_ptx_end_if_all(Ptx *p, const PtxIf *i, Val *x, const Val *otherwise, int num)
{
    BeUnit *u = p->e.u;
    Block from[] = {be_insert_block(u), i->before};
    be_br(u, i->after);
    be_position_at_end(u, i->after);
    for (int n = 0; n < num; n++) {
        Val values[] = {x[n], otherwise[n]};
        x[n] = LLVMBuildPhi(u->builder, LLVMTypeOf(values[0]), "");
        LLVMAddIncoming(x[n], values, from, 2);
    }
}

Val
be_ptx_shared_at(Ptx *p, int64_t offset, Val index, int64_t bytes)
{
    Emit *e = &p->e;
    Val at = be_mul(e->u, index, be_emit_word(e, bytes));
    at = be_add(e->u, at, be_emit_word(e, offset));
    return be_offset(e->u, p->shared, at);
}
