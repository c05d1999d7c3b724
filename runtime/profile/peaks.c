/*
 * peaks.c - the most that a device can do, measured
 *
 * Two kernels in C for the device's own threads: chains of multiply-adds that
 * do not wait for each other, and sums over more memory than caches hold.  The
 * best of some rounds counts, since others may use the machine, too.  A GPU
 * says what its clocks allow.
 */
#include "runtime/profile/peaks.h"

#include <string.h>
#include "ir/analysis/cost.h"
#include "ir/base/arena.h"
#include "ir/base/clock.h"
#include "ir/plan/target.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

enum {
    ROUNDS = 5,
    FMA_ITEMS = 64, /* of the grid: enough for all threads */
    FMA_REPEATS = 4000,
    CHAINS = 12, /* of multiply-adds, more than a processor has in flight */
    SUM_BYTES = 64 << 20,
    SUM_ITEM = 1 << 16 /* bytes */
};

/* ---- arithmetic --------------------------------------------------------- */

#ifdef __x86_64__

/* x = x * a + b in each of the chains. */
#define FMA_KERNEL(name, features, vector, set, fma, store, lanes)             \
    __attribute__((target(features))) static void name(                        \
        void *const *ptrs, const int64_t *dims, int64_t begin, int64_t end)    \
    {                                                                          \
        vector x[CHAINS], a = set(0.999f), b = set(0.001f);                    \
        (void)dims;                                                            \
        for (int i = 0; i < CHAINS; i++)                                       \
            x[i] = set((float)i);                                              \
        for (int64_t n = (end - begin) * FMA_REPEATS; n > 0; n--)              \
            for (int i = 0; i < CHAINS; i++)                                   \
                x[i] = fma(x[i], a, b);                                        \
        for (int i = 1; i < CHAINS; i++)                                       \
            x[0] = fma(x[0], a, x[i]);                                         \
        store((float *)ptrs[0] + (lanes) * begin, x[0]);                       \
    }

FMA_KERNEL(fma_v4, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps,
           _mm512_storeu_ps, 16)
FMA_KERNEL(fma_v3, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps,
           _mm256_storeu_ps, 8)

enum { LEVEL_V4 = 4 };

static TfdKernel *
fma_kernel(int *lanes)
{
    bool is_v4 = target_level_here() >= LEVEL_V4;
    *lanes = is_v4 ? 16 : 8;
    return is_v4 ? fma_v4 : fma_v3;
}

#else

static void
fma_any(void *const *ptrs, const int64_t *dims, int64_t begin, int64_t end)
{
    float x[CHAINS] = {0};
    (void)dims;
    for (int64_t n = (end - begin) * FMA_REPEATS; n > 0; n--)
        for (int i = 0; i < CHAINS; i++)
            x[i] = x[i] * 0.999f + 0.001f;
    for (int i = 1; i < CHAINS; i++)
        x[0] += x[i];
    ((float *)ptrs[0])[begin] = x[0];
}

static TfdKernel *
fma_kernel(int *lanes)
{
    *lanes = 1;
    return fma_any;
}

#endif

/* ---- memory ------------------------------------------------------------- */

static void
sum(void *const *ptrs, const int64_t *dims, int64_t begin, int64_t end)
{
    const uint64_t *from = ptrs[0];
    uint64_t *to = ptrs[1];
    uint64_t parts[32] = {0};
    (void)dims;
    size_t words = SUM_ITEM / sizeof *from;
    const uint64_t *last = from + (size_t)end * words;
    for (const uint64_t *p = from + (size_t)begin * words; p < last; p += 32)
        for (int i = 0; i < 32; i++)
            parts[i] += p[i];
    for (int i = 1; i < 32; i++)
        parts[0] += parts[i];
    to[begin] = parts[0];
}

/* ---- measuring ---------------------------------------------------------- */

/* Seconds of the fastest round. */
static double
time_kernel(RtDevice *d, TfdKernel *kernel, void *const *ptrs, int64_t items)
{
    double best = 0.0;
    for (int i = 0; i < ROUNDS; i++) {
        double begin = clock_seconds();
        d->ops->program->parallel(d, kernel, ptrs, NULL, items, 1);
        double seconds = clock_seconds() - begin;
        best = i == 0 || seconds < best ? seconds : best;
    }
    return best > 0.0 ? best : 1e-9;
}

/* Where it does not know, a usual GPU. */
static RtPeaks
ask_for_peaks(RtDevice *d)
{
    const IrMachine *usual = &ir_machines[DEVICE_cuda];
    RtPeaks p;
    d->ops->peaks(d, &p.operations, &p.bytes);
    p.operations = p.operations > 0.0 ? p.operations : usual->operations;
    p.bytes = p.bytes > 0.0 ? p.bytes : usual->bytes;
    return p;
}

RtPeaks
rt_measure_peaks(RtDevice *d)
{
    if (d->ops->peaks)
        return ask_for_peaks(d);
    Arena *a = arena_new(NULL, "peaks");
    int lanes;
    TfdKernel *fma = fma_kernel(&lanes);
    void *fma_ptrs[] = {NEW_ARRAY(a, float, (size_t)FMA_ITEMS * 16)};
    void *sum_ptrs[] = {arena_alloc(a, SUM_BYTES),
                        NEW_ARRAY(a, uint64_t, SUM_BYTES / SUM_ITEM)};
    memset(sum_ptrs[0], 1, SUM_BYTES);
    RtPeaks p;
    p.operations = 2.0 * CHAINS * lanes * FMA_REPEATS * FMA_ITEMS /
                   time_kernel(d, fma, fma_ptrs, FMA_ITEMS);
    p.bytes = SUM_BYTES / time_kernel(d, sum, sum_ptrs, SUM_BYTES / SUM_ITEM);
    arena_release(a);
    return p;
}
