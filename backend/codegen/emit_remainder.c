/*
 * emit_remainder.c - quotients of floats rounded down, and what remains
 *
 * Their bits are those of ir/rules/eval.c, which has fmod of C.  Here the
 * remainder is what is left of x after steps that each take a whole multiple of
 * y from it.  With q = x / y as a float of p bits and n = rint(q), x - n * y is
 * a multiple of the last place of n * y and at most half of it or half of y, so
 * one fma finds it exactly, and it is 2^p times smaller than x or smaller than
 * y.  Quotients below 2^p, the usual ones, need one step; only vectors with a
 * greater one come to the loop.
 */
#include "backend/codegen/emit.h"

/* What depends on the width.  A quotient beyond 1 / down may overflow, so y
 * times up is taken in its place, twice if need be; the gap between the two
 * keeps the multiple below x. */
typedef struct Width {
    double down, up;
    int steps; /* that reduce the greatest number by the least */
} Width;

static const Width f32_width = {0x1p-120, 0x1p100, 14};
static const Width f64_width = {0x1p-1000, 0x1p900, 42};

static const Width *
width_of(const BeUnit *u, Type type)
{
    return be_element(type) == u->f64 ? &f64_width : &f32_width;
}

static Val
magnitude_of(BeUnit *u, Val x)
{
    return be_intrinsic1(u, "llvm.fabs", x);
}

/* The multiple of magnitude, |y|, by which x is divided. */
static Val
divisor_of(BeUnit *u, Val x, Val magnitude)
{
    Type type = LLVMTypeOf(x);
    const Width *w = width_of(u, type);
    Val small = LLVMBuildFMul(u->builder, magnitude_of(u, x),
                              be_float(type, w->down), "");
    for (int i = 0; i < 2; i++) {
        Val far = be_fcmp(u, LLVMRealOGT, small, magnitude);
        Val multiple =
            LLVMBuildFMul(u->builder, magnitude, be_float(type, w->up), "");
        magnitude = be_select(u, far, multiple, magnitude);
    }
    return magnitude;
}

/* Where x is not below magnitude yet; nowhere where either is NaN. */
static Val
is_left(BeUnit *u, Val x, Val magnitude)
{
    return be_fcmp(u, LLVMRealOGE, magnitude_of(u, x), magnitude);
}

static Val
step(BeUnit *u, Val x, Val magnitude)
{
    LLVMBuilderRef b = u->builder;
    Val by = divisor_of(u, x, magnitude), q = LLVMBuildFDiv(b, x, by, "");
    Val less = LLVMBuildFNeg(b, be_intrinsic1(u, "llvm.roundeven", q), "");
    Val remainder = be_intrinsic3(u, "llvm.fma", less, by, x);
    return be_select(u, is_left(u, x, magnitude), remainder, x);
}

static Val
further_steps(BeUnit *u, Val x, Val magnitude)
{
    int steps = width_of(u, LLVMTypeOf(x))->steps;
    BeLoop l;
    be_loop_begin(u, &l, be_word(u, 0), be_word(u, (unsigned)steps),
                  be_word(u, 1), "step");
    Val remainder = be_loop_carry(u, &l, x);
    be_loop_body(u, &l);
    be_loop_next(&l, 0, step(u, remainder, magnitude));
    be_loop_end(u, &l);
    return be_loop_result(&l, 0);
}

/* x less a multiple of magnitude, between -magnitude and magnitude. */
static Val
reduced(BeUnit *u, Val x, Val magnitude)
{
    Block far = be_block(u, "far"), near = be_block(u, "near");
    Val first = step(u, x, magnitude);
    Val done = LLVMBuildNot(u->builder, is_left(u, first, magnitude), "");
    Block before = be_insert_block(u);
    be_cond_br_likely(u, be_all_lanes(u, done), near, far);
    be_position_at_end(u, far);
    Val remainder = further_steps(u, first, magnitude);
    Block after = be_insert_block(u);
    be_br(u, near);
    be_position_at_end(u, near);
    Val result = LLVMBuildPhi(u->builder, LLVMTypeOf(x), "");
    LLVMAddIncoming(result, &first, &before, 1);
    LLVMAddIncoming(result, &remainder, &after, 1);
    return result;
}

/* Where a and b, no zeros, have different signs. */
static Val
signs_differ(BeUnit *u, Val a, Val b)
{
    Val zero = be_zero(LLVMTypeOf(a));
    Val some = be_fcmp(u, LLVMRealONE, a, zero);
    Val a_below = be_fcmp(u, LLVMRealOLT, a, zero);
    Val b_below = be_fcmp(u, LLVMRealOLT, b, zero);
    return be_and(u, some, LLVMBuildXor(u->builder, a_below, b_below, ""));
}

/* C's fmod: of the sign of x where it is not 0. */
static Val
emit_fmod(BeUnit *u, Val x, Val y)
{
    Type type = LLVMTypeOf(x);
    Val magnitude = magnitude_of(u, y),
        infinity = be_float(type, __builtin_inf());
    Val finite = be_fcmp(u, LLVMRealOLT, magnitude_of(u, x), infinity);
    Val some = be_fcmp(u, LLVMRealOGT, magnitude, be_zero(type));
    Val nan = be_float(type, __builtin_nan(""));
    Val remainder =
        reduced(u, be_select(u, be_and(u, finite, some), x, nan), magnitude);
    Val turned = be_intrinsic2(u, "llvm.copysign", magnitude, x);
    turned = LLVMBuildFAdd(u->builder, remainder, turned, "");
    return be_select(u, signs_differ(u, remainder, x), turned, remainder);
}

Val
be_emit_float_mod(BeUnit *u, Val x, Val y)
{
    Val remainder = emit_fmod(u, x, y), zero = be_zero(LLVMTypeOf(x));
    Val is_zero = be_fcmp(u, LLVMRealOEQ, remainder, zero);
    Val signed_zero = be_intrinsic2(u, "llvm.copysign", zero, y);
    Val turned = LLVMBuildFAdd(u->builder, remainder, y, "");
    turned = be_select(u, signs_differ(u, remainder, y), turned, remainder);
    return be_select(u, is_zero, signed_zero, turned);
}

/* q, a whole number but for errors of rounding, as one. */
static Val
whole(BeUnit *u, Val q)
{
    LLVMBuilderRef b = u->builder;
    Type type = LLVMTypeOf(q);
    Val floor = be_intrinsic1(u, "llvm.floor", q);
    Val part = LLVMBuildFSub(b, q, floor, "");
    Val above = be_fcmp(u, LLVMRealOGT, part, be_float(type, 0.5));
    Val next = LLVMBuildFAdd(b, floor, be_float(type, 1), "");
    return be_select(u, above, next, floor);
}

Val
be_emit_float_floordiv(BeUnit *u, Val x, Val y)
{
    LLVMBuilderRef b = u->builder;
    Type type = LLVMTypeOf(x);
    Val remainder = emit_fmod(u, x, y), zero = be_zero(type);
    Val q = LLVMBuildFDiv(b, LLVMBuildFSub(b, x, remainder, ""), y, "");
    Val lower = LLVMBuildFSub(b, q, be_float(type, 1), "");
    q = be_select(u, signs_differ(u, remainder, y), lower, q);
    Val plain = LLVMBuildFDiv(b, x, y, "");
    Val signed_zero = be_intrinsic2(u, "llvm.copysign", zero, plain);
    Val is_zero = be_fcmp(u, LLVMRealOEQ, q, zero);
    Val result = be_select(u, is_zero, signed_zero, whole(u, q));
    return be_select(u, be_fcmp(u, LLVMRealOEQ, y, zero), plain, result);
}
