/*
 * pipeline_test.c - the result of the passes is verified, whatever they did
 */
#include "tests/unit/unit.h"

#include "ir/text/text.h"
#include "passes/passes.h"
#include "tests/unit/arena.h"

/* As a pass would leave it that forgot to sum the gradient. */
static const char drifting[] =
    "tfd-ir 1 phase replicated\n"
    "source 0 \"t.tfd\"\n"
    "strategy mirrored devices \"cpu:0-1\" replicas 2\n"
    "var @w: f32[2] mirrored sync(on_write) aggregate(none) at 1:1+1\n"
    "\n"
    "func @f(%g: f32[2] per_replica) program at 2:1+1 {\n"
    "  write %g {var=@w mode=set} at 2:2+1\n"
    "  return\n"
    "}\n";

static const char *
run_pipeline(bool verify_each)
{
    Diag *d = diag_new(arena);
    PassOptions options = {.level = 2, .verify_each = verify_each};
    size_t len = sizeof drifting - 1;
    uint16_t file = diag_add_source(d, "t.tir", drifting, len);
    IrModule *m = ir_parse(arena, intern_new(arena), d, file, drifting, len);
    assert_non_null(m);
    assert_false(pass_run_pipeline(m, d, &options, NULL));
    return diag_text(d, arena);
}

static void
a_wrong_module_is_no_plan(void **state)
{
    (void)state;
    const char *text = run_pipeline(false);
    assert_non_null(strstr(text, "a mistake of the compiler, not of the"));
}

static void
each_verification_names_the_pass(void **state)
{
    (void)state;
    assert_non_null(strstr(run_pipeline(true), "the pass before this was "));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_wrong_module_is_no_plan, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(each_verification_names_the_pass,
                                        new_arena, release_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
