/*
 * evictions_test.c - what a thread judges, another one ends
 */
#include "tests/unit/unit.h"

#include <poll.h>
#include "ir/base/thread.h"
#include "runtime/cluster/launch/evictions.h"
#include "tests/unit/arena.h"

enum { RANKS = 64, JUDGED = 20000 };

static void
open_for_ranks(RtEvictions *e)
{
    assert_null(rt_evictions_open(arena, RANKS, e));
}

static bool
rings(const RtEvictions *e, int milliseconds)
{
    struct pollfd item = {e->bell, POLLIN, 0};
    return poll(&item, 1, milliseconds) > 0;
}

static void
one_that_is_judged_twice_is_ended_once(void **state)
{
    (void)state;
    RtEvictions e;
    open_for_ranks(&e);
    assert_false(rings(&e, 0));
    assert_int_equal(rt_evictions_next(&e), -1);
    rt_evictions_add(&e, 7);
    rt_evictions_add(&e, RANKS - 1);
    rt_evictions_add(&e, 7);
    assert_true(rings(&e, 0));
    assert_int_equal(rt_evictions_next(&e), 7);
    assert_int_equal(rt_evictions_next(&e), RANKS - 1);
    assert_int_equal(rt_evictions_next(&e), -1);
    assert_false(rings(&e, 0));
    rt_evictions_close(&e);
}

static void *
judge(void *data)
{
    for (int i = 0; i < JUDGED; i++)
        rt_evictions_add(data, i % (RANKS - 1));
    rt_evictions_add(data, RANKS - 1);
    return NULL;
}

/* The last one comes after all others, and the bell is heard for it. */
static void
none_is_missed_while_others_are_judged(void **state)
{
    (void)state;
    RtEvictions e;
    pthread_t thread;
    bool ended[RANKS] = {false};
    open_for_ranks(&e);
    assert_null(thread_start(&thread, judge, &e, "a test"));
    while (!ended[RANKS - 1]) {
        assert_true(rings(&e, 30000));
        for (int rank; (rank = rt_evictions_next(&e)) >= 0;)
            ended[rank] = true;
    }
    pthread_join(thread, NULL);
    for (int rank; (rank = rt_evictions_next(&e)) >= 0;)
        ended[rank] = true;
    for (int i = 0; i < RANKS; i++)
        assert_true(ended[i]);
    rt_evictions_close(&e);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_judged_twice_is_ended_once),
        cmocka_unit_test(none_is_missed_while_others_are_judged),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
