/*
 * driver_test.c - CUDA devices on the fake driver, or on NVIDIA's
 *
 *   driver_test          on the fake driver
 *   driver_test --real   on the driver that there is, if it has a GPU
 *
 * The contract of an RtDevice in many orders, with kernels from PTX
 * (device_test has that of devices which execute the host's code).
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"
#include "tests/unit/status.h"

#include "runtime/hal/cuda/cuda_impl.h"
#include "runtime/hal/registry/driver.h"
#include "tests/cuda/add.h"

enum { NUM_ITEMS = 1000, SEEDS = 20, BIG = 20 << 20 };

static bool real; /* the driver is NVIDIA's: it has no options */

static PlanObject texts[] = {{"code/sm_80/k_add.ptx", direct_add, 0}};
static const RtDeviceCode code = {.num_kernels = 1, .kernel_texts = texts};

/* ---- devices ------------------------------------------------------------- */

static RtDevice *
open_device(int index, const char *options)
{
    RtDevice *d;
    RtDeviceConfig config = {.name = index ? "cuda:1" : "cuda:0",
                             .index = index};
    setenv("TFD_FAKE_CUDA", options, 1);
    assert_null(rt_driver_find(DEVICE_cuda)->open(&config, &d));
    assert_null(d->ops->load(d, &code));
    return d;
}

static RtDevicePtr
allocate(RtDevice *d, size_t bytes)
{
    const RtMemory *memory;
    assert_null(d->ops->alloc(d, bytes, 0, true, &memory));
    assert_null(memory->host);
    assert_int_equal(memory->address % 4096, 0);
    return (RtDevicePtr){memory, 0};
}

static void
in_each_order(void (*test)(RtDevice *d))
{
    for (int seed = 0; seed < SEEDS; seed++) {
        RtDevice *d = open_device(0, arena_printf(arena, "seed:%d", seed));
        test(d);
        assert_null(rt_device_status(d));
        d->ops->close(d);
    }
}

static void
add_on(RtQueue *q, RtDevicePtr p, int64_t n)
{
    void *ptrs[] = {rt_ptr_address(p)};
    RtKernelLaunch launch = {
        .ptrs = ptrs, .dims = &n, .count = NUM_ITEMS, .num_ptrs = 1};
    q->device->ops->launch_kernel(q, &launch);
}

static void
add_to(RtDevice *d, RtDevicePtr p, int64_t n)
{
    add_on(d->queues[QUEUE_COMPUTE], p, n);
}

/* ---- the contract -------------------------------------------------------- */

static void
check_memory(RtDevice *d)
{
    static const char zeros[8192];
    char back[8192];
    RtDevicePtr p = allocate(d, sizeof back);
    rt_copy_out(back, p, sizeof back);
    assert_memory_equal(back, zeros, sizeof back);
    rt_copy_in(rt_ptr_add(p, 4096), "some bytes", 11);
    rt_copy_out(back, rt_ptr_add(p, 4096), 11);
    assert_string_equal(back, "some bytes");
}

static void
memory_is_zeros_on_pages(void **state)
{
    (void)state;
    in_each_order(check_memory);
}

static void
check_kernels(RtDevice *d)
{
    int32_t items[NUM_ITEMS];
    RtQueue *q = d->queues[QUEUE_COMPUTE];
    RtDevicePtr p = allocate(d, sizeof items),
                other = allocate(d, sizeof items);
    add_to(d, p, 5);
    d->ops->copy(q, other, p, sizeof items);
    add_to(d, p, 7);
    d->ops->copy_out(q, items, p, sizeof items);
    rt_event_wait(d->ops->record(q));
    for (int i = 0; i < NUM_ITEMS; i++)
        assert_int_equal(items[i], 12);
    rt_copy_out(items, other, sizeof items);
    for (int i = 0; i < NUM_ITEMS; i++)
        assert_int_equal(items[i], 5);
}

static void
kernels_are_launched_by_number(void **state)
{
    (void)state;
    in_each_order(check_kernels);
}

/* ---- two threads --------------------------------------------------------- */

enum { ROUNDS = 40, SMALL_ROUNDS = 20, MUCH = 8 << 20 };

typedef struct Program {
    RtDevice *d;
    RtDevicePtr at;
    int64_t wrong; /* numbers that came back as others */
} Program;

/* Numbers to the device and back, on the queue of collectives. */
static void *
copy_numbers(void *data)
{
    Program *p = data;
    const RtDeviceOps *ops = p->d->ops;
    RtQueue *q = p->d->queues[QUEUE_COLL];
    for (int64_t i = 1; i <= ROUNDS * SMALL_ROUNDS; i++) {
        int64_t back = 0;
        ops->copy_in(q, p->at, &i, sizeof i);
        ops->copy_out(q, &back, p->at, sizeof back);
        rt_event_wait(ops->record(q));
        p->wrong += back != i;
    }
    return NULL;
}

/* While the program of a device copies main does, too, and more than the pinned
 * memory that both copy through: each has what it waited for, and
 * ThreadSanitizer has nothing to say. */
static void
main_and_a_program_copy_at_once(void **state)
{
    (void)state;
    RtDevice *d = open_device(0, "seed:1");
    Program program = {d, allocate(d, 8), 0};
    RtQueue *q = d->queues[QUEUE_COPY];
    char *bytes = arena_alloc(arena, MUCH);
    RtDevicePtr p = allocate(d, MUCH);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, copy_numbers, &program), 0);
    for (int i = 0; i < ROUNDS; i++) {
        char last = 0;
        size_t n = MUCH - (size_t)(i % 16) * (MUCH >> 5);
        memset(bytes, i, n);
        d->ops->copy_in(q, p, bytes, n);
        rt_event_wait(d->ops->record(q));
        d->ops->copy_out(q, &last, rt_ptr_add(p, n - 1), 1);
        rt_event_wait(d->ops->record(q));
        assert_int_equal(last, i);
    }
    pthread_join(thread, NULL);
    assert_int_equal(program.wrong, 0);
    assert_null(rt_device_status(d));
    d->ops->close(d);
}

/* ---- events -------------------------------------------------------------- */

static void
note_call(void *data)
{
    ++*(int *)data;
}

/* A kernel on the queue of programs, copies on the others, by events. */
static void
check_events(RtDevice *d)
{
    const RtDeviceOps *ops = d->ops;
    RtQueue *compute = d->queues[QUEUE_COMPUTE];
    int32_t items[NUM_ITEMS];
    RtDevicePtr p = allocate(d, sizeof items), to = allocate(d, sizeof items);
    int calls = 0;
    for (int i = 0; i < 100; i++) {
        RtQueue *q = d->queues[i % 2 ? QUEUE_COPY : QUEUE_COLL];
        add_to(d, p, 1);
        RtEvent added = ops->record(compute);
        ops->wait_event(q, added);
        ops->copy(q, to, p, sizeof items);
        ops->call_host(q, note_call, &calls);
        ops->wait_event(compute, ops->record(q));
        ops->wait_event(d->queues[i % 2 ? QUEUE_COLL : QUEUE_COPY],
                        ops->record(q));
    }
    ops->copy_out(compute, items, to, sizeof items);
    rt_event_wait(ops->record(compute));
    assert_int_equal(items[NUM_ITEMS - 1], 100);
    assert_int_equal(calls, 100);
}

static void
queues_wait_for_events(void **state)
{
    (void)state;
    in_each_order(check_events);
}

/* More than the ring of pinned memory has. */
static void
large_copies_go_in_pieces(void **state)
{
    (void)state;
    RtDevice *d = open_device(0, "seed:3");
    RtDevicePtr p = allocate(d, BIG);
    char *from = arena_alloc(arena, BIG), *back = arena_alloc(arena, BIG);
    for (int i = 0; i < BIG; i++)
        from[i] = (char)(i * 7 + i / 4096);
    rt_copy_in(p, from, BIG);
    rt_copy_out(back, p, BIG);
    assert_memory_equal(back, from, BIG);
    d->ops->close(d);
}

static void
devices_copy_to_each_other(void **state)
{
    (void)state;
    RtDevice *one = open_device(0, "devices:2,seed:5");
    RtDevice *two = open_device(1, "devices:2,seed:5");
    RtDevicePtr from = allocate(one, 4096), to = allocate(two, 4096);
    char back[8];
    rt_copy_in(from, "to two", 7);
    one->ops->copy(one->queues[QUEUE_COPY], to, from, 8);
    rt_event_wait(one->ops->record(one->queues[QUEUE_COPY]));
    rt_copy_out(back, to, 8);
    assert_string_equal(back, "to two");
    one->ops->close(one);
    two->ops->close(two);
}

/* Kernels of both add to memory of one, or of the host, in turns. */
static void
check_both(RtDevice *const *both, RtDevicePtr p)
{
    int32_t items[NUM_ITEMS];
    RtEvent last = {0};
    rt_copy_in(p, memset(items, 0, sizeof items), sizeof items);
    for (int i = 0; i < 10; i++) {
        RtDevice *d = both[i % 2];
        RtQueue *q = d->queues[i % 3 ? QUEUE_COLL : QUEUE_COMPUTE];
        d->ops->wait_event(q, last);
        add_on(q, p, i);
        last = d->ops->record(q);
    }
    rt_event_wait(last);
    rt_copy_out(items, p, sizeof items);
    for (int i = 0; i < NUM_ITEMS; i++)
        assert_int_equal(items[i], 45);
}

static RtDevicePtr
allocate_host(RtDevice *d, size_t bytes)
{
    const RtMemory *memory;
    assert_null(d->ops->alloc_host(d, bytes, &memory));
    assert_true(memory->address == (uintptr_t)memory->host);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(memory->host[i], 0);
    return (RtDevicePtr){memory, 0};
}

static void
devices_reach_each_other(void **state)
{
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        bool reaches, can = seed % 4;
        char *options = arena_printf(arena, "devices:2,seed:%d%s", seed,
                                     can ? "" : ",no-peers");
        RtDevice *both[] = {open_device(0, options), open_device(1, options)};
        for (int i = 0; i < 4; i++) {
            RtDevice *d = both[i % 2], *other = both[i / 2];
            assert_null(d->ops->connect(d, other, &reaches));
            can = real ? can && reaches : can;
            assert_int_equal(reaches, d == other || can);
        }
        if (can)
            check_both(both, allocate(both[0], 4096));
        check_both(both, allocate_host(both[1], 4096));
        for (int i = 0; i < 2; i++)
            both[i]->ops->close(both[i]);
    }
}

static void
check_rows(RtDevice *d)
{
    RtQueue *q = d->queues[QUEUE_COLL];
    RtDevicePtr p = allocate(d, 64), hosts = allocate_host(d, 64);
    rt_copy_in(p, "..ab..cd..ef", 12);
    RtRowsCopy out = {rt_ptr_add(hosts, 1), rt_ptr_add(p, 2), 3, 4, 2, 3};
    RtRowsCopy in = {rt_ptr_add(p, 16), rt_ptr_add(hosts, 1), 2, 3, 2, 3};
    RtRowsCopy one = {rt_ptr_add(p, 22), rt_ptr_add(hosts, 1), 0, 0, 2, 1};
    RtRowsCopy none = {p, hosts, 8, 8, 8, 0};
    const RtRowsCopy *all[] = {&out, &in, &one, &none};
    for (int i = 0; i < 4; i++)
        d->ops->copy_rows(q, all[i]);
    rt_event_wait(d->ops->record(q));
    char back[9] = "";
    rt_copy_out(back, rt_ptr_add(p, 16), 8);
    assert_string_equal(back, "abcdefab");
    assert_memory_equal(hosts.memory->host, "\0ab\0cd\0ef\0", 10);
}

static void
rows_are_copied(void **state)
{
    (void)state;
    in_each_order(check_rows);
}

static void
rows_may_be_far_from_each_other(void **state)
{
    (void)state;
    for (int pitch = 2; pitch <= 4; pitch++) {
        RtDevice *d = open_device(0, arena_printf(arena, "pitch:%d", pitch));
        check_rows(d);
        assert_null(rt_device_status(d));
        d->ops->close(d);
    }
}

/* ---- what cannot be ------------------------------------------------------ */

static void
too_much_memory_is_refused(void **state)
{
    const RtMemory *memory;
    (void)state;
    RtDevice *d = open_device(0, "memory:10000000,fail:cuMemHostAlloc:3:2");
    assert_status_says(d->ops->alloc_host(d, 64, &memory), STATUS_MACHINE,
                       "no pinned memory of the host for the 64 bytes that "
                       "cuda:0 shares with other GPUs: cuMemHostAlloc says "
                       "CUDA_ERROR_OUT_OF_MEMORY, 2 (the fake driver says so)");
    assert_status_says(d->ops->alloc(d, 20000000, 0, true, &memory),
                       STATUS_MACHINE,
                       "no memory for the 20000000 bytes of cuda:0: 10000000 "
                       "of its 10000000 are free");
    d->ops->close(d);
}

/* The text of the kernel with another word. */
static Status
load_with(const char *from, const char *to, const char *options)
{
    RtDevice *d;
    RtDeviceConfig config = {.name = "cuda:0"};
    const char *at = strstr(direct_add, from);
    assert_non_null(at);
    PlanObject text = texts[0];
    text.bytes = arena_printf(arena, "%.*s%s%s", (int)(at - direct_add),
                              direct_add, to, at + strlen(from));
    RtDeviceCode changed = {.num_kernels = 1, .kernel_texts = &text};
    setenv("TFD_FAKE_CUDA", options, 1);
    assert_null(rt_driver_find(DEVICE_cuda)->open(&config, &d));
    Status st = d->ops->load(d, &changed);
    d->ops->close(d);
    return st;
}

static void
kernels_that_cannot_run_are_refused(void **state)
{
    (void)state;
    assert_status_says(load_with(".reqntid 64, 1, 1", "", ""), STATUS_INPUT,
                       "cuda:0 cannot run kernel k_add: its PTX does not say "
                       "how it is launched");
    assert_status_says(load_with("mul.wide.s32", "mul.broad.s32", ""),
                       STATUS_MACHINE,
                       "cuda:0 cannot run kernel k_add: "
                       "cuModuleLoadDataEx says ");
    assert_status_says(load_with("L1", "L1", "threads:32"), STATUS_MACHINE,
                       "cuda:0 cannot run kernel k_add: it has blocks of 64 "
                       "threads, and 0 fit");
}

/* The first failure stays, and nothing waits for ever. */
static void
a_failure_is_for_good(void **state)
{
    (void)state;
    RtDevice *d = open_device(0, "fail:cuLaunchKernel:2:719");
    RtDevicePtr p = allocate(d, NUM_ITEMS * sizeof(int32_t));
    int32_t items[NUM_ITEMS];
    for (int i = 0; i < 3; i++)
        add_to(d, p, 1);
    rt_copy_out(items, p, sizeof items);
    rt_event_wait(d->ops->record(d->queues[QUEUE_COPY]));
    assert_status_says(rt_device_status(d), STATUS_MACHINE,
                       "cuda:0 has failed: cuLaunchKernel says ");
    d->ops->close(d);
}

/* Whether there is a GPU of a number; if not, why. */
static bool
has_gpu(int index, Str *why)
{
    bool there_is;
    Status st =
        rt_driver_find(DEVICE_cuda)
            ->describe(index ? "cuda:1" : "cuda:0", index, why, &there_is);
    if (st)
        str_add(why, status_message(st));
    bool found = !st && there_is;
    status_free(st);
    return found;
}

static int
run_on_real_driver(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeros_on_pages),
        cmocka_unit_test(kernels_are_launched_by_number),
        cmocka_unit_test(queues_wait_for_events),
        cmocka_unit_test(large_copies_go_in_pieces),
        cmocka_unit_test(rows_are_copied),
        /* of two GPUs */
        cmocka_unit_test(devices_copy_to_each_other),
        cmocka_unit_test(devices_reach_each_other),
    };
    enum { NUM = sizeof tests / sizeof *tests };
    Arena *a = arena_new(NULL, "why");
    Str why = str_new(a);
    real = true;
    bool some = has_gpu(0, &why), two = some && has_gpu(1, &why);
    if (!some)
        printf("1..0 # SKIP %s\n", str_text(&why));
    arena_release(a);
    if (!some)
        return 0;
    if (!two)
        puts("# one GPU: tests of two are left out");
    return _cmocka_run_group_tests("driver", tests, two ? NUM : NUM - 2,
                                   new_arena, release_arena);
}

int
main(int argc, char **argv)
{
    texts[0].size = strlen(direct_add);
    if (argc == 2 && !strcmp(argv[1], "--real"))
        return run_on_real_driver();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeros_on_pages),
        cmocka_unit_test(kernels_are_launched_by_number),
        cmocka_unit_test(queues_wait_for_events),
        cmocka_unit_test(large_copies_go_in_pieces),
        cmocka_unit_test(main_and_a_program_copy_at_once),
        cmocka_unit_test(devices_copy_to_each_other),
        cmocka_unit_test(devices_reach_each_other),
        cmocka_unit_test(rows_are_copied),
        cmocka_unit_test(rows_may_be_far_from_each_other),
        cmocka_unit_test(too_much_memory_is_refused),
        cmocka_unit_test(kernels_that_cannot_run_are_refused),
        cmocka_unit_test(a_failure_is_for_good),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
