/*
 * temporary_test.c - temporary files
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include "ir/base/memory.h"
#include "ir/base/status.h"
#include "ir/base/temporary.h"
#include "tests/unit/arena.h"
#include "tests/unit/work_dir.h"

static const char *dir;

static const char *
in_dir(const char *name)
{
    return arena_printf(arena, "%s/%s", dir, name);
}

static bool
is_there(const char *name)
{
    return access(in_dir(name), F_OK) == 0;
}

static void
open_one(Temporary *t, const char *name)
{
    int fd = temporary_open(t, AT_FDCWD, in_dir(name), 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void
a_file_gets_its_name_or_goes(void **state)
{
    (void)state;
    Temporary x, y, z;
    dir = work_dir(arena);
    open_one(&x, "x");
    open_one(&y, "y");
    open_one(&z, "z");
    assert_true(temporary_close(&y, in_dir("named")));
    assert_true(temporary_close(&x, NULL));
    assert_false(temporary_close(&z, in_dir("no/folder")));
    assert_int_equal(errno, ENOENT);
    assert_true(is_there("named"));
    assert_false(is_there("x") || is_there("y") || is_there("z"));
    assert_int_equal(temporary_open(&x, AT_FDCWD, in_dir("named"), 0600), -1);
    assert_int_equal(errno, EEXIST);
}

static void
run_out_of_memory(void)
{
    Temporary x, y, z;
    open_one(&x, "x");
    open_one(&y, "y");
    open_one(&z, "z");
    if (temporary_close(&y, in_dir("named")))
        memory_exhausted(1);
}

static void
a_fatal_error_removes_what_has_no_name(void **state)
{
    (void)state;
    dir = work_dir(arena);
    assert_int_equal(exit_status_of(run_out_of_memory), STATUS_MACHINE);
    assert_true(is_there("named"));
    assert_false(is_there("x") || is_there("y") || is_there("z"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gets_its_name_or_goes),
        cmocka_unit_test(a_fatal_error_removes_what_has_no_name),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
