/*
 * mistakes_test.c - what users are told about their mistakes
 *
 *   NAME.tfd            a program with a mistake that somebody made
 *   NAME.txt            commands, as they are typed beside it, all that they
 *                       print, and their exit status
 *   repaired/NAME.tfd   the program with the repairs that the messages suggest
 *
 * A repaired program compiles and runs without a message, and every word in it
 * that the mistaken one does not have is in the messages, so that these say all
 * that is to be written.
 *
 * A program is compiled for two devices and, if that succeeds, run; another
 * command is a line "#! ..." of the program.  What comes after a command that
 * fails is not executed.  With TFD_BLESS=1 the .txt files are written.
 */
#include "tests/unit/golden.h"
#include "tests/unit/arena.h"
#include "tests/unit/sweep.h"

#include "tests/data/make.h"
#include "tests/e2e/run.h"

/* ---- the folder that a user works in ------------------------------------- */

static const char table[] = "x1,x2,label\n"
                            "0.5,1.25,0\n"
                            "-0.75,0.5,1\n";
static const char lines[] = "to be\nor not to be\n";
static const float points[2][2] = {{0.5f, 1.25f}, {-0.75f, 0.5f}};

/* Makes it, with the files that programs read and the program, and goes
 * there. */
static const char *
enter_folder(const char *name, const char *program)
{
    const char *dir = work_dir(arena);
    assert_int_equal(chdir(dir), 0);
    MakeArray array = {
        .descr = "<f4",
        .shape = "(2, 2)",
        .elements = points,
        .bytes = sizeof points,
    };
    Str npy = make_npy(arena, &array);
    make_file("x.npy", npy.data, (size_t)npy.len);
    write_text("moons.csv", table);
    write_text("t.txt", lines);
    write_text(name, program);
    return dir;
}

/* ---- commands ------------------------------------------------------------ */

static const char mark[] = "#! ";

typedef VEC(const char *) Commands;

static Commands
commands_of(const char *name, const char *program)
{
    Commands commands = {0};
    for (const char *p = program; strncmp(p, mark, strlen(mark)) == 0;) {
        size_t len = strcspn(p, "\n");
        VEC_PUSH(arena, commands,
                 arena_printf(arena, "%.*s", (int)(len - strlen(mark)),
                              p + strlen(mark)));
        p += len + (p[len] == '\n');
    }
    if (commands.len)
        return commands;
    const char *plan = golden_sibling(arena, name, ".tfp");
    VEC_PUSH(arena, commands,
             arena_printf(arena, "tfdc %s --devices cpu:0-1", name));
    VEC_PUSH(arena, commands, arena_printf(arena, "tfd-run %s", plan));
    return commands;
}

/* Text with the name of the folder, which is another each time, as DIR. */
static void
add_without_folder(Str *out, const char *text, const char *folder)
{
    for (const char *at; (at = strstr(text, folder));) {
        str_addf(out, "%.*sDIR", (int)(at - text), text);
        text = at + strlen(folder);
    }
    str_add(out, text);
}

/* What a user sees of the commands. */
static const char *
session_of(Commands commands, const char *folder)
{
    Str out = str_new(arena);
    int code = 0;
    for (int i = 0; i < commands.len && code == 0; i++) {
        const char *command = commands.data[i];
        Ran r = run(arena, "%s", command);
        str_addf(&out, "$ %s\n", command);
        add_without_folder(&out, r.out, folder);
        add_without_folder(&out, r.err, folder);
        code = r.code;
    }
    str_addf(&out, "exit status %d\n", code);
    return str_text(&out);
}

/* ---- repairs ------------------------------------------------------------- */

/* The next word of a program, or number, from *at on; NULL at its end. */
static const char *
next_word(const char **at)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    *at += strcspn(*at, letters);
    size_t len = strspn(*at, letters);
    const char *word = len ? arena_strndup(arena, *at, len) : NULL;
    *at += len;
    return word;
}

/* Whether text has the word, as a whole. */
static bool
has_word(const char *text, const char *word)
{
    for (const char *w; (w = next_word(&text));)
        if (strcmp(w, word) == 0)
            return true;
    return false;
}

/* The words of a repaired program that neither the mistaken one nor what was
 * told about it has.  Words of its first comment are said by messages that come
 * when the first mistakes are repaired. */
static const char *
unsaid(const char *repaired, const char *program, const char *told)
{
    Str out = str_new(arena);
    const char *rest = repaired;
    while (*rest == '#')
        rest += strcspn(rest, "\n") + 1;
    const char *later =
        arena_strndup(arena, repaired, (size_t)(rest - repaired));
    for (const char *w; (w = next_word(&rest));)
        if (!has_word(program, w) && !has_word(told, w) && !has_word(later, w))
            str_addf(&out, "%s%s", out.len ? " " : "", w);
    return str_text(&out);
}

/* ---- tests --------------------------------------------------------------- */

static void
expect_repair(void **state)
{
    const char *path = *state;
    const char *name = golden_name(path);
    new_arena(state);
    size_t len;
    const char *repaired = golden_read(arena, path, &len);
    const char *root = getenv("TFD_ROOT");
    const char *mistake =
        arena_printf(arena, "%s/tests/mistakes/%s", root, name);
    const char *program = golden_read(arena, mistake, &len);
    const char *told =
        golden_read(arena, golden_sibling(arena, mistake, ".txt"), &len);
    assert_string_equal(unsaid(repaired, program, told), "");
    enter_folder(name, repaired);
    Commands commands = commands_of(name, repaired);
    for (int i = 0; i < commands.len; i++) {
        Ran r = run(arena, "%s", commands.data[i]);
        assert_string_equal(r.err, "");
        assert_int_equal(r.code, 0);
    }
    release_arena(state);
}

static void
expect_told(void **state)
{
    const char *path = *state;
    const char *name = golden_name(path);
    new_arena(state);
    size_t len;
    const char *program = golden_read(arena, path, &len);
    const char *folder = enter_folder(name, program);
    const char *told = session_of(commands_of(name, program), folder);
    golden_expect(arena, golden_sibling(arena, path, ".txt"), told);
    release_arena(state);
}

/* The programs in a folder of the sources, or a part of them. */
static Paths
programs_in(Arena *a, const char *folder)
{
    Paths all = golden_list(
        a, arena_printf(a, "%s/%s", getenv("TFD_ROOT"), folder), ".tfd");
    Paths taken = {0};
    for (int i = sweep_first(all.len); i < all.len; i = sweep_next(i))
        VEC_PUSH(a, taken, all.data[i]);
    return taken;
}

/* With an argument the repaired programs, else the mistaken ones. */
int
main(int argc, char **argv)
{
    bool repairs = argc > 1;
    if (!getenv("TFD_ROOT"))
        return 2;
    (void)argv;
    Arena *a = arena_new(NULL, "paths");
    Paths programs =
        programs_in(a, repairs ? "tests/mistakes/repaired" : "tests/mistakes");
    int failed = golden_run_paths(a, repairs ? "repairs" : "mistakes", programs,
                                  repairs ? expect_repair : expect_told);
    arena_release(a);
    return failed;
}
