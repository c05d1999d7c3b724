/*
 * device_test.c - the contract of an RtDevice
 *
 * One row of `kinds` for each way to open a device; the tests do not depend on
 * its kind.
 */
#include "tests/unit/unit.h"
#include "tests/unit/asleep.h"

#include <stdatomic.h>
#include "runtime/hal/cpu/wait.h"
#include "runtime/hal/device.h"

enum { NUM_ARENAS = 3, ARENA_BYTES = 3 * 4096 + 100, NUM_ITEMS = 1000 };

static const RtDeviceConfig kinds[] = {
    {.name = "cpu:0", .num_threads = 1, .on_caller = true},
    {.name = "cpu:1", .num_threads = 1},
    {.name = "cpu:2", .num_threads = 3, .on_caller = true},
    {.name = "cpu:3", .num_threads = 3},
    {.name = "cpu:4", .num_threads = 2, .spin = true},
};

static RtDevice *
open_device(size_t kind)
{
    RtDevice *d;
    assert_null(rt_cpu_open(&kinds[kind], &d));
    assert_null(d->ops->reserve(d, ARENA_BYTES, NUM_ARENAS));
    return d;
}

static void
on_each_kind(void (*test)(RtDevice *d))
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        RtDevice *d = open_device(i);
        test(d);
        d->ops->close(d);
    }
}

static int32_t
run(RtDevice *d, TfdFunction *code, void *context)
{
    TfdCall call = {.abi = TFD_ABI, .base = d->arena, .context = context};
    int32_t status = -1;
    d->ops->launch(d, code, &call);
    while (!d->ops->wait(d, &status))
        ;
    return status;
}

static void
check_memory(RtDevice *d)
{
    static const char zeros[ARENA_BYTES];
    char back[ARENA_BYTES];
    assert_true(d->arena_stride >= ARENA_BYTES);
    assert_true(d->reserved >= NUM_ARENAS * d->arena_stride);
    for (int i = 0; i < NUM_ARENAS; i++) {
        char *arena = d->arena + (size_t)i * d->arena_stride;
        assert_int_equal((uintptr_t)arena % 4096, 0);
        d->ops->copy_out(d, back, arena, sizeof back);
        assert_memory_equal(back, zeros, sizeof back);
        d->ops->copy_in(d, arena + 4096, "some bytes", 11);
        d->ops->copy_out(d, back, arena + 4096, 11);
        assert_string_equal(back, "some bytes");
    }
}

static void
arenas_are_zeros_on_pages(void **state)
{
    (void)state;
    on_each_kind(check_memory);
}

static _Atomic pid_t runner; /* the thread that runs launched programs */

static int32_t
count_up(TfdCall *call)
{
    int64_t n;
    atomic_store(&runner, gettid());
    memcpy(&n, call->base, sizeof n);
    n++;
    memcpy(call->base, &n, sizeof n);
    return (int32_t)n;
}

static void
check_launches(RtDevice *d)
{
    for (int i = 1; i <= 500; i++)
        assert_int_equal(run(d, count_up, NULL), i);
    if (!strcmp(d->name, "cpu:1"))
        wait_until_asleep(&runner); /* and wakes again */
    assert_int_equal(run(d, count_up, NULL), 501);
}

static void
launches_are_in_order(void **state)
{
    (void)state;
    on_each_kind(check_launches);
}

typedef struct Items {
    RtDevice *device;
    atomic_int times[NUM_ITEMS];
} Items;

static void
mark_items(void *const *ptrs, const int64_t *dims, int64_t begin, int64_t end)
{
    Items *items = ptrs[0];
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&items->times[i], (int)dims[0]);
}

static int32_t
mark_in_parallel(TfdCall *call)
{
    Items *items = call->context;
    void *ptrs[] = {items};
    const int64_t dims[] = {3};
    items->device->ops->parallel(items->device, mark_items, ptrs, dims,
                                 NUM_ITEMS, 10);
    return 0;
}

static void
check_parallel(RtDevice *d)
{
    Items items = {.device = d};
    for (int i = 0; i < 20; i++)
        assert_int_equal(run(d, mark_in_parallel, &items), 0);
    for (int i = 0; i < NUM_ITEMS; i++)
        assert_int_equal(items.times[i], 60);
}

static void
kernels_are_split(void **state)
{
    (void)state;
    on_each_kind(check_parallel);
}

/* Waits until two of them run. */
static int32_t
meet(TfdCall *call)
{
    RtWaitWord *present = call->context;
    uint32_t n = rt_wait_word_add(present, 1);
    for (int i = 0; i < 100 && n < 2; i++)
        n = rt_wait_word_wait(present, n, false);
    return n < 2;
}

static void
devices_run_at_the_same_time(void **state)
{
    RtWaitWord present = {0};
    RtDevice *own = open_device(0), *other = open_device(1);
    TfdCall call = {.abi = TFD_ABI, .context = &present};
    int32_t status = -1;
    (void)state;
    other->ops->launch(other, meet, &call);
    assert_int_equal(run(own, meet, &present), 0);
    while (!other->ops->wait(other, &status))
        ;
    assert_int_equal(status, 0);
    own->ops->close(own);
    other->ops->close(other);
}

/* Until it is let go. */
static int32_t
linger(TfdCall *call)
{
    RtWaitWord *go = call->context;
    while (rt_wait_word_wait(go, 0, false) == 0)
        ;
    return 7;
}

static void
waiting_is_bounded(void **state)
{
    RtWaitWord go = {0};
    RtDevice *d = open_device(1);
    TfdCall call = {.abi = TFD_ABI, .context = &go};
    int32_t status = -1;
    double begin = rt_seconds();
    (void)state;
    d->ops->launch(d, linger, &call);
    assert_false(d->ops->wait(d, &status));
    assert_true(rt_seconds() - begin < 10.0);
    rt_wait_word_add(&go, 1);
    while (!d->ops->wait(d, &status))
        ;
    assert_int_equal(status, 7);
    d->ops->close(d);
}

static void
too_much_memory_is_refused(void **state)
{
    RtDevice *d;
    (void)state;
    assert_null(rt_cpu_open(&kinds[0], &d));
    Status st = d->ops->reserve(d, SIZE_MAX / 4, 2);
    assert_non_null(st);
    assert_int_equal(status_kind(st), STATUS_MACHINE);
    status_free(st);
    d->ops->close(d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arenas_are_zeros_on_pages),
        cmocka_unit_test(launches_are_in_order),
        cmocka_unit_test(kernels_are_split),
        cmocka_unit_test(devices_run_at_the_same_time),
        cmocka_unit_test(waiting_is_bounded),
        cmocka_unit_test(too_much_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
