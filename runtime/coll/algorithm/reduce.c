/*
 * reduce.c - combines the same elements of several replicas
 *
 * A block of elements is combined in local memory, in the dtype it is computed
 * in, and then stored everywhere: so an output may be an input, and f16 and
 * bf16 are rounded once.
 *
 * The replicas are the leaves of D2's tree, taken from left to right.  Partial
 * sums wait on a stack, as the digits of a binary counter: after p pairs of
 * leaves it holds a node for each power of two in p, the largest at the bottom;
 * two of the same power become one at once.
 */
#include "runtime/coll/algorithm/reduce.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* gcc makes vectors of these loops from here on; clang always does. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum {
    BLOCK = 512,
    DEPTH = 16 /* of the stack: enough for 2^16 replicas */
};

/* ---- results that the cache does not hold -----------------------------------
 *
 * A store usually reads the line first, and leaves it in the cache, where it
 * replaces what somebody may still need.  Where a device stores more than
 * caches hold, whoever reads the result finds it in memory anyway; then stores
 * go there without reading.  Operands have been read: where a result takes
 * their place its lines are in the cache. */

enum { STREAMED_BYTES = 24 << 20 }; /* that a device stores in one operand */

static bool
is_streamed(int n, const void *const *in, int num_out, void *const *out,
            size_t bytes)
{
#ifndef __SSE2__
    return false;
#endif
    if (bytes * (size_t)num_out < STREAMED_BYTES)
        return false;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < num_out; k++)
            if (in[i] == out[k])
                return false;
    return true;
}

static void
copy_block(void *to, const void *from, size_t bytes, bool streams)
{
#ifdef __SSE2__
    if (streams && (uintptr_t)to % sizeof(__m128i) == 0) {
        size_t whole = bytes / sizeof(__m128i);
        const __m128i *x = from;
        __m128i *y = to;
        for (size_t i = 0; i < whole; i++)
            _mm_stream_si128(&y[i], _mm_load_si128(&x[i]));
        to = &y[whole];
        from = &x[whole];
        bytes %= sizeof(__m128i);
    }
#endif
    (void)streams;
    memcpy(to, from, bytes);
}

/* Orders streamed stores before whatever announces them. */
static void
end_stream(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/* ---- combinations -------------------------------------------------------- */

#define SAME(x) (x)

#define ADD(x, y) ((x) + (y))
#define WRAP32(x, y) ((int32_t)((uint32_t)(x) + (uint32_t)(y)))
#define WRAP64(x, y) ((int64_t)((uint64_t)(x) + (uint64_t)(y)))
#define GREATER(x, y) ((x) > (y) ? (x) : (y))
#define LESS(x, y) ((x) < (y) ? (x) : (y))

/* IEEE 754-2019 maximum and minimum: NaN if one is, and -0 below +0. */
#define EXTREME(name, type, before, prefer_y)                                  \
    static inline type name(type x, type y)                                    \
    {                                                                          \
        if (x before y)                                                        \
            return x;                                                          \
        if (y before x)                                                        \
            return y;                                                          \
        return x == y ? (prefer_y) ? y : x : x + y;                            \
    }
EXTREME(max_f64, double, >, signbit(x))
EXTREME(min_f64, double, <, signbit(y))
EXTREME(max_f32, float, >, signbit(x))
EXTREME(min_f32, float, <, signbit(y))

/* stored is the element type in memory, type that of computations. */
#define COMBINE(name, stored, type, LOAD, STORE, WITH)                         \
    static inline void copy_##name(type *sum, const stored *x, int64_t m)      \
    {                                                                          \
        for (int64_t i = 0; i < m; i++)                                        \
            sum[i] = LOAD(x[i]);                                               \
    }                                                                          \
                                                                               \
    static inline void pair_##name(type *sum, const stored *x,                 \
                                   const stored *y, int64_t m)                 \
    {                                                                          \
        for (int64_t i = 0; i < m; i++)                                        \
            sum[i] = (type)WITH(LOAD(x[i]), LOAD(y[i]));                       \
    }                                                                          \
                                                                               \
    static inline void leaf_##name(type *sum, const stored *x, int64_t m)      \
    {                                                                          \
        for (int64_t i = 0; i < m; i++)                                        \
            sum[i] = (type)WITH(sum[i], LOAD(x[i]));                           \
    }                                                                          \
                                                                               \
    static inline void node_##name(type *sum, const type *right, int64_t m)    \
    {                                                                          \
        for (int64_t i = 0; i < m; i++)                                        \
            sum[i] = (type)WITH(sum[i], right[i]);                             \
    }                                                                          \
                                                                               \
    static void name(int n, const void *const *in, int num_out,                \
                     void *const *out, int64_t begin, int64_t end)             \
    {                                                                          \
        type sums[DEPTH][BLOCK];                                               \
        _Alignas(16) stored block[BLOCK];                                      \
        size_t bytes = (size_t)(end - begin) * sizeof(stored);                 \
        bool streams = is_streamed(n, in, num_out, out, bytes);                \
        const stored *const *x = (const stored *const *)in;                    \
        assert(n >= 1 && n <= 1 << DEPTH);                                     \
        for (int64_t at = begin; at < end; at += BLOCK) {                      \
            int64_t m = end - at < BLOCK ? end - at : BLOCK;                   \
            int top = -1;                                                      \
            for (int pairs = 1; 2 * pairs <= n; pairs++) {                     \
                const stored *left = x[2 * pairs - 2] + at;                    \
                pair_##name(sums[++top], left, x[2 * pairs - 1] + at, m);      \
                for (int k = pairs; k % 2 == 0; k /= 2, top--)                 \
                    node_##name(sums[top - 1], sums[top], m);                  \
            }                                                                  \
            if (n == 1)                                                        \
                copy_##name(sums[++top], x[0] + at, m);                        \
            else if (n % 2 == 1)                                               \
                leaf_##name(sums[top], x[n - 1] + at, m);                      \
            for (; top > 0; top--)                                             \
                node_##name(sums[top - 1], sums[top], m);                      \
            stored *first = streams ? block : (stored *)out[0] + at;           \
            for (int64_t i = 0; i < m; i++)                                    \
                first[i] = STORE(sums[0][i]);                                  \
            for (int k = streams ? 0 : 1; k < num_out; k++)                    \
                copy_block((stored *)out[k] + at, first,                       \
                           (size_t)m * sizeof(stored), streams);               \
        }                                                                      \
        if (streams)                                                           \
            end_stream();                                                      \
    }

/* Storage, type computed in, loading and storing of each dtype, and
 * sum, max and min of it. */
#define COMBINED_DTYPES(X)                                                     \
    X(f64, double, double, SAME, SAME, ADD, max_f64, min_f64)                  \
    X(f32, float, float, SAME, SAME, ADD, max_f32, min_f32)                    \
    X(bf16, uint16_t, float, bf16_to_f32, f32_to_bf16, ADD, max_f32, min_f32)  \
    X(f16, uint16_t, float, f16_to_f32, f32_to_f16, ADD, max_f32, min_f32)     \
    X(i64, int64_t, int64_t, SAME, SAME, WRAP64, GREATER, LESS)                \
    X(i32, int32_t, int32_t, SAME, SAME, WRAP32, GREATER, LESS)                \
    X(i16, int16_t, int16_t, SAME, SAME, ADD, GREATER, LESS)                   \
    X(i8, int8_t, int8_t, SAME, SAME, ADD, GREATER, LESS)                      \
    X(u8, uint8_t, uint8_t, SAME, SAME, ADD, GREATER, LESS)

#define COMBINE_ALL(name, stored, type, LOAD, STORE, PLUS, MAX, MIN)           \
    COMBINE(sum_##name, stored, type, LOAD, STORE, PLUS)                       \
    COMBINE(greatest_##name, stored, type, LOAD, STORE, MAX)                   \
    COMBINE(least_##name, stored, type, LOAD, STORE, MIN)
COMBINED_DTYPES(COMBINE_ALL)

/* The value of the first replica is copied, whatever its dtype. */
#define FIRST(name, bytes, kind, numpy)                                        \
    static void first_##name(int n, const void *const *in, int num_out,        \
                             void *const *out, int64_t begin, int64_t end)     \
    {                                                                          \
        (void)n;                                                               \
        for (int k = 0; k < num_out; k++)                                      \
            memmove((char *)out[k] + begin * (bytes),                          \
                    (const char *)in[0] + begin * (bytes),                     \
                    (size_t)((end - begin) * (bytes)));                        \
    }
#define DTYPE FIRST
#include "ir/base/number/dtypes.def"
#undef DTYPE

#define ROW_ALL(name, stored, type, LOAD, STORE, PLUS, MAX, MIN)               \
    [DT_##name] = {[REDUCE_SUM] = sum_##name,                                  \
                   [REDUCE_MAX] = greatest_##name,                             \
                   [REDUCE_MIN] = least_##name,                                \
                   [REDUCE_FIRST] = first_##name},

static RtReduceKernel *const ranges[NUM_DTYPES][NUM_REDUCE_OPS] = {
    COMBINED_DTYPES(ROW_ALL)[DT_bool] = {[REDUCE_FIRST] = first_bool},
};

RtReduceKernel *
rt_reduce_kernel(RtReduceOp how, DType dtype)
{
    return ranges[dtype][how];
}
