/*
 * lang_test.c - the syntax tree of each program here, and the errors of wrong
 * ones
 *
 *   lang/NAME.tfd          what `tfdc --to ast` prints is NAME.ast
 *   lang/errors/NAME.tfd   the messages are NAME.txt
 *
 *   lang_test SOURCE_ROOT trees|errors
 *
 * With TFD_BLESS=1 what is expected is written.
 */
#include "tests/unit/golden.h"

#include "frontend/syntax/parse.h"

static Arena *arena; /* of the whole run */

static AstNode *
parse(Diag *d, const char *name, const char *text, size_t len)
{
    uint16_t file = diag_add_source(d, name, text, len);
    return fe_parse(arena, intern_new(arena), d, file, text, len);
}

static const char *
print(const AstNode *tree)
{
    Str s = str_new(arena);
    fe_ast_print(&s, tree);
    return str_text(&s);
}

static void
expect_tree(void **state)
{
    const char *path = *state;
    size_t len;
    const char *text = golden_read(arena, path, &len);
    Diag *d = diag_new(arena);
    AstNode *tree = parse(d, golden_name(path), text, len);
    if (!tree)
        print_error("%s", diag_text(d, arena));
    assert_non_null(tree);
    const char *printed = print(tree);
    golden_expect(arena, golden_sibling(arena, path, ".ast"), printed);
    AstNode *again = parse(d, "printed", printed, strlen(printed));
    assert_non_null(again);
    assert_string_equal(print(again), printed);
}

static void
expect_errors(void **state)
{
    const char *path = *state;
    size_t len;
    const char *text = golden_read(arena, path, &len);
    Diag *d = diag_new(arena);
    assert_null(parse(d, golden_name(path), text, len));
    golden_expect(arena, golden_sibling(arena, path, ".txt"),
                  diag_text(d, arena));
}

int
main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    arena = arena_new(NULL, "test");
    bool errors = strcmp(argv[2], "errors") == 0;
    const char *folder = arena_printf(arena, "%s/tests/lang%s", argv[1],
                                      errors ? "/errors" : "");
    int failed = golden_run(arena, argv[2], folder, ".tfd",
                            errors ? expect_errors : expect_tree);
    arena_release(arena);
    return failed;
}
