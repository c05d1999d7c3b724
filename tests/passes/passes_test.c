/*
 * passes_test.c - the output of passes, and that programs compute the same
 * after them
 *
 *   passes/NAME.tir            begins with "# RUN: passes=A,B"; the result of the
 *                              passes follows "# EXPECT:"
 *   passes/programs/NAME.tir   computes the same after every pass,
 *   lower/NAME.tir             and so do the front end's modules,
 *   docs/examples/NAME.tfd     the examples, on several numbers of devices,
 *   random.c                   and random programs
 *
 *   passes_test SOURCE_ROOT golden|programs|lowered|examples
 *   passes_test SOURCE_ROOT random [FIRST LAST]
 *
 * With TFD_BLESS=1 the expected files are rewritten.
 */
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/unit/golden.h"
#include "tests/unit/sweep.h"

#include "ir/base/io/file.h"
#include "tests/passes/check.h"
#include "tests/passes/random.h"
#ifdef HAVE_FRONTEND
#include "frontend/frontend.h"
#endif

static Arena *arena; /* of the whole run */
static const char *root;

/* ---- texts -------------------------------------------------------------- */

static IrModule *
parse(const char *path, const char *text, size_t len)
{
    Diag *d = diag_new(arena);
    uint16_t file = diag_add_source(d, golden_name(path), text, len);
    IrModule *m = ir_parse(arena, intern_new(arena), d, file, text, len);
    if (!m || !ir_verify(m, d))
        fail_msg("%s", diag_text(d, arena));
    return m;
}

static void
expect_nothing_wrong(const char *wrong)
{
    if (wrong)
        fail_msg("%s", wrong);
}

/* ---- golden texts ------------------------------------------------------- */

static const char expect_line[] = "# EXPECT:\n";

/* The rest of the line after "NAME=" in the header, or otherwise. */
static const char *
header_word(const char *text, const char *name, const char *otherwise)
{
    const char *end = strchr(text, '\n');
    const char *at = strstr(text, arena_printf(arena, " %s=", name));
    if (!at || at > end)
        return otherwise;
    at += strlen(name) + 2;
    return arena_strndup(arena, at, strcspn(at, " \n"));
}

static void
run_listed(IrModule *m, const char *list, const CheckOptions *options)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        expect_nothing_wrong(
            check_pass(arena, m, arena_strndup(arena, list, n), options));
        list += n + (list[n] == ',');
    }
}

static void
expect_golden(void **state)
{
    const char *path = *state;
    size_t len;
    const char *text = golden_read(arena, path, &len);
    const char *list = header_word(text, "passes", NULL);
    const char *split = strstr(text, expect_line);
    assert_non_null(list);
    size_t before = split ? (size_t)(split - text) : len;
    IrModule *m = parse(path, text, before);
    CheckOptions options = {
        .level = atoi(header_word(text, "level", "2")),
        .packs_by_bytes = header_word(text, "bytes_per_pack", NULL) != NULL,
        .bytes_per_pack = atoll(header_word(text, "bytes_per_pack", "0"))};
    run_listed(m, list, &options);
    const char *have = ir_module_text(arena, m);
    if (golden_blesses()) {
        text = arena_printf(arena, "%.*s%s%s", (int)before, text, expect_line,
                            have);
        assert_null(file_write(path, text, strlen(text)));
        return;
    }
    assert_non_null(split);
    golden_expect_equal(path, have, split + strlen(expect_line));
}

/* ---- programs that do the same ------------------------------------------ */

static const CheckOptions all_options[] = {
    {.level = 0},
    {.level = 2},
    {.level = 2, .packs_by_bytes = true, .bytes_per_pack = 16},
};

/* Some datasets have no end.  More steps take the interpreter longer, and the
 * passes no further. */
static int
most_steps(void)
{
    return sweep_part() > 1 ? 4 : 20;
}

static void
expect_same(IrModule *m, bool may_fail)
{
    int n = sizeof all_options / sizeof *all_options;
    for (int i = sweep_first(n); i < n; i = sweep_next(i)) {
        CheckOptions options = all_options[i];
        options.max_steps = most_steps();
        options.may_fail = may_fail;
        options.data_dir = arena_printf(arena, "%s/tests/passes/data", root);
        expect_nothing_wrong(check_pipeline(arena, m, &options));
    }
}

static void
expect_same_program(void **state)
{
    size_t len;
    const char *text = golden_read(arena, *state, &len);
    expect_same(parse(*state, text, len), false);
}

/* The front end's tests need not be able to run. */
static void
expect_same_lowered(void **state)
{
    size_t len;
    const char *text = golden_read(arena, *state, &len);
    expect_same(parse(*state, text, len), true);
}

#ifdef HAVE_FRONTEND
typedef struct Example {
    const char *file, *devices;
    const char *define; /* -D, or NULL */
} Example;

/* bigram in few steps: each takes the interpreter a second. */
static const Example examples[] = {
    {"linear.tfd", "cpu:0", NULL},     {"linear.tfd", "cpu:0-1", NULL},
    {"linear.tfd", "cpu:0-2", NULL},   {"bigram.tfd", "cpu:0-1", "BATCH=4"},
    {"contexts.tfd", "cpu:0-1", NULL}, {"ragged.tfd", "cpu:0-2", NULL},
};
enum { NUM_EXAMPLES = sizeof examples / sizeof *examples };

static void
expect_same_example(void **state)
{
    const Example *e = *state;
    const char *path =
        arena_printf(arena, "%s/docs/examples/%s", root, e->file);
    FeOptions options = {.path = path,
                         .defines = &e->define,
                         .num_defines = e->define != NULL,
                         .devices = e->devices};
    options.text = golden_read(arena, path, &options.len);
    Diag *d = diag_new(arena);
    IrModule *m = fe_compile(arena, intern_new(arena), d, &options);
    if (!m || !ir_verify(m, d))
        fail_msg("%s", diag_text(d, arena));
    expect_same(m, false);
}
#endif

/* ---- programs made at random -------------------------------------------- */

static uint64_t first_seed = 1, last_seed = 200;

static void
expect_same_random(void **state)
{
    (void)state;
    int n = (int)(last_seed - first_seed + 1);
    for (int i = sweep_first(n); i < n; i = sweep_next(i)) {
        uint64_t seed = first_seed + (uint64_t)i;
        Arena *a = arena_new(NULL, "random program");
        IrModule *m = random_program(a, seed);
        CheckOptions options = {.level = seed % 3 ? 2 : 0,
                                .packs_by_bytes = seed % 2 == 0,
                                .bytes_per_pack = seed % 4 ? 12 : 0};
        const char *wrong = NULL;
        if (!ir_verify(m, m->diag))
            wrong = diag_text(m->diag, a);
        if (!wrong)
            wrong = check_pipeline(a, m, &options);
        if (wrong)
            fail_msg("seed %llu: %s", (unsigned long long)seed, wrong);
        arena_release(a);
    }
}

static int
run_random(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(expect_same_random)};
    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}

/* ---- groups ------------------------------------------------------------- */

static int
run_folder(const char *group, const char *folder, CMUnitTestFunction body)
{
    return golden_run(arena, group, arena_printf(arena, "%s/%s", root, folder),
                      ".tir", body);
}

static int
run_examples(void)
{
#ifdef HAVE_FRONTEND
    static struct CMUnitTest tests[NUM_EXAMPLES];
    for (int i = 0; i < NUM_EXAMPLES; i++) {
        tests[i].name = arena_printf(arena, "%s on %s", examples[i].file,
                                     examples[i].devices);
        tests[i].test_func = expect_same_example;
        tests[i].initial_state = (void *)&examples[i];
    }
    return cmocka_run_group_tests_name("examples", tests, NULL, NULL);
#else
    puts("1..0 # SKIP no front end");
    return 0;
#endif
}

int
main(int argc, char **argv)
{
    if (argc != 3 && argc != 5)
        return 2;
    if (argc == 5) {
        first_seed = strtoull(argv[3], NULL, 10);
        last_seed = strtoull(argv[4], NULL, 10);
    }
    arena = arena_new(NULL, "passes_test");
    root = argv[1];
    int failures = 2;
    if (!strcmp(argv[2], "golden"))
        failures = run_folder("golden", "tests/passes", expect_golden);
    else if (!strcmp(argv[2], "programs"))
        failures = run_folder("programs", "tests/passes/programs",
                              expect_same_program);
    else if (!strcmp(argv[2], "lowered"))
        failures = run_folder("lowered", "tests/lower", expect_same_lowered);
    else if (!strcmp(argv[2], "examples"))
        failures = run_examples();
    else if (!strcmp(argv[2], "random"))
        failures = run_random();
    arena_release(arena);
    return failures;
}
