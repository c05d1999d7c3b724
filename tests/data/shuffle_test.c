/*
 * shuffle_test.c - the order of shuffles: equal for equal seeds, different for
 * each pass
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

#include "tests/data/pipe.h"

enum { COUNT = 200 };

#define SOURCE "range start=0 stop=200 : i64\n"
#define BATCH "\nbatch size=5 drop_remainder=0 : i64[b5]"

/* A shuffle stage of a buffer, seed ("" for none) and reshuffle. */
#define SHUFFLE(buffer, seed, has_seed, reshuffle)                             \
    "shuffle buffer=" #buffer " seed=" #seed " reshuffle=" #reshuffle          \
    " has_seed=" #has_seed " : i64"

static Numbers
first_pass(const Pipe *pipe)
{
    PipeRun run = pipe_run(arena, pipe);
    return pipe_numbers(arena, &run);
}

static bool
same(Numbers a, Numbers b)
{
    return a.len == b.len &&
           memcmp(a.data, b.data, (size_t)a.len * sizeof *a.data) == 0;
}

/* Every number below count is in all as often as `times` says. */
static void
assert_complete(Numbers all, int count, int times)
{
    int *seen = NEW_ARRAY(arena, int, (size_t)count);
    assert_int_equal(all.len, count * times);
    for (int i = 0; i < all.len; i++) {
        assert_in_range(all.data[i], 0, count - 1);
        seen[all.data[i]]++;
    }
    for (int i = 0; i < count; i++)
        assert_int_equal(seen[i], times);
}

static void
every_element_comes_once(void **state)
{
    static const char *const stages[] = {
        SOURCE SHUFFLE(1, 7, 1, 1) BATCH,
        SOURCE SHUFFLE(2, 7, 1, 1) BATCH,
        SOURCE SHUFFLE(64, 7, 1, 1) BATCH,
        SOURCE SHUFFLE(200, 7, 1, 1) BATCH,
        SOURCE SHUFFLE(1000000000000, 7, 1, 1) BATCH,
    };
    (void)state;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        Pipe pipe = {.stages = stages[i], .replicas = 3};
        PipeRun run = pipe_run(arena, &pipe);
        for (int pass = 0; pass < 3; pass++)
            assert_complete(pipe_numbers(arena, &run), COUNT, 1);
    }
}

/* An element comes out at most as much earlier as the buffer is long. */
static void
a_buffer_limits_how_far_elements_move(void **state)
{
    Pipe one = {.stages = SOURCE SHUFFLE(1, 7, 1, 1) BATCH};
    Pipe ten = {.stages = SOURCE SHUFFLE(10, 7, 1, 1) BATCH};
    (void)state;
    Numbers order = first_pass(&one), mixed = first_pass(&ten);
    bool moved = false;
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(order.data[i], i);
        assert_true(mixed.data[i] < i + 10);
        moved |= mixed.data[i] != i;
    }
    assert_true(moved);
}

/* The place of an element is uniform: a mean that is out by six standard
 * deviations is no accident. */
static void
a_full_buffer_is_uniform(void **state)
{
    enum { PASSES = 400, N = 8 };
    int count[N][N] = {{0}};
    Pipe pipe = {.stages =
                     "range start=0 stop=8 : i64\n" SHUFFLE(8, 3, 1, 1) BATCH};
    (void)state;
    PipeRun run = pipe_run(arena, &pipe);
    for (int pass = 0; pass < PASSES; pass++) {
        Numbers order = pipe_numbers(arena, &run);
        for (int i = 0; i < N; i++)
            count[order.data[i]][i]++;
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            assert_in_range(count[i][k], 50 - 40, 50 + 40);
}

static void
a_seed_is_an_order(void **state)
{
    Pipe seven = {.stages = SOURCE SHUFFLE(200, 7, 1, 1) BATCH};
    Pipe eight = {.stages = SOURCE SHUFFLE(200, 8, 1, 1) BATCH};
    Pipe other_run = seven;
    other_run.seed = 99;
    (void)state;
    Numbers order = first_pass(&seven);
    assert_true(same(order, first_pass(&seven)));
    assert_true(same(order, first_pass(&other_run)));
    assert_false(same(order, first_pass(&eight)));
}

/* This order was promised to users: changing it changes their results. */
static void
the_order_is_known(void **state)
{
    Pipe pipe = {.stages = "range start=0 stop=8 : i64\n" SHUFFLE(
                     8, 7, 1, 1) "\nbatch size=8 drop_remainder=0 : i64[b8]"};
    (void)state;
    PipeRun run = pipe_run(arena, &pipe);
    assert_string_equal(pipe_pass(arena, &run), "[6 1 7 3 4 2 5 0]");
    assert_string_equal(pipe_pass(arena, &run), "[2 4 3 7 5 1 0 6]");
}

static void
without_a_seed_that_of_the_run_counts(void **state)
{
    Pipe pipe = {.stages = SOURCE SHUFFLE(200, 0, 0, 1) BATCH};
    Pipe other = pipe;
    other.seed = 1;
    (void)state;
    assert_true(same(first_pass(&pipe), first_pass(&pipe)));
    assert_false(same(first_pass(&pipe), first_pass(&other)));
}

static void
two_shuffles_without_seed_differ(void **state)
{
    Pipe one = {.stages = SOURCE SHUFFLE(200, 0, 0, 1) BATCH};
    Pipe later = {.stages = SOURCE "skip count=0 : i64\n" SHUFFLE(200, 0, 0, 1)
                      BATCH};
    (void)state;
    assert_false(same(first_pass(&one), first_pass(&later)));
}

static void
passes_differ_unless_told_not_to(void **state)
{
    Pipe again = {.stages = SOURCE SHUFFLE(200, 7, 1, 1) BATCH};
    Pipe fixed = {.stages = SOURCE SHUFFLE(200, 7, 1, 0) BATCH};
    (void)state;
    PipeRun run = pipe_run(arena, &again);
    Numbers first = pipe_numbers(arena, &run);
    assert_false(same(first, pipe_numbers(arena, &run)));
    run = pipe_run(arena, &fixed);
    first = pipe_numbers(arena, &run);
    assert_true(same(first, pipe_numbers(arena, &run)));
}

/* shuffle.repeat: each repetition in another order, as passes are; those of two
 * repetitions are the passes 0 1, 2 3, ... of one without. */
static void
repetitions_are_passes(void **state)
{
    Pipe once = {.stages = SOURCE SHUFFLE(200, 7, 1, 1) BATCH};
    Pipe twice = {
        .stages = SOURCE SHUFFLE(200, 7, 1, 1) "\nrepeat count=2 : i64" BATCH};
    (void)state;
    PipeRun passes = pipe_run(arena, &once), run = pipe_run(arena, &twice);
    for (int pass = 0; pass < 2; pass++) {
        Numbers both = pipe_numbers(arena, &run);
        assert_complete(both, COUNT, 2);
        for (int half = 0; half < 2; half++) {
            Numbers want = pipe_numbers(arena, &passes);
            Numbers have = {.data = both.data + half * COUNT, .len = COUNT};
            assert_true(same(have, want));
        }
    }
}

static void
devices_do_not_change_the_order(void **state)
{
    Pipe pipe = {.stages = SOURCE SHUFFLE(50, 7, 1, 1) BATCH};
    (void)state;
    Numbers order = first_pass(&pipe);
    for (pipe.replicas = 2; pipe.replicas <= 8; pipe.replicas++)
        assert_true(same(order, first_pass(&pipe)));
}

static void
batches_of_several_sizes_are_shuffled(void **state)
{
    Pipe pipe = {.stages = "range start=0 stop=17 : i64\n"
                           "batch size=5 drop_remainder=0 : i64[b5]\n"
                           "shuffle buffer=4 seed=2 reshuffle=1 has_seed=1 : "
                           "i64[b5]"};
    (void)state;
    PipeRun run = pipe_run(arena, &pipe);
    for (int pass = 0; pass < 3; pass++)
        assert_complete(pipe_numbers(arena, &run), 17, 1);
}

/* Another iterator may have done the passes before. */
static void
a_pass_is_what_its_number_says(void **state)
{
    Pipe pipe = {.stages = SOURCE
                 "shuffle buffer=64 seed=2 reshuffle=1 has_seed=1 : i64\n"
                 "batch size=5 drop_remainder=0 : i64[b5]"};
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        pipe.threads = threads;
        PipeRun run = pipe_run(arena, &pipe), other = pipe_run(arena, &pipe);
        const char *passes[3];
        for (int i = 0; i < 3; i++)
            passes[i] = pipe_pass(arena, &run);
        assert_string_not_equal(passes[0], passes[2]);
        for (int i = 2; i >= 0; i--) {
            assert_null(rt_iter_open(other.it, (uint64_t)i));
            assert_string_equal(pipe_rest(arena, &other), passes[i]);
        }
    }
}

static void
components_stay_together(void **state)
{
    Pipe pipe = {.stages = SOURCE
                 "map @pair : i64, i64\n"
                 "shuffle buffer=64 seed=2 reshuffle=1 has_seed=1 : i64, i64\n"
                 "batch size=5 drop_remainder=0 : i64[b5], i64[b5]"};
    bool more;
    (void)state;
    PipeRun run = pipe_run(arena, &pipe);
    assert_null(rt_iter_open(run.it, rt_iter_passes(run.it)));
    while (assert_null(rt_iter_has_next(run.it, &more)), more) {
        assert_null(rt_iter_next(run.it));
        const int64_t *x = rt_iter_data(run.it, 0, 0);
        const int64_t *y = rt_iter_data(run.it, 0, 1);
        for (int64_t i = 0; i < rt_iter_rows(run.it, 0); i++)
            assert_int_equal(y[i], x[i] + 1);
    }
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, new_arena, release_arena)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_element_comes_once),
        TEST(a_buffer_limits_how_far_elements_move),
        TEST(a_full_buffer_is_uniform),
        TEST(a_seed_is_an_order),
        TEST(the_order_is_known),
        TEST(without_a_seed_that_of_the_run_counts),
        TEST(two_shuffles_without_seed_differ),
        TEST(passes_differ_unless_told_not_to),
        TEST(a_pass_is_what_its_number_says),
        TEST(repetitions_are_passes),
        TEST(devices_do_not_change_the_order),
        TEST(batches_of_several_sizes_are_shuffled),
        TEST(components_stay_together),
    };
    return cmocka_run_group_tests_name("shuffle", tests, NULL, NULL);
}
