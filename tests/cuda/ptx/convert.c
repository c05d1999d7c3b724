/*
 * convert.c - cvt, and packs of narrow elements (PTX ISA, "cvt" and "mov")
 *
 * A conversion takes the low bits of its source register that the type has, and
 * extends its result to a register that is wider.
 */
#include "tests/cuda/ptx/machine.h"

#include <string.h>
#include "tests/cuda/ptx/arith.h"
#include "tests/cuda/ptx/numbers.h"

/* The order of decode.c's list. */
enum { RN, RNI, RZI, RMI, RPI };

static u64
get_lane(const Warp *w, Operand o, int width, uint32_t lane)
{
    u64 x = 0;
    memcpy(&x, w->rows + o.at + lane * (uint32_t)width, (size_t)width);
    return x;
}

static void
set_lane(Warp *w, Operand o, int width, uint32_t lane, u64 x)
{
    memcpy(w->rows + o.at + lane * (uint32_t)width, &x, (size_t)width);
}

/* ---- types -------------------------------------------------------------- */

typedef struct IntType {
    int bits;
    bool is_signed;
} IntType;

static bool
is_int(int type, IntType *out)
{
    static const IntType types[NUM_TYPES] = {
        [TYPE_u8] = {8, false},   [TYPE_u16] = {16, false},
        [TYPE_u32] = {32, false}, [TYPE_u64] = {64, false},
        [TYPE_s8] = {8, true},    [TYPE_s16] = {16, true},
        [TYPE_s32] = {32, true},  [TYPE_s64] = {64, true},
    };
    *out = types[type];
    return out->bits != 0;
}

/* The value of the low bits, in 64. */
static u64
extended(u64 x, IntType t)
{
    int unused = 64 - t.bits;
    x <<= unused;
    return t.is_signed ? (u64)((s64)x >> unused) : x >> unused;
}

static f64
float_value(u64 bits, int type)
{
    switch (type) {
    case TYPE_f16:
        return f64_of_f16((u16)bits);
    case TYPE_bf16:
        return f64_of_bf16((u16)bits);
    case TYPE_f32:
        return (f64)from_bits32((u32)bits);
    default:
        return from_bits64(bits);
    }
}

/* Of a value in f64, which no narrower type rounds twice. */
static u64
float_bits(f64 x, int type)
{
    switch (type) {
    case TYPE_f16:
        return f16_of(x);
    case TYPE_bf16:
        return bf16_of(x);
    case TYPE_f32:
        return bits32(nan32((f32)x));
    default:
        return bits64(x);
    }
}

/* ---- conversions -------------------------------------------------------- */

static f64
rounded(f64 x, int mode)
{
    switch (mode) {
    case RNI:
        return rint(x);
    case RZI:
        return trunc(x);
    case RMI:
        return floor(x);
    case RPI:
        return ceil(x);
    default:
        return x;
    }
}

/* Of a whole number; what is out of range becomes the nearest.  A NaN gives 0
 * where neither type has 64 bits, else the highest bit alone. */
static u64
int_of_float(f64 x, IntType t, bool is_wide)
{
    if (x != x)
        return is_wide ? UINT64_C(1) << (t.bits - 1) : 0;
    f64 end = ldexp(1, t.is_signed ? t.bits - 1 : t.bits);
    u64 most = t.is_signed    ? (UINT64_C(1) << (t.bits - 1)) - 1
               : t.bits == 64 ? ~UINT64_C(0)
                              : (UINT64_C(1) << t.bits) - 1;
    if (x >= end)
        return most;
    if (!t.is_signed)
        return x <= 0 ? 0 : (u64)x;
    return x <= -end ? 0 - (UINT64_C(1) << (t.bits - 1)) : (u64)(s64)x;
}

static u64
float_of_int(u64 x, bool is_signed, int type)
{
    if (type == TYPE_f32)
        return bits32(is_signed ? (f32)(s64)x : (f32)x);
    return bits64(is_signed ? (f64)(s64)x : (f64)x);
}

static u64
converted(const Insn *i, u64 x)
{
    IntType to, from;
    bool to_int = is_int(i->to, &to), from_int = is_int(i->from, &from);
    if (from_int) {
        x = extended(x, from);
        return to_int ? extended(x, to)
                      : float_of_int(x, from.is_signed, i->to);
    }
    f64 value = rounded(float_value(x, i->from), i->mode);
    if (!to_int)
        return float_bits(value, i->to);
    bool is_wide = to.bits == 64 || i->from == TYPE_f64;
    return extended(int_of_float(value, to, is_wide), to);
}

void
ptx_cvt(Warp *w, const Insn *i, uint32_t lanes)
{
    FOR_LANES_OF(l, lanes)
    {
        u64 x = get_lane(w, i->src[0], i->from_width, l);
        set_lane(w, i->dst[0], i->to_width, l, converted(i, x));
    }
}

void
ptx_cvt_pack(Warp *w, const Insn *i, uint32_t lanes)
{
    int type = i->to == TYPE_f16x2 ? TYPE_f16 : TYPE_bf16;
    const f32 *high = LANES(f32, w, i->src[0]), *low = LANES(f32, w, i->src[1]);
    u32 *d = LANES(u32, w, i->dst[0]);
    FOR_LANES_OF(l, lanes)
    d[l] = (u32)(float_bits((f64)high[l], type) << 16 |
                 float_bits((f64)low[l], type));
}

/* ---- packs -------------------------------------------------------------- */

void
ptx_pack(Warp *w, const Insn *i, uint32_t lanes)
{
    FOR_LANES_OF(l, lanes)
    {
        u64 x = 0;
        for (int n = 0; n < i->num_src; n++)
            x |= get_lane(w, i->src[n], i->from_width, l)
                 << (8 * i->from_width * n);
        set_lane(w, i->dst[0], i->to_width, l, x);
    }
}

void
ptx_unpack(Warp *w, const Insn *i, uint32_t lanes)
{
    FOR_LANES_OF(l, lanes)
    {
        u64 x = get_lane(w, i->src[0], i->from_width, l);
        for (int n = 0; n < i->num_dst; n++)
            set_lane(w, i->dst[n], i->to_width, l, x >> (8 * i->to_width * n));
    }
}
