/*
 * cuda_test.c - runs that move between the CPU and GPUs
 *
 * A run is killed on some devices and resumed on others: CPU devices, as many
 * fake GPUs as it has replicas, fewer, one.  Its output, its checksum and the
 * files that it writes are those of a run that stays on the CPU.
 */
#include "tests/cuda/fakes.h"
#include "tests/e2e/run.h"
#include "tests/resume/lives.h"
#include "tests/unit/unit.h"

enum { MAX_LEGS = 6 };

/* The devices of a life, and the step after which it is killed; the last one
 * comes to its end. */
typedef struct Leg {
    const char *devices;
    int step;
} Leg;

static const struct {
    Subject subject;
    Leg legs[2][MAX_LEGS];
} rows[] = {
    /* every kind of state that a run has */
    {{.name = "all",
      .program = "tests/resume/all.tfd",
      .files = {"part-0/variables.safetensors", "part-8/variables.safetensors",
                "kept/variables.safetensors"}},
     {{{"cpu:0-3", 9},
       {"cuda:0-3", 14},
       {"cuda:0-1", 20},
       {"cpu:0-1", 22},
       {"cuda:0", 24},
       {"cpu:0-3", 0}},
      {{"cuda:0", 5}, {"cuda:0-3", 17}, {"cpu:0", 24}, {"cuda:0-1", 0}}}},
    /* collectives in the midst of a step, and short batches */
    {{.name = "batchnorm", .program = "docs/examples/batchnorm.tfd"},
     {{{"cuda:0-1", 2}, {"cpu:0-3", 4}, {"cuda:0-3", 0}},
      {{"cpu:0-1", 1}, {"cuda:0-3", 3}, {"cuda:0", 0}}}},
    /* parts of sync-on-read variables */
    {{.name = "metric", .program = "docs/examples/metric.tfd"},
     {{{"cuda:0-3", 4}, {"cuda:0-1", 9}, {"cpu:0-1", 0}},
      {{"cpu:0-3", 3}, {"cuda:0", 8}, {"cuda:0-3", 0}}}},
    /* an optimizer's slots, recorded programs: many full batches */
    {{.name = "schedule", .program = "docs/examples/schedule.tfd"},
     {{{"cuda:0-3", 11}, {"cuda:0", 23}, {"cuda:0-1", 31}, {"cpu:0-3", 0}},
      {{"cpu:0", 10}, {"cuda:0-1", 20}, {"cuda:0-3", 0}}}},
};

static void
check_legs(const Subject *s, const Leg *leg, const char *plan,
           const char *whole)
{
    const char *parts = work_dir(arena);
    int num = 0;
    for (; leg->step; leg++, num++)
        assert_true(lives_until(plan, parts, leg->devices, leg->step, 1));
    Subject last = *s;
    last.runner = arena_printf(arena, "--devices %s", leg->devices);
    pid_t pid = lives_begin(&last, plan, parts, 1000);
    assert_false(lives_wait(arena, pid, parts));
    assert_int_equal(lives_resumed(arena, parts), num);
    lives_compare(arena, s, whole, parts);
}

static void
a_killed_run_goes_on_with_gpus_or_without(void **state)
{
    (void)state;
    set_fake("devices:4,seed:1");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Subject s = rows[i].subject;
        const char *whole = work_dir(arena);
        s.compiler = "--devices cuda:0-3";
        s.runner = "--devices cpu:0-3";
        const char *plan = lives_compile(arena, &s, whole);
        pid_t pid = lives_begin(&s, plan, whole, 0);
        assert_false(lives_wait(arena, pid, whole));
        for (int k = 0; k < 2; k++)
            check_legs(&s, rows[i].legs[k], plan, whole);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_run_goes_on_with_gpus_or_without),
    };
    return cmocka_run_group_tests(tests, new_dir, release_arena);
}
