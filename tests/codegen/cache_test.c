/*
 * cache_test.c - which files the cache of code accepts, and how large it
 * becomes
 *
 * Hostile files are put where the cache looks, as somebody with write access
 * could do; none of them becomes code, stops the compiler, or disables the
 * cache.
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "backend/cache.h"
#include "tests/unit/arena.h"
#include "tests/unit/work_dir.h"

static const char bytes[1500];
static const char own[] = "code of the user";
static const char foreign[] = "code of somebody";

/* The first digits of its name are the folder's. */
static const BeCacheKey a_key = {7, 1};
#define A_PATH "00/00000000000000070000000000000001.o"

static bool
has(const BeCache *c, BeCacheKey key, Arena *a)
{
    const void *found;
    size_t size;
    return be_cache_get(c, key, a, &found, &size);
}

static void
expect_own(const BeCache *c, Arena *a)
{
    const void *found;
    size_t size;
    assert_true(be_cache_get(c, a_key, a, &found, &size));
    assert_int_equal(size, sizeof own);
    assert_string_equal(found, own);
}

static BeCache *
open_with(Arena *a, const char *dir, const char *megabytes)
{
    setenv("TFD_CACHE_SIZE", megabytes, 1);
    BeCache *c = be_cache_open(a, dir);
    unsetenv("TFD_CACHE_SIZE");
    return c;
}

static const char *
in(Arena *a, const char *dir, const char *name)
{
    return arena_printf(a, "%s/%s", dir, name);
}

static void
make_file(const char *path, const void *data, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), n);
    close(fd);
}

static void
copy_file(const char *from, const char *to)
{
    char data[4096];
    int fd = open(from, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t n = read(fd, data, sizeof data);
    assert_true(n > 0);
    close(fd);
    make_file(to, data, (size_t)n);
}

static mode_t
mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode;
}

static int
num_in(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

/* ---- which files are accepted ------------------------------------------- */

static void
it_is_the_users_alone(void **state)
{
    Arena *a = *state;
    const char *dir = in(a, work_dir(a), "some/cache");
    BeCache *c = be_cache_open(a, dir);
    be_cache_put(c, a_key, own, sizeof own);
    expect_own(c, a);
    assert_int_equal(mode_of(dir), S_IFDIR | 0700);
    assert_int_equal(mode_of(in(a, dir, "00")), S_IFDIR | 0700);
    assert_int_equal(mode_of(in(a, dir, "key")), S_IFREG | 0600);
    assert_int_equal(mode_of(in(a, dir, A_PATH)), S_IFREG | 0600);
    assert_int_equal(num_in(dir), 2);
    assert_int_equal(num_in(in(a, dir, "00")), 1);
    c = be_cache_open(a, dir); /* the next compiler reads the same secret */
    expect_own(c, a);
}

static void
a_file_of_another_cache_is_not_believed(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a), *theirs = work_dir(a);
    BeCache *c = be_cache_open(a, dir), *other = be_cache_open(a, theirs);
    be_cache_put(c, a_key, own, sizeof own);
    be_cache_put(other, a_key, foreign, sizeof foreign);
    copy_file(in(a, theirs, A_PATH), in(a, dir, A_PATH));
    assert_false(has(c, a_key, a));
    be_cache_put(c, a_key, own, sizeof own);
    expect_own(c, a);
}

static void
a_file_under_anothers_name_is_not_believed(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    BeCache *c = be_cache_open(a, dir);
    be_cache_put(c, a_key, own, sizeof own);
    copy_file(in(a, dir, A_PATH),
              in(a, dir, "00/00000000000000080000000000000002.o"));
    assert_false(has(c, (BeCacheKey){8, 2}, a));
    expect_own(c, a);
}

static void
keys_are_each_caches_own(void **state)
{
    Arena *a = *state;
    BeCache *c = be_cache_open(a, work_dir(a));
    BeCache *other = be_cache_open(a, work_dir(a));
    BeCacheKey key = be_cache_key(c, "text", 4, "x86-64-v3", 2);
    const BeCacheKey others[] = {
        be_cache_key(c, "texu", 4, "x86-64-v3", 2),
        be_cache_key(c, "text", 3, "x86-64-v3", 2),
        be_cache_key(c, "ttext", 5, "x86-64-v3", 2),
        be_cache_key(c, "text", 4, "x86-64-v4", 2),
        be_cache_key(c, "text", 4, "x86-64-v3", 1),
        be_cache_key(other, "text", 4, "x86-64-v3", 2),
    };
    BeCacheKey again = be_cache_key(c, "text", 4, "x86-64-v3", 2);
    assert_memory_equal(&key, &again, sizeof key);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_memory_not_equal(&key, &others[i], sizeof key);
}

/* A folder that others can write to, or that is another's, is let alone. */
static void
a_size_that_is_none_is_told(void **state)
{
    Arena *a = *state;
    BeCache *c = open_with(a, work_dir(a), "5MB");
    assert_non_null(strstr(be_cache_warning(c), "is \"5MB\""));
    assert_non_null(be_cache_warning(open_with(a, work_dir(a), "-1")));
    assert_null(be_cache_warning(open_with(a, work_dir(a), "5")));
    be_cache_put(c, a_key, own, sizeof own);
    expect_own(c, a);
}

static void
a_folder_of_others_is_refused(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    assert_int_equal(chmod(dir, 0777), 0);
    BeCache *c = be_cache_open(a, dir);
    assert_non_null(strstr(be_cache_warning(c), "others may write"));
    be_cache_put(c, a_key, own, sizeof own);
    assert_false(has(c, a_key, a));
    assert_int_equal(num_in(dir), 0);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_null(be_cache_warning(be_cache_open(a, dir)));
    if (geteuid() != 0)
        dir = "/usr"; /* a user who cannot change owners has no foreign folder
                       * to test */
    else
        assert_int_equal(chown(dir, 12345, 12345), 0);
    c = be_cache_open(a, dir);
    assert_non_null(strstr(be_cache_warning(c), "another user's"));
    assert_false(has(c, a_key, a));
}

static void
a_file_of_another_user_is_not_believed(void **state)
{
    Arena *a = *state;
    if (geteuid() != 0)
        skip(); /* cannot give a file away */
    const char *dir = work_dir(a);
    BeCache *c = be_cache_open(a, dir);
    be_cache_put(c, a_key, own, sizeof own);
    assert_int_equal(chown(in(a, dir, A_PATH), 12345, 12345), 0);
    assert_false(has(c, a_key, a));
    be_cache_put(c, a_key, own, sizeof own);
    expect_own(c, a);
    assert_int_equal(chown(in(a, dir, "00"), 12345, 12345), 0);
    assert_false(has(c, a_key, a));
    be_cache_put(c, a_key, own, sizeof own);
    assert_false(has(c, a_key, a));
}

/* ---- other things in the place of a file -------------------------------- */

static void
put_pipe(Arena *a, const char *path)
{
    (void)a;
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void
put_link(Arena *a, const char *path)
{
    const char *target = in(a, work_dir(a), "target");
    make_file(target, own, sizeof own);
    assert_int_equal(symlink(target, path), 0);
}

static void
put_empty(Arena *a, const char *path)
{
    (void)a;
    make_file(path, "", 0);
}

static void
put_huge(Arena *a, const char *path)
{
    (void)a;
    make_file(path, "", 0);
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
}

static void
put_device(Arena *a, const char *path)
{
    (void)a;
    assert_int_equal(symlink("/dev/zero", path), 0);
}

static void (*const hostile[])(Arena *, const char *path) = {
    put_pipe, put_link, put_empty, put_huge, put_device};

enum { NUM_HOSTILE = sizeof hostile / sizeof *hostile };

static void
what_is_no_entry_is_replaced(void **state)
{
    Arena *a = *state;
    for (int i = 0; i < NUM_HOSTILE; i++) {
        const char *dir = work_dir(a);
        BeCache *c = be_cache_open(a, dir);
        assert_int_equal(mkdir(in(a, dir, "00"), 0700), 0);
        hostile[i](a, in(a, dir, A_PATH));
        assert_false(has(c, a_key, a));
        be_cache_put(c, a_key, own, sizeof own);
        expect_own(c, a);
        assert_int_equal(mode_of(in(a, dir, A_PATH)), S_IFREG | 0600);
    }
}

static void
what_is_no_secret_is_replaced(void **state)
{
    Arena *a = *state;
    for (int i = 0; i < NUM_HOSTILE; i++) {
        const char *dir = work_dir(a);
        hostile[i](a, in(a, dir, "key"));
        BeCache *c = be_cache_open(a, dir);
        be_cache_put(c, a_key, own, sizeof own);
        expect_own(be_cache_open(a, dir), a);
        assert_int_equal(mode_of(in(a, dir, "key")), S_IFREG | 0600);
        assert_int_equal(num_in(dir), 2);
    }
}

/* A key that others can read is replaced, and all files with it. */
static void
a_secret_that_others_read_is_none(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    be_cache_put(be_cache_open(a, dir), a_key, own, sizeof own);
    assert_int_equal(chmod(in(a, dir, "key"), 0644), 0);
    assert_false(has(be_cache_open(a, dir), a_key, a));
    assert_int_equal(mode_of(in(a, dir, "key")), S_IFREG | 0600);
}

static void
a_folder_that_is_a_link_is_not_followed(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a), *target = work_dir(a);
    BeCache *c = be_cache_open(a, dir);
    assert_int_equal(symlink(target, in(a, dir, "00")), 0);
    be_cache_put(c, a_key, own, sizeof own);
    assert_int_equal(num_in(target), 0);
    assert_false(has(c, a_key, a));
}

/* ---- how large it becomes ----------------------------------------------- */

static void
set_age(const char *path, time_t seconds)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = time(NULL) - seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Two megabytes are 8 KB for each folder, two files of one block each; writing
 * a key whose low half is a multiple of 16 trims its folder. */
static void
what_was_longest_unused_leaves_a_full_cache(void **state)
{
    Arena *a = *state;
    static const BeCacheKey b_key = {8, 2}, c_key = {9, 16};
    const char *dir = work_dir(a);
    BeCache *c = open_with(a, dir, "2");
    be_cache_put(c, a_key, bytes, sizeof bytes);
    set_age(in(a, dir, A_PATH), 20000);
    be_cache_put(c, b_key, bytes, sizeof bytes);
    set_age(in(a, dir, "00/00000000000000080000000000000002.o"), 10000);
    assert_true(has(c, a_key, a));
    be_cache_put(c, c_key, bytes, sizeof bytes);
    assert_true(has(c, a_key, a));
    assert_false(has(c, b_key, a));
    assert_true(has(c, c_key, a));
}

/* Sizes whose sum overflows, times in the future, and things that are no
 * files. */
static void
hostile_files_leave_a_full_cache(void **state)
{
    Arena *a = *state;
    static const BeCacheKey c_key = {9, 16};
    const char *dir = work_dir(a), *folder = in(a, dir, "00");
    BeCache *c = open_with(a, dir, "2");
    be_cache_put(c, a_key, bytes, sizeof bytes);
    put_pipe(a, in(a, folder, "pipe"));
    put_device(a, in(a, folder, "device"));
    put_huge(a, in(a, folder, "huge"));
    assert_int_equal(mkdir(in(a, folder, "folder"), 0700), 0);
    for (int i = 0; i < 20; i++) {
        const char *path = in(a, folder, arena_printf(a, "later%d", i));
        make_file(path, bytes, sizeof bytes);
        set_age(path, -1000000);
    }
    be_cache_put(c, c_key, bytes, sizeof bytes);
    assert_int_equal(num_in(folder), 2);
    assert_true(has(c, a_key, a));
    assert_true(has(c, c_key, a));
}

static void
a_size_that_is_none_is_the_usual_one(void **state)
{
    Arena *a = *state;
    static const char *const sizes[] = {"-1", "many", "99999999999999999999"};
    static const BeCacheKey c_key = {9, 16};
    for (int i = 0; i < 3; i++) {
        BeCache *c = open_with(a, work_dir(a), sizes[i]);
        be_cache_put(c, a_key, bytes, sizeof bytes);
        be_cache_put(c, c_key, bytes, sizeof bytes);
        assert_true(has(c, a_key, a) && has(c, c_key, a));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_the_users_alone, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(a_file_of_another_cache_is_not_believed,
                                        new_arena, release_arena),
        cmocka_unit_test_setup_teardown(
            a_file_under_anothers_name_is_not_believed, new_arena,
            release_arena),
        cmocka_unit_test_setup_teardown(keys_are_each_caches_own, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(a_folder_of_others_is_refused,
                                        new_arena, release_arena),
        cmocka_unit_test_setup_teardown(a_size_that_is_none_is_told, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(a_file_of_another_user_is_not_believed,
                                        new_arena, release_arena),
        cmocka_unit_test_setup_teardown(what_is_no_entry_is_replaced, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(what_is_no_secret_is_replaced,
                                        new_arena, release_arena),
        cmocka_unit_test_setup_teardown(a_secret_that_others_read_is_none,
                                        new_arena, release_arena),
        cmocka_unit_test_setup_teardown(a_folder_that_is_a_link_is_not_followed,
                                        new_arena, release_arena),
        cmocka_unit_test_setup_teardown(
            what_was_longest_unused_leaves_a_full_cache, new_arena,
            release_arena),
        cmocka_unit_test_setup_teardown(hostile_files_leave_a_full_cache,
                                        new_arena, release_arena),
        cmocka_unit_test_setup_teardown(a_size_that_is_none_is_the_usual_one,
                                        new_arena, release_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
