/*
 * format_test.c - values as text, compared with NumPy 1.24 and Python
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

#include <math.h>
#include "ir/base/number/format.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const char *
format_of(const char *spec, DType t, int rank, const int64_t *dims,
          const void *data)
{
    Str s = str_new(arena);
    FormatArg arg = {t, rank, dims, data};
    format_value(&s, spec, strlen(spec), &arg);
    return str_text(&s);
}

static const char *
float_of(const char *spec, DType t, double x)
{
    char element[8];
    scalar_store(t, element, 0, (Scalar){.dtype = DT_f64, .f = x});
    return format_of(spec, t, 0, NULL, element);
}

static const char *
int_of(const char *spec, DType t, int64_t x)
{
    char element[8];
    scalar_store(t, element, 0, (Scalar){.dtype = DT_i64, .i = x});
    return format_of(spec, t, 0, NULL, element);
}

/* n values as a tensor of these dims. */
static const char *
tensor_of(const char *spec, DType t, int rank, const int64_t *dims, int n,
          const double *values)
{
    char *data = arena_alloc(arena, (size_t)n * 8);
    for (int i = 0; i < n; i++)
        scalar_store(t, data, i, (Scalar){.dtype = DT_f64, .f = values[i]});
    return format_of(spec, t, rank, dims, data);
}

static void
scalars_are_shortest(void **state)
{
    static const struct {
        DType t;
        double x;
        const char *want;
    } cases[] = {
        {DT_f64, 0.1, "0.1"},
        {DT_f64, 1.0 / 3, "0.3333333333333333"},
        {DT_f32, 1.0 / 3, "0.33333334"},
        {DT_f32, 1.0, "1.0"},
        {DT_f32, -0.0, "-0.0"},
        {DT_f32, 1e-5, "1e-05"},
        {DT_f32, 1.5e-5, "1.5e-05"},
        {DT_f32, 1e15, "1000000000000000.0"},
        {DT_f32, 1e16, "1e+16"},
        {DT_f64, 1e100, "1e+100"},
        {DT_f16, 1.0 / 3, "0.3333"},
        {DT_f16, 65504, "65500.0"},
        {DT_bf16, 1.0 / 3, "0.334"},
        {DT_f32, NAN, "nan"},
        {DT_f32, -INFINITY, "-inf"},
        {DT_bool, 1, "True"},
        {DT_i64, -7, "-7"},
        {DT_u8, 255, "255"},
    };
    (void)state;
    for (int i = 0; i < COUNT(cases); i++)
        assert_string_equal(float_of("", cases[i].t, cases[i].x),
                            cases[i].want);
}

static void
formats_are_python_s(void **state)
{
    static const struct {
        const char *spec;
        double x;
        const char *want;
    } floats[] = {
        {".6f", 2.0, "2.000000"},       {"10.3f", 3.14159, "     3.142"},
        {"<8.1f", 2.5, "2.5     "},     {"^8.1f", 2.5, "  2.5   "},
        {"*>8.1f", 2.5, "*****2.5"},    {"+.2f", 2.5, "+2.50"},
        {"08.2f", -2.5, "-0002.50"},    {"e", 12345.678, "1.234568e+04"},
        {".3g", 12345.678, "1.23e+04"}, {",.2f", 1234567.891, "1,234,567.89"},
        {".1%", 0.256, "25.6%"},        {".3", 492.0, "4.92e+02"},
        {".4", 492.0, "492.0"},         {"6", 0.5, "   0.5"},
        {".2f", INFINITY, "inf"},       {"E", NAN, "NAN"},
        {"#.3", 100.0, "1.00e+02"},     {"#.4", 12.0, "12.00"},
        {"#.1", 2.5, "2.e+00"},         {".4", 12.0, "12.0"},
        {"^07.1f", 2.5, "002.500"},     {"*<07.1f", 2.5, "2.5****"},
    };
    static const struct {
        const char *spec;
        int64_t x;
        const char *want;
    } ints[] = {
        {"d", 42, "42"},
        {"5d", -42, "  -42"},
        {"05d", -42, "-0042"},
        {"x", 255, "ff"},
        {"#x", 255, "0xff"},
        {"X", -255, "-FF"},
        {",", 1234567, "1,234,567"},
        {"b", 5, "101"},
        {".1f", 3, "3.0"},
        {"x", INT64_MIN, "-8000000000000000"},
        {"<4", 7, "7   "},
        {"#09x", -5, "-0x000005"},
        {"+#09X", 255, "+0X0000FF"},
        {"#010b", 5, "0b00000101"},
        {"*=#8o", 8, "0o****10"},
        {">05d", 42, "00042"},
        {"<05d", 42, "42000"},
        {">012,", 1234567, "0001,234,567"},
    };
    (void)state;
    for (int i = 0; i < COUNT(floats); i++)
        assert_string_equal(float_of(floats[i].spec, DT_f64, floats[i].x),
                            floats[i].want);
    for (int i = 0; i < COUNT(ints); i++)
        assert_string_equal(int_of(ints[i].spec, DT_i64, ints[i].x),
                            ints[i].want);
}

static void
tensors_are_numpy_s(void **state)
{
    static const double ramp[] = {0.0, 0.5, 1.0, 1.25, 2.0, -3.0};
    static const int64_t six[] = {6}, two_three[] = {2, 3};
    static const int64_t cube[] = {1, 2, 3}, none[] = {3, 0};
    (void)state;
    assert_string_equal(tensor_of("", DT_f32, 1, six, 6, ramp),
                        "[ 0.    0.5   1.    1.25  2.   -3.  ]");
    assert_string_equal(tensor_of("", DT_f32, 2, two_three, 6, ramp),
                        "[[ 0.    0.5   1.  ]\n [ 1.25  2.   -3.  ]]");
    assert_string_equal(tensor_of("", DT_i32, 3, cube, 6, ramp),
                        "[[[ 0  0  1]\n  [ 1  2 -3]]]");
    assert_string_equal(tensor_of("", DT_bool, 1, six, 6, ramp),
                        "[False  True  True  True  True  True]");
    assert_string_equal(tensor_of(".1f", DT_f32, 1, six, 6, ramp),
                        "[ 0.0  0.5  1.0  1.2  2.0 -3.0]");
    assert_string_equal(tensor_of("", DT_f32, 2, none, 0, ramp), "[]");
}

static void
elements_have_the_format_s_width(void **state)
{
    static const double pair[] = {1.5, -22.25}, bits[] = {1, 0};
    static const int64_t two[] = {2};
    (void)state;
    assert_string_equal(tensor_of("07.2f", DT_f32, 1, two, 2, pair),
                        "[0001.50 -022.25]");
    assert_string_equal(tensor_of("05.2f", DT_f32, 1, two, 2, pair),
                        "[ 01.50 -22.25]");
    assert_string_equal(tensor_of("<8.1f", DT_f32, 1, two, 2, pair),
                        "[1.5      -22.2   ]");
    assert_string_equal(tensor_of("*^8.1f", DT_f32, 1, two, 2, pair),
                        "[**1.5*** *-22.2**]");
    assert_string_equal(tensor_of("<.1f", DT_f32, 1, two, 2, pair),
                        "[1.5   -22.2]");
    assert_string_equal(tensor_of("d", DT_bool, 1, two, 2, bits), "[1 0]");
    assert_string_equal(tensor_of("7", DT_bool, 1, two, 2, bits),
                        "[   True   False]");
}

static void
tensors_share_a_notation(void **state)
{
    static const double wide[] = {1e-5, 1.0, NAN}, big[] = {1e100, 1.0, 0.0};
    static const int64_t three[] = {3};
    (void)state;
    assert_string_equal(tensor_of("", DT_f64, 1, three, 3, wide),
                        "[1.e-05 1.e+00    nan]");
    assert_string_equal(tensor_of("", DT_f64, 1, three, 3, big),
                        "[1.e+100 1.e+000 0.e+000]");
}

static void
long_tensors_wrap_and_are_cut(void **state)
{
    double values[1200];
    const int64_t thirty[] = {30}, many[] = {1200}, table[] = {300, 4};
    (void)state;
    for (int i = 0; i < 1200; i++)
        values[i] = i;
    assert_string_equal(
        tensor_of("", DT_i64, 1, thirty, 30, values),
        "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 "
        "23\n 24 25 26 27 28 29]");
    assert_string_equal(tensor_of("", DT_i64, 1, many, 1200, values),
                        "[   0    1    2 ... 1197 1198 1199]");
    assert_string_equal(tensor_of("", DT_i64, 2, table, 1200, values),
                        "[[   0    1    2    3]\n [   4    5    6    7]\n"
                        " [   8    9   10   11]\n ...\n"
                        " [1188 1189 1190 1191]\n [1192 1193 1194 1195]\n"
                        " [1196 1197 1198 1199]]");
}

static void
text_has_places(void **state)
{
    const int32_t n = 3;
    const float x = 0.5f;
    const int64_t four[] = {4}, eight[] = {8};
    FormatArg args[] = {{DT_i32, 0, NULL, &n},
                        {DT_f32, 0, NULL, &x},
                        {DT_u8, 1, four, "abcd"},
                        {DT_u8, 1, eight, "ab\0c\0\0\0"}};
    Str s = str_new(arena);
    (void)state;
    format_text(&s, "n {} x {:.2f} {{}} {:s}!", 3, args);
    assert_string_equal(str_text(&s), "n 3 x 0.50 {} abcd!");
    s.len = 0;
    format_text(&s, "{:s}|{:5s}|", 2, (FormatArg[]){args[3], args[3]});
    assert_int_equal(s.len, 11);
    assert_memory_equal(s.data, "ab\0c|ab\0c |", 11);
    s.len = 0;
    format_text(&s, "{:.2s}|{:*^6.3s}|{:06s}|{:.9s}|", 4,
                (FormatArg[]){args[2], args[2], args[2], args[2]});
    assert_string_equal(str_text(&s), "ab|*abc**|abcd00|abcd|");
}

static void
bad_formats_are_named(void **state)
{
    static const struct {
        const char *text;
        DType t;
        const char *want;
    } cases[] = {
        {"{}", DT_f32, NULL},
        {"{:.3f}", DT_i32, NULL},
        {"{{{}}}", DT_i32, NULL},
        {"{", DT_i32, "a brace without its partner ({{ is a brace)"},
        {"}", DT_i32, "a brace without its partner ({{ is a brace)"},
        {"{a}", DT_i32, "a brace without its partner ({{ is a brace)"},
        {"{} {}", DT_i32, "more places than values"},
        {"none", DT_i32, "more values than places"},
        {"{:d}", DT_f32,
         "the format \"d\" does not fit f32: that is a format of integers, "
         "and f, e or g one of floats"},
        {"{:.2d}", DT_i32,
         "the format \".2d\" does not fit i32: integers have no precision"},
        {"{:q}", DT_i32,
         "the format \"q\" does not fit i32: it has no such type of format"},
        {"{:5000}", DT_i32, "the format \"5000\" does not fit i32: it is none"},
    };
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        const char *got = format_check(arena, cases[i].text, 1, &cases[i].t);
        if (cases[i].want)
            assert_string_equal(got, cases[i].want);
        else
            assert_null(got);
    }
}

/* Only messages have it. */
static void
an_index_is_counted(void **state)
{
    int32_t index = 11;
    FormatArg arg = {.dtype = DT_i32, .data = &index};
    Str s = str_new(arena);
    DType t = DT_i32;
    (void)state;
    format_text(&s, "{} of {" FORMAT_COUNT "}", 2, (FormatArg[]){arg, arg});
    assert_string_equal(str_text(&s), "11 of 12");
    assert_null(format_check(arena, "{" FORMAT_COUNT "}", 1, &t));
    assert_string_equal(
        format_check_written(arena, "{" FORMAT_COUNT "}", 1, &t),
        "the format \"n\" does not fit i32: it has no such type of format");
}

/* What is there of a count, and what is there of no count. */
static void
text_depends_on_an_index(void **state)
{
    static const struct {
        int64_t least, greatest;
        const char *want;
    } cases[] = {{0, 4, "0 to 4: 5"},
                 {-1, 4, "-1 to 4: none below 0, as -1"},
                 {0, INT64_MAX, "0 to 9223372036854775807"}};
    const char *format =
        "{} to {}{" FORMAT_IF_COUNT "}{" FORMAT_IF_COUNT "}: {" FORMAT_COUNT
        "}{" FORMAT_IF_NEGATIVE "}: none below 0, as {}";
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FormatArg low = {.dtype = DT_i64, .data = &cases[i].least};
        FormatArg high = {.dtype = DT_i64, .data = &cases[i].greatest};
        Str s = str_new(arena);
        format_text(&s, format, 7,
                    (FormatArg[]){low, high, low, high, high, low, low});
        assert_string_equal(str_text(&s), cases[i].want);
    }
    DType t = DT_i32;
    assert_null(format_check(arena, "{" FORMAT_IF_NEGATIVE "}", 1, &t));
    assert_string_equal(
        format_check_written(arena, "{" FORMAT_IF_COUNT "}", 1, &t),
        "the format \"?\" does not fit i32: it has no such type of format");
}

static void
words_are_filled_in(void **state)
{
    static const FormatName names[] = {{"a", "x{y}"}, {"ab.c", ""}};
    static const struct {
        const char *format, *want;
    } cases[] = {
        {"{$a}", "x{{y}}"},
        {"{{$a}} {} {:.3f}{$a}", "{{$a}} {} {:.3f}x{{y}}"},
        {"{$ab.c}|{$ab.c}", "|"},
        {"", ""},
        {"{$b}", NULL},
        {"{$a", NULL},
        {"{$a{}", NULL},
        {"{$", NULL},
        {"}", "}"},
        {"{", "{"},
    };
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        const char *got =
            format_fill(arena, cases[i].format, names, COUNT(names));
        if (cases[i].want)
            assert_string_equal(got, cases[i].want);
        else
            assert_null(got);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_shortest),
        cmocka_unit_test(formats_are_python_s),
        cmocka_unit_test(tensors_are_numpy_s),
        cmocka_unit_test(elements_have_the_format_s_width),
        cmocka_unit_test(tensors_share_a_notation),
        cmocka_unit_test(long_tensors_wrap_and_are_cut),
        cmocka_unit_test(text_has_places),
        cmocka_unit_test(bad_formats_are_named),
        cmocka_unit_test(an_index_is_counted),
        cmocka_unit_test(text_depends_on_an_index),
        cmocka_unit_test(words_are_filled_in),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
