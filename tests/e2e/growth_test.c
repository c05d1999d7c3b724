/*
 * growth_test.c - small programs whose results would be huge, and large
 * programs
 *
 * Each ends within 2 seconds of processor time and 500 MB: with the message of
 * the limit that it exceeds (ir/base/io/limit.def), or compiled.  Other suites
 * share the caches and the memory meanwhile, and double the time: the test asks
 * for 4 seconds.  Texts are generated: begin, n lines, end, where @ in the line
 * is its number, from 1, and $ the number before.
 */
#include "ir/base/io/limit.h"
#include "ir/base/str.h"
#include "tests/e2e/run.h"
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { MAX_SECONDS = 4, MAX_MEGABYTES = 500 };

typedef struct Growth {
    const char *name;
    LimitId limit; /* NUM_LIMITS: it compiles, or ends with the message
                    * `says` */
    const char *begin;
    int n;
    const char *line, *end;
    const char *says;
} Growth;

#define DOUBLED(first, line, end) first, 40, line, end, NULL

static const Growth programs[] = {
    /* text */
    {"a name", LIMIT_word, "main { let ", 100000, "a", " = 1 }\n", NULL},
    {"a number", LIMIT_word, "main { let x = ", 100000, "1", " }\n", NULL},
    {"a source", LIMIT_source, "main { }\n#", 500000, "12345678", "\n", NULL},
    {"brackets", LIMIT_brackets, "const A = ", 100000, "(", "", NULL},
    {"signs", NUM_LIMITS, "main { let x = ", 100000, "- ", "1 }\n",
     "this is nested too deeply"},
    {"sums", NUM_LIMITS, "main { let x = 1", 100000, " + 1", " }\n",
     "this is nested too deeply"},
    {"parameters", LIMIT_parameters, "fn f(a0", 100000, ", a@",
     ") = 1\nmain { }\n", NULL},
    {"fields", LIMIT_fields, "const A = (a0: 1", 100000, ", a@: 1",
     ")\nmain { }\n", NULL},
    {"wrong lines", NUM_LIMITS, "", 100000, "const = @\n", "main { }\n",
     "expected a name after \"const\""},
    {"wrong names", NUM_LIMITS, "main {\n", 100000, "let a@ = b@\n", "}\n",
     "there is no \"b1\" here"},
    {"wrong consts", NUM_LIMITS, "", 100000, "const A@ = B@\n", "main { }\n",
     "there is no \"B1\" here"},
    {"a name declared often", NUM_LIMITS, "", 100000, "const A = @\n",
     "main { }\n", "\"A\" is declared twice"},

    /* many names */
    {"lets", NUM_LIMITS, "main {\nlet a0 = 1\n", 100000, "let a@ = a$ + 1\n",
     "}\n", NULL},
    {"the same let", NUM_LIMITS, "main {\nlet a = 1\n", 3000, "let a = a + 1\n",
     "}\n", NULL},
    {"consts", NUM_LIMITS, "const A0 = 1\n", 100000, "const A@ = A$\n",
     "main { }\n", NULL},
    {"functions", NUM_LIMITS, "", 100000, "fn f@() = @\n", "main { }\n", NULL},
    {"instances", NUM_LIMITS, "module M { }\n", 100000, "let m@ = M()\n",
     "main { }\n", NULL},
    {"datasets", NUM_LIMITS, "", 5000, "dataset d@ = range(10).batch(2)\n",
     "main { }\n", NULL},
    {"names of a let", NUM_LIMITS, "let (a0", 50000, ", a@",
     ") = [i for i in 0..50001]\nmain { }\n", NULL},

    /* doubling */
    {"a nest", LIMIT_nest,
     DOUBLED("const T0 = (1, 1)\n", "const T@ = (T$, T$)\n",
             "main { print(\"{T40}\") }\n")},
    {"a nest without a name", LIMIT_nest,
     DOUBLED("fn f0() = 1\n", "fn f@() = (f$(), f$())\n",
             "main { if all(f40() == f40()) { } }\n")},
    {"a deep nest", LIMIT_nest_depth, "const T0 = (1,)\n", 300,
     "const T@ = (T$,)\n", "main { print(\"{T300}\") }\n", NULL},
    {"a nest of all", LIMIT_nest, "const A = [[i for i in 0..300] ", 1,
     "for i in 0..300]\n", "main { }\n", NULL},
    {"a string", LIMIT_string,
     DOUBLED("const T0 = \"aaaaaaaa\"\n", "const T@ = \"{T$}{T$}\"\n",
             "main { print(T40) }\n")},
    {"a string with holes", LIMIT_string,
     DOUBLED("param p: f32 = 1.0\nmain { let t0 = \"{p}\"\n",
             "let t@ = \"{t$}{t$}\"\n", "print(t40) }\n")},
    {"modules", LIMIT_memory,
     DOUBLED("module M0 { }\n", "module M@ { let a = M$(); let b = M$() }\n",
             "let m = M40()\nmain { }\n")},
    {"functions of nothing", LIMIT_steps,
     DOUBLED("fn f0() { }\n", "fn f@() { f$(); f$() }\n", "main { f40() }\n")},
    {"functions", LIMIT_operations,
     DOUBLED("param p: f32 = 1.0\nfn f0(x) = x + x\n",
             "fn f@(x) = f$(x) + f$(x)\n", "main { print(\"{f40(p)}\") }\n")},
    {"branches", LIMIT_operations,
     DOUBLED("param p: f32 = 1.0\nfn f0() { }\n",
             "fn f@() { if p > 1.0 { f$() } else { f$() } }\n",
             "main { f40() }\n")},
    {"decisions", LIMIT_steps,
     DOUBLED("fn f0() = false\n", "fn f@() = f$() and f$()\n",
             "const A = f40()\nmain { }\n")},
    {"lengths", NUM_LIMITS,
     "fn s() { let z0 = zeros((1000,)) + f32(replica_id)\n", 40,
     "let z@ = concat([z$, z$], 0)\n", "return sum(z40) }\nmain { run s() }\n",
     "a value of shape [8589934592000] is too large"},

    /* loops */
    {"turns", LIMIT_unroll, "const A = [i for i in 0..", 1, "2000000000", "]\n",
     NULL},
    {"turns without an end", LIMIT_unroll,
     "fn f() { mut y = 0; while true { y += 1 }; return y }\n", 1,
     "const A = f()\n", "main { }\n", NULL},
    {"turns of turns", LIMIT_memory,
     "fn f(x) { mut y = x\n for i in 0..60000 { for k in 0..60000 { y += 1 } }"
     "\n return y }\n",
     1, "const A = f(1)\n", "main { }\n", NULL},
    {"turns of turns that are kept", LIMIT_memory,
     "const A = [[[i for i in 0..60] for k in 0..1000] ", 1,
     "for l in 0..60000]\n", "main { }\n", NULL},
    {"turns that walk a nest", LIMIT_steps,
     "const T = [1 for i in 0..65000]\nmain {\n", 10000, "if all(T == T) { }\n",
     "}\n", NULL},
    {"turns that copy a string", LIMIT_steps,
     "fn f() { mut l = \"a\"\n for i in 0..60000 { l = \"{l}b\" }\n return l }"
     "\n",
     1, "const A = f()\n", "main { }\n", NULL},
    {"turns that are unrolled", LIMIT_operations,
     "main { for i in 0..60000 { let z = zeros((i,), f32)\n", 1,
     "print(\"{sum(z)}\") } }\n", "", NULL},
    {"turns of a gradient", NUM_LIMITS,
     "var w: f32 = 1.0\nfn s() { mut x = w\n for i in 0..60000 {\n", 10,
     "x = sin(x) * w\n", "}\n return grad(x, w) }\nmain { run s() }\n", NULL},
    {"turns of a gradient of a while", NUM_LIMITS,
     "var w: f32 = 1.0\nfn s() { mut x = w\n"
     "while x < 9.0 max 60000 {\n",
     10, "x = sin(x) * w\n", "}\n return grad(x, w) }\nmain { run s() }\n",
     NULL},
    {"turns that have no room for an axis", LIMIT_placed,
     "var w: f32[1, 1, 1, 1, 1, 1, 1, 1] = 1.0\nfn s() { mut x = w\n"
     "while sum(x) < 9.0 max 60000 {\n",
     10, "x = sin(x) * w\n", "}\n return grad(sum(x), w) }\nmain { run s() }\n",
     NULL},
    {"kernels", LIMIT_kernels,
     "main { for i in 0..9000 { let z = zeros((i,), f32)\n", 1,
     "print(\"{sum(z)}\") } }\n", "", NULL},

    /* nesting */
    {"calls", LIMIT_calls, "fn f0(x) = x\n", 300, "fn f@(x) = f$(x)\n",
     "const A = f300(1)\nmain { }\n", NULL},
    {"calls in expressions", LIMIT_depth, "fn f0(x) = x\n", 200,
     "fn f@(x) = - - - - - - - - - - - - - - - - - - - - - f$(x)\n",
     "const A = f200(1)\nmain { }\n", NULL},
    {"names that need names", LIMIT_depth, "", 100000, "const A$ = A@\n",
     "const A100000 = 1\nmain { }\n", NULL},
    {"control flow", LIMIT_control, "param p: f32 = 1.0\nfn f0() { }\n", 200,
     "fn f@() { while p > 1.0 { while p > 1.0 { f$() } } }\n",
     "main { f200() }\n", NULL},

    /* many things */
    {"operations", LIMIT_operations, "fn s() { mut x = f32(replica_id)\n",
     100000, "x = x * 1.5 + 0.5\n", "return x }\nmain { run s() }\n", NULL},
    {"equal operations", NUM_LIMITS, "fn s() { let x = f32(replica_id)\n",
     45000, "let y@ = x * 2.0\n", "return x }\nmain { run s() }\n", NULL},
    {"operations in a row", NUM_LIMITS, "fn s() { mut x = f32(replica_id)\n",
     20000, "x = x * 1.5 + 0.5\n", "return x }\nmain { run s() }\n", NULL},
    {"random numbers", LIMIT_placed, "fn s() { mut y = f32(replica_id)\n",
     10000, "y += normal(())\n", "return y }\nmain { run s() }\n", NULL},
    {"lines", NUM_LIMITS, "main {\n", 10000, "print(\"x@\")\n", "}\n", NULL},
    {"variables", LIMIT_variables, "", 100000, "var v@: f32 = 0.0\n",
     "main { }\n", NULL},
    {"params", LIMIT_params, "", 100000, "param p@: f32 = 0.0\n", "main { }\n",
     NULL},
};

/* ---- a program ----------------------------------------------------------- */

static void
add_line(Str *s, const char *line, int i)
{
    for (const char *p = line; *p; p++)
        if (*p == '@' || *p == '$')
            str_addf(s, "%d", *p == '@' ? i : i - 1);
        else
            str_addc(s, *p);
}

static const char *
text_of(Arena *a, const Growth *g)
{
    Str s = str_new(a);
    str_add(&s, g->begin);
    for (int i = 1; i <= g->n; i++)
        add_line(&s, g->line, i);
    str_add(&s, g->end);
    return str_text(&s);
}

static double
seconds_of_children(void)
{
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Of the largest one so far, which the check after each makes the last. */
static long
megabytes_of_children(void)
{
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    return u.ru_maxrss / 1000;
}

/* Adds a failure to wrong, so that one run reports all of them. */
static Ran
measured(Arena *a, Str *wrong, const char *name, const char *command)
{
    enum { TRIES = 3 }; /* others may use the machine */
    Ran ran;
    double took = MAX_SECONDS + 1;
    for (int i = 0; i < TRIES && took > MAX_SECONDS; i++) {
        double begin = seconds_of_children();
        ran = run(a, "%s", arena_strdup(a, command));
        took = seconds_of_children() - begin;
    }
    if (!is_sanitized() && took > MAX_SECONDS)
        str_addf(wrong, "%s: %.1f seconds\n%s\n", name, took, ran.err);
    if (!is_sanitized() && megabytes_of_children() > MAX_MEGABYTES)
        fail_msg("%s: %ld MB\n%s", name, megabytes_of_children(), ran.err);
    return ran;
}

static void
check(Arena *a, Str *wrong, const char *dir, const Growth *g)
{
    const char *path = arena_printf(a, "%s/p.tfd", dir), *says = g->says;
    write_text(path, text_of(a, g));
    Ran ran = measured(a, wrong, g->name, arena_printf(a, "tfdc %s -O0", path));
    if (g->limit != NUM_LIMITS)
        says = limit_message(a, g->limit);
    int code = says ? 1 : 0;
    if (ran.code != code || (says && !strstr(ran.err, says)))
        str_addf(wrong, "%s: exit status %d, and not said: %s\nbut: %s\n",
                 g->name, ran.code, says ? says : "nothing", ran.err);
    const char *note =
        says && g->limit != NUM_LIMITS ? limit_note(a, g->limit) : NULL;
    if (note && !strstr(ran.err, note))
        str_addf(wrong, "%s: not said: %s\nbut: %s\n", g->name, note, ran.err);
}

/* ---- files -------------------------------------------------------------- */

/* A command line, where $ is the folder of make_inputs, and its message. */
typedef struct Reading {
    const char *line, *says;
} Reading;

static const Reading readings[] = {
    {"tfdc $/sparse.tfd", "the source is larger than 4000000 bytes; --limit "
                          "source=N allows more"},
    {"tfdc $/sparse.tfd --from ir", "the text is larger than"},
    {"tfdc /dev/zero", "it is no file that can be read again"},
    {"tfdc $/fifo", "it is no file that can be read again"},
    {"tfdc $", "it is a folder, and a file is wanted"},
    {"tfd-run $", "it is a folder, and a file is wanted"},
    {"tfdc $/uses-sparse.tfd", "the source is larger than 4000000 bytes"},
    {"tfdc $/uses-fifo.tfd", "it is no file that can be read again"},
    {"tfd-run $/sparse.tfd", "the plan is larger than 200000000 bytes; --limit "
                             "plan=N allows more"},
    {"tfd-run /dev/zero", "it is no file that can be read again"},
    {"tfd-run $/fifo", "it is no file that can be read again"},
    {"tfd-run $/lines.tfp", "a line, record or header of more than 50000000 "
                            "bytes; --limit record=N allows more"},
    {"tfd-run $/csv.tfp", "a line, record or header of more than 50000000"},
    {"tfd-run $/packed.tfp", "a line, record or header of more than 50000000"},
    {"tfd-run $/restores.tfp", "the checkpoint is larger than 16000000000"},
    {"tfd-run $/restores-zeros.tfp", "its header is no JSON object"},
    {"tfd-run $/restores-large.tfp", "the variable \"w\" is f32, but "
                                     "f32[2500000000] in "},
    {"tfd-run $/steps.tfp --checkpoint $/zeros --resume",
     "it is no checkpoint"},
    {"tfd-run $/steps.tfp --checkpoint $/longer --resume", "it is too long"},
};

/* Of sparse files: more than any limit, and less than that of a checkpoint. */
static const off_t huge = (off_t)1 << 42, large = 10000000000;

/* Some text, and zeros that take no room. */
static void
make_sparse(const char *path, const void *begin, size_t n, off_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, begin, n), n);
    assert_int_equal(ftruncate(fd, bytes), 0);
    close(fd);
}

/* A file for restore: a header of one tensor, and then zeros. */
static void
make_large_tensor(Arena *a, const char *path)
{
    static const char header[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[2500000000],"
        "\"data_offsets\":[0,10000000000]}}";
    enum { LENGTH_BYTES = 8 };
    uint64_t length = htole64(strlen(header));
    char *bytes = arena_alloc(a, LENGTH_BYTES + strlen(header));
    memcpy(bytes, &length, LENGTH_BYTES);
    memcpy(bytes + LENGTH_BYTES, header, strlen(header));
    make_sparse(path, bytes, LENGTH_BYTES + strlen(header),
                LENGTH_BYTES + (off_t)strlen(header) + large);
}

/* One line of 200 MB. */
static void
make_packed(const char *path)
{
    static const char zeros[1 << 20];
    gzFile file = gzopen(path, "wb1");
    assert_non_null(file);
    for (int i = 0; i < 200; i++)
        assert_int_equal(gzwrite(file, zeros, sizeof zeros), sizeof zeros);
    assert_int_equal(gzclose(file), Z_OK);
}

static void
make_plan(Arena *a, const char *dir, const char *name, const char *text)
{
    const char *path = arena_printf(a, "%s/%s.tfd", dir, name);
    write_text(path, text);
    run_ok(a, "tfdc %s", path);
}

/* A folder of a file that a program restores, and that program. */
static const char *
make_saved(Arena *a, const char *dir, const char *program)
{
    const char *folder = arena_printf(a, "%s/saved-by-%s", dir, program);
    assert_int_equal(mkdir(folder, 0700), 0);
    make_plan(a, dir, program,
              arena_printf(a, "var w: f32 = 1.0\nmain { restore(\"%s\") }\n",
                           folder));
    return arena_printf(a, "%s/variables.safetensors", folder);
}

/* Files for --resume: one of zeros, and a valid checkpoint followed by more
 * bytes. */
static void
make_checkpoints(Arena *a, const char *dir)
{
    make_plan(a, dir, "steps",
              "dataset d = range(10).batch(2)\n"
              "main { for x in distribute(d) { } }\n");
    run_ok(a, "tfd-run %s/steps.tfp --checkpoint %s/zeros --every 5", dir, dir);
    run_ok(a, "cp -r %s/zeros %s/longer", dir, dir);
    run_ok(a,
           "rm %s/zeros/step-0.ckpt %s/zeros/step-5.ckpt "
           "%s/longer/step-0.ckpt",
           dir, dir, dir);
    make_sparse(arena_printf(a, "%s/zeros/step-5.ckpt", dir), "", 0, large);
    assert_int_equal(
        truncate(arena_printf(a, "%s/longer/step-5.ckpt", dir), large), 0);
}

static const char *
make_inputs(Arena *a)
{
    const char *dir = work_dir(a);
    make_sparse(arena_printf(a, "%s/sparse.tfd", dir), "", 0, huge);
    make_sparse(make_saved(a, dir, "restores"), "", 0, huge);
    make_sparse(make_saved(a, dir, "restores-zeros"), "", 0, large);
    make_large_tensor(a, make_saved(a, dir, "restores-large"));
    make_checkpoints(a, dir);
    make_packed(arena_printf(a, "%s/zeros.gz", dir));
    assert_int_equal(mkfifo(arena_printf(a, "%s/fifo", dir), 0600), 0);
    write_text(arena_printf(a, "%s/uses-sparse.tfd", dir),
               "use \"sparse.tfd\"\nmain { }\n");
    write_text(arena_printf(a, "%s/uses-fifo.tfd", dir),
               "use \"fifo\"\nmain { }\n");
    make_plan(a, dir, "lines",
              "dataset d = lines(\"sparse.tfd\", u8[8]).batch(2)\n"
              "main { for x in distribute(d) { } }\n");
    make_plan(a, dir, "csv",
              "dataset d = csv(\"sparse.tfd\", (f32, f32)).batch(2)\n"
              "main { for x in distribute(d) { } }\n");
    make_plan(a, dir, "packed",
              "dataset d = lines(\"zeros.gz\", u8[8]).batch(2)\n"
              "main { for x in distribute(d) { } }\n");
    return dir;
}

static const char *
in_folder(Arena *a, const char *line, const char *dir)
{
    Str s = str_new(a);
    for (; *line; line++)
        if (*line == '$')
            str_add(&s, dir);
        else
            str_addc(&s, *line);
    return str_text(&s);
}

static void
reads_are_limited(void **state)
{
    Arena *a = *state;
    const char *dir = make_inputs(a);
    Str wrong = str_new(a);
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
        const Reading *r = &readings[i];
        Ran ran = measured(a, &wrong, r->line, in_folder(a, r->line, dir));
        if (ran.code != 1 || !strstr(ran.err, r->says))
            str_addf(&wrong, "%s: exit status %d, and not said: %s\nbut: %s\n",
                     r->line, ran.code, r->says, ran.err);
    }
    if (wrong.len)
        fail_msg("%s", str_text(&wrong));
}

/* ---- tests --------------------------------------------------------------- */

static void
growth_is_limited(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    Str wrong = str_new(a);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        Arena *scratch = arena_new(a, "a program");
        check(scratch, &wrong, dir, &programs[i]);
        arena_release(scratch);
    }
    if (wrong.len)
        fail_msg("%s", str_text(&wrong));
}

static void
files_are_limited(void **state)
{
    enum { NUM = 257 };
    Arena *a = *state;
    const char *dir = work_dir(a);
    Str program = str_new(a), wrong = str_new(a);
    for (int i = 0; i < NUM; i++) {
        write_text(arena_printf(a, "%s/f%d.tfd", dir, i), "");
        str_addf(&program, "use \"f%d.tfd\"\n", i);
    }
    str_add(&program, "main { }\n");
    const char *path = arena_printf(a, "%s/all.tfd", dir);
    write_text(path, str_text(&program));
    Ran ran = measured(a, &wrong, "files", arena_printf(a, "tfdc %s", path));
    assert_string_equal(str_text(&wrong), "");
    assert_non_null(strstr(ran.err, limit_message(a, LIMIT_files)));
}

/* Those of tfdc that a program can exceed. */
static bool
has_program(LimitId id)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (programs[i].limit == id)
            return true;
    return id == LIMIT_files;
}

static void
each_limit_has_its_program(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_LIMITS; i++)
        if (strcmp(limit_rows[i].of, "tfdc") == 0 && !has_program((LimitId)i))
            fail_msg("no program exceeds the limit %s", limit_rows[i].name);
}

static void
limits_are_raised_and_lowered(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    const char *path = arena_printf(a, "%s/p.tfd", dir);
    write_text(path, "const A = [i for i in 0..70000]\nmain { }\n");
    assert_int_equal(run(a, "tfdc %s", path).code, 1);
    run_ok(a, "tfdc %s --limit nest=70K --limit unroll=1M", path);
    write_text(path, "main { let a = (1, 2, 3) }\n");
    run_ok(a, "tfdc %s", path);
    Ran ran = run(a, "tfdc %s --limit nest=2", path);
    assert_non_null(strstr(ran.err, "a nest of more than 2 values"));
}

/* VALUES values of MAPS maps of x, each with a number of its own. */
enum { VALUES = 48, MAPS = 11 };

static void
add_value(Str *s, int number)
{
    str_addf(s, "let v%d = ", number);
    for (int k = 0; k < MAPS; k++)
        str_add(s, "(");
    str_add(s, "x");
    for (int k = 0; k < MAPS; k++)
        str_addf(s, " %c %.4f)", k % 2 ? '+' : '*',
                 1 + 0.0007 * (number * MAPS + k + 1));
    str_addf(s, "\nlet s%d = cumsum(sum(v%d * v%d, axis = 0))\n", number,
             number, number);
}

static void
add_sum(Str *s, char name)
{
    for (int i = 0; i < VALUES; i++)
        str_addf(s, "%s%c%d", i ? " + " : "", name, i);
}

/* One sum reads all of them: a kernel that computed each again would have more
 * operations than kernels may. */
static void
maps_of_many_values_are_computed_once(void **state)
{
    Arena *a = *state;
    Str s = str_new(a);
    str_add(&s, "dataset d = range(2048).map(fn(i) = (normal((64,), seed = 1, "
                "index = i), normal((64,), seed = 2, index = i)))"
                ".batch(1024, drop_remainder = true)\nfn step(x, y) {\n");
    for (int i = 0; i < VALUES; i++)
        add_value(&s, i);
    str_add(&s, "let t = ");
    add_sum(&s, 's');
    str_add(&s, "\nreturn sum(sum(y - t + ");
    add_sum(&s, 'v');
    str_add(&s, ", axis = 0))\n}\nmain { for (x, y) in distribute(d) { let l = "
                "reduce(sum, run step(x, y))\nprint(\"{l}\") } }\n");
    const char *path = arena_printf(a, "%s/maps.tfd", work_dir(a));
    write_text(path, str_text(&s));
    run_ok(a, "tfdc %s", path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(growth_is_limited, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(files_are_limited, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(reads_are_limited, new_arena,
                                        release_arena),
        cmocka_unit_test(each_limit_has_its_program),
        cmocka_unit_test_setup_teardown(limits_are_raised_and_lowered,
                                        new_arena, release_arena),
        cmocka_unit_test_setup_teardown(maps_of_many_values_are_computed_once,
                                        new_arena, release_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
