/*
 * resume_test.c - runs that end at a chosen step, and their errors
 *
 * The program is all.tfd, which has about 26 steps.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include "ir/base/io/file.h"
#include "runtime/run/run.h"
#include "tests/e2e/run.h"
#include "tests/resume/lives.h"
#include "tests/unit/dir.h"

enum { MAX_STEPS = 100 };

static const Subject subject = {.name = "all",
                                .program = "tests/resume/all.tfd",
                                .compiler = "--devices cpu:0-1",
                                .runner = "",
                                .files = {"part-0/variables.safetensors",
                                          "part-8/variables.safetensors",
                                          "kept/variables.safetensors"}};

static Arena *group;        /* shared by all tests */
static const char *plan;    /* of the program for two replicas */
static const char *devices; /* where they are; NULL: each on its own */
static const char *whole;   /* the folder of the undisturbed run */

static int
begin_group(void **state)
{
    (void)state;
    group = arena_new(NULL, "group");
    whole = work_dir(group);
    plan = lives_compile(group, &subject, whole);
    assert_false(
        lives_wait(group, lives_begin(&subject, plan, whole, 0), whole));
    return 0;
}

static int
end_group(void **state)
{
    (void)state;
    arena_release(group);
    return 0;
}

/* ---- lives -------------------------------------------------------------- */

/* Whether the run was killed at the step; false: it came to its end. */
static bool
dies_at(int step, int every)
{
    return lives_until(plan, dir, devices, step, every);
}

/* tfd-run in the test's folder. */
static Ran
run_there(const char *settings, const char *options)
{
    return run(arena, "env -C %s TFD_SPIN=0 %s %s %s --log-dir logs %s", dir,
               settings, getenv("TFD_RUN"), plan, options);
}

/* A run that is resumed comes to its end, and nothing is amiss. */
static void
expect_all_well(void)
{
    pid_t pid = lives_begin(&subject, plan, dir, 5);
    assert_false(lives_wait(arena, pid, dir));
    lives_compare(arena, &subject, whole, dir);
}

static void
expect_told(const Ran *r, int code, const char *part)
{
    if (r->code != code)
        fail_msg("exit status %d: %s", r->code, r->err);
    if (!strstr(r->err, part))
        fail_msg("\"%s\" is not in: %s", part, r->err);
}

/* ---- dying -------------------------------------------------------------- */

static void
a_life_may_end_at_any_step(void **state)
{
    (void)state;
    int step = 1;
    while (dies_at(step, 1))
        step++;
    assert_in_range(step, 20, MAX_STEPS);
    assert_in_range(lives_resumed(arena, dir), step - 2, step);
    lives_compare(arena, &subject, whole, dir);
}

static void
a_life_goes_on_from_far_back(void **state)
{
    (void)state;
    for (int step = 7; dies_at(step, 4); step += 5)
        ;
    lives_compare(arena, &subject, whole, dir);
}

static void
a_run_that_is_done_ends_the_same_again(void **state)
{
    (void)state;
    expect_all_well();
    expect_all_well();
}

/* ---- beginning ---------------------------------------------------------- */

static void
it_is_told_where_it_begins(void **state)
{
    (void)state;
    Ran r = run_there("", "--checkpoint c --every 8 --resume");
    expect_told(&r, 0, "no checkpoint in \"c\": beginning at the beginning\n");
    r = run_there("", "--checkpoint c --every 8 --resume");
    expect_told(&r, 0, "resuming after step 24, from \"c/step-24.ckpt\"\n");
    r = run_there("", "--checkpoint c --every 8 --resume --quiet");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.err, "");
}

static void
a_folder_in_use_needs_resume(void **state)
{
    (void)state;
    assert_true(dies_at(9, 3));
    Ran r = run_there("", "--checkpoint checkpoints");
    expect_told(&r, 1,
                "\"checkpoints\" has checkpoints of another run; go on "
                "with it by --resume, or give another folder");
    expect_all_well();
}

static void
options_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *options, *told;
    } rows[] = {
        {"--resume", "--resume needs --checkpoint DIR"},
        {"--every 3", "--every needs --checkpoint DIR"},
        {"--checkpoint c --every 0", "--every"},
        {"--checkpoint checkpoints --resume --set rounds=4",
         "--set rounds=4: the run in \"checkpoints\" was begun with another "
         "value; leave it out, or begin anew in another folder"},
        {"--checkpoint checkpoints --resume --seed 5",
         "--seed: the run in \"checkpoints\" was begun with another value"},
    };
    assert_true(dies_at(9, 3));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Ran r = run_there("", rows[i].options);
        expect_told(&r, 2, rows[i].told);
    }
    Ran r = run_there("", "--checkpoint checkpoints --resume --set rounds=4 "
                          "--set rounds=3 --seed 0 --threads 1 --every 2");
    expect_told(&r, 0, "resuming after step ");
}

/* What a run was begun with stays, also when it died at once. */
static void
params_are_those_of_the_beginning(void **state)
{
    (void)state;
    Ran want = run_there("", "--set rounds=1 --seed 3 --checksum");
    Ran r =
        run_there("", "--checkpoint c --every 1000 --set rounds=1 --seed 3");
    assert_int_equal(r.code, 0);
    r = run_there("", "--checkpoint c --resume --checksum");
    expect_told(&r, 0, "resuming after step 0");
    assert_string_equal(r.out, want.out);
}

/* A checkpoint knows replicas, not devices. */
static void
it_goes_on_with_other_devices(void **state)
{
    (void)state;
    assert_true(dies_at(9, 3));
    devices = "cpu:0";
    assert_true(dies_at(16, 5));
    devices = "cpu:0-1";
    assert_true(dies_at(23, 4));
    devices = NULL;
    expect_all_well();
}

static void
other_plans_are_refused(void **state)
{
    (void)state;
    assert_true(dies_at(9, 3));
    const char *ours = plan;
    plan = in_dir("other.tfp");
    run_ok(arena, "tfdc %s/all.tfd -o %s --devices cpu:0-2", whole, plan);
    Ran r = run_there("", "--checkpoint checkpoints --resume");
    expect_told(&r, 1, "it is of 2 replicas, and the plan has 3");
    write_text(in_dir("all.tfd"),
               substitute(arena, source_text(arena, subject.program),
                          "total += drift", "total += drift + 1.0"));
    run_ok(arena, "tfdc %s -o %s --devices cpu:0-1", in_dir("all.tfd"), plan);
    r = run_there("", "--checkpoint checkpoints --resume");
    expect_told(&r, 1,
                "another plan made it; give that one, or begin anew in "
                "another folder");
    write_text(in_dir("loops.tfd"),
               "main { for i in 0..3 { print(\"{i}\") } }");
    run_ok(arena, "tfdc %s -o %s", in_dir("loops.tfd"), plan);
    r = run_there("", "--checkpoint c");
    expect_told(&r, 2,
                "--checkpoint: main has no loop over a dataset, nor one that "
                "joins closures, and checkpoints are made after iterations of "
                "these");
    plan = ours;
    expect_all_well();
}

/* ---- interrupts --------------------------------------------------------- */

static bool
is_there(const char *name)
{
    return access(in_dir(name), F_OK) == 0;
}

/* The run is asked to stop as soon as it has begun to work, by a signal, or by
 * two at once. */
static void
expect_checkpoint_after(int signal_number, int other)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    int status;
    size_t len;
    char *err;
    pid_t pid = lives_begin(&subject, plan, dir, 1000);
    while (!is_there("checkpoints/step-0.ckpt")) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            fail_msg("the run has ended before it made a checkpoint");
        nanosleep(&moment, NULL);
    }
    kill(pid, signal_number);
    if (other)
        kill(pid, other);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    assert_null(file_read(arena, in_dir("err"), &err, &len));
    assert_non_null(strstr(err, " steps; --resume goes on from there"));
    expect_all_well();
    assert_int_equal(lives_resumed(arena, dir), 1);
}

static void
an_interrupt_ends_with_a_checkpoint(void **state)
{
    (void)state;
    expect_checkpoint_after(SIGTERM, 0);
}

static void
two_signals_at_once_are_one_interrupt(void **state)
{
    (void)state;
    expect_checkpoint_after(SIGTERM, SIGUSR1);
}

static void
a_terminal_that_is_closed_ends_with_a_checkpoint(void **state)
{
    (void)state;
    expect_checkpoint_after(SIGHUP, 0);
}

/* ---- streams and limits -------------------------------------------------- */

/* A run in the test's folder whose process is prepared by a function; its
 * output goes to "out" and "err", unless that function redirects it. */
static Ran
run_prepared(void (*prepare)(void), const char *options)
{
    int status;
    size_t out_len, err_len;
    char *err, *out;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const char *words =
            arena_printf(arena, "exec %s %s --checkpoint checkpoints %s",
                         getenv("TFD_RUN"), plan, options);
        if (chdir(dir) < 0 || !freopen("out", "w", stdout) ||
            !freopen("err", "w", stderr))
            _exit(98);
        prepare();
        execl("/bin/sh", "sh", "-c", words, (char *)NULL);
        _exit(98);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_null(file_read(arena, in_dir("err"), &err, &err_len));
    assert_null(file_read(arena, in_dir("out"), &out, &out_len));
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return (Ran){code, out, err, out_len, err_len};
}

/* The step of the newest checkpoint, -1 for none; there is nothing else. */
static int
newest_checkpoint(void)
{
    FileNames names;
    int newest = -1;
    assert_null(file_list(arena, in_dir("checkpoints"), &names));
    for (int i = 0; i < names.len; i++) {
        int step, end = 0;
        if (names.data[i][0] == '.')
            continue;
        if (sscanf(names.data[i], "step-%d.ckpt%n", &step, &end) != 1 ||
            names.data[i][end])
            fail_msg("there is a \"%s\"", names.data[i]);
        newest = step > newest ? step : newest;
    }
    return newest;
}

static const char *
last_line(const char *text)
{
    size_t n = strlen(text);
    while (n > 1 && text[n - 2] != '\n')
        n--;
    return text + n - 1;
}

/* A resumed run ends with the variables of the undisturbed one. */
static void
expect_same_end(void)
{
    size_t len;
    char *want;
    Ran r = run_there("", "--checkpoint checkpoints --resume --checksum");
    if (r.code)
        fail_msg("exit status %d: %s", r.code, r.err);
    assert_null(
        file_read(arena, arena_printf(arena, "%s/out", whole), &want, &len));
    assert_string_equal(last_line(r.out), last_line(want));
    newest_checkpoint();
}

static void
nobody_reads(void)
{
    int ends[2];
    if (pipe(ends) < 0 || dup2(ends[1], STDOUT_FILENO) < 0)
        _exit(98);
    close(ends[0]);
    close(ends[1]);
}

static void
a_reader_that_is_gone_ends_with_a_checkpoint(void **state)
{
    (void)state;
    Ran r = run_prepared(nobody_reads, "--every 1000 --log-dir logs");
    expect_told(&r, 3, "cannot write what the program prints: Broken pipe");
    assert_in_range(newest_checkpoint(), 1, 5);
    expect_same_end();
}

/* Lines that a full disk did not take are printed again: no checkpoint is made
 * behind them. */
static void
the_disk_is_full(void)
{
    if (!freopen("/dev/full", "w", stdout))
        _exit(98);
}

static void
lines_that_were_not_written_come_again(void **state)
{
    size_t len;
    char *want;
    (void)state;
    Ran r = run_prepared(the_disk_is_full, "--every 1");
    expect_told(&r, 3,
                "cannot write what the program prints: No space left on "
                "device");
    assert_in_range(newest_checkpoint(), 0, 3);
    r = run_there("", "--checkpoint checkpoints --resume --checksum");
    assert_null(
        file_read(arena, arena_printf(arena, "%s/out", whole), &want, &len));
    assert_string_equal(r.out, want);
}

static void
streams_are_closed(void)
{
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
}

/* No file gets the number of a standard stream, and with it the program's
 * output. */
static void
a_run_without_an_output_writes_no_file_instead(void **state)
{
    (void)state;
    Ran r = run_prepared(streams_are_closed, "--every 1000 --log-dir logs");
    expect_told(&r, 3,
                "cannot write what the program prints: Bad file descriptor");
    expect_same_end();
}

static void
files_are_limited(void)
{
    const struct rlimit limit = {1500, 1500};
    if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
        _exit(98);
}

static void
a_limit_of_files_is_told(void **state)
{
    (void)state;
    Ran r = run_prepared(files_are_limited, "--every 1 --quiet");
    expect_told(&r, 3,
                "cannot write \"checkpoints/step-1.ckpt\": File too large");
    assert_int_equal(newest_checkpoint(), 0);
    expect_same_end();
}

/* ---- costs -------------------------------------------------------------- */

static double
megabytes_of(const char *name)
{
    struct stat st;
    assert_int_equal(stat(in_dir(name), &st), 0);
    return (double)st.st_size / 1e6;
}

static double
seconds_of(const Ran *r, const char *line)
{
    const char *at = strstr(r->err, line);
    if (!at)
        fail_msg("no \"%s\" in: %s", line, r->err);
    return strtod(at + strlen(line), NULL);
}

/* How long steps waited, how often, and for how many bytes. */
static void
what_steps_wait_for_checkpoints_is_told(void **state)
{
    (void)state;
    int num;
    double all, each, waited, most, end;
    Ran r = run_there("", "--checkpoint c --every 8 --stats");
    const char *line = strstr(r.err, "  checkpoints  ");
    assert_non_null(line);
    assert_int_equal(
        sscanf(line,
               " checkpoints %lf s: %d of %lf MB, steps waited %lf ms for "
               "each, %lf ms at most, and the end %lf ms",
               &all, &num, &each, &waited, &most, &end),
        6);
    assert_int_equal(num, 3);
    double files = megabytes_of("c/step-8.ckpt") +
                   megabytes_of("c/step-16.ckpt") +
                   megabytes_of("c/step-24.ckpt");
    assert_true(fabs(3 * each - files) < 0.003);
    assert_true(waited > 0 && most >= waited && most <= 3 * waited + 0.01);
    assert_true(fabs(1e3 * all - 3 * waited - end) < 1);
    double parts = seconds_of(&r, "\n  devices ") +
                   seconds_of(&r, "\n  data ") + seconds_of(&r, "\n  main ") +
                   all;
    assert_true(fabs(seconds_of(&r, "\ntime ") - parts) < 0.003);
    r = run_there("", "--checkpoint many --every 100 --stats");
    expect_told(&r, 0, "\n  checkpoints  0.000 s\n");
    r = run_there("", "--stats");
    assert_null(strstr(r.err, "checkpoint"));
}

/* ---- damage ------------------------------------------------------------- */

static void
damage(const char *name, size_t keep)
{
    char *bytes;
    size_t len;
    assert_null(file_read(arena, in_dir(name), &bytes, &len));
    assert_true(len > keep);
    bytes[len / 2] ^= 1;
    assert_null(file_write(in_dir(name), bytes, keep ? keep : len));
}

static void
the_newest_that_is_whole_is_taken(void **state)
{
    (void)state;
    Ran r = run_there("", "--checkpoint checkpoints --every 8");
    assert_int_equal(r.code, 0);
    damage("checkpoints/step-24.ckpt", 0);
    damage("checkpoints/step-16.ckpt", 1000);
    r = run_there("", "--checkpoint checkpoints --every 100 --resume");
    expect_told(
        &r, 0,
        "cannot resume from \"checkpoints/step-24.ckpt\": it is damaged "
        "(checksum of its state); trying the one before it\n"
        "cannot resume from \"checkpoints/step-16.ckpt\": it is cut "
        "short: ");
    expect_told(&r, 0, "resuming after step 8, from");
    damage("checkpoints/step-8.ckpt", 0);
    r = run_there("", "--checkpoint checkpoints --resume");
    expect_told(&r, 1, "cannot resume from \"checkpoints/step-8.ckpt\"");
}

/* With checksums out of the way, whatever is in a file: it is refused, or the
 * run is made ready. */
static void
load_damaged(const Plan *p, size_t at, unsigned char byte, size_t keep)
{
    char *bytes;
    size_t len;
    const char *path = in_dir("broken/step-8.ckpt");
    FILE *nowhere = fopen("/dev/null", "w");
    RtOptions options = {.checkpoint_dir = in_dir("broken"),
                         .every = 8,
                         .resume = true,
                         .quiet = true,
                         .load_only = true,
                         .pipeline_threads = at % 2,
                         .out = nowhere,
                         .err = nowhere};
    assert_null(
        file_read(arena, in_dir("checkpoints/step-8.ckpt"), &bytes, &len));
    bytes[at % len] = (char)byte;
    assert_null(file_write(path, bytes, keep < len ? keep : len));
    Status st = rt_run(p, &options);
    if (st && status_kind(st) != STATUS_INPUT)
        fail_msg("byte %zu = %u: %s", at % len, byte, status_message(st));
    status_free(st);
    fclose(nowhere);
}

static void
damage_behind_the_checksums_does_no_harm(void **state)
{
    (void)state;
    Plan *p;
    struct stat info;
    Ran r = run_there("", "--checkpoint checkpoints --every 8");
    assert_int_equal(r.code, 0);
    assert_null(file_make_folder(in_dir("broken")));
    assert_int_equal(stat(in_dir("checkpoints/step-8.ckpt"), &info), 0);
    assert_null(plan_read(arena, plan, &p));
    setenv("TFD_CHECKSUMS", "0", 1);
    size_t len = (size_t)info.st_size;
    for (size_t at = 0; at < len; at += 1 + at / 40)
        load_damaged(p, at, at % 3 ? 0xff : 0x80, SIZE_MAX);
    for (size_t keep = 0; keep < len; keep += 1 + len / 50)
        load_damaged(p, 0, 't', keep);
    unsetenv("TFD_CHECKSUMS");
}

/* The steps done stand behind the name of the event file and its bytes. */
static void
steps_that_no_run_counts_are_refused(void **state)
{
    (void)state;
    char *bytes;
    size_t len;
    int64_t name_len, most = INT64_MAX;
    Ran r = run_there("", "--checkpoint checkpoints --every 8");
    assert_int_equal(r.code, 0);
    const char *path = in_dir("checkpoints/step-24.ckpt");
    assert_null(file_read(arena, path, &bytes, &len));
    char *name = memmem(bytes, len, "events.out", 10);
    assert_non_null(name);
    memcpy(&name_len, name - sizeof name_len, sizeof name_len);
    memcpy(name + name_len + sizeof(int64_t), &most, sizeof most);
    assert_null(file_write(path, bytes, len));
    r = run_there("TFD_CHECKSUMS=0", "--checkpoint checkpoints --resume");
    expect_told(&r, 1,
                "9223372036854775807 is not from 0 to 4611686018427387904");
}

/* The name of the event file has no folder in it. */
static void
a_name_that_leads_elsewhere_is_refused(void **state)
{
    (void)state;
    char *bytes;
    size_t len;
    Ran r = run_there("", "--checkpoint checkpoints --every 8");
    assert_int_equal(r.code, 0);
    const char *path = in_dir("checkpoints/step-24.ckpt");
    assert_null(file_read(arena, path, &bytes, &len));
    char *name = memmem(bytes, len, "events.out", 10);
    assert_non_null(name);
    name[6] = '/';
    assert_null(file_write(path, bytes, len));
    r = run_there("TFD_CHECKSUMS=0", "--checkpoint checkpoints --resume");
    expect_told(&r, 1, "\" is no name of a file");
}

/* ---- files -------------------------------------------------------------- */

static void
summaries_may_be_moved_away(void **state)
{
    (void)state;
    assert_true(dies_at(9, 3));
    run_ok(arena, "mv %s %s", in_dir("logs"), in_dir("elsewhere"));
    Ran r = run_there("", "--checkpoint checkpoints --resume");
    expect_told(&r, 0, "No such file or directory; a new file begins here\n");
}

static void
summaries_that_are_no_longer_kept_are_told(void **state)
{
    (void)state;
    assert_true(dies_at(9, 3));
    Ran r = run(arena,
                "env -C %s %s %s --checkpoint checkpoints --every 8 --resume",
                dir, getenv("TFD_RUN"), plan);
    expect_told(&r, 0,
                "\" ends here: the run was begun with --log-dir, and "
                "without it summaries are not kept\n");
    r = run(arena,
            "env -C %s %s %s --checkpoint checkpoints --every 8 --resume", dir,
            getenv("TFD_RUN"), plan);
    assert_int_equal(r.code, 0);
    assert_null(strstr(r.err, "ends here"));
}

static void
summaries_that_are_cut_short_are_told(void **state)
{
    (void)state;
    FileNames names;
    assert_true(dies_at(9, 3));
    assert_null(file_list(arena, in_dir("logs"), &names));
    for (int i = 0; i < names.len; i++)
        if (names.data[i][0] != '.')
            assert_int_equal(
                truncate(
                    arena_printf(arena, "%s/%s", in_dir("logs"), names.data[i]),
                    30),
                0);
    Ran r = run_there("", "--checkpoint checkpoints --resume");
    expect_told(&r, 0, " bytes; a new file begins here\n");
}

static const char many_steps[] =
    "var w: f32 = 0.0\n"
    "dataset d = range(40).shuffle(20).batch(1)\n"
    "fn step(x) { w = w * 0.9 + all_reduce(sum, f32(sum(x))) }\n"
    "main {\n"
    "  for x in distribute(d) { run step(x) }\n"
    "  print(\"{w:.9e}\")\n"
    "}\n";

/* The step that a life went on from, or -1. */
static int64_t
resumed_after(const char *err)
{
    const char *at = strstr(err, "resuming after step ");
    return at ? atoll(at + strlen("resuming after step ")) : -1;
}

/* Whichever file operation fails, there is a message, and the next life goes on
 * from where this one did, or later.  (Where an old checkpoint cannot be
 * removed the run goes on to its end, and another one begins.) */
static void
no_failure_loses_a_checkpoint(void **state)
{
    (void)state;
    int64_t last = 0, lives = 0;
    write_text(in_dir("many.tfd"), many_steps);
    run_ok(arena, "tfdc %s -o %s", in_dir("many.tfd"), in_dir("many.tfp"));
    Ran want = run_ok(arena, "tfd-run %s", in_dir("many.tfp"));
    for (int n = 1; n < 60; n++) {
        Ran r = run(arena,
                    "env -C %s TFD_FAIL=io:%d %s many.tfp --checkpoint c "
                    "--every 1 --resume",
                    dir, n, getenv("TFD_RUN"));
        int64_t step = resumed_after(r.err);
        assert_true(step < 0 || step >= last);
        last = step < 0 ? last : step;
        lives += step > 0;
        if (r.code == 0) {
            assert_string_equal(r.out, want.out);
            run_ok(arena, "rm -r %s", in_dir("c"));
            last = 0;
        } else if ((r.code != 1 && r.code != 3) || !strstr(r.err, "error: ")) {
            fail_msg("io:%d: exit status %d: %s", n, r.code, r.err);
        }
    }
    assert_true(lives > 9);
    Ran r = run_ok(arena, "tfd-run %s --checkpoint %s --resume",
                   in_dir("many.tfp"), in_dir("c"));
    assert_string_equal(r.out, want.out);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, new_dir, release_arena)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_life_may_end_at_any_step),
        TEST(a_life_goes_on_from_far_back),
        TEST(a_run_that_is_done_ends_the_same_again),
        TEST(it_is_told_where_it_begins),
        TEST(a_folder_in_use_needs_resume),
        TEST(options_are_checked),
        TEST(params_are_those_of_the_beginning),
        TEST(other_plans_are_refused),
        TEST(it_goes_on_with_other_devices),
        TEST(an_interrupt_ends_with_a_checkpoint),
        TEST(two_signals_at_once_are_one_interrupt),
        TEST(a_terminal_that_is_closed_ends_with_a_checkpoint),
        TEST(a_reader_that_is_gone_ends_with_a_checkpoint),
        TEST(lines_that_were_not_written_come_again),
        TEST(a_run_without_an_output_writes_no_file_instead),
        TEST(a_limit_of_files_is_told),
        TEST(what_steps_wait_for_checkpoints_is_told),
        TEST(the_newest_that_is_whole_is_taken),
        TEST(damage_behind_the_checksums_does_no_harm),
        TEST(steps_that_no_run_counts_are_refused),
        TEST(a_name_that_leads_elsewhere_is_refused),
        TEST(summaries_may_be_moved_away),
        TEST(summaries_that_are_no_longer_kept_are_told),
        TEST(summaries_that_are_cut_short_are_told),
        TEST(no_failure_loses_a_checkpoint),
    };
    return cmocka_run_group_tests_name("resume", tests, begin_group, end_group);
}
