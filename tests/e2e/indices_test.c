/*
 * indices_test.c - an index out of range ends the run, everywhere (D9)
 *
 * indices.def has a row for whatever may be given an index, and says of all
 * other names why they cannot.  Each program is run compiled, and its IR in the
 * reference interpreter: both end with the row's message, the first with the
 * line, which is the user's own also where the library takes the index.
 */
#include "ir/ir.h"
#include "tests/e2e/run.h"
#include "tests/ref/interp.h"
#include "tests/ref/load.h"
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

typedef struct Row {
    const char *names, *decls, *step, *message; /* no message: no index */
} Row;

static const Row rows[] = {
#define INDEX(names, decls, step, message) {names, decls, step, message},
#define NO_INDEX(reason, names) {names, NULL, NULL, NULL},
#include "tests/e2e/indices.def"
#undef INDEX
#undef NO_INDEX
};
enum { NUM_ROWS = sizeof rows / sizeof *rows };

/* ---- every name has a row ------------------------------------------------ */

static bool
names_it(const Row *row, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = row->names; (at = strstr(at, name)) != NULL;
         at += len) {
        bool begins = at == row->names || at[-1] == ' ';
        bool operation = at - row->names >= 3 &&
                         strncmp(at - 3, "op ", 3) == 0 &&
                         (at - row->names == 3 || at[-4] == ' ');
        if (begins && !operation && (at[len] == ' ' || !at[len]))
            return true;
    }
    return false;
}

static void
check_has_row(const char *name)
{
    for (int i = 0; i < NUM_ROWS; i++)
        if (names_it(&rows[i], name))
            return;
    fail_msg("tests/e2e/indices.def says nothing about \"%s\"", name);
}

static void
every_operation_has_a_row(void **state)
{
    for (int k = 0; k < NUM_OPS; k++)
        if (ir_op_info[k].index != INDEXES_none)
            check_has_row(arena_printf(*state, "op %s", ir_op_info[k].name));
}

static void
every_builtin_has_a_row(void **state)
{
    static const char *const names[] = {
#define OPERATION(name, ...) #name,
#define BUILTIN(name, ...) #name,
#define VALUE(name, doc) #name,
#include "frontend/builtins/builtins.def"
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_has_row(names[i]);
}

/* The name of a declaration of fn or module, from its line; NULL for others. */
static const char *
declared(Arena *a, const char *library, const char *line)
{
    const char *words[] = {"fn ", "module "};
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(words[i]);
        if (strncmp(line, words[i], n) == 0)
            return arena_printf(a, "%s.%.*s", library,
                                (int)strcspn(line + n, "( "), line + n);
    }
    return NULL;
}

static void
every_library_function_has_a_row(void **state)
{
    static const char *const libraries[] = {"floats", "metrics", "nn", "optim"};
    for (int i = 0; i < 4; i++) {
        const char *at = source_text(
            *state, arena_printf(*state, "frontend/lib/%s.tfd", libraries[i]));
        for (; *at; at += strcspn(at, "\n"), at += *at == '\n') {
            const char *name = declared(*state, libraries[i], at);
            if (name)
                check_has_row(name);
        }
    }
}

/* ---- each ends the run --------------------------------------------------- */

static const char *
program_of(Arena *a, const Row *row)
{
    return arena_printf(
        a,
        "use nn, optim, metrics\n"
        "var bad: i32 = 5\n"
        "var less: i64 = -1\n"
        "var bads: i32[2] = [1, 5]\n"
        "var bads5: i8[5] = [0, 1, -1, 2, 4]\n"
        "var w: f32[5, 3] = ones\n"
        "var rows: f32[5, 3] = ones aggregate(mean)\n"
        "var once: f32[5, 3] = ones aggregate(first)\n"
        "%s\n"
        "fn step() {\n"
        "  %s\n"
        "}\n"
        "main {\n"
        "  %s\n"
        "}\n",
        row->decls, row->step,
        strncmp(row->decls, "dataset", 7) == 0
            ? "for x in distribute(d) { print(\"{reduce(sum, x, axis = 0)}\") }"
            : "run step()");
}

static void
check_compiled(Arena *a, const Row *row, const char *dir)
{
    run_ok(a, "tfdc %s/program.tfd -o %s/program.tfp --devices cpu:0-1", dir,
           dir);
    Ran r = run(a, "tfd-run %s/program.tfp", dir);
    assert_int_equal(r.code, 1);
    if (!strstr(r.err, row->message) || !strstr(r.err, "program.tfd:"))
        fail_msg("%s: \"%s\" is not in\n%s", row->step, row->message, r.err);
}

/* The IR as the front end leaves it, before any pass, and placed. */
static void
check_interpreted(Arena *a, const Row *row, const char *dir, const char *phase)
{
    const char *text =
        run_ok(a, "tfdc %s/program.tfd --to %s --devices cpu:0-1", dir, phase)
            .out;
    const char *wrong;
    IrModule *m = ref_load(a, text, &wrong);
    if (!m)
        fail_msg("%s", wrong);
    InterpOptions options = {.data_dir = dir};
    Interp *in = interp_new(m, &options);
    Str out = str_new(a);
    Status st = interp_run(in, &out);
    if (!st || !strstr(status_message(st), row->message))
        fail_msg("interpreted, %s: %s: %s", phase, row->step,
                 st ? status_message(st) : "nothing is said");
    status_free(st);
    interp_release(in);
}

static void
an_index_out_of_range_ends_the_run(void **state)
{
    for (int i = 0; i < NUM_ROWS; i++) {
        if (!rows[i].message)
            continue;
        const char *dir = work_dir(*state);
        const char *text = program_of(*state, &rows[i]);
        write_text(arena_printf(*state, "%s/program.tfd", dir), text);
        check_compiled(*state, &rows[i], dir);
        if (!strstr(text, "grad("))
            check_interpreted(*state, &rows[i], dir, "ir");
        check_interpreted(*state, &rows[i], dir, "placed");
    }
}

/* Good indices, of the same programs: they run. */
static void
an_index_in_range_is_no_error(void **state)
{
    for (int i = 0; i < NUM_ROWS; i++) {
        if (!rows[i].message)
            continue;
        const char *dir = work_dir(*state);
        const char *text = program_of(*state, &rows[i]);
        text = substitute(*state, text, "bad: i32 = 5", "bad: i32 = 2");
        text = substitute(*state, text, "less: i64 = -1", "less: i64 = 0");
        text = substitute(*state, text, "[1, 5]", "[1, 2]");
        text = substitute(*state, text, "[0, 1, -1, 2, 4]", "[0, 1, 1, 2, 2]");
        if (strstr(text, "range(4)"))
            text = substitute(*state, text, "range(4)", "range(2)");
        write_text(arena_printf(*state, "%s/program.tfd", dir), text);
        run_ok(*state,
               "tfdc %s/program.tfd -o %s/program.tfp --devices cpu:0-1", dir,
               dir);
        run_ok(*state, "tfd-run %s/program.tfp", dir);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_a_row),
        cmocka_unit_test(every_builtin_has_a_row),
        cmocka_unit_test(every_library_function_has_a_row),
        cmocka_unit_test(an_index_out_of_range_ends_the_run),
        cmocka_unit_test(an_index_in_range_is_no_error),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
