/*
 * arena_test.c - arenas, growing arrays, failures on request
 */
#include "tests/unit/unit.h"

#include "ir/base/arena.h"
#include "ir/base/cache_line.h"
#include "ir/base/vec.h"

static void
memory_is_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    char *last = NULL;
    for (size_t n = 0; n < 3000; n += 7) {
        char *p = arena_alloc(a, n);
        assert_int_equal((uintptr_t)p % 16, 0);
        assert_ptr_not_equal(p, last);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, n);
        last = p;
    }
    arena_release(a);
}

static void
memory_on_lines_begins_on_one(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    char *last = NULL;
    for (size_t n = 0; n < 3000; n += 7) {
        char *p = arena_alloc_on_lines(a, n);
        assert_int_equal((uintptr_t)p % CACHE_LINE, 0);
        assert_ptr_not_equal(p, last);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, n);
        last = p;
    }
    arena_release(a);
}

static void
sizes_on_lines_are_whole_lines(void **state)
{
    (void)state;
    assert_int_equal(on_lines(0), 0);
    assert_int_equal(on_lines(1), CACHE_LINE);
    assert_int_equal(on_lines(CACHE_LINE), CACHE_LINE);
    assert_int_equal(on_lines(CACHE_LINE + 1), 2 * CACHE_LINE);
}

static void
large_allocations_leave_the_chunk_alone(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    char *small = arena_strdup(a, "small");
    char *large = arena_alloc(a, 10 << 20);
    large[(10 << 20) - 1] = 1;
    assert_string_equal(arena_strdup(a, "again"), "again");
    assert_string_equal(small, "small");
    arena_release(a);
}

static char order[8];
static int num_released;

static void
note_release(void *name)
{
    order[num_released++] = *(char *)name;
}

static void
release_goes_from_the_newest_to_the_oldest(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "parent");
    arena_on_release(a, note_release, "a");
    arena_on_release(a, note_release, "b");
    Arena *first = arena_new(a, "first");
    Arena *middle = arena_new(a, "middle");
    Arena *last = arena_new(a, "last");
    arena_on_release(first, note_release, "1");
    arena_on_release(middle, note_release, "2");
    arena_on_release(last, note_release, "3");
    num_released = 0;
    arena_release(middle);
    arena_release(a);
    arena_release(NULL);
    assert_string_equal(order, "231ba");
}

static void
bytes_include_the_children(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "parent");
    Arena *child = arena_new(a, "child");
    arena_alloc(a, 32);
    arena_alloc(child, 1 << 20);
    assert_int_equal(arena_bytes(a), 32 + (1 << 20));
    arena_release(child);
    assert_int_equal(arena_bytes(a), 32);
    arena_release(a);
}

static void
strings_are_copied_and_formatted(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
    assert_string_equal(arena_strndup(a, NULL, 0), "");
    assert_string_equal(arena_printf(a, "%s-%d", "x", 7), "x-7");
    assert_memory_equal(arena_copy(a, "a\0b", 3), "a\0b", 3);
    char *wide = arena_printf(a, "%05000d", 1);
    assert_int_equal(strlen(wide), 5000);
    arena_release(a);
}

static void
allocate_too_much(void)
{
    arena_array(arena_new(NULL, "test"), SIZE_MAX / 4, 8);
}

static void
allocate_terabytes(void)
{
    arena_alloc(arena_new(NULL, "test"), SIZE_MAX / 2);
}

static void
absurd_sizes_exit_with_3(void **state)
{
    (void)state;
    assert_int_equal(exit_status_of(allocate_too_much), 3);
    assert_int_equal(exit_status_of(allocate_terabytes), 3);
}

/* Two allocations from fresh chunks: the arena itself and its first chunk. */
static void
allocate_twice(void)
{
    Arena *a = arena_new(NULL, "test");
    arena_alloc(a, 1);
    arena_release(a);
}

static void
allocations_fail_on_request(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        int status;
    } cases[] = {{"alloc:1", 3},  {"alloc:2", 3}, {"alloc:3", 0},
                 {"io:1", 0},     {"alloc:0", 2}, {"alloc:", 2},
                 {"alloc:1x", 2}, {"disk:1", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("TFD_FAIL", cases[i].request, 1);
        int status = exit_status_of(allocate_twice);
        unsetenv("TFD_FAIL");
        assert_int_equal(status, cases[i].status);
    }
}

static void
vectors_keep_their_elements(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    VEC(int) v = {0};
    for (int i = 0; i < 1000; i++)
        VEC_PUSH(a, v, i);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(v.data[i], i);
    assert_int_equal(VEC_LAST(v), 999);
    assert_int_equal(VEC_POP(v), 999);
    assert_int_equal(v.len, 999);
    VEC_RESERVE(a, v, 5000);
    assert_int_equal(v.cap, 5000);
    assert_int_equal(VEC_LAST(v), 998);
    arena_release(a);
}

int
main(void)
{
    /* First, and only here: the request is read once in a process. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_fail_on_request),
        cmocka_unit_test(memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(memory_on_lines_begins_on_one),
        cmocka_unit_test(sizes_on_lines_are_whole_lines),
        cmocka_unit_test(large_allocations_leave_the_chunk_alone),
        cmocka_unit_test(release_goes_from_the_newest_to_the_oldest),
        cmocka_unit_test(bytes_include_the_children),
        cmocka_unit_test(strings_are_copied_and_formatted),
        cmocka_unit_test(absurd_sizes_exit_with_3),
        cmocka_unit_test(vectors_keep_their_elements),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
