/*
 * nccl_runs_test.c - tfd-run over the fake NCCL
 *
 * The bits of CPU devices; what is said where NCCL is missing or too old; and
 * each function of NCCL failing in turn: one line, status 3, no hang.
 */
#include "tests/cuda/fakes.h"
#include "tests/e2e/run.h"
#include "tests/unit/sweep.h"
#include "tests/unit/unit.h"

#include <unistd.h>

/* Reductions of several types and sizes, and rows of batches that differ. */
static const char program[] =
    "var w: f32[300] = 1.0\n"
    "var h: f16[70] = 0.5\n"
    "dataset train = range(50).map(fn(i) = f32(i)).batch(8)\n"
    "fn step(x) {\n"
    "  w = 2.0 * all_reduce(sum, w / (3.0 + sum(x)))\n"
    "  let s = all_reduce(sum, sum(x))\n"
    "  let m = all_reduce(max, sum(x * x))\n"
    "  h += f16(0.0001) * all_reduce(sum, h * f16(sum(x)))\n"
    "  let g = all_gather(x, axis=0)\n"
    "  w += 0.0001 * sum(g)\n"
    "  return sum(w) + s + m\n"
    "}\n"
    "main {\n"
    "  for e in 0..3 { for x in distribute(train) { run step(x) } }\n"
    "  print(\"{sum(w)} {sum(h)}\")\n"
    "}\n";

static void
set_fakes(const char *driver, const char *nccl)
{
    char path[4096];
    snprintf(path, sizeof path, "%s:%s", getenv("TFD_FAKE_DRIVER"),
             getenv("TFD_FAKE_NCCL_FOLDER"));
    set_driver(path, driver);
    setenv("TFD_FAKE_NCCL", nccl, 1);
}

static const char *
plan_of(Arena *a, const char *name, const char *options)
{
    const char *plan = arena_printf(a, "%s/%s.tfp", dir, name);
    const char *source = arena_printf(a, "%s/%s.tfd", dir, name);
    if (access(source, F_OK) != 0)
        source = arena_printf(a, "%s/docs/examples/%s.tfd", getenv("TFD_ROOT"),
                              name);
    run_ok(a, "tfdc %s %s -o %s", source, options, plan);
    return plan;
}

/* ---- results ------------------------------------------------------------- */

static const struct {
    const char *name, *options, *run;
    const char *devices[3]; /* of the plan, and others */
    int seeds;
} programs[] = {
    {"small", "", "", {"0-1", "0"}, 3},
    {"small", "", "", {"0-2"}, 3},
    {"small", "", "", {"0-3", "0-1"}, 5},
    {"linear", "", "", {"0-3", "0-1"}, 1},
    {"charlm",
     "-D BATCH=4 -D T=4 -D C=8 -D HEADS=2 -D LAYERS=1",
     "--set steps=3",
     {"0-1"},
     1},
};

static void
check_bits(Arena *a, size_t i)
{
    const char *plan =
        plan_of(a, programs[i].name,
                arena_printf(a, "%s --devices cuda:%s --cross-device-ops nccl",
                             programs[i].options, programs[i].devices[0]));
    const char *data = arena_printf(a, "--data %s/docs/examples %s",
                                    getenv("TFD_ROOT"), programs[i].run);
    Ran cpu = run_ok(a, "tfd-run %s --devices cpu:%s --checksum %s", plan,
                     programs[i].devices[0], data);
    for (int d = 0; programs[i].devices[d]; d++)
        for (int s = 0; s < programs[i].seeds; s++) {
            set_fakes(arena_printf(a, "devices:4,seed:%d", s), "");
            Ran gpu = run_ok(a, "tfd-run %s --devices cuda:%s --checksum %s",
                             plan, programs[i].devices[d], data);
            assert_string_equal(gpu.out, cpu.out);
            assert_string_equal(gpu.err, "");
        }
}

static void
bits_are_those_of_the_cpu(void **state)
{
    int num = sizeof programs / sizeof *programs;
    for (int i = sweep_first(num); i < num; i = sweep_next(i))
        check_bits(*state, (size_t)i);
}

/* NCCL connects what a collective needs when it comes to the first of its kind,
 * and waits for the other ranks then. */
static void
collectives_may_connect_late(void **state)
{
    static const char *const ways[] = {"nccl", "nccl:allreduce"};
    Arena *a = *state;
    for (int way = 0; way < 2; way++) {
        const char *plan =
            plan_of(a, "small",
                    arena_printf(a, "--devices cuda:0-2 --cross-device-ops %s",
                                 ways[way]));
        set_fakes("devices:3", "");
        Ran early = run_ok(a, "tfd-run %s --checksum", plan);
        for (int seed = 0; seed < 3; seed++) {
            set_fakes(arena_printf(a, "devices:3,seed:%d", seed), "lazy");
            Ran late = run_ok(a, "tfd-run %s --checksum", plan);
            assert_string_equal(late.out, early.out);
        }
    }
}

static const char *
text_of_checksum(const Ran *ran)
{
    const char *at = strstr(ran->out, "checksum");
    assert_non_null(at);
    return at;
}

/* The order of NCCL is another one, and changes; on other devices there is none
 * but D2's. */
static void
the_order_may_be_that_of_nccl(void **state)
{
    Arena *a = *state;
    const char *plan = plan_of(
        a, "small", "--devices cuda:0-3 --cross-device-ops nccl:allreduce");
    const char *usual = arena_printf(a, "%s/usual.tfp", dir);
    run_ok(a, "tfdc %s/small.tfd --devices cuda:0-3 -o %s", dir, usual);
    Ran cpu = run_ok(a, "tfd-run %s --devices cpu:0-3 --checksum", plan);
    Ran order = run_ok(a, "tfd-run %s --devices cpu:0-3 --checksum", usual);
    set_fakes("devices:4", "");
    Ran gpu = run_ok(a, "tfd-run %s --checksum", plan);
    assert_string_equal(text_of_checksum(&cpu), text_of_checksum(&order));
    assert_string_not_equal(text_of_checksum(&gpu), text_of_checksum(&cpu));
    Ran few = run(a, "tfd-run %s --devices cuda:0-1", plan);
    assert_int_equal(few.code, 1);
    assert_non_null(strstr(few.err, "nccl:allreduce combines one replica of "
                                    "each GPU, and this run has 4 replicas on "
                                    "2: run it on as many GPUs"));
}

/* What carries collectives between GPUs, and by which algorithm: a row of
 * --stats ends with both. */
static void
statistics_name_the_transport(void **state)
{
    static const struct {
        const char *options, *ends;
    } rows[] = {
        {"", "  peers two_phase\n"},
        {"--cross-device-ops ring", "  peers ring\n"},
        {"--cross-device-ops nccl", "  nccl  two_phase\n"},
        {"--cross-device-ops nccl:allreduce", "  nccl  nccl_allreduce\n"},
    };
    Arena *a = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *plan =
            plan_of(a, "small",
                    arena_printf(a, "--devices cuda:0-1 %s", rows[i].options));
        set_fakes("devices:2", "");
        Ran ran = run_ok(a, "tfd-run %s --stats", plan);
        const char *at = strstr(ran.err, " all_reduce ");
        assert_non_null(at);
        const char *end = strchr(at, '\n') + 1;
        const char *row = arena_strndup(a, at, (size_t)(end - at));
        if (!strstr(row, rows[i].ends))
            fail_msg("\"%s\" does not end with \"%s\"", row, rows[i].ends);
    }
}

/* ---- failures ------------------------------------------------------------ */

static const struct {
    const char *nccl, *says;
    int code;
} failures[] = {
    {"version:21703",
     "libnccl.so.2 is NCCL 2.17.3; NCCL 2.18 or newer is needed", 3},
    {"version:2804", "libnccl.so.2 is NCCL 2.8.4; NCCL 2.18 or newer is needed",
     3},
    {"fail:ncclGetVersion:1", "ncclGetVersion says unhandled system error", 3},
    {"lost:9",
     " has failed: ncclCommGetAsyncError says remote process exited (a cable "
     "was pulled)",
     3},
    {"hang:9", " after 1 seconds ", 1},
    {"lost:9,stuck",
     " has failed: ncclCommGetAsyncError says remote process exited (a cable "
     "was pulled)",
     3},
    {"hang:9,stuck", " after 1 seconds ", 1},
    {"lost:1,stuck", /* while they connect, and so the next */
     " has failed: ncclCommGetAsyncError says remote process exited (a cable "
     "was pulled)",
     3},
    {"fail:ncclCommInitRankConfig:2,stuck",
     " has failed: ncclCommInitRankConfig says unhandled system error (a cable "
     "was pulled)",
     3},
};

static void
what_nccl_does_not_do_is_said(void **state)
{
    Arena *a = *state;
    const char *plan =
        plan_of(a, "small", "--devices cuda:0-2 --cross-device-ops nccl");
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        set_fakes("devices:4", failures[i].nccl);
        Ran ran = run(a, "tfd-run %s --timeout 1", plan);
        assert_int_equal(ran.code, failures[i].code);
        if (!strstr(ran.err, failures[i].says))
            fail_msg("not said: %s\nbut: %s", failures[i].says, ran.err);
    }
    /* A file that is none hides what the machine may have. */
    set_fakes("devices:4", "");
    const char *path = arena_printf(a, "%s/libnccl.so.2", dir);
    write_text(path, "");
    setenv("LD_LIBRARY_PATH",
           arena_printf(a, "%s:%s", dir, getenv("TFD_FAKE_DRIVER")), 1);
    Ran ran = run(a, "tfd-run %s", plan);
    assert_int_equal(ran.code, 3);
    assert_non_null(strstr(ran.err, "there is no libnccl.so.2, which "
                                    "collectives over NCCL need; NCCL 2.18 or "
                                    "newer is needed"));
    assert_int_equal(unlink(path), 0);
    const char *other =
        arena_printf(a, "%s/libcuda.so.1", getenv("TFD_OLD_DRIVER"));
    assert_int_equal(symlink(other, path), 0);
    ran = run(a, "tfd-run %s", plan);
    assert_int_equal(ran.code, 3);
    assert_non_null(strstr(ran.err, "libnccl.so.2 has no ncclGetVersion; NCCL "
                                    "2.18 or newer is needed"));
}

/* Where they meet: in an all_reduce, or an all_gather. */
static const char meeting[] = "var w: f32[300] = ones\n"
                              "const LATE = 1\n"
                              "fn step() {\n"
                              "  mut n = 1.0\n"
                              "  if replica_id == LATE {\n"
                              "    while n > 0.0 { n += 0.0 * w[0] }\n"
                              "  }\n"
                              "  w -= 0.001 * %s\n"
                              "}\n"
                              "main { for i in 0..3 { run step() } }\n";
static const char reduces[] = "all_reduce(sum, w * n)",
                  gathers[] = "sum(all_gather(w * n, axis=0))",
                  late[] = "replicas 0, 2 have arrived, replica 1 has not";

/* Replica 1 does not come to where NCCL connects a collective, or to where the
 * host waits for sizes; or all come, and NCCL does not go on. */
static const struct {
    const char *meet, *options, *nccl, *timeout, *says[2];
    int code;
} meetings[] = {
    {reduces,
     "--cross-device-ops nccl:allreduce",
     "lazy",
     "--timeout 0.3",
     {"do not meet in this all_reduce: after 0.3 seconds", late},
     1},
    {reduces,
     "--cross-device-ops nccl:allreduce --collectives timeout_seconds=0.25",
     "lazy",
     "",
     {"do not meet in this all_reduce: after 0.25 seconds", late},
     1},
    {gathers,
     "--cross-device-ops nccl",
     "lazy",
     "--timeout 0.3",
     {"do not meet in this all_gather: after 0.3 seconds", late},
     1},
    {gathers,
     "--cross-device-ops nccl",
     "",
     "--timeout 0.3",
     {"do not meet in this all_gather: after 0.3 seconds", late},
     1},
    {gathers,
     "--cross-device-ops nccl -D LATE=9",
     "hang:5",
     "--timeout 0.3",
     {"meeting.tfd:8:20: error: this all_gather has not ended after 0.3 "
      "seconds although all replicas have come to it (--timeout allows "
      "more)\n",
      ""},
     1},
};

static void
who_does_not_come_is_named(void **state)
{
    Arena *a = *state;
    const char *plan = in_dir("meeting.tfp");
    for (size_t i = 0; i < sizeof meetings / sizeof *meetings; i++) {
        write_text(in_dir("meeting.tfd"),
                   arena_printf(a, meeting, meetings[i].meet));
        run_ok(a, "tfdc %s --devices cuda:0-2 %s -o %s", in_dir("meeting.tfd"),
               meetings[i].options, plan);
        set_fakes("devices:3", meetings[i].nccl);
        Ran ran = run(a, "tfd-run %s %s", plan, meetings[i].timeout);
        assert_int_equal(ran.code, meetings[i].code);
        for (int k = 0; k < 2; k++)
            if (!strstr(ran.err, meetings[i].says[k]))
                fail_msg("row %zu: not \"%s\" in %s", i, meetings[i].says[k],
                         ran.err);
        assert_null(strstr(ran.err, "is in this all_reduce"));
    }
}

static const char *const calls[] = {
    "ncclCommGetAsyncError",
    "ncclGroupStart",
    "ncclGroupEnd",
    "ncclSend",
    "ncclRecv",
    "ncclAllGather",
};

static void
check_failure(Arena *a, const char *plan, const char *call, int n)
{
    const char *says = arena_printf(
        a, " has failed: %s says unhandled system error (a cable was pulled)\n",
        call);
    set_fakes(arena_printf(a, "devices:4,seed:%d", n),
              arena_printf(a, "fail:%s:%d", call, n));
    Ran ran = run(a, "tfd-run %s --timeout 20", plan);
    assert_int_equal(ran.code, 3);
    if (!strstr(ran.err, says) || strchr(ran.err, '\n')[1])
        fail_msg("not this line alone: %s\nbut: %s", says, ran.err);
}

/* While they connect, warm up, and in steps. */
static void
each_call_may_fail(void **state)
{
    static const int numbers[] = {1, 2, 3, 20};
    Arena *a = *state;
    const char *plan =
        plan_of(a, "small", "--devices cuda:0-2 --cross-device-ops nccl");
    int num = 4 * (int)(sizeof calls / sizeof *calls);
    for (int i = sweep_first(num); i < num; i = sweep_next(i))
        check_failure(a, plan, calls[i / 4], numbers[i % 4]);
    check_failure(a, plan, "ncclGetUniqueId", 1);
    for (int n = 1; n <= 3; n++)
        check_failure(a, plan, "ncclCommInitRankConfig", n);
    plan = plan_of(a, "small",
                   "--devices cuda:0-2 --cross-device-ops nccl:allreduce");
    for (int n = 1; n <= 3; n++)
        check_failure(a, plan, "ncclAllReduce", n);
}

/* The results are there. */
static void
what_fails_at_the_end_changes_nothing(void **state)
{
    static const char *const rows[] = {
        "fail:ncclCommFinalize:1", "fail:ncclCommFinalize:3",
        "fail:ncclCommDestroy:1", "fail:ncclCommDestroy:3"};
    Arena *a = *state;
    const char *plan =
        plan_of(a, "small", "--devices cuda:0-2 --cross-device-ops nccl");
    set_fakes("devices:4", "");
    Ran right = run_ok(a, "tfd-run %s --checksum", plan);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        set_fakes("devices:4", rows[i]);
        Ran ran = run_ok(a, "tfd-run %s --checksum", plan);
        assert_string_equal(ran.out, right.out);
    }
}

static int
prepare(void **state)
{
    new_dir(state);
    write_text(in_dir("small.tfd"), program);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_the_cpu),
        cmocka_unit_test(collectives_may_connect_late),
        cmocka_unit_test(the_order_may_be_that_of_nccl),
        cmocka_unit_test(statistics_name_the_transport),
        cmocka_unit_test(what_nccl_does_not_do_is_said),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(each_call_may_fail),
        cmocka_unit_test(what_fails_at_the_end_changes_nothing),
    };
    return cmocka_run_group_tests(tests, prepare, release_arena);
}
