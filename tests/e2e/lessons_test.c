/*
 * lessons_test.c - the examples that show one thing each: a metric, batch
 * normalization, schedules, gradient accumulation
 *
 * They contain assertions; here they run on several numbers of devices.
 */
#include "tests/e2e/run.h"
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

static const char *
printed(Arena *a, const char *name, const char *options)
{
    const char *dir = work_dir(a);
    run_ok(a, "tfdc %s/docs/examples/%s.tfd %s -o %s/program.tfp",
           getenv("TFD_ROOT"), name, options, dir);
    return run_ok(a, "tfd-run %s/program.tfp", dir).out;
}

static void
lessons_are_the_same_on_all_devices(void **state)
{
    static const char *const names[] = {"metric", "schedule"};
    Arena *a = *state;
    for (int e = 0; e < 2; e++) {
        const char *one = printed(a, names[e], "--devices cpu:0");
        for (int last = 1; last <= 4; last++) {
            const char *options = arena_printf(a, "--devices cpu:0-%d", last);
            assert_string_equal(printed(a, names[e], options), one);
        }
    }
}

/* On five devices most have nothing of the last batch. */
static void
normalization_is_of_the_global_batch(void **state)
{
    Arena *a = *state;
    for (int last = 0; last <= 4; last++) {
        const char *options = arena_printf(a, "--devices cpu:0-%d", last);
        assert_non_null(strstr(printed(a, "batchnorm", options), "averages"));
    }
}

static void
micro_batches_are_the_large_batch(void **state)
{
    Arena *a = *state;
    for (int last = 0; last <= 3; last++) {
        const char *devices = arena_printf(a, "--devices cpu:0-%d", last);
        printed(a, "accumulation", devices);
        printed(a, "accumulation",
                arena_printf(a, "%s --widen -D TOLERANCE=1e-11", devices));
    }
}

/* The one collective of their step is under the condition of the last. */
static void
micro_batches_meet_after_the_last(void **state)
{
    static const char collective[] = "all_reduce_start";
    Arena *a = *state;
    const char *text =
        run_ok(a,
               "tfdc %s/docs/examples/accumulation.tfd --devices cpu:0-1 "
               "--to placed",
               getenv("TFD_ROOT"))
            .out;
    const char *step = strstr(text, "%last: bool mirrored");
    assert_non_null(step);
    const char *last = strstr(step, "\n  if %last {");
    const char *meeting = strstr(step, collective);
    const char *end = strstr(step, "\nfunc ");
    assert_true(last && meeting && end);
    assert_true(last < meeting && meeting < end);
    const char *after = strstr(meeting + 1, collective);
    assert_true(!after || after > end);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lessons_are_the_same_on_all_devices),
        cmocka_unit_test(normalization_is_of_the_global_batch),
        cmocka_unit_test(micro_batches_are_the_large_batch),
        cmocka_unit_test(micro_batches_meet_after_the_last),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
