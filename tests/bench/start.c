/*
 * start.c - time from source to the end of the first step
 *
 *   start TFDC TFD_RUN LINEAR.tfd [--runs N] [--check]
 *
 * Compiles and runs linear.tfd, cut down to one step, as a user would: two
 * processes, the first with an empty cache.  Prints medians.  The times include
 * the ends of the processes.  With --check it fails when they are above the
 * limits.
 */
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "ir/base/str.h"
#include "tests/bench/times.h"

extern char **environ;

enum { MAX_RUNS = 1000, NUM_EDITS = 4 };

/* Milliseconds. */
static const double max_total = 100, max_run = 5;

typedef struct Bench {
    Arena *arena;
    const char *tfdc, *tfd_run, *dir;
} Bench;

/* ---- the program -------------------------------------------------------- */

/* text with the one occurrence of from replaced. */
static const char *
replaced(Arena *a, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at || strstr(at + 1, from)) {
        fprintf(stderr, "start: \"%s\" is not there once\n", from);
        exit(1);
    }
    return arena_printf(a, "%.*s%s%s", (int)(at - text), text, to,
                        at + strlen(from));
}

/* One epoch of one batch, and nothing learnt by then. */
static void
write_program(const Bench *b, const char *linear)
{
    static const char *const edits[NUM_EDITS][2] = {
        {"0..200", "0..1"},
        {"range(32)", "range(8)"},
        {"  assert(abs(w", "# "},
        {"  assert(seen", "# "},
    };
    char *read;
    size_t len;
    Status st = file_read(b->arena, linear, &read, &len);
    const char *text = read;
    for (int i = 0; !st && i < NUM_EDITS; i++)
        text = replaced(b->arena, text, edits[i][0], edits[i][1]);
    if (!st)
        st = file_write(arena_printf(b->arena, "%s/step.tfd", b->dir), text,
                        strlen(text));
    if (st)
        exit(status_report(st, "start", stderr));
}

/* ---- timing ------------------------------------------------------------- */

/* The milliseconds that a process takes, with its output discarded. */
static double
time_process(const char *const *argv)
{
    pid_t child;
    int status;
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", 1, 0);
    double begin = nanoseconds();
    int error = posix_spawn(&child, argv[0], &quiet, NULL,
                            (char *const *)(void *)(uintptr_t)argv, environ);
    if (error || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "start: %s failed\n", argv[0]);
        exit(1);
    }
    double end = nanoseconds();
    posix_spawn_file_actions_destroy(&quiet);
    return (end - begin) / 1e6;
}

static int
remove_entry(const char *path, const struct stat *info, int type,
             struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static void
remove_tree(const char *path)
{
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void
time_once(const Bench *b, double *compile, double *run)
{
    Arena *a = arena_new(NULL, "a run");
    const char *plan = arena_printf(a, "%s/step.tfp", b->dir);
    const char *cache = arena_printf(a, "%s/cache", b->dir);
    const char *source = arena_printf(a, "%s/step.tfd", b->dir);
    remove_tree(cache);
    setenv("TFD_CACHE", cache, 1);
    *compile =
        time_process((const char *[]){b->tfdc, source, "-o", plan, NULL});
    *run = time_process((const char *[]){b->tfd_run, plan, NULL});
    arena_release(a);
}

/* ---- all of it ---------------------------------------------------------- */

static bool
measure(const Bench *b, int runs)
{
    double compile[MAX_RUNS], run[MAX_RUNS], total[MAX_RUNS];
    for (int i = 0; i < runs; i++) {
        time_once(b, &compile[i], &run[i]);
        total[i] = compile[i] + run[i];
    }
    double all = median(total, runs), second = median(run, runs);
    printf("linear, medians of %d runs:\n", runs);
    printf("%8.1f ms  source to finished first step, empty cache (limit "
           "%.0f)\n",
           all, max_total);
    printf("%8.1f ms  tfdc\n", median(compile, runs));
    printf("%8.1f ms  tfd-run to the end of its first step (limit %.0f)\n",
           second, max_run);
    return all <= max_total && second <= max_run;
}

int
main(int argc, char **argv)
{
    int runs = 21;
    bool check = false;
    char dir[] = "/tmp/tfd-start-XXXXXX";
    for (int i = 4; i < argc; i++) {
        check |= strcmp(argv[i], "--check") == 0;
        if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            runs = atoi(argv[++i]);
    }
    if (argc < 4 || runs < 1 || runs > MAX_RUNS || !mkdtemp(dir)) {
        fprintf(stderr, "usage: start TFDC TFD_RUN LINEAR.tfd [--runs N] "
                        "[--check]\n");
        return 2;
    }
    Bench b = {arena_new(NULL, "start"), argv[1], argv[2], dir};
    write_program(&b, argv[3]);
    bool good = measure(&b, runs);
    remove_tree(dir);
    arena_release(b.arena);
    return check && !good;
}
