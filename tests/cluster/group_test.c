/*
 * group_test.c - what a group promises, by the one that tests use
 */
#include "tests/unit/unit.h"

#include "tests/cluster/forked.h"

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

static void
every_process_gets_the_same(void **state)
{
    (void)state;
    int statuses[4];
    Forked *f = forked_new(4, 0);
    forked_run(f, use_all, NULL, statuses);
    for (int r = 0; r < 4; r++)
        assert_int_equal(statuses[r], 0);
    forked_free(f);
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
    (void)state;
    int statuses[3];
    Forked *f = forked_new(3, 0);
    forked_run(f, stop_the_others, NULL, statuses);
    for (int r = 0; r < 3; r++)
        assert_int_equal(statuses[r], 0);
    forked_free(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_process_gets_the_same),
        cmocka_unit_test(an_abort_ends_the_waits_of_all),
    };
    return cmocka_run_group_tests_name("group", tests, NULL, NULL);
}
