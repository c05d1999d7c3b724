/*
 * kill.c - training that is killed many times ends like an undisturbed run
 *
 *   kill [--count N] [--seed S] [NAME...]
 *
 * Each subject is trained once undisturbed.  Then runs are started, on two
 * devices or on one that the replicas share, and killed (-9) after a random
 * time, until there were N kills; each training that
 * reaches its end must have the same results, bit for bit, and so must the last
 * one, which is not killed.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <time.h>
#include "ir/base/clock.h"
#include "ir/base/number/philox.h"
#include "tests/e2e/run.h"
#include "tests/resume/lives.h"

#define ON_TWO "--devices cpu:0-1"

static const Subject subjects[] = {
    {.name = "all",
     .program = "tests/resume/all.tfd",
     .compiler = ON_TWO,
     .runner = "",
     .every = 1,
     .files = {"part-0/variables.safetensors", "part-8/variables.safetensors",
               "kept/variables.safetensors"}},
    {.name = "charlm",
     .program = "docs/examples/charlm.tfd",
     .compiler = ON_TWO,
     .runner = "--set steps=200",
     .every = 3,
     .files = {"charlm-checkpoint/variables.safetensors"}},
    {.name = "convnet",
     .program = "docs/examples/convnet.tfd",
     .compiler = ON_TWO,
     .runner = "",
     .every = 3,
     .last = "save(\"last\")",
     .files = {"last/variables.safetensors"}},
};

enum { NUM_SUBJECTS = sizeof subjects / sizeof *subjects };

typedef struct Options {
    int count;
    uint32_t seed;
} Options;

static Options options = {.count = 10, .seed = 1};

/* ---- one subject -------------------------------------------------------- */

/* Number i of the random numbers of a seed, from 0 to 1. */
static double
random_part(int i)
{
    uint32_t counter[4] = {(uint32_t)i, 0, 0, 0}, key[2] = {options.seed, 0};
    uint32_t out[4];
    philox4x32(counter, key, out);
    return out[0] / 4294967296.0;
}

static void
pause_for(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        ;
}

typedef struct Trial {
    Arena *arena;
    const Subject *subject;
    const char *plan, *whole;
    double seconds; /* the duration of an undisturbed run */
    double longest; /* life that is killed */
    int kills, runs, resumed;
} Trial;

/* A life in dir, whose replicas have a device each, or share one. */
static pid_t
begin_anywhere(const Trial *t, const char *dir, double part)
{
    Subject s = *t->subject;
    s.runner = arena_printf(t->arena, "%s --devices %s", s.runner,
                            part < 0.5 ? "cpu:0" : "cpu:0-1");
    return lives_begin(&s, t->plan, dir, s.every);
}

/* Another training from its beginning to its end. */
static void
train(Trial *t)
{
    bool killed = true;
    const char *dir = work_dir(t->arena);
    while (killed) {
        int life = t->runs + t->kills;
        pid_t pid = begin_anywhere(t, dir, random_part(-1 - life));
        if (t->kills < options.count) {
            pause_for(random_part(t->kills) * t->longest);
            kill(pid, SIGKILL);
        }
        killed = lives_wait(t->arena, pid, dir);
        t->kills += killed;
    }
    t->runs++;
    t->resumed += lives_resumed(t->arena, dir);
    lives_compare(t->arena, t->subject, t->whole, dir);
}

static void
killed_training_ends_the_same(void **state)
{
    Arena *a = arena_new(NULL, "test");
    Trial t = {.arena = a, .subject = *state};
    const char *dir = work_dir(a);
    t.plan = lives_compile(a, t.subject, dir);
    t.whole = work_dir(a);
    double begin = clock_seconds();
    pid_t pid = lives_begin(t.subject, t.plan, t.whole, 0);
    assert_false(lives_wait(a, pid, t.whole));
    t.seconds = clock_seconds() - begin;
    t.longest = fmax(4 * t.seconds / options.count, fmin(t.seconds, 1));
    while (t.kills < options.count)
        train(&t);
    printf("# %s: %.1f s in peace; killed %d times in %d trainings, went on "
           "from a checkpoint %d times\n",
           t.subject->name, t.seconds, t.kills, t.runs, t.resumed);
    arena_release(a);
}

/* ---- the command line --------------------------------------------------- */

static int
number(const char *text)
{
    char *end;
    long n = text ? strtol(text, &end, 10) : 0;
    if (!text || *end || n < 0 || n > 1000000) {
        fprintf(stderr, "kill: --count and --seed need a number\n");
        exit(2);
    }
    return (int)n;
}

static bool
is_asked(const char *name, int argc, char **argv)
{
    bool any = false;
    for (int i = 1; i < argc; i++) {
        bool is_option = strncmp(argv[i], "--", 2) == 0;
        if (is_option)
            i++;
        else if (any = true, strcmp(argv[i], name) == 0)
            return true;
    }
    return !any;
}

int
main(int argc, char **argv)
{
    struct CMUnitTest tests[NUM_SUBJECTS];
    size_t n = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--count") == 0)
            options.count = number(argv[i + 1]);
        if (strcmp(argv[i], "--seed") == 0)
            options.seed = (uint32_t)number(argv[i + 1]);
    }
    for (int i = 0; i < NUM_SUBJECTS; i++)
        if (is_asked(subjects[i].name, argc, argv))
            tests[n++] = (struct CMUnitTest){
                subjects[i].name, killed_training_ends_the_same, NULL, NULL,
                (void *)(uintptr_t)&subjects[i]};
    return _cmocka_run_group_tests("kill", tests, n, NULL, NULL);
}
