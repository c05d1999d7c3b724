/*
 * restart_test.c - which attempt follows which
 */
#include "runtime/cluster/launch/restart.h"
#include "tests/unit/unit.h"

/* -n 6 of a plan for 12 replicas, --restarts 5 --min-processes 2. */
static const RtRestartPolicy policy = {
    .size = 6, .min_processes = 2, .num_replicas = 12, .restarts = 5};

enum { FAILED = 3, INTERRUPTED = 130 };

static RtAttempt
after(const RtAttempt *last)
{
    RtAttempt next;
    assert_true(rt_next_attempt(&policy, last, &next));
    assert_int_equal(next.number, last->number + 1);
    return next;
}

static void
assert_no_more(const RtAttempt *last)
{
    RtAttempt next;
    assert_false(rt_next_attempt(&policy, last, &next));
}

/* The attempt after one that trained and then failed. */
static RtAttempt
after_loss(RtAttempt last)
{
    last.joined = true;
    last.exit_status = FAILED;
    return after(&last);
}

static RtAttempt
after_join_failure(RtAttempt last)
{
    last.joined = false;
    last.exit_status = FAILED;
    return after(&last);
}

/* The attempt after one that stopped after its checkpoints. */
static RtAttempt
after_stop(RtAttempt last)
{
    assert_false(rt_attempt_asks(&policy, &last, last.checkpoints - 1));
    assert_true(rt_attempt_asks(&policy, &last, last.checkpoints));
    last.joined = last.stopped = true;
    assert_false(rt_attempt_asks(&policy, &last, last.checkpoints));
    last.exit_status = INTERRUPTED;
    return after(&last);
}

static void
only_failures_are_followed(void **state)
{
    static const struct {
        int exit_status;
        bool interrupted, followed;
    } rows[] = {
        {0, false, false}, {1, false, false},  {2, false, false},
        {3, false, true},  {127, false, true}, {130, false, false},
        {3, true, false},  {130, true, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        RtAttempt next, last = rt_first_attempt(&policy);
        last.joined = true;
        last.exit_status = rows[i].exit_status;
        last.interrupted = rows[i].interrupted;
        assert_int_equal(rt_next_attempt(&policy, &last, &next),
                         rows[i].followed);
    }
}

static void
losses_are_followed_at_once_by_all_processes(void **state)
{
    RtAttempt a = rt_first_attempt(&policy);
    (void)state;
    for (int i = 1; i <= policy.restarts; i++) {
        a = after_loss(a);
        assert_int_equal(a.kind, RT_ATTEMPT_RESTART);
        assert_int_equal(a.restarts, i);
        assert_int_equal(a.size, 6);
        assert_true(a.delay == 0);
    }
    a.joined = true;
    a.exit_status = FAILED;
    assert_no_more(&a);
}

/* Sizes divide 12; the delay doubles until an attempt has trained. */
static void
two_join_failures_in_a_row_are_followed_by_fewer(void **state)
{
    static const int sizes[] = {6, 4, 4, 3, 3};
    static const double delays[] = {0.1, 0.2, 0.4, 0.8, 1.6};
    RtAttempt a = rt_first_attempt(&policy);
    (void)state;
    for (int i = 0; i < 5; i++) {
        a = after_join_failure(a);
        assert_int_equal(a.size, sizes[i]);
        assert_float_equal(a.delay, delays[i], 1e-12);
    }
    a = after_loss(after_join_failure(rt_first_attempt(&policy)));
    assert_int_equal(a.join_failures, 0);
    assert_int_equal(after_join_failure(a).size, 6);
}

static RtAttempt
smaller(void)
{
    RtAttempt a = after_join_failure(rt_first_attempt(&policy));
    a = after_join_failure(a);
    assert_int_equal(a.size, 4);
    assert_int_equal(a.restarts, 2);
    return a;
}

static void
a_smaller_one_asks_for_replacements(void **state)
{
    (void)state;
    RtAttempt a = after_stop(smaller());
    assert_int_equal(a.kind, RT_ATTEMPT_GROWS);
    assert_int_equal(a.size, 6);
    assert_int_equal(a.restarts, 2);
    assert_false(rt_attempt_asks(&policy, &a, 100));
    a = after_loss(a);
    assert_int_equal(a.kind, RT_ATTEMPT_RESTART);
    assert_int_equal(a.restarts, 3);
    assert_int_equal(a.size, 6);
}

/* Each time it waits for twice as many checkpoints; none of it is a restart. */
static void
replacements_that_do_not_come_cost_no_restart(void **state)
{
    RtAttempt a = smaller();
    (void)state;
    for (int i = 0, checkpoints = 1; i < 8; i++, checkpoints *= 2) {
        assert_int_equal(a.checkpoints, checkpoints);
        a = after_join_failure(after_stop(a));
        assert_int_equal(a.kind, RT_ATTEMPT_SHRINKS);
        assert_int_equal(a.size, 4);
        assert_int_equal(a.restarts, 2);
        assert_true(a.delay == 0);
    }
    a = after_loss(a);
    assert_int_equal(a.size, 6);
    assert_int_equal(a.restarts, 3);
}

/* A process that hangs before it joins does not hold those up that can go on
 * without it; the first start takes as long as it takes. */
static void
what_comes_back_has_less_time_where_fewer_go_on(void **state)
{
    RtRestartPolicy all = {.size = 6, .num_replicas = 12, .restarts = 5};
    RtAttempt first = rt_first_attempt(&policy), next = after_loss(first);
    (void)state;
    assert_false(rt_attempt_may_shrink(&policy, &first));
    assert_true(rt_attempt_may_shrink(&policy, &next));
    assert_false(rt_attempt_may_shrink(&all, &next));
    next.size = policy.min_processes;
    assert_false(rt_attempt_may_shrink(&policy, &next));
    next = after_stop(smaller());
    assert_true(rt_attempt_may_shrink(&policy, &next));
    next = after_join_failure(next);
    assert_int_equal(next.kind, RT_ATTEMPT_SHRINKS);
    assert_false(rt_attempt_may_shrink(&policy, &next));
}

/* Where the run came to its end first, or failed, nothing is asked for. */
static void
what_ends_while_it_stops_has_ended(void **state)
{
    (void)state;
    RtAttempt a = smaller();
    a.stopped = a.joined = true;
    assert_no_more(&a);
    a.exit_status = FAILED;
    assert_int_equal(after(&a).kind, RT_ATTEMPT_RESTART);
    a.exit_status = INTERRUPTED;
    a.interrupted = true;
    assert_no_more(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_failures_are_followed),
        cmocka_unit_test(losses_are_followed_at_once_by_all_processes),
        cmocka_unit_test(two_join_failures_in_a_row_are_followed_by_fewer),
        cmocka_unit_test(a_smaller_one_asks_for_replacements),
        cmocka_unit_test(replacements_that_do_not_come_cost_no_restart),
        cmocka_unit_test(what_comes_back_has_less_time_where_fewer_go_on),
        cmocka_unit_test(what_ends_while_it_stops_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
