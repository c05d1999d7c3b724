/*
 * errors_test.c - the errors of each program here, on one replica and on two
 *
 *   NAME.tfd   each error stands beside its line, as  #! error: MESSAGE
 *              and a program without any compiles
 *   NAME.txt   if it is there: all messages with places, repairs and chains of
 *              calls, of two replicas
 *
 *   errors_test SOURCE_ROOT
 *
 * What is wrong on two replicas is wrong on one, and the other way round.
 * With TFD_BLESS=1 the .txt that are there are written anew.
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include "frontend/frontend.h"
#include "runtime/base/file.h"
#include "runtime/base/vec.h"

typedef VEC(char *) Names;

static Arena *arena; /* of the whole run */

static const struct {
    const char *strategy, *devices;
} setups[] = {
    {"mirrored", "cpu:0-1"},
    {"mirrored", "cpu:0"},
    {"default", "cpu:0"},
};

/* ---- files -------------------------------------------------------------- */

static char *
read_text(const char *path, size_t *len)
{
    char *text;
    Status st = file_read(arena, path, &text, len);
    if (st)
        print_error("%s\n", status_message(st));
    assert_null(st);
    return text;
}

static const char *
base_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* ---- what is expected --------------------------------------------------- */

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

/* ---- what there is ------------------------------------------------------ */

/* Messages of a program in a setup, as a user sees them. */
static const char *
messages_of(const char *path, int setup)
{
    size_t len;
    const char *text = read_text(path, &len);
    Arena *a = arena_new(arena, "compile");
    Diag *d = diag_new(a);
    FeOptions options = {.path = base_name(path),
                         .text = text,
                         .len = len,
                         .strategy = setups[setup].strategy,
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
    Names lines = {0};
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
    size_t len;
    const char *path = arena_printf(
        arena, "%.*s.txt", (int)(strlen(program) - strlen(".tfd")), program);
    if (access(path, F_OK) != 0)
        return;
    if (getenv("TFD_BLESS"))
        assert_null(file_write(path, messages, strlen(messages)));
    assert_string_equal(messages, read_text(path, &len));
}

static void
expect_errors(void **state)
{
    const char *path = *state;
    size_t len;
    const char *expected = expected_errors(read_text(path, &len));
    for (int i = 0; i < (int)(sizeof setups / sizeof *setups); i++) {
        const char *messages = messages_of(path, i);
        const char *errors = errors_among(messages, base_name(path));
        if (strcmp(errors, expected) != 0)
            print_error("%s, %s on %s\n--- expected\n%s--- but got\n%s", path,
                        setups[i].strategy, setups[i].devices, expected,
                        *errors ? errors : messages);
        assert_string_equal(errors, expected);
        if (i == 0)
            expect_pinned(path, messages);
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
            VEC_PUSH(arena, names,
                     arena_printf(arena, "%s/%s", folder, e->d_name));
    }
    closedir(dir);
    qsort(names.data, (size_t)names.len, sizeof *names.data, compare_names);
    return names;
}

int
main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    arena = arena_new(NULL, "test");
    Names names =
        list_programs(arena_printf(arena, "%s/tests/errors", argv[1]));
    struct CMUnitTest *tests =
        NEW_ARRAY(arena, struct CMUnitTest, (size_t)names.len);
    for (int i = 0; i < names.len; i++) {
        tests[i].name = base_name(names.data[i]);
        tests[i].test_func = expect_errors;
        tests[i].initial_state = names.data[i];
    }
    int failed =
        names.len == 0 ||
        _cmocka_run_group_tests("errors", tests, (size_t)names.len, NULL, NULL);
    arena_release(arena);
    return failed;
}
