/*
 * help_test.c - what the programs say of themselves, and of wrong commands
 */
#include "tests/e2e/run.h"
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

/* docs/cli.md has the page of --help word for word. */
static void
the_pages_are_in_the_docs(void **state)
{
    Arena *a = *state;
    const char *docs = source_text(a, "docs/cli.md");
    assert_non_null(strstr(docs, run_ok(a, "tfdc --help").out));
    assert_non_null(strstr(docs, run_ok(a, "tfd-run --help").out));
}

static void
wrong_commands_exit_with_2(void **state)
{
    Arena *a = *state;
    static const char *const commands[] = {
        "tfdc",
        "tfdc a.tfd --devises cpu:0",
        "tfdc a.tfd --to nowhere",
        "tfdc a.tfd --strategy mirored",
        "tfdc a.tfd -O9",
        "tfdc -",
        "tfdc a.tfd --limit steps",
        "tfdc a.tfd --limit stesp=3",
        "tfdc a.tfd --limit money=3",
        "tfdc a.tfd --limit calls=300",
        "tfdc a.tfd --limit steps=3T",
        "tfdc a.tfd --collectives bytes_per_pack=-1",
        "tfdc a.tfd --print-after fusion",
        "tfd-run",
        "tfd-run a.tfp --thread 2",
        "tfd-run a.tfp --threads none",
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        Ran r = run(a, "%s", commands[i]);
        if (r.code != 2 || !*r.err)
            fail_msg("%s: exit status %d\n%s", commands[i], r.code, r.err);
    }
}

static void
near_misses_get_a_suggestion(void **state)
{
    Arena *a = *state;
    assert_non_null(
        strstr(run(a, "tfdc a.tfd --devises cpu:0").err, "--devices"));
    assert_non_null(
        strstr(run(a, "tfdc a.tfd --strategy mirored").err, "mirrored"));
    assert_non_null(
        strstr(run(a, "tfd-run a.tfp --thread 2").err, "--threads"));
}

static void
wrong_input_exits_with_1(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    const char *file = arena_printf(a, "%s/a.tfd", dir);
    write_text(file, "main { print(\"{x}\") }\n");
    Ran r = run(a, "tfdc %s", file);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "a.tfd:1:16: error: "));
    assert_int_equal(run(a, "tfdc %s/none.tfd", dir).code, 1);
    assert_int_equal(run(a, "tfd-run %s", file).code, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pages_are_in_the_docs),
        cmocka_unit_test(wrong_commands_exit_with_2),
        cmocka_unit_test(near_misses_get_a_suggestion),
        cmocka_unit_test(wrong_input_exits_with_1),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
