/*
 * ps_load_test.c - what a server counts of pulls and pushes
 */
#include "tests/unit/unit.h"

#include "runtime/ps/applied.h"

static RtPsRoute
route(uint8_t id)
{
    return (RtPsRoute){.len = 1, .id = {id}};
}

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
    RtPsMeter m;
    RtPsRoute a = route(1), b = route(2), c = route(3);
    Arena *arena = arena_new(NULL, "a test");
    rt_meter_init(&m, arena);
    rt_meter_pull(&m, &a, 100);
    rt_meter_pull(&m, &b, 10);
    rt_meter_push(&m, &a, 5); /* 0 */
    rt_meter_push(&m, &c, 5); /* has not pulled */
    rt_meter_push(&m, &b, 5); /* 2 */
    rt_meter_push(&m, &b, 5); /* not since */
    rt_meter_pull(&m, &a, 1);
    rt_meter_push(&m, &a, 5); /* 0 */
    assert_int_equal(m.load.staleness[0], 2);
    assert_int_equal(m.load.staleness[1], 0);
    assert_int_equal(m.load.staleness[2], 1);
    assert_int_equal(m.load.stalest, 2);
    assert_int_equal(m.load.closures, 5);
    assert_int_equal(m.load.pulled, 111);
    assert_int_equal(m.load.pushed, 25);
    arena_release(arena);
}

/* Whoever connects again and again has no end of routes. */
static void
memory_is_bounded(void **state)
{
    (void)state;
    RtPsMeter m;
    Arena *arena = arena_new(NULL, "a test");
    rt_meter_init(&m, arena);
    for (int i = 0; i < 3 * RT_PS_MOST_TASKS; i++) {
        RtPsRoute r = {.len = 2, .id = {(uint8_t)(i >> 8), (uint8_t)i}};
        rt_meter_pull(&m, &r, 1);
        rt_meter_push(&m, &r, 1);
    }
    assert_int_equal(m.pullers.len, RT_PS_MOST_TASKS);
    assert_int_equal(m.load.staleness[0], 3 * RT_PS_MOST_TASKS);
    arena_release(arena);
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
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(damaged_answers_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
