/*
 * workers_test.c - plans of several workers in several processes
 *
 * The programs of tests/conformance whose plans have workers print the same in
 * any number of processes as in one: parts of batches, rows of files, empty
 * shares.  MWM-06, MWM-09 and MWM-10 are about processes alone: which of them
 * writes, and that they go on together from a checkpoint.
 */
#include "tests/cluster/job_run.h"

#include <signal.h>
#include <sys/stat.h>
#include "tests/e2e/run.h"
#include "tests/unit/dir.h"

/* ---- plans --------------------------------------------------------------- */

/* Files of the lines "#= NAME: TEXT" of a program. */
static void
write_files(const char *text)
{
    for (; text[0] == '#'; text = strchr(text, '\n') + 1) {
        if (text[1] != '=')
            continue;
        size_t len = strcspn(text, "\n");
        char *name = arena_strndup(arena, text + 3, len - 3);
        char *content = strstr(name, ": ");
        assert_non_null(content);
        *content = '\0';
        write_text(in_dir(name), content + 2);
    }
}

static const Plan *
compile(const char *text, int workers, const char *devices)
{
    const char *source = in_dir("program.tfd"), *path = in_dir("program.tfp");
    Plan *p;
    write_text(source, text);
    run_ok(arena,
           "tfdc %s -o %s --strategy multi_worker_mirrored --workers %d "
           "--devices %s",
           source, path, workers, devices);
    Status st = plan_read(arena, path, &p);
    assert_null(st);
    return p;
}

/* ---- what is printed ----------------------------------------------------- */

static const struct {
    const char *program;
    int workers;
    const char *devices;
    int processes[2];
} programs[] = {
    /* clang-format off */
    {"tests/conformance/workers.tfd", 2, "cpu:0", {2}},
    {"tests/conformance/workers.tfd", 2, "cpu:0-1", {2, 4}},
    {"tests/conformance/workers.tfd", 3, "cpu:0", {3}},
    {"tests/conformance/many_workers.tfd", 2, "cpu:0-1", {2, 4}},
    {"tests/conformance/many_workers.tfd", 3, "cpu:0", {3}},
    {"tests/resume/workers.tfd", 4, "cpu:0-1", {2, 8}},
    /* clang-format on */
};

static void
processes_print_what_one_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const char *text = source_text(arena, programs[i].program);
        write_files(text);
        const Plan *p = compile(text, programs[i].workers, programs[i].devices);
        JobRun job = {.options.data_dir = dir,
                      .options.pipeline_threads = i % 2};
        const char *want = output_of(arena, p, &job);
        for (int k = 0; k < 2 && programs[i].processes[k]; k++) {
            job.size = programs[i].processes[k];
            assert_job_prints(arena, p, &job, want);
        }
    }
}

/* ---- what is written ----------------------------------------------------- */

static const char saving[] =
    "dataset d = range(24).map(fn(i) = f32(i)).batch(4)\n"
    "var w: f32 = 0.5\n"
    "var seen: i64 = 0 sync(on_read) aggregate(sum)\n"
    "fn step(x) {\n"
    "  w += all_reduce(sum, sum(x)) * w / 1000.0\n"
    "  seen += len(x)\n"
    "}\n"
    "main {\n"
    "  for epoch in 0..2 {\n"
    "    for x in distribute(d) { run step(x) }\n"
    "    save(\"saved\")\n"
    "  }\n"
    "  print(\"{w} {seen}\")\n"
    "}\n";

enum { PROCESSES = 2 };

static const char *
folder_of(int rank)
{
    return in_dir(arena_printf(arena, "rank-%d", rank));
}

/* A folder for each process; this one is in the first. */
static void
make_folders(void)
{
    for (int r = 0; r < PROCESSES; r++)
        assert_int_equal(mkdir(folder_of(r), 0777), 0);
    assert_int_equal(chdir(folder_of(0)), 0);
}

static void
enter_folder(void *data, int rank, RtOptions *options)
{
    (void)data, (void)options;
    assert_int_equal(chdir(folder_of(rank)), 0);
}

static bool
is_there(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

/* A process has a folder of its own: nothing needs a disk that they share. */
static void
MWM_06_the_chief_alone_saves(void **state)
{
    (void)state;
    const Plan *p = compile(saving, 2, "cpu:0");
    JobRun job = {.size = PROCESSES, .prepare = enter_folder};
    make_folders();
    const char *want = output_of(arena, p, &(JobRun){0});
    assert_job_prints(arena, p, &job, want);
    assert_true(is_there(
        arena_printf(arena, "%s/saved/variables.safetensors", folder_of(0))));
    assert_int_equal(rmdir(folder_of(1)), 0); /* it is empty */
}

/* ---- what ends and goes on ----------------------------------------------- */

/* Where processes end: by a signal to themselves, after that step. */
typedef struct End {
    int64_t step;
    int rank; /* that one alone is interrupted; -1: all are killed */
} End;

static atomic_bool interrupted;

static void
end_at(void *data, int64_t step)
{
    const End *end = data;
    if (step != end->step)
        return;
    if (end->rank < 0)
        raise(SIGKILL);
    atomic_store(&interrupted, true);
}

static void
prepare_end(void *data, int rank, RtOptions *options)
{
    const End *end = data;
    enter_folder(NULL, rank, options);
    if (end->rank >= 0 && end->rank != rank)
        return;
    options->on_step = end_at;
    options->on_step_data = data;
    options->interrupted = &interrupted;
}

/* Two lives: the first ends as it is told, the second goes on from its newest
 * checkpoint; the status of each process of the first. */
static JobEnd
live_twice(const Plan *p, const char *want, End end)
{
    const char *folder = arena_printf(arena, "after-%d", (int)end.step);
    JobRun job = {.size = PROCESSES,
                  .options = {.checkpoint_dir = folder, .every = 2},
                  .prepare = prepare_end,
                  .data = &end};
    JobEnd first = run_job(arena, p, &job);
    job.options.resume = true;
    job.prepare = enter_folder;
    JobEnd second = run_job(arena, p, &job);
    for (int r = 0; r < PROCESSES; r++)
        if (second.exit_status[r])
            fail_msg("rank %d: %s", r, second.err[r]);
    assert_non_null(strstr(second.err[0], "resuming after step "));
    assert_string_equal(second.out[0], want);
    assert_true(is_there(folder));
    assert_false(is_there(arena_printf(arena, "%s/%s", folder_of(1), folder)));
    return first;
}

static void
MWM_09_all_go_on_from_the_last_checkpoint(void **state)
{
    (void)state;
    const Plan *p = compile(saving, 2, "cpu:0");
    make_folders();
    const char *want = build_run(arena, p, (RtOptions){0}).out;
    for (int step = 3; step < 12; step += 4) {
        JobEnd end = live_twice(p, want, (End){.step = step, .rank = -1});
        for (int r = 0; r < PROCESSES; r++)
            assert_int_equal(end.exit_status[r], 128 + SIGKILL);
    }
}

/* The same checkpoint, wherever its workers were. */
static void
another_number_of_processes_goes_on(void **state)
{
    static const int sizes[] = {4, 2, 8, 1};
    const char *text = source_text(arena, "tests/resume/workers.tfd");
    const Plan *p = compile(text, 4, "cpu:0-1");
    const char *want = build_run(arena, p, (RtOptions){0}).out;
    (void)state;
    for (int r = 0; r < FORKED_MOST; r++)
        assert_int_equal(mkdir(folder_of(r), 0777), 0);
    JobEnd end;
    for (int life = 0; life < 4; life++) {
        End at = {.step = life < 3 ? 4 * life + 3 : -1, .rank = -1};
        JobRun job = {.size = sizes[life],
                      .options = {.checkpoint_dir = "checkpoints",
                                  .every = 1,
                                  .resume = true},
                      .prepare = prepare_end,
                      .data = &at};
        end = run_job(arena, p, &job);
        if (end.exit_status[0] != (life < 3 ? 128 + SIGKILL : 0))
            fail_msg("%d processes: %s", sizes[life], end.err[0]);
    }
    const char *last = strstr(want, "pass 1:");
    assert_non_null(strstr(end.err[0], "resuming after step "));
    assert_non_null(last);
    assert_non_null(strstr(end.out[0], last));
}

/* Whichever is interrupted, both save after one step and end as interrupted
 * runs do. */
static void
MWM_10_one_that_is_interrupted_ends_all_after_a_step(void **state)
{
    (void)state;
    const Plan *p = compile(saving, 2, "cpu:0");
    make_folders();
    const char *want = build_run(arena, p, (RtOptions){0}).out;
    for (int rank = 0; rank < PROCESSES; rank++) {
        End at = {.step = 4 + rank, .rank = rank};
        JobEnd end = live_twice(p, want, at);
        for (int r = 0; r < PROCESSES; r++)
            assert_int_equal(end.exit_status[r], 130);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, new_dir, release_arena)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(processes_print_what_one_does),
        TEST(MWM_06_the_chief_alone_saves),
        TEST(MWM_09_all_go_on_from_the_last_checkpoint),
        TEST(another_number_of_processes_goes_on),
        TEST(MWM_10_one_that_is_interrupted_ends_all_after_a_step),
    };
    return cmocka_run_group_tests_name("workers", tests, NULL, NULL);
}
