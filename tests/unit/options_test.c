/*
 * options_test.c - command lines, valid and wrong, and the help page
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"
#include "tests/unit/status.h"

#include "ir/base/io/options.h"
#include "ir/base/str.h"

enum { OUT, DEFINE, LEVEL, DEVICES, TO, EXPLAIN, SEED, TIMEOUT, NUM_OPTS };

static const char *const levels[] = {"0", "1", "2", "3", NULL};
static const char *const phases[] = {"ast", "ir", "placed", "kernels", NULL};

static const OptionRow rows[NUM_OPTS] = {
    [OUT] = {.letter = 'o', .arg = "FILE", .help = "the plan"},
    [DEFINE] = {.letter = 'D',
                .arg = "NAME=VALUE",
                .repeatable = true,
                .help = "override a const"},
    [LEVEL] = {.letter = 'O',
               .arg = "LEVEL",
               .values = levels,
               .help = "how much is optimized"},
    [DEVICES] = {.name = "devices",
                 .arg = "LIST",
                 .help = "the devices: cpu:0 cpu:0-3 gpu:* and whatever else "
                         "makes this text longer than one line can be"},
    [TO] = {.name = "to",
            .arg = "PHASE",
            .values = phases,
            .help = "stop after a phase"},
    [EXPLAIN] = {.name = "explain", .help = "tell what was inserted and why"},
    [SEED] = {.name = "seed-of-random-numbers",
              .arg = "NUMBER",
              .help = "where they start"},
    [TIMEOUT] = {.name = "timeout",
                 .arg = "SECONDS",
                 .help = "the longest "
                         "wait"},
};

static const OptionTable table = {
    .program = "prog",
    .about = "Makes a plan from a program.",
    .operand = "FILE.tfd",
    .rows = rows,
    .num_rows = NUM_OPTS,
};

/* The words of line are the command line. */
static Status
parse(const char *line, Options **out)
{
    char *argv[20];
    int argc = 0;
    for (char *w = strtok(arena_strdup(arena, line), " "); w;
         w = strtok(NULL, " "))
        argv[argc++] = w;
    return options_parse(arena, &table, argc, argv, out);
}

static Options *
parse_ok(const char *line)
{
    Options *o = NULL;
    assert_null(parse(line, &o));
    return o;
}

static void
expect_error(Status st, const char *message)
{
    assert_status(st, STATUS_USAGE, message);
}

static void
all_spellings_are_read(void **state)
{
    (void)state;
    Options *o = parse_ok("prog -o a.tfp x.tfd -DA=1 -D B=2=3 -O2 "
                          "--devices=cpu:0 --to placed --explain");
    assert_string_equal(options_operand(o), "x.tfd");
    assert_string_equal(options_value(o, OUT, NULL), "a.tfp");
    assert_int_equal(options_count(o, DEFINE), 2);
    assert_string_equal(options_nth(o, DEFINE, 0), "A=1");
    assert_string_equal(options_value(o, LEVEL, NULL), "2");
    assert_string_equal(options_value(o, DEVICES, NULL), "cpu:0");
    assert_string_equal(options_value(o, TO, NULL), "placed");
    assert_true(options_given(o, EXPLAIN));
    assert_false(options_given(o, SEED));
    assert_string_equal(options_value(o, SEED, "7"), "7");
    assert_null(options_answer(o));
    const char *name, *value;
    assert_null(options_assignment(o, arena, DEFINE, 1, &name, &value));
    assert_string_equal(name, "B");
    assert_string_equal(value, "2=3");
}

static void
dashes_alone_are_operands(void **state)
{
    (void)state;
    assert_string_equal(options_operand(parse_ok("prog -")), "-");
    assert_string_equal(options_operand(parse_ok("prog -- --to")), "--to");
    Options *o = parse_ok("prog x -o - --devices=");
    assert_string_equal(options_value(o, OUT, NULL), "-");
    assert_string_equal(options_value(o, DEVICES, NULL), "");
}

static void
mistakes_are_explained(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"prog", "no FILE.tfd given; prog --help tells more"},
        {"prog a b", "one FILE.tfd at a time: \"a\" or \"b\", not both"},
        {"prog a --devcies=cpu:0",
         "unknown option \"--devcies\"; did you mean --devices?"},
        {"prog a -explain",
         "unknown option \"-explain\"; did you mean --explain?"},
        {"prog a -x", "unknown option \"-x\"; prog --help lists all"},
        {"prog a -hx", "unknown option \"-hx\"; prog --help lists all"},
        {"prog a --explain=yes", "--explain takes no value"},
        {"prog a --to", "--to needs a value: --to PHASE"},
        {"prog a --to --explain", "--to needs a value: --to PHASE"},
        {"prog a -o", "-o needs a value: -o FILE"},
        {"prog a --to plcaed",
         "unknown PHASE \"plcaed\" for --to; did you mean placed?"},
        {"prog a --to nowhere", "unknown PHASE \"nowhere\" for --to; it is "
                                "one of ast, ir, placed, kernels"},
        {"prog a -O4", "unknown LEVEL \"4\" for -O; it is one of 0, 1, 2, 3"},
        {"prog a --to ir --to ast", "--to is given twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Options *o = NULL;
        expect_error(parse(cases[i][0], &o), cases[i][1]);
        assert_null(o);
    }
}

static void
numbers_are_checked(void **state)
{
    (void)state;
    int64_t n = 5;
    double x = 0;
    Options *o = parse_ok("prog a --timeout 2.5");
    assert_null(options_int(o, SEED, 0, 10, &n));
    assert_int_equal(n, 5);
    assert_null(options_float(o, TIMEOUT, 0, 10, &x));
    assert_true(x == 2.5);
    o = parse_ok("prog a --seed-of-random-numbers -3 --timeout nan -D x");
    assert_null(options_int(o, SEED, -10, 10, &n));
    assert_int_equal(n, -3);
    expect_error(options_int(o, SEED, 0, 10, &n),
                 "--seed-of-random-numbers needs a whole number from 0 to 10, "
                 "not \"-3\"");
    expect_error(options_float(o, TIMEOUT, 0, 10, &x),
                 "--timeout needs a number from 0 to 10, not \"nan\"");
    const char *name, *value;
    expect_error(options_assignment(o, arena, DEFINE, 0, &name, &value),
                 "-D needs NAME=VALUE, not \"x\"");
    static const char *const bad[] = {"1x", "99999999999999999999", "0x1", ""};
    for (int i = 0; i < 4; i++) {
        o = parse_ok(
            arena_printf(arena, "prog a --seed-of-random-numbers=%s", bad[i]));
        Status st = options_int(o, SEED, 0, INT64_MAX, &n);
        assert_non_null(st);
        status_free(st);
    }
}

static void
choices_within_values_are_checked(void **state)
{
    (void)state;
    int choice = -1;
    Options *o = parse_ok("prog a");
    assert_null(options_choice(o, DEVICES, "phase", phases, "ir", &choice));
    assert_int_equal(choice, 1);
    expect_error(options_choice(o, DEVICES, "phase", phases, "it", &choice),
                 "unknown phase \"it\" for --devices; did you mean ir?");
}

static const char *
answer(const char *line)
{
    const char *text = options_answer(parse_ok(line));
    assert_non_null(text);
    return text;
}

static void
help_and_version_answer(void **state)
{
    (void)state;
    assert_string_equal(answer("prog --version"), "prog " TFD_VERSION "\n");
    const char *page =
        "Usage: prog FILE.tfd [OPTION]...\n"
        "Makes a plan from a program.\n"
        "\n"
        "  -o FILE                   the plan\n"
        "  -D NAME=VALUE             override a const\n"
        "  -O LEVEL                  how much is optimized: 0, 1, 2, 3\n"
        "  --devices LIST            the devices: cpu:0 cpu:0-3 gpu:* and "
        "whatever else\n"
        "                            makes this text longer than one line can "
        "be\n"
        "  --to PHASE                stop after a phase: ast, ir, placed, "
        "kernels\n"
        "  --explain                 tell what was inserted and why\n"
        "  --seed-of-random-numbers NUMBER\n"
        "                            where they start\n"
        "  --timeout SECONDS         the longest wait\n"
        "  -h, --help                this page\n"
        "  --version                 the version of the program\n";
    assert_string_equal(answer("prog -h"), page);
    assert_string_equal(answer("prog a --help --version"), page);
}

#define OPTIONS_TEST(f)                                                        \
    cmocka_unit_test_setup_teardown(f, new_arena, release_arena)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        OPTIONS_TEST(all_spellings_are_read),
        OPTIONS_TEST(dashes_alone_are_operands),
        OPTIONS_TEST(mistakes_are_explained),
        OPTIONS_TEST(numbers_are_checked),
        OPTIONS_TEST(choices_within_values_are_checked),
        OPTIONS_TEST(help_and_version_answer),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
