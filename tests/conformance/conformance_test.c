/*
 * conformance_test.c - what tf.distribute does, and we do too
 *
 *   NAME.tfd   asserts cases by their names (RED-01, ...); each line that
 *              begins with  #! DEVICES [STRATEGY]  is a way to run it
 *
 *   conformance_test, with the environment of tests/e2e/run.h
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include "runtime/base/vec.h"
#include "tests/e2e/run.h"

typedef VEC(char *) Names;

static Arena *arena; /* of the whole run */

static void
compile_and_run(const char *path, const char *devices, const char *strategy)
{
    const char *plan = arena_printf(arena, "%s/program.tfp", work_dir(arena));
    const char *option =
        *strategy ? arena_printf(arena, " --strategy %s", strategy) : "";
    run_ok(arena, "tfdc %s -o %s --devices %s%s", path, plan, devices, option);
    run_ok(arena, "tfd-run %s", plan);
}

static void
check_program(void **state)
{
    const char *name = *state;
    const char *path = arena_printf(arena, "tests/conformance/%s", name);
    const char *full = arena_printf(arena, "%s/%s", getenv("TFD_ROOT"), path);
    const char *text = source_text(arena, path);
    for (; strncmp(text, "#! ", 3) == 0; text = strchr(text, '\n') + 1) {
        char devices[64], strategy[64] = "";
        char *line = arena_strndup(arena, text, strcspn(text, "\n"));
        assert_true(sscanf(line, "#! %63s %63s", devices, strategy) >= 1);
        compile_and_run(full, devices, strategy);
    }
}

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
    if (!dir)
        return names;
    for (struct dirent *e; (e = readdir(dir));) {
        const char *ending = strrchr(e->d_name, '.');
        if (ending && strcmp(ending, ".tfd") == 0)
            VEC_PUSH(arena, names, arena_strdup(arena, e->d_name));
    }
    closedir(dir);
    qsort(names.data, (size_t)names.len, sizeof *names.data, compare_names);
    return names;
}

int
main(void)
{
    const char *root = getenv("TFD_ROOT");
    if (!root)
        return 2;
    arena = arena_new(NULL, "test");
    Names names =
        list_programs(arena_printf(arena, "%s/tests/conformance", root));
    struct CMUnitTest *tests =
        NEW_ARRAY(arena, struct CMUnitTest, (size_t)names.len);
    for (int i = 0; i < names.len; i++) {
        tests[i].name = names.data[i];
        tests[i].test_func = check_program;
        tests[i].initial_state = names.data[i];
    }
    int failed = names.len == 0 ||
                 _cmocka_run_group_tests("conformance", tests,
                                         (size_t)names.len, NULL, NULL);
    arena_release(arena);
    return failed;
}
