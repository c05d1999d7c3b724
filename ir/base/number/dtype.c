/*
 * dtype.c - element types and single elements
 *
 * A value that must be rounded once, but passes through an intermediate format,
 * is rounded to odd there: the last bit is set whenever something was cut off,
 * and a second rounding that drops at least two more bits then gives what a
 * single one would have.
 */
#include "ir/base/number/dtype.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include "ir/base/status.h"

#define FLOAT DTYPE_FLOAT
#define SIGNED DTYPE_SIGNED
#define UNSIGNED DTYPE_UNSIGNED
#define BOOLEAN DTYPE_BOOLEAN

const DTypeInfo dtype_info[NUM_DTYPES] = {
#define DTYPE(name, bytes, kind, numpy) {#name, bytes, kind, numpy},
#include "ir/base/number/dtypes.def"
#undef DTYPE
};

bool
dtype_by_name(const char *name, DType *out)
{
    for (int t = 0; t < NUM_DTYPES; t++) {
        if (strcmp(dtype_info[t].name, name) == 0) {
            *out = (DType)t;
            return true;
        }
    }
    return false;
}

bool
dtype_is_float(DType t)
{
    assert(t < NUM_DTYPES);
    return dtype_info[t].kind == DTYPE_FLOAT;
}

bool
dtype_is_int(DType t)
{
    assert(t < NUM_DTYPES);
    DTypeKind kind = dtype_info[t].kind;
    return kind == DTYPE_SIGNED || kind == DTYPE_UNSIGNED;
}

DType
dtype_compute(DType t)
{
    return t == DT_bf16 || t == DT_f16 ? DT_f32 : t;
}

static uint32_t
f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float
f32_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* bits without the last `drop` ones, rounded to nearest even. */
static uint32_t
drop_bits(uint32_t bits, int drop)
{
    uint32_t half = (UINT32_C(1) << (drop - 1)) - 1;
    return (bits + half + (bits >> drop & 1)) >> drop;
}

uint16_t
f32_to_bf16(float x)
{
    uint32_t bits = f32_bits(x);
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 0x40); /* quiet */
    return (uint16_t)drop_bits(bits, 16);
}

float
bf16_to_f32(uint16_t x)
{
    return f32_from_bits((uint32_t)x << 16);
}

/* f16 has 5 bits of exponent, bias 15, and 10 of fraction; f32 8, 127, 23. */
enum {
    F16_INF = 0x7c00,
    F16_QUIET = 0x200,
    F32_MIN_NORMAL_F16 = 113 << 23, /* 2^-14 */
    F32_OVERFLOW_F16 = 143 << 23,   /* 2^16 */
    F32_TINY_F16 = 102 << 23        /* 2^-25, half of the smallest f16 */
};

uint16_t
f32_to_f16(float x)
{
    uint32_t bits = f32_bits(x);
    uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (isnan(x))
        return (uint16_t)(sign | F16_INF | F16_QUIET | (size >> 13 & 0x3ff));
    if (size >= F32_OVERFLOW_F16)
        return (uint16_t)(sign | F16_INF);
    if (size >= F32_MIN_NORMAL_F16) /* rounding may carry up to infinity */
        return (uint16_t)(sign | drop_bits(size - (112u << 23), 13));
    if (size < F32_TINY_F16)
        return (uint16_t)sign;
    int drop = 126 - (int)(size >> 23); /* to units of 2^-24 */
    uint32_t fraction = (size & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | drop_bits(fraction, drop));
}

float
f16_to_f32(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16;
    uint32_t exponent = x >> 10 & 0x1f, fraction = x & 0x3ff;
    if (exponent == 0x1f) { /* NaN becomes quiet, as everywhere */
        uint32_t quiet = fraction ? 0x400000 : 0;
        return f32_from_bits(sign | 0x7f800000 | quiet | fraction << 13);
    }
    if (exponent == 0) {
        float size = (float)fraction * 0x1p-24f;
        return sign ? -size : size;
    }
    return f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* x as an f32, rounded to odd. */
static float
round_to_odd(double x)
{
    float y = (float)x;
    uint32_t bits = f32_bits(y);
    if (isnan(x) || (double)y == x || bits & 1)
        return y;
    return f32_from_bits(fabs((double)y) < fabs(x) ? bits + 1 : bits - 1);
}

/* x as an f64, rounded to odd at bit 12. */
static double
int_to_odd(int64_t x)
{
    uint64_t size = x < 0 ? -(uint64_t)x : (uint64_t)x;
    if (size >> 53)
        size = (size & ~UINT64_C(0xfff)) | (size & 0xfff ? 0x1000 : 0);
    return x < 0 ? -(double)size : (double)size;
}

Scalar
scalar_float(DType t, double x)
{
    Scalar s = {.dtype = t, .f = x};
    if (t == DT_f32)
        s.f = (double)(float)x;
    else if (t == DT_bf16)
        s.f = (double)bf16_to_f32(f32_to_bf16(round_to_odd(x)));
    else if (t == DT_f16)
        s.f = (double)f16_to_f32(f32_to_f16(round_to_odd(x)));
    return s;
}

static int
num_bits(DType t)
{
    return (int)dtype_info[t].bytes * 8;
}

static int64_t
wrap(DType t, int64_t x)
{
    int spare = 64 - num_bits(t);
    uint64_t high = (uint64_t)x << spare;
    switch (dtype_info[t].kind) {
    case DTYPE_BOOLEAN:
        return x != 0;
    case DTYPE_UNSIGNED:
        return (int64_t)(high >> spare);
    default:
        return (int64_t)high >> spare; /* arithmetic in every compiler we use */
    }
}

Scalar
scalar_int(DType t, int64_t x)
{
    return (Scalar){.dtype = t, .i = wrap(t, x)};
}

bool
int_fits(DType t, int64_t x)
{
    return dtype_info[t].kind == DTYPE_BOOLEAN ? x == 0 || x == 1
                                               : wrap(t, x) == x;
}

int64_t
int_max(DType t)
{
    bool is_signed = dtype_info[t].kind == DTYPE_SIGNED;
    return (int64_t)(UINT64_MAX >> (64 - num_bits(t) + is_signed));
}

int64_t
int_min(DType t)
{
    return dtype_info[t].kind == DTYPE_SIGNED ? -int_max(t) - 1 : 0;
}

/* The limits are one less than a power of two, so max itself is not a double.
 */
static int64_t
saturate(DType t, double x)
{
    if (isnan(x))
        return 0;
    if (x >= (double)int_max(t))
        return int_max(t);
    if (x <= (double)int_min(t))
        return int_min(t);
    return (int64_t)x;
}

Scalar
scalar_cast(Scalar s, DType to)
{
    if (dtype_is_float(s.dtype)) {
        if (dtype_is_float(to))
            return scalar_float(to, s.f);
        bool truth = to == DT_bool;
        return scalar_int(to, truth ? s.f != 0 : saturate(to, s.f));
    }
    if (to == DT_f64)
        return scalar_float(to, (double)s.i);
    if (dtype_is_float(to))
        return scalar_float(to, int_to_odd(s.i));
    return scalar_int(to, s.i);
}

Scalar
scalar_load(DType t, const void *array, int64_t index)
{
    Scalar s = {.dtype = t, .i = 0};
    const char *at = (const char *)array + index * (int64_t)dtype_info[t].bytes;
    uint16_t half;
    float single;
    switch (t) {
    case DT_f64:
        memcpy(&s.f, at, sizeof s.f);
        return s;
    case DT_f32:
        memcpy(&single, at, sizeof single);
        s.f = (double)single;
        return s;
    case DT_bf16:
    case DT_f16:
        memcpy(&half, at, sizeof half);
        s.f = (double)(t == DT_f16 ? f16_to_f32(half) : bf16_to_f32(half));
        return s;
    default: /* little-endian: the low bytes are first */
        memcpy(&s.i, at, dtype_info[t].bytes);
        return scalar_int(t, s.i);
    }
}

void
scalar_store(DType t, void *array, int64_t index, Scalar s)
{
    char *at = (char *)array + index * (int64_t)dtype_info[t].bytes;
    uint16_t half;
    float single;
    s = scalar_cast(s, t);
    switch (t) {
    case DT_f64:
        memcpy(at, &s.f, sizeof s.f);
        return;
    case DT_f32:
        single = (float)s.f;
        memcpy(at, &single, sizeof single);
        return;
    case DT_bf16:
    case DT_f16:
        half = t == DT_f16 ? f32_to_f16((float)s.f) : f32_to_bf16((float)s.f);
        memcpy(at, &half, sizeof half);
        return;
    default:
        memcpy(at, &s.i, dtype_info[t].bytes);
        return;
    }
}

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "scalars are stored as on little-endian machines"
#endif
