/*
 * lang_test.c - the tree of each program here, and the errors of wrong ones
 *
 *   lang/NAME.tfd          what `tfdc --to ast` prints is NAME.ast
 *   lang/errors/NAME.tfd   the messages are NAME.txt
 *
 *   lang_test SOURCE_ROOT trees|errors [--bless]
 *
 * --bless writes what is expected.
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include "frontend/parse.h"
#include "runtime/base/file.h"
#include "runtime/base/vec.h"

typedef VEC(char *) Names;

static Arena *arena; /* of the whole run */
static bool bless;

static const char *
read_text(const char *path, size_t *len)
{
    char *text;
    Status st = file_read(arena, path, &text, len);
    if (st) {
        print_error("%s\n", status_message(st));
        status_free(st);
        fail();
    }
    return text;
}

static void
expect_text(const char *path, const char *have)
{
    size_t len;
    if (bless)
        assert_null(file_write(path, have, strlen(have)));
    const char *want = read_text(path, &len);
    if (strcmp(want, have) != 0)
        print_error("%s\n--- expected\n%s--- but got\n%s---\n", path, want,
                    have);
    assert_string_equal(want, have);
}

static const char *
base_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* path with another ending. */
static const char *
sibling(const char *path, const char *ending)
{
    int stem = (int)(strlen(path) - strlen(".tfd"));
    return arena_printf(arena, "%.*s%s", stem, path, ending);
}

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
    ast_print(&s, tree);
    return str_text(&s);
}

static void
expect_tree(void **state)
{
    const char *path = *state;
    size_t len;
    const char *text = read_text(path, &len);
    Diag *d = diag_new(arena);
    AstNode *tree = parse(d, base_name(path), text, len);
    if (!tree)
        print_error("%s", diag_text(d, arena));
    assert_non_null(tree);
    const char *printed = print(tree);
    expect_text(sibling(path, ".ast"), printed);
    AstNode *again = parse(d, "printed", printed, strlen(printed));
    assert_non_null(again);
    assert_string_equal(print(again), printed);
}

static void
expect_errors(void **state)
{
    const char *path = *state;
    size_t len;
    const char *text = read_text(path, &len);
    Diag *d = diag_new(arena);
    assert_null(parse(d, base_name(path), text, len));
    expect_text(sibling(path, ".txt"), diag_text(d, arena));
}

/* ---- one test a file ---- */

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static Names
list_programs(const char *folder)
{
    Names names = {0};
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        const char *ending = strrchr(e->d_name, '.');
        if (ending && strcmp(ending, ".tfd") == 0)
            VEC_PUSH(arena, names,
                     arena_printf(arena, "%s/%s", folder, e->d_name));
    }
    closedir(dir);
    qsort(names.data, (size_t)names.len, sizeof *names.data, compare_names);
    return names;
}

static int
run_folder(const char *group, const char *folder, CMUnitTestFunction body)
{
    Names names = list_programs(folder);
    struct CMUnitTest *tests =
        NEW_ARRAY(arena, struct CMUnitTest, (size_t)names.len);
    for (int i = 0; i < names.len; i++) {
        tests[i].name = base_name(names.data[i]);
        tests[i].test_func = body;
        tests[i].initial_state = names.data[i];
    }
    return _cmocka_run_group_tests(group, tests, (size_t)names.len, NULL, NULL);
}

int
main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    bless = argc > 3 && strcmp(argv[3], "--bless") == 0;
    arena = arena_new(NULL, "test");
    bool errors = strcmp(argv[2], "errors") == 0;
    const char *folder = arena_printf(arena, "%s/tests/lang%s", argv[1],
                                      errors ? "/errors" : "");
    int failed =
        run_folder(argv[2], folder, errors ? expect_errors : expect_tree);
    arena_release(arena);
    return failed;
}
