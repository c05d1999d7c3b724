/*
 * file_test.c - reading and writing whole files, and what a failure leaves
 */
#include "tests/unit/dir.h"
#include "tests/unit/status.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "ir/base/hash/crc.h"
#include "ir/base/io/file.h"

/* Removes the remaining files; returns their number. */
static int
empty_dir(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        unlink(in_dir(e->d_name));
        n++;
    }
    closedir(d);
    return n;
}

static void
write_ok(const char *name, const char *text)
{
    assert_null(file_write(in_dir(name), text, strlen(text)));
}

static void
expect_content(const char *name, const char *text)
{
    char *data;
    size_t len;
    assert_null(file_read(arena, in_dir(name), &data, &len));
    assert_int_equal(len, strlen(text));
    assert_string_equal(data, text);
}

static void
what_was_written_is_read(void **state)
{
    (void)state;
    write_ok("a", "");
    expect_content("a", "");
    write_ok("a", "first");
    write_ok("a", "second");
    expect_content("a", "second");
    assert_int_equal(empty_dir(), 1);
}

static void
pipes_are_read_to_their_end(void **state)
{
    (void)state;
    int ends[2];
    char *data;
    size_t len;
    static char block[40000];
    memset(block, 'x', sizeof block);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], block, sizeof block), sizeof block);
    close(ends[1]);
    const char *path = arena_printf(arena, "/dev/fd/%d", ends[0]);
    assert_null(file_read(arena, path, &data, &len));
    close(ends[0]);
    assert_int_equal(len, sizeof block);
    assert_memory_equal(data, block, sizeof block);
    assert_int_equal(data[len], 0);
}

static void
links_and_devices_stay_what_they_are(void **state)
{
    (void)state;
    struct stat info;
    write_ok("target", "old");
    assert_int_equal(symlink("target", in_dir("link")), 0);
    write_ok("link", "new");
    assert_int_equal(lstat(in_dir("link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    expect_content("target", "new");
    assert_null(file_write("/dev/null", "x", 1));
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

static void
failures_name_the_file_and_the_reason(void **state)
{
    (void)state;
    char *data;
    size_t len;
    assert_status(file_read(arena, "/no/such", &data, &len), STATUS_INPUT,
                  "cannot open \"/no/such\": No such file or directory");
    assert_status(file_read(arena, "/tmp", &data, &len), STATUS_INPUT,
                  "cannot read \"/tmp\": Is a directory");
    assert_status(file_write("/tmp", "x", 1), STATUS_INPUT,
                  "cannot open \"/tmp\": Is a directory");
    assert_status(file_write("/dev/full", "x", 1), STATUS_MACHINE,
                  "cannot write \"/dev/full\": No space left on device");
    assert_status_says(file_write("/no/such", "x", 1), STATUS_INPUT,
                       "No such file");
}

/* ---- folders, and files that go on -------------------------------------- */

static void
a_folder_lists_what_it_holds(void **state)
{
    (void)state;
    FileNames names;
    int found = 0;
    write_ok("one", "");
    write_ok("two", "");
    assert_null(file_list(arena, dir, &names));
    assert_int_equal(names.len, 4); /* and . and .. */
    for (int i = 0; i < names.len; i++)
        found += strcmp(names.data[i], "one") == 0;
    assert_int_equal(found, 1);
    assert_status(file_list(arena, "/no/such", &names), STATUS_INPUT,
                  "cannot open the folder \"/no/such\": No such file or "
                  "directory");
}

static void
a_file_is_removed_once(void **state)
{
    (void)state;
    write_ok("a", "");
    assert_null(file_remove(in_dir("a")));
    assert_null(file_remove(in_dir("a")));
    assert_int_equal(empty_dir(), 0);
    Status st = file_remove(dir);
    assert_non_null(strstr(status_message(st), "cannot remove \"/tmp/"));
    status_free(st);
}

static void
a_locked_folder_is_anothers_until_it_is_closed(void **state)
{
    (void)state;
    int first, second;
    assert_null(file_lock_folder(dir, &first));
    Status st = file_lock_folder(dir, &second);
    assert_non_null(strstr(status_message(st), "is in use by another process"));
    status_free(st);
    assert_int_equal(second, -1);
    close(first);
    assert_null(file_lock_folder(dir, &second));
    close(second);
    assert_status(file_lock_folder("/no/such", &second), STATUS_INPUT,
                  "cannot open the folder \"/no/such\": No such file or "
                  "directory");
}

static void
a_file_goes_on_behind_what_stays(void **state)
{
    (void)state;
    int fd;
    write_ok("a", "kept, gone");
    assert_null(file_continue(in_dir("a"), 4, &fd));
    expect_content("a", "kept");
    assert_null(file_add(fd, "a", 0, " and more", 9));
    assert_null(file_sync(fd, "a"));
    close(fd);
    expect_content("a", "kept and more");
    assert_status_says(file_continue(in_dir("a"), 14, &fd), STATUS_INPUT,
                       "/a\" has lost some of its 14 bytes");
    assert_int_equal(fd, -1);
    expect_content("a", "kept and more");
    Status st = file_continue(in_dir("none"), 0, &fd);
    assert_non_null(strstr(status_message(st), "No such file"));
    status_free(st);
}

/* A run of this program in which TFD_FAIL is read anew: its first argument
 * says what to do to the file "a". */
static const char *job;

static void
run_job(void)
{
    execl("/proc/self/exe", "file_test", job, in_dir("a"), NULL);
}

static int
do_job(const char *what, const char *path)
{
    char *data;
    size_t len;
    Arena *a = arena_new(NULL, "job");
    Status st = strcmp(what, "write") == 0 ? file_write(path, "new", 3)
                                           : file_read(a, path, &data, &len);
    int code = status_report(st, "file_test", stderr);
    status_free(st);
    arena_release(a);
    return code;
}

static int
job_failing_at(const char *what, int n)
{
    job = what;
    setenv("TFD_FAIL", arena_printf(arena, "io:%d", n), 1);
    int status = exit_status_of(run_job);
    unsetenv("TFD_FAIL");
    return status;
}

/* Listing, opening, writing, syncing, closing, renaming. */
static void
a_failed_write_leaves_the_old_file(void **state)
{
    (void)state;
    write_ok("a", "old");
    for (int n = 1; n <= 6; n++) {
        assert_int_equal(job_failing_at("write", n), 3);
        expect_content("a", "old");
    }
    assert_int_equal(job_failing_at("write", 7), 0);
    expect_content("a", "new");
    assert_int_equal(empty_dir(), 1);
}

/* Opening, reading, and reading the end. */
static void
a_failed_read_is_reported(void **state)
{
    (void)state;
    write_ok("a", "text");
    for (int n = 1; n <= 3; n++)
        assert_int_equal(job_failing_at("read", n), 3);
    assert_int_equal(job_failing_at("read", 4), 0);
}

static void
parts_follow_each_other(void **state)
{
    (void)state;
    char *data;
    size_t len;
    FilePart parts[] = {{"ab", 2}, {"", 0}, {"cde", 3}};
    assert_null(file_write_parts(in_dir("parts"), parts, 3));
    assert_null(file_read(arena, in_dir("parts"), &data, &len));
    assert_int_equal(len, 5);
    assert_string_equal(data, "abcde");
}

static void
folders_are_made_with_those_around_them(void **state)
{
    (void)state;
    struct stat info;
    assert_null(file_make_folder(in_dir("x//y/z/")));
    assert_null(file_make_folder(in_dir("x/y/z")));
    assert_int_equal(stat(in_dir("x/y/z"), &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    write_ok("plain", "");
    assert_status_says(file_make_folder(in_dir("plain/sub")), STATUS_INPUT,
                       "Not a directory");
}

static ino_t synced; /* what was given to fsync last */

/* In place of the C library's. */
int
fsync(int fd)
{
    struct stat info;
    if (fstat(fd, &info) == 0)
        synced = info.st_ino;
    return (int)syscall(SYS_fsync, fd);
}

static void
expect_synced(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(synced, info.st_ino);
}

/* What is kept must not be in a folder that a power failure takes away. */
static void
names_of_what_is_made_are_durable(void **state)
{
    (void)state;
    int fd;
    assert_null(file_make_folder(in_dir("run")));
    expect_synced(dir);
    assert_null(file_make_folder(in_dir("run/logs/")));
    expect_synced(in_dir("run"));
    assert_null(file_create(in_dir("run/logs/events"), &fd));
    expect_synced(in_dir("run/logs"));
    close(fd);
    assert_null(file_write(in_dir("run/saved"), "", 0));
    expect_synced(in_dir("run"));
}

static void
files_grow(void **state)
{
    (void)state;
    int fd, other;
    char *data;
    size_t len;
    const char *path = in_dir("log");
    assert_null(file_create(path, &fd));
    assert_null(file_add(fd, path, 0, "one ", 4));
    assert_null(file_add(fd, path, 4, "two", 3));
    assert_null(file_read(arena, path, &data, &len));
    assert_string_equal(data, "one two");
    Status st = file_create(path, &other);
    assert_non_null(st);
    status_free(st);
    close(fd);
}

/* RFC 3720, appendix B.4, and the usual check value. */
static void
crcs_are_those_of_the_standard(void **state)
{
    (void)state;
    char bytes[32] = {0};
    assert_int_equal(crc32c("", 0), 0);
    assert_int_equal(crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32c(bytes, 32), 0x62a8ab43);
    assert_int_equal(
        crc32c_masked("123456789", 9),
        (uint32_t)((0xe3069283u >> 15 | 0xe3069283u << 17) + 0xa282ead8u));
}

/* ---- what processes leave that die -------------------------------------- */

static bool
is_there(const char *name)
{
    return access(in_dir(name), F_OK) == 0;
}

/* Writing a file removes temporary files that others left for the same name,
 * but not one that is being written, nor files with other names. */
static void
leavings_are_removed(void **state)
{
    static const char *const stay[] = {"y.tmp-7-2", "y.tmp-7-x", "y.tmp-7",
                                       "y.tmp-7-0a", "yy.tmp-7-0"};
    (void)state;
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
        write_ok(stay[i], "");
    write_ok("y.tmp-7-0", "");
    write_ok("y.tmp-65535-12", "");
    int busy = open(in_dir("y.tmp-7-2"), O_RDONLY);
    assert_int_equal(flock(busy, LOCK_EX), 0);
    write_ok("y", "x");
    assert_false(is_there("y.tmp-7-0"));
    assert_false(is_there("y.tmp-65535-12"));
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
        assert_true(is_there(stay[i]));
    close(busy);
    write_ok("y", "z");
    assert_false(is_there("y.tmp-7-2"));
}

/* In a file that may have ten bytes. */
static void
add_beyond_the_limit(void)
{
    int fd;
    const char *path = in_dir("grows");
    const struct rlimit limit = {10, 10};
    file_prepare_process();
    if (setrlimit(RLIMIT_FSIZE, &limit) || file_create(path, &fd) ||
        file_add(fd, path, 0, "12345678", 8))
        _exit(1);
    Status st = file_add(fd, path, 8, "12345678", 8);
    if (!st || status_kind(st) != STATUS_MACHINE ||
        !strstr(status_message(st), "grows\": File too large"))
        _exit(2);
}

static void
what_is_added_is_all_or_nothing(void **state)
{
    (void)state;
    assert_int_equal(exit_status_of(add_beyond_the_limit), 0);
    expect_content("grows", "12345678");
}

#define FILE_TEST(f) cmocka_unit_test_setup_teardown(f, new_dir, release_arena)

int
main(int argc, char **argv)
{
    if (argc == 3)
        return do_job(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_failed_write_leaves_the_old_file),
        FILE_TEST(parts_follow_each_other),
        FILE_TEST(folders_are_made_with_those_around_them),
        FILE_TEST(names_of_what_is_made_are_durable),
        FILE_TEST(files_grow),
        FILE_TEST(crcs_are_those_of_the_standard),
        FILE_TEST(a_failed_read_is_reported),
        FILE_TEST(what_was_written_is_read),
        FILE_TEST(pipes_are_read_to_their_end),
        FILE_TEST(links_and_devices_stay_what_they_are),
        FILE_TEST(failures_name_the_file_and_the_reason),
        FILE_TEST(a_folder_lists_what_it_holds),
        FILE_TEST(a_file_is_removed_once),
        FILE_TEST(a_locked_folder_is_anothers_until_it_is_closed),
        FILE_TEST(a_file_goes_on_behind_what_stays),
        FILE_TEST(leavings_are_removed),
        FILE_TEST(what_is_added_is_all_or_nothing),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
