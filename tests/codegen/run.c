/*
 * run.c - compiles and executes kernels, and compares them with
 * tests/ref/kernel_eval
 */
#include "tests/codegen/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "backend/codegen/emit.h"
#include "ir/plan/target.h"
#include "tests/codegen/code_cache.h"
#include "tests/ref/kernel_eval.h"
#include "tests/unit/sweep.h"

enum { PAGE = 4096, FILL = 0xa5 };

/* ---- compiling ---------------------------------------------------------- */

static void
must(Status st)
{
    if (st) {
        status_report(st, "codegen", stderr);
        exit(1);
    }
}

void
run_sample(BeKernels *kernels)
{
    int num = 0, all = kernels->len;
    for (int i = sweep_first(all); i < all; i = sweep_next(i))
        kernels->data[num++] = kernels->data[i];
    kernels->len = num;
}

RtCode *
run_compile(const BeKernels *kernels, const char *target, int level)
{
    Arena *a = arena_new(NULL, "objects");
    BeOptions options = {.targets = target,
                         .level = level,
                         .cache = code_cache(),
                         .by_module = true,
                         .verify = true};
    BeCode code;
    must(be_compile_kernels(a, kernels, &options, &code));
    int num = code.objects.len;
    PlanObject *objects = NEW_ARRAY(a, PlanObject, (size_t)num + 1);
    for (int i = 0; i < num; i++) {
        const BeObject *o = &code.objects.data[i];
        objects[i] = (PlanObject){o->name, o->bytes, o->size};
    }
    RtCode *linked;
    const TargetInfo *t =
        target_find(strcmp(target, "native") == 0 ? target_here() : target);
    if (!t || !target_allow(t))
        UNREACHABLE("code for %s does not run here", target);
    must(rt_code_open(objects, num, &linked));
    arena_release(a);
    return linked;
}

/* ---- memory beside pages that cannot be touched -------------------------- */

typedef struct Fenced {
    char *map, *data;
    size_t map_bytes, bytes;
} Fenced;

static Fenced
fenced_new(size_t bytes, bool at_end)
{
    size_t inner = (bytes + PAGE - 1) / PAGE * PAGE;
    inner = inner ? inner : PAGE;
    Fenced f = {.map_bytes = inner + 2 * (size_t)PAGE, .bytes = bytes};
    f.map =
        mmap(NULL, f.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f.map == MAP_FAILED ||
        mprotect(f.map + PAGE, inner, PROT_READ | PROT_WRITE))
        abort();
    f.data = f.map + PAGE + (at_end ? inner - bytes : 0);
    return f;
}

/* ---- made-up values ----------------------------------------------------- */

static uint64_t
next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Of bf16: products are on both sides of the least normal f32, and some factors
 * are subnormal. */
static double
made_up_small(uint64_t r)
{
    double x =
        ldexp((double)(128 + (r >> 40) % 128), -62 - (int)(r >> 20) % 80);
    return r % 4 == 0 ? 0.0 : r % 4 == 1 ? -x : x;
}

static Scalar
made_up_float(DType t, uint64_t r, RunValues values)
{
    bool wild = values == RUN_WILD;
    static const double specials[] = {
        0.0,     -0.0,  INFINITY,     -INFINITY, NAN,    1.0,
        -1.0,    1e-42, -1e-42,       5e-324,    3.4e38, -6.5e4,
        1.7e308, 88.9,  -103.5,       0.5,       2.5,    -3.5,
        65504,   1e-8,  2147483648.0, -2.2e-14,  127.5,  9.3e18,
    };
    double x = (double)(int64_t)(r >> 11) / (double)(INT64_C(1) << 50) - 4;
    if (wild && r % 3 == 0)
        x = specials[(r >> 8) % (sizeof specials / sizeof specials[0])];
    else if (wild && r % 3 == 1)
        x = ldexp(x, (int)((r >> 4) % 80) - 40);
    if (values == RUN_TINY && t == DT_bf16)
        x = made_up_small(r);
    else if (values == RUN_TINY)
        x = r % 4 ? 0.0 : t == DT_f64 ? 1e-200 : 1e-30;
    return scalar_float(t, x);
}

/* Of an array of zeros, or one that such an array is multiplied with. */
static Scalar
made_up_sparse(DType t, uint64_t r, bool zeros, bool finite)
{
    double tiny = t == DT_f64 ? 1e-200 : 1e-30;
    double x =
        r % 2 ? (double)(int64_t)(r >> 11) / (double)(INT64_C(1) << 50) : tiny;
    bool rare = (r >> 1) % 500 == 0;
    if (zeros)
        return scalar_float(t, rare ? x : 0.0);
    if (rare && !finite && (r >> 20) % 8 == 0)
        return scalar_float(t, INFINITY);
    return scalar_float(t, rare ? x : -x);
}

static Scalar
made_up_int(DType t, uint64_t r, RunValues values)
{
    bool wild = values == RUN_WILD;
    int64_t x = (int64_t)((r >> 20) % 19) - 9;
    if (wild && r % 3 == 0)
        x = (int64_t)next_random(&r);
    else if (wild && r % 3 == 1)
        x = ((int64_t)1 << (r >> 8) % 63) - (int64_t)(r % 2);
    return scalar_int(t, x);
}

/* Tiny values of every second array are negative. */
static void
make_up(const KArray *a, int64_t size, void *to, uint64_t seed,
        RunValues values)
{
    uint64_t first = seed;
    bool negative = values == RUN_TINY && seed % 2;
    for (int64_t i = 0; i < size; i++) {
        uint64_t r = next_random(&seed);
        bool is_float = dtype_is_float(a->dtype);
        Scalar x = !is_float ? made_up_int(a->dtype, r, values)
                   : values >= RUN_SPARSE
                       ? made_up_sparse(a->dtype, r, first % 2,
                                        values == RUN_SPARSE_FINITE)
                       : made_up_float(a->dtype, r, values);
        if (negative && dtype_is_float(a->dtype))
            x.f = -x.f;
        scalar_store(a->dtype, to, i, x);
    }
}

/* ---- comparing ---------------------------------------------------------- */

static bool
same_element(DType t, const void *x, const void *y, int64_t i)
{
    size_t bytes = dtype_info[t].bytes;
    if (!memcmp((const char *)x + (size_t)i * bytes,
                (const char *)y + (size_t)i * bytes, bytes))
        return true;
    return dtype_is_float(t) && isnan(scalar_load(t, x, i).f) &&
           isnan(scalar_load(t, y, i).f);
}

static void
show_scalar(Str *s, DType t, const void *x, int64_t i)
{
    Scalar v = scalar_load(t, x, i);
    if (dtype_is_float(t))
        str_addf(s, "%.17g", v.f);
    else
        str_addf(s, "%lld", (long long)v.i);
}

static const char *
difference(Arena *a, const BeKernel *k, int out, int64_t size,
           const void *expected, const void *got)
{
    DType t = k->arrays[K_OUT].data[out]->dtype;
    for (int64_t i = 0; i < size; i++) {
        if (same_element(t, expected, got, i))
            continue;
        Str s = str_new(a);
        str_addf(&s, "out%d[%lld] of %lld is ", out, (long long)i,
                 (long long)size);
        show_scalar(&s, t, got, i);
        str_add(&s, ", not ");
        show_scalar(&s, t, expected, i);
        str_addc(&s, '\n');
        be_kernel_print(&s, k);
        return str_text(&s);
    }
    return NULL;
}

/* ---- running ------------------------------------------------------------ */

void
run_dims(const BeKernel *k, int64_t n, int64_t *dims)
{
    for (int i = 0; i < k->pairs.len; i++) {
        const KPair *p = &k->pairs.data[i];
        dims[ir_batch_word(i, BATCH_n)] = n < p->bound ? n : p->bound;
        dims[ir_batch_word(i, BATCH_N)] = 2 * n < p->total ? 2 * n : p->total;
        dims[ir_batch_word(i, BATCH_ROW_START)] = 3 * n + i;
    }
    dims[be_kernel_replica_word(k)] = 5;
}

static int64_t
size_of(Dim d, const int64_t *dims)
{
    return ir_dim_is_const(d)
               ? d.c
               : ir_dim_value(d, dims[be_kernel_symbol_word(d.sym)]);
}

enum { MAX_ARRAYS = 512 };

/* The arrays of a call: inputs, then outputs, twice. */
typedef struct Arrays {
    int num_in, num;
    Fenced mem[MAX_ARRAYS];
    void *got[MAX_ARRAYS], *expected[MAX_ARRAYS];
    int64_t sizes[MAX_ARRAYS];
} Arrays;

static const KArray *
array_of(const BeKernel *k, int i)
{
    int num_in = k->arrays[K_IN].len;
    return i < num_in ? k->arrays[K_IN].data[i]
                      : k->arrays[K_OUT].data[i - num_in];
}

/* The contents of output i before a call. */
static void
begin_output(const BeKernel *k, const Arrays *arrays, int i, void *to)
{
    const KArray *from = array_of(k, i)->from;
    if (from)
        memcpy(to, arrays->got[from->index], arrays->mem[i].bytes);
    else
        memset(to, FILL, arrays->mem[i].bytes);
}

static void
make_arrays(Arena *a, const RunCase *c, Arrays *to)
{
    const BeKernel *k = c->kernel;
    to->num_in = k->arrays[K_IN].len;
    to->num = to->num_in + k->arrays[K_OUT].len;
    for (int i = 0; i < to->num; i++) {
        const KArray *array = array_of(k, i);
        to->sizes[i] = size_of(array->size, c->dims);
        size_t bytes = (size_t)to->sizes[i] * dtype_info[array->dtype].bytes;
        to->mem[i] = fenced_new(bytes, c->seed & 1);
        to->expected[i] = to->got[i] = to->mem[i].data;
        if (i < to->num_in) {
            uint64_t seed = (uint64_t)(c->seed * 65 + i);
            make_up(array, to->sizes[i], to->got[i], seed, c->values);
        } else {
            to->expected[i] = arena_alloc(a, bytes);
            begin_output(k, to, i, to->expected[i]);
        }
    }
}

/* A kernel of the code: it is known there as a function. */
TfdKernel *
run_find_kernel(const RtCode *code, const char *name)
{
    union {
        TfdFunction *function;
        TfdKernel *kernel;
    } found = {.function = rt_code_function(code, name)};
    return found.kernel;
}

static void
begin_outputs(const BeKernel *k, const Arrays *arrays)
{
    for (int i = arrays->num_in; i < arrays->num; i++)
        begin_output(k, arrays, i, arrays->got[i]);
}

static const char *
compare_outputs(Arena *a, const BeKernel *k, const Arrays *arrays)
{
    for (int i = arrays->num_in; i < arrays->num; i++) {
        const char *wrong =
            difference(a, k, i - arrays->num_in, arrays->sizes[i],
                       arrays->expected[i], arrays->got[i]);
        if (wrong)
            return wrong;
    }
    return NULL;
}

/* A long reduction in parts, as threads do it; those at the end first. */
static const char *
run_parts(Arena *a, const RtCode *code, const RunCase *c, Arrays *arrays)
{
    const BeKernel *k = c->kernel;
    TfdKernel *part =
        run_find_kernel(code, arena_printf(a, "%s%s", k->name, EMIT_PARTIAL));
    TfdKernel *rest =
        run_find_kernel(code, arena_printf(a, "%s%s", k->name, EMIT_FINAL));
    if (!part || !rest)
        return part || rest ? "the code has half of what it needs" : NULL;
    const KRanges *r = &be_emit_long_reduces(k).reduces[0]->reduce.ranges;
    int64_t chunks =
        (size_of(r->vars[0]->extent, c->dims) + IR_CHUNK - 1) / IR_CHUNK;
    int64_t bytes = be_emit_partial_bytes(k);
    arrays->got[arrays->num] = arena_alloc(a, (size_t)bytes);
    memset(arrays->got[arrays->num], FILL, (size_t)bytes);
    begin_outputs(k, arrays);
    part(arrays->got, c->dims, chunks / 3, chunks);
    part(arrays->got, c->dims, 0, chunks / 3);
    rest(arrays->got, c->dims, 0, 1);
    return compare_outputs(a, k, arrays);
}

static const char *
run_one(Arena *a, const RtCode *code, const RunCase *c, Arrays *arrays,
        int64_t items)
{
    TfdKernel *fn = run_find_kernel(code, c->kernel->name);
    if (!fn)
        return "the code has no such function";
    begin_outputs(c->kernel, arrays);
    int64_t ends[] = {items / 3, items / 3 + (items > 1), items}, begin = 0;
    for (int i = 0; i < 3; i++) { /* the last one also without items */
        if (begin < ends[i] || i == 2)
            fn(arrays->got, c->dims, begin, ends[i]);
        begin = ends[i];
    }
    const char *wrong = compare_outputs(a, c->kernel, arrays);
    return wrong ? wrong : run_parts(a, code, c, arrays);
}

const char *
run_compare(Arena *a, RtCode *const *codes, int num_codes, const RunCase *c)
{
    Arrays arrays;
    make_arrays(a, c, &arrays);
    int64_t items = kernel_eval_items(c->kernel, c->dims);
    kernel_eval(c->kernel, arrays.expected, c->dims, 0, items);
    const char *wrong = NULL;
    for (int i = 0; i < num_codes && !wrong; i++) {
        wrong = run_one(a, codes[i], c, &arrays, items);
        if (wrong)
            wrong = arena_printf(a, "code %d: %s", i, wrong);
    }
    for (int i = 0; i < arrays.num; i++)
        munmap(arrays.mem[i].map, arrays.mem[i].map_bytes);
    return wrong;
}
