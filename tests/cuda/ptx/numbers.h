/*
 * numbers.h - arithmetic of PTX that C has no operator for
 *
 * What they mean is in the PTX ISA manual, in the sections of the instructions.
 */
#ifndef TFD_TESTS_CUDA_PTX_NUMBERS_H
#define TFD_TESTS_CUDA_PTX_NUMBERS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef uint16_t u16, b16;
typedef uint32_t u32, b32, pred;
typedef uint64_t u64, b64;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
__extension__ typedef __int128 s128;
__extension__ typedef unsigned __int128 u128;
typedef float f32;
typedef double f64;

#define SIGN64 (UINT64_C(1) << 63)

static inline u32
bits32(f32 x)
{
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline f32
from_bits32(u32 bits)
{
    f32 x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline u64
bits64(f64 x)
{
    u64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline f64
from_bits64(u64 bits)
{
    f64 x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A result of f32: every NaN is the canonical one. */
static inline f32
nan32(f32 x)
{
    return x == x ? x : from_bits32(0x7fffffff);
}

/* ---- TF32: an f32 with 10 bits of mantissa ------------------------------- */

#define TF32_UNUSED 0x1fffu

/* The nearest, ties away from 0. */
static inline b32
tf32_of(f32 x)
{
    return x == x ? (bits32(x) + 0x1000) & ~TF32_UNUSED : 0x7fffffff;
}

/* ---- min and max: of a number and a NaN the number; -0 < +0 --- */

static inline f32
min32(f32 x, f32 y)
{
    if (x != x)
        return nan32(y);
    if (y != y)
        return x;
    return x < y || (x == y && signbit(x)) ? x : y;
}

static inline f32
max32(f32 x, f32 y)
{
    if (x != x)
        return nan32(y);
    if (y != y)
        return x;
    return x > y || (x == y && !signbit(x)) ? x : y;
}

static inline f64
min64(f64 x, f64 y)
{
    if (x != x)
        return y;
    if (y != y)
        return x;
    return x < y || (x == y && signbit(x)) ? x : y;
}

static inline f64
max64(f64 x, f64 y)
{
    if (x != x)
        return y;
    if (y != y)
        return x;
    return x > y || (x == y && !signbit(x)) ? x : y;
}

/* ---- fields of bits --------------------------------------------- */

static inline u32
reversed(u32 x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}

/* bfe: position and length are bytes; bits above the operand are 0. */
static inline u64
field_u64(u64 x, u32 position, u32 length)
{
    u32 p = position & 0xff, n = length & 0xff;
    u64 shifted = p > 63 ? 0 : x >> (p & 63);
    return n > 63 ? shifted : shifted & ((UINT64_C(1) << (n & 63)) - 1);
}

/* Bits above the operand are its sign; so is the one that extends a field. */
static inline s64
field_s64(s64 x, u32 position, u32 length, u32 width)
{
    u32 p = position & 0xff, n = length & 0xff;
    if (n == 0)
        return 0;
    s64 shifted = x >> (p > 63 ? 63 : p);
    u32 top = p + n > width ? width : p + n; /* first bit above the field */
    u32 kept = top > p ? top - p : 1;
    u32 drop = kept > 63 ? 0 : 64 - kept;
    return (s64)((u64)shifted << drop) >> drop;
}

static inline u64
insert(u64 field, u64 into, u32 position, u32 length)
{
    u32 p = position & 0xff, n = length & 0xff;
    u64 ones = n > 63 ? ~UINT64_C(0) : (UINT64_C(1) << (n & 63)) - 1;
    u64 mask = p > 63 ? 0 : ones << (p & 63);
    return (into & ~mask) | (p > 63 ? 0 : (field << (p & 63)) & mask);
}

/* prmt without a mode: each nibble chooses a byte of y:x, or its sign. */
static inline u32
permuted(u32 x, u32 y, u32 selector)
{
    u64 bytes = (u64)y << 32 | x;
    u32 result = 0;
    for (int i = 0; i < 4; i++) {
        u32 choice = selector >> (4 * i) & 0xf;
        u32 byte = (u32)(bytes >> (8 * (choice & 7))) & 0xff;
        if (choice & 8)
            byte = byte & 0x80 ? 0xff : 0;
        result |= byte << (8 * i);
    }
    return result;
}

/* ---- narrow floats: fields of a sign, an exponent and a fraction --------- */

static inline f64
f64_of_f16(u16 x)
{
    int exponent = x >> 10 & 31;
    f64 fraction = x & 1023, sign = x & 0x8000 ? -1.0 : 1.0;
    if (exponent == 31)
        return fraction != 0 ? NAN : sign * INFINITY;
    return exponent ? sign * ldexp(1024 + fraction, exponent - 25)
                    : sign * ldexp(fraction, -24);
}

static inline f64
f64_of_bf16(u16 x)
{
    return (f64)from_bits32((u32)x << 16);
}

/* x to a float with so many bits of fraction and exponent, to the nearest, ties
 * to even.  x scaled so that the last bit kept is 1 is rounded by rint. */
static inline u16
narrowed(f64 x, int fraction_bits, int exponent_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    u16 sign = signbit(x) ? 0x8000 : 0;
    u16 infinite = (u16)(((1 << exponent_bits) - 1) << fraction_bits);
    if (x != x)
        return 0x7fff;
    if (isinf(x))
        return sign | infinite;
    if (x == 0)
        return sign;
    int exponent = ilogb(x) > 1 - bias ? ilogb(x) : 1 - bias;
    u64 units = (u64)rint(ldexp(fabs(x), fraction_bits - exponent));
    u64 bits = units + ((u64)(exponent + bias - 1) << fraction_bits);
    return sign | (bits > infinite ? infinite : (u16)bits);
}

static inline u16
f16_of(f64 x)
{
    return narrowed(x, 10, 5);
}

static inline u16
bf16_of(f64 x)
{
    return narrowed(x, 7, 8);
}

/* x * y + z of narrow floats: the product is exact; the sum is rounded to odd,
 * so that another rounding gives what one alone would. */
static inline f64
exact_fma(f64 x, f64 y, f64 z)
{
    f64 p = x * y, s = p + z;
    if (!isfinite(s) || s == 0)
        return s;
    f64 back = s - p, lost = (p - (s - back)) + (z - back);
    if (lost == 0 || bits64(s) & 1)
        return s;
    bool grow = (lost > 0) == (s > 0);
    return from_bits64(grow ? bits64(s) + 1 : bits64(s) - 1);
}

#endif
