/*
 * counts_test.c - whether a program is legal does not depend on the number of
 * devices
 *
 * Every program of the tree, right or wrong, is compiled for 1, 2, 3, 4 and 8
 * devices, under each strategy for several devices: the messages and their
 * places are the same for all, from the front end and from the passes.  A
 * program may refer to the number of replicas itself; programs that do are
 * listed, with the messages that differ.
 *
 *   counts_test SOURCE_ROOT
 */
#include "tests/unit/golden.h"
#include "tests/unit/sweep.h"

#include "frontend/frontend.h"
#include "ir/base/str.h"
#include "passes/passes.h"

static Arena *arena; /* of the whole run */
static const char *root;

/* NULL: that which the number of devices implies. */
static const char *const choices[] = {NULL, "mirrored", "central_storage"};
enum { NUM_CHOICES = sizeof choices / sizeof *choices };

static const char *const devices[] = {"cpu:0", "cpu:0-1", "cpu:0-2", "cpu:0-3",
                                      "cpu:0-7"};
enum { NUM_COUNTS = sizeof devices / sizeof *devices };

/* ---- programs that say how many replicas there are ---------------------- */

/* Parts of the messages that a program's own number leads to. */
#define PARTS "names for", "there is no element", "zip goes over nests"
#define GATHERED                                                               \
    "not broadcast", "cannot reshape", "is i32[3] before this loop and i32["
#define NAMED_DEVICE "is none of the strategy's devices"
#define STRATEGY "is for one device"
#define HALVES "needs an even number of devices"
#define SHARED_EQUALLY                                                         \
    "cannot be shared equally by", "elements are of several types",            \
        "rows are too large"

static const struct {
    const char *program;
    const char *messages[6]; /* in which it may differ */
} numbered[] = {
    {"docs/examples/contexts.tfd", {PARTS, GATHERED}},
    {"docs/examples/ragged.tfd", {GATHERED}},
    {"tests/conformance/central.tfd", {PARTS}},
    {"tests/conformance/central_device.tfd", {PARTS, NAMED_DEVICE}},
    {"tests/conformance/collectives.tfd", {PARTS, GATHERED}},
    {"tests/conformance/contexts.tfd", {PARTS}},
    {"tests/conformance/contexts_refused.tfd", {STRATEGY}},
    {"tests/conformance/dtypes.tfd", {PARTS, GATHERED}},
    {"tests/conformance/four.tfd", {PARTS, GATHERED}},
    {"tests/conformance/gradients.tfd", {PARTS}},
    {"tests/conformance/halves.tfd", {HALVES}},
    {"tests/conformance/options.tfd", {NAMED_DEVICE}},
    {"tests/conformance/options_refused.tfd", {HALVES}},
    {"tests/conformance/input.tfd", {GATHERED}},
    {"tests/conformance/input_refused.tfd", {SHARED_EQUALLY}},
    {"tests/conformance/one.tfd", {GATHERED}},
    {"tests/conformance/packs.tfd", {PARTS}},
    {"tests/conformance/ragged.tfd", {PARTS}},
    {"tests/conformance/reduce.tfd", {NAMED_DEVICE}},
    {"tests/conformance/sparse.tfd", {PARTS}},
    {"tests/conformance/sparse4.tfd", {GATHERED}},
    {"tests/conformance/strategies.tfd", {PARTS}},
    {"tests/conformance/table.tfd", {PARTS}},
    {"tests/conformance/updates.tfd", {PARTS}},
    {"tests/conformance/values.tfd", {PARTS}},
    {"tests/conformance/variables.tfd", {PARTS}},
    {"tests/errors/destinations.tfd", {NAMED_DEVICE}},
    {"tests/lang/declarations.tfd", {STRATEGY}},
    {"tests/lower/combine.tfd", {PARTS}},
    {"tests/lower/contexts.tfd", {PARTS, GATHERED}},
    {"tests/lower/pipelines.tfd", {SHARED_EQUALLY}},
    {"tests/lower/ragged.tfd", {GATHERED}},
    {"tests/lower/updates.tfd", {PARTS}},
    {"tests/lower/wrong_pipelines.tfd", {SHARED_EQUALLY}},
    {"tests/lower/wrong_replicas.tfd", {PARTS}},
    {"tests/lower/workers.tfd", {PARTS}},
};

enum { NUM_NUMBERED = sizeof numbered / sizeof *numbered };

/* Its place in the list, or -1. */
static int
find_numbered(const char *path)
{
    for (int i = 0; i < NUM_NUMBERED; i++)
        if (strcmp(path + strlen(root) + 1, numbered[i].program) == 0)
            return i;
    return -1;
}

static bool
is_of_number(int listed, const char *line)
{
    const char *const *messages = numbered[listed].messages;
    for (int i = 0; i < 6 && messages[i]; i++)
        if (strstr(line, messages[i]))
            return true;
    return false;
}

/* ---- verdicts ----------------------------------------------------------- */

/* The lines "file:1:2: error: …" of the messages; left_out: but for those that
 * come of the number that program `listed` speaks of. */
static const char *
errors_of(const char *messages, int listed, bool *left_out)
{
    Str out = str_new(arena);
    for (const char *at = messages; *at;) {
        size_t n = strcspn(at, "\n");
        const char *line = arena_strndup(arena, at, n);
        at += n + (at[n] == '\n');
        if (!strstr(line, ": error: "))
            continue;
        if (listed >= 0 && is_of_number(listed, line))
            *left_out = true;
        else
            str_addf(&out, "%s\n", line);
    }
    return str_text(&out);
}

/* What the compiler says of the program on these devices. */
static const char *
messages_for(const char *path, const char *strategy, const char *where)
{
    size_t len;
    const char *text = golden_read(arena, path, &len);
    FeOptions options = {.path = golden_name(path),
                         .text = text,
                         .len = len,
                         .strategy = strategy,
                         .devices = where};
    PassOptions how = {.level = 0};
    Diag *d = diag_new(arena);
    IrModule *m = fe_compile(arena, intern_new(arena), d, &options);
    assert_int_equal(m == NULL, diag_num_errors(d) > 0);
    if (m)
        pass_run_pipeline(m, d, &how,
                          "static_batches,partial_sort,differentiate,simplify,"
                          "place_variables,replicate,communicate");
    return diag_text(d, arena);
}

static void
enter_folder_of(const char *path)
{
    const char *end = strrchr(path, '/');
    assert_int_equal(chdir(arena_strndup(arena, path, (size_t)(end - path))),
                     0);
}

/* Whether the messages differ in more than the program's own numbers. */
static bool
check_counts(const char *path, const char *strategy, int listed)
{
    bool differs = false;
    const char *first = NULL;
    /* one that is listed has to differ somewhere */
    for (int i = 0; i < NUM_COUNTS;
         i = !i || listed >= 0 ? i + 1 : sweep_next(i)) {
        const char *messages = messages_for(path, strategy, devices[i]);
        const char *errors = errors_of(messages, listed, &differs);
        if (first && strcmp(first, errors))
            print_error("%s, %s, on %s and on %s:\n%s", path,
                        strategy ? strategy : "no strategy", devices[0],
                        devices[i], messages);
        golden_expect_equal(path, errors, first ? first : errors);
        first = errors;
    }
    return differs;
}

static void
check_program(void **state)
{
    bool differs = false;
    const char *path = *state;
    int listed = find_numbered(path);
    enter_folder_of(path); /* it uses files beside it */
    for (int i = 0; i < NUM_CHOICES; i++)
        differs |= check_counts(path, choices[i], listed);
    /* or it should leave the list */
    assert_int_equal(differs, listed >= 0);
}

/* ---- all programs ------------------------------------------------------- */

static const char *const folders[] = {
    "docs/examples", "tests/conformance", "tests/e2e/programs",
    "tests/errors",  "tests/lang",        "tests/lang/errors",
    "tests/lower",   "tests/baselines",   "tests/resume",
};

enum { NUM_FOLDERS = sizeof folders / sizeof *folders };

static Paths
all_programs(void)
{
    Paths all = {0};
    for (int i = 0; i < NUM_FOLDERS; i++) {
        Paths some = golden_list(
            arena, arena_printf(arena, "%s/%s", root, folders[i]), ".tfd");
        if (!some.len)
            print_error("%s has no programs\n", folders[i]);
        for (int k = 0; k < some.len; k++)
            VEC_PUSH(arena, all, some.data[k]);
    }
    return all;
}

int
main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    arena = arena_new(NULL, "test");
    root = argv[1];
    int failed =
        golden_run_paths(arena, "counts", all_programs(), check_program);
    arena_release(arena);
    return failed;
}
