/*
 * mutate.c - truncations and seeded mutations of files, through a target
 *
 *   mutate [--seed S] [--count N] [--every K] [--save DIR] TARGET FILE...
 *   mutate [--seed S] --only I TARGET FILE
 *
 * The inputs made of a file have numbers: first its truncations (of a plan at
 * every byte of headers and directory and every 4 KB; of other files all), then
 * N mutations.  --every K takes only each Kth truncation.  A file is a test;
 * --only runs one input in this process, for a debugger, and --save keeps those
 * that fail.
 *
 * Inputs run in a child process.  When one ends it, by a crash, a sanitizer's
 * report, exit or a time limit, that input failed, and another child continues
 * after it.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "ir/base/vec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutator.h"

enum {
    MAX_SECONDS = 60,  /* of processor time, for one input; sanitizers take six
                        * times as long as a release build */
    MAX_WAIT = 300,    /* on the clock: something waits for ever */
    MAX_FAILURES = 10, /* then the file is left */
    LEAK_EVERY = 1000, /* inputs between looks for leaks, which are slow */
    SECTION = 4 << 10, /* of a plan's contents */
    EXIT_LEAK = 98,
    ONLY_NONE = -1
};

/* Only there under AddressSanitizer. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

typedef VEC(size_t) Lengths;

/* The report of a child, in memory shared with it. */
typedef struct Progress {
    long at; /* the input being run */
    long valid, refused;
} Progress;

typedef struct Job {
    Arena *arena;
    const FuzzTarget *target;
    const char *path;
    Bytes file;
    Lengths truncations;
    long num_inputs;
    uint64_t seed;
    const char *save;
    Progress *progress;
} Job;

/* ---- truncations -------------------------------------------------------- */

static uint32_t
little(const char *p, int n)
{
    uint32_t x = 0;
    for (int i = n - 1; i >= 0; i--)
        x = x << 8 | (unsigned char)p[i];
    return x;
}

/* Where the part of a zip that begins at `at` ends, and its kind: a header (of
 * an entry, or everything from the directory to the end) is cut at every
 * byte. */
static size_t
zip_part(Bytes zip, size_t at, bool *is_header)
{
    const char *p = zip.data + at;
    size_t left = zip.len - at;
    *is_header = left >= 30 && memcmp(p, "PK\3\4", 4) == 0;
    if (*is_header)
        return at + 30 + little(p + 26, 2) + little(p + 28, 2);
    *is_header = left >= 4 && memcmp(p, "PK\1\2", 4) == 0;
    if (*is_header)
        return zip.len;
    const char *next = memmem(p + 1, left - 1, "PK", 2);
    while (next && memcmp(next, "PK\3\4", 4) && memcmp(next, "PK\1\2", 4))
        next =
            memmem(next + 1, (size_t)(zip.data + zip.len - next) - 1, "PK", 2);
    return next ? (size_t)(next - zip.data) : zip.len;
}

static void
cut_zip(Job *job, size_t every)
{
    size_t count = 0;
    for (size_t at = 0, end; at < job->file.len; at = end) {
        bool is_header;
        end = zip_part(job->file, at, &is_header);
        if (end > job->file.len)
            end = job->file.len;
        for (; at < end; at += is_header ? 1 : SECTION)
            if (count++ % every == 0)
                VEC_PUSH(job->arena, job->truncations, at);
    }
}

static void
cut_anywhere(Job *job, size_t every)
{
    for (size_t at = 0; at < job->file.len; at += every)
        VEC_PUSH(job->arena, job->truncations, at);
}

/* ---- one input ---------------------------------------------------------- */

static Bytes
input(Arena *a, const Job *job, long number)
{
    if (number < job->truncations.len)
        return (Bytes){job->file.data, job->truncations.data[number]};
    return mutate(a, job->file, job->target->is_text, job->seed,
                  (uint64_t)(number - job->truncations.len));
}

/* In a copy of exactly its length, so that a sanitizer finds reads beyond
 * it. */
static bool
run_input(const Job *job, long number)
{
    Arena *a = arena_new(NULL, "input");
    Bytes in = input(a, job, number);
    char *exact = memcpy(malloc(in.len ? in.len : 1), in.data, in.len);
    bool valid = job->target->run(job->path, exact, in.len);
    free(exact);
    arena_release(a);
    return valid;
}

static void
save_input(const Job *job, long number)
{
    Arena *a = arena_new(NULL, "saving");
    Bytes in = input(a, job, number);
    const char *name = strrchr(job->path, '/');
    const char *path =
        arena_printf(a, "%s/%s-%ld-%s", job->save, job->target->name, number,
                     name ? name + 1 : job->path);
    Status st = file_write(path, in.data, in.len);
    if (st)
        exit(status_report(st, "mutate", stderr));
    arena_release(a);
}

/* ---- a child ------------------------------------------------------------ */

static void
limit_time(void)
{
    struct itimerval limit = {.it_value = {.tv_sec = MAX_SECONDS}};
    setitimer(ITIMER_PROF, &limit, NULL);
    alarm(MAX_WAIT);
}

static void
look_for_leaks(void)
{
    if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
        _exit(EXIT_LEAK);
}

static _Noreturn void
run_child(const Job *job, long from)
{
    Progress *p = job->progress;
    for (p->at = from; p->at < job->num_inputs; p->at++) {
        limit_time();
        if (run_input(job, p->at))
            p->valid++;
        else
            p->refused++;
        if (p->at % LEAK_EVERY == LEAK_EVERY - 1)
            look_for_leaks();
    }
    look_for_leaks();
    _exit(0);
}

/* ---- a file ------------------------------------------------------------- */

static void
describe(const Job *job, int status)
{
    long at = job->progress->at;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_LEAK) {
        printf("# a leak in one of the inputs before number %ld\n", at + 1);
        return;
    }
    if (WIFSIGNALED(status))
        printf("# input %ld ended by signal %d (%s)\n", at, WTERMSIG(status),
               strsignal(WTERMSIG(status)));
    else
        printf("# input %ld ended with status %d\n", at, WEXITSTATUS(status));
    printf("# mutate --seed %llu --only %ld %s %s\n",
           (unsigned long long)job->seed, at, job->target->name, job->path);
    if (job->save)
        save_input(job, at);
}

/* Runs inputs from `from` on in a child; whether none failed. */
static bool
run_some(const Job *job, long from)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        run_child(job, from);
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("mutate");
        exit(3);
    }
    if (status != 0)
        describe(job, status);
    return status == 0;
}

static bool
run_file(const Job *job)
{
    int failures = 0;
    long from = 0;
    *job->progress = (Progress){0};
    while (failures < MAX_FAILURES && from < job->num_inputs &&
           !run_some(job, from)) {
        failures++;
        from = job->progress->at + 1;
    }
    return failures == 0;
}

static void
prepare(Job *job, const char *path, size_t every, long count)
{
    job->path = path;
    job->truncations.len = 0;
    Status st = file_read(job->arena, path, &job->file.data, &job->file.len);
    if (st)
        exit(status_report(st, "mutate", stderr));
    if (strcmp(job->target->name, "plan") == 0)
        cut_zip(job, every);
    else
        cut_anywhere(job, every);
    job->num_inputs = job->truncations.len + count;
}

/* ---- all of it ---------------------------------------------------------- */

typedef struct Settings {
    long seed, count, every, only;
    const char *save;
} Settings;

static _Noreturn void
usage(void)
{
    fprintf(stderr, "usage: mutate [--seed S] [--count N] [--every K] "
                    "[--only I] [--save DIR] TARGET FILE...\n");
    exit(2);
}

static long
read_number(const char *text, long least)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < least)
        usage();
    return n;
}

static Settings
read_settings(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", 1, NULL, 's'},  {"count", 1, NULL, 'c'},
        {"every", 1, NULL, 'e'}, {"only", 1, NULL, 'o'},
        {"save", 1, NULL, 'd'},  {NULL, 0, NULL, 0}};
    Settings s = {.seed = 1, .count = 1000, .every = 1, .only = ONLY_NONE};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
        switch (c) {
        case 's':
            s.seed = read_number(optarg, 0);
            break;
        case 'c':
            s.count = read_number(optarg, 0);
            break;
        case 'e':
            s.every = read_number(optarg, 1);
            break;
        case 'o':
            s.only = read_number(optarg, 0);
            break;
        case 'd':
            s.save = optarg;
            break;
        default:
            usage();
        }
    }
    if (argc - optind < 2)
        usage();
    return s;
}

static void
run_only(const Job *job, long number)
{
    if (job->save)
        save_input(job, number);
    puts(run_input(job, number) ? "valid" : "refused");
}

/* Runs a file's inputs and says how that went, as test `number`. */
static bool
test_file(const Job *job, int number, long count)
{
    bool good = run_file(job);
    printf("%s %d - %s %s: %d truncations, %ld mutations; %ld valid, %ld "
           "refused\n",
           good ? "ok" : "not ok", number, job->target->name, job->path,
           job->truncations.len, count, job->progress->valid,
           job->progress->refused);
    return good;
}

int
main(int argc, char **argv)
{
    Settings s = read_settings(argc, argv);
    Job job = {.arena = arena_new(NULL, "mutate"),
               .target = fuzz_target(argv[optind++]),
               .seed = (uint64_t)s.seed,
               .save = s.save};
    bool good = true;
    job.progress = mmap(NULL, sizeof *job.progress, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.only == ONLY_NONE)
        printf("1..%d\n", argc - optind);
    for (int i = optind; i < argc; i++) {
        prepare(&job, argv[i], (size_t)s.every, s.count);
        if (s.only != ONLY_NONE)
            run_only(&job, s.only);
        else
            good &= test_file(&job, i - optind + 1, s.count);
    }
    arena_release(job.arena);
    return !good;
}
