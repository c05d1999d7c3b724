/*
 * alloc_faults.c - every allocation of tfdc and tfd-run fails in turn
 *
 * Whichever code allocates, the outcome is one of two: one message about memory
 * and exit status 3, or the same result as without a failure, to the byte.
 * Neither leaves a temporary file.
 *
 * A program is run once with alloc_inject.c preloaded, which forks at each
 * allocation of the sample (see there), or, if it has threads, once for each
 * allocation.  The suite takes a sample by --seed; --all takes every allocation
 * of the small program and 2,000 of charlm, and prints the counts.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include "ir/base/io/file.h"
#include "ir/base/number/philox.h"
#include "ir/base/str.h"
#include "tests/faults/alloc_inject.h"
#include "tests/unit/arena.h"
#include "tests/unit/work_dir.h"

enum { MAX_ARGS = 24, SECONDS = 300 };

static struct {
    bool all;
    uint32_t seed;
} options = {.seed = 1};

/* ---- a program, run in a folder ----------------------------------------- */

typedef struct Case {
    const char *dir;     /* of the program's files; nothing else is there */
    const char *command; /* words between blanks */
    bool one_core;       /* no threads to compile with */
    size_t addresses;    /* in bytes; 0: without a limit */
    int err, out;        /* files for its output */
} Case;

/* The answer of a run without a failure. */
typedef struct Expected {
    const char *out, *err; /* its output */
    const char *file;      /* the file that it writes, by name in dir, or
                            * NULL */
    const char *bytes;
    size_t len;
} Expected;

static int
open_scratch(void)
{
    char name[] = "/tmp/tfd-test-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
    return fd;
}

static Case
new_case(const char *dir, const char *command)
{
    return (Case){.dir = dir,
                  .command = command,
                  .one_core = true,
                  .err = open_scratch(),
                  .out = open_scratch()};
}

/* The bytes written to fd since the last call. */
static const char *
take_text(Arena *a, int fd)
{
    off_t len = lseek(fd, 0, SEEK_END);
    char *text = arena_alloc(a, (size_t)len + 1);
    assert_int_equal(pread(fd, text, (size_t)len, 0), len);
    assert_int_equal(ftruncate(fd, 0), 0);
    return text;
}

static void
keep_one_core(void)
{
    cpu_set_t set;
    int cpu = sched_getcpu();
    CPU_ZERO(&set);
    CPU_SET(cpu < 0 ? 0 : cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void
become(const Case *c, const char *inject)
{
    const char *argv[MAX_ARGS] = {NULL};
    int n = 0;
    char *rest = strdup(c->command);
    for (char *word; n < MAX_ARGS - 1 && (word = strsep(&rest, " "));)
        argv[n++] = word;
    const char *path = getenv(strcmp(argv[0], "tfdc") ? "TFD_RUN" : "TFDC");
    struct rlimit limit = {c->addresses, c->addresses};
    if (c->one_core)
        keep_one_core();
    setenv("TFD_CACHE", "cache", 1);
    if (inject) {
        setenv("LD_PRELOAD", getenv("TFD_INJECTOR"), 1);
        setenv("TFD_INJECT", inject, 1);
    }
    if (chdir(c->dir) || dup2(c->err, 2) < 0 || dup2(c->out, 1) < 0 ||
        (c->addresses && setrlimit(RLIMIT_AS, &limit)))
        _exit(98);
    alarm(SECONDS);
    execv(path, (char **)(uintptr_t)argv);
    _exit(98);
}

/* The process that runs the case; inject NULL: nothing fails. */
static pid_t
start(const Case *c, const char *inject)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        become(c, inject);
    return child;
}

static int
wait_for(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int
run(const Case *c, const char *inject)
{
    return wait_for(start(c, inject));
}

static void
run_well(const Case *c)
{
    int status = run(c, NULL);
    if (status)
        fail_msg("%s: status %#x: %s", c->command, (unsigned)status,
                 take_text(arena, c->err));
}

/* ---- legal outcomes ----------------------------------------------------- */

typedef struct Outcomes {
    long num, messages, same;
} Outcomes;

static Expected
expect(const Case *c, const char *file)
{
    Expected e = {.file = file};
    run_well(c);
    e.out = take_text(arena, c->out);
    e.err = take_text(arena, c->err);
    if (!file)
        return e;
    char *bytes;
    Status st = file_read(arena, arena_printf(arena, "%s/%s", c->dir, file),
                          &bytes, &e.len);
    assert_null(st);
    e.bytes = bytes;
    return e;
}

static _Noreturn void
complain(const Case *c, long n, const char *what, const char *text)
{
    fprintf(stderr, "# LD_PRELOAD=%s TFD_INJECT=once:%ld %s\n# %s\n# %s\n",
            getenv("TFD_INJECTOR"), n, c->command, what, text);
    fail_msg("allocation %ld of %s: %s: %s", n, c->command, what, text);
    abort();
}

static int leavings;

static int
find_leavings(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind;
    const char *name = path + at->base;
    leavings += strstr(name, ".tmp") || !strncmp(name, "new.", 4);
    return 0;
}

static void
expect_no_leavings(const Case *c, long n)
{
    leavings = 0;
    assert_int_equal(nftw(c->dir, find_leavings, 8, FTW_PHYS), 0);
    if (leavings)
        complain(c, n, "it left a temporary file", c->dir);
}

/* A file that is there is whole. */
static void
expect_file(Arena *a, const Case *c, const Expected *e, long n, bool needed)
{
    char *bytes;
    size_t len;
    const char *path = arena_printf(a, "%s/%s", c->dir, e->file);
    if (!needed && access(path, F_OK))
        return;
    Status st = file_read(a, path, &bytes, &len);
    if (st || len != e->len || memcmp(bytes, e->bytes, len))
        complain(c, n, "the file is not what it should be", path);
}

/* One message about memory, after the program's normal output. */
static bool
blames_memory(const char *err, const Case *c, const Expected *e)
{
    size_t name = strcspn(c->command, " ");
    const char *said = e->err;
    while (*said && *err == *said)
        err++, said++;
    const char *end = strchr(err, '\n');
    return end && !end[1] && !strncmp(err, c->command, name) &&
           !strncmp(err + name, ": error: out of memory: ", 24);
}

static void
judge(const Case *c, const Expected *e, long n, int status, Outcomes *all)
{
    Arena *a = arena_new(NULL, "judging");
    const char *err = take_text(a, c->err), *out = take_text(a, c->out);
    bool same = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    all->num++;
    all->same += same;
    all->messages += !same;
    if (!same && (!WIFEXITED(status) || WEXITSTATUS(status) != 3))
        complain(c, n, arena_printf(a, "it ended with %#x", (unsigned)status),
                 err);
    if (!same && !blames_memory(err, c, e))
        complain(c, n, "its message is not one that blames memory", err);
    if (same && (strcmp(err, e->err) || strcmp(out, e->out)))
        complain(c, n, "it does not say what it should", err);
    if (e->file)
        expect_file(a, c, e, n, same);
    expect_no_leavings(c, n);
    arena_release(a);
}

/* ---- which allocations -------------------------------------------------- */

typedef VEC(long) Numbers;

/* About `wanted` of 1 to last, ascending; if that is 0 all, and some beyond, in
 * case there are more next time. */
static Numbers
sample(Arena *a, long last, long wanted)
{
    Numbers out = {0};
    last += wanted ? 0 : last / 10;
    for (long n = 1; n <= last; n++) {
        uint32_t words[4];
        philox4x32((uint32_t[4]){(uint32_t)n}, (uint32_t[2]){options.seed},
                   words);
        if (!wanted || words[0] % (uint32_t)last < (uint32_t)wanted)
            VEC_PUSH(a, out, n);
    }
    return out;
}

static void
tell(const Case *c, const char *name, long last, const Outcomes *all)
{
    printf("# %s (%s): %ld allocations, %ld failed: %ld messages and exit 3, "
           "%ld with the same result\n",
           name, c->command, last, all->num, all->messages, all->same);
    fflush(stdout);
}

/* ---- forking at each ---------------------------------------------------- */

typedef struct Pipes {
    int in[2], out[2]; /* of the program */
    pid_t child;
} Pipes;

static Pipes
start_forking(const Case *c)
{
    Pipes p;
    assert_int_equal(pipe2(p.in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(p.out, O_CLOEXEC), 0);
    assert_int_equal(fcntl(p.in[0], F_SETFD, 0), 0);
    assert_int_equal(fcntl(p.out[1], F_SETFD, 0), 0);
    p.child = start(c, arena_printf(arena, "fork:%d:%d", p.in[0], p.out[1]));
    close(p.in[0]);
    close(p.out[1]);
    return p;
}

static void
send_number(const Pipes *p, int64_t n)
{
    assert_int_equal(write(p->in[1], &n, sizeof n), sizeof n);
}

static AllocReport
take_report(const Pipes *p)
{
    AllocReport r = {0, 0};
    if (read(p->out[0], &r, sizeof r) != sizeof r)
        fail_msg("the program ended without a report");
    return r;
}

static int
end_forking(const Pipes *p)
{
    close(p->in[1]);
    close(p->out[0]);
    return wait_for(p->child);
}

static long
count_allocations(const Case *c)
{
    Pipes p = start_forking(c);
    send_number(&p, 0);
    AllocReport r = take_report(&p);
    assert_int_equal(r.status, ALLOC_ENDED);
    assert_int_equal(end_forking(&p), 0);
    take_text(arena, c->out);
    return (long)r.n;
}

/* The program continues past all failures to its end.  The number of
 * allocations may vary: LLVM's hash tables depend on addresses. */
static Outcomes
fork_at(const Case *c, const Expected *e, const Numbers *numbers)
{
    Outcomes all = {0}, end = {0};
    AllocReport r = {0, 0};
    Pipes p = start_forking(c);
    for (int i = 0; r.status != ALLOC_ENDED; i++) {
        send_number(&p, i < numbers->len ? numbers->data[i] : 0);
        r = take_report(&p);
        if (r.status != ALLOC_ENDED)
            judge(c, e, (long)r.n, (int)r.status, &all);
    }
    judge(c, e, 0, end_forking(&p), &end);
    assert_int_equal(end.same, 1);
    assert_true(all.num >= numbers->len * 8L / 10);
    return all;
}

static void
remove_file(const Case *c, const char *name)
{
    remove_dir(arena_printf(arena, "%s/%s", c->dir, name));
}

/* Each outcome of tfdc, with a cache that is empty at first or complete. */
static void
compile_case(const char *name, const char *dir, const char *program, bool warm,
             long wanted)
{
    Case c = new_case(dir, arena_printf(arena, "tfdc %s.tfd", program));
    Expected e = expect(&c, arena_printf(arena, "%s.tfp", program));
    if (!warm)
        remove_file(&c, "cache");
    remove_file(&c, e.file);
    long last = count_allocations(&c);
    if (!warm)
        remove_file(&c, "cache");
    remove_file(&c, e.file);
    Numbers numbers = sample(arena, last, wanted);
    Outcomes all = fork_at(&c, &e, &numbers);
    tell(&c, name, last, &all);
}

/* ---- running once for each ---------------------------------------------- */

static Outcomes
rerun_at(const Case *c, const Expected *e, const Numbers *numbers,
         const char *remove)
{
    Outcomes all = {0};
    for (int i = 0; i < numbers->len; i++) {
        if (remove)
            remove_file(c, remove);
        long n = numbers->data[i];
        int status = run(c, arena_printf(arena, "once:%ld", n));
        judge(c, e, n, status, &all);
    }
    return all;
}

/* ---- tests -------------------------------------------------------------- */

static void
copy_source(const char *dir, const char *name)
{
    char *bytes;
    size_t len;
    const char *from =
        arena_printf(arena, "%s/docs/examples/%s", getenv("TFD_ROOT"), name);
    Status st = file_read(arena, from, &bytes, &len);
    assert_null(st);
    st = file_write(arena_printf(arena, "%s/%s", dir, name), bytes, len);
    assert_null(st);
}

static const char *
folder_with(const char *program, const char *data)
{
    const char *dir = work_dir(arena);
    copy_source(dir, program);
    if (data)
        copy_source(dir, data);
    return dir;
}

/* How many of a small program's and of a large one's allocations. */
static long
of_small(long wanted)
{
    return options.all ? 0 : wanted;
}

static long
of_large(long wanted)
{
    return options.all ? 2000 : wanted;
}

static void
tfdc_without_memory(void **state)
{
    (void)state;
    const char *dir = folder_with("linear.tfd", NULL);
    compile_case("empty cache", dir, "linear", false, of_small(1500));
    compile_case("full cache", dir, "linear", true, of_small(300));
}

static void
tfdc_without_memory_for_a_large_program(void **state)
{
    (void)state;
    const char *dir = folder_with("charlm.tfd", "text.txt");
    if (options.all) /* takes half a minute */
        compile_case("empty cache", dir, "charlm", false, 2000);
    compile_case("full cache", dir, "charlm", true, of_large(300));
}

/* While one thread ends the program, another writes to the cache. */
static void
tfdc_with_threads_without_memory(void **state)
{
    (void)state;
    Case c = new_case(folder_with("linear.tfd", NULL), "tfdc linear.tfd");
    Expected e = expect(&c, "linear.tfp");
    remove_file(&c, "cache");
    long last = count_allocations(&c);
    c.one_core = false;
    Numbers numbers = sample(arena, last, options.all ? 500 : 30);
    Outcomes all = rerun_at(&c, &e, &numbers, "cache");
    tell(&c, "threads", last, &all);
}

/* Runs with these options, and checkpoints if there is a folder for them. */
static void
run_case(const char *name, const char *dir, const char *command,
         const char *checkpoints, long wanted)
{
    Case c = new_case(dir, command);
    Expected e = expect(&c, NULL);
    if (checkpoints)
        remove_file(&c, checkpoints);
    long last = count_allocations(&c);
    Numbers numbers = sample(arena, last, wanted);
    Outcomes all = rerun_at(&c, &e, &numbers, checkpoints);
    tell(&c, name, last, &all);
}

static void
tfd_run_without_memory(void **state)
{
    (void)state;
    const char *dir = folder_with("linear.tfd", NULL);
    Case c = new_case(dir, "tfdc linear.tfd --devices cpu:0-1");
    run_well(&c);
    run_case("run", dir, "tfd-run linear.tfp --checksum", NULL, of_small(60));
    c.command = "tfd-run linear.tfp --checksum --checkpoint c --every 100";
    run_case("checkpoints", dir, c.command, "c", of_small(60));
    remove_file(&c, "c");
    run_well(&c);
    run_case("resumed", dir, arena_printf(arena, "%s --resume", c.command),
             NULL, of_small(60));
}

static void
tfd_run_without_memory_for_a_large_program(void **state)
{
    (void)state;
    const char *dir = folder_with("charlm.tfd", "text.txt");
    Case c = new_case(dir, "tfdc charlm.tfd --devices cpu:0-1 -D LAYERS=1 -D "
                           "BATCH=2 -D T=8 -D C=16");
    run_well(&c);
    run_case("run", dir,
             "tfd-run charlm.tfp --checksum --set steps=3 --log-dir log", NULL,
             of_large(60));
}

enum { LOADER_FAILS = 127 };

static int
run_within(Case *c, size_t megabytes)
{
    c->addresses = megabytes << 20;
    remove_file(c, "cache");
    return run(c, NULL);
}

/* The least that the system's loader needs for the libraries, in megabytes. */
static size_t
loaded_within(Case *c)
{
    size_t too_few = 1, enough = 4096;
    while (enough - too_few > 1) {
        size_t mb = (too_few + enough) / 2;
        int status = run_within(c, mb);
        if (WIFEXITED(status) && WEXITSTATUS(status) == LOADER_FAILS)
            too_few = mb;
        else
            enough = mb;
    }
    take_text(arena, c->err);
    take_text(arena, c->out);
    return enough;
}

/* No request fails by order, but addresses come to an end: before main, in
 * LLVM, in one thread or another, a megabyte later each time. */
static void
addresses_come_to_an_end(void **state)
{
    (void)state;
    const char *program = options.all ? "charlm" : "linear";
    Case c = new_case(folder_with(arena_printf(arena, "%s.tfd", program),
                                  options.all ? "text.txt" : NULL),
                      arena_printf(arena, "tfdc %s.tfd", program));
    Expected e = expect(&c, arena_printf(arena, "%s.tfp", program));
    Outcomes all = {0};
    for (size_t mb = loaded_within(&c); all.same < 2; mb++) {
        c.one_core = mb % 2;
        judge(&c, &e, 0, run_within(&c, mb), &all);
    }
    assert_true(all.messages > 0);
    tell(&c, "limited addresses", 0, &all);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, new_arena, release_arena)
        TEST(tfdc_without_memory),
        TEST(tfdc_without_memory_for_a_large_program),
        TEST(tfdc_with_threads_without_memory),
        TEST(tfd_run_without_memory),
        TEST(tfd_run_without_memory_for_a_large_program),
        TEST(addresses_come_to_an_end),
    };
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--sanitized")) {
            puts("1..0 # SKIP sanitizers have a malloc of their own");
            return 0;
        }
        options.all |= !strcmp(argv[i], "--all");
        if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            options.seed = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
