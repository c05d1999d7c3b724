/*
 * dtype_test.c - element types: every half, every rounding, casts
 *
 * The half formats are checked against a definition that shares nothing with
 * the code: a number rounds to the nearer of the two halves beside it, and to
 * the even one from the middle, where halves are decoded by ldexp from their
 * fields.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include "ir/base/number/dtype.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

typedef struct Half {
    DType dtype;
    int fraction_bits, bias;
    uint16_t inf;
    uint16_t (*encode)(float);
    float (*decode)(uint16_t);
} Half;

static const Half halves[] = {
    {DT_f16, 10, 15, 0x7c00, f32_to_f16, f16_to_f32},
    {DT_bf16, 7, 127, 0x7f80, f32_to_bf16, bf16_to_f32},
};

/* The value of a half that is not negative; infinity counts as the next power
 * of two, as in the rule of rounding. */
static double
value(const Half *h, uint16_t x)
{
    int exponent = x >> h->fraction_bits;
    int fraction = x & ((1 << h->fraction_bits) - 1);
    if (exponent == 0)
        return ldexp(fraction, 1 - h->bias - h->fraction_bits);
    return ldexp(fraction | 1 << h->fraction_bits,
                 exponent - h->bias - h->fraction_bits);
}

static void
every_half_decodes(void **state)
{
    (void)state;
    for (const Half *h = halves; h < halves + COUNT(halves); h++) {
        for (unsigned x = 0; x < h->inf; x++) {
            assert_true((double)h->decode((uint16_t)x) == value(h, x));
            assert_true((double)h->decode(x | 0x8000) == -value(h, x));
        }
        assert_true(h->decode(h->inf) == INFINITY);
        assert_true(h->decode(h->inf | 0x8000) == -INFINITY);
        for (unsigned x = h->inf + 1u; x < 0x8000; x++)
            assert_true(isnan(h->decode((uint16_t)x)));
    }
}

static void
expect_code(const Half *h, float x, uint16_t code)
{
    assert_int_equal(h->encode(x), code);
    assert_int_equal(h->encode(-x), code | 0x8000);
}

/* Between every two halves: just above the lower, around the middle, just
 * below the upper. */
static void
every_gap_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (const Half *h = halves; h < halves + COUNT(halves); h++) {
        for (uint16_t x = 0; x < h->inf; x++) {
            double low = value(h, x), high = value(h, x + 1);
            uint16_t even = x & 1 ? x + 1 : x;
            float middle = (float)((low + high) / 2);
            assert_true((double)middle == (low + high) / 2);
            expect_code(h, (float)low, x);
            expect_code(h, nextafterf((float)low, INFINITY), x);
            expect_code(h, nextafterf(middle, 0), x);
            expect_code(h, middle, even);
            expect_code(h, nextafterf(middle, INFINITY), x + 1);
            expect_code(h, nextafterf((float)high, 0), x + 1);
        }
        expect_code(h, INFINITY, h->inf);
        assert_true(isnan(h->decode(h->encode(NAN))));
    }
}

#if defined(__FLT16_MAX__)
__extension__ typedef _Float16 Float16;

/* The fractions change slowly enough to try every float's upper 24 bits with
 * the lower ones at their edges. */
static void
f16_agrees_with_the_compiler(void **state)
{
    (void)state;
    static const uint32_t low[] = {0x00, 0x01, 0x7f, 0x80, 0x81, 0xff};
    for (uint32_t high = 0; high < 1u << 24; high += 3) {
        uint32_t bits = high << 8 | low[high % COUNT(low)];
        uint16_t code;
        float x;
        memcpy(&x, &bits, sizeof x);
        Float16 half = (Float16)x;
        memcpy(&code, &half, sizeof code);
        assert_int_equal(f32_to_f16(x), code);
    }
}
#else
static void
f16_agrees_with_the_compiler(void **state)
{
    (void)state;
    skip();
}
#endif

/* Just above the middle of two halves, by less than an f32 can tell. */
static void
f64_rounds_once(void **state)
{
    (void)state;
    for (const Half *h = halves; h < halves + COUNT(halves); h++) {
        for (uint16_t x = 1; x < h->inf; x++) {
            double low = value(h, x), high = value(h, x + 1);
            double middle = (low + high) / 2, infinite = (double)INFINITY;
            double even = x & 1 ? high : low;
            high = x + 1 == h->inf ? infinite : high;
            even = even >= value(h, h->inf) ? infinite : even;
            double above = nextafter(middle, infinite);
            double below = nextafter(middle, 0);
            assert_true(scalar_float(h->dtype, above).f == high);
            assert_true(scalar_float(h->dtype, -above).f == -high);
            assert_true(scalar_float(h->dtype, below).f == low);
            assert_true(scalar_float(h->dtype, middle).f == even);
        }
        assert_true(scalar_float(h->dtype, 1e300).f == (double)INFINITY);
        assert_true(scalar_float(h->dtype, 1e-300).f == 0);
        assert_true(signbit(scalar_float(h->dtype, -1e-300).f));
        assert_true(isnan(scalar_float(h->dtype, (double)NAN).f));
    }
}

static void
large_integers_round_once(void **state)
{
    (void)state;
    int64_t tie = (INT64_C(1) << 62) + (INT64_C(1) << 54);
    Scalar above = scalar_int(DT_i64, tie + 1), even = scalar_int(DT_i64, tie);
    assert_true(scalar_cast(even, DT_bf16).f == 0x1p62);
    assert_true(scalar_cast(above, DT_bf16).f == 0x1p62 + 0x1p55);
    Scalar odd = scalar_int(DT_i64, (INT64_C(1) << 54) + (1 << 30) + 1);
    assert_true(scalar_cast(odd, DT_f32).f == (double)(float)odd.i);
    Scalar least = scalar_int(DT_i64, INT64_MIN);
    assert_true(scalar_cast(least, DT_f64).f == -0x1p63);
    assert_true(scalar_cast(least, DT_f32).f == -0x1p63);
    assert_true(scalar_cast(least, DT_f16).f == -(double)INFINITY);
}

static void
floats_saturate_to_integers(void **state)
{
    (void)state;
    static const struct {
        double x;
        DType to;
        int64_t expect;
    } cases[] = {
        {1.9, DT_i32, 1},
        {-1.9, DT_i32, -1},
        {1e10, DT_i32, INT32_MAX},
        {-1e10, DT_i32, INT32_MIN},
        {0x1p63, DT_i64, INT64_MAX},
        {-0x1p63, DT_i64, INT64_MIN},
        {1e300, DT_i64, INT64_MAX},
        {255.9, DT_u8, 255},
        {256, DT_u8, 255},
        {-0.5, DT_u8, 0},
        {-5, DT_u8, 0},
        {-129, DT_i8, -128},
        {32768, DT_i16, 32767},
        {(double)NAN, DT_i32, 0},
        {(double)INFINITY, DT_i16, INT16_MAX},
        {-(double)INFINITY, DT_i64, INT64_MIN},
        {(double)NAN, DT_bool, 1},
        {0.001, DT_bool, 1},
        {-0.0, DT_bool, 0},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        Scalar x = scalar_float(DT_f64, cases[i].x);
        Scalar got = scalar_cast(x, cases[i].to);
        assert_int_equal(got.dtype, cases[i].to);
        assert_true(got.i == cases[i].expect);
    }
}

static void
integers_wrap(void **state)
{
    (void)state;
    assert_true(scalar_int(DT_u8, 257).i == 1);
    assert_true(scalar_int(DT_u8, -1).i == 255);
    assert_true(scalar_int(DT_i8, 200).i == -56);
    assert_true(scalar_int(DT_i32, INT64_C(1) << 31).i == INT32_MIN);
    assert_true(scalar_int(DT_i64, INT64_MIN).i == INT64_MIN);
    assert_true(scalar_int(DT_bool, 256).i == 1);
    assert_true(int_fits(DT_u8, 255) && !int_fits(DT_u8, 256));
    assert_true(!int_fits(DT_u8, -1));
    assert_true(int_fits(DT_i8, -128) && !int_fits(DT_i8, 128));
    assert_true(int_fits(DT_bool, 1) && !int_fits(DT_bool, 2));
    assert_true(int_fits(DT_i64, INT64_MIN));
}

static void
elements_come_back_from_arrays(void **state)
{
    (void)state;
    for (int t = 0; t < NUM_DTYPES; t++) {
        unsigned char array[4 * 8];
        memset(array, 0xee, sizeof array);
        bool is_float = dtype_is_float((DType)t);
        Scalar one = scalar_int(DT_i64, 1);
        Scalar minus = scalar_int(DT_i64, -1);
        scalar_store((DType)t, array, 0, one);
        scalar_store((DType)t, array, 2, minus);
        size_t bytes = dtype_info[t].bytes;
        for (size_t i = bytes; i < 2 * bytes; i++)
            assert_int_equal(array[i], 0xee);
        assert_int_equal(array[3 * bytes], 0xee);
        Scalar first = scalar_load((DType)t, array, 0);
        Scalar third = scalar_load((DType)t, array, 2);
        assert_int_equal(first.dtype, t);
        assert_true(is_float ? first.f == 1 : first.i == 1);
        assert_true(is_float ? third.f == -1
                             : third.i == scalar_cast(minus, (DType)t).i);
    }
}

static void
dtypes_have_names_and_kinds(void **state)
{
    (void)state;
    DType t;
    assert_true(dtype_by_name("bf16", &t) && t == DT_bf16);
    assert_true(dtype_by_name("bool", &t) && t == DT_bool);
    assert_false(dtype_by_name("float", &t));
    assert_true(dtype_is_float(DT_f16) && !dtype_is_float(DT_i8));
    assert_true(dtype_is_int(DT_u8) && !dtype_is_int(DT_bool));
    assert_int_equal(dtype_compute(DT_bf16), DT_f32);
    assert_int_equal(dtype_compute(DT_f64), DT_f64);
    assert_string_equal(dtype_info[DT_i32].numpy, "<i4");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_decodes),
        cmocka_unit_test(every_gap_rounds_to_nearest_even),
        cmocka_unit_test(f16_agrees_with_the_compiler),
        cmocka_unit_test(f64_rounds_once),
        cmocka_unit_test(large_integers_round_once),
        cmocka_unit_test(floats_saturate_to_integers),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(elements_come_back_from_arrays),
        cmocka_unit_test(dtypes_have_names_and_kinds),
    };
    return cmocka_run_group_tests_name("dtype", tests, NULL, NULL);
}
