/*
 * driver_test.c - CUDA devices on the fake driver, and what the fake finds
 *
 * The contract of an RtDevice in many orders, with kernels from PTX
 * (device_test has that of devices which execute the host's code), and each
 * complaint of the fake driver, in a process of its own.
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"
#include "tests/unit/status.h"

#include <signal.h>
#include <sys/wait.h>
#include "runtime/hal/cuda/cuda_impl.h"
#include "runtime/hal/registry/driver.h"

enum { NUM_ITEMS = 1000, SEEDS = 20, BIG = 20 << 20 };

/* Adds n to each of the items, of which each thread takes some. */
static const char add_text[] = ".version 7.0\n"
                               ".target sm_80\n"
                               ".address_size 64\n"
                               ".visible .entry k_add(\n"
                               "  .param .u64 k_add_param_0,\n"
                               "  .param .u64 k_add_param_1\n"
                               ")\n"
                               ".reqntid 64, 1, 1\n"
                               "{\n"
                               "  .reg .pred %p<3>;\n"
                               "  .reg .b32 %r<8>;\n"
                               "  .reg .b64 %rd<6>;\n"
                               "  ld.param.u64 %rd1, [k_add_param_0];\n"
                               "  ld.param.u64 %rd2, [k_add_param_1];\n"
                               "  cvta.to.global.u64 %rd3, %rd1;\n"
                               "  cvt.u32.u64 %r1, %rd2;\n"
                               "  mov.u32 %r2, %ctaid.x;\n"
                               "  mov.u32 %r3, %tid.x;\n"
                               "  mad.lo.s32 %r4, %r2, 64, %r3;\n"
                               "  mov.u32 %r5, %nctaid.x;\n"
                               "  mul.lo.s32 %r5, %r5, 64;\n"
                               "L1:\n"
                               "  setp.ge.s32 %p1, %r4, 1000;\n"
                               "  @%p1 bra L2;\n"
                               "  mul.wide.s32 %rd4, %r4, 4;\n"
                               "  add.s64 %rd5, %rd3, %rd4;\n"
                               "  ld.global.u32 %r6, [%rd5];\n"
                               "  add.s32 %r6, %r6, %r1;\n"
                               "  st.global.u32 [%rd5], %r6;\n"
                               "  add.s32 %r4, %r4, %r5;\n"
                               "  bra.uni L1;\n"
                               "L2:\n"
                               "  ret;\n"
                               "}\n";

static PlanObject texts[] = {
    {"code/sm_80/k_add.ptx", add_text, sizeof add_text - 1}};
static const RtDeviceCode code = {.num_kernels = 1, .kernel_texts = texts};

/* ---- devices ---------------------------------------------------------------
 */

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
    assert_null(d->ops->alloc(d, bytes, true, &memory));
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
add_to(RtDevice *d, RtDevicePtr p, int64_t n)
{
    void *ptrs[] = {rt_ptr_address(p)};
    RtKernelLaunch launch = {
        .ptrs = ptrs, .dims = &n, .count = NUM_ITEMS, .num_ptrs = 1};
    d->ops->launch_kernel(d->queues[QUEUE_COMPUTE], &launch);
}

/* ---- the contract ----------------------------------------------------------
 */

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

/* ---- what cannot be
 * ----------------------------------------------------------- */

static void
too_much_memory_is_refused(void **state)
{
    const RtMemory *memory;
    (void)state;
    RtDevice *d = open_device(0, "memory:10000000");
    assert_status_says(d->ops->alloc(d, 20000000, true, &memory),
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
    const char *at = strstr(add_text, from);
    assert_non_null(at);
    PlanObject text = texts[0];
    text.bytes = arena_printf(arena, "%.*s%s%s", (int)(at - add_text), add_text,
                              to, at + strlen(from));
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

/* ---- complaints
 * ---------------------------------------------------------------- */

static const CudaDriver *cu;
static CUstream one, two;
static CUevent event;
static CUdeviceptr memory;
static char *pinned;

#define MUST(call) assert_int_equal(call, CUDA_SUCCESS)

static CUcontext
enter_device(int number)
{
    CUcontext context;
    MUST(cu->cuDevicePrimaryCtxRetain(&context, number));
    MUST(cu->cuCtxSetCurrent(context));
    return context;
}

static void
prepare(void)
{
    void *at;
    setenv("TFD_FAKE_CUDA", "devices:2", 1);
    assert_null(rt_cuda_driver_open("cuda:0", &cu));
    enter_device(0);
    MUST(cu->cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    MUST(cu->cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    MUST(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cu->cuMemAlloc_v2(&memory, 8192));
    MUST(cu->cuMemHostAlloc(&at, 8192, 0));
    pinned = at;
}

static void
finish(CUstream stream)
{
    MUST(cu->cuEventRecord(event, stream));
    while (cu->cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        ;
}

static void
host_follows_an_address(void)
{
    pinned[0] = *(volatile char *)(uintptr_t)memory;
}

static void
an_event_is_missing(void)
{
    MUST(cu->cuMemsetD8Async(memory, 1, 64, one));
    MUST(cu->cuMemcpyDtoHAsync_v2(pinned, memory, 64, two));
    finish(one);
    finish(two);
}

static void
what_is_read_is_overwritten(void)
{
    MUST(cu->cuMemsetD8Async(memory, 1, 64, one));
    finish(one);
    MUST(cu->cuMemcpyDtoHAsync_v2(pinned, memory, 64, one));
    MUST(cu->cuMemsetD8Async(memory, 2, 64, two));
    finish(one);
    finish(two);
}

static CUfunction
load_add(CUmodule *module)
{
    CUfunction add;
    MUST(cu->cuModuleLoadDataEx(module, add_text, 0, NULL, NULL));
    MUST(cu->cuModuleGetFunction(&add, *module, "k_add"));
    return add;
}

static void
launch_add(CUdeviceptr at, unsigned threads, size_t bytes)
{
    CUmodule module;
    uint64_t params[] = {at, 3, 0};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    MUST(cu->cuLaunchKernel(load_add(&module), 4, 1, 1, threads, 1, 1, 0, two,
                            NULL, extra));
    finish(two);
}

static void
a_kernel_reads_without_an_event(void)
{
    MUST(cu->cuMemsetD8Async(memory, 1, 8192, one));
    launch_add(memory, 64, 16);
}

static void
a_kernel_reads_what_nobody_wrote(void)
{
    launch_add(memory, 64, 16);
}

static void
a_kernel_goes_too_far(void)
{
    MUST(cu->cuMemsetD8Async(memory, 1, 8192, two));
    launch_add(memory + 8192 - 64, 64, 16);
}

static void
blocks_are_not_the_kernel_s(void)
{
    launch_add(memory, 32, 16);
}

static void
parameters_are_not_the_kernel_s(void)
{
    launch_add(memory, 64, 24);
}

static void
a_source_changes(void)
{
    MUST(cu->cuMemcpyHtoDAsync_v2(memory, pinned, 64, one));
    pinned[3]++;
    finish(one);
}

static void
a_copy_reads_what_nobody_wrote(void)
{
    MUST(cu->cuMemcpyDtoHAsync_v2(pinned, memory, 64, one));
    finish(one);
}

static void
a_copy_goes_too_far(void)
{
    MUST(cu->cuMemsetD8Async(memory, 1, 8193, one));
}

static void
memory_is_used_after_it_is_freed(void)
{
    MUST(cu->cuMemFree_v2(memory));
    MUST(cu->cuMemsetD8Async(memory, 1, 64, one));
}

static void
memory_is_freed_too_early(void)
{
    MUST(cu->cuMemsetD8Async(memory, 1, 64, one));
    MUST(cu->cuMemFree_v2(memory));
}

static void
a_context_is_missing(void)
{
    MUST(cu->cuCtxSetCurrent(NULL));
    MUST(cu->cuMemsetD8Async(memory, 1, 64, one));
}

static void
a_stream_is_of_another_context(void)
{
    enter_device(1);
    MUST(cu->cuEventRecord(event, one));
}

static void
a_stream_waits_for_the_default_one(void)
{
    MUST(cu->cuStreamCreate(&one, 0));
}

static void
the_default_stream_is_used(void)
{
    MUST(cu->cuMemsetD8Async(memory, 1, 64, NULL));
}

static void
an_event_takes_the_time(void)
{
    MUST(cu->cuEventCreate(&event, 0));
}

static void
call_back(void *data)
{
    (void)data;
    cu->cuEventQuery(event);
}

static void
a_callback_calls(void)
{
    MUST(cu->cuLaunchHostFunc(one, call_back, NULL));
    finish(one);
}

static void
a_process_is_forked(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        cu->cuEventQuery(event);
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        raise(WTERMSIG(status));
}

static void
something_is_left(void)
{
    MUST(cu->cuDevicePrimaryCtxRelease_v2(0));
}

static void
work_is_left(void)
{
    MUST(cu->cuMemsetD8Async(memory, 1, 64, one));
    MUST(cu->cuDevicePrimaryCtxRelease_v2(0));
}

static void
a_context_is_left(void)
{
    exit(0);
}

#define SAYS "fake driver: "

static const struct {
    void (*f)(void);
    int signal_number;
    const char *says;
} complaints[] = {
    {host_follows_an_address, SIGSEGV, ""},
    {an_event_is_missing, SIGABRT,
     SAYS "cuMemcpyDtoHAsync_v2 reads what cuMemsetD8Async wrote on another "
          "stream, and no event orders them"},
    {what_is_read_is_overwritten, SIGABRT,
     SAYS "cuMemsetD8Async overwrites what another stream reads, and no event "
          "orders them"},
    {a_kernel_reads_without_an_event, SIGABRT, SAYS},
    {a_kernel_reads_what_nobody_wrote, SIGABRT, SAYS},
    {a_kernel_goes_too_far, SIGABRT, SAYS},
    {blocks_are_not_the_kernel_s, SIGABRT,
     SAYS "k_add is launched with blocks of 32 threads, and asks for 64"},
    {parameters_are_not_the_kernel_s, SIGABRT,
     SAYS "k_add is launched with 24 bytes of parameters, and has 16"},
    {a_source_changes, SIGABRT,
     SAYS "the host's memory changed between cuMemcpyHtoDAsync_v2 and its "
          "copy"},
    {a_copy_reads_what_nobody_wrote, SIGABRT,
     SAYS "cuMemcpyDtoHAsync_v2 reads device memory that nobody has written"},
    {a_copy_goes_too_far, SIGABRT,
     SAYS "cuMemsetD8Async of 8193 bytes outside the device's memory, or of "
          "memory that was freed"},
    {memory_is_used_after_it_is_freed, SIGABRT,
     SAYS "cuMemsetD8Async of 64 bytes outside the device's memory, or of "
          "memory that was freed"},
    {memory_is_freed_too_early, SIGABRT,
     SAYS "cuMemFree_v2 while operations are pending"},
    {a_context_is_missing, SIGABRT,
     SAYS "cuMemsetD8Async by a thread without a context"},
    {a_stream_is_of_another_context, SIGABRT,
     SAYS "cuEventRecord is given an event of another context"},
    {a_stream_waits_for_the_default_one, SIGABRT,
     SAYS "cuStreamCreate of a stream that the default stream waits for"},
    {the_default_stream_is_used, SIGABRT,
     SAYS "cuMemsetD8Async on the stream that all others wait for"},
    {an_event_takes_the_time, SIGABRT,
     SAYS "cuEventCreate of an event that takes the time"},
    {a_callback_calls, SIGABRT,
     SAYS "cuEventQuery is called by a function of cuLaunchHostFunc"},
    {a_process_is_forked, SIGABRT,
     SAYS "cuEventQuery in a process that was forked after cuInit"},
    {something_is_left, SIGABRT,
     SAYS "the context of device 0 is released with 2 streams, 1 events, 0 "
          "modules, 1 allocations and 1 of pinned memory"},
    {work_is_left, SIGABRT,
     SAYS "the context of device 0 is released while 1 operations are "
          "pending"},
    {a_context_is_left, SIGABRT,
     SAYS "the process ends with a context that it has"},
};

/* In a child, since it is the end of the process. */
static void
assert_dies(void (*f)(void), int signal_number, const char *says)
{
    int ends[2], status;
    char text[2048] = "";
    size_t len = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        signal(SIGABRT, SIG_DFL);
        signal(SIGSEGV, SIG_DFL);
        prepare();
        f();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; len < sizeof text - 1 &&
                    (n = read(ends[0], text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)n;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!strstr(text, says))
        fail_msg("\"%s\" is not in \"%s\"", says, text);
    bool by_signal = WIFSIGNALED(status) && WTERMSIG(status) == signal_number;
    bool by_sanitizer = signal_number == SIGSEGV && status != 0;
    if (!by_signal && !by_sanitizer)
        fail_msg("no complaint \"%s\": status %d", says, status);
}

/* Before any device is opened here: the driver must not be forked. */
static void
mistakes_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++)
        assert_dies(complaints[i].f, complaints[i].signal_number,
                    complaints[i].says);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(memory_is_zeros_on_pages),
        cmocka_unit_test(kernels_are_launched_by_number),
        cmocka_unit_test(queues_wait_for_events),
        cmocka_unit_test(large_copies_go_in_pieces),
        cmocka_unit_test(devices_copy_to_each_other),
        cmocka_unit_test(too_much_memory_is_refused),
        cmocka_unit_test(kernels_that_cannot_run_are_refused),
        cmocka_unit_test(a_failure_is_for_good),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
