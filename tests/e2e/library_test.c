/*
 * library_test.c - the standard library beside its formulas
 *
 *   programs/NAME.tfd    uses the library, or prints alone
 *   programs/NAME.out    all of it, on any number of devices
 *
 * With TFD_BLESS=1 the .out files are written; they were compared with NumPy
 * once and are to be when they change.
 */
#include <math.h>
#include "tests/e2e/run.h"
#include "tests/unit/unit.h"
#include "tests/unit/sweep.h"
#include "tests/unit/arena.h"

static const char *const devices[] = {
    "--devices cpu:0",
    "--devices cpu:0-1",
    "--devices cpu:0-2",
    "--devices cpu:0-3 --strategy mirrored",
};

static const char *
printed(Arena *a, const char *name, const char *options)
{
    const char *dir = work_dir(a);
    run_ok(a, "tfdc %s/tests/e2e/programs/%s.tfd %s -o %s/program.tfp",
           getenv("TFD_ROOT"), name, options, dir);
    return run_ok(a, "tfd-run %s/program.tfp", dir).out;
}

static void
check(Arena *a, const char *name)
{
    const char *file = arena_printf(a, "tests/e2e/programs/%s.out", name);
    if (getenv("TFD_BLESS"))
        write_text(arena_printf(a, "%s/%s", getenv("TFD_ROOT"), file),
                   printed(a, name, devices[0]));
    const char *want = source_text(a, file);
    int n = sizeof devices / sizeof *devices;
    for (int i = sweep_first(n); i < n; i = sweep_next(i))
        assert_string_equal(printed(a, name, devices[i]), want);
}

static void
layers_are_their_formulas(void **state)
{
    check(*state, "layers");
}

static void
images_are_their_formulas(void **state)
{
    check(*state, "images");
}

static void
floats_are_near_each_other(void **state)
{
    check(*state, "floats");
}

static void
sequences_are_their_formulas(void **state)
{
    check(*state, "sequences");
}

static void
optimizers_are_their_formulas(void **state)
{
    check(*state, "optimizers");
}

static void
full_batches_are_shared_by_any_number(void **state)
{
    check(*state, "full");
}

static void
metrics_count_what_they_say(void **state)
{
    check(*state, "metrics");
}

static void
holes_show_numbers_and_nests(void **state)
{
    check(*state, "printed");
}

static void
conditions_are_evaluated_until_they_fail(void **state)
{
    check(*state, "conditions");
}

static double
loss_of_epoch(Arena *a, const char *text, int epoch)
{
    const char *at = strstr(text, arena_printf(a, "epoch %d: loss ", epoch));
    assert_non_null(at);
    return strtod(strstr(at, "loss ") + 5, NULL);
}

/* A held-out set learnt in weights of 16 bits, with copies in f32 and a scaled
 * loss: on however many devices, before rounding has led far. */
static void
spirals_are_learnt_in_16_bits(void **state)
{
    Arena *a = *state;
    static const char *const dtypes[] = {"f16", "bf16"};
    for (int t = 0; t < 2; t++) {
        const char *texts[3];
        for (int i = 0; i < 3; i++) {
            const char *options =
                arena_printf(a, "-D T=%s %s", dtypes[t], devices[i]);
            texts[i] = printed(a, "halves", options);
            for (int e = 0; e < 5; e++) {
                double want = loss_of_epoch(a, texts[0], e);
                double have = loss_of_epoch(a, texts[i], e);
                assert_true(fabs(have - want) <= 0.02 * want);
            }
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_their_formulas),
        cmocka_unit_test(images_are_their_formulas),
        cmocka_unit_test(floats_are_near_each_other),
        cmocka_unit_test(sequences_are_their_formulas),
        cmocka_unit_test(optimizers_are_their_formulas),
        cmocka_unit_test(full_batches_are_shared_by_any_number),
        cmocka_unit_test(metrics_count_what_they_say),
        cmocka_unit_test(holes_show_numbers_and_nests),
        cmocka_unit_test(conditions_are_evaluated_until_they_fail),
        cmocka_unit_test(spirals_are_learnt_in_16_bits),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
