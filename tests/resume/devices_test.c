/*
 * devices_test.c - checkpoints of replicas that share devices
 *
 * A checkpoint knows the replicas of a plan, not the devices that they were on:
 * what is in it, and how large it is, is the same wherever they were.
 */
#include "tests/unit/unit.h"

#include <sys/stat.h>
#include "tests/e2e/run.h"
#include "tests/resume/lives.h"
#include "tests/unit/dir.h"

/* ---- another number of devices ------------------------------------------- */

/* A program for eight replicas, and the steps after which it is killed. */
typedef struct Moved {
    Subject subject;
    int on_four, on_two;
} Moved;

#define ON_EIGHT "--devices cpu:0-7 "

static const Moved moved[] = {
    {{.name = "bigram",
      .program = "docs/examples/bigram.tfd",
      .compiler = ON_EIGHT "-D BATCH=2048",
      .runner = ""},
     33,
     101},
    /* statistics of the batch: collectives in the midst of a step */
    {{.name = "batchnorm",
      .program = "docs/examples/batchnorm.tfd",
      .compiler = ON_EIGHT,
      .runner = ""},
     2,
     4},
    /* variables of one replica, whose device is another one each time */
    {{.name = "central",
      .program = "docs/examples/batchnorm.tfd",
      .compiler =
          ON_EIGHT "--strategy central_storage --parameter-device cpu:5",
      .runner = ""},
     2,
     4},
    /* parts of sync-on-read variables */
    {{.name = "metric",
      .program = "docs/examples/metric.tfd",
      .compiler = ON_EIGHT,
      .runner = ""},
     4,
     9},
    /* pipelines of four workers */
    {{.name = "workers",
      .program = "tests/resume/workers.tfd",
      .compiler = "--strategy multi_worker_mirrored --workers 4 "
                  "--devices cpu:0-1",
      .runner = ""},
     3,
     9},
    {{.name = "all",
      .program = "tests/resume/all.tfd",
      .compiler = ON_EIGHT,
      .runner = "",
      .files = {"part-0/variables.safetensors", "part-8/variables.safetensors",
                "kept/variables.safetensors"}},
     9,
     20},
};

/* Killed on four devices, resumed and killed on two, resumed on eight: the
 * output, with the checksum, and the files of a run without disturbance. */
static void
check_moved(const Moved *m)
{
    const char *whole = work_dir(arena), *parts = work_dir(arena);
    const char *plan = lives_compile(arena, &m->subject, whole);
    pid_t pid = lives_begin(&m->subject, plan, whole, 0);
    assert_false(lives_wait(arena, pid, whole));
    assert_true(lives_until(plan, parts, "cpu:0-3", m->on_four, 1));
    assert_true(lives_until(plan, parts, "cpu:0-1", m->on_two, 1));
    pid = lives_begin(&m->subject, plan, parts, 1000);
    assert_false(lives_wait(arena, pid, parts));
    assert_int_equal(lives_resumed(arena, parts), 2);
    lives_compare(arena, &m->subject, whole, parts);
}

static void
a_killed_run_goes_on_with_more_devices_or_fewer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++)
        check_moved(&moved[i]);
}

/* ---- what is in a checkpoint --------------------------------------------- */

enum { REPLICAS = 4, ELEMENTS = 16384, VARIABLE_BYTES = 4 * ELEMENTS };

/* How a variable is kept, and of how many replicas its bytes are archived. */
static const struct {
    const char *declared, *strategy;
    int copies;
} kept[] = {
    {"", "mirrored", 1},
    {"", "central_storage", 1},
    {"sync(on_read) aggregate(sum)", "mirrored", REPLICAS},
};

static int64_t
bytes_of(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        fail_msg("there is no %s", path);
    return st.st_size;
}

/* Bytes of the checkpoint that a run on so many devices makes: those of the
 * variables, and some hundred of other state, which depends on what pipelines
 * have made ahead. */
static int64_t
checkpoint_bytes(const char *plan, int devices)
{
    const char *folder = work_dir(arena);
    run_ok(arena, "tfd-run %s --devices cpu:0-%d --checkpoint %s --every 1",
           plan, devices - 1, folder);
    return bytes_of(arena_printf(arena, "%s/step-1.ckpt", folder));
}

static void
a_checkpoint_has_each_value_once(void **state)
{
    (void)state;
    const char *source = in_dir("kept.tfd"), *plan = in_dir("kept.tfp");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        write_text(source,
                   arena_printf(arena,
                                "var w: f32[%d] = zeros %s\n"
                                "dataset d = range(4).batch(4)\n"
                                "fn step(x) { w += 1.0 }\n"
                                "main { for x in distribute(d) { run step(x) } "
                                "}\n",
                                ELEMENTS, kept[i].declared));
        run_ok(arena, "tfdc %s --devices cpu:0-%d --strategy %s -o %s", source,
               REPLICAS - 1, kept[i].strategy, plan);
        for (int n = 1; n <= REPLICAS; n *= 2) {
            int64_t bytes = checkpoint_bytes(plan, n);
            if (bytes / VARIABLE_BYTES != kept[i].copies)
                fail_msg("%s %s on %d: %lld bytes, of %d copies of %d",
                         kept[i].strategy, kept[i].declared, n,
                         (long long)bytes, kept[i].copies, VARIABLE_BYTES);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_killed_run_goes_on_with_more_devices_or_fewer, new_dir,
            release_arena),
        cmocka_unit_test_setup_teardown(a_checkpoint_has_each_value_once,
                                        new_dir, release_arena),
    };
    return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
