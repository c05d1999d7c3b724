/*
 * group_test.c - what a group promises, by the one that tests use, and by that
 * of processes that share memory
 */
#include "tests/unit/unit.h"

#include "ir/base/clock.h"
#include "runtime/cluster/group/shared.h"
#include "runtime/cluster/segments/speed.h"
#include "tests/cluster/exchange.h"
#include "tests/cluster/forked.h"
#include "tests/unit/arena.h"
#include "tests/unit/status.h"

enum { MOST_PART = 5000 };

static size_t
part_bytes(int rank)
{
    return rank == 1 ? 0 : (size_t)(rank + 1) * 1500;
}

/* Each rank's part is its number, again and again. */
static void
take_part(void *data, int rank, const void *part, size_t n)
{
    int *num_taken = data;
    bool right = rank == *num_taken && n == part_bytes(rank);
    for (size_t i = 0; i < n; i++)
        right = right && ((const char *)part)[i] == rank;
    *num_taken = right ? *num_taken + 1 : -100;
}

static int
gather_once(RtGroup *g)
{
    char own[FORKED_MOST * 1500];
    int num_taken = 0;
    memset(own, g->rank, sizeof own);
    if (g->ops->gather(g, 2, own, part_bytes(g->rank), take_part, &num_taken))
        return 1;
    return num_taken != (g->rank == 2 ? g->size : 0);
}

static int
broadcast_once(RtGroup *g, size_t n)
{
    char bytes[MOST_PART];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(g->rank == 1 ? i : 0);
    if (g->ops->broadcast(g, 1, bytes, n))
        return 1;
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != (char)i)
            return 1;
    return 0;
}

/* Two slots in flight at once, the second finished first. */
static int
exchange_twice(RtGroup *g, int round)
{
    int own[2] = {g->rank, round}, all[FORKED_MOST][2];
    int64_t other = 100 + g->rank, others[FORKED_MOST];
    if (g->ops->start(g, 0, own, sizeof own) ||
        g->ops->start(g, 1, &other, sizeof other) ||
        g->ops->finish(g, 1, others) || g->ops->finish(g, 0, all))
        return 1;
    for (int r = 0; r < g->size; r++)
        if (all[r][0] != r || all[r][1] != round || others[r] != 100 + r)
            return 1;
    return 0;
}

static int
use_all(void *data, Forked *f, RtGroup *g)
{
    (void)data;
    (void)f;
    int wrong = 0;
    for (int round = 0; round < 100; round++)
        wrong += exchange_twice(g, round);
    wrong += gather_once(g) + gather_once(g);
    return wrong + broadcast_once(g, 1) + broadcast_once(g, MOST_PART);
}

/* A minute goes by between two looks, of which half a second counts. */
static double
minutes(void)
{
    static int looks;
    return 61.0 * ++looks;
}

static RtGroup *
open_shared(RtGroup *group, RtClock *clock)
{
    RtExchange exchange = exchange_over(group);
    double timeout = clock == clock_seconds ? 60.0 : 2.0;
    RtSharedGroupConfig config = {&exchange, false, timeout, clock};
    RtGroup *shared;
    Arena *a = arena_new(NULL, "why");
    Str why = str_new(a);
    assert_null(rt_shared_group_open(&config, &shared, &why));
    assert_non_null(shared);
    arena_release(a);
    return shared;
}

typedef struct Test {
    ForkedBody *body;
    RtClock *clock;
} Test;

/* On a segment that the processes map. */
static int
run_shared(void *data, Forked *f, RtGroup *group)
{
    const Test *test = data;
    RtGroup *shared = open_shared(group, test->clock);
    int status = test->body(NULL, f, shared);
    shared->ops->close(shared);
    return status;
}

static void
run_on(int size, ForkedBody *body, void *data)
{
    int statuses[FORKED_MOST];
    Forked *f = forked_new(size, 64);
    forked_run(f, body, data, statuses);
    for (int r = 0; r < size; r++)
        assert_int_equal(statuses[r], 0);
    forked_free(f);
}

static void
every_process_gets_the_same(void **state)
{
    Test test = {use_all, clock_seconds};
    (void)state;
    run_on(4, use_all, NULL);
    run_on(4, run_shared, &test);
    run_on(3, run_shared, &test);
}

/* Rank 0 alone does not come to the first exchange. */
static int
stop_the_others(void *data, Forked *f, RtGroup *g)
{
    (void)data;
    (void)f;
    int own = 1, all[FORKED_MOST];
    if (g->rank == 0) {
        g->ops->abort(g);
    } else {
        Status st = g->ops->start(g, RT_GROUP_NOW, &own, sizeof own);
        if (!st)
            st = g->ops->finish(g, RT_GROUP_NOW, all);
        if (status_kind(st) != STATUS_STOPPED)
            return 1;
        status_free(st);
    }
    return 0;
}

static void
an_abort_ends_the_waits_of_all(void **state)
{
    Test test = {stop_the_others, clock_seconds};
    (void)state;
    run_on(3, stop_the_others, NULL);
    run_on(3, run_shared, &test);
}

/* ---- long parts ---------------------------------------------------------- */

enum { LONG_CALLS = 60, LONG_BYTES = 600 * 1000 };

/* That all choose alike. */
static unsigned
choice(int call, int of)
{
    unsigned x = (unsigned)call * 2654435761u + (unsigned)of * 40503u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    return x ^ (x >> 13);
}

/* Of a rank in a call: nothing, little, a block, and several. */
static size_t
long_bytes(int call, int rank)
{
    static const size_t most[] = {1, 100, (128 << 10) + 1, LONG_BYTES};
    return choice(call, rank) % most[choice(call, rank + 100) % 4];
}

static char
byte_at(int call, int rank, size_t i)
{
    return (char)(choice(call, rank) + i * 31 + (i >> 10) + (i >> 17) * 7);
}

static void
fill(char *to, int call, int rank, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = byte_at(call, rank, i);
}

static bool
is_filled(const char *bytes, int call, int rank, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != byte_at(call, rank, i))
            return false;
    return true;
}

typedef struct Taken {
    int call, num;
    bool is_wrong;
} Taken;

static void
take_long(void *data, int rank, const void *part, size_t n)
{
    Taken *t = data;
    t->is_wrong |= rank != t->num++ || n != long_bytes(t->call, rank) ||
                   !is_filled(part, t->call, rank, n);
}

/* Whether something is wrong. */
static bool
gather_long(RtGroup *g, int call, int root, char *bytes)
{
    Taken t = {.call = call};
    size_t n = long_bytes(call, g->rank);
    fill(bytes, call, g->rank, n);
    Status st = g->ops->gather(g, root, bytes, n, take_long, &t);
    memset(bytes, 0, n); /* it was copied */
    return st || t.is_wrong || t.num != (g->rank == root ? g->size : 0);
}

static bool
broadcast_long(RtGroup *g, int call, int root, char *bytes)
{
    size_t n = long_bytes(call, root);
    if (g->rank == root)
        fill(bytes, call, root, n);
    return g->ops->broadcast(g, root, bytes, n) ||
           !is_filled(bytes, call, root, n);
}

static int
use_channels(void *data, Forked *f, RtGroup *g)
{
    static char bytes[LONG_BYTES];
    int wrong = 0;
    (void)data;
    (void)f;
    for (int call = 0; call < LONG_CALLS; call++) {
        int root = (int)(choice(call, 7) % (unsigned)g->size);
        wrong += choice(call, 8) % 2 ? gather_long(g, call, root, bytes)
                                     : broadcast_long(g, call, root, bytes);
    }
    return wrong;
}

static void
parts_may_be_of_any_length(void **state)
{
    Test test = {use_channels, clock_seconds};
    (void)state;
    for (int size = 2; size <= 4; size++)
        run_on(size, run_shared, &test);
}

/* Rank 2 begins to read when rank 1 has read all, or would have, if what rank 2
 * has not read were overwritten. */
static int
read_late(void *data, Forked *f, RtGroup *g)
{
    enum { MOST_WAITS = 2 }; /* of a tenth of a second */
    static char bytes[LONG_BYTES];
    _Atomic uint32_t *read = forked_alloc(f, sizeof *read);
    (void)data;
    if (g->rank == 0)
        fill(bytes, 0, 0, sizeof bytes);
    for (int i = 0; g->rank == 2 && i < MOST_WAITS && !atomic_load(read); i++)
        forked_wait(read, 0);
    Status st = g->ops->broadcast(g, 0, bytes, sizeof bytes);
    if (g->rank == 1)
        forked_add(read, 1);
    return st || !is_filled(bytes, 0, 0, sizeof bytes);
}

static void
a_slow_reader_misses_nothing(void **state)
{
    Test test = {read_late, clock_seconds};
    (void)state;
    run_on(3, run_shared, &test);
}

/* ---- ranks that do not come ---------------------------------------------- */

/* Rank 1 does not. */
static int
wait_in_vain(void *data, Forked *f, RtGroup *g)
{
    int own = 0, all[FORKED_MOST];
    (void)data;
    (void)f;
    if (g->rank == 1)
        return 0;
    assert_null(g->ops->start(g, RT_GROUP_NOW, &own, sizeof own));
    assert_status(g->ops->finish(g, RT_GROUP_NOW, all), STATUS_INPUT,
                  "rank 1 has not come to an exchange of all processes in 2 "
                  "seconds");
    assert_status(g->ops->broadcast(g, 1, all, sizeof all), STATUS_INPUT,
                  "rank 1 has not come to an exchange of all processes in 2 "
                  "seconds");
    return 0;
}

static void
who_does_not_come_is_named(void **state)
{
    Test test = {wait_in_vain, minutes};
    (void)state;
    run_on(3, run_shared, &test);
}

/* ---- how fast memory is -------------------------------------------------- */

static void
open_speed_test(RtGroup *g, RtExchange *x, RtMemoryTest **test)
{
    Arena *a = arena_new(NULL, "test");
    Str why = str_new(a);
    *x = exchange_over(g);
    assert_null(rt_memory_test_open(x, false, test, &why));
    assert_non_null(*test);
    arena_release(a);
}

/* Ranks 0 and 1 do, and then 0 and 2 in vain. */
static int
measure_in_vain(void *data, Forked *f, RtGroup *g)
{
    _Atomic int32_t stopped = 0;
    RtMemorySpeed s = {0};
    RtMemoryTest *test;
    RtExchange x;
    (void)data;
    (void)f;
    open_speed_test(g, &x, &test);
    if (g->rank < 2) {
        assert_null(rt_memory_test_pair(test, 1 - g->rank, 60, &stopped, &s));
        assert_true((s.latency > 0) == (g->rank == 0) && s.rate > 0);
    }
    if (g->rank == 0) {
        assert_status(rt_memory_test_pair(test, 2, 0.01, &stopped, &s),
                      STATUS_MACHINE,
                      "rank 0 gets no answer of rank 2 over shared memory in "
                      "0.01 seconds (--timeout allows more)");
        stopped = 1;
        assert_status(rt_memory_test_pair(test, 2, 1000, &stopped, &s),
                      STATUS_MACHINE,
                      "rank 0 gets no answer of rank 2 over shared memory in "
                      "1000 seconds (--timeout allows more)");
    }
    rt_memory_test_close(test);
    return 0;
}

static void
a_pair_that_does_not_measure_is_named(void **state)
{
    int statuses[3];
    Forked *f = forked_new(3, 0);
    (void)state;
    forked_run(f, measure_in_vain, NULL, statuses);
    for (int i = 0; i < 3; i++)
        assert_int_equal(statuses[i], 0);
    forked_free(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_process_gets_the_same),
        cmocka_unit_test(an_abort_ends_the_waits_of_all),
        cmocka_unit_test(parts_may_be_of_any_length),
        cmocka_unit_test(a_slow_reader_misses_nothing),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(a_pair_that_does_not_measure_is_named),
    };
    return cmocka_run_group_tests_name("group", tests, NULL, NULL);
}
