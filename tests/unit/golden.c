/*
 * golden.c - folders of cases: one test for each file, with the expected output
 * beside it
 */
#include "tests/unit/golden.h"

#include <dirent.h>
#include "ir/base/io/file.h"

/* ---- files -------------------------------------------------------------- */

/* Not inlined: gcc 12 would take what file_read stores in text for a pointer
 * to text itself, and warn of what becomes of it. */
__attribute__((noinline)) const char *
golden_read(Arena *a, const char *path, size_t *len)
{
    char *text;
    Status st = file_read(a, path, &text, len);
    if (st) {
        print_error("%s\n", status_message(st));
        status_free(st);
        fail();
    }
    return text;
}

const char *
golden_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *
golden_sibling(Arena *a, const char *path, const char *ending)
{
    const char *dot = strrchr(golden_name(path), '.');
    int stem = dot ? (int)(dot - path) : (int)strlen(path);
    return arena_printf(a, "%.*s%s", stem, path, ending);
}

/* ---- comparisons -------------------------------------------------------- */

bool
golden_blesses(void)
{
    return getenv("TFD_BLESS") != NULL;
}

void
golden_expect_equal(const char *about, const char *have, const char *want)
{
    if (strcmp(want, have) != 0)
        print_error("%s\n--- expected\n%s--- but got\n%s---\n", about, want,
                    have);
    assert_string_equal(want, have);
}

void
golden_expect(Arena *a, const char *path, const char *have)
{
    size_t len;
    if (golden_blesses() && have)
        assert_null(file_write(path, have, strlen(have)));
    else if (golden_blesses())
        unlink(path);
    bool exists = access(path, F_OK) == 0;
    const char *want = exists ? golden_read(a, path, &len) : "";
    golden_expect_equal(path, have ? have : "", want);
}

/* ---- folders ------------------------------------------------------------ */

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

Paths
golden_list(Arena *a, const char *folder, const char *ending)
{
    Paths paths = {0};
    DIR *dir = opendir(folder);
    if (!dir)
        return paths;
    for (struct dirent *e; (e = readdir(dir));) {
        const char *dot = strrchr(e->d_name, '.');
        if (dot && strcmp(dot, ending) == 0)
            VEC_PUSH(a, paths, arena_printf(a, "%s/%s", folder, e->d_name));
    }
    closedir(dir);
    if (paths.len)
        qsort(paths.data, (size_t)paths.len, sizeof *paths.data, compare_names);
    return paths;
}

int
golden_run_paths(Arena *a, const char *group, Paths paths,
                 CMUnitTestFunction body)
{
    if (paths.len == 0) {
        fprintf(stderr, "%s has no files\n", group);
        return 1;
    }
    struct CMUnitTest *tests =
        NEW_ARRAY(a, struct CMUnitTest, (size_t)paths.len);
    for (int i = 0; i < paths.len; i++) {
        tests[i].name = golden_name(paths.data[i]);
        tests[i].test_func = body;
        tests[i].initial_state = (void *)(uintptr_t)paths.data[i];
    }
    return _cmocka_run_group_tests(group, tests, (size_t)paths.len, NULL, NULL);
}

int
golden_run(Arena *a, const char *group, const char *folder, const char *ending,
           CMUnitTestFunction body)
{
    Paths paths = golden_list(a, folder, ending);
    if (paths.len)
        return golden_run_paths(a, group, paths, body);
    fprintf(stderr, "%s has no file that ends in %s\n", folder, ending);
    return 1;
}
