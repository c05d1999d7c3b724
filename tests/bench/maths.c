/*
 * maths.c - elementary functions beside those of libmvec
 *
 *   maths                 all functions that libmvec has, too
 *   maths exp tanh        only these
 *   maths --rounds N      how often each is timed (51)
 *   maths --check         fails where ours is slower than by noise
 *   maths --asm           prints the assembly of our code instead
 *
 * Our code is a kernel out = f(in) as in a plan, for x86-64-v3 and for v4 if
 * this processor supports it.  libmvec's is a loop of calls with the same
 * vectors.  Both process one array that stays in the first-level cache.  They
 * are timed in turn; the output is the median of the times, and of the ratios
 * of adjacent times.  libmvec is opened at run time, since compilers call it
 * only with options that break our rules for floating point.
 */
#include <dlfcn.h>
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "backend/backend.h"
#include "backend/kernel/kernel.h"
#include "ir/maths/maths.h"
#include "ir/plan/target.h"
#include "runtime/load/loader.h"
#include "tests/bench/times.h"

enum { SIZE = 2048, REPEATS = 30, MAX_ROUNDS = 1001 };

/* Above this ratio a median is no noise. */
static const double too_slow = 1.05;

/* ---- libmvec ------------------------------------------------------------- */

/* out = f(x) or f(x, y), for all of the arrays. */
typedef void Sweep(const void *f, void *out, const void *x, const void *y);

#define CALL_1 f.one(LOAD(x + i))
#define CALL_2 f.two(LOAD(x + i), LOAD(y + i))

#define SWEEP(name, isa, operands, element, vector, store)                     \
    __attribute__((target(isa))) static void name(                             \
        const void *function, void *out, const void *in0, const void *in1)     \
    {                                                                          \
        union {                                                                \
            const void *address;                                               \
            vector (*one)(vector);                                             \
            vector (*two)(vector, vector);                                     \
        } f = {function};                                                      \
        const element *x = in0, *y = in1;                                      \
        element *to = out;                                                     \
        (void)y;                                                               \
        for (size_t i = 0; i < SIZE; i += sizeof(vector) / sizeof(element))    \
            store(to + i, CALL_##operands);                                    \
    }

#define LOAD _mm256_loadu_ps
SWEEP(sweep_v3_f32_1, "avx2", 1, float, __m256, _mm256_storeu_ps)
SWEEP(sweep_v3_f32_2, "avx2", 2, float, __m256, _mm256_storeu_ps)
#undef LOAD
#define LOAD _mm256_loadu_pd
SWEEP(sweep_v3_f64_1, "avx2", 1, double, __m256d, _mm256_storeu_pd)
SWEEP(sweep_v3_f64_2, "avx2", 2, double, __m256d, _mm256_storeu_pd)
#undef LOAD
#define LOAD _mm512_loadu_ps
SWEEP(sweep_v4_f32_1, "avx512f", 1, float, __m512, _mm512_storeu_ps)
SWEEP(sweep_v4_f32_2, "avx512f", 2, float, __m512, _mm512_storeu_ps)
#undef LOAD
#define LOAD _mm512_loadu_pd
SWEEP(sweep_v4_f64_1, "avx512f", 1, double, __m512d, _mm512_storeu_pd)
SWEEP(sweep_v4_f64_2, "avx512f", 2, double, __m512d, _mm512_storeu_pd)
#undef LOAD

/* The names of the four kinds of vectors, and loops over an array of each. */
static const struct Kind {
    const char *target;
    DType width;
    const char *prefix; /* of libmvec's names: instructions and lanes */
    Sweep *sweep[3];    /* by the number of operands */
} kinds[] = {
    {"x86-64-v3", DT_f32, "_ZGVdN8", {NULL, sweep_v3_f32_1, sweep_v3_f32_2}},
    {"x86-64-v3", DT_f64, "_ZGVdN4", {NULL, sweep_v3_f64_1, sweep_v3_f64_2}},
    {"x86-64-v4", DT_f32, "_ZGVeN16", {NULL, sweep_v4_f32_1, sweep_v4_f32_2}},
    {"x86-64-v4", DT_f64, "_ZGVeN8", {NULL, sweep_v4_f64_1, sweep_v4_f64_2}},
};

enum { NUM_KINDS = sizeof kinds / sizeof kinds[0] };

/* The address of libmvec's function, or NULL if it has none. */
static const void *
find_peer(void *libmvec, const struct Kind *kind, const MathsFnInfo *fn)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s_%s%s", kind->prefix,
             fn->num_operands == 1 ? "v" : "vv", fn->name,
             kind->width == DT_f32 ? "f" : "");
    return dlsym(libmvec, name);
}

/* ---- ours ---------------------------------------------------------------- */

static const char *
kernel_text(Arena *a, const MathsFnInfo *fn, const char *dtype)
{
    Str s = str_new(a);
    str_add(&s, "kernel k_1\n");
    for (int i = 0; i < fn->num_operands; i++)
        str_addf(&s, "in in%d: %s[%d]\n", i, dtype, SIZE);
    str_addf(&s, "out out0: %s[%d]\ngrid vector i0 < %d {\n", dtype, SIZE,
             SIZE);
    for (int i = 0; i < fn->num_operands; i++)
        str_addf(&s, "  %%%d: %s = load in%d[i0]\n", i, dtype, i);
    bool two = fn->num_operands == 2;
    str_addf(&s, "  %%%d: %s = %s %%0%s\n", fn->num_operands, dtype, fn->name,
             two ? ", %1" : "");
    str_addf(&s, "  store out0[i0], %%%d\n}\n", fn->num_operands);
    return str_text(&s);
}

static void
must(Status st)
{
    if (st)
        exit(status_report(st, "maths", stderr));
}

typedef struct Ours {
    RtCode *code;
    TfdKernel *kernel;
} Ours;

static TfdKernel *
find_kernel(const RtCode *code, const char *name)
{
    union {
        TfdFunction *function;
        TfdKernel *kernel;
    } found = {.function = rt_code_function(code, name)};
    return found.kernel;
}

/* The kernel of fn, in a. */
static BeKernels
kernels_of(Arena *a, const MathsFnInfo *fn, const struct Kind *kind)
{
    Diag *d = diag_new(a);
    const char *text = kernel_text(a, fn, dtype_info[kind->width].name);
    uint16_t file = diag_add_source(d, "maths.kernels", text, strlen(text));
    BeKernels kernels = {0};
    if (!be_kernel_parse(&kernels, a, d, file, text, strlen(text))) {
        diag_print(d, stderr);
        exit(1);
    }
    return kernels;
}

static BeOptions
options_for(const struct Kind *kind)
{
    return (BeOptions){.targets = kind->target, .level = 2, .cache = ""};
}

static void
print_asm(const MathsFnInfo *fn, const struct Kind *kind)
{
    Arena *a = arena_new(NULL, "assembly");
    BeKernels kernels = kernels_of(a, fn, kind);
    BeOptions options = options_for(kind);
    Str s = str_new(a);
    must(be_print_asm(&s, NULL, &kernels, &options));
    puts(str_text(&s));
    arena_release(a);
}

static Ours
compile(const MathsFnInfo *fn, const struct Kind *kind)
{
    Arena *a = arena_new(NULL, "a kernel");
    BeKernels kernels = kernels_of(a, fn, kind);
    BeOptions options = options_for(kind);
    BeCode code;
    must(be_compile_kernels(a, &kernels, &options, &code));
    PlanObject object = {code.objects.data[0].name, code.objects.data[0].bytes,
                         code.objects.data[0].size};
    Ours ours;
    must(rt_code_open(&object, 1, &ours.code));
    ours.kernel = find_kernel(ours.code, kernels.data[0]->name);
    arena_release(a);
    return ours;
}

/* ---- operands ------------------------------------------------------------ */

/* Where x is taken from, evenly: where programs have it. */
static const struct Range {
    MathsFn fn;
    double low, high;
} ranges[] = {
    {MATHS_exp, -20, 20},    {MATHS_expm1, -8, 8},   {MATHS_log, 1e-3, 100},
    {MATHS_log1p, -0.9, 50}, {MATHS_sin, -100, 100}, {MATHS_cos, -100, 100},
    {MATHS_asin, -1, 1},
    {MATHS_tanh, -4, 4},     {MATHS_erf, -3, 3},     {MATHS_pow, 0.01, 20},
};

static double
even(double low, double high)
{
    return low + (high - low) * ((double)rand() / RAND_MAX);
}

static void
fill(MathsFn fn, DType width, void *x, void *y)
{
    struct Range r = {fn, -8, 8};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (ranges[i].fn == fn)
            r = ranges[i];
    }
    for (int i = 0; i < SIZE; i++) {
        scalar_store(width, x, i, scalar_float(width, even(r.low, r.high)));
        scalar_store(width, y, i, scalar_float(width, even(-5, 5)));
    }
}

/* ---- timing -------------------------------------------------------------- */

typedef struct Arrays {
    _Alignas(64) double x[SIZE], y[SIZE], out[SIZE];
} Arrays;

/* Both: nanoseconds an element. */
static double
time_ours(TfdKernel *kernel, Arrays *arrays, int operands)
{
    void *two[] = {arrays->x, arrays->y, arrays->out};
    void *one[] = {arrays->x, arrays->out};
    double begin = nanoseconds();
    for (int i = 0; i < REPEATS; i++)
        kernel(operands == 2 ? two : one, NULL, 0, SIZE);
    return (nanoseconds() - begin) / (REPEATS * (double)SIZE);
}

static double
time_peer(Sweep *sweep, const void *peer, Arrays *arrays)
{
    double begin = nanoseconds();
    for (int i = 0; i < REPEATS; i++)
        sweep(peer, arrays->out, arrays->x, arrays->y);
    return (nanoseconds() - begin) / (REPEATS * (double)SIZE);
}

/* Prints a line; whether ours is as fast. */
static bool
measure(MathsFn fn, const struct Kind *kind, const void *peer, int rounds)
{
    static Arrays arrays;
    double ours[MAX_ROUNDS], theirs[MAX_ROUNDS], ratio[MAX_ROUNDS];
    const MathsFnInfo *info = &ir_maths_fn_info[fn];
    Ours tfd = compile(info, kind);
    fill(fn, kind->width, arrays.x, arrays.y);
    for (int i = 0; i < rounds; i++) {
        ours[i] = time_ours(tfd.kernel, &arrays, info->num_operands);
        theirs[i] = time_peer(kind->sweep[info->num_operands], peer, &arrays);
        ratio[i] = ours[i] / theirs[i];
    }
    rt_code_close(tfd.code);
    double middle = median(ratio, rounds);
    printf("%-9s %-6s %-4s %8.3f %8.3f %8.2f%s\n", kind->target, info->name,
           dtype_info[kind->width].name, median(ours, rounds),
           median(theirs, rounds), middle, middle > too_slow ? "  slower" : "");
    return middle <= too_slow;
}

static void
print_all_asm(const bool *wanted)
{
    for (int k = 0; k < NUM_KINDS; k++) {
        for (int fn = 0; fn < NUM_MATHS_FNS; fn++) {
            if (wanted[fn])
                print_asm(&ir_maths_fn_info[fn], &kinds[k]);
        }
    }
}

static bool
measure_all(const bool *wanted, int rounds, void *libmvec)
{
    bool good = true;
    printf("%-9s %-6s %-4s %8s %8s %8s   (ns an element, medians of %d)\n",
           "target", "f", "", "tfd", "libmvec", "ratio", rounds);
    for (int k = 0; k < NUM_KINDS; k++) {
        if (!target_runs_here(kinds[k].target))
            continue;
        for (int fn = 0; fn < NUM_MATHS_FNS; fn++) {
            const void *peer =
                find_peer(libmvec, &kinds[k], &ir_maths_fn_info[fn]);
            if (peer && wanted[fn])
                good &= measure((MathsFn)fn, &kinds[k], peer, rounds);
        }
    }
    return good;
}

static bool
want(bool *wanted, const char *name)
{
    for (int fn = 0; fn < NUM_MATHS_FNS; fn++) {
        if (strcmp(ir_maths_fn_info[fn].name, name) == 0)
            return wanted[fn] = true;
    }
    return false;
}

int
main(int argc, char **argv)
{
    bool wanted[NUM_MATHS_FNS] = {false};
    bool check = false, assembly = false, some = false;
    int rounds = 51;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--check") == 0) {
            check = true;
        } else if (strcmp(argv[i], "--asm") == 0) {
            assembly = true;
        } else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            rounds = atoi(argv[++i]);
        } else if (want(wanted, argv[i])) {
            some = true;
        } else {
            fprintf(stderr, "maths: no function \"%s\"\n", argv[i]);
            return 2;
        }
    }
    if (rounds < 1 || rounds > MAX_ROUNDS)
        return 2;
    for (int fn = 0; fn < NUM_MATHS_FNS && !some; fn++)
        wanted[fn] = true;
    if (assembly) {
        print_all_asm(wanted);
        return 0;
    }
    void *libmvec = dlopen("libmvec.so.1", RTLD_NOW);
    if (!libmvec || !target_here()) {
        printf("1..0 # SKIP %s\n", libmvec ? "this processor has no AVX2"
                                           : "there is no libmvec here");
        return 0;
    }
    bool good = measure_all(wanted, rounds, libmvec);
    dlclose(libmvec);
    return check && !good;
}
