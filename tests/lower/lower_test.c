/*
 * lower_test.c - what the front end makes of each program here
 *
 *   NAME.tfd    the program; lines that begin with #! are options:
 *                 #! devices cpu:0-1    #! strategy mirrored
 *                 #! define N=3         #! widen
 *   NAME.tir    the module it becomes, when it is right
 *   NAME.txt    the messages, when there are some
 *
 *   lower_test SOURCE_ROOT
 *
 * With TFD_BLESS=1 what is expected is written.  parts/ has what programs use.
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include "frontend/frontend.h"
#include "runtime/base/file.h"
#include "runtime/base/vec.h"

typedef VEC(const char *) Names;

static Arena *arena; /* of the whole run */
static bool bless;

/* ---- files -------------------------------------------------------------- */

static const char *
read_text(const char *path, size_t *len)
{
    char *text;
    Status st = file_read(arena, path, &text, len);
    if (st)
        print_error("%s\n", status_message(st));
    status_free(st);
    return st ? NULL : text;
}

static const char *
sibling(const char *path, const char *ending)
{
    int stem = (int)(strlen(path) - strlen(".tfd"));
    return arena_printf(arena, "%.*s%s", stem, path, ending);
}

/* have is the content of the file; NULL: there is no such file. */
static void
expect_text(const char *path, const char *have)
{
    size_t len;
    if (bless && have)
        assert_null(file_write(path, have, strlen(have)));
    if (bless && !have)
        unlink(path);
    bool exists = access(path, R_OK) == 0;
    const char *want = exists ? read_text(path, &len) : "";
    if (!have)
        have = "";
    if (strcmp(want, have) != 0)
        print_error("%s\n--- expected\n%s--- but got\n%s---\n", path, want,
                    have);
    assert_string_equal(want, have);
}

/* ---- options ------------------------------------------------------------ */

static const char *
value_of(const char *line, const char *option)
{
    size_t n = strlen(option);
    return strncmp(line, option, n) == 0 ? line + n : NULL;
}

static void
read_option(const char *line, FeOptions *out, Names *defines)
{
    const char *value;
    if ((value = value_of(line, "devices ")))
        out->devices = value;
    else if ((value = value_of(line, "strategy ")))
        out->strategy = value;
    else if ((value = value_of(line, "define ")))
        VEC_PUSH(arena, *defines, value);
    else if (strcmp(line, "widen") == 0)
        out->widen = true;
    else
        fail_msg("unknown option: %s", line);
}

static FeOptions
read_options(const char *text)
{
    FeOptions out = {0};
    Names defines = {0};
    for (const char *at = text; strncmp(at, "#! ", 3) == 0;) {
        size_t n = strcspn(at, "\n");
        read_option(arena_strndup(arena, at + 3, n - 3), &out, &defines);
        at += n + (at[n] == '\n');
    }
    out.defines = defines.data;
    out.num_defines = defines.len;
    return out;
}

/* ---- one program -------------------------------------------------------- */

static const char *
module_text(const IrModule *m)
{
    Str s = str_new(arena);
    ir_print_module(&s, m);
    return str_text(&s);
}

static void
expect_verified(const IrModule *m)
{
    Diag *d = diag_new(arena);
    bool ok = ir_verify(m, d);
    if (!ok)
        print_error("%s%s", module_text(m), diag_text(d, arena));
    assert_true(ok);
}

static void
check_program(void **state)
{
    const char *path = *state;
    const char *name = strrchr(path, '/') + 1;
    size_t len;
    const char *text = read_text(path, &len);
    assert_non_null(text);
    FeOptions options = read_options(text);
    options.path = name;
    options.text = text;
    options.len = len;
    Diag *d = diag_new(arena);
    IrModule *m = fe_compile(arena, intern_new(arena), d, &options);
    const char *messages = diag_text(d, arena);
    assert_int_equal(m == NULL, diag_num_errors(d) > 0);
    expect_text(sibling(path, ".txt"), messages[0] ? messages : NULL);
    expect_text(sibling(path, ".tir"), m ? module_text(m) : NULL);
    if (m)
        expect_verified(m);
}

/* ---- one test a program -------------------------------------------------- */

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
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

/* Programs use files beside them. */
static Names
begin(const char *root)
{
    const char *folder = arena_printf(arena, "%s/tests/lower", root);
    if (chdir(folder) != 0)
        fail_msg("no folder %s", folder);
    return list_programs(folder);
}

int
main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    bless = getenv("TFD_BLESS") != NULL;
    arena = arena_new(NULL, "test");
    Names names = begin(argv[1]);
    struct CMUnitTest *tests =
        NEW_ARRAY(arena, struct CMUnitTest, (size_t)names.len);
    for (int i = 0; i < names.len; i++) {
        tests[i].name = strrchr(names.data[i], '/') + 1;
        tests[i].test_func = check_program;
        tests[i].initial_state = (void *)(uintptr_t)names.data[i];
    }
    int failed =
        _cmocka_run_group_tests("lower", tests, (size_t)names.len, NULL, NULL);
    arena_release(arena);
    return failed;
}
