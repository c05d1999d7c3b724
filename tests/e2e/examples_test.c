/*
 * examples_test.c - runs the examples on every number of devices that they
 * support
 *
 * Their own asserts say whether they did right.  Beyond that: the loss of each
 * of the first steps does not depend on the number of devices, and the bits of
 * the trained variables depend on neither optimisation, processor nor threads.
 */
#include <math.h>
#include "ir/base/io/file.h"
#include "tests/e2e/run.h"
#include "tests/unit/dir.h"
#include "tests/unit/unit.h"
#include "tests/unit/sweep.h"

enum { NUM_STEPS = 20, MOST_DEVICES = 4 };

static int
set_up(void **state)
{
    new_dir(state);
    /* some 6 KB of text of this project, for bigram and charlm to learn */
    write_text(in_dir("text.txt"), source_text(arena, "docs/style.md"));
    return 0;
}

/* Compiles a program's text with options; gives the plan's path. */
static const char *
compile(const char *text, const char *options)
{
    const char *source = in_dir("program.tfd");
    const char *plan = in_dir("program.tfp");
    write_text(source, text);
    run_ok(arena, "tfdc %s -o %s %s", source, plan, options);
    return plan;
}

static const char *
example(const char *name)
{
    return source_text(arena,
                       arena_printf(arena, "docs/examples/%s.tfd", name));
}

/* Where a program that saves may do so. */
static Ran
run_plan(const char *plan, const char *options)
{
    return run_ok(arena, "env -C %s %s %s --data %s %s", dir, getenv("TFD_RUN"),
                  plan, dir, options);
}

static Ran
run_example(const char *name, const char *options)
{
    return run_plan(compile(example(name), options), "");
}

/* ---- they run ----------------------------------------------------------- */

static void
expect_on_all(const char *name, const char *part)
{
    static const char *const devices[] = {
        "--devices cpu:0",
        "--devices cpu:0 --strategy one_device",
        "--devices cpu:0 --strategy mirrored",
        "--devices cpu:0-1",
        "--devices cpu:0-2",
        "--devices cpu:0-3 --strategy mirrored",
        "--devices cpu:0-7",
    };
    int n = sizeof devices / sizeof *devices;
    for (int i = sweep_first(n); i < n; i = sweep_next(i)) {
        Ran r = run_example(name, devices[i]);
        assert_non_null(strstr(r.out, part));
    }
}

static void
linear_runs_on_any_number_of_devices(void **state)
{
    (void)state;
    expect_on_all("linear", "examples 6400");
}

static void
bigram_runs_on_any_number_of_devices(void **state)
{
    (void)state;
    expect_on_all("bigram", "epoch 2: loss ");
}

/* Examples whose replicas share devices, at sizes that take little time but
 * are long enough for their assertions.  What reads another's checkpoint comes
 * after it. */
typedef struct Shared {
    const char *name;
    int replicas; /* 8, unless the program is for another number */
    const char *compiler, *runner;
} Shared;

static const Shared shared[] = {
    {"accumulation", 8, "", ""},
    {"batchnorm", 8, "", ""},
    {"bigram", 8, "", ""},
    {"charlm", 8, "-D C=8", "--set steps=3"},
    {"contexts", 2, "", ""},
    {"coordinator", 8, "", ""},
    {"convnet", 8, "-D SIZE=16 -D CHANNELS=16 -D BLOCKS=1", "--set epochs=2"},
    {"linear", 8, "", ""},
    {"metric", 8, "", ""},
    {"ragged", 3, "", ""},
    {"recommend", 8, "", ""},
    {"schedule", 8, "", ""},
    {"spiral", 8, "", ""},
    {"write", 8, "-D C=8 -D LENGTH=40", ""},
};

enum { NUM_SHARED = sizeof shared / sizeof *shared };

static Ran
run_shared(const Shared *e, const char *plan, int devices)
{
    Ran r =
        run_plan(plan, arena_printf(arena, "--checksum --devices cpu:0-%d %s",
                                    devices - 1, e->runner));
    assert_non_null(memmem(r.out, r.out_len, "checksum ", 9));
    return r;
}

static void
expect_same(const Shared *e, const char *how, int devices, Ran have, Ran want)
{
    if (have.out_len != want.out_len ||
        memcmp(have.out, want.out, want.out_len) != 0)
        fail_msg("%s for %d replicas, on %d devices%s:\n%s---\n%s", e->name,
                 e->replicas, devices, how, have.out, want.out);
}

/* On any number of devices, the same output and the same variables; and when
 * programs enqueue kernels by their numbers, as for devices with code of their
 * own. */
static void
check_shared(const Shared *e)
{
    const char *plan = compile(
        example(e->name),
        arena_printf(arena, "--target native,sm_80 --devices cpu:0-%d %s",
                     e->replicas - 1, e->compiler));
    Ran want = run_shared(e, plan, e->replicas);
    int devices = e->replicas;
    for (int d = e->replicas - 1; d >= 1; d--) {
        if (e->replicas % d)
            continue;
        expect_same(e, "", d, run_shared(e, plan, d), want);
        devices = d > 1 ? d : devices;
    }
    setenv("TFD_PROGRAMS", "enqueue", 1);
    expect_same(e, ", enqueuing", devices, run_shared(e, plan, devices), want);
    unsetenv("TFD_PROGRAMS");
}

/* Where the replicas are changes no bit, nor does what a device has of its
 * own. */
static void
replicas_share_devices_to_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_SHARED; i++)
        check_shared(&shared[i]);
}

static bool
is_shared_example(const char *file)
{
    for (int i = 0; i < NUM_SHARED; i++)
        if (!strcmp(file, arena_printf(arena, "%s.tfd", shared[i].name)))
            return true;
    return false;
}

static void
every_example_shares_devices(void **state)
{
    (void)state;
    FileNames names;
    assert_null(file_list(
        arena, arena_printf(arena, "%s/docs/examples", getenv("TFD_ROOT")),
        &names));
    for (int i = 0; i < names.len; i++) {
        const char *end = strrchr(names.data[i], '.');
        if (end && !strcmp(end, ".tfd") && !is_shared_example(names.data[i]))
            fail_msg("%s has no row in the table of examples", names.data[i]);
    }
}

/* ---- several workers ----------------------------------------------------- */

enum { NUM_PARTS = 4, WORKER_REPLICAS = 8 };

#define IN_PARTS "-D TEXT=part?.txt "

static const Shared on_workers[] = {
    {"bigram", WORKER_REPLICAS, IN_PARTS, ""},
    {"charlm", WORKER_REPLICAS, IN_PARTS "-D C=8", "--set steps=3"},
    {"convnet", WORKER_REPLICAS, "-D SIZE=16 -D CHANNELS=16 -D BLOCKS=1",
     "--set epochs=1"},
    {"linear", WORKER_REPLICAS, "", ""},
    {"spiral", WORKER_REPLICAS, "", ""},
};

/* The text in files, of which each worker reads its own. */
static void
write_parts(void)
{
    const char *text = source_text(arena, "docs/style.md");
    size_t len = strlen(text) / NUM_PARTS;
    for (int i = 0; i < NUM_PARTS; i++)
        write_text(in_dir(arena_printf(arena, "part%d.txt", i)),
                   arena_strndup(arena, text + (size_t)i * len, len));
}

static const char *
compile_for(const Shared *e, const char *strategy)
{
    return compile(example(e->name), arena_printf(arena, "--strategy %s %s",
                                                  strategy, e->compiler));
}

static Ran
check_workers(const Shared *e, int workers)
{
    const char *strategy = arena_printf(
        arena, "multi_worker_mirrored --workers %d --devices cpu:0-%d", workers,
        WORKER_REPLICAS / workers - 1);
    const char *plan = compile_for(e, strategy);
    Ran want = run_shared(e, plan, WORKER_REPLICAS);
    expect_same(e, strategy, 2, run_shared(e, plan, 2), want);
    return want;
}

/* One process runs all workers, on any number of devices; a single worker is
 * the strategy mirrored. */
static void
workers_run_on_any_number_of_devices(void **state)
{
    (void)state;
    enum { NUM = sizeof on_workers / sizeof *on_workers };
    write_parts();
    for (int i = sweep_first(NUM); i < NUM; i = sweep_next(i)) {
        const Shared *e = &on_workers[i];
        Ran one = check_workers(e, 1);
        const char *plan = compile_for(e, "mirrored --devices cpu:0-7");
        expect_same(e, ", mirrored", 4, run_shared(e, plan, 4), one);
        check_workers(e, 2);
        check_workers(e, 4);
    }
}

/* Long enough for their assertions. */
static void
learners_run_on_any_number_of_devices(void **state)
{
    static const struct {
        const char *name, *options, *says;
    } learners[] = {
        {"spiral", "", "epoch 59: loss "},
        {"convnet", "--set epochs=1", "epoch 0: loss "},
        {"charlm", "--set steps=3", "step 0: loss 5."},
    };
    (void)state;
    for (size_t i = 0; i < sizeof learners / sizeof *learners; i++) {
        for (int d = sweep_first(MOST_DEVICES); d < MOST_DEVICES;
             d = sweep_next(d)) {
            const char *plan =
                compile(example(learners[i].name),
                        arena_printf(arena, "--devices cpu:0-%d", d));
            Ran r = run_plan(plan, learners[i].options);
            assert_non_null(strstr(r.out, learners[i].says));
        }
    }
}

/* A checkpoint that charlm saves on two devices is restored by write on one. */
static void
write_reads_what_charlm_has_saved(void **state)
{
    (void)state;
    const char *plan = compile(example("charlm"), "--devices cpu:0-1 -D C=8");
    run_plan(plan, "--set steps=2");
    plan = compile(example("write"), "-D C=8 -D LENGTH=80");
    Ran r = run_plan(plan, "");
    const char *again = run_plan(plan, "").out;
    assert_string_equal(r.out, again);
    run_plan(compile(example("write"), "-D C=8 --devices cpu:0-2"), "");
}

/* ---- losses do not depend on the number of devices ---------------------- */

/* How a program is made to print its steps' losses, the first ones of them,
 * and to end soon. */
typedef struct Printing {
    const char *name, *options; /* of tfdc, where it would take long */
    const char *from, *to;
    const char *run_options;
} Printing;

#define IN_LOOP(reduction, step)                                               \
    "total += " reduction step "",                                             \
        "let now_lost = " reduction step "\n"                                  \
        "      print(\"step {now_lost:.17e}\")\n      total += now_lost"

static const Printing printings[] = {
    {"linear", "", IN_LOOP("reduce(sum, run ", "train_step(x, y))"), ""},
    {"bigram", "", IN_LOOP("reduce(sum, run ", "train_step(pair))"), ""},
    {"spiral", "",
     IN_LOOP("reduce(mean, run ", "train_step(example), axis = 0)"), ""},
    {"convnet", "-D SIZE=16 -D CHANNELS=16 -D BLOCKS=1",
     IN_LOOP("reduce(sum, run ", "train_step(example), axis = 0)"),
     "--set epochs=2"},
    {"charlm", "-D C=32 -D LAYERS=1",
     "if step % 50 == 0 { print(\"step {step}: loss {loss:.3f}\") }",
     "print(\"step {loss:.17e}\")", "--set steps=20"},
};

typedef struct Losses {
    double at[NUM_STEPS];
    int n;
} Losses;

static Losses
parse_losses(const char *out)
{
    Losses l = {.n = 0};
    for (const char *p = out; l.n < NUM_STEPS && (p = strstr(p, "step ")); p++)
        l.at[l.n++] = strtod(p + strlen("step "), NULL);
    assert_int_equal(l.n, NUM_STEPS);
    return l;
}

/* The losses under a strategy, with options of tfdc. */
static Losses
losses(const Printing *how, const char *strategy, int devices,
       const char *options)
{
    const char *text =
        substitute(arena, example(how->name), how->from, how->to);
    const char *plan = compile(
        text, arena_printf(arena, "--strategy %s --devices cpu:0-%d %s %s",
                           strategy, devices - 1, how->options, options));
    return parse_losses(run_plan(plan, how->run_options).out);
}

static void
check_losses(const Printing *how, const char *options, double tolerance)
{
    Losses one = losses(how, "mirrored", 1, options);
    enum { NUM_COUNTS = MOST_DEVICES - 1 };
    for (int k = sweep_first(NUM_COUNTS); k < NUM_COUNTS; k = sweep_next(k)) {
        int devices = k + 2;
        Losses many = losses(how, "mirrored", devices, options);
        for (int i = 0; i < NUM_STEPS; i++)
            if (!(fabs(many.at[i] - one.at[i]) <= tolerance * fabs(one.at[i])))
                fail_msg("%s, step %d: %.17g on one device, %.17g on %d",
                         how->name, i + 1, one.at[i], many.at[i], devices);
    }
}

/* Where variables live changes no bit. */
static void
central_storage_loses_the_same(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        const Printing *how = &printings[k];
        Losses all = losses(how, "mirrored", 3, "");
        Losses central = losses(how, "central_storage", 3, "");
        for (int i = 0; i < NUM_STEPS; i++)
            if (all.at[i] != central.at[i])
                fail_msg("%s, step %d: %.17g mirrored, %.17g central",
                         how->name, i + 1, all.at[i], central.at[i]);
    }
}

static void
losses_agree_in_f64(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof printings / sizeof *printings; i++)
        check_losses(&printings[i], "--widen", 1e-11);
}

/* A network of ReLUs and batch statistics lets rounding grow faster. */
static void
losses_agree_in_f32(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof printings / sizeof *printings; i++) {
        bool grows = !strcmp(printings[i].name, "convnet");
        check_losses(&printings[i], "", grows ? 1e-3 : 1e-5);
    }
}

/* ---- bits --------------------------------------------------------------- */

static const char *
checksum(const char *name, const char *compile_options, const char *run_options)
{
    const char *plan = compile(example(name), compile_options);
    Ran r = run_ok(arena, "tfd-run %s --data %s --checksum %s", plan, dir,
                   run_options);
    const char *line = strstr(r.out, "checksum ");
    assert_non_null(line);
    return arena_strndup(arena, line, strcspn(line, "\n"));
}

static void
check_bits(const char *name)
{
    static const char *const ways[][2] = {
        {"--devices cpu:0-1", ""},
        {"--devices cpu:0-1 -O0", ""},
        {"--devices cpu:0-1 -O3", ""},
        {"--devices cpu:0-1 --target x86-64-v3", ""},
        {"--devices cpu:0-1 --target x86-64-v3,x86-64-v4,sm_90", ""},
        {"--devices cuda:0-1", "--devices cpu:0-1"},
        {"--devices cpu:0-1", "--threads 1"},
        {"--devices cpu:0-1", "--threads 2"},
        {"--devices cpu:0-1", "--threads 4"},
    };
    const char *first = checksum(name, ways[0][0], ways[0][1]);
    int n = sizeof ways / sizeof *ways;
    for (int i = sweep_first(n); i < n; i = sweep_next(i))
        assert_string_equal(checksum(name, ways[i][0], ways[i][1]), first);
}

static void
bits_depend_on_the_program_alone(void **state)
{
    (void)state;
    check_bits("linear");
    check_bits("bigram");
}

static void
plans_are_the_same_bytes(void **state)
{
    (void)state;
    const char *plan = compile(example("linear"), "--devices cpu:0-1");
    const char *copy = in_dir("copy.tfp");
    run_ok(arena, "cp %s %s", plan, copy);
    compile(example("linear"), "--devices cpu:0-1");
    run_ok(arena, "cmp %s %s", plan, copy);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_runs_on_any_number_of_devices),
        cmocka_unit_test(bigram_runs_on_any_number_of_devices),
        cmocka_unit_test(replicas_share_devices_to_the_same_bits),
        cmocka_unit_test(every_example_shares_devices),
        cmocka_unit_test(workers_run_on_any_number_of_devices),
        cmocka_unit_test(central_storage_loses_the_same),
        cmocka_unit_test(learners_run_on_any_number_of_devices),
        cmocka_unit_test(write_reads_what_charlm_has_saved),
        cmocka_unit_test(losses_agree_in_f64),
        cmocka_unit_test(losses_agree_in_f32),
        cmocka_unit_test(bits_depend_on_the_program_alone),
        cmocka_unit_test(plans_are_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, set_up, release_arena);
}
