/*
 * load_test.c - what a server counts of pulls and pushes
 */
#include "tests/unit/unit.h"

#include "runtime/ps/applied.h"
#include "runtime/ps/staleness/rounds.h"
#include "runtime/ps/staleness/staleness.h"

static void
rows_are_powers_of_two(void **state)
{
    (void)state;
    assert_int_equal(rt_staleness_row(0), 0);
    assert_int_equal(rt_staleness_row(1), 1);
    assert_int_equal(rt_staleness_row(2), 2);
    assert_int_equal(rt_staleness_row(3), 2);
    assert_int_equal(rt_staleness_row(4), 3);
    assert_int_equal(rt_staleness_row((1 << 14) - 1), 14);
    assert_int_equal(rt_staleness_row(1 << 14), RT_PS_STALENESS_ROWS - 1);
    assert_int_equal(rt_staleness_row(INT64_MAX), RT_PS_STALENESS_ROWS - 1);
}

static void
staleness_is_what_others_have_pushed(void **state)
{
    (void)state;
    RtPsMeter m = {.bound = -1};
    int64_t a = rt_meter_clock(&m), b = rt_meter_clock(&m);
    rt_meter_pull(&m, 100);
    rt_meter_pull(&m, 10);
    rt_meter_push(&m, a, 5);             /* 0 */
    rt_meter_push(&m, RT_PS_NO_PULL, 5); /* has not pulled */
    rt_meter_push(&m, b, 5);             /* 2 */
    rt_meter_push(&m, rt_meter_clock(&m), 5);
    assert_int_equal(m.load.staleness[0], 2);
    assert_int_equal(m.load.staleness[1], 0);
    assert_int_equal(m.load.staleness[2], 1);
    assert_int_equal(m.load.stalest, 2);
    assert_int_equal(m.load.closures, 4);
    assert_int_equal(m.load.pulled, 110);
    assert_int_equal(m.load.pushed, 20);
}

static void
what_is_staler_than_allowed_is_refused(void **state)
{
    (void)state;
    RtPsMeter m = {.bound = 1};
    rt_meter_push(&m, RT_PS_NO_PULL, 5);
    assert_true(rt_meter_admits(&m, 0));
    rt_meter_push(&m, 0, 5);
    assert_false(rt_meter_admits(&m, 0));
    assert_true(rt_meter_admits(&m, 1));
    assert_true(rt_meter_admits(&m, RT_PS_NO_PULL));
    assert_int_equal(m.load.refused, 1);
    assert_int_equal(m.load.stalest, 1);
}

/* ---- who may begin ------------------------------------------------------- */

static void
a_closure_lacks_what_is_open_and_what_begins(void **state)
{
    (void)state;
    Arena *arena = arena_new(NULL, "a test");
    RtPsStaleness s = {.arena = arena, .bound = 1};
    assert_true(rt_staleness_may_begin(&s, 1));
    rt_staleness_begin(&s, 1);
    assert_true(rt_staleness_may_begin(&s, 2));
    rt_staleness_begin(&s, 2);
    assert_false(rt_staleness_may_begin(&s, 3)); /* it would lack 1 and 2 */
    rt_staleness_end(&s, 2);
    assert_false(rt_staleness_may_begin(&s, 3)); /* 1 would lack 2 and 3 */
    assert_true(rt_staleness_may_begin(&s, 1));  /* again, elsewhere */
    rt_staleness_begin(&s, 1);
    assert_true(rt_staleness_may_begin(&s, 3)); /* it has pulled since */
    rt_staleness_end(&s, 1);
    rt_staleness_end(&s, 1);
    assert_int_equal(s.begun.len, 0);
    arena_release(arena);
}

/* Servers and workers in whatever order: closures begin, are lost, begin
 * again, and an attempt that is late pushes before or after the other one. */
static void
no_push_is_staler_than_the_bound(void **state)
{
    enum { MOST = 12, STEPS = 200000 };
    (void)state;
    for (int64_t bound = 0; bound < 6; bound++) {
        Arena *arena = arena_new(NULL, "a test");
        RtPsStaleness s = {.arena = arena, .bound = bound};
        RtPsMeter m = {.bound = bound};
        int64_t ids[MOST] = {0}, clocks[MOST], late[MOST], next = 1;
        uint32_t random = 1;
        for (int i = 0; i < STEPS; i++) {
            random = random * 1664525 + 1013904223;
            int k = (int)(random >> 8) % MOST, what = (int)(random >> 20) % 4;
            if (!ids[k] && rt_staleness_may_begin(&s, next)) {
                ids[k] = next++;
                late[k] = RT_PS_NO_PULL;
                rt_staleness_begin(&s, ids[k]);
                clocks[k] = rt_meter_clock(&m);
            } else if (ids[k] && what == 0) { /* its worker is lost */
                late[k] = clocks[k];
                assert_true(rt_staleness_may_begin(&s, ids[k]));
                rt_staleness_begin(&s, ids[k]);
                clocks[k] = rt_meter_clock(&m);
            } else if (ids[k] && what == 1 && late[k] != RT_PS_NO_PULL &&
                       rt_meter_admits(&m, late[k])) {
                rt_meter_push(&m, late[k], 1);
                rt_staleness_end(&s, ids[k]);
                ids[k] = 0;
            } else if (ids[k] && what > 1) {
                assert_true(rt_meter_admits(&m, clocks[k]));
                rt_meter_push(&m, clocks[k], 1);
                rt_staleness_end(&s, ids[k]);
                ids[k] = 0;
            }
        }
        assert_int_equal(m.load.stalest, bound);
        assert_true(m.load.closures > STEPS / 100);
        arena_release(arena);
    }
}

/* ---- rounds -------------------------------------------------------------- */

static void
the_first_of_a_round_count(void **state)
{
    (void)state;
    RtPsRounds r = {.need = 2, .of = 3};
    assert_false(rt_rounds_are_complete(&r));
    rt_rounds_open(&r, 3);
    assert_true(rt_rounds_count(&r, 1));
    assert_false(rt_rounds_are_complete(&r));
    assert_true(rt_rounds_count(&r, 1));
    assert_true(rt_rounds_are_complete(&r));
    rt_rounds_close(&r);
    rt_rounds_open(&r, 1);                /* main waited */
    assert_false(rt_rounds_count(&r, 1)); /* late */
    assert_true(rt_rounds_count(&r, 2));
    assert_true(rt_rounds_are_complete(&r));
    assert_false(rt_rounds_count(&r, 2));
    assert_int_equal(r.sum_counted, 3);
    assert_int_equal(r.sum_dropped, 2);
}

static void
a_round_whose_closures_are_cancelled_is_complete(void **state)
{
    (void)state;
    RtPsRounds r = {.need = 2, .of = 3};
    rt_rounds_open(&r, 3);
    assert_true(rt_rounds_count(&r, 1));
    rt_rounds_leave(&r, 1);
    rt_rounds_leave(&r, 0); /* one of no round */
    assert_false(rt_rounds_are_complete(&r));
    rt_rounds_leave(&r, 1);
    assert_true(rt_rounds_are_complete(&r));
    assert_int_equal(r.counted, 1);
}

/* What is damaged is refused, whatever it is; no crash. */
static void
damaged_answers_are_refused(void **state)
{
    (void)state;
    Arena *arena = arena_new(NULL, "a test");
    RtPsTask tasks[] = {{.host = "here", .pid = 7, .in_flight = 3, .done = 9},
                        {.host = ""}};
    RtPsLoad loads[] = {{.index = 0, .at = 5, .staleness = {1, 2}},
                        {.index = 1}};
    RtPsStatus s = {.scheduled = 12,
                    .num_workers = 2,
                    .num_servers = 2,
                    .workers = tasks,
                    .servers = tasks,
                    .loads = loads};
    RtArchive out = rt_archive_writer(arena, 0), in;
    rt_ps_begin(&out, RT_PS_STATUS);
    rt_ps_status(&out, &s);
    for (size_t n = 0; n <= out.len; n++) {
        RtPsStatus got;
        RtPsType type = rt_ps_read(&in, arena, out.data, n);
        rt_ps_status(&in, &got);
        assert_int_equal(rt_ps_is_good(&in), n == out.len);
        if (n < out.len)
            continue;
        assert_int_equal(type, RT_PS_STATUS);
        assert_string_equal(got.workers[0].host, "here");
        assert_int_equal(got.loads[0].staleness[1], 2);
    }
    for (size_t at = 4; at < out.len; at++) {
        RtPsStatus got;
        char old = out.data[at];
        out.data[at] = (char)0xff;
        rt_ps_read(&in, arena, out.data, out.len);
        rt_ps_status(&in, &got);
        rt_ps_is_good(&in);
        out.data[at] = old;
    }
    arena_release(arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_powers_of_two),
        cmocka_unit_test(staleness_is_what_others_have_pushed),
        cmocka_unit_test(what_is_staler_than_allowed_is_refused),
        cmocka_unit_test(a_closure_lacks_what_is_open_and_what_begins),
        cmocka_unit_test(no_push_is_staler_than_the_bound),
        cmocka_unit_test(the_first_of_a_round_count),
        cmocka_unit_test(a_round_whose_closures_are_cancelled_is_complete),
        cmocka_unit_test(damaged_answers_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
