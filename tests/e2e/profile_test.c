/*
 * profile_test.c - tfd-run --profile: which line is slow, and that rows add up
 *
 * Times differ from run to run, so tests look at what does not: the order of
 * rows of very different times, their sum, names, and which lines have a time.
 */
#include "ir/base/io/file.h"
#include "tests/e2e/run.h"
#include "tests/unit/dir.h"
#include "tests/unit/unit.h"

/* Line 8 does a hundred times what line 7 does. */
static const char slow_line[] =
    "use nn, optim\n"
    "let layer = Dense(32, 32, gelu)\n"
    "let adam = Adam(0.01)\n"
    "dataset d = range(640).map(fn(i) = fill((32,), f32(i))).batch(16)\n"
    "fn step(x) {\n"
    "  let big = uniform((320, 320), seed = 1)\n"
    "  let small = sum(layer(x))\n"
    "  let slow = sum(big @ big @ big @ big @ big @ big)\n"
    "  let loss = small + slow\n"
    "  let vars = trainable()\n"
    "  adam.apply(vars, grad(loss, vars))\n"
    "  return loss\n"
    "}\n"
    "main {\n"
    "  mut sum = 0.0\n"
    "  for x in distribute(d) { sum += reduce(mean, run step(x)) }\n"
    "  print(\"done {sum > -1e30}\")\n"
    "}\n";

/* Of the devices of this run. */
static const char *kind = "cpu";

static bool
is_cpu(void)
{
    return strcmp(kind, "cpu") == 0;
}

/* Fake GPUs are slow: less of it for them. */
static const char *
compile(const char *text, const char *devices)
{
    if (text == slow_line && !is_cpu()) {
        text = substitute(arena, text, "320, 320", "64, 64");
        text = substitute(arena, text, "range(640)", "range(96)");
    }
    write_text(in_dir("p.tfd"), text);
    run_ok(arena, "tfdc %s --strategy mirrored --devices %s:%s -o %s",
           in_dir("p.tfd"), kind, devices, in_dir("p.tfp"));
    return in_dir("p.tfp");
}

static const char *
text_of(const char *path)
{
    char *text = "";
    size_t len;
    Status st = file_read(arena, path, &text, &len);
    if (st)
        fail_msg("%s", status_message(st));
    return text;
}

static const char *
json_of(const char *plan, const char *options)
{
    const char *path = in_dir("profile.json");
    run_ok(arena, "tfd-run %s --profile=%s %s", plan, path, options);
    return text_of(path);
}

/* The number of a key, the first after `at`. */
static double
number_of(const char *at, const char *key)
{
    const char *found = strstr(at, arena_printf(arena, "\"%s\": ", key));
    if (!found)
        fail_msg("no \"%s\" in: %s", key, at);
    return strtod(found + strlen(key) + 4, NULL);
}

/* The rows of a table: from its name to its end. */
static const char *
table_of(const char *json, const char *name)
{
    const char *begin =
        strstr(json, arena_printf(arena, "\n  \"%s\": [", name));
    const char *end = begin ? strstr(begin, "\n  ]") : NULL;
    if (!end)
        fail_msg("no table %s in: %s", name, json);
    return arena_strndup(arena, begin, (size_t)(end - begin));
}

static double
sum_of_rows(const char *table)
{
    double sum = 0.0;
    for (const char *at = table; (at = strstr(at, "\"seconds\": ")); at++)
        sum += strtod(at + strlen("\"seconds\": "), NULL);
    return sum;
}

static void
assert_has_row(const char *table, const char *name)
{
    if (!strstr(table, arena_printf(arena, "\"name\": \"%s", name)))
        fail_msg("no row %s in: %s", name, table);
}

/* ---- tests -------------------------------------------------------------- */

/* Runs of which one must be undisturbed: a busy machine may take a core away
 * for longer than a step is. */
enum { ATTEMPTS = 3 };

/* Of the lines that compute: a busy machine may let main wait for longer. */
static const char *
first_that_computes(const char *rows)
{
    const char *row = strstr(rows, "\"name\": \"");
    while (row) {
        const char *bound = strstr(row, "\"bound\": \"");
        if (strncmp(bound + 10, "waiting", 7) != 0)
            return row + 9;
        row = strstr(bound, "\"name\": \"");
    }
    return "";
}

static void
the_slow_line_comes_first(void **state)
{
    (void)state;
    const char *plan = compile(slow_line, "0"), *first = "";
    for (int i = 0; i < ATTEMPTS; i++) {
        first = first_that_computes(table_of(json_of(plan, ""), "line"));
        if (strncmp(first, "p.tfd:8\"", 8) == 0)
            return;
    }
    fail_msg("not line 8: %.60s", first);
}

/* The step is timed by the clock at the ends of steps, rows by marks. */
static void
rows_add_up_to_the_step(void **state)
{
    static const char *const tables[] = {"phase", "line", "function", "layer",
                                         "kernel"};
    (void)state;
    const char *json = json_of(compile(slow_line, "0-1"), "");
    double step = number_of(json, "step_seconds");
    assert_true(number_of(json, "steps") == (is_cpu() ? 39 : 5));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        double sum = sum_of_rows(table_of(json, tables[i]));
        if (sum < 0.97 * step || sum > 1.03 * step)
            fail_msg("%s: %g of a step of %g", tables[i], sum, step);
    }
}

static void
rows_have_names_of_the_program(void **state)
{
    (void)state;
    const char *json = json_of(compile(slow_line, "0-1"), "");
    assert_has_row(table_of(json, "function"), "gelu");
    assert_has_row(table_of(json, "function"), "Dense.call");
    assert_has_row(table_of(json, "layer"), "layer");
    assert_has_row(table_of(json, "layer"), "adam");
    assert_has_row(table_of(json, "variable"), "layer.w");
    assert_has_row(table_of(json, "kernel"), "matmul");
    assert_has_row(table_of(json, "phase"), "forward");
    assert_has_row(table_of(json, "phase"), "backward");
    assert_has_row(table_of(json, "phase"), "optimizer");
    assert_has_row(table_of(json, "phase"), "data");
    assert_has_row(table_of(json, "phase"), "communication");
}

/* Two layers of one kind, whose loops passes take products out of. */
static const char two_layers[] =
    "use nn, optim\n"
    "const S = 12\n"
    "dataset d = range(96).map(fn(i) = normal((S, 64), seed = 2, index = i))\n"
    "  .batch(16, drop_remainder = true)\n"
    "let small = Lstm(64, 32)\n"
    "let big = Lstm(32, 512)\n"
    "let sgd = Sgd(0.01)\n"
    "fn step(x) {\n"
    "  let loss = sum(big(small(x))[:, S - 1])\n"
    "  sgd.apply(trainable(), grad(loss, trainable()))\n"
    "  return loss\n"
    "}\n"
    "main { for x in distribute(d) { print(reduce(sum, run step(x))) } }\n";

static double
seconds_of(const char *table, const char *name)
{
    assert_has_row(table, name);
    const char *row =
        strstr(table, arena_printf(arena, "\"name\": \"%s\"", name));
    return number_of(row, "seconds");
}

/* The products of one have a hundred times the operations of the other's. */
static void
layers_have_their_own_times(void **state)
{
    (void)state;
    if (!is_cpu())
        return;
    const char *plan = compile(two_layers, "0");
    double big = 0.0, small = 1.0;
    for (int i = 0; i < ATTEMPTS && big < 4 * small; i++) {
        const char *layers = table_of(json_of(plan, ""), "layer");
        big = seconds_of(layers, "big");
        small = seconds_of(layers, "small");
    }
    if (big < 4 * small)
        fail_msg("big %g, small %g", big, small);
}

/* Whether the line has a time. */
static bool
is_timed(const char *listing, int number)
{
    const char *at = strstr(listing, arena_printf(arena, " %5d | ", number));
    if (!at)
        return false;
    while (at > listing && at[-1] != '\n')
        at--;
    return memchr(at, '%', strcspn(at, "|")) != NULL;
}

static void
the_listing_has_times_where_there_is_work(void **state)
{
    static const int timed[] = {7, 8, 11, 16};
    static const int untimed[] = {1, 3, 5, 13, 14};
    (void)state;
    Ran r = run_ok(arena, "tfd-run %s --profile", compile(slow_line, "0"));
    const char *listing = strstr(r.err, "a step p.tfd\n");
    if (!listing)
        fail_msg("no listing: %s", r.err);
    for (size_t i = 0; i < sizeof timed / sizeof *timed; i++)
        if (!is_timed(listing, timed[i]))
            fail_msg("line %d has no time: %s", timed[i], listing);
    for (size_t i = 0; i < sizeof untimed / sizeof *untimed; i++)
        if (is_timed(listing, untimed[i]))
            fail_msg("line %d has a time: %s", untimed[i], listing);
    assert_non_null(strstr(listing, "sum(big @ big @ big"));
    assert_string_equal(r.out, "done True\n");
}

static void
the_chief_reports_for_itself(void **state)
{
    (void)state;
    const char *plan = compile(slow_line, "0-1");
    Ran r = run_ok(arena, "tfd-run %s -n 2 --profile", plan);
    const char *head = strstr(r.err, "profile  ");
    if (!head || strstr(head + 1, "profile  "))
        fail_msg("not one profile: %s", r.err);
    assert_non_null(strstr(head, "the mean of 1 device of process 0 of 2\n"));
    /* In tables for people a row of less than a thousandth is not shown. */
    assert_has_row(table_of(json_of(plan, "-n 2"), "kernel"),
                   "all_reduce_done@p.tfd:11");
}

static void
a_program_without_steps_has_a_profile(void **state)
{
    (void)state;
    Ran r = run_ok(arena, "tfd-run %s --profile",
                   compile("fn f() = sum(uniform((512, 512), seed = 1))\n"
                           "main { print(\"{reduce(sum, run f()):.0f}\") }\n",
                           "0"));
    assert_non_null(strstr(r.err, "without steps"));
    assert_non_null(strstr(r.err, "p.tfd:1"));
}

static void
traces_have_threads_and_kernels(void **state)
{
    const char *path = in_dir("p.trace.json");
    (void)state;
    Ran r = run_ok(arena, "tfd-run %s --quiet --profile=%s --devices cpu:0-1",
                   compile(slow_line, "0-1"), path);
    assert_string_equal(r.err, ""); /* the tables are for who is not quiet */
    const char *text = text_of(path);
    assert_non_null(strstr(text, "\"args\":{\"name\":\"main\"}"));
    assert_non_null(strstr(text, "\"args\":{\"name\":\"cpu:1\"}"));
    assert_non_null(strstr(text, "\"name\":\"matmul"));
    assert_non_null(strstr(text, "\"name\":\"iter_next\",\"cat\":\"data\""));
    assert_string_equal(text + strlen(text) - 4, "\n]}\n");
}

/* JSON is UTF-8, and names of files are any bytes. */
static void
names_are_as_messages_have_them(void **state)
{
    (void)state;
    const char *source = in_dir("\xff\"\n.tfd"), *plan = in_dir("any.tfp");
    write_text(source, substitute(arena, slow_line, "320, 320", "8, 8"));
    run_ok(arena, "tfdc %s --devices %s:0 -o %s", source, kind, plan);
    const char *json = json_of(plan, "--quiet");
    assert_has_row(table_of(json, "line"), "?\\\"?.tfd:8");
    assert_non_null(strstr(json, "\"file\": \"?\\\"?.tfd\""));
    if (!is_cpu())
        return;
    const char *path = in_dir("any.trace.json");
    run_ok(arena, "tfd-run %s --quiet --profile=%s", plan, path);
    assert_non_null(strstr(text_of(path), "{\"at\":\"?\\\"?.tfd:16\"}"));
    assert_null(strchr(text_of(path), '\xff'));
}

static void
assert_refused(const char *plan, const char *options, const char *message)
{
    Ran r = run(arena, "tfd-run %s %s", plan, options);
    assert_int_equal(r.code, 2);
    if (!strstr(r.err, message))
        fail_msg("\"%s\" is not in: %s", message, r.err);
}

static void
what_cannot_be_profiled_is_refused(void **state)
{
    (void)state;
    const char *plan = compile(slow_line, "0");
    assert_refused(plan, "--profile=x.txt",
                   "--profile=x.txt: the file is a .json of the tables, or a "
                   ".trace.json for chrome://tracing and Perfetto");
    assert_refused(plan, "--profile --compare cpu",
                   "--profile and --compare contradict each other: what is "
                   "compared takes longer");
    assert_refused(plan, "--profile --devices null:0",
                   "--profile times the kernels of CPU devices and GPUs, and "
                   "null:0 is none");
    assert_refused(plan, "--profile --devices sandbox:0",
                   "--profile times the kernels of CPU devices and GPUs, and "
                   "sandbox:0 is none");
    if (!is_cpu())
        assert_refused(plan, "--profile=x.trace.json",
                       "--profile=x.trace.json: what ran when is known of CPU "
                       "devices alone, and cuda:0 is none; a .json file has "
                       "its tables");
}

/* Before anything is computed. */
static void
a_file_that_cannot_be_written_is_refused_first(void **state)
{
    (void)state;
    const char *plan = compile("main { print(\"ran\") }\n", "0");
    const struct {
        const char *path, *message;
    } wrong[] = {
        {in_dir("none/x.json"), "/none/x.json\": No such file or directory"},
        {in_dir("folder.json"), "/folder.json\": Is a directory"},
        {in_dir("none/x.trace.json"), /* of CPU devices alone */
         "/none/x.trace.json\": No such file or directory"},
    };
    size_t num = sizeof wrong / sizeof *wrong - !is_cpu();
    run_ok(arena, "mkdir -p %s", wrong[1].path);
    for (size_t i = 0; i < num; i++) {
        Ran r = run(arena, "tfd-run %s --profile=%s", plan, wrong[i].path);
        assert_int_equal(r.code, 1);
        assert_string_equal(r.out, "");
        if (!strstr(r.err, wrong[i].message))
            fail_msg("\"%s\" is not in: %s", wrong[i].message, r.err);
    }
}

/* profile_test [KIND]: on the fake driver, cuda */
int
main(int argc, char **argv)
{
    if (argc > 1)
        kind = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slow_line_comes_first),
        cmocka_unit_test(rows_add_up_to_the_step),
        cmocka_unit_test(rows_have_names_of_the_program),
        cmocka_unit_test(layers_have_their_own_times),
        cmocka_unit_test(the_listing_has_times_where_there_is_work),
        cmocka_unit_test(the_chief_reports_for_itself),
        cmocka_unit_test(a_program_without_steps_has_a_profile),
        cmocka_unit_test(traces_have_threads_and_kernels),
        cmocka_unit_test(names_are_as_messages_have_them),
        cmocka_unit_test(what_cannot_be_profiled_is_refused),
        cmocka_unit_test(a_file_that_cannot_be_written_is_refused_first),
    };
    return cmocka_run_group_tests(tests, new_dir, release_arena);
}
