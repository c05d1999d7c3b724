/*
 * checkpoint_test.c - folders of checkpoints: a file is complete, or reported
 */
#include "tests/unit/dir.h"
#include "tests/unit/status.h"

#include <endian.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "ir/base/hash/hash.h"
#include "runtime/checkpoint/checkpoint.h"

static RtCheckpoints *folder;

static const RtOwner ours = {.plan = "0123456789abcdef0123456789abcdef",
                             .num_replicas = 2};

static void
open_folder(void)
{
    assert_null(rt_checkpoints_open(dir, &ours, &folder));
}

static void
close_folder(void)
{
    rt_checkpoints_close(folder);
    folder = NULL;
}

static int
set_up(void **state)
{
    new_dir(state);
    open_folder();
    return 0;
}

static int
tear_down(void **state)
{
    close_folder();
    return release_arena(state);
}

/* ---- writing and reading ------------------------------------------------ */

static void
write_step(int64_t step, const char *text)
{
    RtArchive ar = rt_archive_writer(arena, 0);
    rt_archive_bytes(&ar, (char *)(uintptr_t)text, strlen(text));
    rt_checkpoints_write(folder, step, &ar, NULL);
    assert_null(rt_checkpoints_wait(folder));
}

/* The newest one, and the notes about others; or the error. */
static Status
newest(RtCheckpoint *out, const char **notes)
{
    size_t len;
    char *text;
    FILE *to = open_memstream(&text, &len);
    Status st = rt_checkpoints_newest(folder, arena, to, out);
    fclose(to);
    *notes = arena_strdup(arena, text);
    free(text);
    return st;
}

static void
expect_newest(int64_t step, const char *text)
{
    RtCheckpoint c;
    const char *notes;
    Status st = newest(&c, &notes);
    if (st)
        fail_msg("%s", status_message(st));
    assert_string_equal(notes, "");
    assert_int_equal(c.step, step);
    assert_int_equal(c.len, strlen(text));
    assert_memory_equal(c.state, text, c.len);
}

static void
expect_error(Status st, const char *part)
{
    assert_status_says(st, STATUS_INPUT, part);
}

static void
the_newest_is_read(void **state)
{
    (void)state;
    RtCheckpoint c;
    const char *notes;
    assert_null(newest(&c, &notes));
    assert_null(c.state);
    write_step(7, "seven");
    expect_newest(7, "seven");
    write_step(10, "ten");
    write_step(9, "nine");
    expect_newest(10, "ten");
}

static void
the_last_three_are_kept(void **state)
{
    (void)state;
    FileNames names;
    for (int step = 5; step <= 1000; step *= 3)
        write_step(step, "a state");
    write_step(1000, "a state");
    assert_null(file_list(arena, dir, &names));
    assert_int_equal(names.len, 2 + CHECKPOINTS_KEPT);
    assert_int_equal(access(in_dir("step-1000.ckpt"), F_OK), 0);
    assert_int_equal(access(in_dir("step-405.ckpt"), F_OK), 0);
    assert_int_equal(access(in_dir("step-135.ckpt"), F_OK), 0);
}

/* ---- damage ------------------------------------------------------------- */

static char *
bytes_of(const char *name, size_t *len)
{
    char *bytes;
    assert_null(file_read(arena, in_dir(name), &bytes, len));
    return bytes;
}

static void
every_truncation_is_refused(void **state)
{
    (void)state;
    size_t len;
    RtCheckpoint c;
    write_step(1, "some state");
    const char *bytes = bytes_of("step-1.ckpt", &len);
    for (size_t n = 0; n < len; n++)
        expect_error(rt_checkpoint_parse(arena, "x", bytes, n, &c),
                     "cannot resume from \"x\": it is ");
    assert_null(rt_checkpoint_parse(arena, "x", bytes, len, &c));
    expect_error(rt_checkpoint_parse(arena, "x", bytes, len + 1, &c),
                 "too long");
}

static void
every_bit_counts(void **state)
{
    (void)state;
    size_t len;
    RtCheckpoint c;
    write_step(1, "some state");
    char *bytes = bytes_of("step-1.ckpt", &len);
    for (size_t i = 0; i < 8 * len; i++) {
        bytes[i / 8] ^= (char)(1 << i % 8);
        expect_error(rt_checkpoint_parse(arena, "x", bytes, len, &c),
                     "cannot resume from \"x\": it is ");
        bytes[i / 8] ^= (char)(1 << i % 8);
    }
}

static void
damage(const char *name)
{
    size_t len;
    char *bytes = bytes_of(name, &len);
    bytes[len - 1] ^= 1;
    assert_null(file_write(in_dir(name), bytes, len));
}

static void
one_that_is_damaged_is_passed_over(void **state)
{
    (void)state;
    RtCheckpoint c;
    const char *notes;
    write_step(1, "one");
    write_step(2, "two");
    damage("step-2.ckpt");
    assert_null(newest(&c, &notes));
    assert_int_equal(c.step, 1);
    assert_non_null(strstr(notes, "/step-2.ckpt\": it is damaged (checksum of "
                                  "its state); trying the one before it\n"));
    damage("step-1.ckpt");
    expect_error(newest(&c, &notes), "/step-1.ckpt\": it is damaged");
}

/* The same with another length of the state, and a header that is whole. */
static void
pretend(const char *name, uint64_t state_bytes)
{
    enum { LEN_AT = 24, HASH_AT = 96, HEADER_BYTES = HASH_AT + HASH_LEN };
    size_t len;
    char *bytes = bytes_of(name, &len);
    uint64_t little = htole64(state_bytes);
    memcpy(bytes + LEN_AT, &little, sizeof little);
    memcpy(bytes + HASH_AT, hash_text(arena, bytes, HASH_AT), HASH_LEN);
    assert_null(file_write(in_dir(name), bytes, len));
    assert_int_equal(
        truncate(in_dir(name), (off_t)(HEADER_BYTES + state_bytes)), 0);
}

/* Files are sparse, so nothing but their size says that they are large. */
static void
one_that_is_too_large_is_not_read(void **state)
{
    (void)state;
    RtCheckpoint c;
    const char *notes;
    write_step(1, "one");
    write_step(2, "two");
    pretend("step-2.ckpt", 10000000000);
    assert_null(newest(&c, &notes));
    assert_int_equal(c.step, 1);
    assert_non_null(strstr(notes, "it is larger than this plan expects: its "
                                  "state has 10000000000 bytes, and none of "
                                  "this plan has more than "));
    write_step(2, "two2");
    assert_int_equal(truncate(in_dir("step-2.ckpt"), 10000000000), 0);
    assert_null(newest(&c, &notes));
    assert_int_equal(c.step, 1);
    assert_non_null(strstr(notes, "it is too long: 9999999872 bytes of 4"));
}

/* ---- whose they are ----------------------------------------------------- */

static void
reopen_as(const RtOwner *owner)
{
    close_folder();
    assert_null(rt_checkpoints_open(dir, owner, &folder));
}

static void
those_of_others_are_refused(void **state)
{
    (void)state;
    static const RtOwner plan = {.plan = "0123456789abcdef0123456789abcdee",
                                 .num_replicas = 2};
    static const RtOwner devices = {.plan = "0123456789abcdef0123456789abcdee",
                                    .num_replicas = 3};
    RtCheckpoint c;
    const char *notes;
    write_step(4, "four");
    reopen_as(&plan);
    expect_error(newest(&c, &notes), "another plan made it");
    reopen_as(&devices);
    expect_error(newest(&c, &notes), "it is of 2 replicas, and the plan has 3");
    expect_error(rt_checkpoints_expect_none(folder),
                 "go on with it by --resume");
}

static void
one_before_the_first_step_is_in_nobodys_way(void **state)
{
    (void)state;
    static const RtOwner plan = {.plan = "0123456789abcdef0123456789abcdee",
                                 .num_replicas = 2};
    RtCheckpoint c;
    const char *notes;
    write_step(0, "nothing");
    expect_newest(0, "nothing");
    assert_null(rt_checkpoints_expect_none(folder));
    reopen_as(&plan);
    assert_null(newest(&c, &notes));
    assert_null(c.state);
}

static void
what_others_have_there_stays(void **state)
{
    (void)state;
    static const char *const names[] = {"step-.ckpt",   "step-007.ckpt",
                                        "step--1.ckpt", "step-1.ckpt.other",
                                        "notes",        "step-9.txt"};
    enum { NUM = sizeof names / sizeof *names };
    RtCheckpoint c;
    const char *notes;
    for (int i = 0; i < NUM; i++)
        assert_null(file_write(in_dir(names[i]), "", 0));
    assert_null(newest(&c, &notes));
    assert_null(c.state);
    for (int step = 1; step < 9; step++)
        write_step(step, "a state");
    for (int i = 0; i < NUM; i++)
        assert_int_equal(access(in_dir(names[i]), F_OK), 0);
}

static void
what_a_dead_process_left_is_removed(void **state)
{
    (void)state;
    assert_null(file_write(in_dir("step-3.ckpt.tmp-99-0"), "half", 4));
    reopen_as(&ours);
    assert_int_equal(access(in_dir("step-3.ckpt.tmp-99-0"), F_OK), -1);
}

static void
a_folder_is_for_one_run_at_a_time(void **state)
{
    (void)state;
    RtCheckpoints *second;
    Status st = rt_checkpoints_open(dir, &ours, &second);
    expect_error(st, "is in use by another process");
}

static void
a_folder_that_cannot_be_made_is_told(void **state)
{
    (void)state;
    RtCheckpoints *other;
    assert_null(file_write(in_dir("file"), "", 0));
    expect_error(rt_checkpoints_open(in_dir("file/sub"), &ours, &other),
                 "cannot make the folder");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_newest_is_read),
        TEST(the_last_three_are_kept),
        TEST(every_truncation_is_refused),
        TEST(every_bit_counts),
        TEST(one_that_is_damaged_is_passed_over),
        TEST(one_that_is_too_large_is_not_read),
        TEST(those_of_others_are_refused),
        TEST(one_before_the_first_step_is_in_nobodys_way),
        TEST(what_others_have_there_stays),
        TEST(what_a_dead_process_left_is_removed),
        TEST(a_folder_is_for_one_run_at_a_time),
        TEST(a_folder_that_cannot_be_made_is_told),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, NULL, NULL);
}
