/*
 * mistakes_test.c - what users are told about their mistakes
 *
 *   NAME.tfd   a program with a mistake that somebody made
 *   NAME.txt   commands, as they are typed beside it, all that they print, and
 *              their exit status
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

/* ---- tests --------------------------------------------------------------- */

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

int
main(void)
{
    const char *root = getenv("TFD_ROOT");
    if (!root)
        return 2;
    Arena *a = arena_new(NULL, "paths");
    Paths all =
        golden_list(a, arena_printf(a, "%s/tests/mistakes", root), ".tfd");
    Paths taken = {0};
    for (int i = sweep_first(all.len); i < all.len; i = sweep_next(i))
        VEC_PUSH(a, taken, all.data[i]);
    int failed = golden_run_paths(a, "mistakes", taken, expect_told);
    arena_release(a);
    return failed;
}
