/*
 * conformance_test.c - runs the cases of tf.distribute
 *
 * NAME.tfd asserts cases of cases.md by their names (RED-01, ...).  The lines
 * at its head are the runs:
 *
 *   #! DEVICES [STRATEGY [OPTIONS]]   it runs to its end, also with all
 *                                     replicas on one device, and where it
 *                                     has workers, in a process for each of
 *                                     them and for each replica
 *   #- DEVICES [STRATEGY [OPTIONS]]   the compiler refuses it
 *   #/ DEVICES [STRATEGY [OPTIONS]]   it compiles, and fails at run time
 *   #? TEXT    is in the placed IR of the run above, or in its message
 *   #> TEXT    is in the output of the run above
 *   #= NAME: TEXT   a file of that name, with that text, in the folder of the
 *              runs that follow
 *
 * TEXT may begin with the cases that it shows ("RED-12, RED-32: "), and "|"
 * means an end of line in the output.  Lines "#~" are for gen_conformance.c.
 * All runs of a program use one folder, so that one restores what another
 * saved.
 *
 *   conformance_test, with the environment of tests/e2e/run.h
 *
 * With TFD_CONFORMANCE=cuda the runs are on GPUs of the fake driver instead of
 * CPU devices, whose names programs have instead.  What was printed is checked
 * then, but no IR and no message.
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "tests/e2e/run.h"

typedef VEC(char *) Names;

static Arena *arena; /* of the whole run */

/* The kind of devices, instead of "cpu"; NULL: as it is said. */
static const char *
other_kind(void)
{
    return getenv("TFD_CONFORMANCE");
}

/* The text with names of devices of the kind that runs it. */
static const char *
with_devices(const char *text)
{
    static const char usual[] = "cpu:";
    Str s = str_new(arena);
    const char *kind = other_kind();
    for (const char *at; kind && (at = strstr(text, usual));) {
        str_addf(&s, "%.*s%s:", (int)(at - text), text, kind);
        text = at + strlen(usual);
    }
    str_add(&s, text);
    return str_text(&s);
}

/* The options of a line "#! ...", of its words after the mark. */
static const char *
options_of(const char *words)
{
    char list[64], strategy[64] = "";
    int rest = 0;
    assert_true(sscanf(words, "%63s %63s %n", list, strategy, &rest) >= 1);
    const char *devices = with_devices(list);
    if (!*strategy)
        return arena_printf(arena, "--devices %s", devices);
    return arena_printf(arena, "--devices %s --strategy %s %s", devices,
                        strategy, rest ? with_devices(words + rest) : "");
}

/* A run of a program, and its result. */
typedef struct Way {
    const char *path, *options;
    char kind;           /* of its line: '!' '-' '/' */
    const char *message; /* of a program that was refused or failed */
    const char *printed;
    const char *placed; /* its IR, once a line asks for it */
} Way;

static const char *
refuse(const Way *w)
{
    Ran r = run(arena, "tfdc %s --to placed %s", w->path, w->options);
    if (r.code != 1 && r.code != 2)
        fail_msg("%s %s: exit status %d", w->path, w->options, r.code);
    return r.err;
}

/* ---- processes ----------------------------------------------------------- */

/* The number behind a word of the options; 1 if they do not have it. */
static int
number_after(const char *options, const char *word)
{
    const char *at = strstr(options, word);
    return at ? atoi(at + strlen(word)) : 1;
}

/* Of a list that is a range from 0. */
static int
num_devices(const char *options)
{
    return number_after(options, "--devices cpu:0-") +
           (strstr(options, "--devices cpu:0-") != NULL);
}

static bool
starts_processes(void)
{
    static int answer = -1;
    if (answer < 0)
        answer = strstr(run_ok(arena, "tfd-run --help").out, "--processes") &&
                 !other_kind() && !getenv("TFD_SANDBOX");
    return answer;
}

/* What one process prints, so do several: one for each worker, and one for each
 * replica. */
static void
run_in_processes(const Way *w, const char *plan)
{
    int workers = number_after(w->options, "--workers ");
    int replicas = workers * num_devices(w->options);
    const int sizes[] = {workers, replicas > workers ? replicas : 1};
    for (int i = 0; i < 2; i++) {
        if (sizes[i] == 1)
            continue;
        Ran r = run_ok(arena, "tfd-run %s -n %d", plan, sizes[i]);
        assert_string_equal(r.out, w->printed);
    }
}

static void
take_way(Way *w)
{
    const char *plan = "program.tfp";
    w->message = w->printed = w->placed = NULL;
    if (w->kind == '-') {
        w->message = other_kind() ? NULL : refuse(w);
        return;
    }
    run_ok(arena, "tfdc %s -o %s %s", w->path, plan, w->options);
    if (w->kind == '!') {
        w->printed = run_ok(arena, "tfd-run %s", plan).out;
        Ran shared = run_ok(arena, "tfd-run %s --devices %s", plan,
                            with_devices("cpu:0"));
        assert_string_equal(shared.out, w->printed);
        if (strstr(w->options, "multi_worker") && starts_processes())
            run_in_processes(w, plan);
        return;
    }
    Ran r = run(arena, "tfd-run %s", plan);
    if (r.code != 1)
        fail_msg("%s %s: exit status %d", w->path, w->options, r.code);
    w->message = r.err;
    w->printed = r.out;
}

static const char *
placed_ir(Way *w)
{
    if (!w->placed)
        w->placed =
            run_ok(arena, "tfdc %s --to placed %s", w->path, w->options).out;
    return w->placed;
}

/* Behind the names of cases that text begins with: "RED-12, RED-32: ". */
static const char *
after_cases(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-, ");
    return len >= 6 && text[3] == '-' && text[len] == ':' ? text + len + 2
                                                          : text;
}

static void
check_text(const Way *w, const char *text, const char *wanted)
{
    if (!text || !strstr(text, wanted))
        fail_msg("%s: \"%s\" is not in\n%s", w->options, wanted, text);
}

static const char *
with_line_ends(const char *text)
{
    char *copy = arena_strdup(arena, text);
    for (char *p = copy; (p = strchr(p, '|'));)
        *p = '\n';
    return copy;
}

static void
check_line(Way *w, char kind, const char *wanted)
{
    if (kind == '>')
        check_text(w, w->printed, with_line_ends(with_devices(wanted)));
    else if (kind == '?' && !other_kind())
        check_text(w, w->message ? w->message : placed_ir(w), wanted);
}

/* "NAME: TEXT". */
static void
write_data(const char *words)
{
    size_t len = strcspn(words, ":");
    assert_true(words[len] == ':' && words[len + 1] == ' ');
    write_text(arena_strndup(arena, words, len), words + len + 2);
}

/* A copy in this folder, where the program is for other devices. */
static const char *
source_of(const char *path, const char *text)
{
    if (!other_kind())
        return arena_printf(arena, "%s/%s", getenv("TFD_ROOT"), path);
    write_text("program.tfd", with_devices(text));
    return "program.tfd";
}

static void
check_program(void **state)
{
    const char *name = *state;
    const char *path = arena_printf(arena, "tests/conformance/%s", name);
    const char *text = source_text(arena, path);
    assert_int_equal(chdir(work_dir(arena)), 0);
    Way w = {.path = source_of(path, text)};
    for (; text[0] == '#' && strchr("!-/?>~=", text[1]);
         text = strchr(text, '\n') + 1) {
        const char *line = arena_strndup(arena, text, strcspn(text, "\n"));
        if (strchr("?>~", line[1])) {
            check_line(&w, line[1], after_cases(line + 3));
            continue;
        }
        if (line[1] == '=') {
            write_data(line + 3);
            continue;
        }
        w.kind = line[1];
        w.options = options_of(line + 3);
        take_way(&w);
    }
}

/* ---- the page ------------------------------------------------------------ */

static void
page_says(const char *program, int code, const char *text)
{
    const char *dir = work_dir(arena);
    const char *cases = arena_printf(arena, "%s/cases.md", dir);
    write_text(cases, "## ONE: numbers\n"
                      "| ONE-01 | 1 + 1 | 2 | here |\n"
                      "## FAR: apart\n"
                      "Needs several processes: two talk.\n"
                      "| FAR-01 | hello | hello | there |\n");
    write_text(arena_printf(arena, "%s/one.tfd", dir), program);
    Ran r = run(arena, "%s %s %s", getenv("GEN_CONFORMANCE"), cases, dir);
    assert_int_equal(r.code, code);
    if (!strstr(code ? r.err : r.out, text))
        fail_msg("\"%s\" is not in\n%s%s", text, r.err, r.out);
}

static void
page_lists_each_case(void **state)
{
    (void)state;
    page_says("  assert(1 + 1 == 2, \"ONE-01\")\n", 0,
              "| ONE-01 | 1 + 1 | 2 | `one.tfd` | passes |\n");
    page_says("#? ONE-01: 2\n#~ ONE-01 otherwise: it is 3\n", 0,
              "| `one.tfd` | tfd decides otherwise: it is 3 |\n");
    page_says("#~ ONE-01 needs several processes: two\n", 0,
              "| `one.tfd` | needs several processes: two |\n");
    page_says("#? ONE-01: 2\n", 0,
              "| FAR-01 | hello | hello |  | needs several processes: two "
              "talk. |\n");
}

static void
page_of_a_test(const char *content, int code, const char *text)
{
    const char *dir = work_dir(arena);
    const char *cases = arena_printf(arena, "%s/cases.md", dir);
    write_text(cases, arena_printf(arena,
                                   "## TWO: numbers\nTested in %s/two.c\n"
                                   "| TWO-01 | 1 + 1 | 2 | here |\n",
                                   dir + strlen("/")));
    write_text(arena_printf(arena, "%s/two.c", dir), content);
    Ran r = run(arena, "%s %s %s", getenv("GEN_CONFORMANCE"), cases, dir);
    assert_int_equal(r.code, code);
    if (!strstr(code ? r.err : r.out, text))
        fail_msg("\"%s\" is not in\n%s%s", text, r.err, r.out);
}

static void
page_lists_tests(void **state)
{
    (void)state;
    page_of_a_test("{\"TWO-01\", sums},\n", 0, "two.c` | passes |\n");
    page_of_a_test("/*\n *~ TWO-01 otherwise: it is 3\n */\n", 0,
                   "two.c` | tfd decides otherwise: it is 3 |\n");
    page_of_a_test("/*\n *~ TWO-01 whatever: 3\n */\n", 1,
                   "two.c: TWO-01 is marked as \"whatever: 3\"");
    page_of_a_test("{\"TWO-02\", sums},\n", 1,
                   "two.c: it does not have TWO-01");
}

static void
page_misses_no_case(void **state)
{
    static const char none[] =
        "ONE-01: no program holds it, and nothing marks it";
    (void)state;
    page_says("", 1, none);
    page_says("# ONE-01 in a comment\n", 1, none);
    page_says("#~ ONE-01 otherwise: but nothing checks it\n", 1, none);
    page_says("#? ONE-01: 2\n#~ ONE-01 whatever: 3\n", 1,
              "one.tfd: ONE-01 is marked as \"whatever: 3\"");
    page_says("#? ONE-01, TWO-02: 2\n", 1, "one.tfd: TWO-02 is no case");
}

/* ---- the programs -------------------------------------------------------- */

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

enum { FIRST = 3 }; /* of a program: before stand the tests of the page */

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
        NEW_ARRAY(arena, struct CMUnitTest, (size_t)names.len + FIRST);
    tests[0] = (struct CMUnitTest)cmocka_unit_test(page_lists_each_case);
    tests[1] = (struct CMUnitTest)cmocka_unit_test(page_misses_no_case);
    tests[2] = (struct CMUnitTest)cmocka_unit_test(page_lists_tests);
    for (int i = 0; i < names.len; i++)
        tests[FIRST + i] = (struct CMUnitTest){.name = names.data[i],
                                               .test_func = check_program,
                                               .initial_state = names.data[i]};
    int failed = names.len == 0 ||
                 _cmocka_run_group_tests("conformance", tests,
                                         (size_t)names.len + FIRST, NULL, NULL);
    arena_release(arena);
    return failed;
}
