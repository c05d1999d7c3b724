/*
 * messages_test.c - what the programs say of mistakes that the front end does
 * not see: places, repairs and chains of calls
 */
#include "runtime/base/str.h"
#include "tests/e2e/run.h"
#include "tests/unit/unit.h"

/* A program, and what is said of it when it is compiled, or run. */
typedef struct Mistake {
    const char *program, *message;
    bool runs;
} Mistake;

static const Mistake mistakes[] = {
    {"var w: f32 = 1.0\n"
     "fn inner(n) {\n"
     "  mut k = 0.0\n"
     "  for i in 0..n { k += w * w }\n"
     "  return k\n"
     "}\n"
     "fn step() { return grad(inner(i32(w)), w) }\n"
     "main { run step() }\n",
     "program.tfd:4:3: error: gradients go through a for only when its count "
     "is known when compiling\n"
     "    4 |   for i in 0..n { k += w * w }\n"
     "      |   ^~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
     "program.tfd:7:25: note: inner is called from here\n"
     "program.tfd:8:8: note: step is run from here\n",
     false},
    {"var w: f32 = 1.0\n"
     "var v: f32 = 1.0\n"
     "fn slopes() = grad(w * w, (w, v))\n"
     "main { run slopes() }\n",
     "program.tfd:3:15: warning: the loss does not depend on the variable "
     "\"v\": its gradient is zeros\n"
     "    3 | fn slopes() = grad(w * w, (w, v))\n"
     "      |               ^~~~~~~~~~~~~~~~~~~\n"
     "program.tfd:4:8: note: slopes is run from here\n",
     false},
    {"const TABLE = [2.0, 3.0, 5.0]\n"
     "dataset d = range(7).map(fn(i) = stack(TABLE)[i]).batch(2)\n"
     "main { for x in distribute(d) { print(\"{reduce(sum, x, axis = 0)}\") } "
     "}\n",
     "program.tfd:2:47: index 3 of an axis that has 3\n", true},
};

static int
set_up(void **state)
{
    *state = arena_new(NULL, "messages");
    return 0;
}

static int
tear_down(void **state)
{
    arena_release(*state);
    return 0;
}

/* Without the folder that the program is in. */
static const char *
without_dir(Arena *a, const char *text, const char *dir)
{
    Str s = str_new(a);
    size_t n = strlen(dir);
    while (*text) {
        if (!strncmp(text, dir, n) && text[n] == '/')
            text += n + 1;
        else
            str_addc(&s, *text++);
    }
    return str_text(&s);
}

static void
mistakes_are_told(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        const Mistake *m = &mistakes[i];
        write_text(arena_printf(a, "%s/program.tfd", dir), m->program);
        Ran ran = run(a, "tfdc %s/program.tfd -o %s/program.tfp", dir, dir);
        if (m->runs) {
            assert_int_equal(ran.code, 0);
            ran = run(a, "tfd-run %s/program.tfp", dir);
            assert_int_equal(ran.code, 1);
        }
        const char *said = without_dir(a, ran.err, dir);
        if (!strstr(said, m->message))
            fail_msg("not said: %s\nbut: %s", m->message, said);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
