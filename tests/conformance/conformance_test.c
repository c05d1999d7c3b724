/*
 * conformance_test.c - what tf.distribute does, and we do too
 *
 *   NAME.tfd   asserts cases by their names (RED-01, ...); each line that
 *              begins with  #! DEVICES [STRATEGY [OPTIONS]]  is a way to run
 *              it; a line  #? TEXT  behind it is in its placed IR.  With  #-
 *              that way is refused, and TEXT is in the message
 *
 *   conformance_test, with the environment of tests/e2e/run.h
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include "runtime/base/vec.h"
#include "tests/e2e/run.h"

typedef VEC(char *) Names;

static Arena *arena; /* of the whole run */

/* The options of a line "#! ...", of its words after the mark. */
static const char *
options_of(const char *words)
{
    char devices[64], strategy[64] = "";
    int rest = 0;
    assert_true(sscanf(words, "%63s %63s %n", devices, strategy, &rest) >= 1);
    if (!*strategy)
        return arena_printf(arena, "--devices %s", devices);
    return arena_printf(arena, "--devices %s --strategy %s %s", devices,
                        strategy, rest ? words + rest : "");
}

static void
compile_and_run(const char *path, const char *options)
{
    const char *plan = arena_printf(arena, "%s/program.tfp", work_dir(arena));
    run_ok(arena, "tfdc %s -o %s %s", path, plan, options);
    run_ok(arena, "tfd-run %s", plan);
}

static const char *
placed(const char *path, const char *options)
{
    return run_ok(arena, "tfdc %s --to placed %s", path, options).out;
}

static const char *
refuse(const char *path, const char *options)
{
    Ran r = run(arena, "tfdc %s --to placed %s", path, options);
    if (r.code != 1 && r.code != 2)
        fail_msg("%s %s: exit status %d", path, options, r.code);
    return r.err;
}

static void
check_text(const char *options, const char *text, const char *wanted)
{
    if (!strstr(text, wanted))
        fail_msg("%s: \"%s\" is not in\n%s", options, wanted, text);
}

static void
check_program(void **state)
{
    const char *name = *state;
    const char *path = arena_printf(arena, "tests/conformance/%s", name);
    const char *full = arena_printf(arena, "%s/%s", getenv("TFD_ROOT"), path);
    const char *text = source_text(arena, path);
    const char *options = "", *refused = NULL;
    for (; text[0] == '#' && strchr("!?-", text[1]);
         text = strchr(text, '\n') + 1) {
        const char *line = arena_strndup(arena, text, strcspn(text, "\n"));
        if (text[1] == '?') {
            check_text(options, refused ? refused : placed(full, options),
                       line + 3);
            continue;
        }
        options = options_of(line + 3);
        refused = text[1] == '-' ? refuse(full, options) : NULL;
        if (!refused)
            compile_and_run(full, options);
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
