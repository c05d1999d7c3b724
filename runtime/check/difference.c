/*
 * difference.c - the first difference of two arrays, in words
 */
#include "runtime/check/difference.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "ir/base/str.h"

static const char *
element_at(DType t, const void *array, int64_t i)
{
    return (const char *)array + (size_t)i * dtype_info[t].bytes;
}

static bool
is_nan(DType t, const void *array, int64_t i)
{
    return dtype_is_float(t) && isnan(scalar_load(t, array, i).f);
}

static bool
is_equal_at(const RtBits *b, int64_t i)
{
    DType t = b->dtype;
    return memcmp(element_at(t, b->device, i), element_at(t, b->cpu, i),
                  dtype_info[t].bytes) == 0 ||
           (is_nan(t, b->device, i) && is_nan(t, b->cpu, i));
}

bool
rt_bits_are_equal(const RtBits *b, int64_t *first)
{
    size_t bytes = (size_t)b->count * dtype_info[b->dtype].bytes;
    *first = 0;
    if (bytes == 0 || memcmp(b->device, b->cpu, bytes) == 0)
        return true;
    while (*first < b->count && is_equal_at(b, *first))
        ++*first;
    return *first == b->count;
}

static double
greatest_of_cpu(const RtBits *b)
{
    double most = 0.0;
    for (int64_t i = 0; i < b->count; i++) {
        double x = fabs(scalar_load(b->dtype, b->cpu, i).f);
        most = isfinite(x) && x > most ? x : most;
    }
    return most;
}

bool
rt_bits_are_near(const RtBits *b, double part, int64_t *first)
{
    *first = 0;
    if (!dtype_is_float(b->dtype))
        return true;
    double most = part * greatest_of_cpu(b);
    for (; *first < b->count; ++*first) {
        double far = scalar_load(b->dtype, b->device, *first).f -
                     scalar_load(b->dtype, b->cpu, *first).f;
        if (!(fabs(far) <= most) && !is_equal_at(b, *first))
            return false;
    }
    return true;
}

int64_t
rt_bits_count(const RtBits *b)
{
    int64_t n = 0;
    for (int64_t i = 0; i < b->count; i++)
        n += !is_equal_at(b, i);
    return n;
}

/* ---- words --------------------------------------------------------------- */

const char *
rt_bits_element(Arena *a, const RtBits *b, int64_t i)
{
    int64_t index[64];
    Str s = str_new(a);
    if (b->rank == 0)
        return "its value";
    for (int k = b->rank - 1; k >= 0; k--) {
        index[k] = i % b->dims[k];
        i /= b->dims[k];
    }
    for (int k = 0; k < b->rank; k++)
        str_addf(&s, "%s%" PRId64, k ? ", " : "element [", index[k]);
    str_add(&s, "]");
    return str_text(&s);
}

/* With as many digits as tell it from its neighbours. */
static void
add_number(Str *s, DType t, Scalar x)
{
    if (t == DT_bool)
        str_add(s, x.i ? "true" : "false");
    else if (!dtype_is_float(t))
        str_addf(s, "%" PRId64, x.i);
    else
        str_addf(s, "%.*g", t == DT_f64 ? 17 : 9, x.f);
}

const char *
rt_bits_value(Arena *a, DType t, const void *array, int64_t i)
{
    Str s = str_new(a);
    const unsigned char *at = (const unsigned char *)element_at(t, array, i);
    str_add(&s, "0x");
    for (size_t k = dtype_info[t].bytes; k > 0; k--)
        str_addf(&s, "%02x", at[k - 1]);
    str_add(&s, " (");
    add_number(&s, t, scalar_load(t, array, i));
    str_add(&s, ")");
    return str_text(&s);
}
