/*
 * hang_test.c - programs that never end, and how they are ended
 *
 * With --timeout a run without progress ends with a message that says where
 * each replica is; an interrupt ends any run.  Both hold inside loops and
 * inside kernels, on devices, in main and in a dataset.
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "tests/e2e/run.h"

/* ---- programs ------------------------------------------------------------ */

/* Replica 1 goes round for ever, or all do; the others wait in the sum. */
#define STEP(condition)                                                        \
    "var n: f32 = 0.0\n"                                                       \
    "fn step(x) {\n"                                                           \
    "  mut y = sum(x)\n"                                                       \
    "  if " condition " {\n"                                                   \
    "    while y >= 0.0 { y = y * 0.5 + 1.0 }\n"                               \
    "  }\n"                                                                    \
    "  n += all_reduce(sum, y)\n"                                              \
    "}\n"
#define TRAIN                                                                  \
    "dataset d = range(64).map(fn(i) = f32(i)).batch(8)\n"                     \
    "main {\n"                                                                 \
    "  print(\"begun\")\n"                                                     \
    "  for x in distribute(d) { run step(x) }\n"                               \
    "}\n"

static const char one_loops[] = STEP("replica_id == 1") TRAIN;
/* The collective has a time of its own, shorter than that of the run. */
static const char one_loops_briefly[] =
    "strategy mirrored(communication_options = (timeout_seconds: 0.25))\n" STEP(
        "replica_id == 1") TRAIN;
static const char all_loop[] = STEP("replica_id >= 0") TRAIN;
/* In the third step. */
static const char one_loops_later[] =
    STEP("replica_id == 1 and y > 60.0") TRAIN;

static const char main_loops[] = "main {\n"
                                 "  print(\"begun\")\n"
                                 "  while true { }\n"
                                 "}\n";
static const char main_counts[] = "main {\n"
                                  "  print(\"begun\")\n"
                                  "  mut n = 1.0\n"
                                  "  while n > 0.0 { n = n * 0.5 + 1.0 }\n"
                                  "  print(\"{n}\")\n"
                                  "}\n";

static const char data_loop[] = "fn endless(i) {\n"
                                "  mut x = i\n"
                                "  while x > -1 { x = x // 2 + 1 }\n"
                                "  return f32(x)\n"
                                "}\n"
                                "dataset d = range(64).map(endless).batch(8)\n"
                                "fn step(x) = all_reduce(sum, sum(x))\n"
                                "main {\n"
                                "  print(\"begun\")\n"
                                "  for x in distribute(d) { run step(x) }\n"
                                "}\n";

/* A kernel that takes some ten seconds, and looks at nothing. */
static const char one_computes[] =
    "var n: f32 = 1.0\n"
    "fn step(x) {\n"
    "  mut y = x\n"
    "  if replica_id == 1 {\n"
    "    y = sum(sin(x * f32(iota(4000000000))))\n"
    "  }\n"
    "  n += all_reduce(sum, y)\n"
    "}\n"
    "main {\n"
    "  print(\"begun\")\n"
    "  run step(1.0)\n"
    "}\n";

/* The same in a dataset, when main has failed to save. */
static const char data_computes[] =
    "var w: f32 = 1.0\n"
    "fn slow(i) = f32(i) + sum(sin(f32(i) * f32(iota(40000000000))))\n"
    "dataset d = range(64).map(slow).batch(8)\n"
    "main {\n"
    "  let it = iter(distribute(d))\n"
    "  let begin = now()\n"
    "  while now() - begin < 0.3 { }\n"
    "  save(\"%s/p.tfd/saved\")\n"
    "  print(\"{has_next(it)}\")\n"
    "}\n";

/* More than a pipe takes: 5000 lines of 100 bytes, and one before them. */
#define LINE                                                                   \
    "print(\"{i}: a line of a program that prints more of them than a pipe "   \
    "takes, if nobody reads what it has printed\")"
static const char step_prints[] = "fn step(i) { " LINE " }\n"
                                  "main {\n"
                                  "  print(\"begun\")\n"
                                  "  for i in 0..5000 { run step(i) }\n"
                                  "}\n";
static const char main_prints[] = "main {\n"
                                  "  print(\"begun\")\n"
                                  "  for i in 0..5000 { " LINE " }\n"
                                  "}\n";

static const char *
compile(const char *dir, const char *program, const char *devices)
{
    const char *path = arena_printf(arena, "%s/p.tfd", dir);
    const char *plan = arena_printf(arena, "%s/p.tfp", dir);
    write_text(path, program);
    run_ok(arena, "tfdc %s --devices %s -o %s", path, devices, plan);
    return plan;
}

/* ---- --timeout ----------------------------------------------------------- */

typedef struct Case {
    const char *program, *devices, *timeout;
    const char *says[4]; /* parts of the message, in order */
    const char *where;   /* the devices that it runs on; NULL: the same */
    int notes;           /* how many replicas it names; 0: not counted */
} Case;

static const Case cases[] = {
    {one_loops,
     "cpu:0-1",
     "0.3",
     {"p.tfd:7:8: error: the replicas do not meet in this all_reduce: after "
      "0.3 seconds replica 0 has arrived, replica 1 has not",
      "n += all_reduce(sum, y)",
      "p.tfd:5:5: note: replica 1, device cpu:1, is in this while"},
     NULL,
     0},
    {one_loops,
     "cpu:0-2",
     "0.3",
     {"after 0.3 seconds replicas 0, 2 have arrived, replica 1 has not",
      "note: replica 1, device cpu:1, is in this while"},
     NULL,
     0},
    {one_loops_briefly,
     "cpu:0-1",
     "60",
     {"p.tfd:8:8: error: the replicas do not meet in this all_reduce: after "
      "0.25 seconds replica 0 has arrived, replica 1 has not (timeout_seconds "
      "allows more)",
      "p.tfd:6:5: note: replica 1, device cpu:1, is in this while"},
     NULL,
     0},
    {one_loops_briefly,
     "cpu:0-1",
     "0.15",
     {"after 0.15 seconds replica 0 has arrived, replica 1 has not (--timeout "
      "allows more)"},
     NULL,
     0},
    {all_loop,
     "cpu:0-1",
     "0.3",
     {"p.tfd:12:28: error: this step has not ended after 0.3 seconds "
      "(--timeout allows more)",
      "p.tfd:5:5: note: replica 0, device cpu:0, is in this while",
      "p.tfd:5:5: note: replica 1, device cpu:1, is in this while"},
     NULL,
     0},
    {all_loop,
     "cpu:0",
     "0.3",
     {"error: this step has not ended after 0.3 seconds",
      "p.tfd:5:5: note: replica 0, device cpu:0, is in this while"},
     NULL,
     0},
    {main_loops,
     "cpu:0",
     "0.3",
     {"p.tfd:3:3: error: main has not gone on for 0.3 seconds",
      "while true { }", "note: main is in this while"},
     NULL,
     0},
    {main_counts,
     "cpu:0-1",
     "0.3",
     {"p.tfd:4:3: error: main has not gone on for 0.3 seconds"},
     NULL,
     0},
    {data_loop,
     "cpu:0-1",
     "0.3",
     {"p.tfd:10:12: error: no data have come after 0.3 seconds (--timeout "
      "allows more)",
      "p.tfd:3:3: note: the dataset's function is in this while"},
     NULL,
     0},
    {one_computes,
     "cpu:0-1",
     "0.3",
     {"after 0.3 seconds replica 0 has arrived, replica 1 has not",
      "p.tfd:5:9: note: replica 1, device cpu:1, is in this sum"},
     NULL,
     0},
    {one_loops,
     "cpu:0-3",
     "0.3",
     {"after 0.3 seconds replicas 0, 2, 3 have arrived, replica 1 has not",
      "p.tfd:5:5: note: replica 1, device cpu:0, is in this while"},
     "cpu:0-1",
     1},
    {one_loops,
     "cpu:0-3",
     "0.3",
     {"error: this step has not ended after 0.3 seconds",
      "p.tfd:5:5: note: replica 1, device cpu:0, is in this while"},
     "cpu:0",
     1},
    {one_loops,
     "cpu:0-1",
     "0.3",
     {"error: this step has not ended after 0.3 seconds",
      "p.tfd:5:5: note: replica 1, device sandbox:1, is in this while"},
     "sandbox:0-1",
     0},
    {all_loop,
     "cpu:0-3",
     "0.3",
     {"error: this step has not ended after 0.3 seconds",
      "p.tfd:5:5: note: replica 0, device cpu:0, is in this while",
      "p.tfd:5:5: note: replica 2, device cpu:1, is in this while"},
     "cpu:0-1",
     2},
};

static int
num_of(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

/* Who waits for its turn on a device, or for others, is not to blame. */
static void
check_notes(const Case *c, const char *err)
{
    int n = num_of(err, ": note: replica ");
    if (c->notes && n != c->notes)
        fail_msg("%d replicas are named instead of %d:\n%s", n, c->notes, err);
}

static void
what_does_not_go_on_is_ended_and_named(void **state)
{
    (void)state;
    const char *dir = work_dir(arena);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *c = &cases[i];
        const char *plan = compile(dir, c->program, c->devices);
        Ran r = run(arena, "tfd-run %s --timeout %s --devices %s", plan,
                    c->timeout, c->where ? c->where : c->devices);
        const char *at = r.err;
        check_notes(c, r.err);
        for (int k = 0; k < 4 && c->says[k]; k++) {
            const char *found = strstr(at, c->says[k]);
            if (!found || r.code != 1)
                fail_msg("case %zu: exit status %d, and not \"%s\" in\n%s", i,
                         r.code, c->says[k], r.err);
            at = found;
        }
    }
}

/* Where main ended does not matter then. */
static void
a_failed_save_does_not_wait_for_data(void **state)
{
    (void)state;
    const char *dir = work_dir(arena);
    const char *plan =
        compile(dir, arena_printf(arena, data_computes, dir), "cpu:0");
    double begin = clock_seconds();
    Ran r = run(arena, "tfd-run %s", plan);
    double took = clock_seconds() - begin;
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "p.tfd:8:3: error: cannot "));
    if (took > 5.0)
        fail_msg("it took %g seconds", took);
}

/* Two steps are done, and the checkpoint after the second is there. */
static void
a_run_with_checkpoints_says_from_where_it_goes_on(void **state)
{
    (void)state;
    const char *dir = work_dir(arena);
    const char *plan = compile(dir, one_loops_later, "cpu:0-1");
    Ran r = run(arena,
                "tfd-run %s --timeout 0.3 --checkpoint %s/c --every 2 --quiet",
                plan, dir);
    assert_int_equal(r.code, 1);
    if (!strstr(r.err, "note: --resume goes on after step 2"))
        fail_msg("%s", r.err);
    r = run(arena,
            "tfd-run %s --timeout 0.3 --checkpoint %s/c --every 2 --resume",
            plan, dir);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "resuming after step 2, from"));
}

/* Rounds of a loop that launches and prints are no standing still. */
static void
what_goes_on_is_left_alone(void **state)
{
    static const char busy[] = "var n: f32 = 0.0\n"
                               "fn step() {\n"
                               "  mut y = 1.0\n"
                               "  for i in 0..20000 { y = y * 0.5 + 1.0 }\n"
                               "  n += y\n"
                               "}\n"
                               "main {\n"
                               "  let begin = now()\n"
                               "  while now() - begin < 1.0 { run step() }\n"
                               "  print(\"done\")\n"
                               "}\n";
    (void)state;
    const char *dir = work_dir(arena);
    const char *plan = compile(dir, busy, "cpu:0-1");
    Ran r = run_ok(arena, "tfd-run %s --timeout 0.5", plan);
    assert_string_equal(r.out, "done\n");
}

/* Nor is the reader of what is printed to be in time. */
static void
a_reader_that_pauses_is_waited_for(void **state)
{
    static const char *const programs[] = {step_prints, main_prints};
    (void)state;
    const char *dir = work_dir(arena);
    const char *script = arena_printf(arena, "%s/pause.sh", dir);
    write_text(script, "\"$TFD_RUN\" $1 --timeout 0.3 | (sleep 2; wc -l)\n");
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const char *plan = compile(dir, programs[i], "cpu:0");
        Ran r = run_ok(arena, "sh %s %s", script, plan);
        assert_string_equal(r.out, "5001\n");
        assert_string_equal(r.err, "");
    }
}

/* ---- interrupts ---------------------------------------------------------- */

typedef struct Started {
    pid_t pid;
    int out;
} Started;

static Started
start(const char *dir, const char *plan, const char *checkpoints)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const char *err = arena_printf(arena, "%s/err", dir);
    Started s = {fork(), ends[0]};
    assert_true(s.pid >= 0);
    if (s.pid == 0) {
        int fd = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        dup2(ends[1], 1);
        dup2(fd, 2);
        close(ends[0]);
        close(ends[1]);
        if (checkpoints)
            execl(getenv("TFD_RUN"), "tfd-run", plan, "--timeout", "1",
                  "--checkpoint", checkpoints, "--every", "2", (char *)NULL);
        else
            execl(getenv("TFD_RUN"), "tfd-run", plan, (char *)NULL);
        _exit(98);
    }
    close(ends[1]);
    return s;
}

/* Its exit status after that signal. */
static int
end_by(Started s, int signal_number)
{
    int status;
    kill(s.pid, signal_number);
    alarm(60); /* ends this test, if the run does not end */
    assert_int_equal(waitpid(s.pid, &status, 0), s.pid);
    alarm(0);
    close(s.out);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int
end_interrupted(Started s)
{
    return end_by(s, SIGINT);
}

static void
wait_for_line(Started s)
{
    char c = 0;
    while (read(s.out, &c, 1) == 1 && c != '\n')
        ;
    assert_int_equal(c, '\n');
}

/* The same, once it has printed its first line. */
static int
interrupt(Started s)
{
    wait_for_line(s);
    return end_interrupted(s);
}

static void
the_first_interrupt_ends_it(void **state)
{
    static const char *const programs[] = {one_loops, main_counts, data_loop,
                                           one_computes};
    (void)state;
    const char *dir = work_dir(arena);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const char *plan = compile(dir, programs[i], "cpu:0-1");
        assert_int_equal(interrupt(start(dir, plan, NULL)), 130);
    }
}

/* Until a pipe gets no more bytes: its writer waits for a reader. */
static void
wait_until_full(int fd)
{
    int n = 0, before = -1;
    alarm(60);
    while (n == 0 || n != before) {
        before = n;
        usleep(300000);
        assert_int_equal(ioctl(fd, FIONREAD, &n), 0);
    }
    alarm(0);
}

/* Which has stopped reading. */
static void
an_interrupt_does_not_wait_for_a_reader(void **state)
{
    static const char *const programs[] = {step_prints, main_prints};
    (void)state;
    const char *dir = work_dir(arena);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const char *plan = compile(dir, programs[i], "cpu:0");
        Started s = start(dir, plan, NULL);
        wait_until_full(s.out);
        assert_int_equal(end_interrupted(s), 130);
        const char *err = run_ok(arena, "cat %s/err", dir).out;
        assert_non_null(strstr(err, "interrupted after "));
    }
}

/* The current step is waited for, but not for ever. */
static void
an_interrupt_leaves_a_step_that_does_not_end(void **state)
{
    (void)state;
    const char *dir = work_dir(arena);
    const char *folder = arena_printf(arena, "%s/c", dir);
    const char *plan = compile(dir, all_loop, "cpu:0");
    assert_int_equal(interrupt(start(dir, plan, folder)), 130);
    const char *err = run_ok(arena, "cat %s/err", dir).out;
    assert_non_null(strstr(err, "interrupted after 0 steps, in the midst of "
                                "another; --resume goes on after step 0\n"));
    assert_non_null(
        strstr(err, "p.tfd:5:5: note: replica 0, device cpu:0, is in this "
                    "while"));
}

/* Of whatever kind: it is an interrupt. */
static void
the_second_interrupt_ends_it_at_once(void **state)
{
    (void)state;
    const char *dir = work_dir(arena);
    const char *folder = arena_printf(arena, "%s/c", dir);
    const char *plan = compile(dir, all_loop, "cpu:0");
    Started s = start(dir, plan, folder);
    wait_for_line(s);
    kill(s.pid, SIGINT);
    usleep(700000);
    assert_int_equal(end_by(s, SIGTERM), 130);
    assert_string_equal(run_ok(arena, "cat %s/err", dir).out, "");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_go_on_is_ended_and_named),
        cmocka_unit_test(a_failed_save_does_not_wait_for_data),
        cmocka_unit_test(a_run_with_checkpoints_says_from_where_it_goes_on),
        cmocka_unit_test(what_goes_on_is_left_alone),
        cmocka_unit_test(a_reader_that_pauses_is_waited_for),
        cmocka_unit_test(the_first_interrupt_ends_it),
        cmocka_unit_test(an_interrupt_does_not_wait_for_a_reader),
        cmocka_unit_test(an_interrupt_leaves_a_step_that_does_not_end),
        cmocka_unit_test(the_second_interrupt_ends_it_at_once),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
