/*
 * graphs_test.c - stream capture and graphs of the fake driver
 *
 * What the real driver answers to what a capture forbids, graphs in many orders
 * of their nodes, and what the fake driver finds in them.
 */
#include "tests/cuda/direct.h"

#include <pthread.h>
#include <signal.h>
#include "tests/unit/arena.h"

enum { SEEDS = 40, ITEMS = 1000 };

#define LOCAL CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

#define ANSWERS(error, call) assert_int_equal(call, CUDA_ERROR_##error)

static void
begin(CUstreamCaptureMode mode)
{
    MUST(cu->cuStreamBeginCapture_v2(one, mode));
}

static CUgraphExec
end(void)
{
    CUgraph graph;
    CUgraphExec exec;
    MUST(cu->cuStreamEndCapture(one, &graph));
    MUST(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cu->cuGraphDestroy(graph));
    MUST(cu->cuGraphUpload(exec, one));
    return exec;
}

/* The capture is good for nothing: its end says so. */
static void
end_invalid(CUresult says)
{
    CUgraph graph;
    CUstreamCaptureStatus status;
    assert_int_equal(cu->cuStreamEndCapture(one, &graph), says);
    assert_null(graph);
    MUST(cu->cuStreamIsCapturing(one, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

static void
wait_for(CUstream waits, CUstream goes)
{
    MUST(cu->cuEventRecord(event, goes));
    MUST(cu->cuStreamWaitEvent(waits, event, 0));
}

static void
set(CUdeviceptr at, unsigned char byte, CUstream stream)
{
    MUST(cu->cuMemsetD8Async(at, byte, 64, stream));
}

/* ---- what graphs do ------------------------------------------------------ */

/* Sets to 5, and adds 1; a branch adds 7 to what is 4096 bytes further; then
 * both come to the host. */
static CUgraphExec
capture_branches(CUfunction add)
{
    begin(LOCAL);
    MUST(cu->cuMemsetD32Async(memory, 5, ITEMS, one));
    wait_for(two, one);
    MUST(direct_launch(add, memory + 4096, 7, two));
    MUST(direct_launch(add, memory, 1, one));
    wait_for(one, two);
    MUST(cu->cuMemcpyDtoHAsync_v2(pinned, memory, DIRECT_BYTES, one));
    return end();
}

static void
check_branches(int seed)
{
    CUmodule module;
    const uint32_t *items = (const uint32_t *)(const void *)pinned;
    direct_prepare(arena_printf(arena, "seed:%d", seed));
    items = (const uint32_t *)(const void *)pinned;
    CUfunction add = direct_load(&module);
    MUST(cu->cuMemsetD8Async(memory, 0, DIRECT_BYTES, one));
    direct_finish(one);
    MUST(direct_launch(add, memory, 0, one));
    CUgraphExec exec = capture_branches(add);
    /* the second launch comes after the first on any stream */
    MUST(cu->cuGraphLaunch(exec, one));
    MUST(cu->cuGraphLaunch(exec, two));
    direct_finish(two);
    for (int i = 0; i < ITEMS; i++) {
        assert_int_equal(items[i], 6);
        assert_int_equal(items[1024 + i], 14);
    }
    MUST(cu->cuGraphExecDestroy(exec));
    direct_finish(one);
    MUST(cu->cuModuleUnload(module));
    direct_release();
}

static void
graphs_are_executed_in_any_order(void **state)
{
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++)
        check_branches(seed);
}

static void
nodes_are_not_executed_when_captured(void **state)
{
    (void)state;
    direct_prepare("");
    pinned[0] = 1;
    set(memory, 2, one);
    begin(LOCAL);
    set(memory, 3, one);
    CUgraphExec exec = end();
    MUST(cu->cuMemcpyDtoHAsync_v2(pinned, memory, 64, one));
    direct_finish(one);
    assert_int_equal(pinned[0], 2);
    MUST(cu->cuGraphExecDestroy(exec));
    direct_release();
}

/* ---- what a capture forbids ---------------------------------------------- */

static void
asks_an_event_of_the_capture(void)
{
    begin(LOCAL);
    set(memory, 1, one);
    MUST(cu->cuEventRecord(event, one));
    ANSWERS(CAPTURED_EVENT, cu->cuEventQuery(event));
    ANSWERS(STREAM_CAPTURE_INVALIDATED,
            cu->cuMemsetD8Async(memory, 1, 64, one));
    end_invalid(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ANSWERS(CAPTURED_EVENT, cu->cuEventQuery(event));
    ANSWERS(CAPTURED_EVENT, cu->cuStreamWaitEvent(two, event, 0));
}

static void
asks_another_event(void)
{
    MUST(cu->cuEventRecord(event, two));
    begin(LOCAL);
    ANSWERS(STREAM_CAPTURE_UNSUPPORTED, cu->cuEventQuery(event));
    end_invalid(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void
asks_while_it_is_relaxed(void)
{
    CUgraph graph;
    MUST(cu->cuEventRecord(event, two));
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    direct_finish(two);
    MUST(cu->cuStreamEndCapture(one, &graph));
    MUST(cu->cuGraphDestroy(graph));
}

static void
allocates(void)
{
    CUdeviceptr other;
    void *at;
    begin(LOCAL);
    ANSWERS(STREAM_CAPTURE_UNSUPPORTED, cu->cuMemAlloc_v2(&other, 64));
    ANSWERS(STREAM_CAPTURE_UNSUPPORTED, cu->cuMemHostAlloc(&at, 64, 0));
    end_invalid(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void
waits_for_what_is_outside(void)
{
    set(memory, 1, two);
    MUST(cu->cuEventRecord(event, two));
    begin(LOCAL);
    ANSWERS(STREAM_CAPTURE_ISOLATION, cu->cuStreamWaitEvent(one, event, 0));
    end_invalid(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    direct_finish(two);
}

static void
merges_two_captures(void)
{
    CUgraph graph;
    begin(LOCAL);
    MUST(cu->cuStreamBeginCapture_v2(two, LOCAL));
    MUST(cu->cuEventRecord(event, two));
    ANSWERS(STREAM_CAPTURE_MERGE, cu->cuStreamWaitEvent(one, event, 0));
    ANSWERS(STREAM_CAPTURE_INVALIDATED, cu->cuStreamEndCapture(two, &graph));
    end_invalid(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void
does_not_join(void)
{
    begin(LOCAL);
    wait_for(two, one);
    set(memory, 1, two);
    end_invalid(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

static void
ends_on_another_stream(void)
{
    CUgraph graph;
    begin(LOCAL);
    wait_for(two, one);
    ANSWERS(STREAM_CAPTURE_UNMATCHED, cu->cuStreamEndCapture(two, &graph));
    end_invalid(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void
begins_twice(void)
{
    CUgraph graph;
    ANSWERS(ILLEGAL_STATE, cu->cuStreamEndCapture(one, &graph));
    ANSWERS(STREAM_CAPTURE_UNSUPPORTED, cu->cuStreamBeginCapture_v2(0, LOCAL));
    begin(LOCAL);
    ANSWERS(ILLEGAL_STATE, cu->cuStreamBeginCapture_v2(one, LOCAL));
    MUST(cu->cuStreamEndCapture(one, &graph));
    MUST(cu->cuGraphDestroy(graph));
}

static void
launches_a_graph(void)
{
    begin(LOCAL);
    set(memory, 1, one);
    CUgraphExec exec = end();
    begin(LOCAL);
    ANSWERS(STREAM_CAPTURE_UNSUPPORTED, cu->cuGraphLaunch(exec, one));
    end_invalid(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    MUST(cu->cuGraphExecDestroy(exec));
}

/* Main's thread captures meanwhile. */
static void *
ask_and_end(void *data)
{
    const CUresult *answers = data;
    CUgraph graph;
    direct_enter(0);
    assert_int_equal(cu->cuEventQuery(event), answers[0]);
    assert_int_equal(cu->cuStreamEndCapture(one, &graph), answers[1]);
    MUST(cu->cuDevicePrimaryCtxRelease_v2(0));
    return NULL;
}

static void
capture_beside(CUstreamCaptureMode mode, CUresult asks, CUresult ends)
{
    pthread_t thread;
    CUresult answers[] = {asks, ends};
    direct_finish(two);
    begin(mode);
    assert_int_equal(pthread_create(&thread, NULL, ask_and_end, answers), 0);
    pthread_join(thread, NULL);
    end_invalid(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void
is_ended_by_another_thread(void)
{
    capture_beside(LOCAL, CUDA_SUCCESS, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

static void
is_global_for_another_thread(void)
{
    capture_beside(CU_STREAM_CAPTURE_MODE_GLOBAL,
                   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                   CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

static void
forbidden_calls_have_their_errors(void **state)
{
    void (*const all[])(void) = {
        asks_an_event_of_the_capture,
        asks_another_event,
        asks_while_it_is_relaxed,
        allocates,
        waits_for_what_is_outside,
        merges_two_captures,
        does_not_join,
        ends_on_another_stream,
        begins_twice,
        launches_a_graph,
        is_ended_by_another_thread,
        is_global_for_another_thread,
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        direct_prepare("");
        all[i]();
        direct_finish(one);
        direct_finish(two);
        direct_release();
    }
}

/* ---- complaints ---------------------------------------------------------- */

static void
branches_race(void)
{
    begin(LOCAL);
    wait_for(two, one);
    set(memory, 1, one);
    set(memory, 2, two);
    wait_for(one, two);
    MUST(cu->cuGraphLaunch(end(), one));
    direct_finish(one);
}

/* Each launch writes before it reads: the streams are not ordered. */
static void
a_launch_races_with_a_stream(void)
{
    begin(LOCAL);
    set(memory, 1, one);
    CUgraphExec exec = end();
    MUST(cu->cuGraphLaunch(exec, one));
    MUST(cu->cuMemcpyDtoHAsync_v2(pinned, memory, 64, two));
    direct_finish(one);
    direct_finish(two);
}

static void
a_source_changes_after_the_launch(void)
{
    begin(LOCAL);
    MUST(cu->cuMemcpyHtoDAsync_v2(memory, pinned, 64, one));
    CUgraphExec exec = end();
    pinned[0] = 7; /* is allowed */
    MUST(cu->cuGraphLaunch(exec, one));
    pinned[0] = 8;
    direct_finish(one);
}

static void
memory_is_not_pinned(void)
{
    static const char pageable[64];
    begin(LOCAL);
    MUST(cu->cuMemcpyHtoDAsync_v2(memory, pageable, 64, one));
}

static void
pinned_memory_is_gone(void)
{
    begin(LOCAL);
    MUST(cu->cuMemcpyHtoDAsync_v2(memory, pinned, 64, one));
    CUgraphExec exec = end();
    MUST(cu->cuMemFreeHost(pinned));
    MUST(cu->cuGraphLaunch(exec, one));
}

/* Another allocation may have the address. */
static void
memory_is_another(void)
{
    begin(LOCAL);
    set(memory, 1, one);
    CUgraphExec exec = end();
    MUST(cu->cuMemFree_v2(memory));
    for (int i = 0; i < 100; i++) {
        CUdeviceptr other;
        MUST(cu->cuMemAlloc_v2(&other, DIRECT_BYTES));
        if (other == memory)
            break;
    }
    MUST(cu->cuGraphLaunch(exec, one));
}

static void
a_module_is_gone(void)
{
    CUmodule module;
    CUfunction add = direct_load(&module);
    MUST(cu->cuMemsetD8Async(memory, 0, DIRECT_BYTES, one));
    MUST(direct_launch(add, memory, 1, one));
    begin(LOCAL);
    MUST(direct_launch(add, memory, 1, one));
    CUgraphExec exec = end();
    direct_finish(one);
    MUST(cu->cuModuleUnload(module));
    MUST(cu->cuGraphLaunch(exec, one));
}

static void
a_module_is_gone_too_early(void)
{
    CUmodule module;
    CUfunction add = direct_load(&module);
    MUST(direct_launch(add, memory, 1, one));
    MUST(cu->cuModuleUnload(module));
}

static void
pinned_memory_is_gone_too_early(void)
{
    MUST(cu->cuMemcpyHtoDAsync_v2(memory, pinned, 64, one));
    MUST(cu->cuMemFreeHost(pinned));
}

static void
a_graph_is_launched_once_destroyed(void)
{
    begin(LOCAL);
    set(memory, 1, one);
    CUgraphExec exec = end();
    MUST(cu->cuGraphExecDestroy(exec));
    MUST(cu->cuGraphLaunch(exec, one));
}

static void
a_kernel_is_launched_first_in_a_capture(void)
{
    CUmodule module;
    CUfunction add = direct_load(&module);
    begin(LOCAL);
    MUST(direct_launch(add, memory, 1, one));
}

static void
a_capture_frees(void)
{
    begin(LOCAL);
    MUST(cu->cuMemFree_v2(memory));
}

static void
a_stream_is_destroyed_while_it_captures(void)
{
    begin(LOCAL);
    MUST(cu->cuStreamDestroy_v2(one));
}

static void
a_graph_is_left(void)
{
    begin(LOCAL);
    end();
    direct_finish(one);
    direct_release();
}

static const struct {
    void (*f)(void);
    const char *says;
} complaints[] = {
    {branches_race, SAYS "cuMemsetD8Async overwrites what cuMemsetD8Async "
                         "wrote on another stream, and no event orders them"},
    {a_launch_races_with_a_stream,
     SAYS "cuMemcpyDtoHAsync_v2 reads what cuMemsetD8Async wrote on another "
          "stream, and no event orders them"},
    {a_source_changes_after_the_launch,
     SAYS "the host's memory changed between cuMemcpyHtoDAsync_v2 and its "
          "copy"},
    {memory_is_not_pinned, SAYS "cuMemcpyHtoDAsync_v2 of 64 bytes of the host "
                                "that are not pinned, or no longer"},
    {pinned_memory_is_gone, SAYS "cuMemcpyHtoDAsync_v2 of 64 bytes of the host "
                                 "that are not pinned, or no longer"},
    {memory_is_another, SAYS},
    {a_module_is_gone,
     SAYS "a graph is launched of which k_add names a module that is gone"},
    {a_module_is_gone_too_early,
     SAYS "cuModuleUnload of a module whose kernels have yet to run"},
    {pinned_memory_is_gone_too_early,
     SAYS "cuMemFreeHost of memory that a copy has yet to use"},
    {a_graph_is_launched_once_destroyed,
     SAYS "cuGraphLaunch of a graph that is destroyed"},
    {a_kernel_is_launched_first_in_a_capture,
     SAYS "k_add is launched for the first time in a capture, where it cannot "
          "be loaded"},
    {a_capture_frees, SAYS "cuMemFree_v2 by a thread that captures"},
    {a_stream_is_destroyed_while_it_captures,
     SAYS "cuStreamDestroy_v2 of a stream that captures"},
    {a_graph_is_left,
     SAYS "the context of device 0 is released with 0 streams, 0 events, 0 "
          "modules, 0 allocations, 0 of pinned memory and 1 graphs"},
};

/* This and the next are first, since the driver must not be forked. */
static void
mistakes_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++)
        assert_dies(complaints[i].f, SIGABRT, complaints[i].says);
}

/* A launch counts its copies. */
static void
counts_all_work(void)
{
    CUmodule module;
    direct_release(); /* of the options that all tests have */
    direct_prepare("count");
    CUfunction add = direct_load(&module);
    MUST(cu->cuMemsetD8Async(memory, 0, DIRECT_BYTES, one));
    MUST(direct_launch(add, memory, 0, one));
    CUgraphExec exec = capture_branches(add);
    for (int i = 0; i < 10; i++)
        MUST(cu->cuGraphLaunch(exec, one));
    direct_finish(one);
    MUST(cu->cuGraphExecDestroy(exec));
    MUST(cu->cuModuleUnload(module));
    direct_release();
}

static void
work_is_counted(void **state)
{
    (void)state;
    assert_dies(counts_all_work, 0,
                SAYS "1 launches, 10 graph launches of 40 nodes\n" SAYS
                     "0 copies in, 10 out, 0 on devices, 11 fills\n" SAYS
                     "0 bytes in, 81920 out, 0 on devices\n" SAYS
                     "7 calls that allocate, 6 that synchronise\n" SAYS "");
}

/* ---- the suite ----------------------------------------------------------- */

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(work_is_counted),
        cmocka_unit_test(graphs_are_executed_in_any_order),
        cmocka_unit_test(nodes_are_not_executed_when_captured),
        cmocka_unit_test(forbidden_calls_have_their_errors),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
