/*
 * jobs_test.c - GPUs of several processes, over the fakes
 *
 * A plan for GPUs runs in any number of processes, which NCCL joins: the bits
 * of CPU devices, and checkpoints that go from any devices to any others.  Who
 * is killed is named, and a job begins again from its checkpoint.  Workers of
 * parameter servers have GPUs, too.
 */
#include "tests/cuda/fakes.h"
#include "tests/e2e/run.h"
#include "tests/unit/sweep.h"
#include "tests/unit/unit.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* Reductions of several types and sizes, blocks and batches that differ. */
static const char program[] =
    "var w: f32[300] = 1.0\n"
    "var h: f16[70] = 0.5\n"
    "dataset train = range(50).map(fn(i) = f32(i)).batch(8)\n"
    "fn step(x) {\n"
    "  w = 2.0 * all_reduce(sum, w / (3.0 + sum(x)))\n"
    "  let m = all_reduce(max, sum(x * x))\n"
    "  h += f16(0.0001) * all_reduce(sum, h * f16(sum(x)))\n"
    "  w += 0.0001 * sum(all_gather(x, axis=0))\n"
    "  return sum(w) + m\n"
    "}\n"
    "main {\n"
    "  for e in 0..3 { for x in distribute(train) { run step(x) } }\n"
    "  print(\"{sum(w)} {sum(h)}\")\n"
    "}\n";

enum { STEPS = 21, EVERY = 15 };

static void
set_fakes(const char *driver, const char *nccl)
{
    char path[4096];
    snprintf(path, sizeof path, "%s:%s", getenv("TFD_FAKE_DRIVER"),
             getenv("TFD_FAKE_NCCL_FOLDER"));
    set_driver(path, driver);
    setenv("TFD_FAKE_NCCL", nccl, 1);
}

/* For four GPUs; options of tfdc. */
static const char *
compile(const char *options)
{
    const char *plan = arena_printf(arena, "%s/small.tfp", dir);
    run_ok(arena, "tfdc %s/small.tfd --devices cuda:0-3 %s -o %s", dir, options,
           plan);
    return plan;
}

/* ---- the bits ------------------------------------------------------------ */

/* How a plan for four replicas is run: processes, and devices of the first. */
static const struct {
    int processes;
    const char *devices;
} ways[] = {
    {1, "--devices cpu:0-3"},  {2, ""},
    {1, "--devices cuda:0-3"}, {4, ""},
    {2, "--devices cuda:0"},   {1, "--devices cuda:0-1"},
    {2, "--devices cpu:0"},    {4, "--devices cuda:0"},
};

static const char *
command_of(const char *plan, int way, const char *options)
{
    return arena_printf(arena, "tfd-run %s -n %d %s --timeout 20 %s", plan,
                        ways[way].processes, ways[way].devices, options);
}

static void
bits_are_those_of_the_cpu(void **state)
{
    static const char *const options[] = {"", "--cross-device-ops nccl"};
    (void)state;
    for (int o = 0; o < COUNT(options); o++) {
        const char *plan = compile(options[o]);
        Ran right = run_ok(arena, "%s", command_of(plan, 0, "--checksum"));
        for (int i = 1 + sweep_first(COUNT(ways) - 1); i < COUNT(ways);
             i = 1 + sweep_next(i - 1)) {
            set_fakes(arena_printf(arena, "devices:4,seed:%d", 10 * o + i), "");
            Ran ran = run_ok(arena, "%s", command_of(plan, i, "--checksum"));
            if (strcmp(ran.out, right.out) != 0 || ran.err[0])
                fail_msg("%d processes, %s: %s%s instead of %s",
                         ways[i].processes, ways[i].devices, ran.out, ran.err,
                         right.out);
        }
    }
}

/* A worker for each process, with devices of the same names. */
static void
workers_have_gpus_of_their_own(void **state)
{
    (void)state;
    const char *plan = arena_printf(arena, "%s/workers.tfp", dir);
    run_ok(arena,
           "tfdc %s/small.tfd --strategy multi_worker_mirrored --workers 2 "
           "--devices cuda:0-1 -o %s",
           dir, plan);
    Ran cpu =
        run_ok(arena, "tfd-run %s -n 2 --devices cpu:0-1 --checksum", plan);
    set_fakes("devices:4,seed:1", "");
    Ran gpu = run_ok(arena, "tfd-run %s -n 2 --checksum --stats", plan);
    assert_string_equal(gpu.out, cpu.out);
    assert_non_null(strstr(gpu.err, "by nccl between 2 processes\n"));
    assert_non_null(strstr(gpu.err, "  nccl  two_phase\n"));
}

/* ---- checkpoints --------------------------------------------------------- */

static void
go_on(const char *plan, int from, int to, const Ran *right)
{
    const char *options = arena_printf(
        arena, "--checkpoint %s/at-%d-%d --every %d", dir, from, to, EVERY);
    set_fakes(arena_printf(arena, "devices:4,seed:%d", from + to), "");
    run_ok(arena, "%s", command_of(plan, from, options));
    options = arena_printf(arena, "%s --resume --checksum --stats", options);
    Ran ran = run_ok(arena, "%s", command_of(plan, to, options));
    const char *steps =
        arena_printf(arena, "steps          %d,", STEPS - EVERY);
    if (strcmp(ran.out, right->out) != 0 || !strstr(ran.err, steps))
        fail_msg("from %d processes, %s, to %d, %s: %s%s instead of %s",
                 ways[from].processes, ways[from].devices, ways[to].processes,
                 ways[to].devices, ran.out, ran.err, right->out);
}

/* Made by each of the ways, and resumed by the one after it. */
static void
checkpoints_go_to_all_devices(void **state)
{
    (void)state;
    const char *plan = compile("");
    Ran right = run_ok(arena, "%s", command_of(plan, 0, "--checksum"));
    for (int i = sweep_first(COUNT(ways)); i < COUNT(ways); i = sweep_next(i))
        go_on(plan, i, (i + 1) % COUNT(ways), &right);
}

/* ---- failures ------------------------------------------------------------ */

static const struct {
    const char *driver, *nccl, *options;
    int code;
    const char *says;
} failures[] = {
    {"devices:4", "killed:1:12", "-n 4 --timeout 20", 3, "rank 1 ("},
    {"devices:4", "killed:0:31", "-n 4 --timeout 20", 3, "rank 0 ("},
    {"devices:4", "killed:3:1", "-n 4 --timeout 20", 3, "rank 3 ("},
    {"devices:4", "lost:12", "-n 2 --timeout 20", 3,
     " has failed: ncclCommGetAsyncError says remote process exited (a cable "
     "was pulled)"},
    {"devices:4", "hang:12", "-n 2 --timeout 3", 1, " after 3 seconds "},
    {"devices:4", "hang:9", "-n 2 --preflight --timeout 2", 3,
     "a message of NCCL has not come after 2 seconds"},
    {"devices:1", "", "-n 2 --devices cuda:0 --timeout 20", 3,
     "says invalid usage (run with NCCL_DEBUG=WARN for details) (Duplicate GPU "
     "detected : rank "},
    {"devices:2", "", "-n 2 --timeout 20", 3,
     "says invalid usage (run with NCCL_DEBUG=WARN for details) (Duplicate GPU "
     "detected : rank "},
};

static void
failures_are_said(void **state)
{
    (void)state;
    const char *plan = compile("");
    for (int i = 0; i < COUNT(failures); i++) {
        set_fakes(failures[i].driver, failures[i].nccl);
        Ran ran = run(arena, "tfd-run %s %s", plan, failures[i].options);
        if (ran.code != failures[i].code || !strstr(ran.err, failures[i].says))
            fail_msg("%s: status %d, and not \"%s\" in %s", failures[i].nccl,
                     ran.code, failures[i].says, ran.err);
    }
}

/* Pairs of one process and of two, each once, with the names that they have. */
static void
preflight_measures_gpus(void **state)
{
    static const char *const pairs[] = {
        "0 cuda:0 0 cuda:1", "0 cuda:0 1 cuda:2", "0 cuda:0 1 cuda:3",
        "0 cuda:1 1 cuda:2", "0 cuda:1 1 cuda:3", "1 cuda:2 1 cuda:3"};
    int found = 0;
    (void)state;
    set_fakes("devices:4", "");
    Ran ran = run_ok(arena, "tfd-run %s -n 2 --preflight", compile(""));
    const char *at = strstr(ran.out, "GPUs           all pairs over nccl");
    assert_non_null(at);
    for (const char *line = strchr(at, '\n'); line; line = strchr(line, '\n')) {
        int low, high;
        char x[16], y[16];
        double latency, rate;
        line++;
        if (sscanf(line, " %d %*s %15s %d %*s %15s %lf %lf", &low, x, &high, y,
                   &latency, &rate) != 6)
            continue;
        assert_true(found < COUNT(pairs) && latency > 0 && rate >= 0);
        assert_string_equal(arena_printf(arena, "%d %s %d %s", low, x, high, y),
                            pairs[found++]);
    }
    assert_int_equal(found, COUNT(pairs));
    assert_non_null(strstr(at, "\nslowest GPUs   cuda:"));
}

/* Killed in each attempt, always later. */
static void
a_job_begins_again(void **state)
{
    (void)state;
    const char *plan = compile("");
    Ran right = run_ok(arena, "%s", command_of(plan, 0, "--checksum"));
    set_fakes("devices:4", "killed:1:60");
    Ran ran = run_ok(arena,
                     "tfd-run %s -n 2 --devices cuda:0 --timeout 20 --checksum "
                     "--checkpoint %s/again --every 2 --restarts 9",
                     plan, dir);
    assert_string_equal(ran.out, right.out);
    assert_non_null(strstr(ran.err, "tfd-run: restart 1 of 9, with 2 "));
}

/* ---- parameter servers --------------------------------------------------- */

/* Programs that print the same whichever worker executes a closure; with one
 * worker, the bits are those of one process. */
static const struct {
    const char *source, *tasks, *options;
} served[] = {
    {"tests/cluster/ps/learns.tfd", "workers=1,ps=1", "--checksum"},
    {"tests/cluster/ps/counts.tfd", "workers=2,ps=2", "--set closures=400"},
    /* updates that take more than what is kept before the host looks */
    {"tests/cluster/ps/atomic.tfd", "workers=2,ps=2 --atomic",
     "--set closures=200"},
    {"docs/examples/coordinator.tfd", "workers=1,ps=2", "--checksum"},
};

static void
workers_of_servers_have_gpus(void **state)
{
    (void)state;
    const char *root = getenv("TFD_ROOT"), *plan = in_dir("served.tfp");
    for (int i = 0; i < COUNT(served); i++) {
        run_ok(arena, "tfdc %s/%s -o %s", root, served[i].source, plan);
        Ran cpu = run_ok(arena, "tfd-run %s %s", plan, served[i].options);
        run_ok(arena, "tfdc %s/%s --devices cuda:0 -o %s", root,
               served[i].source, plan);
        set_fakes(arena_printf(arena, "devices:1,seed:%d", i), "");
        Ran gpu = run_ok(arena, "tfd-run %s %s -n %s", plan, served[i].options,
                         served[i].tasks);
        assert_string_equal(gpu.out, cpu.out);
        assert_string_equal(gpu.err, "");
    }
}

static int
prepare(void **state)
{
    new_dir(state);
    setenv("TMPDIR", dir, 1);
    write_text(in_dir("small.tfd"), program);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_the_cpu),
        cmocka_unit_test(workers_have_gpus_of_their_own),
        cmocka_unit_test(checkpoints_go_to_all_devices),
        cmocka_unit_test(failures_are_said),
        cmocka_unit_test(preflight_measures_gpus),
        cmocka_unit_test(a_job_begins_again),
        cmocka_unit_test(workers_of_servers_have_gpus),
    };
    return cmocka_run_group_tests(tests, prepare, release_arena);
}
