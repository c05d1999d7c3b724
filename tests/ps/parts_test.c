/*
 * parts_test.c - rows of a part: how many a message has, and whose they are
 */
#include "tests/unit/unit.h"

#include "runtime/ps/parts/placement.h"

static int64_t
at_once(int64_t rows, int64_t bytes_each, int64_t most)
{
    RtPart part = {.rows = rows, .bytes = rows * bytes_each};
    return rt_part_rows_of_bytes(&part, most);
}

static void
a_message_has_as_many_rows_as_fit(void **state)
{
    (void)state;
    assert_int_equal(at_once(1000, 4, 400), 100);
    assert_int_equal(at_once(1000, 3, 400), 133);
    assert_int_equal(at_once(1000, 400, 400), 1);
}

static void
a_message_has_one_row_at_least(void **state)
{
    (void)state;
    assert_int_equal(at_once(1000, 401, 400), 1);
    assert_int_equal(at_once(1, 1 << 30, 400), 1);
}

static void
rows_without_bytes_are_one_message(void **state)
{
    (void)state;
    assert_int_equal(at_once(1000, 0, 400), 1000);
    assert_int_equal(at_once(0, 0, 400), 1);
}

static void
a_row_is_of_the_part_that_has_it(void **state)
{
    (void)state;
    const RtPart parts[] = {{.first = 0, .rows = 3},
                            {.first = 3, .rows = 3},
                            {.first = 6, .rows = 2}};
    assert_int_equal(rt_part_with(parts, 3, 2), 0);
    assert_int_equal(rt_part_with(parts, 3, 3), 1);
    assert_int_equal(rt_part_with(parts, 3, 7), 2);
    assert_int_equal(rt_part_with(parts, 3, 8), 0);
    assert_int_equal(rt_part_with(parts, 3, -1), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_has_as_many_rows_as_fit),
        cmocka_unit_test(a_message_has_one_row_at_least),
        cmocka_unit_test(rows_without_bytes_are_one_message),
        cmocka_unit_test(a_row_is_of_the_part_that_has_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
