/*
 * emit_map.c - elementwise operations as instructions
 *
 * One function for each ELEMENT_CODE of ir/ops/codes.def; all of them work on
 * scalars and on vectors alike.  Their bits are those of ir/rules/eval.c.
 * Integers wrap and never trap: a divisor that would is replaced before the
 * division, and its result after it.
 */
#include "backend/codegen/emit.h"

#include "ir/base/number/philox.h"
#include "ir/maths/maths.h"

typedef Val Code(BeUnit *u, DType t, const Val *x);

/* ---- helpers ------------------------------------------------------------ */

static bool
is_float(DType t)
{
    return dtype_is_float(t);
}

static bool
is_signed(DType t)
{
    return dtype_info[t].kind == DTYPE_SIGNED;
}

static Val
is_zero(BeUnit *u, Val x)
{
    return be_icmp(u, LLVMIntEQ, x, be_zero(LLVMTypeOf(x)));
}

static Val
is_negative(BeUnit *u, Val x)
{
    return be_icmp(u, LLVMIntSLT, x, be_zero(LLVMTypeOf(x)));
}

static Val
int_neg(BeUnit *u, Val x)
{
    return be_sub(u, be_zero(LLVMTypeOf(x)), x);
}

/* ---- one operand -------------------------------------------------------- */

static Val
code_copy(BeUnit *u, DType t, const Val *x)
{
    (void)u, (void)t;
    return x[0];
}

static Val
code_neg(BeUnit *u, DType t, const Val *x)
{
    return is_float(t) ? LLVMBuildFNeg(u->builder, x[0], "") : int_neg(u, x[0]);
}

static Val
code_abs(BeUnit *u, DType t, const Val *x)
{
    if (is_float(t))
        return be_intrinsic1(u, "llvm.fabs", x[0]);
    if (!is_signed(t))
        return x[0];
    Val below = is_negative(u, x[0]);
    return be_select(u, below, int_neg(u, x[0]), x[0]);
}

static Val
float_sign(BeUnit *u, Val x)
{
    Type type = LLVMTypeOf(x);
    Val zero = be_zero(type);
    Val above = be_fcmp(u, LLVMRealOGT, x, zero);
    Val below = be_fcmp(u, LLVMRealOLT, x, zero);
    Val nan = be_fcmp(u, LLVMRealUNO, x, x);
    Val rest = be_select(u, nan, x, zero);
    rest = be_select(u, below, be_float(type, -1), rest);
    return be_select(u, above, be_float(type, 1), rest);
}

static Val
code_sign(BeUnit *u, DType t, const Val *x)
{
    if (is_float(t))
        return float_sign(u, x[0]);
    Type type = LLVMTypeOf(x[0]);
    Val some = be_select(u, is_zero(u, x[0]), be_zero(type), be_int(type, 1));
    if (!is_signed(t))
        return some;
    return be_select(u, is_negative(u, x[0]), be_int(type, -1), some);
}

static Val
code_floor(BeUnit *u, DType t, const Val *x)
{
    (void)t;
    return be_intrinsic1(u, "llvm.floor", x[0]);
}

static Val
code_ceil(BeUnit *u, DType t, const Val *x)
{
    (void)t;
    return be_intrinsic1(u, "llvm.ceil", x[0]);
}

static Val
code_round(BeUnit *u, DType t, const Val *x)
{
    (void)t;
    return be_intrinsic1(u, "llvm.roundeven", x[0]);
}

static Val
code_sqrt(BeUnit *u, DType t, const Val *x)
{
    (void)t;
    return be_intrinsic1(u, "llvm.sqrt", x[0]);
}

static Val
code_isnan(BeUnit *u, DType t, const Val *x)
{
    (void)t;
    return be_fcmp(u, LLVMRealUNO, x[0], x[0]);
}

static Val
code_isfinite(BeUnit *u, DType t, const Val *x)
{
    (void)t;
    Val size = be_intrinsic1(u, "llvm.fabs", x[0]);
    Val infinity = be_float(LLVMTypeOf(x[0]), __builtin_inf());
    return be_fcmp(u, LLVMRealOLT, size, infinity);
}

static Val
code_not(BeUnit *u, DType t, const Val *x)
{
    (void)t;
    return LLVMBuildNot(u->builder, x[0], "");
}

/* ---- arithmetic --------------------------------------------------------- */

static Val
code_add(BeUnit *u, DType t, const Val *x)
{
    return is_float(t) ? LLVMBuildFAdd(u->builder, x[0], x[1], "")
                       : be_add(u, x[0], x[1]);
}

static Val
code_sub(BeUnit *u, DType t, const Val *x)
{
    return is_float(t) ? LLVMBuildFSub(u->builder, x[0], x[1], "")
                       : be_sub(u, x[0], x[1]);
}

static Val
code_mul(BeUnit *u, DType t, const Val *x)
{
    return is_float(t) ? LLVMBuildFMul(u->builder, x[0], x[1], "")
                       : be_mul(u, x[0], x[1]);
}

static Val
code_div(BeUnit *u, DType t, const Val *x)
{
    (void)t;
    return LLVMBuildFDiv(u->builder, x[0], x[1], "");
}

static Val
code_fma(BeUnit *u, DType t, const Val *x)
{
    (void)t;
    return be_intrinsic3(u, "llvm.fma", x[0], x[1], x[2]);
}

/* x / y towards zero; y is not 0, nor -1 below the least integer.  Vectors have
 * no such instruction: 32 bits and less are divided as f64, which is exact
 * enough, since a quotient that is not an integer is at least 1 / y away from
 * one. */
static Val
int_quotient(BeUnit *u, DType t, Val x, Val y)
{
    Type type = LLVMTypeOf(x);
    LLVMBuilderRef b = u->builder;
    if (!be_lanes(type) || t == DT_i64)
        return is_signed(t) ? LLVMBuildSDiv(b, x, y, "")
                            : LLVMBuildUDiv(b, x, y, "");
    Type words = be_retype(type, u->i32), floats = be_retype(type, u->f64);
    if (t != DT_i32) {
        LLVMOpcode widen = is_signed(t) ? LLVMSExt : LLVMZExt;
        x = LLVMBuildCast(b, widen, x, words, "");
        y = LLVMBuildCast(b, widen, y, words, "");
    }
    x = LLVMBuildSIToFP(b, x, floats, "");
    y = LLVMBuildSIToFP(b, y, floats, "");
    Val q = LLVMBuildFPToSI(b, LLVMBuildFDiv(b, x, y, ""), words, "");
    return t == DT_i32 ? q : LLVMBuildTrunc(b, q, type, "");
}

/* Whether y is the same power of two in all lanes, a constant; its logarithm is
 * in *log. */
static bool
is_power_of_two(DType t, Val y, int64_t *log)
{
    int lanes = be_lanes(LLVMTypeOf(y));
    if (!LLVMIsConstant(y))
        return false;
    Val first = lanes ? LLVMGetAggregateElement(y, 0) : y;
    for (int i = 1; i < lanes; i++)
        if (LLVMGetAggregateElement(y, (unsigned)i) != first)
            return false;
    if (!first || !LLVMIsAConstantInt(first))
        return false;
    int64_t x = is_signed(t) ? LLVMConstIntGetSExtValue(first)
                             : (int64_t)LLVMConstIntGetZExtValue(first);
    *log = x > 0 ? __builtin_ctzll((uint64_t)x) : 0;
    return x > 0 && !(x & (x - 1));
}

/* Division rounded down, and its remainder; x // 0 = x % 0 = 0. */
typedef struct Division {
    Val quotient, rest;
} Division;

static Division
divide_by_power(BeUnit *u, DType t, Val x, int64_t log)
{
    Val shift = be_int(LLVMTypeOf(x), log);
    Val below = be_int(LLVMTypeOf(x), (INT64_C(1) << log) - 1);
    Val q = is_signed(t) ? LLVMBuildAShr(u->builder, x, shift, "")
                         : LLVMBuildLShr(u->builder, x, shift, "");
    return (Division){q, be_and(u, x, below)};
}

static Division
int_divide(BeUnit *u, DType t, Val x, Val y)
{
    Type type = LLVMTypeOf(x);
    int64_t log;
    if (is_power_of_two(t, y, &log))
        return divide_by_power(u, t, x, log);
    Val zero = be_zero(type), one = be_int(type, 1);
    Val by_zero = is_zero(u, y), trap = by_zero, by_minus = NULL;
    if (is_signed(t)) {
        by_minus = be_icmp(u, LLVMIntEQ, y, be_int(type, -1));
        trap = be_or(u, by_zero, by_minus);
    }
    Val safe = be_select(u, trap, one, y);
    Val q = int_quotient(u, t, x, safe);
    Val rest = be_sub(u, x, be_mul(u, q, safe));
    if (is_signed(t)) {
        Val differs = is_negative(u, LLVMBuildXor(u->builder, rest, safe, ""));
        Val down =
            be_and(u, differs, LLVMBuildNot(u->builder, is_zero(u, rest), ""));
        q = be_select(u, down, be_sub(u, q, one), q);
        rest = be_select(u, down, be_add(u, rest, safe), rest);
        q = be_select(u, by_minus, int_neg(u, x), q);
    }
    return (Division){be_select(u, by_zero, zero, q), rest};
}

static Val
code_floordiv(BeUnit *u, DType t, const Val *x)
{
    return is_float(t) ? be_emit_float_floordiv(u, x[0], x[1])
                       : int_divide(u, t, x[0], x[1]).quotient;
}

static Val
code_mod(BeUnit *u, DType t, const Val *x)
{
    return is_float(t) ? be_emit_float_mod(u, x[0], x[1])
                       : int_divide(u, t, x[0], x[1]).rest;
}

/* x to the power y from 0, by squaring: a loop over the bits of y. */
static Val
int_power(BeUnit *u, Val x, Val y)
{
    Type type = LLVMTypeOf(x);
    unsigned bits = LLVMGetIntTypeWidth(be_element(type));
    Val zero = be_zero(type), one = be_int(type, 1);
    BeLoop l;
    be_loop_begin(u, &l, be_word(u, 0), be_word(u, bits), be_word(u, 1), "bit");
    Val power = be_loop_carry(u, &l, one);
    Val square = be_loop_carry(u, &l, x);
    Val left = be_loop_carry(u, &l, y);
    be_loop_body(u, &l);
    Val odd = be_icmp(u, LLVMIntNE, be_and(u, left, one), zero);
    Val factor = be_select(u, odd, square, one);
    be_loop_next(&l, 0, be_mul(u, power, factor));
    be_loop_next(&l, 1, be_mul(u, square, square));
    be_loop_next(&l, 2, LLVMBuildLShr(u->builder, left, one, ""));
    be_loop_end(u, &l);
    return be_loop_result(&l, 0);
}

static Val
code_pow(BeUnit *u, DType t, const Val *x)
{
    if (is_float(t))
        return be_emit_maths(u, OP_pow, x[0], x[1]);
    Val power = int_power(u, x[0], x[1]);
    if (!is_signed(t))
        return power;
    Type type = LLVMTypeOf(x[0]);
    Val one = be_int(type, 1), minus = be_int(type, -1), zero = be_zero(type);
    Val odd = be_icmp(u, LLVMIntNE, be_and(u, x[1], one), zero);
    Val turns = be_select(u, odd, minus, one);
    Val below = be_select(u, be_icmp(u, LLVMIntEQ, x[0], minus), turns, zero);
    below = be_select(u, be_icmp(u, LLVMIntEQ, x[0], one), one, below);
    return be_select(u, is_negative(u, x[1]), below, power);
}

static Val
extremum(BeUnit *u, DType t, const Val *x, const char *name, bool greatest)
{
    if (is_float(t))
        return be_intrinsic2(u, name, x[0], x[1]);
    LLVMIntPredicate above = is_signed(t) ? LLVMIntSGT : LLVMIntUGT;
    Val first = be_icmp(u, above, x[0], x[1]);
    return greatest ? be_select(u, first, x[0], x[1])
                    : be_select(u, first, x[1], x[0]);
}

static Val
code_maximum(BeUnit *u, DType t, const Val *x)
{
    return extremum(u, t, x, "llvm.maximum", true);
}

static Val
code_minimum(BeUnit *u, DType t, const Val *x)
{
    return extremum(u, t, x, "llvm.minimum", false);
}

/* ---- comparisons and choices -------------------------------------------- */

static Val
compare(BeUnit *u, DType t, const Val *x, LLVMRealPredicate of_floats,
        LLVMIntPredicate of_signed, LLVMIntPredicate of_unsigned)
{
    if (is_float(t))
        return be_fcmp(u, of_floats, x[0], x[1]);
    return be_icmp(u, is_signed(t) ? of_signed : of_unsigned, x[0], x[1]);
}

#define COMPARISON(name, of_floats, of_signed, of_unsigned)                    \
    static Val code_##name(BeUnit *u, DType t, const Val *x)                   \
    {                                                                          \
        return compare(u, t, x, of_floats, of_signed, of_unsigned);            \
    }
COMPARISON(eq, LLVMRealOEQ, LLVMIntEQ, LLVMIntEQ)
COMPARISON(ne, LLVMRealUNE, LLVMIntNE, LLVMIntNE)
COMPARISON(lt, LLVMRealOLT, LLVMIntSLT, LLVMIntULT)
COMPARISON(le, LLVMRealOLE, LLVMIntSLE, LLVMIntULE)
COMPARISON(gt, LLVMRealOGT, LLVMIntSGT, LLVMIntUGT)
COMPARISON(ge, LLVMRealOGE, LLVMIntSGE, LLVMIntUGE)
#undef COMPARISON

static Val
code_and(BeUnit *u, DType t, const Val *x)
{
    (void)t;
    return be_and(u, x[0], x[1]);
}

static Val
code_or(BeUnit *u, DType t, const Val *x)
{
    (void)t;
    return be_or(u, x[0], x[1]);
}

static Val
code_select(BeUnit *u, DType t, const Val *x)
{
    (void)t;
    return be_select(u, x[0], x[1], x[2]);
}

/* ---- random bits -------------------------------------------------------- */

/* The low and high words of a 64-bit integer, each in a 64-bit one. */
static Val
low_word(BeUnit *u, Val x)
{
    return be_and(u, x, be_int(LLVMTypeOf(x), UINT32_MAX));
}

static Val
high_word(BeUnit *u, Val x)
{
    return LLVMBuildLShr(u->builder, x, be_int(LLVMTypeOf(x), 32), "");
}

static Val
xor3(BeUnit *u, Val x, Val y, Val z)
{
    LLVMBuilderRef b = u->builder;
    return LLVMBuildXor(b, LLVMBuildXor(b, x, y, ""), z, "");
}

/* What a round of ir/base/number/philox.c changes, as words in 64 bits, so that
 * the product of two fits.  In lanes upper halves may be anything: machines
 * multiply lower halves. */
enum { C0, C1, C2, C3, K0, K1, NUM_WORDS };

static Val
factor(BeUnit *u, Val x)
{
    return be_lanes(LLVMTypeOf(x)) ? low_word(u, x) : x;
}

static Val
term(BeUnit *u, Val x)
{
    return be_lanes(LLVMTypeOf(x)) ? x : low_word(u, x);
}

static void
philox_round(BeUnit *u, Val *w)
{
    Type type = LLVMTypeOf(w[C0]);
    Val x = factor(u, w[C0]), y = factor(u, w[C2]);
    Val p0 = be_mul(u, x, be_int(type, philox_multiplier[0]));
    Val p1 = be_mul(u, y, be_int(type, philox_multiplier[1]));
    w[C0] = xor3(u, high_word(u, p1), w[C1], w[K0]);
    w[C2] = xor3(u, high_word(u, p0), w[C3], w[K1]);
    w[C1] = term(u, p1);
    w[C3] = term(u, p0);
    w[K0] = term(u, be_add(u, w[K0], be_int(type, philox_bump[0])));
    w[K1] = term(u, be_add(u, w[K1], be_int(type, philox_bump[1])));
}

/* The rounds for lanes are a loop: LLVM looks through all that the bits of a
 * vector come from, for each operation once more, which took it 20 ms. */
static void
philox_loop(BeUnit *u, Val *w)
{
    BeLoop l;
    be_loop_begin(u, &l, be_word(u, 0), be_word(u, PHILOX_ROUNDS),
                  be_word(u, 1), "round");
    for (int i = 0; i < NUM_WORDS; i++)
        w[i] = be_loop_carry(u, &l, w[i]);
    be_loop_body(u, &l);
    philox_round(u, w);
    for (int i = 0; i < NUM_WORDS; i++)
        be_loop_next(&l, i, w[i]);
    be_loop_end(u, &l);
    for (int i = 0; i < NUM_WORDS; i++)
        w[i] = be_loop_result(&l, i);
    w[C0] = low_word(u, w[C0]);
    w[C1] = low_word(u, w[C1]);
}

static Val
code_random(BeUnit *u, DType t, const Val *x)
{
    (void)t;
    Type type = LLVMTypeOf(x[0]);
    Val w[NUM_WORDS];
    w[K0] = low_word(u, x[0]), w[K1] = high_word(u, x[0]);
    w[C0] = low_word(u, x[1]), w[C1] = high_word(u, x[1]);
    w[C2] = low_word(u, x[2]), w[C3] = high_word(u, x[2]);
    if (be_lanes(type)) {
        philox_loop(u, w);
    } else {
        for (int i = 0; i < PHILOX_ROUNDS; i++)
            philox_round(u, w);
    }
    Val high = LLVMBuildShl(u->builder, w[C1], be_int(type, 31), "");
    Val low = LLVMBuildLShr(u->builder, w[C0], be_int(type, 1), "");
    return be_or(u, high, low);
}

/* ---- the table ---------------------------------------------------------- */

/* Functions of ir/maths are emitted by name, casts by be_emit_cast. */
#define code_maths NULL
#define code_cast NULL

static Code *const codes[NUM_CODES] = {
#define ELEMENT_CODE(word, exact, cost) [CODE_##word] = code_##word,
#include "ir/ops/codes.def"
};

Val
be_emit_map(BeUnit *u, IrOpKind op, DType t, const Val *x)
{
    Code *code = codes[ir_op_info[op].code];
    if (code)
        return code(u, t, x);
    return be_emit_maths(u, op, x[0], ir_op_info[op].num_in > 1 ? x[1] : NULL);
}
