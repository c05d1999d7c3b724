/*
 * runs_test.c - tfd-run -n: the examples in several processes
 *
 * What one process prints, with the checksum of all variables, so do several.
 */
#include "tests/e2e/run.h"
#include "tests/unit/dir.h"
#include "tests/unit/sweep.h"

#include "runtime/cluster/zmq/zmq.h"

typedef struct Example {
    const char *name, *compiler, *runner;
} Example;

#define MIRRORED "--devices cpu:0-3 "
#define WORKERS                                                                \
    "--strategy multi_worker_mirrored --workers 2 --devices cpu:0-1 "

static const Example examples[] = {
    {"linear", MIRRORED, ""},
    {"bigram", WORKERS "-D TEXT=part?.txt", ""},
    {"spiral", MIRRORED, "--set epochs=20"},
    {"charlm", WORKERS "-D TEXT=part?.txt -D C=8", "--set steps=3"},
    {"convnet", MIRRORED "-D SIZE=16 -D CHANNELS=16 -D BLOCKS=1",
     "--set epochs=1"},
};

static const char *const processes[] = {
    "-n 2",
    "-n 4",
    "-n 2 --devices cpu:0",
};

static int
set_up(void **state)
{
    new_dir(state);
    write_text(in_dir("part0.txt"), source_text(arena, "docs/style.md"));
    write_text(in_dir("part1.txt"), source_text(arena, "docs/glossary.md"));
    return 0;
}

static const char *
compile(const char *text, const char *options)
{
    const char *plan = in_dir("program.tfp");
    write_text(in_dir("program.tfd"), text);
    run_ok(arena, "tfdc %s -o %s %s", in_dir("program.tfd"), plan, options);
    return plan;
}

static Ran
run_plan(const char *plan, const char *options)
{
    return run(arena, "env -C %s %s %s --data %s %s", dir, getenv("TFD_RUN"),
               plan, dir, options);
}

static const char *
plan_of(const Example *e)
{
    const char *path = arena_printf(arena, "docs/examples/%s.tfd", e->name);
    return compile(source_text(arena, path), e->compiler);
}

static void
check_example(const Example *e)
{
    const char *plan = plan_of(e);
    const char *options = arena_printf(arena, "--checksum %s", e->runner);
    Ran want = run_plan(plan, options);
    assert_int_equal(want.code, 0);
    assert_non_null(memmem(want.out, want.out_len, "checksum ", 9));
    int n = sizeof processes / sizeof *processes;
    for (int i = 0; i < n; i++) {
        Ran r =
            run_plan(plan, arena_printf(arena, "%s %s", options, processes[i]));
        if (r.code)
            fail_msg("%s %s: %s", e->name, processes[i], r.err);
        assert_int_equal(r.out_len, want.out_len);
        assert_memory_equal(r.out, want.out, want.out_len);
        assert_string_equal(r.err, "");
    }
}

static void
examples_run_in_any_number_of_processes(void **state)
{
    (void)state;
    int n = sizeof examples / sizeof *examples;
    for (int i = sweep_first(n); i < n; i = sweep_next(i))
        check_example(&examples[i]);
}

/* ---- one message --------------------------------------------------------- */

static const char failing[] =
    "dataset train = range(32).batch(4)\n"
    "fn step(x) {\n"
    "  let odd = take(iota(15), x)\n"
    "  return all_reduce(sum, sum(odd))\n"
    "}\n"
    "main {\n"
    "  for x in distribute(train) { print(\"{run step(x)}\") }\n"
    "}\n";

/* Of replica 3 alone. */
static void
a_wrong_index_is_one_message(void **state)
{
    (void)state;
    const char *plan = compile(failing, MIRRORED);
    Ran one = run_plan(plan, "");
    assert_int_equal(one.code, 1);
    for (int size = 2; size <= 4; size *= 2) {
        Ran r = run_plan(plan, arena_printf(arena, "-n %d", size));
        assert_int_equal(r.code, 1);
        assert_string_equal(r.out, one.out);
        const char *first =
            strstr(r.err, "error: there are indices from 15 to 15");
        if (!first || strstr(first + 1, "error: "))
            fail_msg("%s", r.err);
        assert_non_null(strstr(r.err, "program.tfd:3:"));
        assert_non_null(
            strstr(r.err, arena_printf(arena, "of rank %d", size - 1)));
    }
}

/* Of an element, which a thread beside main makes while a step runs. */
static const char wrong_element[] =
    "var w: f32 = 0.0\n"
    "dataset train = range(16).map(fn(i) = f32(iota((9,))[i])).batch(4)\n"
    "fn step(x) { w += all_reduce(sum, sum(x)) }\n"
    "main {\n"
    "  for x in distribute(train) { run step(x) }\n"
    "}\n";

static void
a_wrong_element_is_one_message(void **state)
{
    (void)state;
    const char *plan = compile(wrong_element, MIRRORED);
    Ran one = run_plan(plan, "");
    assert_int_equal(one.code, 1);
    assert_non_null(strstr(one.err, "program.tfd:2:"));
    for (int size = 2; size <= 4; size *= 2) {
        Ran r = run_plan(plan, arena_printf(arena, "-n %d", size));
        assert_int_equal(r.code, 1);
        assert_string_equal(r.err, one.err);
    }
}

/* Nothing that main does needs what replica 3 would have computed. */
static const char fails_alone[] =
    "const SAYS = false; var w: f32 = 0.0\n"
    "fn step(n) {\n"
    "  if SAYS { print(\"of {replica_id}\") }\n"
    "  assert(not (n == 2 and replica_id == 3), \"step {n}\")\n"
    "}\n"
    "main {\n"
    "  for n in 0..100 {\n"
    "    run step(n)\n"
    "    save(\"saved-{n}\")\n"
    "    summary(\"n\", n, i64(n))\n"
    "    if n == 2 { assert(false, \"main\") }\n"
    "    print(\"after {n}\")\n"
    "  }\n"
    "}\n";

static void
check_fails_alone(const char *plan, const char *job)
{
    Ran r = run_plan(plan, job);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.out, "after 1\n"));
    assert_null(strstr(r.out, "after 2\n"));
    assert_non_null(strstr(r.err, "program.tfd:4:3: error: step 2\n"));
    assert_null(strstr(r.err, "error: main"));
    assert_int_equal(access(in_dir("saved-1"), F_OK), 0);
    assert_int_equal(access(in_dir("saved-2"), F_OK), -1);
    run_ok(arena, "rm -r %s %s", in_dir("saved-1"), in_dir("log"));
}

static void
main_does_nothing_after_a_step_that_failed_elsewhere(void **state)
{
    (void)state;
    static const char *const says[] = {"false", "true"};
    static const char *const jobs[] = {"", "-n 2", "-n 4", "-n 4 --link zmq"};
    for (int i = 0; i < 8; i++) {
        const char *plan =
            compile(fails_alone,
                    arena_printf(arena, MIRRORED "-D SAYS=%s", says[i % 2]));
        check_fails_alone(plan,
                          arena_printf(arena, "%s --log-dir log", jobs[i / 2]));
    }
}

static void
processes_divide_the_replicas(void **state)
{
    (void)state;
    Ran r = run_plan(compile(failing, MIRRORED), "-n 3");
    assert_int_equal(r.code, 2);
    const char *first = strstr(r.err, "cannot be divided among 3 processes "
                                      "evenly: start 1, 2 or 4");
    if (!first || strstr(first + 1, "cannot"))
        fail_msg("%s", r.err);
}

static bool
has_zmq(void)
{
    const RtZmq *zmq;
    Status st = rt_zmq_open(&zmq);
    bool has = !st;
    status_free(st);
    return has;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, release_arena)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(examples_run_in_any_number_of_processes),
        TEST(a_wrong_index_is_one_message),
        TEST(a_wrong_element_is_one_message),
        TEST(main_does_nothing_after_a_step_that_failed_elsewhere),
        TEST(processes_divide_the_replicas),
    };
    if (!has_zmq()) {
        puts("1..0 # SKIP there is no libzmq here");
        return 0;
    }
    return cmocka_run_group_tests_name("runs", tests, NULL, NULL);
}
