/*
 * gen_conformance.c - docs/conformance.md, from cases.md and the programs
 *
 *   gen_conformance CASES.md FOLDER
 *
 * A program tests a case if an assert names the case in its text, or a line of
 * its head does ("#? RED-12: TEXT", conformance_test.c).  A line that begins
 * with #~ marks cases, anywhere in a program:
 *
 *   #~ RED-22, RED-24 otherwise: what tfd does instead
 *   #~ INP-24 needs several processes: why
 *   #~ MWM-10 in tests/e2e/workers_test.c
 *
 * The last one is of a case that another test has, by its name (MWM-10 or
 * MWM_10); all cases of an area may be there: "Tested in FILE" below its
 * heading.  There, a line of a comment may be a mark: " *~ RES-18 otherwise:
 * why".  A case that is marked "otherwise" must be tested all the same.  A case
 * without program and mark stops the build, and so does the name of an unknown
 * case.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/io/file.h"
#include "ir/base/str.h"
#include "ir/base/vec.h"

enum { ID_LEN = 6 }; /* RED-01 */

typedef enum Mark { NO_MARK, OTHERWISE, PROCESSES, NUM_MARKS } Mark;

static const struct {
    const char *word, *result;
} marks[NUM_MARKS] = {
    [NO_MARK] = {"", "passes"},
    [OTHERWISE] = {"otherwise: ", "tfd decides otherwise: "},
    [PROCESSES] = {"needs several processes: ", "needs several processes: "},
};

typedef struct Area {
    const char *title;     /* "RED: reduce, ..." */
    const char *processes; /* why it needs several; NULL if it does not */
    const char *tested_in; /* the test that has its cases; NULL: programs */
} Area;

typedef struct Case {
    const char *id, *setting, *expected;
    int area;
    Str files; /* that hold it, with commas */
    const char *last_file;
    Mark mark;
    const char *why;
} Case;

typedef VEC(Area) Areas;
typedef VEC(Case) Cases;

static Arena *arena;
static const char *root; /* of the sources */
static Areas areas;
static Cases cases;
static int num_wrong;

static void __attribute__((format(printf, 1, 2)))
complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s\n", arena_vprintf(arena, format, args));
    va_end(args);
    num_wrong++;
}

/* ---- cases.md ------------------------------------------------------------ */

static bool
is_id(const char *p)
{
    return isupper(p[0]) && isupper(p[1]) && isupper(p[2]) && p[3] == '-' &&
           isdigit(p[4]) && isdigit(p[5]);
}

/* The cell that begins at *p, which goes to the next one. */
static const char *
take_cell(const char **p)
{
    const char *start = *p, *end = strstr(start, " | ");
    if (!end)
        end = start + strlen(start);
    *p = *end ? end + 3 : end;
    return arena_strndup(arena, start, (size_t)(end - start));
}

static void
read_case(const char *line)
{
    Case c = {.area = areas.len - 1, .files = str_new(arena)};
    const char *p = line + 2;
    c.id = take_cell(&p);
    c.setting = take_cell(&p);
    c.expected = take_cell(&p);
    VEC_PUSH(arena, cases, c);
}

static void
read_case_line(const char *line)
{
    static const char why[] = "Needs several processes: ";
    static const char where[] = "Tested in ";
    if (strncmp(line, "## ", 3) == 0)
        VEC_PUSH(arena, areas, ((Area){.title = line + 3}));
    else if (areas.len > 0 && strncmp(line, why, strlen(why)) == 0)
        VEC_LAST(areas).processes = line + strlen(why);
    else if (areas.len > 0 && strncmp(line, where, strlen(where)) == 0)
        VEC_LAST(areas).tested_in = line + strlen(where);
    else if (areas.len > 0 && strncmp(line, "| ", 2) == 0 && is_id(line + 2))
        read_case(line);
}

/* ---- files --------------------------------------------------------------- */

static char *
read_text(const char *path)
{
    char *text;
    size_t len;
    Status st = file_read(arena, path, &text, &len);
    if (st) {
        fprintf(stderr, "%s\n", status_message(st));
        exit(1);
    }
    return text;
}

/* ---- the programs -------------------------------------------------------- */

static Case *
find_case(const char *id)
{
    for (int i = 0; i < cases.len; i++)
        if (strncmp(cases.data[i].id, id, ID_LEN) == 0)
            return &cases.data[i];
    return NULL;
}

static void
hold(Case *c, const char *file)
{
    if (c->last_file == file)
        return;
    str_addf(&c->files, "%s`%s`", c->last_file ? ", " : "", file);
    c->last_file = file;
}

static void mark(Case *c, const char *text, const char *file);

/* The mark of the case in the text of a test. */
static void
find_mark(Case *c, const char *text, const char *path)
{
    const char *sign = arena_printf(arena, "\n *~ %s ", c->id);
    size_t len = strlen(sign);
    const char *at = memmem(text, strlen(text), sign, len);
    if (at)
        mark(c, arena_strndup(arena, at + len, strcspn(at + len, "\n")), path);
}

/* A test that is no program, by its path from the root. */
static void
hold_in_test(Case *c, const char *path)
{
    const char *text = read_text(arena_printf(arena, "%s/%s", root, path));
    char *name = arena_strdup(arena, c->id);
    bool found = strstr(text, name);
    name[3] = '_';
    if (!found && !strstr(text, name))
        complain("%s: it does not have %s", path, c->id);
    find_mark(c, text, path);
    hold(c, path);
}

static void
mark(Case *c, const char *text, const char *file)
{
    if (strncmp(text, "in ", 3) == 0) {
        hold_in_test(c, text + 3);
        return;
    }
    for (Mark m = OTHERWISE; m < NUM_MARKS; m++) {
        size_t len = strlen(marks[m].word);
        if (strncmp(text, marks[m].word, len) == 0) {
            c->mark = m;
            c->why = text + len;
        }
    }
    if (!c->why)
        complain("%s: %s is marked as \"%s\"", file, c->id, text);
    if (c->mark == PROCESSES)
        hold(c, file);
}

/* Where the names that a mark begins with end: "RED-22, RED-24 ". */
static const char *
after_ids(const char *p)
{
    while (is_id(p)) {
        p += ID_LEN;
        p += strspn(p, ", ");
    }
    return p;
}

static void
read_program_line(const char *line, const char *file)
{
    bool is_mark = strncmp(line, "#~ ", 3) == 0;
    bool is_check = strncmp(line, "#? ", 3) == 0 ||
                    strncmp(line, "#> ", 3) == 0 || strstr(line, "assert(");
    const char *start = is_mark ? line + 3 : line;
    const char *end = *line == '#' ? after_ids(line + 3) : line + strlen(line);
    if (!is_mark && (!is_check || (*line == '#' && end[0] != ':')))
        return;
    for (const char *p = start; p < end; p++) {
        if (!is_id(p))
            continue;
        Case *c = find_case(p);
        if (!c)
            complain("%s: %.*s is no case", file, ID_LEN, p);
        else if (is_mark)
            mark(c, end, file);
        else
            hold(c, file);
    }
}

static int
is_program(const struct dirent *e)
{
    const char *ending = strrchr(e->d_name, '.');
    return ending && strcmp(ending, ".tfd") == 0;
}

static void
read_programs(const char *folder)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, is_program, alphasort);
    for (int i = 0; i < n; i++) {
        const char *file = arena_strdup(arena, entries[i]->d_name);
        char *text = read_text(arena_printf(arena, "%s/%s", folder, file));
        for (char *at; (at = strsep(&text, "\n"));)
            read_program_line(at, file);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

/* ---- the page ------------------------------------------------------------ */

static bool
is_held(const Case *c)
{
    return c->last_file != NULL;
}

/* A mark of an area holds for each of its cases. */
static void
settle(void)
{
    for (int i = 0; i < cases.len; i++) {
        Case *c = &cases.data[i];
        const Area *a = &areas.data[c->area];
        if (a->tested_in && !is_held(c)) {
            hold_in_test(c, a->tested_in);
        } else if (a->processes && !is_held(c)) {
            c->mark = PROCESSES;
            c->why = a->processes;
        } else if (!is_held(c)) {
            complain("%s: no program holds it, and nothing marks it", c->id);
        }
    }
}

/* The length before the parenthesis. */
static size_t
short_title(const char *title)
{
    const char *more = strstr(title, " (");
    return more ? (size_t)(more - title) : strlen(title);
}

static void
print_counts(void)
{
    int all[NUM_MARKS] = {0};
    printf("| area | cases | passes | tfd decides otherwise | needs several "
           "processes |\n| --- | --- | --- | --- | --- |\n");
    for (int a = 0; a < areas.len; a++) {
        int n[NUM_MARKS] = {0};
        for (int i = 0; i < cases.len; i++)
            if (cases.data[i].area == a)
                n[cases.data[i].mark]++;
        for (Mark m = 0; m < NUM_MARKS; m++)
            all[m] += n[m];
        printf("| %.*s | %d | %d | %d | %d |\n",
               (int)short_title(areas.data[a].title), areas.data[a].title,
               n[NO_MARK] + n[OTHERWISE] + n[PROCESSES], n[NO_MARK],
               n[OTHERWISE], n[PROCESSES]);
    }
    printf("| **all** | %d | %d | %d | %d |\n", cases.len, all[NO_MARK],
           all[OTHERWISE], all[PROCESSES]);
}

static void
print_case(const Case *c)
{
    printf("| %s | %s | %s | %s | %s%s |\n", c->id, c->setting, c->expected,
           str_text(&c->files), marks[c->mark].result, c->why ? c->why : "");
}

static void
print_page(void)
{
    printf("# Cases of tf.distribute, and what tfd does\n\n"
           "Made by the build (`tests/conformance/gen_conformance.c`) from the "
           "cases in\n`tests/conformance/cases.md`, which says where they come "
           "from and how to read a row,\nand from the programs beside it. The "
           "suite `conformance` runs these: *passes* means\nthat the program "
           "named (or the test) asserts what is expected; where tfd decides "
           "otherwise\n"
           "([semantics.md](semantics.md)), it asserts what tfd does "
           "instead.\n\n");
    print_counts();
    for (int a = 0; a < areas.len; a++) {
        printf("\n## %s\n\n| id | setting and action | expected | program | "
               "result |\n| --- | --- | --- | --- | --- |\n",
               areas.data[a].title);
        for (int i = 0; i < cases.len; i++)
            if (cases.data[i].area == a)
                print_case(&cases.data[i]);
    }
}

int
main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    arena = arena_new(NULL, "conformance");
    char *text = read_text(argv[1]);
    for (char *at; (at = strsep(&text, "\n"));)
        read_case_line(at);
    root = arena_printf(arena, "%s/../..", argv[2]);
    read_programs(argv[2]);
    settle();
    print_page();
    arena_release(arena);
    return num_wrong > 0;
}
