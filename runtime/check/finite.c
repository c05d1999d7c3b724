/*
 * finite.c - whether all numbers of an array are finite
 *
 * Without its sign, a float is compared with infinity as an integer: an
 * infinity is equal, a NaN greater.  The loops look at all elements, so that
 * they are vectors.
 */
#include "runtime/check/finite.h"

#include <math.h>

#define KINDS_IN(bits, T, SIGN, INFINITY_BITS)                                 \
    static unsigned kinds_##bits(const void *array, int64_t n)                 \
    {                                                                          \
        const T *a = array;                                                    \
        T is_inf = 0, is_nan = 0;                                              \
        for (int64_t i = 0; i < n; i++) {                                      \
            T x = (T)(a[i] & ~(SIGN));                                         \
            is_inf = (T)(is_inf | (x == (INFINITY_BITS)));                     \
            is_nan = (T)(is_nan | (x > (INFINITY_BITS)));                      \
        }                                                                      \
        return (is_inf ? RT_HAS_INF : 0U) | (is_nan ? RT_HAS_NAN : 0U);        \
    }

KINDS_IN(f64, uint64_t, 1ULL << 63, 0x7ff0000000000000ULL)
KINDS_IN(f32, uint32_t, 1U << 31, 0x7f800000U)
KINDS_IN(bf16, uint16_t, 1U << 15, 0x7f80U)
KINDS_IN(f16, uint16_t, 1U << 15, 0x7c00U)

unsigned
rt_not_finite(DType t, const void *array, int64_t n)
{
    switch (t) {
    case DT_f64:
        return kinds_f64(array, n);
    case DT_f32:
        return kinds_f32(array, n);
    case DT_bf16:
        return kinds_bf16(array, n);
    case DT_f16:
        return kinds_f16(array, n);
    default:
        return 0;
    }
}

int64_t
rt_first_not_finite(DType t, const void *array, int64_t n, unsigned kind)
{
    for (int64_t i = 0; dtype_is_float(t) && i < n; i++) {
        double x = scalar_load(t, array, i).f;
        if (kind == RT_HAS_NAN ? isnan(x) : isinf(x))
            return i;
    }
    return -1;
}
