/*
 * steps_test.c - what a steady step asks of the driver
 *
 * A program is run twice on the fake driver, for some steps and for more: the
 * difference of its counts is what the further steps did.
 */
#include "tests/cuda/fakes.h"
#include "tests/e2e/run.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

/* ---- counts -------------------------------------------------------------- */

/* The number before a name in the lines that the fake driver ends with. */
static long
count_in(Arena *a, const Ran *ran, const char *name)
{
    const char *at = strstr(ran->err, arena_printf(a, " %s\n", name));
    if (!at)
        return 0;
    while (at > ran->err && at[-1] != ' ')
        at--;
    return atol(at);
}

static long
number_before(const Ran *ran, const char *text)
{
    const char *at = strstr(ran->err, text);
    assert_non_null(at);
    while (at > ran->err && at[-1] != ' ')
        at--;
    return atol(at);
}

typedef struct Difference {
    Ran few, many;
    long steps;
} Difference;

static long
more(Arena *a, const Difference *d, const char *name)
{
    return count_in(a, &d->many, name) - count_in(a, &d->few, name);
}

static long
more_before(const Difference *d, const char *text)
{
    return number_before(&d->many, text) - number_before(&d->few, text);
}

/* ---- steady steps -------------------------------------------------------- */

/* components: of a batch, each copied to the device, and there to its place;
 * fetches: values that main takes back in a step; others: programs that are
 * launched between steps.  Collectives divide a step into segments. */
static const struct {
    const char *name, *options, *param;
    int few, many, steps;
    int components, fetches, others;
    int devices, segments;
} rows[] = {
    {"linear", "", "epochs", 4, 8, 16, 2, 1, 0, 1, 1},
    {"linear", "", "epochs", 4, 8, 16, 2, 2, 0, 2, 2},
    {"spiral", "-D WIDTH=4", "epochs", 2, 3, 32, 2, 1, 3, 1, 1},
    {"charlm", "-D BATCH=2 -D T=4 -D C=8 -D HEADS=2 -D LAYERS=1", "steps", 10,
     20, 10, 1, 1, 0, 1, 1},
};

static const char *
source_of(Arena *a, const char *name)
{
    const char *examples = arena_printf(a, "docs/examples/%s.tfd", name);
    const char *path = arena_printf(a, "%s/%s.tfd", dir, name);
    const char *text = source_text(a, examples);
    if (strcmp(name, "linear") == 0) {
        text = substitute(a, text, "0..200", "0..epochs");
        text = substitute(a, text, "\nvar w", "\nparam epochs: i32 = 1\nvar w");
    }
    write_text(path, text);
    return path;
}

/* Examples assert that they have learnt something, which so few steps do not.
 */
static Ran
run_for(Arena *a, size_t row, int num)
{
    Ran ran =
        run(a, "tfd-run %s/%s.tfp --set %s=%d --data %s/docs/examples", dir,
            rows[row].name, rows[row].param, num, getenv("TFD_ROOT"));
    assert_true(ran.code == 0 || ran.code == 1);
    return ran;
}

static void
check_steps(Arena *a, size_t row, const Difference *d)
{
    long steps = d->steps, copies = more(a, d, "cuMemcpyHtoDAsync_v2");
    int devices = rows[row].devices;
    assert_int_equal(more(a, d, "cuGraphLaunch"),
                     steps * devices * rows[row].segments + rows[row].others);
    assert_int_equal(more(a, d, "cuStreamBeginCapture_v2"), 0);
    assert_in_range(copies, steps * devices * rows[row].components,
                    steps * devices * rows[row].components + rows[row].others);
    assert_int_equal(more_before(d, " calls that allocate"), 0);
    assert_int_equal(more_before(d, " that synchronise"), 0);
    if (devices > 1)
        return; /* the rest is what collectives enqueue, too */
    assert_int_equal(more(a, d, "cuLaunchKernel"), 0);
    assert_int_equal(more(a, d, "cuMemcpyDtoDAsync_v2"),
                     steps * rows[row].components);
    /* two for the batch, one at the end, and one for each value fetched */
    assert_true(more(a, d, "cuEventRecord") <=
                steps * (3 + rows[row].fetches) + 8);
}

static void
print_steps(Arena *a, size_t row, const Difference *d)
{
    static const char *const shown[] = {
        "cuGraphLaunch",        "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2", "cuEventRecord",        "cuStreamWaitEvent"};
    printf("# %s on %d, of each of %ld steps:", rows[row].name,
           rows[row].devices, d->steps);
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        printf(" %.3g %s", (double)more(a, d, shown[i]) / (double)d->steps,
               shown[i]);
    printf("\n");
}

static void
a_steady_step_is_a_graph_launch(void **state)
{
    Arena *a = *state;
    set_fake("count,devices:2");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run_ok(a, "tfdc %s --devices cuda:0-%d %s -o %s/%s.tfp",
               source_of(a, rows[i].name), rows[i].devices - 1, rows[i].options,
               dir, rows[i].name);
        Ran few = run_for(a, i, rows[i].few);
        Ran many = run_for(a, i, rows[i].many);
        Difference d = {few, many, rows[i].steps};
        print_steps(a, i, &d);
        check_steps(a, i, &d);
    }
}

/* ---- time ---------------------------------------------------------------- */

static const char empty[] =
    "var w: f32[3] = [1.0, 2.0, 3.0]\n"
    "dataset train = range(20000).map(fn(i) = f32(i)).batch(4)\n"
    "fn step(x) {\n"
    "  w -= 0.001 * all_reduce(sum, w * sum(x))\n"
    "}\n"
    "main { for x in distribute(train) { run step(x) } }\n";

/* Seconds of main in launches. */
static double
seconds_on_devices(Arena *a)
{
    Ran ran = run_ok(a, "tfd-run %s/empty.tfp --stats", dir);
    const char *at = strstr(ran.err, "  devices ");
    assert_non_null(at);
    return strtod(at + strlen("  devices "), NULL);
}

#define ENOUGH 4e-6 /* seconds of a launch; then it is not run again */

/* A launch on so many devices, in microseconds: of the best of some runs, as
 * others take cores away. */
static double
time_of_launch(Arena *a, const char *source, int devices)
{
    enum { STEPS = 5000, RUNS = 10 };
    run_ok(a, "tfdc %s --devices cuda:0-%d -o %s/empty.tfp", source,
           devices - 1, dir);
    double best = seconds_on_devices(a);
    for (int i = 1; i < RUNS && best > ENOUGH * STEPS; i++)
        best = fmin(best, seconds_on_devices(a));
    return best / STEPS * 1e6;
}

/* On a driver that does nothing.  It says what a step took; the bounds are for
 * machines that do other things meanwhile, and threads without cores.  Under a
 * sanitizer, whose threads wait for each other at each allocation, there are
 * none. */
static void
the_host_s_time_is_short(void **state)
{
    Arena *a = *state;
    const char *source = arena_printf(a, "%s/empty.tfd", dir);
    write_text(source, empty);
    set_driver(getenv("TFD_IDLE_DRIVER"), "");
    double one = time_of_launch(a, source, 1);
    double two = time_of_launch(a, source, 2);
    printf("# a launch on one device takes %.2f us of the host's time, one "
           "with an all_reduce of two %.2f us\n",
           one, two);
    assert_true(is_sanitized() || one < 20.0);
    assert_true(is_sanitized() || two < 200.0);
}

/* ---- the suite ----------------------------------------------------------- */

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_step_is_a_graph_launch),
        cmocka_unit_test(the_host_s_time_is_short),
    };
    return cmocka_run_group_tests(tests, new_dir, release_arena);
}
