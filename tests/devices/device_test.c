/*
 * device_test.c - the contract of an RtDevice
 *
 * One row of `kinds` for each way to open a device; the tests do not depend on
 * its kind.
 */
#include "tests/unit/unit.h"
#include "tests/unit/asleep.h"

#include <stdatomic.h>
#include "ir/base/clock.h"
#include "runtime/hal/wait.h"
#include "runtime/hal/registry/driver.h"

enum { ARENA_BYTES = 3 * 4096 + 100, NUM_ITEMS = 1000, MANY = 1000 };

typedef struct Kind {
    IrDeviceKind kind;
    RtDeviceConfig config;
    const char *sandbox; /* its options */
} Kind;

static const Kind kinds[] = {
    {DEVICE_cpu, {.name = "cpu:0", .num_threads = 1, .on_caller = true}, ""},
    {DEVICE_cpu, {.name = "cpu:1", .num_threads = 1}, ""},
    {DEVICE_cpu, {.name = "cpu:2", .num_threads = 3, .on_caller = true}, ""},
    {DEVICE_cpu, {.name = "cpu:3", .num_threads = 3}, ""},
    {DEVICE_cpu, {.name = "cpu:4", .num_threads = 2, .spin = true}, ""},
    {DEVICE_sandbox, {.name = "sandbox:0", .num_threads = 1}, "seed:0"},
    {DEVICE_sandbox, {.name = "sandbox:1", .num_threads = 1}, "seed:1"},
    {DEVICE_sandbox, {.name = "sandbox:2", .num_threads = 3}, "seed:2"},
    {DEVICE_sandbox, {.name = "sandbox:3", .num_threads = 1}, "seed:3"},
    {DEVICE_sandbox, {.name = "sandbox:4", .num_threads = 1}, "seed:4"},
    {DEVICE_sandbox, {.name = "sandbox:5", .num_threads = 1}, "engine"},
    {DEVICE_sandbox,
     {.name = "sandbox:6", .num_threads = 1},
     "one-queue,seed:5"},
};

/* ---- the code of a plan -------------------------------------------------- */

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

/* How often each item was done; a place on the device. */
static void
mark_items(void *const *ptrs, const int64_t *dims, int64_t begin, int64_t end)
{
    int32_t *times = ptrs[0];
    for (int64_t i = begin; i < end; i++)
        times[i] += (int32_t)dims[0];
}

static int32_t
mark_in_parallel(TfdCall *call)
{
    RtDevice *d = call->context;
    void *ptrs[] = {call->base};
    const int64_t dims[] = {3};
    d->ops->program->parallel(d, mark_items, ptrs, dims, NUM_ITEMS, 10);
    return 0;
}

/* Waits until two of them run. */
static int32_t
meet(TfdCall *call)
{
    RtWaitWord *present = (RtWaitWord *)(void *)call->in[0];
    RtDevice *d = call->context;
    uint32_t n = rt_wait_word_add(present, 1);
    for (int i = 0; i < 100 && n < 2; i++)
        n = d->ops->program->wait_word(d, present, n);
    return n < 2;
}

/* Until it is let go. */
static int32_t
linger(TfdCall *call)
{
    RtWaitWord *go = (RtWaitWord *)(void *)call->in[0];
    RtDevice *d = call->context;
    while (d->ops->program->wait_word(d, go, 0) == 0)
        ;
    return 7;
}

/* Reads a word of the host to its memory, and adds one to it there. */
static void
add_one(void *data)
{
    int64_t n;
    memcpy(&n, data, sizeof n);
    n++;
    memcpy(data, &n, sizeof n);
}

typedef struct Round {
    RtDevice *device;
    RtDevicePtr place;
    RtEvent before;
} Round;

static int32_t
copy_and_add(TfdCall *call)
{
    const Round *r = call->context;
    const RtProgramOps *program = r->device->ops->program;
    int64_t n = 41, back = 0;
    program->copy_in(r->device, r->place, &n, sizeof n);
    program->run(r->device, add_one, rt_ptr_address(r->place));
    program->copy_out(r->device, &back, r->place, sizeof back);
    return (int32_t)back;
}

static TfdFunction wait_and_add;

enum { COUNT_UP, MARK, MEET, LINGER, COPY_AND_ADD, WAIT_AND_ADD, NUM_PROGRAMS };

static TfdFunction *const programs[NUM_PROGRAMS] = {
    [COUNT_UP] = count_up,
    [MARK] = mark_in_parallel,
    [MEET] = meet,
    [LINGER] = linger,
    [COPY_AND_ADD] = copy_and_add,
    [WAIT_AND_ADD] = wait_and_add,
};
static TfdKernel *const kernels[] = {mark_items};
static const RtDeviceCode code = {.num_kernels = 1,
                                  .kernels = kernels,
                                  .num_programs = NUM_PROGRAMS,
                                  .programs = programs};

/* ---- devices ------------------------------------------------------------- */

static RtDevice *
open_device(size_t kind)
{
    RtDevice *d;
    setenv("TFD_SANDBOX", kinds[kind].sandbox, 1);
    assert_null(
        rt_driver_find(kinds[kind].kind)->open(&kinds[kind].config, &d));
    assert_null(d->ops->load(d, &code));
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

static RtDevicePtr
allocate(RtDevice *d, size_t bytes)
{
    const RtMemory *memory;
    assert_null(d->ops->alloc(d, bytes, 0, true, &memory));
    assert_ptr_equal(memory->device, d);
    assert_true(!memory->host == !d->caps->is_host_visible);
    return (RtDevicePtr){memory, 0};
}

static RtQueue *
compute_of(RtDevice *d)
{
    return d->queues[QUEUE_COMPUTE];
}

static int32_t
run(RtDevice *d, int program, TfdCall *call)
{
    RtProgramLaunch launch = {program, call, 0, -1};
    d->ops->launch_program(compute_of(d), &launch);
    rt_event_wait(d->ops->record(compute_of(d)));
    return launch.status;
}

/* ---- memory -------------------------------------------------------------- */

static void
check_memory(RtDevice *d)
{
    static const char zeros[ARENA_BYTES];
    char back[ARENA_BYTES];
    for (int i = 0; i < 3; i++) {
        RtDevicePtr p = allocate(d, ARENA_BYTES);
        assert_true(p.memory->bytes >= ARENA_BYTES);
        assert_int_equal(p.memory->address % 4096, 0);
        rt_copy_out(back, p, sizeof back);
        assert_memory_equal(back, zeros, sizeof back);
        rt_copy_in(rt_ptr_add(p, 4096), "some bytes", 11);
        rt_copy_out(back, rt_ptr_add(p, 4096), 11);
        assert_string_equal(back, "some bytes");
    }
}

static void
memory_is_zeros_on_pages(void **state)
{
    (void)state;
    on_each_kind(check_memory);
}

/* fill, copy, and copies behind a program, in the order of the queue. */
static void
check_order(RtDevice *d)
{
    const RtDeviceOps *ops = d->ops;
    RtQueue *q = compute_of(d);
    RtDevicePtr a = allocate(d, 64), b = allocate(d, 64);
    TfdCall call = {.abi = TFD_ABI, .base = rt_ptr_address(a)};
    RtProgramLaunch launch = {COUNT_UP, &call, 0, -1};
    int64_t n = 6, before = 0, after = 0, filled = 0;
    ops->copy_in(q, a, &n, sizeof n);
    ops->copy_out(q, &before, a, sizeof before);
    ops->launch_program(q, &launch);
    ops->copy(q, b, a, sizeof n);
    ops->fill(q, a, 0x11, sizeof n);
    ops->copy_out(q, &after, b, sizeof after);
    ops->copy_out(q, &filled, a, sizeof filled);
    rt_event_wait(ops->record(q));
    assert_int_equal(before, 6);
    assert_int_equal(launch.status, 7);
    assert_int_equal(after, 7);
    assert_int_equal(filled, 0x1111111111111111);
}

static void
a_queue_is_in_order(void **state)
{
    (void)state;
    on_each_kind(check_order);
}

/* Rows through memory of the host, which host code reads in place. */
static void
check_rows(RtDevice *d)
{
    const RtMemory *hosts;
    char back[16];
    RtDevicePtr p = allocate(d, 64);
    assert_null(d->ops->alloc_host(d, 64, &hosts));
    assert_non_null(hosts->host);
    rt_copy_in(p, "..ab..cd..ef", 12);
    RtRowsCopy out = {{hosts, 1}, rt_ptr_add(p, 2), 3, 4, 2, 3};
    RtRowsCopy in = {rt_ptr_add(p, 16), {hosts, 1}, 2, 3, 2, 3};
    RtRowsCopy none = {p, {hosts, 0}, 8, 8, 8, 0};
    d->ops->copy_rows(compute_of(d), &out);
    d->ops->copy_rows(compute_of(d), &in);
    d->ops->copy_rows(compute_of(d), &none);
    rt_copy_out(back, rt_ptr_add(p, 16), 6);
    assert_memory_equal(back, "abcdef", 6);
    assert_memory_equal(rt_ptr_host((RtDevicePtr){hosts, 0}), "\0ab\0cd\0ef\0",
                        10);
}

static void
rows_are_copied(void **state)
{
    (void)state;
    on_each_kind(check_rows);
}

/* ---- programs and kernels ------------------------------------------------ */

static void
check_launches(RtDevice *d)
{
    RtDevicePtr p = allocate(d, 64);
    TfdCall call = {.abi = TFD_ABI, .base = rt_ptr_address(p)};
    for (int i = 1; i <= 500; i++)
        assert_int_equal(run(d, COUNT_UP, &call), i);
    if (!strcmp(d->name, "cpu:1"))
        wait_until_asleep(&runner); /* and wakes again */
    assert_int_equal(run(d, COUNT_UP, &call), 501);
}

static void
launches_are_in_order(void **state)
{
    (void)state;
    on_each_kind(check_launches);
}

/* More than any queue has room for. */
static void
check_many(RtDevice *d)
{
    static RtProgramLaunch launches[MANY];
    RtDevicePtr p = allocate(d, 64);
    TfdCall call = {.abi = TFD_ABI, .base = rt_ptr_address(p)};
    for (int i = 0; i < MANY; i++) {
        launches[i] = (RtProgramLaunch){COUNT_UP, &call, 0, -1};
        d->ops->launch_program(compute_of(d), &launches[i]);
    }
    rt_event_wait(d->ops->record(compute_of(d)));
    for (int i = 0; i < MANY; i++)
        assert_int_equal(launches[i].status, i + 1);
}

static void
a_queue_takes_any_number(void **state)
{
    (void)state;
    on_each_kind(check_many);
}

static void
check_items(RtDevicePtr p, int times)
{
    int32_t items[NUM_ITEMS];
    rt_copy_out(items, p, sizeof items);
    for (int i = 0; i < NUM_ITEMS; i++)
        assert_int_equal(items[i], times);
}

static void
check_parallel(RtDevice *d)
{
    RtDevicePtr p = allocate(d, NUM_ITEMS * sizeof(int32_t));
    TfdCall call = {.abi = TFD_ABI, .base = rt_ptr_address(p), .context = d};
    for (int i = 0; i < 20; i++)
        assert_int_equal(run(d, MARK, &call), 0);
    check_items(p, 60);
}

static void
kernels_are_split(void **state)
{
    (void)state;
    on_each_kind(check_parallel);
}

static void
check_kernel(RtDevice *d)
{
    RtDevicePtr p = allocate(d, NUM_ITEMS * sizeof(int32_t));
    void *ptrs[] = {rt_ptr_address(p)};
    const int64_t dims[] = {5};
    RtKernelLaunch launch = {0, ptrs, dims, NUM_ITEMS, 10, 1};
    for (int i = 0; i < 3; i++)
        d->ops->launch_kernel(compute_of(d), &launch);
    check_items(p, 15); /* on the same queue */
}

static void
kernels_are_launched_by_number(void **state)
{
    (void)state;
    on_each_kind(check_kernel);
}

static void
check_services(RtDevice *d)
{
    Round round = {d, allocate(d, 64), {0}};
    TfdCall call = {.abi = TFD_ABI, .context = &round};
    assert_int_equal(run(d, COPY_AND_ADD, &call), 42);
}

static void
programs_copy_and_run(void **state)
{
    (void)state;
    on_each_kind(check_services);
}

/* ---- queues and events --------------------------------------------------- */

static void
note_call(void *data)
{
    ++*(int *)data;
}

/* A task on one queue, then one on each other queue, by events. */
static void
check_events(RtDevice *d)
{
    const RtDeviceOps *ops = d->ops;
    RtDevicePtr p = allocate(d, 64);
    RtEvent last = {0};
    int64_t n = 0;
    int calls = 0;
    for (int i = 0; i < 30; i++) {
        RtQueue *q = d->queues[i % NUM_QUEUES];
        ops->wait_event(q, last);
        ops->run(q, add_one, rt_ptr_address(p), 0);
        ops->call_host(q, note_call, &calls);
        last = ops->record(q);
    }
    ops->wait_event(compute_of(d), last);
    ops->copy_out(compute_of(d), &n, p, sizeof n);
    rt_event_wait(ops->record(compute_of(d)));
    assert_int_equal(n, 30);
    assert_int_equal(calls, 30);
    assert_true(ops->wait(last));
    rt_event_wait((RtEvent){0}); /* has happened */
}

static void
queues_wait_for_events(void **state)
{
    (void)state;
    on_each_kind(check_events);
}

static int32_t
wait_and_add(TfdCall *call)
{
    const Round *r = call->context;
    const RtProgramOps *program = r->device->ops->program;
    RtDevice *d = r->device;
    int64_t n = 0;
    program->wait_event(d, r->before);
    program->copy_out(d, &n, r->place, sizeof n);
    RtEvent first = program->record(d), second = program->record(d);
    program->wait_event(d, first);
    program->wait_event(d, second);
    return (int32_t)n + 1;
}

/* Each of two devices' queues goes on when the other's has: they add one to a
 * number in turns.  Then a program waits for the last of them. */
static void
check_both(RtDevice *own, RtDevice *other)
{
    RtDevice *devices[] = {own, other};
    RtDevicePtr p = allocate(own, 64);
    RtEvent last = {0};
    for (int i = 0; i < 20; i++) {
        RtDevice *d = devices[i % 2];
        RtQueue *q = d->queues[i % 4 < 2 ? QUEUE_COLL : QUEUE_COMPUTE];
        d->ops->wait_event(q, last);
        d->ops->run(q, add_one, rt_ptr_address(p), 0);
        last = d->ops->record(q);
    }
    Round round = {own, p, last};
    TfdCall call = {.abi = TFD_ABI, .context = &round};
    assert_int_equal(run(own, WAIT_AND_ADD, &call), 21);
}

static void
devices_wait_for_each_other(void **state)
{
    (void)state;
    for (size_t i = 1; i < sizeof kinds / sizeof *kinds; i++) {
        RtDevice *own = open_device(i - 1);
        if (own->caps->has_coll_engine && kinds[i].kind == kinds[i - 1].kind) {
            RtDevice *other = open_device(i);
            check_both(own, other);
            other->ops->close(other);
        }
        own->ops->close(own);
    }
}

static void
devices_run_at_the_same_time(void **state)
{
    (void)state;
    for (size_t i = 1; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].config.on_caller || kinds[i].kind != kinds[i - 1].kind)
            continue;
        RtWaitWord present = {0};
        RtDevice *own = open_device(i - 1), *other = open_device(i);
        char *in[] = {(char *)&present};
        TfdCall call = {.abi = TFD_ABI, .in = in, .context = own};
        TfdCall others = {.abi = TFD_ABI, .in = in, .context = other};
        RtProgramLaunch launch = {MEET, &others, 0, -1};
        other->ops->launch_program(compute_of(other), &launch);
        assert_int_equal(run(own, MEET, &call), 0);
        rt_event_wait(other->ops->record(compute_of(other)));
        assert_int_equal(launch.status, 0);
        own->ops->close(own);
        other->ops->close(other);
    }
}

static void
check_bound(RtDevice *d)
{
    RtWaitWord go = {0};
    char *in[] = {(char *)&go};
    TfdCall call = {.abi = TFD_ABI, .in = in, .context = d};
    RtProgramLaunch launch = {LINGER, &call, 0, -1};
    double begin = clock_seconds();
    d->ops->launch_program(compute_of(d), &launch);
    RtEvent end = d->ops->record(compute_of(d));
    assert_false(d->ops->wait(end));
    assert_true(clock_seconds() - begin < 10.0);
    rt_wait_word_add(&go, 1);
    rt_event_wait(end);
    assert_int_equal(launch.status, 7);
}

static void
waiting_is_bounded(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].config.on_caller)
            continue;
        RtDevice *d = open_device(i);
        check_bound(d);
        d->ops->close(d);
    }
}

static void
check_shortage(RtDevice *d)
{
    const RtMemory *memory;
    Status st = d->ops->alloc(d, SIZE_MAX / 4, 0, true, &memory);
    assert_non_null(st);
    assert_int_equal(status_kind(st), STATUS_MACHINE);
    status_free(st);
}

static void
too_much_memory_is_refused(void **state)
{
    (void)state;
    on_each_kind(check_shortage);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeros_on_pages),
        cmocka_unit_test(a_queue_is_in_order),
        cmocka_unit_test(rows_are_copied),
        cmocka_unit_test(launches_are_in_order),
        cmocka_unit_test(a_queue_takes_any_number),
        cmocka_unit_test(kernels_are_split),
        cmocka_unit_test(kernels_are_launched_by_number),
        cmocka_unit_test(programs_copy_and_run),
        cmocka_unit_test(queues_wait_for_events),
        cmocka_unit_test(devices_wait_for_each_other),
        cmocka_unit_test(devices_run_at_the_same_time),
        cmocka_unit_test(waiting_is_bounded),
        cmocka_unit_test(too_much_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
