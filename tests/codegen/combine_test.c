/*
 * combine_test.c - the kernels that combine the operands of all_reduces
 *
 * A device with code of its own combines by them what other devices combine by
 * rt_reduce_kernel: both must give the same bits, for every dtype, combination
 * and number of replicas.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>
#include "runtime/coll/algorithm/reduce.h"
#include "tests/codegen/run.h"

enum { COUNT = 133, MOST = 33 };

static const int numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, MOST};
enum { NUM_NUMBERS = sizeof numbers / sizeof *numbers };

static const struct {
    IrAgg agg;
    RtReduceOp op;
} ways[] = {
    {AGG_sum, REDUCE_SUM}, {AGG_max, REDUCE_MAX}, {AGG_min, REDUCE_MIN}};
enum { NUM_WAYS = sizeof ways / sizeof *ways };

/* ---- operands ------------------------------------------------------------ */

static uint64_t
next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Sums of these are rounded, and overflow; zeros have signs. */
static Scalar
made_up(DType t, uint64_t r)
{
    static const double rare[] = {0.0,       -0.0,   1e-42, INFINITY,
                                  -INFINITY, NAN,    65504, 3.4e38,
                                  1.7e308,   -1e-42, 1.0,   -65504};
    if (!dtype_is_float(t))
        return scalar_int(t, (int64_t)next_random(&r));
    double x = (double)(int64_t)(r >> 11) / (double)(INT64_C(1) << 51) - 2;
    if (r % 7 == 0)
        x = rare[(r >> 8) % (sizeof rare / sizeof *rare)];
    return scalar_float(t, ldexp(x, (int)((r >> 4) % 24) - 12));
}

typedef struct Operands {
    uint64_t bytes[MOST][COUNT]; /* room for any dtype */
    const void *in[MOST];
} Operands;

static void
make_operands(Operands *o, DType t, int num)
{
    uint64_t state = (uint64_t)t * 1000 + (uint64_t)num;
    for (int i = 0; i < num; i++) {
        o->in[i] = o->bytes[i];
        for (int k = 0; k < COUNT; k++)
            scalar_store(t, o->bytes[i], k, made_up(t, next_random(&state)));
    }
}

/* ---- the test ------------------------------------------------------------ */

static bool
is_nan_at(DType t, const void *x, int i)
{
    return dtype_is_float(t) && isnan(scalar_load(t, x, i).f);
}

static void
assert_same(DType t, const BeKernel *k, const void *x, const void *y)
{
    size_t bytes = dtype_info[t].bytes;
    for (int i = 0; i < COUNT; i++) {
        const char *a = (const char *)x + (size_t)i * bytes;
        const char *b = (const char *)y + (size_t)i * bytes;
        if (memcmp(a, b, bytes) && !(is_nan_at(t, x, i) && is_nan_at(t, y, i)))
            fail_msg("%s of %s: element %d differs\n%s", k->name,
                     dtype_info[t].name, i, k->text);
    }
}

/* The output is the first operand's memory, as in an all_reduce in place. */
static void
check(const RtCode *code, const BeKernel *k, int way, DType t, int num)
{
    static Operands o, p;
    uint64_t expected[COUNT];
    void *out = expected, *ptrs[MOST + 1];
    const int64_t dims[] = {COUNT, COUNT, 0};
    make_operands(&o, t, num);
    make_operands(&p, t, num);
    rt_reduce_kernel(ways[way].op, t)(num, o.in, 1, &out, 0, COUNT);
    for (int i = 0; i < num; i++)
        ptrs[i] = p.bytes[i];
    ptrs[num] = p.bytes[0];
    TfdKernel *f = rt_code_kernel(code, k->name);
    f(ptrs, dims, 0, 70);
    f(ptrs, dims, 70, COUNT);
    assert_same(t, k, expected, p.bytes[0]);
}

static BeKernels
kernels_of(Arena *a, int way, DType t)
{
    BeKernels kernels = {0};
    for (int i = 0; i < NUM_NUMBERS; i++) {
        BeKernel *k = be_kernel_combine(a, ways[way].agg, t, numbers[i]);
        Diag *d = diag_new(a);
        assert_non_null(k);
        assert_true(be_kernel_verify(k, d, (Loc){0}));
        VEC_PUSH(a, kernels, k);
    }
    return kernels;
}

static void
bits_are_those_of_other_devices(void **state)
{
    const DType *t = *state;
    for (int way = 0; way < NUM_WAYS; way++) {
        Arena *a = arena_new(NULL, "kernels");
        BeKernels kernels = kernels_of(a, way, *t);
        RtCode *code = run_compile(&kernels, "native", 2);
        for (int i = 0; i < NUM_NUMBERS; i++)
            check(code, kernels.data[i], way, *t, numbers[i]);
        rt_code_close(code);
        arena_release(a);
    }
}

/* Copies need no kernel; nor has a kernel room for any number of replicas. */
static void
others_have_none(void **state)
{
    Arena *a = arena_new(NULL, "kernels");
    (void)state;
    assert_null(be_kernel_combine(a, AGG_first, DT_f32, 2));
    assert_null(be_kernel_combine(a, AGG_sum, DT_bool, 2));
    assert_non_null(be_kernel_combine(a, AGG_sum, DT_f32, BE_MAX_COMBINED));
    assert_null(be_kernel_combine(a, AGG_sum, DT_f32, BE_MAX_COMBINED + 1));
    arena_release(a);
}

int
main(void)
{
    static DType dtypes[NUM_DTYPES];
    struct CMUnitTest tests[NUM_DTYPES + 1] = {
        cmocka_unit_test(others_have_none)};
    size_t num = 1;
    for (int t = 0; t < NUM_DTYPES; t++) {
        dtypes[t] = (DType)t;
        if (rt_reduce_kernel(REDUCE_SUM, (DType)t))
            tests[num++] = (struct CMUnitTest){
                .name = dtype_info[t].name,
                .test_func = bits_are_those_of_other_devices,
                .initial_state = &dtypes[t]};
    }
    return _cmocka_run_group_tests("combine", tests, num, NULL, NULL);
}
