/*
 * ulp.c - the errors of the elementary functions, in ulp
 *
 *   ulp            some million values of each function; seconds, for CI
 *   ulp --all      every f32 there is, and more of f64 and pow; minutes
 *   ulp exp log    only these functions
 *
 * The truth is libm in a wider type: double for f32 (vector code where there is
 * any, truth.c), long double for f64.  An error is counted in ulp of the true
 * result, the distance between the floats that enclose it, and may not be above
 * what maths.def promises.
 *
 * The functions run as vector code, as in a kernel; here and there the result
 * is compared with that of ir_maths_eval, bit for bit.
 *
 * Values have numbers, and numbers come in blocks that threads take in turn: so
 * the same values are tested whatever the number of threads.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "ir/maths/maths.h"
#include "ir/maths/maths_direct.h"
#include "tests/ulp/truth.h"

/*
 * The truth of what libm does not have.
 */

static long double
rsqrtl(long double x)
{
    return 1 / sqrtl(x);
}

static long double
sigmoidl(long double x)
{
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}

/*
 * A batch goes through a function in a loop that the compiler can make vector
 * code of, then through the truth one by one.
 */

typedef struct Batch64 {
    double x[BATCH], y[BATCH], got[BATCH];
    long double want[BATCH];
} Batch64;

#define OPERANDS_1 b->x[i]
#define OPERANDS_2 b->x[i], b->y[i]

#define MATHS_FN(name, operands, ulp32, ulp64, doc)                            \
    __attribute__((flatten)) static void run32_##name(Batch32 *b)              \
    {                                                                          \
        for (int i = 0; i < BATCH; i++)                                        \
            b->got[i] = f32_##name(OPERANDS_##operands);                       \
    }                                                                          \
    __attribute__((flatten)) static void run64_##name(Batch64 *b)              \
    {                                                                          \
        for (int i = 0; i < BATCH; i++)                                        \
            b->got[i] = f64_##name(OPERANDS_##operands);                       \
        for (int i = 0; i < BATCH; i++)                                        \
            b->want[i] = name##l(OPERANDS_##operands);                         \
    }
#include "ir/maths/maths.def"
#undef MATHS_FN

static const struct {
    void (*run32)(Batch32 *b);
    void (*truth32)(Batch32 *b);
    void (*run64)(Batch64 *b);
} rows[NUM_MATHS_FNS] = {
#define MATHS_FN(name, operands, ulp32, ulp64, doc)                            \
    {run32_##name, truth32_##name, run64_##name},
#include "ir/maths/maths.def"
#undef MATHS_FN
};

/*
 * Which values.
 */

/* Well mixed bits of a number (splitmix64). */
static uint64_t
mix(uint64_t n)
{
    n += 0x9e3779b97f4a7c15;
    n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9;
    n = (n ^ (n >> 27)) * 0x94d049bb133111eb;
    return n ^ (n >> 31);
}

/* Any double; every other one with an exponent where functions bend. */
static double
some_double(uint64_t n)
{
    uint64_t bits = mix(n);
    if (n % 2 == 0)
        return f64_as_float(bits);
    int exponent = (int)(bits >> 56) % 80 - 66;
    double x = ldexp(1 + (double)(bits & 0xfffffffff) * 0x1p-36, exponent);
    return bits >> 48 & 1 ? -x : x;
}

/* A y for which x^y mostly is a normal number, its logarithm of base 2 within
 * range; every other one a multiple of 1 or 1/2. */
static double
some_exponent(uint64_t n, double x, double range)
{
    uint64_t bits = mix(~n);
    double target = ((double)(bits >> 11) * 0x1p-52 - 1) * range;
    double y = target / log2(fabs(x));
    if (bits % 4 == 0)
        return rint(y);
    return bits % 4 == 1 ? rint(y) / 2 : y;
}

/* Values first to first + BATCH - 1 of f32, of which every stride-th counts. */
static void
fill32(Batch32 *b, uint64_t first, uint64_t stride, int operands)
{
    for (int i = 0; i < BATCH; i++) {
        uint64_t n = first + (uint64_t)i;
        uint64_t bits = operands == 1 ? n * stride : mix(n);
        b->x[i] = f32_as_float((uint32_t)bits);
        if (operands == 2)
            b->y[i] = (float)some_exponent(n, b->x[i], 160);
    }
}

static void
fill64(Batch64 *b, uint64_t first, int operands)
{
    for (int i = 0; i < BATCH; i++) {
        uint64_t n = first + (uint64_t)i;
        b->x[i] = some_double(n);
        if (operands == 2)
            b->y[i] = some_exponent(n, b->x[i], 1100);
    }
}

/*
 * Errors.
 */

typedef struct Worst {
    double ulp, x, y;
} Worst;

static void
keep_worst(Worst *w, double ulp, double x, double y)
{
    if (ulp > w->ulp)
        *w = (Worst){ulp, x, y};
}

/* Whether one of two is a NaN and the other a number, or both are zeros of
 * different sign. */
static bool
differ_in_kind(double got, long double want)
{
    if (isnan(got) || isnan(want))
        return isnan(got) != isnan(want);
    return got == 0 && want == 0 && !signbit(got) != !signbit(want);
}

/* In ulp.  Infinity counts as the number that would follow the greatest. */
static double
error32(float got, double want)
{
    if (differ_in_kind(got, want))
        return INFINITY;
    if (isnan(want))
        return 0;
    want = fmin(fmax(want, -0x1p128), 0x1p128);
    double value = fmin(fmax(got, -0x1p128), 0x1p128);
    int exponent = (int)(f64_as_int(want) >> 52 & 0x7ff) - 1023;
    int ulp = exponent < -126 ? -149 : exponent - 23;
    return fabs(value - want) * f64_as_float((uint64_t)(1023 - ulp) << 52);
}

/* The same for all of a batch, as vector code.  Where kinds differ it is
 * infinite or NaN, and error32 has the last word. */
static void
errors32(const Batch32 *b, double *error)
{
    for (int i = 0; i < BATCH; i++) {
        double got = b->got[i], want = b->want[i];
        uint64_t bits = f64_as_int(want);
        uint64_t exponent = bits >> 52 & 0x7ff;
        exponent = exponent < 1023 - 126 ? 1023 - 126 : exponent;
        uint64_t signs = (f64_as_int(got) ^ bits) >> 63;
        double e =
            fabs(got - want) * f64_as_float((2 * 1023 + 23 - exponent) << 52);
        e = got == 0 && want == 0 && signs ? INFINITY : e;
        error[i] = got != got && want != want ? 0 : e;
    }
}

static double
error64(double got, long double want)
{
    const long double limit = 0x1p1023L * 2;
    if (differ_in_kind(got, want))
        return INFINITY;
    if (isnan(want))
        return 0;
    want = fminl(fmaxl(want, -limit), limit);
    long double value = fminl(fmaxl(got, -limit), limit);
    int exponent = want == 0 ? -1074 : ilogbl(want);
    int ulp = exponent < -1022 ? -1074 : exponent - 52;
    return (double)ldexpl(fabsl(value - want), -ulp);
}

/* Whether ir_maths_eval gives the same bits, which of NaN do not count. */
static bool
eval_agrees(MathsFn fn, DType width, double x, double y, double got)
{
    double value = ir_maths_eval(fn, width, x, y);
    return (isnan(value) && isnan(got)) || f64_as_int(value) == f64_as_int(got);
}

/*
 * Blocks.
 */

enum { BLOCK = 1 << 18 };

typedef struct Plan {
    bool wanted[NUM_MATHS_FNS];
    uint64_t stride;           /* of f32 values */
    uint64_t blocks32[3];      /* of a function, by its number of operands */
    uint64_t blocks64;         /* of a function */
    atomic_uint_fast64_t next; /* block to take */
    pthread_mutex_t lock;      /* of worst */
    Worst worst[NUM_MATHS_FNS][2];
} Plan;

/* Both measure one block; of its first batch ir_maths_eval must agree. */
static Worst
measure32(const Plan *plan, MathsFn fn, uint64_t block)
{
    static _Thread_local Batch32 b;
    static _Thread_local double error[BATCH];
    Worst w = {-1, 0, 0};
    for (uint64_t n = 0; n < BLOCK; n += BATCH) {
        fill32(&b, block * BLOCK + n, plan->stride,
               ir_maths_fn_info[fn].num_operands);
        rows[fn].run32(&b);
        rows[fn].truth32(&b);
        errors32(&b, error);
        for (int i = 0; i < BATCH; i++) {
            if (!(error[i] <= w.ulp))
                keep_worst(&w, error32(b.got[i], b.want[i]), b.x[i], b.y[i]);
            if (n == 0 && !eval_agrees(fn, DT_f32, b.x[i], b.y[i], b.got[i]))
                keep_worst(&w, INFINITY, b.x[i], b.y[i]);
        }
    }
    return w;
}

static Worst
measure64(MathsFn fn, uint64_t block)
{
    static _Thread_local Batch64 b;
    Worst w = {-1, 0, 0};
    for (uint64_t n = 0; n < BLOCK; n += BATCH) {
        fill64(&b, block * BLOCK + n, ir_maths_fn_info[fn].num_operands);
        rows[fn].run64(&b);
        for (int i = 0; i < BATCH; i++) {
            keep_worst(&w, error64(b.got[i], b.want[i]), b.x[i], b.y[i]);
            if (n == 0 && !eval_agrees(fn, DT_f64, b.x[i], b.y[i], b.got[i]))
                keep_worst(&w, INFINITY, b.x[i], b.y[i]);
        }
    }
    return w;
}

/* The function and width that block *n belongs to; *n becomes its number there.
 * False after the last. */
static bool
find_block(const Plan *plan, uint64_t *n, MathsFn *fn, int *width)
{
    for (int f = 0; f < NUM_MATHS_FNS; f++) {
        uint64_t counts[] = {plan->blocks32[ir_maths_fn_info[f].num_operands],
                             plan->blocks64};
        for (int w = 0; w < 2 && plan->wanted[f]; w++) {
            if (*n < counts[w]) {
                *fn = (MathsFn)f;
                *width = w;
                return true;
            }
            *n -= counts[w];
        }
    }
    return false;
}

static void *
work(void *arg)
{
    Plan *plan = arg;
    for (;;) {
        uint64_t n = atomic_fetch_add(&plan->next, 1);
        MathsFn fn;
        int width;
        if (!find_block(plan, &n, &fn, &width))
            return NULL;
        Worst w = width == 0 ? measure32(plan, fn, n) : measure64(fn, n);
        pthread_mutex_lock(&plan->lock);
        keep_worst(&plan->worst[fn][width], w.ulp, w.x, w.y);
        pthread_mutex_unlock(&plan->lock);
    }
}

static void
run_threads(Plan *plan)
{
    enum { MAX_THREADS = 64 };
    pthread_t threads[MAX_THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0;
    while (started + 1 < cores && started < MAX_THREADS &&
           pthread_create(&threads[started], NULL, work, plan) == 0)
        started++;
    work(plan);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

/* As TAP, one line a function and width; whether all promises are kept. */
static bool
report(const Plan *plan)
{
    int num_lines = 0;
    bool good = true;
    for (int f = 0; f < NUM_MATHS_FNS; f++) {
        const MathsFnInfo *info = &ir_maths_fn_info[f];
        double promised[] = {info->ulp_f32, info->ulp_f64};
        for (int w = 0; w < 2 && plan->wanted[f]; w++) {
            const Worst *worst = &plan->worst[f][w];
            bool kept = worst->ulp <= promised[w];
            good &= kept;
            printf("%s %d - %s %s: %.4f ulp of %.2f at %a",
                   kept ? "ok" : "not ok", ++num_lines, info->name,
                   w == 0 ? "f32" : "f64", worst->ulp, promised[w], worst->x);
            if (info->num_operands == 2)
                printf(", %a", worst->y);
            printf("\n");
        }
    }
    printf("1..%d\n", num_lines);
    return good;
}

static bool
want_function(Plan *plan, const char *name)
{
    for (int f = 0; f < NUM_MATHS_FNS; f++) {
        if (strcmp(ir_maths_fn_info[f].name, name) == 0)
            return plan->wanted[f] = true;
    }
    return false;
}

static void
set_sizes(Plan *plan, bool all)
{
    plan->stride = all ? 1 : 2039;
    plan->blocks32[1] = all ? (1ull << 32) / BLOCK : 8;
    plan->blocks32[2] = all ? (1 << 30) / BLOCK : 8;
    plan->blocks64 = all ? (1 << 26) / BLOCK : 2;
    for (int f = 0; f < NUM_MATHS_FNS; f++) {
        for (int w = 0; w < 2; w++)
            plan->worst[f][w].ulp = -1;
    }
}

/* Whether the processor has what this file was compiled for. */
static bool
can_run(void)
{
#ifdef __AVX2__
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return true;
#endif
}

int
main(int argc, char **argv)
{
    static Plan plan = {.lock = PTHREAD_MUTEX_INITIALIZER};
    bool all = false;
    bool some = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--all") == 0) {
            all = true;
        } else if (want_function(&plan, argv[i])) {
            some = true;
        } else {
            fprintf(stderr, "ulp: no function \"%s\"\n", argv[i]);
            return 2;
        }
    }
    if (!can_run()) {
        printf("1..0 # SKIP this processor has no AVX2\n");
        return 0;
    }
    for (int f = 0; f < NUM_MATHS_FNS && !some; f++)
        plan.wanted[f] = true;
    set_sizes(&plan, all);
    run_threads(&plan);
    return report(&plan) ? 0 : 1;
}
