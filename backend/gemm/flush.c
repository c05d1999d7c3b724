/*
 * flush.c - arithmetic without subnormal numbers
 */
#include "backend/gemm/pairs.h"

static const double tiny = 0x1p-126; /* the least normal f32 */

/* x where that is normal, zero or NaN; else zero of its sign. */
static Val
flushed_below(BeUnit *u, Val magnitude, double limit, Val x, Val narrow)
{
    Type type = LLVMTypeOf(x);
    Val zero = be_intrinsic2(u, "llvm.copysign", be_zero(type), x);
    if (narrow != x)
        zero = LLVMBuildFPTrunc(u->builder, zero, LLVMTypeOf(narrow), "");
    Val below = be_fcmp(u, LLVMRealOLT, magnitude, be_float(type, limit));
    return be_select(u, below, zero, narrow);
}

Val
be_flushed(BeUnit *u, Val x)
{
    return flushed_below(u, be_intrinsic1(u, "llvm.fabs", x), tiny, x, x);
}

/* See ir/rules/pairs.c. */
Val
be_flushed_fma(BeUnit *u, Val x, Val y, Val sum)
{
    LLVMBuilderRef b = u->builder;
    Type single = LLVMTypeOf(sum), wide = be_retype(single, u->f64);
    Val a = LLVMBuildFPExt(b, x, wide, "");
    Val c = LLVMBuildFPExt(b, y, wide, "");
    Val exact =
        be_intrinsic3(u, "llvm.fma", a, c, LLVMBuildFPExt(b, sum, wide, ""));
    Val magnitude = be_intrinsic1(u, "llvm.fabs", exact);
    return flushed_below(u, magnitude, 0x1.ffffffp-127, exact,
                         LLVMBuildFPTrunc(b, exact, single, ""));
}

/* A sum that is subnormal is exact. */
Val
be_flushed_add(BeUnit *u, Val x, Val y)
{
    return be_flushed(u, LLVMBuildFAdd(u->builder, x, y, ""));
}

/* ---- the mode of a CPU -------------------------------------------------- */

enum { FLUSH_RESULTS = 0x8000, FLUSH_OPERANDS = 0x40 }; /* of MXCSR */

static void
next_block(BeUnit *u, const char *name)
{
    Block next = be_block(u, name);
    be_br(u, next);
    be_position_at_end(u, next);
}

static void
set_mode(BeUnit *u, Val mode, Val memory)
{
    be_store(u, mode, memory, 4);
    be_intrinsic(u, "llvm.x86.sse.ldmxcsr", NULL, 0, &memory, 1);
}

Val
be_flush_begin(BeUnit *u)
{
    Val memory = be_alloca(u, u->i32, 1, 4, "mxcsr");
    next_block(u, "flush");
    be_intrinsic(u, "llvm.x86.sse.stmxcsr", NULL, 0, &memory, 1);
    Val before = be_load(u, u->i32, memory, 4);
    Val more = be_int(u->i32, FLUSH_RESULTS | FLUSH_OPERANDS);
    set_mode(u, be_or(u, before, more), memory);
    be_store(u, before, memory, 4);
    next_block(u, "flushed");
    return memory;
}

void
be_flush_end(BeUnit *u, Val before)
{
    next_block(u, "unflush");
    be_intrinsic(u, "llvm.x86.sse.ldmxcsr", NULL, 0, &before, 1);
    next_block(u, "unflushed");
}
