/*
 * str_test.c - strings, numbers as text, maps, names
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

#include <math.h>
#include "ir/base/str.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static void
strings_grow(void **state)
{
    (void)state;
    Str s = str_new(arena);
    assert_string_equal(str_text(&s), "");
    str_add(&s, "");
    assert_string_equal(str_text(&s), "");
    for (int i = 0; i < 1000; i++) {
        str_addc(&s, 'x');
        str_addf(&s, "%d,", i % 10);
        str_addn(&s, "yz!", 2);
    }
    assert_int_equal(s.len, 5000);
    assert_memory_equal(s.data, "x0,yzx1,yzx2,yz", 15);
    assert_string_equal(s.data + 4995, "x9,yz");
}

static void
quoting_escapes_what_would_not_read_back(void **state)
{
    (void)state;
    Str s = str_new(arena);
    static const char text[] = "a\"b\\c\nd\te\rf\0g\x1b\x7f"
                               "µ";
    str_add_quoted(&s, text, sizeof text - 1);
    assert_string_equal(str_text(&s),
                        "\"a\\\"b\\\\c\\nd\\te\\rf\\x00g\\x1b\\x7fµ\"");
}

static const char *
float_text(double x, bool single)
{
    Str s = str_new(arena);
    str_add_float(&s, x, single);
    return str_text(&s);
}

static void
floats_are_printed_short(void **state)
{
    (void)state;
    static const struct {
        double x;
        bool single;
        const char *text;
    } cases[] = {
        {0, false, "0.0"},
        {-0.0, false, "-0.0"},
        {1, false, "1.0"},
        {100, false, "100.0"},
        {-12.5, false, "-12.5"},
        {0.1, false, "0.1"},
        {(double)0.1f, true, "0.1"},
        {(double)0.1f, false, "0.10000000149011612"},
        {1.0 / 3, false, "0.3333333333333333"},
        {(double)(1.0f / 3), true, "0.33333334"},
        {1e15, false, "1000000000000000.0"},
        {1e16, false, "1e16"},
        {123456789012345680.0, false, "1.2345678901234568e17"},
        {0.0001, false, "0.0001"},
        {0.00012, false, "0.00012"},
        {0.00001, false, "1e-5"},
        {1.5e-300, false, "1.5e-300"},
        {5e-324, false, "5e-324"},
        {1.7976931348623157e308, false, "1.7976931348623157e308"},
        {(double)3.4028235e38f, true, "3.4028235e38"},
        {(double)1e-45f, true, "1e-45"},
        {INFINITY, false, "inf"},
        {-INFINITY, true, "-inf"},
        {NAN, true, "nan"},
        {-NAN, false, "nan"},
    };
    for (int i = 0; i < COUNT(cases); i++)
        assert_string_equal(float_text(cases[i].x, cases[i].single),
                            cases[i].text);
}

/* Any bit pattern, from a generator of our own so that runs are equal. */
static uint64_t
next_bits(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed ^ *seed >> 29;
}

static void
floats_read_back(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next_bits(&seed);
        uint32_t low = (uint32_t)(bits >> 32);
        double x;
        float y;
        memcpy(&x, &bits, sizeof x);
        memcpy(&y, &low, sizeof y);
        if (!isnan(x))
            assert_true(strtod(float_text(x, false), NULL) == x);
        if (!isnan(y))
            assert_true(strtof(float_text((double)y, true), NULL) == y);
    }
}

static void
equal_names_are_one_pointer(void **state)
{
    (void)state;
    Intern *in = intern_new(arena);
    const char *first = intern(in, "w");
    char copy[] = "wx";
    assert_ptr_equal(intern_n(in, copy, 1), first);
    assert_ptr_not_equal(intern(in, copy), first);
    for (int i = 0; i < 5000; i++)
        intern(in, arena_printf(arena, "name%d", i));
    assert_ptr_equal(intern(in, "w"), first);
    assert_string_equal(first, "w");
    assert_ptr_equal(intern(in, ""), intern_n(in, NULL, 0));
}

static void
maps_keep_order_and_replace(void **state)
{
    (void)state;
    Map *m = map_new(arena);
    static int values[3000];
    assert_null(map_get(m, "key0"));
    for (int i = 0; i < COUNT(values); i++)
        map_set(m, arena_printf(arena, "key%d", i), &values[i]);
    map_set(m, "key7", &values[0]);
    assert_int_equal(map_count(m), COUNT(values));
    assert_ptr_equal(map_get(m, "key7"), &values[0]);
    assert_ptr_equal(map_get(m, "key2999"), &values[2999]);
    assert_null(map_get(m, "key3000"));
    assert_string_equal(map_key(m, 7), "key7");
    assert_ptr_equal(map_value(m, 7), &values[0]);
    assert_ptr_equal(map_value(m, 2999), &values[2999]);
}

static void
the_nearest_name_is_suggested(void **state)
{
    (void)state;
    static const char *const names[] = {"relu",     "softmax",  "all_reduce",
                                        "mirrored", "mirrores", "x"};
    static const struct {
        const char *name, *expect;
    } cases[] = {
        {"rleu", "relu"},
        {"soft_max", "softmax"},
        {"allreduce", "all_reduce"},
        {"Mirrored", "mirrored"},
        {"mirored", "mirrored"},
        {"y", NULL},
        {"real", NULL},
        {"", NULL},
        {"completely_different", NULL},
        {"all_reduce", "all_reduce"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        const char *got = nearest_name(cases[i].name, names, COUNT(names));
        if (cases[i].expect)
            assert_string_equal(got, cases[i].expect);
        else
            assert_null(got);
    }
    char *longest = memset(arena_alloc(arena, 10000), 'x', 9999);
    assert_null(nearest_name(longest, names, COUNT(names)));
    assert_null(nearest_name("relu", NULL, 0));
}

static void
characters_are_those_of_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
    } cases[] = {
        {"a", 1},
        {"\x7f", 1},
        {"µ", 2},
        {"€", 3},
        {"\xf0\x9f\x98\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4}, /* the last character */
        {"\xf4\x90\x80\x80", 0}, /* and one beyond it */
        {"\xed\xa0\x80", 0},     /* half a pair of UTF-16 */
        {"\xc0\xaf", 0},         /* '/' in two bytes, and in three */
        {"\xe0\x80\xaf", 0},
        {"\x80", 0},
        {"\xff", 0},
        {"\xe2\x82", 0},
        {"\xe2\x82z", 0},
        {"\xc3(", 0},
    };
    for (int i = 0; i < COUNT(cases); i++)
        assert_int_equal(str_char_len(cases[i].text, strlen(cases[i].text)),
                         cases[i].len);
    assert_int_equal(str_char_len("\0", 1), 0);
    assert_int_equal(str_char_len("µ", 1), 0);
}

static void
what_no_terminal_shows_is_a_question_mark(void **state)
{
    (void)state;
    char text[] = "µ: a\tb\x1b[2J\n\xff\xe2\x82z\x7f";
    char *lines = arena_strdup(arena, text);
    str_make_printable(lines, strlen(lines), true);
    assert_string_equal(lines, "µ: a?b?[2J\n???z?");
    str_make_printable(text, strlen(text), false);
    assert_string_equal(text, "µ: a?b?[2J????z?");
    str_make_printable(text, 0, false);
    char c1[] = "a\xc2\x80z\xc2\x9b"
                "2J\xc2\xa0|\xc2\x9b";
    str_make_printable(c1, strlen(c1), true);
    assert_string_equal(c1, "a??z??2J\xc2\xa0|??");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_grow),
        cmocka_unit_test(quoting_escapes_what_would_not_read_back),
        cmocka_unit_test(floats_are_printed_short),
        cmocka_unit_test(floats_read_back),
        cmocka_unit_test(equal_names_are_one_pointer),
        cmocka_unit_test(maps_keep_order_and_replace),
        cmocka_unit_test(the_nearest_name_is_suggested),
        cmocka_unit_test(characters_are_those_of_utf8),
        cmocka_unit_test(what_no_terminal_shows_is_a_question_mark),
    };
    return cmocka_run_group_tests_name("str", tests, new_arena, release_arena);
}
