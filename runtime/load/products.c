/*
 * products.c - products that a tile's rows of A leave out (TfdProducts)
 *
 * Compiled code asks once for the rows of a tile and all columns of a block.
 * Most A have no zeros, which their first and last element show; for the others
 * it pays that this is compiled once, and not in each kernel.
 */
#include <stdbool.h>
#include <string.h>
#include "ir/base/minmax.h"
#include "ir/plan/abi.h"

/* Runs of A are compared with 0 in vectors, of which the last one may begin
 * earlier.  The C compiler makes two of SSE of one of AVX2. */
typedef uint32_t Vector __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint32_t HalfVector
    __attribute__((vector_size(16), aligned(1), may_alias));

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The runs of a group of k, in bytes, and how far away the next group is. */
typedef struct Group {
    const char *at;
    int64_t num, bytes, stride, step;
} Group;

/* ---- whether a group is +0 ----------------------------------------------- */

static bool
is_zero(const char *at, int64_t bytes)
{
    static const char zeros[TFD_K_GROUP * sizeof(double)];
    return memcmp(at, zeros, (size_t)bytes) == 0;
}

static bool
is_zero_half(HalfVector v)
{
    uint64_t halves[2];
    memcpy(halves, &v, sizeof v);
    return (halves[0] | halves[1]) == 0;
}

/* Adds the bits that are set in runs of a vector or more. */
ALWAYS_INLINE void
add_bits(Vector *all, const char *at, int64_t num, int64_t bytes,
         int64_t stride)
{
    const int64_t size = sizeof(Vector);
    for (int64_t i = 0; i < num; i++, at += stride) {
        for (int64_t k = 0; k < bytes - size; k += size)
            *all |= *(const Vector *)(at + k);
        *all |= *(const Vector *)(at + bytes - size);
    }
}

/* Some runs at once, without a loop: so more of their lines are on their way
 * from the second cache. */
ALWAYS_INLINE bool
are_zero_vectors(const Group *g, int64_t bytes)
{
    enum { AT_ONCE = 6 };
    Vector all = {0};
    HalfVector halves[2];
    const char *at = g->at;
    int64_t left = g->num;
    for (; left >= AT_ONCE; left -= AT_ONCE) {
        add_bits(&all, at, AT_ONCE, bytes, g->stride);
        at += AT_ONCE * g->stride;
    }
    if (left > 0)
        add_bits(&all, at, left, bytes, g->stride);
    memcpy(halves, &all, sizeof all);
    return is_zero_half(halves[0] | halves[1]);
}

/* Runs of half a vector or more. */
ALWAYS_INLINE bool
are_zero_halves(const Group *g)
{
    const int64_t size = sizeof(HalfVector);
    const char *at = g->at;
    HalfVector all = {0};
    for (int64_t i = 0; i < g->num; i++, at += g->stride)
        all |= *(const HalfVector *)at |
               *(const HalfVector *)(at + g->bytes - size);
    return is_zero_half(all);
}

static bool
are_zero_runs(const Group *g)
{
    for (int64_t i = 0; i < g->num; i++)
        if (!is_zero(g->at + i * g->stride, g->bytes))
            return false;
    return true;
}

ALWAYS_INLINE bool
is_zero_group(const Group *g)
{
    enum { USUAL = TFD_K_GROUP * sizeof(float) }; /* 16 k of rows of f32 */
    if (g->bytes == USUAL)
        return are_zero_vectors(g, USUAL);
    if (g->bytes >= (int64_t)sizeof(Vector))
        return are_zero_vectors(g, g->bytes);
    return g->bytes >= (int64_t)sizeof(HalfVector) ? are_zero_halves(g)
                                                   : are_zero_runs(g);
}

/* ---- k that are +0 ------------------------------------------------------- */

/* Of at most so many k those in groups that are +0, from the first one on. */
ALWAYS_INLINE int64_t
count_zeros(Group g, int64_t most)
{
    int64_t n = 0;
    for (; n + TFD_K_GROUP <= most && is_zero_group(&g); g.at += g.step)
        n += TFD_K_GROUP;
    return n;
}

__attribute__((target("avx2"))) static int64_t
count_zeros_avx2(Group g, int64_t most)
{
    return count_zeros(g, most);
}

static int64_t
count_zeros_here(Group g, int64_t most)
{
    return __builtin_cpu_supports("avx2") ? count_zeros_avx2(g, most)
                                          : count_zeros(g, most);
}

static Group
group_at(const TfdProducts *p, const char *a, int64_t k)
{
    int64_t step = p->a_k_stride * p->bytes;
    return (Group){.at = a + k * step,
                   .num = p->num_runs,
                   .bytes = p->run * p->bytes,
                   .stride = p->run_stride * p->bytes,
                   .step = TFD_K_GROUP * step};
}

/* The length of the groups that are 0 at the beginning of k products. */
static int64_t
zeros_before(const TfdProducts *p, const char *a, int64_t k)
{
    return is_zero(a, p->bytes) ? count_zeros_here(group_at(p, a, 0), k) : 0;
}

/* The same at the end, of which there are `most` at most. */
static int64_t
zeros_behind(const TfdProducts *p, const char *a, int64_t k, int64_t most)
{
    if (!is_zero(a + (k - 1) * p->a_k_stride * p->bytes, p->bytes))
        return 0;
    Group last = group_at(p, a, k - TFD_K_GROUP);
    last.step = -last.step;
    return count_zeros_here(last, most);
}

/* ---- B ------------------------------------------------------------------- */

/* Whether numbers of f32 or f64 are finite: not all bits of an exponent are
 * set. */
static bool
are_finite_f32(const char *at, int64_t num)
{
    const uint32_t exponent = UINT32_C(0x7f800000);
    uint32_t found = 0, x;
    for (int64_t i = 0; i < num; i++) {
        memcpy(&x, at + i * (int64_t)sizeof x, sizeof x);
        found |= (x & exponent) == exponent;
    }
    return !found;
}

static bool
are_finite_f64(const char *at, int64_t num)
{
    const uint64_t exponent = UINT64_C(0x7ff) << 52;
    uint64_t found = 0, x;
    for (int64_t i = 0; i < num; i++) {
        memcpy(&x, at + i * (int64_t)sizeof x, sizeof x);
        found |= (x & exponent) == exponent;
    }
    return !found;
}

/* A tile's columns of a block. */
static bool
is_finite_panel(const TfdProducts *p, const char *b, int64_t k, int64_t columns)
{
    for (int64_t i = 0; i < k; i++) {
        const char *at = b + i * p->b_k_stride * p->bytes;
        if (p->bytes == sizeof(float) ? !are_finite_f32(at, columns)
                                      : !are_finite_f64(at, columns))
            return false;
    }
    return true;
}

static TfdKnown
look_at_b(const TfdProducts *p, const char *b, int64_t k, int64_t columns)
{
    for (int64_t n = 0; n < columns; n += p->b_width) {
        if (!is_finite_panel(p, b, k, min_i64(p->b_width, columns - n)))
            return TFD_NOT_FINITE;
        b += p->b_stride * p->bytes;
    }
    return TFD_FINITE;
}

/* ---- both ---------------------------------------------------------------- */

void
rt_find_products(TfdProducts *p, const char *a, const char *b, int64_t k,
                 int64_t columns)
{
    p->first = zeros_before(p, a, k);
    p->end = k - zeros_behind(p, a, k, k - p->first);
    if (p->end - p->first == k)
        return;
    if (p->b == TFD_UNKNOWN)
        p->b = look_at_b(p, b, k, columns);
    if (p->b == TFD_FINITE)
        return;
    p->first = 0;
    p->end = k;
}
