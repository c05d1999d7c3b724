/*
 * limits_test.c - messages that only unusual texts provoke
 *
 * Their text is generated.  Each program ends in one message. (Growth is tested
 * by tests/e2e/growth_test.c.)
 */
#include "tests/unit/unit.h"
#include "ir/text/text.h"
#include "tests/unit/arena.h"
#include "tests/unit/work_dir.h"

#include "frontend/frontend.h"
#include "ir/base/io/limit.h"

static void
expect_of(const char *text, size_t len, const char *message)
{
    Arena *a = arena_new(arena, "compile");
    Diag *d = diag_new(a);
    FeOptions options = {.path = "limits.tfd", .text = text, .len = len};
    assert_null(fe_compile(a, intern_new(a), d, &options));
    const char *said = diag_text(d, a);
    if (!strstr(said, message))
        fail_msg("not said: %s\nbut: %s", message, said);
    arena_release(a);
}

static void
expect(const char *text, const char *message)
{
    expect_of(text, strlen(text), message);
}

/* ---- text --------------------------------------------------------------- */

static void
text_is_checked(void **state)
{
    (void)state;
    expect_of("main { }\0", 9, "1:9: error: a zero byte cannot stand in");
    expect("main { \xff }", "1:8: error: the text is not UTF-8 here");
    expect("main { \x02 }", "1:8: error: unknown character, number 2");
    expect("", "error: the program has no main { ... }");
    expect_of("", 4000001, "error: the source is larger than 4000000 bytes");
}

static void
modules_are_limited(void **state)
{
    (void)state;
    Diag *d = diag_new(arena);
    assert_null(ir_parse(arena, intern_new(arena), d,
                         diag_add_source(d, "a.tir", NULL, 0), "",
                         (size_t)limit_value(LIMIT_module) + 1));
    assert_non_null(strstr(diag_text(d, arena),
                           "error: the text is larger than 100000000 bytes"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(text_is_checked, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(modules_are_limited, new_arena,
                                        release_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
