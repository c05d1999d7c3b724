/*
 * difference.h - the first difference of two arrays, in words
 */
#ifndef TFD_RUNTIME_RUN_DIFFERENCE_H
#define TFD_RUNTIME_RUN_DIFFERENCE_H

#include <stdbool.h>
#include "ir/base/arena.h"
#include "ir/base/number/dtype.h"

/* Two arrays of count elements, row-major of a shape. */
typedef struct RtBits {
    DType dtype;
    const void *device, *cpu;
    int64_t count;
    int rank;
    const int64_t *dims;
} RtBits;

/* Whether all bits are equal, but for NaNs: their sign and payload are
 * unspecified.  If not, *first is the number of the first element that
 * differs. */
bool rt_bits_are_equal(const RtBits *b, int64_t *first);
/* Whether floats differ by no more than a part of the CPU's greatest finite
 * one, infinities and NaNs are in the same places, and other dtypes, which may
 * be anything.  If not, *first is the number of the first element that is not.
 */
bool rt_bits_are_near(const RtBits *b, double part, int64_t *first);
/* How many elements differ. */
int64_t rt_bits_count(const RtBits *b);

/* "element [3, 1]" of number i, or "its value" of a scalar; "0x3f800001
 * (1.00000012)". */
const char *rt_bits_element(Arena *a, const RtBits *b, int64_t i);
const char *rt_bits_value(Arena *a, DType t, const void *array, int64_t i);

#endif
