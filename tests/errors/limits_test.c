/*
 * limits_test.c - what only very large or strange programs are told
 *
 * Their text is made here.  Each program ends in one message.
 *
 *   limits_test [work]    work: those that take memory and seconds
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"
#include "tests/unit/work_dir.h"

#include "frontend/frontend.h"

static const char *
times(int n, const char *text)
{
    Str s = str_new(arena);
    for (int i = 0; i < n; i++)
        str_add(&s, text);
    return str_text(&s);
}

/* begin(0) middle(1) .. middle(n - 1) end; %d of middle is its number, and
 * that before. */
static const char *
chain(const char *begin, int n, const char *before, const char *middle,
      const char *after, const char *end)
{
    Str s = str_new(arena);
    str_add(&s, begin);
    for (int i = 1; i <= n; i++)
        str_addf(&s, "%s%d%s%d%s", before, i, middle, i - 1, after);
    str_add(&s, end);
    return str_text(&s);
}

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
    expect_of("", 64 * 1024 * 1024 + 1,
              "error: the source is larger than 67108864 bytes");
}

static void
modules_are_limited(void **state)
{
    (void)state;
    Diag *d = diag_new(arena);
    assert_null(ir_parse(arena, intern_new(arena), d,
                         diag_add_source(d, "a.tir", NULL, 0), "",
                         (size_t)IR_MAX_TEXT + 1));
    assert_non_null(strstr(diag_text(d, arena),
                           "error: the text is larger than 268435456 bytes"));
}

static void
nesting_is_limited(void **state)
{
    (void)state;
    expect(arena_printf(arena, "const A = %s", times(2000, "(")),
           "error: this is nested more than ");
    expect(arena_printf(arena, "const A = %s1", times(5000, "- ")),
           "error: this is nested too deeply");
}

/* ---- evaluation --------------------------------------------------------- */

static void
calls_are_limited(void **state)
{
    (void)state;
    expect(chain("fn f0(x) = x\n", 200, "fn f",
                 "(x) = - - - - - - - - - - - - - - - - - - - - - f", "(x)\n",
                 "const A = f200(1)\nmain { }\n"),
           "error: calls and expressions are more than 4000 deep here");
    expect(chain("param p: f32 = 1.0\nfn f0() { print(\"\") }\n", 200, "fn f",
                 "() { while p > 1.0 { while p > 1.0 { f", "() } } }\n",
                 "main { f200() }\n"),
           "error: control flow is more than 256 deep here");
}

static void
nests_are_limited(void **state)
{
    (void)state;
    expect("let many = [1.0 for i in 0..300]\n"
           "main { mut t = (1.0,)\n"
           "  for x in many { t = (t,) } }\n",
           "error: nests are more than 256 deep here");
}

static void
work_is_limited(void **state)
{
    (void)state;
    expect("fn f(x) { mut y = x\n"
           "  for i in 0..60000 { for k in 0..60000 { y += 1 } }\n"
           "  return y }\n"
           "const A = f(1)\n"
           "main { }\n",
           "error: more than 10000000 steps to evaluate the program");
    expect("param p: f32 = 1.0\n"
           "const L = [[i for i in 0..1000] for k in 0..60]\n"
           "main { mut y = p\n"
           "  for r in L { for i in r { "
           "y = y + p + p + p + p + p + p + p + p + p + p } }\n"
           "}\n",
           "error: the program has more than 1000000 operations here");
    expect("module One { var w: f32 = 0.0 }\n"
           "let all = [One() for i in 0..20000]\n"
           "main { }\n",
           "error: the program has more than 16384 variables here");
}

/* ---- files -------------------------------------------------------------- */

static void
files_are_limited(void **state)
{
    enum { NUM = 257 };
    const char *folder = work_dir(arena);
    Str program = str_new(arena);
    (void)state;
    for (int i = 0; i < NUM; i++) {
        const char *path = arena_printf(arena, "%s/f%d.tfd", folder, i);
        assert_int_equal(symlink("/dev/null", path), 0);
        str_addf(&program, "use \"%s\"\n", path);
    }
    expect(str_text(&program), "error: more than 256 files");
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(text_is_checked, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(modules_are_limited, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(nesting_is_limited, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(calls_are_limited, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(nests_are_limited, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(files_are_limited, new_arena,
                                        release_arena),
    };
    const struct CMUnitTest work[] = {
        cmocka_unit_test_setup_teardown(work_is_limited, new_arena,
                                        release_arena),
    };
    if (argc > 1 && strcmp(argv[1], "work") == 0)
        return cmocka_run_group_tests_name("work", work, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
