/*
 * headers_test.c - every header compiles alone
 *
 *   headers_test SOURCE_ROOT COMPILER...
 *
 * The compiler comes with its options; each header of the tree is compiled by
 * it as a file of its own, four at a time.
 */
#include "tests/unit/unit.h"

#include "tests/conventions/tree.h"

enum { AT_ONCE = 4 };

static const char *source_root;
static char **compiler; /* NULL-terminated */

static pid_t
start_compiler(Arena *a, const char *header)
{
    VEC(char *) argv = {0};
    for (char **word = compiler; *word; word++)
        VEC_PUSH(a, argv, *word);
    static char *const options[] = {"-fsyntax-only", "-x", "c"};
    for (int i = 0; i < 3; i++)
        VEC_PUSH(a, argv, options[i]);
    VEC_PUSH(a, argv, arena_printf(a, "%s/%s", source_root, header));
    VEC_PUSH(a, argv, NULL);
    pid_t child = fork();
    if (child == 0) {
        execvp(argv.data[0], argv.data);
        _exit(127);
    }
    assert_true(child > 0);
    return child;
}

static int
num_failed(pid_t *children, int n)
{
    int failed = 0;
    for (int i = 0; i < n; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        failed += status != 0;
    }
    return failed;
}

static void
every_header_compiles_alone(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    TreePaths paths = tree_sources(a, source_root);
    pid_t children[AT_ONCE];
    int running = 0, failed = 0, num_headers = 0;
    for (int i = 0; i < paths.len; i++) {
        size_t len = strlen(paths.data[i]);
        if (strcmp(paths.data[i] + len - 2, ".h") != 0)
            continue;
        children[running++] = start_compiler(a, paths.data[i]);
        num_headers++;
        if (running == AT_ONCE) {
            failed += num_failed(children, running);
            running = 0;
        }
    }
    failed += num_failed(children, running);
    arena_release(a);
    assert_true(num_headers > 10);
    assert_int_equal(failed, 0);
}

int
main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: headers_test SOURCE_ROOT COMPILER...\n");
        return 2;
    }
    source_root = argv[1];
    compiler = argv + 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_header_compiles_alone),
    };
    return cmocka_run_group_tests_name("headers", tests, NULL, NULL);
}
