/*
 * random.c - random programs, on one and on several devices
 *
 *   random [--seed N] [--count N] [--keep DIR]   programs N, N + 1, ...
 *   random --tap --seed N --count N              the same as a suite
 *   random --print SEED                          one, as text
 *   random FILE.tfd ...                          existing programs
 *
 * A failing program is reduced as long as it fails in the same way, printed,
 * and kept in DIR.
 */
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "tests/random/check.h"
#include "tests/random/gen.h"
#include "tests/random/shrink.h"

enum { GROUP = 20 };

typedef struct Options {
    uint64_t seed;
    long count;
    const char *keep; /* NULL: failures are only printed */
    bool shrinks, tap;
} Options;

/* ---- compiled code ------------------------------------------------------ */

/* Small programs have many kernels in common: compiled code is kept for the
 * length of a run, in memory if there is a file system for it. */
static char cache[] = "/dev/shm/tfd-random-XXXXXX";

static int
remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void
remove_cache(void)
{
    nftw(cache, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void
make_cache(void)
{
    const char *folder = mkdtemp(cache);
    setenv("TFD_CACHE", folder ? folder : "", 1);
    setenv("TFD_CACHE_SIZE", "64", 1); /* MB */
    if (folder)
        atexit(remove_cache);
}

static volatile sig_atomic_t stopped;

static void
stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

/* ---- programs ----------------------------------------------------------- */

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
keep(Arena *a, const Options *o, uint64_t seed, const char *text)
{
    const char *path =
        arena_printf(a, "%s/%llu.tfd", o->keep, (unsigned long long)seed);
    Status st = file_write(path, text, strlen(text));
    if (st)
        status_report(st, "random", stderr);
    else
        printf("repeat with: random %s\n", path);
    status_free(st);
}

static bool
check_seed(const Options *o, uint64_t seed)
{
    Arena *a = arena_new(NULL, "program");
    const char *text = gen_program(a, seed);
    const char *wrong = check_apart(a, text, MINUTE);
    if (wrong) {
        printf("seed %llu: %s\n", (unsigned long long)seed, wrong);
        if (o->shrinks)
            text = shrink(a, text, &wrong);
        printf("%s# %s\nrepeat with: random --seed %llu --count 1\n", text,
               wrong, (unsigned long long)seed);
        if (o->keep)
            keep(a, o, seed, text);
        fflush(stdout);
    }
    arena_release(a);
    return !wrong;
}

/* As a suite: a line for each GROUP programs. */
static int
check_groups(const Options *o)
{
    long groups = (o->count + GROUP - 1) / GROUP;
    printf("1..%ld\n", groups);
    for (long k = 0; k < groups && !stopped; k++) {
        uint64_t first = o->seed + (uint64_t)(k * GROUP);
        long n = o->count - k * GROUP < GROUP ? o->count - k * GROUP : GROUP;
        long failed = 0;
        for (long i = 0; i < n; i++)
            failed += !check_seed(o, first + (uint64_t)i);
        printf("%s %ld - programs %llu to %llu\n", failed ? "not ok" : "ok",
               k + 1, (unsigned long long)first,
               (unsigned long long)first + (unsigned long long)n - 1);
        fflush(stdout);
    }
    return 0;
}

static int
check_seeds(const Options *o)
{
    long failed = 0;
    double begin = now();
    for (long i = 0; i < o->count && !stopped; i++) {
        failed += !check_seed(o, o->seed + (uint64_t)i);
        if ((i + 1) % 100 == 0 || i + 1 == o->count) {
            printf("%ld programs, %ld failed, %.0f a minute\n", i + 1, failed,
                   60.0 * (double)(i + 1) / (now() - begin));
            fflush(stdout);
        }
    }
    return failed != 0;
}

static int
check_file(const Options *o, const char *path)
{
    Arena *a = arena_new(NULL, "file");
    char *text;
    size_t len;
    Status st = file_read(a, path, &text, &len);
    if (st)
        return status_report(st, "random", stderr);
    const char *wrong = check_apart(a, text, MINUTE);
    if (wrong && o->shrinks)
        printf("%s", shrink(a, text, &wrong));
    printf("%s: %s\n", path, wrong ? wrong : "right");
    bool failed = wrong != NULL;
    arena_release(a);
    return failed;
}

static void
print_program(uint64_t seed)
{
    Arena *a = arena_new(NULL, "program");
    fputs(gen_program(a, seed), stdout);
    arena_release(a);
}

int
main(int argc, char **argv)
{
    Options o = {.seed = 1, .count = 100, .shrinks = true};
    int files = 0, failed = 0;
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    make_cache();
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--seed")) {
            o.seed = strtoull(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--count")) {
            o.count = strtol(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--keep")) {
            o.keep = argv[++i];
        } else if (!strcmp(argv[i], "--tap")) {
            o.tap = true;
        } else if (!strcmp(argv[i], "--no-shrink")) {
            o.shrinks = false;
        } else if (!strcmp(argv[i], "--print")) {
            print_program(strtoull(value, NULL, 10));
            return 0;
        } else {
            files++;
            failed |= check_file(&o, argv[i]);
        }
    }
    if (files)
        return failed;
    return o.tap ? check_groups(&o) : check_seeds(&o);
}
