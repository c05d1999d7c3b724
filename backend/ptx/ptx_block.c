/*
 * ptx_block.c - conditions, barriers and shared memory of a block's threads
 */
#include "backend/ptx/ptx_emit.h"

void
be_ptx_barrier(Ptx *p)
{
    be_intrinsic(p->e.u, "llvm.nvvm.barrier0", NULL, 0, NULL, 0);
}

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

Val
be_ptx_shared_at(Ptx *p, int64_t offset, Val index, int64_t bytes)
{
    Emit *e = &p->e;
    Val at = be_mul(e->u, index, be_emit_word(e, bytes));
    at = be_add(e->u, at, be_emit_word(e, offset));
    return be_offset(e->u, p->shared, at);
}
