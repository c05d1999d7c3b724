/*
 * complaints_test.c - each complaint of the fake driver, in a process of its
 * own
 */
#include "tests/cuda/direct.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/unit/arena.h"

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
    direct_finish(one);
    direct_finish(two);
}

static void
what_is_read_is_overwritten(void)
{
    MUST(cu->cuMemsetD8Async(memory, 1, 64, one));
    direct_finish(one);
    MUST(cu->cuMemcpyDtoHAsync_v2(pinned, memory, 64, one));
    MUST(cu->cuMemsetD8Async(memory, 2, 64, two));
    direct_finish(one);
    direct_finish(two);
}

static void
launch_add(CUdeviceptr at, unsigned threads, size_t bytes)
{
    CUmodule module;
    uint64_t params[] = {at, 3, 0};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    MUST(cu->cuLaunchKernel(direct_load(&module), 4, 1, 1, threads, 1, 1, 0,
                            two, NULL, extra));
    direct_finish(two);
}

static void
a_kernel_reads_without_an_event(void)
{
    MUST(cu->cuMemsetD8Async(memory, 1, 8192, one));
    launch_add(memory, 64, 16);
}

/* The kernel without its stores. */
static CUfunction
load_reader(void)
{
    static char text[4096];
    CUmodule module;
    CUfunction reader;
    strcpy(text, direct_add);
    char *store = strstr(text, "  st.global");
    memset(store, ' ', strcspn(store, "\n"));
    MUST(cu->cuModuleLoadDataEx(&module, text, 0, NULL, NULL));
    MUST(cu->cuModuleGetFunction(&reader, module, "k_add"));
    return reader;
}

/* The kernel reads 4000 bytes on stream two; stream one follows the fill. */
static void
overwrite_what_a_kernel_reads(size_t at)
{
    MUST(cu->cuMemsetD8Async(memory, 1, 8192, two));
    MUST(cu->cuEventRecord(event, two));
    MUST(cu->cuStreamWaitEvent(one, event, 0));
    MUST(direct_launch(load_reader(), memory, 3, two));
    MUST(cu->cuMemsetD8Async(memory + at, 1, 1, one));
    direct_finish(two);
    direct_finish(one);
}

static void
what_a_kernel_reads_is_overwritten(void)
{
    overwrite_what_a_kernel_reads(3999);
}

/* The next byte is nobody's. */
static void
what_is_beside_it_is_overwritten(void)
{
    overwrite_what_a_kernel_reads(4000);
    raise(SIGABRT);
}

/* It is read by the kernel of one stream, and written by that of another. */
static void
two_kernels_race(void)
{
    CUmodule module;
    CUfunction add = direct_load(&module);
    MUST(cu->cuMemsetD8Async(memory, 1, 8192, two));
    direct_finish(two);
    MUST(direct_launch(add, memory, 3, two));
    MUST(direct_launch(add, memory + 3996, 3, one));
    direct_finish(two);
    direct_finish(one);
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
    direct_finish(one);
}

static void
a_copy_reads_what_nobody_wrote(void)
{
    MUST(cu->cuMemcpyDtoHAsync_v2(pinned, memory, 64, one));
    direct_finish(one);
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
    direct_enter(1);
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
    MUST(cu->cuEventCreate(&event, CU_EVENT_DEFAULT));
    MUST(cu->cuStreamBeginCapture_v2(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MUST(cu->cuEventRecord(event, one));
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
    direct_finish(one);
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

/* Memory of device 0, by a kernel and by rows on device 1. */
static void
use_on_another(void)
{
    CUmodule module;
    MUST(cu->cuMemsetD8Async(memory, 1, DIRECT_BYTES, one));
    direct_finish(one);
    direct_enter(1);
    MUST(cu->cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    MUST(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(direct_launch(direct_load(&module), memory, 3, two));
    direct_finish(two);
}

/* Device 1, which may access the memory of device 0; one stays that one's. */
static void
enter_a_peer(void)
{
    CUcontext first = direct_enter(0);
    MUST(cu->cuMemsetD8Async(memory, 1, DIRECT_BYTES, one));
    direct_finish(one);
    direct_enter(1);
    MUST(cu->cuCtxEnablePeerAccess(first, 0));
    MUST(cu->cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    MUST(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
}

static void
two_devices_race(void)
{
    CUmodule module;
    enter_a_peer();
    MUST(direct_launch(direct_load(&module), memory, 3, two));
    direct_finish(two);
    direct_enter(0);
    MUST(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cu->cuMemcpyDtoHAsync_v2(pinned, memory, 64, one));
    direct_enter(1);
    MUST(cu->cuMemsetD8Async(memory, 2, 64, two));
    MUST(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    direct_finish(two);
    direct_enter(0);
    MUST(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    direct_finish(one);
}

static void
memory_is_freed_while_a_peer_works(void)
{
    enter_a_peer();
    MUST(cu->cuMemsetD8Async(memory, 2, 64, two));
    direct_enter(0);
    MUST(cu->cuMemFree_v2(memory));
}

static void
shared_memory_is_freed_too_early(void)
{
    void *at;
    MUST(cu->cuMemHostAlloc(
        &at, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    enter_a_peer();
    MUST(cu->cuMemcpyAsync((CUdeviceptr)(uintptr_t)at, memory, 64, two));
    direct_enter(0);
    MUST(cu->cuMemFreeHost(at));
}

static void
rows_are_of_another(void)
{
    direct_enter(1);
    MUST(cu->cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = memory,
                          .srcPitch = 8,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = memory + 64,
                          .dstPitch = 8,
                          .WidthInBytes = 8,
                          .Height = 2};
    cu->cuMemcpy2DAsync_v2(&rows, two);
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
     SAYS
     "cuMemsetD8Async overwrites what cuMemcpyDtoHAsync_v2 reads on another "
     "stream, and no event orders them"},
    {a_kernel_reads_without_an_event, SIGABRT, SAYS},
    {what_a_kernel_reads_is_overwritten, SIGABRT,
     SAYS "cuMemsetD8Async overwrites what k_add reads on another stream, and "
          "no event orders them"},
    {what_is_beside_it_is_overwritten, SIGABRT, ""},
    {two_kernels_race, SIGABRT,
     SAYS "k_add reads what k_add wrote on another "
          "stream, and no event orders them"},
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
     SAYS "cuEventRecord of an event that takes the time, in a capture"},
    {a_callback_calls, SIGABRT,
     SAYS "cuEventQuery is called by a function of cuLaunchHostFunc"},
    {a_process_is_forked, SIGABRT,
     SAYS "cuEventQuery in a process that was forked after cuInit"},
    {use_on_another, SIGABRT, SAYS},
    {two_devices_race, SIGABRT,
     SAYS "cuMemcpyDtoHAsync_v2 reads what cuMemsetD8Async wrote on another "
          "stream, and no event orders them"},
    {memory_is_freed_while_a_peer_works, SIGABRT,
     SAYS "cuMemFree_v2 while operations are pending on another device"},
    {shared_memory_is_freed_too_early, SIGABRT,
     SAYS "cuMemFreeHost while operations are pending on another device"},
    {rows_are_of_another, SIGABRT,
     SAYS "cuMemcpy2DAsync_v2 of memory of another context"},
    {something_is_left, SIGABRT,
     SAYS "the context of device 0 is released with 2 streams, 1 events, 0 "
          "modules, 1 allocations, 1 of pinned memory and 0 graphs"},
    {work_is_left, SIGABRT,
     SAYS "the context of device 0 is released while 1 operations are "
          "pending"},
    {a_context_is_left, SIGABRT,
     SAYS "the process ends with a context that it has"},
};

static void
mistakes_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++)
        assert_dies(complaints[i].f, complaints[i].signal_number,
                    complaints[i].says);
}

/* ---- limits -------------------------------------------------------------- */

static const struct {
    int capability, most; /* KB */
} most_shared[] = {{80, 163}, {86, 99}, {89, 99}, {90, 227}, {100, 227}};

static CUresult
launch_with(CUfunction f, int shared)
{
    uint64_t params[] = {memory, 0};
    size_t bytes = sizeof params;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    return cu->cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, (unsigned)shared, one, NULL,
                              extra);
}

static CUresult
give_leave(CUfunction f, int shared)
{
    return cu->cuFuncSetAttribute(
        f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared);
}

/* 48 KB without leave, and with it what the GPU has. */
static void
check_shared(int capability, int most)
{
    CUmodule module;
    int says;
    direct_prepare(arena_printf(arena, "capability:%d", capability));
    CUfunction f = direct_load(&module);
    MUST(cu->cuDeviceGetAttribute(
        &says, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
    assert_int_equal(says, most);
    MUST(cu->cuMemsetD8Async(memory, 0, DIRECT_BYTES, one));
    MUST(launch_with(f, 48 << 10));
    assert_int_equal(launch_with(f, (48 << 10) + 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(give_leave(f, most + 1), CUDA_ERROR_INVALID_VALUE);
    MUST(give_leave(f, most));
    MUST(launch_with(f, most));
    assert_int_equal(launch_with(f, most + 1), CUDA_ERROR_INVALID_VALUE);
    direct_finish(one);
    MUST(cu->cuModuleUnload(module));
    direct_release();
}

static void
shared_memory_needs_leave(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof most_shared / sizeof *most_shared; i++)
        check_shared(most_shared[i].capability, most_shared[i].most << 10);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(shared_memory_needs_leave),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
