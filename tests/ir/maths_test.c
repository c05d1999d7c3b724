/*
 * maths_test.c - elementary functions: special values, identities, known bits,
 * and that emitted primitives compute what ir_maths_eval computes
 *
 * Their accuracy is measured by tests/ulp.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include "ir/maths/maths.h"
#include "ir/maths/maths_direct.h"

#define INF INFINITY
#define ANY 0.5 /* where the second operand does not matter */

static const DType widths[] = {DT_f32, DT_f64};

static double
rounded(DType width, double x)
{
    return width == DT_f32 ? (float)x : x;
}

/* Equal bits, or both NaN. */
static bool
same(double a, double b)
{
    return (isnan(a) && isnan(b)) || f64_as_int(a) == f64_as_int(b);
}

static void
check(MathsFn fn, DType width, double x, double y, double want)
{
    double got = ir_maths_eval(fn, width, x, y);
    if (!same(got, want))
        fail_msg("%s of %s: %a, %a gives %a, not %a", ir_maths_fn_info[fn].name,
                 dtype_info[width].name, x, y, got, want);
}

/*
 * Special values: those of C's Annex F.
 */

static const struct {
    MathsFn fn;
    double x, y, want;
} specials[] = {
    {MATHS_exp, 0.0, ANY, 1},
    {MATHS_exp, -0.0, ANY, 1},
    {MATHS_exp, INF, ANY, INF},
    {MATHS_exp, -INF, ANY, 0.0},
    {MATHS_exp, 1000, ANY, INF},
    {MATHS_exp, -1000, ANY, 0.0},
    {MATHS_expm1, 0.0, ANY, 0.0},
    {MATHS_expm1, -0.0, ANY, -0.0},
    {MATHS_expm1, INF, ANY, INF},
    {MATHS_expm1, -INF, ANY, -1},
    {MATHS_expm1, 0x1p-120, ANY, 0x1p-120},
    {MATHS_log, 1, ANY, 0.0},
    {MATHS_log, 0.0, ANY, -INF},
    {MATHS_log, -0.0, ANY, -INF},
    {MATHS_log, -1, ANY, NAN},
    {MATHS_log, -INF, ANY, NAN},
    {MATHS_log, INF, ANY, INF},
    {MATHS_log1p, 0.0, ANY, 0.0},
    {MATHS_log1p, -0.0, ANY, -0.0},
    {MATHS_log1p, -1, ANY, -INF},
    {MATHS_log1p, -1.5, ANY, NAN},
    {MATHS_log1p, -INF, ANY, NAN},
    {MATHS_log1p, INF, ANY, INF},
    {MATHS_log1p, 0x1p-149, ANY, 0x1p-149},
    {MATHS_rsqrt, 4, ANY, 0.5},
    {MATHS_rsqrt, 0.0, ANY, INF},
    {MATHS_rsqrt, -0.0, ANY, -INF},
    {MATHS_rsqrt, INF, ANY, 0.0},
    {MATHS_rsqrt, -1, ANY, NAN},
    {MATHS_sin, 0.0, ANY, 0.0},
    {MATHS_sin, -0.0, ANY, -0.0},
    {MATHS_sin, INF, ANY, NAN},
    {MATHS_sin, -INF, ANY, NAN},
    {MATHS_sin, 0x1p-149, ANY, 0x1p-149},
    {MATHS_cos, 0.0, ANY, 1},
    {MATHS_cos, -0.0, ANY, 1},
    {MATHS_cos, INF, ANY, NAN},
    {MATHS_cos, -INF, ANY, NAN},
    {MATHS_asin, 0.0, ANY, 0.0},
    {MATHS_asin, -0.0, ANY, -0.0},
    {MATHS_asin, 1.25, ANY, NAN},
    {MATHS_asin, -1.25, ANY, NAN},
    {MATHS_asin, INF, ANY, NAN},
    {MATHS_asin, -INF, ANY, NAN},
    {MATHS_asin, 0x1p-149, ANY, 0x1p-149},
    {MATHS_tanh, 0.0, ANY, 0.0},
    {MATHS_tanh, -0.0, ANY, -0.0},
    {MATHS_tanh, INF, ANY, 1},
    {MATHS_tanh, -INF, ANY, -1},
    {MATHS_tanh, 0x1p-149, ANY, 0x1p-149},
    {MATHS_sigmoid, 0.0, ANY, 0.5},
    {MATHS_sigmoid, -0.0, ANY, 0.5},
    {MATHS_sigmoid, INF, ANY, 1},
    {MATHS_sigmoid, -INF, ANY, 0.0},
    {MATHS_erf, 0.0, ANY, 0.0},
    {MATHS_erf, -0.0, ANY, -0.0},
    {MATHS_erf, INF, ANY, 1},
    {MATHS_erf, -INF, ANY, -1},
    {MATHS_pow, 0.0, -3, INF},
    {MATHS_pow, -0.0, -3, -INF},
    {MATHS_pow, 0.0, -2, INF},
    {MATHS_pow, -0.0, -2, INF},
    {MATHS_pow, -0.0, -2.5, INF},
    {MATHS_pow, -0.0, -INF, INF},
    {MATHS_pow, 0.0, 3, 0.0},
    {MATHS_pow, -0.0, 3, -0.0},
    {MATHS_pow, -0.0, 2, 0.0},
    {MATHS_pow, -0.0, 2.5, 0.0},
    {MATHS_pow, -1, INF, 1},
    {MATHS_pow, -1, -INF, 1},
    {MATHS_pow, -1, NAN, NAN},
    {MATHS_pow, 1, NAN, 1},
    {MATHS_pow, 1, INF, 1},
    {MATHS_pow, NAN, 0.0, 1},
    {MATHS_pow, NAN, -0.0, 1},
    {MATHS_pow, INF, 0.0, 1},
    {MATHS_pow, NAN, 1, NAN},
    {MATHS_pow, 2, NAN, NAN},
    {MATHS_pow, 0.0, NAN, NAN},
    {MATHS_pow, -2, 0.5, NAN},
    {MATHS_pow, -2, 3, -8},
    {MATHS_pow, -2, 2, 4},
    {MATHS_pow, -0.5, -3, -8},
    {MATHS_pow, 0.5, -INF, INF},
    {MATHS_pow, 2, -INF, 0.0},
    {MATHS_pow, 0.5, INF, 0.0},
    {MATHS_pow, -2, INF, INF},
    {MATHS_pow, -INF, -3, -0.0},
    {MATHS_pow, -INF, -2, 0.0},
    {MATHS_pow, -INF, -2.5, 0.0},
    {MATHS_pow, -INF, 3, -INF},
    {MATHS_pow, -INF, 2, INF},
    {MATHS_pow, -INF, 2.5, INF},
    {MATHS_pow, INF, -1, 0.0},
    {MATHS_pow, INF, 1, INF},
    {MATHS_pow, 10, 1000, INF},
    {MATHS_pow, 10, -1000, 0.0},
    {MATHS_pow, -10, 1001, -INF},
    {MATHS_pow, 0x1p-149, 1, 0x1p-149},
};

static void
special_values_are_those_of_annex_f(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        for (int w = 0; w < 2; w++)
            check(specials[i].fn, widths[w], specials[i].x, specials[i].y,
                  specials[i].want);
    }
}

static void
nan_stays_nan(void **state)
{
    (void)state;
    for (int f = 0; f < NUM_MATHS_FNS; f++) {
        for (int w = 0; w < 2; w++)
            check((MathsFn)f, widths[w], NAN, 0.5, NAN);
    }
}

/*
 * Known answers: a change of one of these bits changes every trained model, so
 * it wants a reason.  Each is the float nearest to the truth or a neighbour.
 */

static const struct {
    MathsFn fn;
    double x, y, f32, f64;
} known[] = {
    {MATHS_exp, 0.7, ANY, 0x1.01c2a6p+1, 0x1.01c2a61268987p+1},
    {MATHS_exp, -11.61, ANY, 0x1.3080bp-17, 0x1.3080a82a1af64p-17},
    {MATHS_exp, -87.9, ANY, 0x1.237328p-127, 0x1.2373449a3b0f8p-127},
    {MATHS_exp, 88.5, ANY, 0x1.99b988p+127, 0x1.99b987155fe28p+127},
    {MATHS_expm1, 0.7, ANY, 0x1.03854cp+0, 0x1.03854c24d130dp+0},
    {MATHS_expm1, -0.001, ANY, -0x1.060352p-10, -0x1.0603521cac48cp-10},
    {MATHS_expm1, 25.3, ANY, 0x1.6a15bp+36, 0x1.6a15c174631a3p+36},
    {MATHS_log, 0.7, ANY, -0x1.6d3c34p-2, -0x1.6d3c324e13f5p-2},
    {MATHS_log, 0.825, ANY, -0x1.89fa48p-3, -0x1.89fa465cb93c4p-3},
    {MATHS_log, 1.3333, ANY, 0x1.268f94p-2, 0x1.268f935534887p-2},
    {MATHS_log, 1e-40, ANY, -0x1.7069e4p+6, -0x1.7069e2aa2aa5bp+6},
    {MATHS_log1p, 0.7, ANY, 0x1.0fae82p-1, 0x1.0fae81914a991p-1},
    {MATHS_log1p, -0.999, ANY, -0x1.ba18ep+2, -0x1.ba18a998fff9fp+2},
    {MATHS_log1p, 1e+10, ANY, 0x1.7069e2p+4, 0x1.7069e2aa3184ep+4},
    {MATHS_rsqrt, 0.7, ANY, 0x1.31fa8p+0, 0x1.31fa808c55b43p+0},
    {MATHS_rsqrt, 300000, ANY, 0x1.de9b78p-10, 0x1.de9b764a4b915p-10},
    {MATHS_sin, 0.7, ANY, 0x1.49d6e6p-1, 0x1.49d6e694619b8p-1},
    {MATHS_sin, 3.14159265, ANY, -0x1.777a5cp-24, 0x1.ed609d1a62633p-29},
    {MATHS_sin, 1e+30, ANY, -0x1.95136p-1, 0x1.31c608f107767p-7},
    {MATHS_cos, 0.7, ANY, 0x1.879966p-1, 0x1.87996529f9d93p-1},
    {MATHS_cos, -100.1, ANY, 0x1.d12f18p-1, 0x1.d12f2e24ed41bp-1},
    {MATHS_cos, 1e+30, ANY, -0x1.392442p-1, -0x1.fffa4b11f1b45p-1},
    {MATHS_asin, 0.7, ANY, 0x1.8d00e6p-1, 0x1.8d00e692afd96p-1},
    {MATHS_asin, -0.3, ANY, -0x1.38015ap-2, -0x1.380159e14f6fep-2},
    {MATHS_asin, 0.999, ANY, 0x1.86acap+0, 0x1.86ac9ad18f803p+0},
    {MATHS_tanh, 0.7, ANY, 0x1.356fbp-1, 0x1.356fb17af2e91p-1},
    {MATHS_tanh, 0.2553, ANY, 0x1.ffc88cp-3, 0x1.ffc88c946a204p-3},
    {MATHS_tanh, 0.2577, ANY, 0x1.0231c6p-2, 0x1.0231c6f3459d8p-2},
    {MATHS_tanh, 0.3, ANY, 0x1.2a4ddap-2, 0x1.2a4dda7d914fap-2},
    {MATHS_tanh, -5.1, ANY, -0x1.fff642p-1, -0x1.fff641a285da7p-1},
    {MATHS_sigmoid, 0.7, ANY, 0x1.561cb4p-1, 0x1.561cb52a19475p-1},
    {MATHS_sigmoid, -20.2, ANY, 0x1.cfdd46p-30, 0x1.cfdd5b4c6afb6p-30},
    {MATHS_sigmoid, -90.3, ANY, 0x1.a709p-131, 0x1.a7094deb67314p-131},
    {MATHS_erf, 0.7, ANY, 0x1.5b08c2p-1, 0x1.5b08c21171646p-1},
    {MATHS_erf, 1.051, ANY, 0x1.b9c248p-1, 0x1.b9c24837c1edbp-1},
    {MATHS_erf, 1.7, ANY, 0x1.f7b362p-1, 0x1.f7b3620b8747bp-1},
    {MATHS_erf, -3.3, ANY, -0x1.ffff9ap-1, -0x1.ffff9966790c8p-1},
    {MATHS_pow, 0.7, 3.5, 0x1.25dc9cp-2, 0x1.25dc9d3feaae5p-2},
    {MATHS_pow, 1.0001, 20000.5, 0x1.d9086cp+2, 0x1.d8e03e1f58415p+2},
    {MATHS_pow, -1.1, -77, -0x1.54ab3ap-11, -0x1.54ab5f968a07bp-11},
};

static void
bits_are_known(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        float x = (float)known[i].x, y = (float)known[i].y;
        check(known[i].fn, DT_f32, x, y, known[i].f32);
        check(known[i].fn, DT_f64, known[i].x, known[i].y, known[i].f64);
    }
}

/*
 * Identities.
 */

/* Number i of a few thousand that go through the exponents from 2^-140 to 2^20
 * (f32 has them all). */
enum { NUM_STEPS = 160 * 32 };

static double
step(DType width, int i)
{
    return rounded(width, ldexp(1 + i % 32 / 32.0 + 0.01, i / 32 - 140));
}

static void
odd_functions_are_odd_and_even_ones_even(void **state)
{
    (void)state;
    static const struct {
        MathsFn fn;
        int sign;
    } parity[] = {
        {MATHS_sin, -1}, {MATHS_tanh, -1}, {MATHS_erf, -1}, {MATHS_asin, -1},
        {MATHS_cos, 1}};
    for (size_t p = 0; p < sizeof parity / sizeof *parity; p++) {
        for (int i = 0; i < 2 * NUM_STEPS; i++) {
            DType width = widths[i % 2];
            double x = step(width, i / 2);
            double y = ir_maths_eval(parity[p].fn, width, x, ANY);
            check(parity[p].fn, width, -x, ANY, parity[p].sign * y);
        }
    }
}

static void
rising_functions_rise(void **state)
{
    (void)state;
    static const MathsFn rising[] = {MATHS_exp,   MATHS_expm1, MATHS_log,
                                     MATHS_log1p, MATHS_tanh,  MATHS_sigmoid,
                                     MATHS_erf};
    for (size_t f = 0; f < sizeof rising / sizeof *rising; f++) {
        for (int i = 2; i < 2 * NUM_STEPS; i++) {
            DType width = widths[i % 2];
            double low =
                ir_maths_eval(rising[f], width, step(width, i / 2 - 1), ANY);
            double high =
                ir_maths_eval(rising[f], width, step(width, i / 2), ANY);
            assert_true(low <= high);
        }
    }
}

static void
whole_powers_are_exact(void **state)
{
    (void)state;
    for (int w = 0; w < 2; w++) {
        for (int n = -126; n <= 127; n++) {
            check(MATHS_pow, widths[w], 2, n, ldexp(1, n));
            check(MATHS_pow, widths[w], -0.5, n, ldexp(n % 2 ? -1 : 1, -n));
        }
        for (int x = 1; x < 4096; x++)
            check(MATHS_pow, widths[w], -x, 2, (double)x * x);
    }
}

/* The double nearest to a multiple of pi / 2 of all: 2^-61 from it. */
static void
largest_arguments_are_reduced_exactly(void **state)
{
    (void)state;
    double x = 6381956970095103.0 * 0x1p797;
    check(MATHS_cos, DT_f64, x, ANY, -0x1.14ae72e6ba22fp-61);
    check(MATHS_sin, DT_f64, x, ANY, 1);
    check(MATHS_sin, DT_f64, 0x1.fffffffffffffp1023, ANY, 0x1.452fc98b34e97p-8);
}

/*
 * Emitted primitives: here they are carried out at once, for one element, with
 * the bits of each value in MathsVal.
 */

#define GET_F(v) T(as_float)((T(int))(v).bits)
#define GET_I(v) ((T(int))(v).bits)
#define GET_M(v) ((v).bits != 0)
#define PUT_F(x) ((MathsVal){.bits = T(as_int)(x)})
#define PUT_I(x) ((MathsVal){.bits = (x)})
#define PUT_M(x) ((MathsVal){.bits = (x)})

#define PRIM1(result, name, A, meaning)                                        \
    case PRIM_##name:                                                          \
        return PUT_##result(T(name)(GET_##A(v[0])));
#define PRIM2(result, name, A, B, meaning)                                     \
    case PRIM_##name:                                                          \
        return PUT_##result(T(name)(GET_##A(v[0]), GET_##B(v[1])));
#define PRIM3(result, name, A, B, C, meaning)                                  \
    case PRIM_##name:                                                          \
        return PUT_##result(                                                   \
            T(name)(GET_##A(v[0]), GET_##B(v[1]), GET_##C(v[2])));
#define CAST(to, name, from)                                                   \
    case PRIM_##name: {                                                        \
        from##_float x = from##_as_float((from##_int)v[0].bits);               \
        return (MathsVal){.bits = to##_as_int(f32_##name(x))};                 \
    }

#define T(name) f32_##name
static MathsVal
carry_out_f32(MathsPrim prim, const MathsVal *v)
{
    switch (prim) {
#include "ir/maths/maths_prims.def"
    default:
        return (MathsVal){.bits = 0};
    }
}
#undef T

#define T(name) f64_##name
static MathsVal
carry_out_f64(MathsPrim prim, const MathsVal *v)
{
    switch (prim) {
#include "ir/maths/maths_prims.def"
    default:
        return (MathsVal){.bits = 0};
    }
}
#undef T

/* The emitted primitives: their number, and a hash of all of them in order. */
typedef struct Trace {
    int num_prims;
    uint64_t hash;
} Trace;

static void
trace_word(Trace *t, uint64_t word)
{
    t->hash = (t->hash ^ word) * 0x100000001b3;
    t->hash ^= t->hash >> 29;
}

static MathsVal
make_number(void *cx, DType width, double value)
{
    (void)cx;
    assert_true(same(value, rounded(width, value)));
    if (width == DT_f32)
        return (MathsVal){.bits = f32_as_int((float)value)};
    return (MathsVal){.bits = f64_as_int(value)};
}

static MathsVal
make_integer(void *cx, DType width, uint64_t value)
{
    (void)cx;
    assert_true(width == DT_f64 || value <= UINT32_MAX);
    return (MathsVal){.bits = value};
}

static MathsVal
make_prim(void *cx, DType width, MathsPrim prim, const MathsVal *operands)
{
    Trace *t = cx;
    t->num_prims++;
    trace_word(t, (uint64_t)width << 8 | prim);
    for (int i = 0; i < ir_maths_prim_info[prim].num_operands; i++)
        trace_word(t, operands[i].bits);
    return width == DT_f32 ? carry_out_f32(prim, operands)
                           : carry_out_f64(prim, operands);
}

/* Rare parts are carried out always. */
static void
make_rare_begin(void *cx, MathsVal usual)
{
    trace_word(cx, usual.bits);
}

static MathsVal
make_rare_end(void *cx, DType width, MathsVal usual, MathsVal y, MathsVal other)
{
    (void)cx, (void)width;
    return usual.bits ? y : other;
}

/* fn of x and y by way of primitives. */
static double
emitted(MathsFn fn, DType width, double x, double y, Trace *t)
{
    MathsOps ops = {t,         make_number,     make_integer,
                    make_prim, make_rare_begin, make_rare_end};
    MathsVal result = ir_maths_emit(&ops, fn, width, make_number(t, width, x),
                                    make_number(t, width, y));
    if (width == DT_f32)
        return f32_as_float((uint32_t)result.bits);
    return f64_as_float(result.bits);
}

static void
emitted_primitives_give_what_eval_gives(void **state)
{
    (void)state;
    for (int f = 0; f < NUM_MATHS_FNS; f++) {
        MathsFn fn = (MathsFn)f;
        for (int i = 0; i < 2 * NUM_STEPS; i++) {
            DType width = widths[i % 2];
            double x = step(width, i / 2);
            x = i % 3 == 0 ? -x : x;
            double y = step(width, NUM_STEPS - 1 - i / 2);
            Trace t = {0, 0};
            assert_true(same(emitted(fn, width, x, y, &t),
                             ir_maths_eval(fn, width, x, y)));
        }
    }
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        for (int w = 0; w < 2; w++) {
            Trace t = {0, 0};
            assert_true(same(emitted(specials[i].fn, widths[w], specials[i].x,
                                     specials[i].y, &t),
                             specials[i].want));
        }
    }
}

/* C compilers evaluate operands in different orders; the emitted code must not
 * depend on it, or plans would depend on the compiler that built tfdc. */
static void
emitted_order_is_known(void **state)
{
    (void)state;
    Trace t = {0, 0};
    for (int f = 0; f < NUM_MATHS_FNS; f++) {
        emitted((MathsFn)f, DT_f32, 0.75, 1.5, &t);
        emitted((MathsFn)f, DT_f64, 0.75, 1.5, &t);
    }
    assert_int_equal(t.hash, 0x24b87976f3efb81f);
}

/* Every x emits the same primitives: all choices are made at run time. */
static void
emitted_primitives_do_not_depend_on_the_value(void **state)
{
    (void)state;
    static const double xs[] = {0.0, 1e-40, 0.3, -7, 1e30, INF, NAN};
    for (int f = 0; f < NUM_MATHS_FNS; f++) {
        for (int w = 0; w < 2; w++) {
            Trace first = {0, 0};
            emitted((MathsFn)f, widths[w], 1, 1, &first);
            for (size_t i = 0; i < sizeof xs / sizeof *xs; i++) {
                Trace t = {0, 0};
                emitted((MathsFn)f, widths[w], rounded(widths[w], xs[i]), 2,
                        &t);
                assert_int_equal(t.num_prims, first.num_prims);
            }
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_values_are_those_of_annex_f),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(bits_are_known),
        cmocka_unit_test(odd_functions_are_odd_and_even_ones_even),
        cmocka_unit_test(rising_functions_rise),
        cmocka_unit_test(whole_powers_are_exact),
        cmocka_unit_test(largest_arguments_are_reduced_exactly),
        cmocka_unit_test(emitted_primitives_give_what_eval_gives),
        cmocka_unit_test(emitted_order_is_known),
        cmocka_unit_test(emitted_primitives_do_not_depend_on_the_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
