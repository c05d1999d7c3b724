/*
 * usage_test.c - available memory, in file trees that imitate machines
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

#include "ir/base/io/file.h"
#include "ir/base/str.h"
#include "ir/base/usage.h"
#include "tests/unit/work_dir.h"

static void
put(const char *root, const char *path, const char *text)
{
    const char *file = arena_printf(arena, "%s/%s", root, path);
    const char *slash = strrchr(file, '/');
    Status st =
        file_make_folder(arena_strndup(arena, file, (size_t)(slash - file)));
    if (!st)
        st = file_write(file, text, strlen(text));
    if (st)
        fail_msg("%s", status_message(st));
}

static void
assert_room(const char *root, int64_t bytes, const char *of)
{
    UsageRoom room = usage_room_in(root);
    assert_int_equal(room.bytes, bytes);
    assert_string_equal(room.of, of);
}

static void
nobody_may_say(void **state)
{
    (void)state;
    assert_room(work_dir(arena), INT64_MAX, "no limit");
}

static void
a_machine_has_what_is_free_and_swap(void **state)
{
    (void)state;
    const char *root = work_dir(arena);
    put(root, "proc/meminfo",
        "MemTotal:        8000 kB\n"
        "MemAvailable:    3000 kB\n"
        "SwapCached:         7 kB\n"
        "SwapFree:        1000 kB\n");
    assert_room(root, 4000 * 1024, "free memory and swap");
}

/* Of the group and those around it the least is left. */
static void
groups_of_version_2_have_limits(void **state)
{
    (void)state;
    const char *root = work_dir(arena);
    put(root, "proc/meminfo", "MemAvailable: 3000 kB\n");
    put(root, "proc/self/cgroup", "0::/user/job\n");
    put(root, "sys/fs/cgroup/user/job/memory.max", "max\n");
    put(root, "sys/fs/cgroup/user/job/memory.current", "900\n");
    assert_room(root, 3000 * 1024, "free memory and swap");
    put(root, "sys/fs/cgroup/user/memory.max", "100000\n");
    put(root, "sys/fs/cgroup/user/memory.current", "70000\n");
    put(root, "sys/fs/cgroup/user/memory.stat",
        "anon 50000\nfile 20000\ninactive_file 20000\n");
    assert_room(root, 50000, "the limit of its control group");
    put(root, "sys/fs/cgroup/user/job/memory.max", "1000\n");
    assert_room(root, 100, "the limit of its control group");
}

/* Its name has thousands of characters where groups are deep. */
static void
a_group_may_have_a_long_name(void **state)
{
    (void)state;
    const char *root = work_dir(arena);
    Str name = str_new(arena);
    for (int i = 0; i < 30; i++)
        str_addf(&name, "/%0*d", 60, i);
    const char *group = str_text(&name);
    put(root, "proc/self/cgroup", arena_printf(arena, "0::%s\n", group));
    put(root, arena_printf(arena, "sys/fs/cgroup%s/memory.max", group),
        "5000\n");
    put(root, arena_printf(arena, "sys/fs/cgroup%s/memory.current", group),
        "1000\n");
    assert_room(root, 4000, "the limit of its control group");
}

/* In a container the group has another name outside, and its files are those
 * of the root. */
static void
groups_of_version_1_have_limits(void **state)
{
    (void)state;
    const char *root = work_dir(arena);
    put(root, "proc/self/cgroup",
        "9:cpuset:/\n4:memory,misc:/docker/1234\n0::/\n");
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
    put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "6000\n");
    put(root, "sys/fs/cgroup/memory/memory.stat",
        "inactive_file 1\n"
        "total_inactive_file 3000\n");
    assert_room(root, 2000, "the limit of its control group");
    put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "9000\n");
    assert_room(root, 0, "the limit of its control group");
}

static void
a_process_has_limits_of_its_own(void **state)
{
    (void)state;
    assert_true(usage_room().bytes > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_may_say),
        cmocka_unit_test(a_machine_has_what_is_free_and_swap),
        cmocka_unit_test(groups_of_version_2_have_limits),
        cmocka_unit_test(a_group_may_have_a_long_name),
        cmocka_unit_test(groups_of_version_1_have_limits),
        cmocka_unit_test(a_process_has_limits_of_its_own),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
