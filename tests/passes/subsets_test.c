/*
 * subsets_test.c - any choice and order of passes gives IR or a message
 *
 *   subsets_test SOURCE_ROOT
 *
 * Of each program: every pass alone, every two of them, and lists that chance
 * makes, of which the longer ones are in the order of the pipeline but for a
 * few.  What is left reads back, and the pipeline goes on from it, or says why
 * it cannot.
 */
#include "tests/unit/unit.h"

#include "frontend/frontend.h"
#include "ir/base/io/file.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "passes/passes.h"
#include "tests/unit/arena.h"

static const struct {
    const char *path, *devices, *strategy;
} programs[] = {
    {"docs/examples/linear.tfd", "cpu:0-1", NULL},
    {"docs/examples/linear.tfd", "cpu:0", NULL},
    {"docs/examples/contexts.tfd", "cpu:0-1", NULL},
    {"docs/examples/metric.tfd", "cpu:0-1", "central_storage"},
    {"docs/examples/ragged.tfd", "cpu:0-2", NULL},
};
enum { NUM_PROGRAMS = sizeof programs / sizeof *programs, NUM_LISTS = 150 };

static const char *root;

static IrModule *
compile(Arena *a, Diag *d, int i)
{
    char *text;
    size_t len;
    const char *path = arena_printf(a, "%s/%s", root, programs[i].path);
    assert_null(file_read(a, path, &text, &len));
    FeOptions options = {.path = path,
                         .text = text,
                         .len = len,
                         .devices = programs[i].devices,
                         .strategy = programs[i].strategy};
    IrModule *m = fe_compile(a, intern_new(a), d, &options);
    if (!m)
        fail_msg("%s", diag_text(d, a));
    return m;
}

/* What a list left is text that reads back, from which the rest can be tried.
 */
static void
go_on_from(Arena *a, const IrModule *m, const char *list)
{
    const char *text = ir_module_text(a, m);
    Diag *d = diag_new(a);
    PassOptions how = {.level = 2};
    uint16_t file = diag_add_source(d, "text", text, strlen(text));
    IrModule *again = ir_parse(a, intern_new(a), d, file, text, strlen(text));
    if (!again || !ir_verify(again, d))
        fail_msg("%s: %s", list, diag_text(d, a));
    if (again->phase != PHASE_PLACED &&
        !pass_run_pipeline(again, d, &how, NULL))
        assert_true(diag_num_errors(d) > 0);
}

static void
check_list(int program, const char *list)
{
    Arena *a = arena_new(NULL, "list");
    Diag *d = diag_new(a);
    PassOptions how = {.level = 2};
    IrModule *m = compile(a, d, program);
    if (pass_run_pipeline(m, d, &how, list))
        go_on_from(a, m, list);
    else
        assert_true(diag_num_errors(d) > 0);
    arena_release(a);
}

static void
each_alone_and_every_two(void **state)
{
    int program = *(const int *)*state;
    for (int i = 0; i < num_passes; i++) {
        check_list(program, pass_table[i].name);
        for (int j = 0; j < num_passes; j++)
            check_list(program, arena_printf(arena, "%s,%s", pass_table[i].name,
                                             pass_table[j].name));
    }
}

static uint32_t
next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* The pipeline without some, and now and then another in between. */
static const char *
random_list(uint64_t *seed)
{
    Str s = str_new(arena);
    uint32_t kept = 2 + next_random(seed) % 14;
    for (int i = 0; i < num_passes; i++) {
        int strange = (int)(next_random(seed) % (uint32_t)num_passes);
        if (next_random(seed) % 16 <= kept)
            str_addf(&s, "%s,", pass_table[i].name);
        if (next_random(seed) % 24 == 0)
            str_addf(&s, "%s,", pass_table[strange].name);
    }
    return str_text(&s);
}

static void
lists_by_chance(void **state)
{
    int program = *(const int *)*state;
    uint64_t seed = (uint64_t)program + 1;
    for (int i = 0; i < NUM_LISTS; i++)
        check_list(program, random_list(&seed));
}

int
main(int argc, char **argv)
{
    static int numbers[NUM_PROGRAMS];
    static struct CMUnitTest tests[2 * NUM_PROGRAMS];
    static char names[2 * NUM_PROGRAMS][96];
    assert_int_equal(argc, 2);
    root = argv[1];
    for (int i = 0; i < 2 * NUM_PROGRAMS; i++) {
        const char *what = i % 2 ? "lists by chance" : "each and every two";
        numbers[i / 2] = i / 2;
        snprintf(names[i], sizeof names[i], "%s of %s on %s", what,
                 programs[i / 2].path, programs[i / 2].devices);
        tests[i].name = names[i];
        tests[i].test_func = i % 2 ? lists_by_chance : each_alone_and_every_two;
        tests[i].initial_state = &numbers[i / 2];
    }
    arena = arena_new(NULL, "lists");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_release(arena);
    return failed;
}
