/*
 * emit_maths.c - elementary functions, and conversions between dtypes
 *
 * The functions are those of ir/maths/maths.h, with primitives that emit
 * instructions; they and the conversions have the bits of ir_maths_eval and
 * scalar_cast.
 *
 * A value that must be rounded once but passes through f32 on its way to f16 or
 * bf16 is rounded to odd there (see ir/base/number/dtype.c); bf16 is rounded
 * with integers, since the instruction for it flushes subnormals.
 */
#include <assert.h>
#include <math.h>
#include <string.h>
#include "backend/codegen/emit.h"
#include "ir/base/status.h"
#include "ir/maths/maths.h"

/* ---- elementary functions ----------------------------------------------- */

typedef struct MathsCx {
    BeUnit *u;
    int lanes;
    Block before, done; /* of a rare part */
} MathsCx;

static Type
maths_type(const MathsCx *cx, DType width, bool integer)
{
    const BeUnit *u = cx->u;
    Type element = width == DT_f64 ? (integer ? u->i64 : u->f64)
                                   : (integer ? u->i32 : u->f32);
    return be_vector(element, cx->lanes);
}

static MathsVal
maths_number(void *cx, DType width, double value)
{
    return (MathsVal){.ptr = be_float(maths_type(cx, width, false), value)};
}

static MathsVal
maths_integer(void *cx, DType width, uint64_t value)
{
    Type type = maths_type(cx, width, true);
    return (MathsVal){.ptr = be_int(type, (int64_t)value)};
}

/* Primitives that are one instruction with two operands. */
static const struct {
    MathsPrim prim;
    LLVMOpcode opcode;
} binary_prims[] = {
    {PRIM_add, LLVMFAdd}, {PRIM_sub, LLVMFSub},  {PRIM_mul, LLVMFMul},
    {PRIM_div, LLVMFDiv}, {PRIM_iadd, LLVMAdd},  {PRIM_isub, LLVMSub},
    {PRIM_iand, LLVMAnd}, {PRIM_ior, LLVMOr},    {PRIM_ixor, LLVMXor},
    {PRIM_shl, LLVMShl},  {PRIM_lshr, LLVMLShr}, {PRIM_both, LLVMAnd},
};

enum { NUM_BINARY = sizeof binary_prims / sizeof binary_prims[0] };

static Val
other_prim(MathsCx *cx, DType width, MathsPrim prim, Val a, Val b, Val c)
{
    BeUnit *u = cx->u;
    Type number = maths_type(cx, width, false);
    switch (prim) {
    case PRIM_fma:
        return be_intrinsic3(u, "llvm.fma", a, b, c);
    case PRIM_neg:
        return LLVMBuildFNeg(u->builder, a, "");
    case PRIM_abs:
        return be_intrinsic1(u, "llvm.fabs", a);
    case PRIM_sqrt:
        return be_intrinsic1(u, "llvm.sqrt", a);
    case PRIM_floor:
        return be_intrinsic1(u, "llvm.floor", a);
    case PRIM_rint:
        return be_intrinsic1(u, "llvm.roundeven", a);
    case PRIM_lt:
        return be_fcmp(u, LLVMRealOLT, a, b);
    case PRIM_eq:
        return be_fcmp(u, LLVMRealOEQ, a, b);
    case PRIM_ieq:
        return be_icmp(u, LLVMIntEQ, a, b);
    case PRIM_ilt:
        return be_icmp(u, LLVMIntULT, a, b);
    case PRIM_sel:
        return be_select(u, a, b, c);
    case PRIM_as_int:
        return LLVMBuildBitCast(u->builder, a, maths_type(cx, width, true), "");
    case PRIM_as_float:
        return LLVMBuildBitCast(u->builder, a, number, "");
    case PRIM_widen:
        return LLVMBuildFPExt(u->builder, a, number, "");
    case PRIM_narrow:
        return LLVMBuildFPTrunc(u->builder, a, number, "");
    default:
        UNREACHABLE("no code for %s", ir_maths_prim_info[prim].name);
    }
}

static MathsVal
maths_prim(void *data, DType width, MathsPrim prim, const MathsVal *x)
{
    MathsCx *cx = data;
    for (int i = 0; i < NUM_BINARY; i++) {
        if (binary_prims[i].prim == prim)
            return (MathsVal){.ptr = LLVMBuildBinOp(cx->u->builder,
                                                    binary_prims[i].opcode,
                                                    x[0].ptr, x[1].ptr, "")};
    }
    int n = ir_maths_prim_info[prim].num_operands;
    return (MathsVal){.ptr = other_prim(cx, width, prim, x[0].ptr,
                                        n > 1 ? x[1].ptr : NULL,
                                        n > 2 ? x[2].ptr : NULL)};
}

static void
maths_rare_begin(void *data, MathsVal usual)
{
    MathsCx *cx = data;
    BeUnit *u = cx->u;
    Block rare = be_block(u, "rare");
    assert(!cx->done);
    cx->before = be_insert_block(u);
    cx->done = be_block(u, "usual");
    be_cond_br_likely(u, be_all_lanes(u, usual.ptr), cx->done, rare);
    be_position_at_end(u, rare);
}

static MathsVal
maths_rare_end(void *data, DType width, MathsVal usual, MathsVal y,
               MathsVal other)
{
    MathsCx *cx = data;
    BeUnit *u = cx->u;
    Val mixed = be_select(u, usual.ptr, y.ptr, other.ptr), common = y.ptr;
    Block rare = be_insert_block(u);
    be_br(u, cx->done);
    be_position_at_end(u, cx->done);
    Type type = maths_type(cx, width, false);
    Val result = LLVMBuildPhi(u->builder, type, "");
    LLVMAddIncoming(result, &common, &cx->before, 1);
    LLVMAddIncoming(result, &mixed, &rare, 1);
    cx->done = NULL;
    return (MathsVal){.ptr = result};
}

static MathsFn
function_of(IrOpKind op)
{
    for (int i = 0; i < NUM_MATHS_FNS; i++) {
        if (strcmp(ir_maths_fn_info[i].name, ir_op_info[op].name) == 0)
            return (MathsFn)i;
    }
    UNREACHABLE("no code for %s", ir_op_info[op].name);
}

Val
be_emit_maths(BeUnit *u, IrOpKind op, Val x, Val y)
{
    MathsCx cx = {.u = u, .lanes = be_lanes(LLVMTypeOf(x))};
    MathsOps ops = {&cx,        maths_number,     maths_integer,
                    maths_prim, maths_rare_begin, maths_rare_end};
    DType width = be_element(LLVMTypeOf(x)) == u->f64 ? DT_f64 : DT_f32;
    return ir_maths_emit(&ops, function_of(op), width, (MathsVal){.ptr = x},
                         (MathsVal){.ptr = y})
        .ptr;
}

/* ---- rounding ----------------------------------------------------------- */

/* The f64 x as an f32, exact or else the one of the two neighbours whose last
 * bit is set. */
static Val
round_to_odd(BeUnit *u, Val x)
{
    LLVMBuilderRef b = u->builder;
    Type type = LLVMTypeOf(x), words = be_retype(type, u->i32);
    Val near = LLVMBuildFPTrunc(b, x, be_retype(type, u->f32), "");
    Val back = LLVMBuildFPExt(b, near, type, "");
    Val bits = LLVMBuildBitCast(b, near, words, "");
    Val size = be_intrinsic1(u, "llvm.fabs", back);
    Val above = be_fcmp(u, LLVMRealOGT, size, be_intrinsic1(u, "llvm.fabs", x));
    Val cut = be_select(u, above, be_sub(u, bits, be_int(words, 1)), bits);
    Val odd = be_or(u, cut, be_int(words, 1));
    Val inexact = be_fcmp(u, LLVMRealONE, back, x);
    return LLVMBuildBitCast(b, be_select(u, inexact, odd, bits),
                            be_retype(type, u->f32), "");
}

/* The f32 x rounded to bf16, still as f32: f32_to_bf16. */
static Val
round_bf16(BeUnit *u, Val x)
{
    LLVMBuilderRef b = u->builder;
    Type type = LLVMTypeOf(x), words = be_retype(type, u->i32);
    Val high = be_int(words, (int64_t)0xffff0000);
    Val bits = LLVMBuildBitCast(b, x, words, "");
    Val last = be_and(u, LLVMBuildLShr(b, bits, be_int(words, 16), ""),
                      be_int(words, 1));
    Val up = be_add(u, bits, be_add(u, last, be_int(words, 0x7fff)));
    Val quiet = be_or(u, bits, be_int(words, 0x400000));
    Val nan = be_fcmp(u, LLVMRealUNO, x, x);
    Val rounded = be_and(u, be_select(u, nan, quiet, up), high);
    return LLVMBuildBitCast(b, rounded, type, "");
}

static Val
round_f16(BeUnit *u, Val x)
{
    Type half = be_retype(LLVMTypeOf(x), LLVMHalfTypeInContext(u->context));
    Val narrow = LLVMBuildFPTrunc(u->builder, x, half, "");
    return LLVMBuildFPExt(u->builder, narrow, LLVMTypeOf(x), "");
}

/* ---- conversions -------------------------------------------------------- */

static Val
float_to_float(BeUnit *u, DType from, DType to, Val x)
{
    Type single = be_retype(LLVMTypeOf(x), u->f32);
    if (to == DT_f64)
        return from == DT_f64 ? x
                              : LLVMBuildFPExt(u->builder, x,
                                               be_retype(single, u->f64), "");
    if (to == DT_f32)
        return from == DT_f64 ? LLVMBuildFPTrunc(u->builder, x, single, "") : x;
    if (from == DT_f64)
        x = round_to_odd(u, x);
    return to == DT_bf16 ? round_bf16(u, x) : round_f16(u, x);
}

static Type
int_type(BeUnit *u, DType t)
{
    return t == DT_bool ? u->i1
                        : LLVMIntTypeInContext(
                              u->context, (unsigned)dtype_info[t].bytes * 8);
}

/* Saturates; NaN becomes 0. */
static Val
float_to_int(BeUnit *u, DType to, Val x)
{
    Type type = LLVMTypeOf(x);
    if (to == DT_bool)
        return be_fcmp(u, LLVMRealUNE, x, be_zero(type));
    bool is_signed = dtype_info[to].kind == DTYPE_SIGNED;
    Type over[] = {be_retype(type, int_type(u, to)), type};
    return be_intrinsic(u, is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat",
                        over, 2, &x, 1);
}

/* An i64 as an f64 that rounds further as the integer would: a number of more
 * than 53 bits is cut at bit 12, and its last bit is set if a one was cut off.
 */
static Val
long_to_double(BeUnit *u, Val x)
{
    LLVMBuilderRef b = u->builder;
    Type type = LLVMTypeOf(x);
    Val zero = be_zero(type), low = be_int(type, 0xfff);
    Val cut = be_and(u, x, be_int(type, ~INT64_C(0xfff)));
    Val some = be_icmp(u, LLVMIntNE, be_and(u, x, low), zero);
    Val odd = be_or(u, cut, be_select(u, some, be_int(type, 0x1000), zero));
    Val shifted = be_add(u, x, be_int(type, INT64_C(1) << 53));
    Val is_short =
        be_icmp(u, LLVMIntULE, shifted, be_int(type, INT64_C(1) << 54));
    return LLVMBuildSIToFP(b, be_select(u, is_short, x, odd),
                           be_retype(type, u->f64), "");
}

static Val
int_to_float(BeUnit *u, DType from, DType to, Val x)
{
    LLVMBuilderRef b = u->builder;
    Type doubles = be_retype(LLVMTypeOf(x), u->f64);
    if (from == DT_bool) {
        Type type = to == DT_f64 ? doubles : be_retype(doubles, u->f32);
        return be_select(u, x, be_float(type, 1), be_zero(type));
    }
    LLVMOpcode convert =
        dtype_info[from].kind == DTYPE_SIGNED ? LLVMSIToFP : LLVMUIToFP;
    if (to == DT_f64)
        return LLVMBuildCast(b, convert, x, doubles, "");
    if (dtype_info[from].bytes <= 2 || to == DT_f32) {
        Type singles = be_retype(doubles, u->f32);
        Val single = LLVMBuildCast(b, convert, x, singles, "");
        return float_to_float(u, DT_f32, to, single);
    }
    Val wide = from == DT_i64 ? long_to_double(u, x)
                              : LLVMBuildCast(b, convert, x, doubles, "");
    return float_to_float(u, DT_f64, to, wide);
}

static Val
int_to_int(BeUnit *u, DType from, DType to, Val x)
{
    if (to == DT_bool)
        return be_icmp(u, LLVMIntNE, x, be_zero(LLVMTypeOf(x)));
    Type type = be_retype(LLVMTypeOf(x), int_type(u, to));
    if (dtype_info[from].bytes >= dtype_info[to].bytes && from != DT_bool)
        return LLVMBuildTruncOrBitCast(u->builder, x, type, "");
    return LLVMBuildCast(
        u->builder, dtype_info[from].kind == DTYPE_SIGNED ? LLVMSExt : LLVMZExt,
        x, type, "");
}

Val
be_emit_cast(BeUnit *u, DType from, DType to, Val x)
{
    if (dtype_is_float(from))
        return dtype_is_float(to) ? float_to_float(u, from, to, x)
                                  : float_to_int(u, to, x);
    return dtype_is_float(to) ? int_to_float(u, from, to, x)
                              : int_to_int(u, from, to, x);
}

Val
be_emit_scalar(Type type, Scalar s)
{
    return dtype_is_float(s.dtype) ? be_float(type, s.f) : be_int(type, s.i);
}
