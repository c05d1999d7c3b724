/*
 * archive_test.c - states read back as written, or are refused
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"
#include "tests/unit/status.h"

#include "runtime/checkpoint/archive.h"

typedef struct Thing {
    int64_t at;
    uint64_t all;
    uint32_t some;
    bool is;
    int64_t num;
    char bytes[12];
    const char *text;
} Thing;

static void
archive(Thing *t, RtArchive *ar)
{
    rt_archive_i64(ar, &t->at, -10, 10);
    rt_archive_u64(ar, &t->all);
    rt_archive_u32(ar, &t->some);
    rt_archive_bool(ar, &t->is);
    rt_archive_count(ar, &t->num, (int64_t)sizeof t->bytes, 1);
    rt_archive_bytes(ar, t->bytes, (size_t)t->num);
    rt_archive_text(ar, &t->text);
}

static const Thing thing = {-3, UINT64_MAX, 77, true, 5, "12345", "a text"};

static RtArchive
written(void)
{
    Thing t = thing;
    RtArchive ar = rt_archive_writer(arena, 0);
    archive(&t, &ar);
    assert_null(rt_archive_end(&ar));
    return ar;
}

static void
what_is_written_is_read(void **state)
{
    (void)state;
    Thing t = {.at = 9, .text = NULL};
    RtArchive to = written(), from = rt_archive_reader(arena, to.data, to.len);
    archive(&t, &from);
    assert_null(rt_archive_end(&from));
    assert_true(t.at == thing.at && t.all == thing.all);
    assert_true(t.some == thing.some && t.is && t.num == 5);
    assert_string_equal(t.bytes, "12345");
    assert_string_equal(t.text, "a text");
}

static void
a_cleared_state_has_its_room_and_nothing_else(void **state)
{
    (void)state;
    static char bytes[100000];
    RtArchive ar = rt_archive_writer(arena, 0);
    rt_archive_bytes(&ar, bytes, sizeof bytes);
    const char *room = ar.data;
    rt_archive_clear(&ar);
    assert_int_equal(ar.len, 0);
    rt_archive_bytes(&ar, bytes, sizeof bytes);
    assert_ptr_equal(ar.data, room);
}

static void
expect_refused(const char *data, size_t len, const char *want)
{
    Thing t = {0};
    RtArchive ar = rt_archive_reader(arena, data, len);
    archive(&t, &ar);
    Status st = rt_archive_end(&ar);
    assert_non_null(st);
    if (want)
        assert_string_equal(status_message(st), want);
    status_free(st);
    assert_in_range(t.at + 10, 0, 20);
    assert_in_range(t.num, 0, sizeof t.bytes);
    assert_non_null(t.text);
}

static void
every_truncation_is_refused(void **state)
{
    (void)state;
    RtArchive ar = written();
    for (size_t len = 0; len < ar.len; len++)
        expect_refused(ar.data, len, NULL);
    expect_refused(ar.data, 7, "it ends too early");
}

static void
what_does_not_fit_is_told(void **state)
{
    (void)state;
    enum { AT_BOOL = 20, AT_COUNT = 21 };
    static const struct {
        size_t at;
        char byte;
        const char *want;
    } rows[] = {
        {0, 11, "-245 is not from -10 to 10"},
        {AT_BOOL, 2, "2 is neither true nor false"},
        {AT_COUNT, 13, "13 is not from 0 to 12"},
        {AT_COUNT + 8 + 5, 100, "it ends before 100 parts"},
        {AT_COUNT + 8 + 5, 5, "it is longer than it should be"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        RtArchive ar = written();
        ar.data[rows[i].at] = rows[i].byte;
        expect_refused(ar.data, ar.len, rows[i].want);
    }
}

/* A part of one number, and another number after it. */
static void
archive_parts(uint64_t *in, uint64_t *after, RtArchive *ar)
{
    size_t begin = rt_archive_begin_part(ar);
    rt_archive_u64(ar, in);
    rt_archive_end_part(ar, begin);
    rt_archive_u64(ar, after);
}

static void
a_part_is_read_or_skipped(void **state)
{
    uint64_t in = 5, after = 7;
    RtArchive to = rt_archive_writer(arena, 0);
    (void)state;
    archive_parts(&in, &after, &to);
    in = after = 0;
    RtArchive from = rt_archive_reader(arena, to.data, to.len);
    archive_parts(&in, &after, &from);
    assert_null(rt_archive_end(&from));
    assert_true(in == 5 && after == 7);
    after = 0;
    from = rt_archive_reader(arena, to.data, to.len);
    rt_archive_skip_part(&from);
    rt_archive_u64(&from, &after);
    assert_null(rt_archive_end(&from));
    assert_int_equal(after, 7);
}

static void
a_part_is_as_long_as_it_says(void **state)
{
    uint64_t in = 5, after = 7;
    RtArchive to = rt_archive_writer(arena, 0);
    (void)state;
    archive_parts(&in, &after, &to);
    to.data[0] = 9;
    RtArchive from = rt_archive_reader(arena, to.data, to.len);
    archive_parts(&in, &after, &from);
    assert_status(rt_archive_end(&from), STATUS_INPUT,
                  "a part of it is of another length");
    to.data[0] = 17;
    from = rt_archive_reader(arena, to.data, to.len);
    rt_archive_skip_part(&from);
    assert_status(rt_archive_end(&from), STATUS_INPUT,
                  "it ends before 17 parts");
}

static Status
read_position(int64_t written, int64_t *x)
{
    RtArchive to = rt_archive_writer(arena, 0);
    rt_archive_position(&to, &written);
    RtArchive from = rt_archive_reader(arena, to.data, to.len);
    rt_archive_position(&from, x);
    return rt_archive_end(&from);
}

/* Counting on from one that was read never ends at the greatest number, and
 * what is beyond the bound is written, not read. */
static void
a_position_leaves_room_to_count_on(void **state)
{
    int64_t x;
    (void)state;
    assert_null(read_position(RT_MOST_POSITION, &x));
    assert_true(x == RT_MOST_POSITION);
    assert_status(read_position(x + 1, &x), STATUS_INPUT,
                  "4611686018427387905 is not from 0 to 4611686018427387904");
    assert_status(read_position(INT64_MAX, &x), STATUS_INPUT,
                  "9223372036854775807 is not from 0 to 4611686018427387904");
    assert_int_equal(x, 0);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, new_arena, release_arena)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read),
        TEST(a_cleared_state_has_its_room_and_nothing_else),
        TEST(every_truncation_is_refused),
        TEST(what_does_not_fit_is_told),
        TEST(a_position_leaves_room_to_count_on),
        TEST(a_part_is_read_or_skipped),
        TEST(a_part_is_as_long_as_it_says),
    };
    return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
