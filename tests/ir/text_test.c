/*
 * text_test.c - the text of the IR reads back, and wrong text is refused
 *
 * Each file of tests/ir is in the printer's layout, except for comment lines at
 * its top; together they have every operation.  Each file of tests/ir/bad names
 * the error it contains: "# error: text".
 */
#include "tests/unit/unit.h"

#include "ir/ir.h"
#include "ir/rules/build.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/ir/folder.h"

static const char *folder;

/* The text after the comment lines at its top. */
static const char *
body_of(const char *text)
{
    while (*text == '#')
        text = strchr(text, '\n') + 1;
    return text;
}

/* Reads and verifies a file; NULL and messages in *said if it is refused. */
static IrModule *
load(Arena *a, const TirFile *f, const char **said)
{
    Diag *d = diag_new(a);
    uint16_t source = diag_add_source(d, f->name, f->text, f->len);
    IrModule *m = ir_parse(a, intern_new(a), d, source, f->text, f->len);
    if (m && !ir_verify(m, d))
        m = NULL;
    *said = diag_text(d, a);
    return m;
}

static void
note_kind(IrOp *op, void *data)
{
    bool *seen = data;
    seen[op->kind] = true;
}

static void
prints_what_it_reads(void **state)
{
    (void)state;
    Arena *files = arena_new(NULL, "test");
    TirFiles list = tir_files(files, folder);
    assert_true(list.len >= 10);
    for (int i = 0; i < list.len; i++) {
        Arena *a = arena_new(files, "file");
        const char *said;
        IrModule *m = load(a, &list.data[i], &said);
        if (!m)
            fail_msg("%s: %s", list.data[i].name, said);
        assert_string_equal(ir_module_text(a, m), body_of(list.data[i].text));
        arena_release(a);
    }
    arena_release(files);
}

static void
clones_print_the_same(void **state)
{
    (void)state;
    Arena *files = arena_new(NULL, "test");
    TirFiles list = tir_files(files, folder);
    for (int i = 0; i < list.len; i++) {
        const char *said;
        Arena *a = arena_new(files, "file"), *b = arena_new(files, "clone");
        IrModule *m = load(a, &list.data[i], &said);
        IrModule *copy = ir_clone_module(m, b);
        assert_string_equal(ir_module_text(b, copy), ir_module_text(a, m));
        assert_true(ir_verify(copy, copy->diag));
    }
    arena_release(files);
}

static void
has_every_operation(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    TirFiles list = tir_files(a, folder);
    bool seen[NUM_OPS] = {0};
    for (int i = 0; i < list.len; i++) {
        const char *said;
        IrModule *m = load(a, &list.data[i], &said);
        for (IrFunc *fn = m->first; fn; fn = fn->next)
            ir_walk(fn->body, note_kind, seen);
    }
    for (int k = 0; k < NUM_OPS; k++) {
        if (!seen[k])
            fail_msg("no file has %s", ir_op_info[k].name);
    }
    arena_release(a);
}

/* Whether each "# error: text" at the file's top is said. */
static bool
is_refused(Arena *a, const TirFile *f)
{
    static const char mark[] = "# error: ";
    const char *said;
    bool right = true;
    if (load(a, f, &said)) {
        print_error("%s is accepted\n", f->name);
        return false;
    }
    for (const char *line = f->text; *line == '#';) {
        const char *end = strchr(line, '\n');
        assert_memory_equal(line, mark, sizeof mark - 1);
        line += sizeof mark - 1;
        const char *want = arena_strndup(a, line, (size_t)(end - line));
        if (!strstr(said, want)) {
            print_error("%s: wanted: %s\nsaid: %s", f->name, want, said);
            right = false;
        }
        line = end + 1;
    }
    return right;
}

static void
refuses_what_is_wrong(void **state)
{
    (void)state;
    Arena *files = arena_new(NULL, "test");
    TirFiles list = tir_files(files, arena_printf(files, "%s/bad", folder));
    int num_wrong = 0;
    assert_true(list.len >= 100);
    for (int i = 0; i < list.len; i++) {
        Arena *a = arena_new(files, "file");
        num_wrong += !is_refused(a, &list.data[i]);
        arena_release(a);
    }
    arena_release(files);
    assert_int_equal(num_wrong, 0);
}

/* A message about a place has the line of the source, when it is known. */
static void
messages_show_the_source(void **state)
{
    (void)state;
    static const char tfd[] = "fn f(x) {\n  w -= x\n}\n";
    static const char text[] =
        "tfd-ir 1 phase replicated\n"
        "source 0 \"a.tfd\"\n"
        "strategy mirrored devices \"cpu:0-1\" replicas 2\n"
        "var @w: f32 sync(on_write) aggregate(none)\n"
        "func @f(%x: f32 per_replica) program {\n"
        "  write %x {var=@w mode=set} at 2:3+6\n"
        "  return\n"
        "}\n";
    Arena *a = arena_new(NULL, "test");
    Diag *d = diag_new(a);
    diag_add_source(d, "a.tfd", tfd, sizeof tfd - 1);
    uint16_t source = diag_add_source(d, "a.tir", text, sizeof text - 1);
    IrModule *m = ir_parse(a, intern_new(a), d, source, text, sizeof text - 1);
    assert_non_null(m);
    assert_false(ir_verify(m, d));
    assert_string_equal(
        diag_text(d, a),
        "a.tfd:2:3: error: a per-replica value is written to the variable "
        "\"w\", which is equal on all replicas, in @f: write %x {var=@w "
        "mode=set} at 2:3+6\n"
        "    2 |   w -= x\n"
        "      |   ^~~~~~\n");
    arena_release(a);
}

/* A module built by hand lists the sources that the diag has. */
static void
built_modules_list_sources(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    Diag *d = diag_new(a);
    diag_add_source(d, "a.tfd", NULL, 0);
    IrModule *m = ir_module_new(a, intern_new(a), d);
    IrFunc *fn = ir_func_new(m, "main", FUNC_MAIN, NO_LOC);
    IrValue *x = ir_const_float(fn->body, DT_f32, 0.5, (Loc){3, 4, 5, 0});
    x->name = "9 lives"; /* no name in the text */
    ir_build_return(fn->body, 0, NULL, NO_LOC);
    assert_string_equal(ir_module_text(a, m),
                        "tfd-ir 1 phase ir\n"
                        "source 0 \"a.tfd\"\n"
                        "strategy default devices \"cpu:0\" replicas 1\n"
                        "\n"
                        "func @main() main {\n"
                        "  %0: f32 = constant {dims=[] dtype=f32 data=[0.5]} "
                        "at 3:4+5\n"
                        "  return\n"
                        "}\n");
    arena_release(a);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_what_it_reads),
        cmocka_unit_test(clones_print_the_same),
        cmocka_unit_test(has_every_operation),
        cmocka_unit_test(refuses_what_is_wrong),
        cmocka_unit_test(messages_show_the_source),
        cmocka_unit_test(built_modules_list_sources),
    };
    folder = argc > 1 ? argv[1] : "tests/ir";
    return cmocka_run_group_tests_name("ir text", tests, NULL, NULL);
}
