/*
 * collectives_test.c - plans for several replicas on fake GPUs
 *
 * Every example that trains on several replicas, and the conformance programs
 * that name devices, have the bits of the CPU: on as many GPUs as replicas and
 * on fewer, in several orders, with and without access to each other's memory.
 * What is lost, late or interrupted ends the run with one message.
 */
#include "tests/cuda/fakes.h"
#include "tests/e2e/run.h"
#include "tests/unit/sweep.h"
#include "tests/unit/unit.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static Ran
run_on(const char *plan, const char *devices, const char *options)
{
    return run(arena, "env -C %s %s %s --devices %s --data %s --checksum %s",
               dir, getenv("TFD_RUN"), plan, devices, dir, options);
}

/* ---- the bits of the CPU ------------------------------------------------- */

typedef struct Row {
    const char *program;     /* of docs/examples */
    const char *compiled;    /* devices */
    const char *defines;     /* options of tfdc */
    const char *set;         /* options of tfd-run */
    const char *runs[5][2];  /* devices, and options of the fake driver */
    const char *edits[3][2]; /* less of it */
} Row;

#define ALL_WAYS                                                               \
    {                                                                          \
        {"0-3", "seed:1"}, {"0-1", "seed:2"}, {"0", "seed:3"},                 \
            {"0-3", "seed:4,no-peers"}, {"0-3", "seed:24,near:2"},             \
    }

static const Row rows[] = {
    {"linear", "0-3", "", "", ALL_WAYS, {{0}}},
    {"linear",
     "0-1",
     "",
     "",
     {{"0-1", "seed:5"}, {"0-1", "seed:6"}, {"0-1", "seed:7"}},
     {{0}}},
    {"linear", "0-2", "", "", {{"1-3", "seed:8"}}, {{0}}},
    {"accumulation", "0-3", "", "", ALL_WAYS, {{0}}},
    {"batchnorm", "0-3", "", "", ALL_WAYS, {{0}}},
    {"batchnorm", "0", "", "", {{"0", "seed:9"}}, {{0}}},
    {"bigram",
     "0-3",
     "-D BATCH=64",
     "--set epochs=1",
     {{"0-3", "seed:10"}, {"0-1", "seed:11"}},
     {{0}}},
    {"charlm",
     "0-3",
     "-D BATCH=4 -D T=16 -D C=32 -D HEADS=2 -D LAYERS=1",
     "--set steps=2",
     {{"0-3", "seed:12"},
      {"0-1", "seed:13,no-peers"},
      {"0-3", "seed:26,near:1"},
      {"0-3", "seed:27,peers:2"}},
     {{0}}},
    {"contexts", "0-1", "", "", {{"0-1", "seed:14"}, {"0", "seed:15"}}, {{0}}},
    {"convnet",
     "0-3",
     "-D SIZE=8 -D CHANNELS=8 -D BLOCKS=1 -D BATCH=8",
     "--set epochs=1",
     {{"0-3", "seed:16"}, {"0-1", "seed:17"}},
     {{"range(2048).", "range(24)."},
      {"range(2048, 2560)", "range(2048, 2060)"},
      {"accuracy.result() > 0.9", "accuracy.result() >= 0.0"}}},
    {"metric", "0-3", "", "", ALL_WAYS, {{0}}},
    {"ragged",
     "0-2",
     "",
     "",
     {{"0-2", "seed:18"},
      {"0", "seed:19"},
      {"0-2", "seed:20,no-peers"},
      {"0-2", "seed:25,near:1"}},
     {{0}}},
    {"schedule", "0-3", "", "", {{"0-3", "seed:21"}}, {{0}}},
    {"spiral",
     "0-3",
     "-D WIDTH=16",
     "--set epochs=1 --set lr=0.05",
     {{"0-3", "seed:22"}, {"0-1", "seed:23"}},
     {{0}}},
};

static const char *
compile(const Row *row)
{
    const char *plan = arena_printf(arena, "%s/program.tfp", dir);
    const char *source = arena_printf(arena, "%s/%s.tfd", dir, row->program);
    const char *text = source_text(
        arena, arena_printf(arena, "docs/examples/%s.tfd", row->program));
    for (int i = 0; i < COUNT(row->edits) && row->edits[i][0]; i++)
        text = substitute(arena, text, row->edits[i][0], row->edits[i][1]);
    write_text(source, text);
    run_ok(arena, "tfdc %s --devices cuda:%s %s -o %s", source, row->compiled,
           row->defines, plan);
    return plan;
}

/* charlm prints any byte. */
static bool
is_same(const Ran *a, const Ran *b)
{
    return a->code == b->code && a->out_len == b->out_len &&
           memcmp(a->out, b->out, a->out_len) == 0 && !strcmp(a->err, b->err);
}

static void
check_row(const Row *row)
{
    const char *plan = compile(row);
    Ran cpu =
        run_on(plan, arena_printf(arena, "cpu:%s", row->compiled), row->set);
    if (cpu.code || !memmem(cpu.out, cpu.out_len, "checksum ", 9))
        fail_msg("%s on CPU devices: status %d, %s", row->program, cpu.code,
                 cpu.err);
    for (int i = 0; i < COUNT(row->runs) && row->runs[i][0]; i++) {
        const char *const *how = row->runs[i];
        set_fake(arena_printf(arena, "devices:4,%s", how[1]));
        Ran gpu =
            run_on(plan, arena_printf(arena, "cuda:%s", how[0]), row->set);
        if (!is_same(&gpu, &cpu))
            fail_msg("%s for cuda:%s on cuda:%s, %s: status %d, %s, and %s "
                     "instead of %s",
                     row->program, row->compiled, how[0], how[1], gpu.code,
                     gpu.err, gpu.out, cpu.out);
    }
}

static void
bits_are_those_of_the_cpu(void **state)
{
    (void)state;
    for (int i = sweep_first(COUNT(rows)); i < COUNT(rows); i = sweep_next(i))
        check_row(&rows[i]);
}

/* ---- what ends a run ----------------------------------------------------- */

#define MEETING(loops)                                                         \
    "var w: f32[300] = ones\n"                                                 \
    "fn step() {\n"                                                            \
    "  mut n = 1.0\n"                                                          \
    "  if " loops " {\n"                                                       \
    "    while n > 0.0 { n += 0.0 * w[0] }\n"                                  \
    "  }\n"                                                                    \
    "  w -= 0.001 * all_reduce(sum, w * n)\n"                                  \
    "  return n\n"                                                             \
    "}\n"                                                                      \
    "main { for i in 0..12 { run step() } }\n"

static const char *
compile_text(const char *text, const char *devices)
{
    const char *source = arena_printf(arena, "%s/meet.tfd", dir);
    const char *plan = arena_printf(arena, "%s/meet.tfp", dir);
    write_text(source, text);
    run_ok(arena, "tfdc %s --devices %s -o %s", source, devices, plan);
    return plan;
}

static int
count_lines(const char *text, const char *without)
{
    int n = 0;
    for (const char *end; (end = strchr(text, '\n')); text = end + 1)
        n += strncmp(text, without, strlen(without)) != 0;
    return n;
}

/* Functions that several devices need, of which the nth call fails, on whatever
 * device it is about; errors from 700 on are for good, and of all devices. */
static const struct {
    const char *options, *call, *error;
    int first, step;
} failures[] = {
    {"", "cuDeviceCanAccessPeer", "", 1, 3},
    {"", "cuCtxEnablePeerAccess", "", 1, 3},
    {"", "cuStreamWaitEvent", "", 1, 37},
    {"", "cuEventRecord", "", 12, 29},
    {"", "cuLaunchKernel", "", 2, 17},
    {"", "cuMemcpyPeerAsync", "", 1, 5},
    {"", "cuMemcpyPeerAsync", ":719", 2, 7},
    {"", "cuEventQuery", ":700", 9, 41},
    {"", "cuGraphLaunch", "", 1, 9},
    {"no-peers,", "cuMemcpyAsync", "", 1, 11},
    {"no-peers,", "cuMemcpyAsync", ":700", 3, 19},
    {"near:2,", "cuMemcpyAsync", "", 1, 11},
};

enum { FAILURES_EACH = 4 };

/* Whether the run came to call n, by the counts that it ends with. */
static bool
was_called(const char *err, const char *call, int n)
{
    const char *at = strstr(err, arena_printf(arena, " %s\n", call));
    while (at && at > err && at[-1] != ' ')
        at--;
    return at && atoi(at) >= n;
}

static void
fail_call(const char *plan, int k, int n)
{
    const char *call = failures[k].call;
    set_fake(arena_printf(arena, "devices:4,count,seed:%d,%sfail:%s:%d%s", n,
                          failures[k].options, call, n, failures[k].error));
    Ran ran = run(arena, "tfd-run %s", plan);
    bool ends = was_called(ran.err, call, n);
    if (ran.code != (ends ? 3 : 0) ||
        count_lines(ran.err, "fake driver: ") != ends)
        fail_msg("%s, call %d: status %d, and %s", call, n, ran.code, ran.err);
}

/* The others wait in a collective for the device that is lost. */
static void
a_lost_device_ends_the_run(void **state)
{
    enum { NUM = COUNT(failures) * FAILURES_EACH };
    (void)state;
    const char *plan = compile_text(MEETING("replica_id == 9"), "cuda:0-3");
    for (int i = sweep_first(NUM); i < NUM; i = sweep_next(i)) {
        int k = i / FAILURES_EACH;
        fail_call(plan, k,
                  failures[k].first + i % FAILURES_EACH * failures[k].step);
    }
}

static const struct {
    const char *devices, *says[2];
} late[] = {
    {"cuda:0-3",
     {"the replicas do not meet in this all_reduce: after 0.3 seconds replicas "
      "0, 2, 3 have arrived, replica 1 has not",
      "note: replica 1, device cuda:1, is in this while"}},
    {"cuda:0-1",
     {"the replicas do not meet in this all_reduce: after 0.3 seconds replicas "
      "0, 2, 3 have arrived, replica 1 has not",
      "note: replica 1, device cuda:0, is in this while"}},
    {"cuda:0",
     {"error: this step has not ended after 0.3 seconds",
      "note: replica 1, device cuda:0, is in this while"}},
};

static void
who_does_not_come_is_named(void **state)
{
    (void)state;
    const char *plan = compile_text(MEETING("replica_id == 1"), "cuda:0-3");
    set_fake("devices:4,seed:1");
    for (int i = 0; i < COUNT(late); i++) {
        Ran ran = run(arena, "tfd-run %s --devices %s --timeout 0.3", plan,
                      late[i].devices);
        assert_int_equal(ran.code, 1);
        for (int k = 0; k < 2; k++)
            if (!strstr(ran.err, late[i].says[k]))
                fail_msg("%s: not \"%s\" in %s", late[i].devices,
                         late[i].says[k], ran.err);
    }
}

/* ---- memory of the host -------------------------------------------------- */

/* The bytes that GPUs share there, or 0: asked by making each allocation of
 * pinned memory fail in turn, which says what it was for. */
static long
shared_bytes(const char *plan, const char *options)
{
    static const char what[] = "no pinned memory of the host for the ";
    for (int n = 1;; n++) {
        set_fake(arena_printf(arena, "devices:4,%s,fail:cuMemHostAlloc:%d",
                              options, n));
        Ran ran = run(arena, "tfd-run %s", plan);
        const char *at = strstr(ran.err, what);
        if (at)
            return atol(at + strlen(what));
        if (ran.code == 0)
            return 0;
        assert_int_equal(ran.code, 3);
    }
}

/* An operand of 300 f32 takes 1280 bytes, and so does the result; 256 are for
 * the alignment of all. */
static void
only_what_is_out_of_reach_is_staged(void **state)
{
    (void)state;
    const char *plan = compile_text(MEETING("replica_id == 9"), "cuda:0-3");
    assert_int_equal(shared_bytes(plan, "near:3"), 0);
    assert_int_equal(shared_bytes(plan, "near:2"), 3 * 1280 + 256);
    assert_int_equal(shared_bytes(plan, "near:1"), 5 * 1280 + 256);
    assert_int_equal(shared_bytes(plan, "peers:2"), 3 * 1280 + 256);
    assert_int_equal(shared_bytes(plan, "no-peers"), 5 * 1280 + 256);
}

/* ---- the suite ----------------------------------------------------------- */

static int
make_folder(void **state)
{
    new_dir(state);
    write_text(in_dir("text.txt"), source_text(arena, "docs/style.md"));
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_the_cpu),
        cmocka_unit_test(a_lost_device_ends_the_run),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(only_what_is_out_of_reach_is_staged),
    };
    return cmocka_run_group_tests(tests, make_folder, release_arena);
}
