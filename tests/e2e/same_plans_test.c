/*
 * same_plans_test.c - a plan depends only on the program (D14)
 *
 * It does not depend on the folder and the spelling of the path, the number of
 * cores, the cache, the user, or the C compiler that built tfdc: TFD_PEER names
 * a tfdc built by another one.
 */
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "tests/e2e/run.h"
#include "tests/unit/arena.h"
#include "tests/unit/unit.h"

static const struct {
    const char *name, *devices;
} examples[] = {
    {"accumulation", "cpu:0-1"}, {"batchnorm", "cpu:0-1"},
    {"bigram", "cpu:0-1"},       {"charlm", "cpu:0-1"},
    {"contexts", "cpu:0-1"},     {"convnet", "cpu:0-1"},
    {"linear", "cpu:0-3"},       {"metric", "cpu:0-1"},
    {"ragged", "cpu:0-2"},       {"schedule", "cpu:0-1"},
    {"spiral", "cpu:0-1"},       {"write", "cpu:0"},
};
enum { NUM_EXAMPLES = sizeof examples / sizeof *examples };

/* The reference plans, compiled once, and their cache. */
static const char *first_plans;

static const char *
example(Arena *a, int i)
{
    return arena_printf(a, "%s/docs/examples/%s.tfd --devices %s",
                        getenv("TFD_ROOT"), examples[i].name,
                        examples[i].devices);
}

static const char *
first_plan(Arena *a, int i)
{
    return arena_printf(a, "%s/%d.tfp", first_plans, i);
}

static void
assert_same_file(Arena *a, const char *one, const char *other)
{
    Ran r = run(a, "cmp %s %s", one, other);
    if (r.code)
        fail_msg("%s%s", r.out, r.err);
}

static int
compile_examples(void **state)
{
    new_arena(state);
    Arena *a = *state;
    first_plans = work_dir(a);
    setenv("TFD_CACHE", arena_printf(a, "%s/cache", first_plans), 1);
    for (int i = 0; i < NUM_EXAMPLES; i++)
        run_ok(a, "tfdc %s -o %s", example(a, i), first_plan(a, i));
    return 0;
}

/* ---- user and machine --------------------------------------------------- */

/* The day, the language and the rights of another user, and a full cache. */
static void
whoever_compiles(void **state)
{
    Arena *a = *state;
    const char *plan = arena_printf(a, "%s/again.tfp", first_plans);
    mode_t mask = umask(077);
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    setenv("TZ", "Asia/Tokyo", 1);
    setenv("USER", "somebody", 1);
    for (int i = 0; i < NUM_EXAMPLES; i++) {
        run_ok(a, "tfdc %s --explain -o %s", example(a, i), plan);
        assert_same_file(a, plan, first_plan(a, i));
    }
    unsetenv("LC_ALL");
    unsetenv("TZ");
    umask(mask);
}

/* ---- compiler ----------------------------------------------------------- */

/* Another build's tfdc where there is one: the sanitizers' build, by clang,
 * compares with the first, by gcc. */
static const char *
another_tfdc(void)
{
    const char *peer = getenv("TFD_PEER");
    return peer ? peer : "tfdc";
}

static cpu_set_t
keep_to_one_core(void)
{
    cpu_set_t all, one;
    int core = 0;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(core, &all))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    return all;
}

static void
on_one_core_without_a_cache_by_another_tfdc(void **state)
{
    Arena *a = *state;
    const char *plan = arena_printf(a, "%s/again.tfp", first_plans);
    cpu_set_t all = keep_to_one_core();
    setenv("TFD_CACHE", "", 1);
    for (int i = 0; i < NUM_EXAMPLES; i++) {
        run_ok(a, "%s %s -o %s", another_tfdc(), example(a, i), plan);
        assert_same_file(a, plan, first_plan(a, i));
    }
    setenv("TFD_CACHE", arena_printf(a, "%s/cache", first_plans), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

/* Code for all kinds of targets, in any order of the list. */
static void
several_targets_by_another_tfdc(void **state)
{
    Arena *a = *state;
    static const struct {
        const char *name, *one, *other;
    } rows[] = {
        {"bigram", "--devices cuda:0-1", "--devices gpu:0-1"},
        {"convnet", "--devices cuda:0-1", "--devices gpu:0-1"},
        {"linear", "--target x86-64-v3,x86-64-v4,sm_90",
         "--target sm_90,x86-64-v4,sm_90,x86-64-v3"},
        {"spiral", "--devices cuda:0-1 --target x86-64-v3,sm_80,sm_90",
         "--devices cuda:0-1 --target sm_90,sm_80,x86-64-v3"},
    };
    enum { NUM_ROWS = sizeof rows / sizeof *rows };
    const char *one = arena_printf(a, "%s/one.tfp", first_plans);
    const char *other = arena_printf(a, "%s/other.tfp", first_plans);
    for (int i = 0; i < NUM_ROWS; i++) {
        const char *program = arena_printf(a, "%s/docs/examples/%s.tfd",
                                           getenv("TFD_ROOT"), rows[i].name);
        run_ok(a, "%s %s %s -o %s", another_tfdc(), program, rows[i].one, one);
        run_ok(a, "tfdc %s %s -o %s", program, rows[i].other, other);
        assert_same_file(a, one, other);
    }
}

/* ---- where the program lies ---------------------------------------------- */

/* One module under three names, and a file in a folder beside the program's. */
static void
write_tree(Arena *a, const char *root)
{
    assert_null(file_make_folder(arena_printf(a, "%s/program/parts", root)));
    assert_null(file_make_folder(arena_printf(a, "%s/shared", root)));
    write_text(
        arena_printf(a, "%s/program/x.tfd", root),
        "use \"one.tfd\", \"parts/two.tfd\", \"../shared/three.tfd\"\n"
        "var w: f32 = one.start\n"
        "fn step() {\n"
        "  w -= two.rate * all_reduce(sum, three.slope(w) * f32(replica_id))\n"
        "  return w\n"
        "}\n"
        "main { for i in 0..3 { print(reduce(mean, run step())) } }\n");
    write_text(arena_printf(a, "%s/program/one.tfd", root),
               "const start = 1.0\n");
    write_text(arena_printf(a, "%s/program/parts/two.tfd", root),
               "use \"../one.tfd\", \"./../../shared/three.tfd\"\n"
               "const rate = one.start / 8.0\n");
    write_text(arena_printf(a, "%s/shared/three.tfd", root),
               "use \"../program/./one.tfd\"\n"
               "fn slope(x) = x * one.start\n");
    assert_int_equal(symlink("program", arena_printf(a, "%s/link", root)), 0);
}

static void
however_its_path_is_spelled(void **state)
{
    Arena *a = *state;
    const char *root = work_dir(a), *other = work_dir(a);
    const struct {
        const char *folder, *path;
    } ways[] = {
        {"/", arena_printf(a, "%s/program/x.tfd", root)},
        {root, "program/x.tfd"},
        {root, "program//x.tfd"},
        {root, "./program/parts/../x.tfd"},
        {root, "link/x.tfd"},
        {arena_printf(a, "%s/program", root), "x.tfd"},
        {arena_printf(a, "%s/program", root), "./x.tfd"},
        {arena_printf(a, "%s/program/parts", root), "../x.tfd"},
        {arena_printf(a, "%s/link", root), "x.tfd"},
        {other, "program/x.tfd"},
        {arena_printf(a, "%s/program", other), "../link/x.tfd"},
    };
    const char *first = arena_printf(a, "%s/first.tfp", root);
    const char *plan = arena_printf(a, "%s/plan.tfp", root);
    char *here = getcwd(NULL, 0);
    write_tree(a, root);
    write_tree(a, other);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        assert_int_equal(chdir(ways[i].folder), 0);
        run_ok(a, "tfdc %s --devices cpu:0-1 -o %s", ways[i].path,
               i ? plan : first);
        assert_same_file(a, i ? plan : first, first);
    }
    assert_int_equal(chdir(here), 0);
    free(here);
    const char *text = run_ok(a, "tfdc %s/link/x.tfd --to ir", other).out;
    assert_non_null(strstr(text, "source 0 \"x.tfd\"\n"
                                 "source 1 \"one.tfd\"\n"
                                 "source 2 \"parts/two.tfd\"\n"
                                 "source 3 \"../shared/three.tfd\"\n"
                                 "strategy"));
}

/* Messages show the path that a file was opened by, as editors want it. */
static void
messages_show_the_path_given(void **state)
{
    Arena *a = *state;
    const char *root = work_dir(a);
    write_tree(a, root);
    write_text(arena_printf(a, "%s/program/one.tfd", root),
               "const start = y\n");
    Ran r = run(a, "tfdc %s/link/x.tfd", root);
    assert_int_equal(r.code, 1);
    const char *place = arena_printf(a, "%s/link/one.tfd:1:15: error:", root);
    assert_ptr_equal(strstr(r.err, place), r.err);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_compiles),
        cmocka_unit_test(on_one_core_without_a_cache_by_another_tfdc),
        cmocka_unit_test(several_targets_by_another_tfdc),
        cmocka_unit_test(however_its_path_is_spelled),
        cmocka_unit_test(messages_show_the_path_given),
    };
    return cmocka_run_group_tests(tests, compile_examples, release_arena);
}
