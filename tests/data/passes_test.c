/*
 * passes_test.c - passes, threads, and calls in the wrong order
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"
#include "tests/unit/asleep.h"
#include "tests/unit/status.h"

#include <time.h>
#include <unistd.h>
#include "tests/data/pipe.h"

static const char *const pipelines[] = {
    "range start=0 stop=100 : i64\n"
    "shuffle buffer=10 seed=5 reshuffle=1 has_seed=1 : i64\n"
    "batch size=4 drop_remainder=0 : i64[b4]",

    "range start=0 stop=9 : i64\n"
    "shuffle buffer=10 seed=5 reshuffle=1 has_seed=1 : i64\n"
    "repeat count=-1 : i64\n"
    "take count=50 : i64\n"
    "batch size=4 drop_remainder=1 : i64[4]",

    "range start=0 stop=3 : i64\n"
    "batch size=8 drop_remainder=0 : i64[b8]",

    "range start=0 stop=0 : i64\n"
    "batch size=8 drop_remainder=0 : i64[b8]",

    "range start=0 stop=20 : i64\n"
    "window size=3 stride=2 : i64[3]\n"
    "shuffle buffer=4 seed=5 reshuffle=1 has_seed=1 : i64[3]\n"
    "repeat count=2 : i64[3]\n"
    "batch size=2 drop_remainder=0 : i64[b2, 3]\n"
    "shuffle buffer=3 seed=6 reshuffle=1 has_seed=1 : i64[b2, 3]",

    "range start=0 stop=40 : i64\n"
    "batch size=4 drop_remainder=0 : i64[b4]\n"
    "prefetch depth=0 : i64[b4]",

    "range start=0 stop=40 : i64\n"
    "shuffle buffer=10 seed=5 reshuffle=1 has_seed=1 : i64\n"
    "batch size=4 drop_remainder=0 : i64[b4]\n"
    "prefetch depth=1 : i64[b4]",

    "range start=0 stop=40 : i64\n"
    "batch size=4 drop_remainder=0 : i64[b4]\n"
    "prefetch depth=6 : i64[b4]",
};

enum { NUM_PIPELINES = sizeof pipelines / sizeof *pipelines };

/* At most n steps of a new pass; how many there were. */
static int
begin_pass(const PipeRun *run, int n)
{
    bool more = true;
    int steps = 0;
    assert_null(rt_iter_open(run->it, rt_iter_passes(run->it)));
    for (; steps < n && more; steps += more) {
        assert_null(rt_iter_has_next(run->it, &more));
        if (more)
            assert_null(rt_iter_next(run->it));
    }
    return steps;
}

static void
a_thread_changes_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_PIPELINES; i++) {
        Pipe pipe = {.stages = pipelines[i], .replicas = 3};
        PipeRun alone = pipe_run(arena, &pipe);
        pipe.threads = true;
        PipeRun ahead = pipe_run(arena, &pipe);
        for (int pass = 0; pass < 5; pass++)
            assert_string_equal(pipe_pass(arena, &alone),
                                pipe_pass(arena, &ahead));
    }
}

/* A pass does not depend on how far the one before it went, although the thread
 * that works ahead goes farther than the loop that was left. */
static void
a_pass_that_is_left_changes_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_PIPELINES; i++) {
        Pipe pipe = {.stages = pipelines[i]};
        PipeRun whole = pipe_run(arena, &pipe);
        const char *passes[6];
        for (int pass = 0; pass < 6; pass++)
            passes[pass] = pipe_pass(arena, &whole);
        for (int threads = 0; threads < 2; threads++) {
            pipe.threads = threads;
            PipeRun left = pipe_run(arena, &pipe);
            begin_pass(&left, 3);
            begin_pass(&left, 0);
            begin_pass(&left, 0);
            begin_pass(&left, 1);
            assert_string_equal(pipe_pass(arena, &left), passes[4]);
            assert_string_equal(pipe_pass(arena, &left), passes[5]);
        }
    }
}

/* Another pipeline, with or without a thread, continues in the middle of a pass
 * and with the passes after it; the first one is not affected. */
static void
expect_going_on(const Pipe *pipe, int steps)
{
    Pipe other = *pipe;
    other.threads = !pipe->threads;
    PipeRun run = pipe_run(arena, pipe);
    begin_pass(&run, 1);
    begin_pass(&run, steps);
    PipeRun after[] = {pipe_archive(arena, pipe, &run),
                       pipe_archive(arena, &other, &run)};
    const char *rest = pipe_rest(arena, &run), *next = pipe_pass(arena, &run);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(pipe_rest(arena, &after[i]), rest);
        assert_string_equal(pipe_pass(arena, &after[i]), next);
    }
}

static void
a_state_goes_on_anywhere(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * NUM_PIPELINES; i++) {
        Pipe pipe = {.stages = pipelines[i / 4],
                     .replicas = 2,
                     .shard = i & 1 ? "off" : "auto",
                     .threads = i & 2};
        for (int steps = 0; steps < 9; steps++)
            expect_going_on(&pipe, steps);
    }
}

static void
an_iterator_that_was_not_opened_has_a_state(void **state)
{
    (void)state;
    Pipe pipe = {.stages = pipelines[0], .threads = true};
    PipeRun fresh = pipe_run(arena, &pipe), whole = pipe_run(arena, &pipe);
    PipeRun other = pipe_archive(arena, &pipe, &fresh);
    assert_string_equal(pipe_pass(arena, &other), pipe_pass(arena, &whole));
}

/* Reads a state, and continues from it if it is valid. */
static void
try_state(const Pipe *pipe, const char *data, size_t len)
{
    bool more = true;
    Arena *a = arena_new(NULL, "damaged");
    PipeRun run = pipe_run(a, pipe);
    RtArchive ar = rt_archive_reader(a, data, len);
    assert_null(rt_iter_archive(run.it, &ar, NULL));
    Status st = rt_archive_end(&ar);
    for (int i = 0; !st && more && i < 50; i++) {
        st = rt_iter_has_next(run.it, &more);
        if (!st && more)
            st = rt_iter_next(run.it);
    }
    status_free(st);
    arena_release(a);
}

static void
a_state_that_is_damaged_does_no_harm(void **state)
{
    (void)state;
    uint32_t random = 1;
    for (int i = 0; i < NUM_PIPELINES; i++) {
        Pipe pipe = {.stages = pipelines[i], .replicas = 2, .shard = "off"};
        PipeRun run = pipe_run(arena, &pipe);
        begin_pass(&run, 3);
        RtArchive ar = rt_archive_writer(arena, 0);
        assert_null(rt_iter_archive(run.it, &ar, NULL));
        for (size_t len = 0; len < ar.len; len++)
            try_state(&pipe, ar.data, len);
        for (int k = 0; k < 100; k++) {
            char *bytes = arena_copy(arena, ar.data, ar.len);
            random = random * 1664525 + 1013904223;
            bytes[(random >> 8) % ar.len] = (char)(k & 1 ? 0xff : random >> 24);
            try_state(&pipe, bytes, ar.len);
        }
    }
}

/* Also while its thread waits for room, for a pass, or has not begun. */
static void
an_iterator_may_be_closed_at_any_time(void **state)
{
    const struct timespec moment = {0, 2000000};
    (void)state;
    for (int steps = -1; steps < 8; steps++) {
        Arena *a = arena_new(NULL, "iterator");
        Pipe pipe = {.stages = pipelines[0], .threads = true};
        PipeRun run = pipe_run(a, &pipe);
        if (steps >= 0)
            begin_pass(&run, steps);
        if (steps % 2)
            nanosleep(&moment, NULL);
        arena_release(a);
    }
    rt_iter_close(NULL);
}

/* Waits until n elements were made, and their thread is idle: no further one
 * follows. */
static void
expect_made(const char *stages, int want)
{
    while (pipe_counted < want)
        sched_yield();
    if (pipe_thread != gettid())
        wait_until_asleep(&pipe_thread);
    if (pipe_counted != want)
        fail_msg("%s\nmakes %d elements, not %d", stages, pipe_counted, want);
}

/* Batches of 2, one of them in use. */
static void
prefetch_says_how_many_are_made_ahead(void **state)
{
    static const struct {
        const char *last;
        int ahead;
    } cases[] = {
        {"", 3},
        {"prefetch depth=0 : i64[b2]", 0},
        {"prefetch depth=1 : i64[b2]", 1},
        {"prefetch depth=2 : i64[b2]", 2},
        {"prefetch depth=9 : i64[b2]", 9},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *stages =
            arena_printf(arena,
                         "range start=0 stop=100 : i64\n"
                         "map @counted : i64\n"
                         "batch size=2 drop_remainder=0 : i64[b2]\n%s",
                         cases[i].last);
        Pipe pipe = {.stages = stages, .threads = true};
        pipe_counted = 0;
        PipeRun run = pipe_run(arena, &pipe);
        assert_int_equal(begin_pass(&run, 1), 1);
        expect_made(stages, 2 * (1 + cases[i].ahead));
        assert_null(rt_iter_next(run.it));
        expect_made(stages, 2 * (2 + cases[i].ahead));
    }
}

static void
has_next_takes_nothing(void **state)
{
    bool more;
    Pipe pipe = {.stages = pipelines[2]};
    (void)state;
    PipeRun run = pipe_run(arena, &pipe);
    assert_null(rt_iter_open(run.it, rt_iter_passes(run.it)));
    for (int i = 0; i < 3; i++) {
        assert_null(rt_iter_has_next(run.it, &more));
        assert_true(more);
    }
    assert_null(rt_iter_next(run.it));
    for (int i = 0; i < 3; i++) {
        assert_null(rt_iter_has_next(run.it, &more));
        assert_false(more);
    }
    /* the step is still there */
    assert_int_equal(rt_iter_all_rows(run.it), 3);
    assert_int_equal(((const int64_t *)rt_iter_data(run.it, 0, 0))[2], 2);
}

static void
expect_error(Status st, const char *message)
{
    assert_status(st, STATUS_INPUT, message);
}

static void
next_after_the_end_is_an_error(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        Pipe pipe = {.stages = pipelines[2], .threads = threads};
        PipeRun run = pipe_run(arena, &pipe);
        assert_int_equal(begin_pass(&run, 2), 1);
        for (int i = 0; i < 2; i++)
            expect_error(rt_iter_next(run.it),
                         "next: the dataset has no more data");
        assert_string_equal(pipe_pass(arena, &run), "[0 1 2]");
    }
}

static void
next_before_open_is_an_error(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        Pipe pipe = {.stages = pipelines[2], .threads = threads};
        PipeRun run = pipe_run(arena, &pipe);
        expect_error(rt_iter_next(run.it), "an iterator that was not opened");
        assert_string_equal(pipe_pass(arena, &run), "[0 1 2]");
    }
}

/* An error in one pass does not stay for the next; this one comes again. */
static void
a_pass_may_follow_one_that_failed(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        Pipe pipe = {.stages = "range start=3 stop=9 : i64\n"
                               "map @no5 : i64\n"
                               "batch size=1 drop_remainder=0 : i64[b1]",
                     .threads = threads};
        PipeRun run = pipe_run(arena, &pipe);
        for (int pass = 0; pass < 3; pass++)
            assert_string_equal(pipe_pass(arena, &run),
                                "[3]; [4]; error: there is a 5");
        begin_pass(&run, 2);
        assert_string_equal(pipe_pass(arena, &run),
                            "[3]; [4]; error: there is a 5");
    }
}

/* Steps of a long run, with a consumer that is now faster and now slower. */
static void
a_thread_keeps_up(void **state)
{
    Pipe pipe = {.stages = "range start=0 stop=20000 : i64\n"
                           "map @twice : i64\n"
                           "batch size=4 drop_remainder=0 : i64[b4]",
                 .replicas = 2,
                 .threads = true};
    const struct timespec moment = {0, 100000};
    bool more;
    int64_t step = 0;
    (void)state;
    PipeRun run = pipe_run(arena, &pipe);
    assert_null(rt_iter_open(run.it, rt_iter_passes(run.it)));
    while (assert_null(rt_iter_has_next(run.it, &more)), more) {
        assert_null(rt_iter_next(run.it));
        const int64_t *x = rt_iter_data(run.it, 1, 0);
        assert_int_equal(x[0], 2 * (4 * step + 2));
        if (step++ % 512 == 0)
            nanosleep(&moment, NULL);
    }
    assert_int_equal(step, 5000);
}

/* ---- steps that are cheap ------------------------------------------------ */

static const Pipe cheap = {.stages = "range start=0 stop=10000000 : i64\n"
                                     "map @counted : i64\n"
                                     "batch size=2 drop_remainder=0 : i64[b2]",
                           .threads = true};

/* A run whose steps are made by the calling thread, which they are once that is
 * known to be cheaper than to wake another; the next step's number. */
static PipeRun
begin_cheap(int64_t *step)
{
    enum { MOST = 1000000 };
    PipeRun run = pipe_run(arena, &cheap);
    pipe_thread = 0;
    assert_null(rt_iter_open(run.it, 0));
    for (*step = 0; pipe_thread != gettid() && *step < MOST; ++*step) {
        assert_null(rt_iter_next(run.it));
        const int64_t *x = rt_iter_data(run.it, 0, 0);
        assert_int_equal(x[0], 2 * *step);
    }
    if (*step == MOST)
        fail_msg("no step of %d is made by its taker", MOST);
    return run;
}

static void
a_cheap_step_is_made_by_its_taker(void **state)
{
    int64_t step;
    (void)state;
    if (is_sanitized())
        return; /* no step is cheap there */
    PipeRun run = begin_cheap(&step);
    PipeRun other = pipe_archive(arena, &cheap, &run);
    for (int i = 0; i < 1000; i++, step++) {
        assert_null(rt_iter_next(run.it));
        assert_null(rt_iter_next(other.it));
        const int64_t *x = rt_iter_data(run.it, 0, 0);
        const int64_t *y = rt_iter_data(other.it, 0, 0);
        assert_int_equal(x[0], 2 * step);
        assert_int_equal(y[0], 2 * step);
    }
}

/* An interrupt does not tear a step that its taker makes, which could not be
 * saved then, but ends one that takes long. */
static void
a_step_that_its_taker_makes_is_stopped_late(void **state)
{
    enum { STEPS = 20 };
    int64_t step;
    bool more;
    (void)state;
    if (is_sanitized())
        return; /* no step is cheap there */
    PipeRun run = begin_cheap(&step);
    atomic_store(&pipe_slow, 2 * (step + STEPS));
    atomic_store(&pipe_stopped, true);
    for (int i = 0; i < STEPS; i++)
        assert_null(rt_iter_next(run.it));
    Status st = rt_iter_has_next(run.it, &more);
    atomic_store(&pipe_stopped, false);
    atomic_store(&pipe_slow, 0);
    assert_status(st, STATUS_STOPPED, "no more data are waited for");
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, new_arena, release_arena)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_thread_changes_nothing),
        TEST(a_pass_that_is_left_changes_nothing),
        TEST(an_iterator_may_be_closed_at_any_time),
        TEST(has_next_takes_nothing),
        TEST(next_after_the_end_is_an_error),
        TEST(next_before_open_is_an_error),
        TEST(a_pass_may_follow_one_that_failed),
        TEST(a_thread_keeps_up),
        TEST(a_cheap_step_is_made_by_its_taker),
        TEST(a_step_that_its_taker_makes_is_stopped_late),
        TEST(prefetch_says_how_many_are_made_ahead),
        TEST(a_state_goes_on_anywhere),
        TEST(an_iterator_that_was_not_opened_has_a_state),
        TEST(a_state_that_is_damaged_does_no_harm),
    };
    return cmocka_run_group_tests_name("passes", tests, NULL, NULL);
}
