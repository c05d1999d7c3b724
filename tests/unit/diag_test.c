/*
 * diag_test.c - the layout of messages, and which are kept; statuses
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

#include "ir/base/diag.h"
#include "ir/base/status.h"
#include "ir/base/str.h"

static Diag *diag;

static int
set_up(void **state)
{
    new_arena(state);
    diag = diag_new(arena);
    return 0;
}

static void
add_source(const char *name, const char *text)
{
    diag_add_source(diag, name, text, strlen(text));
}

static Loc
at(uint32_t line, uint32_t col, uint16_t len)
{
    return (Loc){line, col, len, 0};
}

static void
expect(const char *text)
{
    assert_string_equal(diag_text(diag, arena), text);
}

static void
an_error_shows_the_line_and_the_place(void **state)
{
    (void)state;
    add_source("linear.tfd", "var w\n  w -= 0.1 * dw\nmain");
    diag_error(diag, at(2, 8, 8), "cannot assign to \"%s\"", "w");
    diag_note(diag, at(2, 8, 8), "did you mean all_reduce(sum, 0.1 * dw)?");
    diag_note(diag, at(3, 1, 4), "train_step is run from here");
    diag_warning(diag, at(3, 1, 0), "nothing follows");
    expect("linear.tfd:2:8: error: cannot assign to \"w\"\n"
           "    2 |   w -= 0.1 * dw\n"
           "      |        ^~~~~~~~\n"
           "linear.tfd:2:8: note: did you mean all_reduce(sum, 0.1 * dw)?\n"
           "linear.tfd:3:1: note: train_step is run from here\n"
           "linear.tfd:3:1: warning: nothing follows\n"
           "    3 | main\n"
           "      | ^\n");
}

static void
a_repair_elsewhere_shows_its_line(void **state)
{
    (void)state;
    add_source("a.tfd", "let x = 3\nx = 4\n");
    diag_error(diag, at(2, 1, 1), "x is a let");
    diag_show(diag, at(1, 5, 1), "declare it as %s", "mut x");
    diag_error(diag, at(2, 1, 1), "dropped");
    diag_show(diag, at(1, 5, 1), "with it");
    expect("a.tfd:2:1: error: x is a let\n"
           "    2 | x = 4\n"
           "      | ^\n"
           "a.tfd:1:5: note: declare it as mut x\n"
           "    1 | let x = 3\n"
           "      |     ^\n");
}

static void
places_outside_the_text_are_cut_to_it(void **state)
{
    (void)state;
    add_source("a.tfd", "one\r\ntwo\n");
    diag_error(diag, at(1, 3, 90), "too long");
    diag_error(diag, at(2, 90, 9), "behind the line");
    diag_error(diag, at(3, 1, 1), "behind the text");
    diag_error(diag, at(4, 1, 1), "no such line");
    diag_error(diag, NO_LOC, "nowhere");
    expect("a.tfd:1:3: error: too long\n"
           "    1 | one\n"
           "      |   ^\n"
           "a.tfd:2:90: error: behind the line\n"
           "    2 | two\n"
           "      |    ^\n"
           "a.tfd:3:1: error: behind the text\n"
           "    3 | \n"
           "      | ^\n"
           "a.tfd:4:1: error: no such line\n"
           "a.tfd: error: nowhere\n");
}

static void
without_a_source_there_is_only_the_message(void **state)
{
    (void)state;
    diag_error(diag, NO_LOC, "first");
    diag_add_source(diag, "a.tir", NULL, 0);
    diag_error(diag, at(7, 2, 1), "second");
    assert_int_equal(diag_num_sources(diag), 1);
    assert_string_equal(diag_source_name(diag, 0), "a.tir");
    expect("a.tir: error: first\n"
           "a.tir:7:2: error: second\n");
}

static void
tabs_and_characters_of_several_bytes_stay_aligned(void **state)
{
    (void)state;
    add_source("a.tfd", "\tµ = \"äö\" + \x1b[31m\n");
    diag_error(diag, at(1, 7, 6), "a string");
    expect("a.tfd:1:7: error: a string\n"
           "    1 | \tµ = \"äö\" + ?[31m\n"
           "      | \t    ^~~~\n");
}

static void
control_characters_do_not_reach_the_terminal(void **state)
{
    (void)state;
    diag_error(diag, NO_LOC, "unknown name \"%s\"", "a\x1b[31m\nb");
    expect("error: unknown name \"a?[31m?b\"\n");
}

/* After 4,000 bytes, or before the character that these would cut. */
static void
long_texts_are_cut_between_characters(void **state)
{
    (void)state;
    Str text = str_new(arena), expected = str_new(arena);
    str_add(&text, "x");
    for (int i = 0; i < 3000; i++)
        str_add(&text, "µ");
    diag_error(diag, NO_LOC, "%s", str_text(&text));
    str_addf(&expected, "error: %.3999s...\n", str_text(&text));
    expect(str_text(&expected));
}

/* 300 columns of digits, with a mark at column 201. */
static void
long_lines_are_cut(void **state)
{
    (void)state;
    Str s = str_new(arena);
    for (int i = 0; i < 300; i++)
        str_addc(&s, i == 200 ? '@' : (char)('0' + i % 10));
    add_source("a.tfd", str_text(&s));
    diag_error(diag, at(1, 201, 200), "far right");
    diag_error(diag, at(1, 1, 1), "left");
    const char *digits = "0123456789012345678901234567890123456789"
                         "0123456789012345678901234567890123456789"
                         "01234567890123456789";
    Str expected = str_new(arena);
    str_addf(&expected,
             "a.tfd:1:201: error: far right\n"
             "    1 | ...%.50s@%s...\n"
             "      | %53s^%.49s\n",
             digits, "1234567890123456789012345678901234567890123456789", "",
             "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~");
    str_addf(&expected,
             "a.tfd:1:1: error: left\n"
             "    1 | %s...\n"
             "      | ^\n",
             digits);
    expect(str_text(&expected));
}

static void
one_place_has_one_error(void **state)
{
    (void)state;
    add_source("a.tfd", "x + y");
    diag_error(diag, at(1, 1, 1), "first");
    diag_note(diag, at(1, 1, 1), "kept");
    diag_error(diag, at(1, 1, 5), "second at the same place");
    diag_note(diag, at(1, 1, 1), "dropped with it");
    diag_error(diag, at(1, 5, 1), "elsewhere in the line");
    diag_warning(diag, at(1, 5, 1), "a warning");
    diag_warning(diag, at(1, 5, 1), "a warning");
    diag_warning(diag, at(1, 5, 1), "another warning");
    assert_int_equal(diag_num_errors(diag), 2);
    expect("a.tfd:1:1: error: first\n"
           "    1 | x + y\n"
           "      | ^\n"
           "a.tfd:1:1: note: kept\n"
           "a.tfd:1:5: error: elsewhere in the line\n"
           "    1 | x + y\n"
           "      |     ^\n"
           "a.tfd:1:5: warning: a warning\n"
           "    1 | x + y\n"
           "      |     ^\n"
           "a.tfd:1:5: warning: another warning\n"
           "    1 | x + y\n"
           "      |     ^\n");
}

static void
errors_beyond_the_limit_are_counted(void **state)
{
    (void)state;
    for (uint32_t i = 1; i <= 22; i++) {
        diag_error(diag, at(i, 1, 1), "e%u", i);
        diag_note(diag, at(i, 1, 1), "n%u", i);
    }
    assert_int_equal(diag_num_errors(diag), 22);
    const char *text = diag_text(diag, arena);
    assert_non_null(strstr(text, "error: e20\nnote: n20\n2 more errors\n"));
}

static void
rewinding_forgets(void **state)
{
    (void)state;
    diag_error(diag, at(1, 1, 1), "kept");
    DiagMark mark = diag_mark(diag);
    for (uint32_t i = 1; i < 30; i++) {
        diag_error(diag, at(i, 2, 1), "forgotten");
        diag_warning(diag, at(i, 2, 1), "forgotten");
    }
    diag_rewind(diag, mark);
    diag_note(diag, at(1, 1, 1), "a note of the first");
    diag_error(diag, at(1, 2, 1), "new");
    diag_warning(diag, at(1, 2, 1), "new too");
    assert_int_equal(diag_num_errors(diag), 2);
    expect("error: kept\n"
           "note: a note of the first\n"
           "error: new\n"
           "warning: new too\n");
}

/* What status_report prints, and the status that it returns. */
static const char *
reported(Status st, int *exit_status)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    *exit_status = status_report(st, "tfd-run", f);
    fclose(f);
    const char *copy = arena_strdup(arena, text);
    free(text);
    return copy;
}

static void
a_status_carries_its_story(void **state)
{
    (void)state;
    int code;
    Status st = status_new(STATUS_MACHINE, "disk %s", "full");
    st = status_note(st, "writing \"%s\"", "a.tfp");
    st = status_note(st, "saving step %d", 7);
    assert_int_equal(status_kind(st), STATUS_MACHINE);
    assert_string_equal(status_message(st), "disk full");
    assert_string_equal(reported(st, &code),
                        "tfd-run: error: disk full\n"
                        "tfd-run: note: while writing \"a.tfp\"\n"
                        "tfd-run: note: while saving step 7\n");
    assert_int_equal(code, 3);
    status_free(st);
}

static void
success_says_nothing(void **state)
{
    (void)state;
    int code;
    assert_null(status_note(OK, "not %s", "shown"));
    assert_string_equal(reported(OK, &code), "");
    assert_int_equal(code, 0);
    status_free(OK);
}

static void
an_interruption_is_no_error(void **state)
{
    (void)state;
    int code;
    Status st = status_new(STATUS_STOPPED, "interrupted at step 3");
    assert_string_equal(reported(st, &code),
                        "tfd-run: interrupted at step 3\n");
    assert_int_equal(code, 130);
    status_free(st);
}

#define DIAG_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, release_arena)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        DIAG_TEST(an_error_shows_the_line_and_the_place),
        DIAG_TEST(a_repair_elsewhere_shows_its_line),
        DIAG_TEST(places_outside_the_text_are_cut_to_it),
        DIAG_TEST(without_a_source_there_is_only_the_message),
        DIAG_TEST(tabs_and_characters_of_several_bytes_stay_aligned),
        DIAG_TEST(control_characters_do_not_reach_the_terminal),
        DIAG_TEST(long_texts_are_cut_between_characters),
        DIAG_TEST(long_lines_are_cut),
        DIAG_TEST(one_place_has_one_error),
        DIAG_TEST(errors_beyond_the_limit_are_counted),
        DIAG_TEST(rewinding_forgets),
        DIAG_TEST(a_status_carries_its_story),
        DIAG_TEST(success_says_nothing),
        DIAG_TEST(an_interruption_is_no_error),
    };
    return cmocka_run_group_tests_name("diag", tests, NULL, NULL);
}
