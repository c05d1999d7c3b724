/*
 * overlap_test.c - how much of the time of collectives programs wait for
 *
 * charlm on two sandbox devices, whose clocks say how long their code computed,
 * how long transfers took on a link that is modelled, and how long programs
 * waited for them (runtime/hal/sandbox/time.c).  The link is as fast as makes
 * all transfers take a third of the time of computing: half of a backward pass.
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

#include "tests/e2e/run.h"

enum { NUM_STEPS = 8, MOST_TRIES = 8 };

static const double MOST_EXPOSED = 0.2;

/* Seconds of a device, in a run. */
typedef struct Times {
    double computed, transferred, waited;
} Times;

/* Of the device that waits less: it is the slower one, which never waits for
 * the other to compute. */
static Times
times_of(const char *err)
{
    Times best = {0.0, 0.0, 1e9};
    const char *at = err;
    int found = 0;
    while ((at = strstr(at, " computed "))) {
        Times t;
        found += sscanf(at, " computed %lf s, transferred %lf s and waited %lf",
                        &t.computed, &t.transferred, &t.waited) == 3;
        best = t.waited < best.waited ? t : best;
        at++;
    }
    assert_int_equal(found, 2);
    return best;
}

static Times
run_charlm(const char *plan, const char *options)
{
    return times_of(
        run_ok(arena,
               "env TFD_SANDBOX=%s %s %s --devices sandbox:0-1 --data "
               "%s/docs/examples --set steps=%d",
               options, getenv("TFD_RUN"), plan, getenv("TFD_ROOT"), NUM_STEPS)
            .err);
}

/* Bytes in a second. */
static double
choose_bandwidth(const char *plan)
{
    Times t = run_charlm(plan, "timed,bandwidth:1e8,latency:0");
    return 1e8 * t.transferred / (t.computed / 3.0);
}

static double
waited(const char *plan, const char *mode, double bandwidth)
{
    return run_charlm(plan,
                      arena_printf(arena, "%s,bandwidth:%g", mode, bandwidth))
        .waited;
}

static void
transfers_hide_behind_the_backward_pass(void **state)
{
    const char *dir = work_dir(arena);
    const char *plan = arena_printf(arena, "%s/charlm.tfp", dir);
    (void)state;
    assert_int_equal(chdir(dir), 0);
    run_ok(arena,
           "tfdc %s/docs/examples/charlm.tfd --devices sandbox:0-1 -o %s",
           getenv("TFD_ROOT"), plan);
    double bandwidth = choose_bandwidth(plan);
    double without = waited(plan, "no-overlap", bandwidth);
    double with = waited(plan, "timed", bandwidth);
    /* a busy machine makes one device compute for longer than the other */
    for (int i = 1; i < MOST_TRIES && with >= MOST_EXPOSED * without; i++)
        with = waited(plan, "timed", bandwidth);
    print_message("# %.1f MB/s: waits take %.2f ms a step, %.2f ms without "
                  "overlap, %.1f %%\n",
                  bandwidth / 1e6, 1e3 * with / NUM_STEPS,
                  1e3 * without / NUM_STEPS, 100.0 * with / without);
    if (with >= MOST_EXPOSED * without)
        fail_msg("programs wait %g s with overlap, %g s without", with,
                 without);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transfers_hide_behind_the_backward_pass),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
