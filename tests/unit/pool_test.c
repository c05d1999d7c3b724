/*
 * pool_test.c - a device's threads: every item is executed once, by the same
 * thread where that is free
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "ir/base/clock.h"
#include "ir/base/thread.h"
#include "runtime/hal/cpu/pool.h"
#include "runtime/hal/wait.h"

enum { MAX_ITEMS = 5000 };

typedef struct Work {
    atomic_int times[MAX_ITEMS]; /* each item was done */
    int64_t grain;
    atomic_bool too_small; /* a range */
    atomic_int num_ranges;
    atomic_llong largest;
    int64_t count;
} Work;

static Work work;

static void
do_range(void *data, int64_t begin, int64_t end)
{
    Work *w = data;
    if (end - begin < w->grain && end - begin < w->count)
        atomic_store(&w->too_small, true);
    atomic_fetch_add(&w->num_ranges, 1);
    for (long long most = w->largest; most < end - begin;)
        if (atomic_compare_exchange_weak(&w->largest, &most, end - begin))
            break;
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&w->times[i], 1);
}

static void
run_once(RtPool *p, int64_t count, int64_t grain)
{
    memset(&work, 0, sizeof work);
    work.grain = grain;
    work.count = count;
    rt_pool_run(p, do_range, &work, count, grain);
    assert_false(work.too_small);
    for (int64_t i = 0; i < MAX_ITEMS; i++)
        assert_int_equal(work.times[i], i < count);
}

static void
run_all(int num_threads, bool spin)
{
    static const int64_t counts[] = {0, 1, 2, 7, 100, MAX_ITEMS};
    static const int64_t grains[] = {1, 3, 64, 100000};
    RtPool *p;
    assert_null(rt_pool_open(num_threads, spin, &p));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t k = 0; k < sizeof grains / sizeof *grains; k++)
            run_once(p, counts[i], grains[k]);
    rt_pool_close(p);
}

static void
every_item_is_done_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        run_all(threads, false);
        run_all(threads, true);
    }
}

/* Two threads: three ranges of 150 would take as long as 300 items. */
static void
threads_have_equal_shares(void **state)
{
    static const struct {
        int64_t count, grain;
        int ranges, largest;
    } cases[] = {
        {450, 128, 2, 225}, {451, 128, 2, 226}, {770, 128, 6, 129},
        {10, 1, 8, 2},      {3, 1, 2, 2},       {5000, 1, 8, 625},
        {1, 1, 1, 1},       {255, 128, 1, 255},
    };
    RtPool *p;
    (void)state;
    assert_null(rt_pool_open(2, false, &p));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_once(p, cases[i].count, cases[i].grain);
        assert_int_equal(work.num_ranges, cases[i].ranges);
        assert_int_equal(work.largest, cases[i].largest);
    }
    rt_pool_close(p);
}

/* Where two threads began: the caller, and the other one. */
typedef struct Begins {
    pthread_t caller;
    atomic_llong of[2]; /* -1: not yet */
} Begins;

/* A thread that has begun waits until the other one has, too. */
static void
note_begin(void *data, int64_t begin, int64_t end)
{
    Begins *b = data;
    bool other = !pthread_equal(pthread_self(), b->caller);
    long long none = -1;
    (void)end;
    atomic_compare_exchange_strong(&b->of[other], &none, begin);
    while (atomic_load(&b->of[!other]) < 0)
        sched_yield();
}

/* So what a thread has computed is in its cache in the next job. */
static void
threads_begin_with_their_own_half(void **state)
{
    RtPool *p;
    (void)state;
    assert_null(rt_pool_open(2, rt_may_spin(2), &p));
    for (int i = 0; i < 200; i++) {
        int64_t count = i % 2 ? 800 : 16;
        Begins b = {.caller = pthread_self(), .of = {-1, -1}};
        rt_pool_run(p, note_begin, &b, count, 1);
        assert_int_equal(b.of[0], 0);
        assert_int_equal(b.of[1], count / 2);
    }
    rt_pool_close(p);
}

static void
add_range(void *data, int64_t begin, int64_t end)
{
    atomic_fetch_add((atomic_llong *)data, end - begin);
}

/* Jobs follow each other so fast that workers come late to many. */
static void
many_small_jobs(void **state)
{
    RtPool *p;
    atomic_llong sum = 0;
    (void)state;
    assert_null(rt_pool_open(3, rt_may_spin(3), &p));
    for (int i = 0; i < 3000; i++)
        rt_pool_run(p, add_range, &sum, 5 + i % 3, 1);
    assert_int_equal(sum, 3000 * 6);
    rt_pool_close(p);
}

static void
a_pool_may_be_unused(void **state)
{
    RtPool *p;
    (void)state;
    assert_null(rt_pool_open(4, true, &p));
    rt_pool_close(p);
    rt_pool_close(NULL);
}

static void
a_wait_has_an_end(void **state)
{
    RtWaitWord w = {0};
    double begin = clock_seconds();
    (void)state;
    assert_int_equal(rt_wait_word_wait(&w, 0, true), 0);
    assert_true(clock_seconds() - begin < 5.0);
    assert_int_equal(rt_wait_word_add(&w, 3), 3);
    assert_int_equal(rt_wait_word_wait(&w, 0, false), 3);
}

static void
spinning_is_for_few_threads(void **state)
{
    (void)state;
    setenv("TFD_SPIN", "0", 1);
    assert_false(rt_may_spin(1));
    unsetenv("TFD_SPIN");
    assert_true(rt_may_spin(1));
    assert_false(rt_may_spin(num_cores() + 1));
}

static void *
size_of_stack(void *size)
{
    pthread_attr_t attr;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
    assert_int_equal(pthread_attr_getstacksize(&attr, size), 0);
    pthread_attr_destroy(&attr);
    return NULL;
}

/* What kernels need is there whatever the user's limit is. */
static void
stacks_are_large(void **state)
{
    (void)state;
    enum { SMALL = 256 << 10 };
    pthread_attr_t usual, small;
    pthread_t thread;
    size_t size = 0;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, SMALL), 0);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    assert_null(thread_start(&thread, size_of_stack, &size, "a test"));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    pthread_attr_destroy(&small);
    pthread_attr_destroy(&usual);
    assert_true(size >= THREAD_STACK_BYTES);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_done_once),
        cmocka_unit_test(threads_have_equal_shares),
        cmocka_unit_test(threads_begin_with_their_own_half),
        cmocka_unit_test(many_small_jobs),
        cmocka_unit_test(a_pool_may_be_unused),
        cmocka_unit_test(a_wait_has_an_end),
        cmocka_unit_test(spinning_is_for_few_threads),
        cmocka_unit_test(stacks_are_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
