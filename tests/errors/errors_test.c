/*
 * errors_test.c - the errors of each program here, on one replica and on two
 *
 *   NAME.tfd   each error is beside its line, as  #! error: MESSAGE
 *              and a program without any compiles
 *   NAME.txt   if it exists: all messages with places, repairs and chains of
 *              calls, for two replicas
 *
 *   errors_test SOURCE_ROOT
 *
 * A program that is wrong on two replicas is wrong on one, and the reverse.
 * A program that declares a strategy has that one.  With TFD_BLESS=1 the
 * existing .txt files are rewritten.
 */
#include "ir/verify/verify.h"
#include "tests/unit/golden.h"

#include "frontend/frontend.h"

static Arena *arena; /* of the whole run */

static const struct {
    const char *strategy, *devices;
} setups[] = {
    {"mirrored", "cpu:0-1"},
    {"mirrored", "cpu:0"},
    {"default", "cpu:0"},
};

/* ---- expected messages -------------------------------------------------- */

static const char mark[] = "#! error: ";

/* The errors that the program says, "LINE: MESSAGE" a line. */
static const char *
expected_errors(const char *text)
{
    Str out = str_new(arena);
    int line = 1;
    for (const char *p = text; *p; line++) {
        size_t len = strcspn(p, "\n");
        const char *at = strstr(p, mark);
        if (at && at < p + len) {
            at += strlen(mark);
            str_addf(&out, "%d: %.*s\n", line, (int)(p + len - at), at);
        }
        p += len + (p[len] == '\n');
    }
    return str_text(&out);
}

/* ---- messages ----------------------------------------------------------- */

/* Whether a program is for one strategy, whichever devices it has. */
static bool
declares_strategy(const char *text)
{
    return strstr(text, "\nstrategy ") != NULL;
}

/* Messages of a program in a setup, as a user sees them. */
static const char *
messages_of(const char *path, int setup)
{
    size_t len;
    const char *text = golden_read(arena, path, &len);
    Arena *a = arena_new(arena, "compile");
    Diag *d = diag_new(a);
    FeOptions options = {
        .path = golden_name(path),
        .text = text,
        .len = len,
        .strategy = declares_strategy(text) ? NULL : setups[setup].strategy,
        .devices = setups[setup].devices};
    IrModule *m = fe_compile(a, intern_new(a), d, &options);
    if (m)
        ir_verify(m, d);
    const char *messages = diag_text(d, arena);
    arena_release(a);
    return messages;
}

static int
compare_lines(const void *a, const void *b)
{
    return atoi(*(char *const *)a) - atoi(*(char *const *)b);
}

/* The errors among messages, as expected_errors gives them. */
static const char *
errors_among(const char *messages, const char *name)
{
    VEC(char *) lines = {0};
    size_t name_len = strlen(name);
    static const char word[] = ": error: ";
    for (const char *p = messages; *p;) {
        size_t len = strcspn(p, "\n");
        const char *at = strstr(p, word);
        if (strncmp(p, name, name_len) == 0 && at && at < p + len) {
            at += strlen(word);
            VEC_PUSH(arena, lines,
                     arena_printf(arena, "%d: %.*s\n", atoi(p + name_len + 1),
                                  (int)(p + len - at), at));
        }
        p += len + (p[len] == '\n');
    }
    Str out = str_new(arena);
    if (lines.len)
        qsort(lines.data, (size_t)lines.len, sizeof *lines.data, compare_lines);
    for (int i = 0; i < lines.len; i++)
        str_add(&out, lines.data[i]);
    return str_text(&out);
}

/* ---- tests -------------------------------------------------------------- */

static void
expect_pinned(const char *program, const char *messages)
{
    const char *path = golden_sibling(arena, program, ".txt");
    if (access(path, F_OK) == 0)
        golden_expect(arena, path, messages);
}

static void
expect_errors(void **state)
{
    const char *path = *state;
    size_t len;
    const char *expected = expected_errors(golden_read(arena, path, &len));
    for (int i = 0; i < (int)(sizeof setups / sizeof *setups); i++) {
        const char *messages = messages_of(path, i);
        const char *errors = errors_among(messages, golden_name(path));
        if (strcmp(errors, expected) != 0)
            print_error("%s, %s on %s\n--- expected\n%s--- but got\n%s", path,
                        setups[i].strategy, setups[i].devices, expected,
                        *errors ? errors : messages);
        assert_string_equal(errors, expected);
        if (i == 0)
            expect_pinned(path, messages);
    }
}

int
main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    arena = arena_new(NULL, "test");
    int failed = golden_run(arena, "errors",
                            arena_printf(arena, "%s/tests/errors", argv[1]),
                            ".tfd", expect_errors);
    arena_release(arena);
    return failed;
}
