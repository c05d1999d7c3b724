/*
 * nccl_test.c - the transport over NCCL, on the fake NCCL and the fake driver
 *
 * Ranks are devices of one communicator, or of one each as in processes of
 * their own; each is a thread, which calls what a program would.  Results have
 * the bits of D2's order, whatever the algorithm.  Then each complaint of the
 * fake NCCL, in a process of its own.
 */
#include "tests/cuda/direct.h"
#include "tests/unit/arena.h"
#include "tests/unit/status.h"

#include <pthread.h>
#include <signal.h>
#include "ir/base/clock.h"
#include "runtime/coll/algorithm/reduce.h"
#include "runtime/coll/nccl/nccl_impl.h"
#include "runtime/hal/registry/driver.h"

enum {
    MOST_RANKS = 4,
    MOST_EACH = 2,
    MOST_REPLICAS = MOST_RANKS * MOST_EACH,
    OPERANDS = 3,
    COUNT = 3072, /* slices of equal size for 2, 3 and 4 ranks */
    OUT = 1 << 16,
    BYTES = 1 << 18
};

static const int64_t counts[OPERANDS] = {COUNT, 129, 1};

/* ---- a kernel that combines ---------------------------------------------- */

/* The sum of elements `left .. left + num` of %f, by D2's tree, is in the first
 * of them. */
static void
add_tree(Str *s, int left, int num)
{
    int half = 1;
    if (num == 1)
        return;
    while (2 * half < num)
        half *= 2;
    add_tree(s, left, half);
    add_tree(s, left + half, num - half);
    str_addf(s, "  add.rn.f32 %%f%d, %%f%d, %%f%d;\n", left, left, left + half);
}

/* k_sum(in 0, …, in n - 1, out, count, count, 0) */
static const char *
sum_text(int n)
{
    Str s = str_new(arena);
    str_add(&s, ".version 7.0\n.target sm_80\n.address_size 64\n"
                ".visible .entry k_sum(\n");
    for (int i = 0; i < n + 4; i++)
        str_addf(&s, "  .param .u64 k_sum_param_%d%s\n", i,
                 i < n + 3 ? "," : "");
    str_addf(&s,
             ")\n.reqntid 64, 1, 1\n{\n  .reg .pred %%p<2>;\n"
             "  .reg .b32 %%r<8>;\n  .reg .f32 %%f<%d>;\n  .reg .b64 "
             "%%rd<%d>;\n"
             "  ld.param.u64 %%rd0, [k_sum_param_%d];\n"
             "  cvt.u32.u64 %%r1, %%rd0;\n"
             "  mov.u32 %%r2, %%ctaid.x;\n  mov.u32 %%r3, %%tid.x;\n"
             "  mad.lo.s32 %%r4, %%r2, 64, %%r3;\n"
             "  mov.u32 %%r5, %%nctaid.x;\n  mul.lo.s32 %%r5, %%r5, 64;\n",
             n, 2 * n + 6, n + 1);
    for (int i = 0; i <= n; i++)
        str_addf(&s,
                 "  ld.param.u64 %%rd0, [k_sum_param_%d];\n"
                 "  cvta.to.global.u64 %%rd%d, %%rd0;\n",
                 i, i + 2);
    str_add(&s, "L1:\n  setp.ge.s32 %p1, %r4, %r1;\n  @%p1 bra L2;\n"
                "  mul.wide.s32 %rd1, %r4, 4;\n");
    for (int i = 0; i < n; i++)
        str_addf(&s,
                 "  add.s64 %%rd0, %%rd%d, %%rd1;\n"
                 "  ld.global.f32 %%f%d, [%%rd0];\n",
                 i + 2, i);
    add_tree(&s, 0, n);
    str_addf(&s,
             "  add.s64 %%rd0, %%rd%d, %%rd1;\n"
             "  st.global.f32 [%%rd0], %%f0;\n"
             "  add.s32 %%r4, %%r4, %%r5;\n  bra.uni L1;\nL2:\n  ret;\n}\n",
             n + 2);
    return str_text(&s);
}

/* ---- ranks --------------------------------------------------------------- */

static struct {
    int ranks, each;
    bool apart; /* a communicator for each rank */
    RtColl *colls[MOST_RANKS];
    RtDevice *devices[MOST_RANKS];
    PlanObject text;
    RtDeviceCode code;
    const RtMemory *arenas[MOST_REPLICAS];
    RtCollInstance *reduces[MOST_RANKS], *gathers[MOST_RANKS];
    float in[MOST_REPLICAS][OPERANDS][COUNT];
} group;

static int
num_replicas(void)
{
    return group.ranks * group.each;
}

static RtColl *
coll_of(int rank)
{
    return group.colls[group.apart ? rank : 0];
}

static RtDevicePtr
place(int replica, int operand, size_t more)
{
    return (RtDevicePtr){group.arenas[replica],
                         (size_t)operand * COUNT * sizeof(float) + more};
}

static void
fill_arena(int replica)
{
    for (int i = 0; i < OPERANDS; i++) {
        for (int k = 0; k < counts[i]; k++)
            group.in[replica][i][k] =
                1.0f / (float)(1 + replica * 7 + i * 3 + k % 101);
        rt_copy_in(place(replica, i, 0), group.in[replica][i],
                   (size_t)counts[i] * sizeof(float));
    }
}

static void
open_device(int rank)
{
    static const char *const names[] = {"cuda:0", "cuda:1", "cuda:2", "cuda:3"};
    RtDeviceConfig config = {
        .name = names[rank], .index = rank, .clock = clock_seconds};
    assert_null(rt_cuda_open(&config, &group.devices[rank]));
    RtDevice *d = group.devices[rank];
    assert_null(d->ops->load(d, &group.code));
    for (int k = 0; k < group.each; k++) {
        int r = rank * group.each + k;
        assert_null(d->ops->alloc(d, BYTES, 0, true, &group.arenas[r]));
        fill_arena(r);
    }
}

static RtCommConfig
config_of(int rank)
{
    return (RtCommConfig){
        .transport = "nccl",
        .rank = group.apart ? rank : 0,
        .size = group.apart ? group.ranks : 1,
        .num_replicas = num_replicas(),
        .first_local = group.apart ? rank * group.each : 0,
        .num_local = group.apart ? group.each : num_replicas(),
        .num_devices = group.apart ? 1 : group.ranks,
        .num_participants = group.ranks,
        .caps = &rt_cuda_caps,
        .devices = group.apart ? &group.devices[rank] : group.devices,
        .timeout = 60.0,
        .clock = clock_seconds};
}

static void
open_coll(int rank, RtReduceOp how, RtAlgorithmChoice choice,
          const RtCollId *id)
{
    RtCommConfig comm = config_of(rank);
    RtReduceOperand operands[OPERANDS];
    comm.id = *id;
    assert_null(rt_coll_open(&comm, &group.colls[rank]));
    RtColl *c = group.colls[rank];
    for (int i = 0; i < OPERANDS; i++)
        operands[i] =
            (RtReduceOperand){DT_f32, how == REDUCE_FIRST ? -1 : 0, counts[i]};
    assert_null(c->ops->all_reduce_new(c, how, choice, OPERANDS, operands,
                                       &group.reduces[rank]));
    assert_null(c->ops->all_gather_new(c, (RtAlgorithmChoice){0}, 4096,
                                       &group.gathers[rank]));
}

static void
open_group(int ranks, int each, bool apart, RtReduceOp how,
           RtAlgorithmChoice choice)
{
    const NcclLibrary *nccl;
    ncclUniqueId unique;
    RtCollId id;
    group.ranks = ranks;
    group.each = each;
    group.apart = apart;
    group.text =
        (PlanObject){"code/sm_80/k_sum.ptx", sum_text(ranks * each), 0};
    group.code = (RtDeviceCode){.num_kernels = 1, .kernel_texts = &group.text};
    assert_null(rt_nccl_library_open(&nccl));
    assert_int_equal(nccl->ncclGetUniqueId(&unique), ncclSuccess);
    memcpy(id.bytes, &unique, sizeof id.bytes);
    for (int i = 0; i < ranks; i++)
        open_device(i);
    for (int i = 0; i < (apart ? ranks : 1); i++)
        open_coll(i, how, choice, &id);
}

static void
close_group(void)
{
    for (int i = 0; i < group.ranks; i++)
        group.devices[i]->ops->close(group.devices[i]);
    for (int i = 0; i < (group.apart ? group.ranks : 1); i++)
        group.colls[i]->ops->close(group.colls[i]);
}

/* ---- what a program does ------------------------------------------------- */

/* Both are started before the first is done.  Of replica r the gathered blocks
 * have r + 1 floats. */
static void
collect(int rank)
{
    RtColl *c = coll_of(rank);
    int instance = group.apart ? rank : 0, device = group.apart ? 0 : rank;
    int first = rank * group.each;
    for (int r = first; r < first + group.each; r++) {
        RtAllReducePart parts[OPERANDS];
        RtAllGatherPart part = {place(r, 0, 0), place(first, 0, 2 * OUT), 3,
                                (r + 1) * (int64_t)sizeof(float)};
        for (int i = 0; i < OPERANDS; i++)
            parts[i] = (RtAllReducePart){place(r, i, 0), place(first, i, OUT),
                                         counts[i]};
        c->ops->all_gather_start(group.gathers[instance], r, &part);
        c->ops->all_reduce_start(group.reduces[instance], r, parts);
    }
    assert_int_equal(c->ops->done(group.reduces[instance], device, 0.0),
                     COLL_OK);
    assert_int_equal(c->ops->done(group.gathers[instance], device, 0.0),
                     COLL_OK);
}

static void *
act(void *data)
{
    int rank = (int)(intptr_t)data;
    RtColl *c = coll_of(rank);
    if (group.apart)
        assert_null(c->ops->connect(c));
    for (int round = 0; round < 3; round++)
        collect(rank);
    rt_event_wait(group.devices[rank]->ops->record(
        group.devices[rank]->queues[QUEUE_COLL]));
    if (group.apart)
        c->ops->disconnect(c);
    return NULL;
}

static void
act_all(void)
{
    pthread_t threads[MOST_RANKS];
    RtColl *c = group.colls[0];
    if (!group.apart)
        assert_null(c->ops->connect(c));
    for (int i = 0; i < group.ranks; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, act, (void *)(intptr_t)i), 0);
    for (int i = 0; i < group.ranks; i++)
        pthread_join(threads[i], NULL);
    if (!group.apart)
        c->ops->disconnect(c);
}

/* ---- what comes of it ---------------------------------------------------- */

static void
check_reduced(int rank, RtReduceOp how, int root)
{
    static float got[COUNT], want[COUNT];
    const void *in[MOST_REPLICAS];
    for (int i = 0; i < OPERANDS; i++) {
        for (int r = 0; r < num_replicas(); r++)
            in[r] = group.in[r][i];
        if (how == REDUCE_FIRST)
            in[0] = in[root];
        rt_reduce_kernel(how, DT_f32)(num_replicas(), in, 1, (void *[]){want},
                                      0, counts[i]);
        rt_copy_out(got, place(rank * group.each, i, OUT),
                    (size_t)counts[i] * sizeof(float));
        assert_memory_equal(got, want, (size_t)counts[i] * sizeof(float));
    }
}

static void
check_gathered(int rank)
{
    static float got[3 * MOST_REPLICAS * MOST_REPLICAS];
    int row = num_replicas() * (num_replicas() + 1) / 2;
    const float *at = got;
    rt_copy_out(got, place(rank * group.each, 0, 2 * OUT),
                (size_t)(3 * row) * sizeof(float));
    for (int block = 0; block < 3; block++)
        for (int r = 0; r < num_replicas(); at += ++r)
            assert_memory_equal(at, &group.in[r][0][block * (r + 1)],
                                (size_t)(r + 1) * sizeof(float));
}

static void
check_group(int ranks, int each, bool apart, RtReduceOp how,
            RtAlgorithmChoice choice)
{
    choice.root = (ranks * each) / 2;
    open_group(ranks, each, apart, how, choice);
    act_all();
    for (int i = 0; i < ranks; i++) {
        assert_null(rt_device_status(group.devices[i]));
        check_reduced(i, how, choice.root);
        check_gathered(i);
    }
    close_group();
}

static const RtAlgorithmChoice ways[] = {
    {.algorithm = COLL_AUTO},
    {.algorithm = COLL_RING},
    {.algorithm = COLL_REDUCE_TO_ONE},
    {.algorithm = COLL_HIERARCHICAL},
    {.algorithm = COLL_HIERARCHICAL, .packs = 3},
};

static void
every_way_gives_the_same(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            for (int apart = 0; apart < 2; apart++)
                if (ways[w].algorithm != COLL_HIERARCHICAL || ranks % 2 == 0)
                    check_group(ranks, 1, apart, REDUCE_SUM, ways[w]);
}

static void
replicas_may_share_devices(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            if (ways[w].algorithm != COLL_HIERARCHICAL || ranks % 2 == 0)
                check_group(ranks, 2, w % 2, w % 2 ? REDUCE_SUM : REDUCE_FIRST,
                            ways[w]);
}

/* Of two ranks there is but one order of a sum. */
static void
the_library_may_reduce(void **state)
{
    RtAlgorithmChoice library = {.algorithm = COLL_LIBRARY};
    (void)state;
    check_group(2, 1, true, REDUCE_SUM, library);
    check_group(2, 1, false, REDUCE_MAX, library);
    check_group(4, 1, false, REDUCE_MIN, library);
    check_group(3, 1, true, REDUCE_FIRST, library);
}

static void
what_the_library_cannot_is_refused(void **state)
{
    static const struct {
        RtCollAlgorithm algorithm;
        DType dtype;
        int each;
        const char *says;
    } rows[] = {
        {COLL_LIBRARY, DT_i16, 1,
         "NCCL does not combine values of i16: compile the program with "
         "--cross-device-ops nccl"},
        {COLL_LIBRARY, DT_f32, 2,
         "nccl:allreduce combines one replica of each GPU, and this run has 4 "
         "replicas on 2: run it on as many GPUs, or compile it with "
         "--cross-device-ops nccl"},
        {COLL_AUTO, DT_f32, 1,
         "the plan has no kernel that combines values of f32 of 2 replicas, "
         "which NCCL's ranks need"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        RtColl *c;
        RtCollInstance *instance;
        RtReduceOperand operand = {rows[i].dtype, -1, 1};
        group.ranks = 2;
        group.each = rows[i].each;
        group.apart = true;
        RtCommConfig config = config_of(0);
        config.transport = NULL; /* none but NCCL joins processes */
        assert_null(rt_coll_open(&config, &c));
        assert_string_equal(c->ops->name, "nccl");
        assert_status_says(
            c->ops->all_reduce_new(
                c, REDUCE_SUM,
                (RtAlgorithmChoice){.algorithm = rows[i].algorithm}, 1,
                &operand, &instance),
            STATUS_INPUT, rows[i].says);
        c->ops->close(c);
    }
}

/* The other rank is not there: the time is up. */
static void
ranks_that_do_not_come_are_not_waited_for(void **state)
{
    RtCollId id = {{1}};
    (void)state;
    group.ranks = 2;
    group.each = 1;
    group.apart = true;
    group.code = (RtDeviceCode){0};
    open_device(0);
    RtCommConfig config = config_of(0);
    config.timeout = 0.01;
    config.id = id;
    assert_null(rt_coll_open(&config, &group.colls[0]));
    RtColl *c = group.colls[0];
    assert_status_says(c->ops->connect(c), STATUS_MACHINE,
                       "cuda:0 has failed: ncclCommInitRankConfig has not "
                       "ended after 0.01 seconds");
    c->ops->disconnect(c);
    group.devices[0]->ops->close(group.devices[0]);
    c->ops->close(c);
}

/* Whoever ends a run has the communicators aborted by a thread, while programs
 * go on to mark their queues of collectives. */
static void
programs_go_on_beside_an_abort(void **state)
{
    (void)state;
    open_group(2, 1, false, REDUCE_SUM,
               (RtAlgorithmChoice){.algorithm = COLL_AUTO});
    RtColl *c = group.colls[0];
    assert_null(c->ops->connect(c));
    c->ops->abort(c);
    for (double end = clock_seconds() + 0.2; clock_seconds() < end;)
        for (int i = 0; i < group.ranks; i++) {
            RtDevice *d = group.devices[i];
            d->ops->record(d->queues[QUEUE_COLL]);
        }
    c->ops->disconnect(c);
    for (int i = 0; i < group.ranks; i++)
        assert_null(rt_device_status(group.devices[i]));
    close_group();
}

/* ---- complaints ---------------------------------------------------------- */

static const NcclLibrary *nccl;
static ncclComm_t comms[2];
static CUstream streams[2];
static CUdeviceptr buffers[2];

static void
use(int rank)
{
    CUcontext context;
    MUST(cu->cuDevicePrimaryCtxRetain(&context, rank));
    MUST(cu->cuCtxSetCurrent(context));
}

static ncclResult_t
join(int rank, int size, int device)
{
    ncclUniqueId id = {"one"};
    ncclConfig_t config = NCCL_CONFIG_2_18;
    config.blocking = 0;
    use(device);
    return nccl->ncclCommInitRankConfig(&comms[rank], size, id, rank, &config);
}

static void
settle(int rank)
{
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress)
        assert_int_equal(nccl->ncclCommGetAsyncError(comms[rank], &state),
                         ncclSuccess);
}

static void
join_two(void)
{
    assert_null(rt_nccl_library_open(&nccl));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(join(i, 2, i), ncclInProgress);
        MUST(cu->cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        MUST(cu->cuMemAlloc_v2(&buffers[i], 4096));
        MUST(cu->cuMemsetD8Async(buffers[i], 0, 4096, streams[i]));
    }
    settle(0);
}

static void
send(int rank, size_t count, ncclDataType_t type)
{
    use(rank);
    nccl->ncclSend((void *)(uintptr_t)buffers[rank], count, type, 1 - rank,
                   comms[rank], streams[rank]);
    settle(rank);
}

static void
receive(int rank, size_t count, ncclDataType_t type)
{
    use(rank);
    nccl->ncclRecv((void *)(uintptr_t)buffers[rank], count, type, 1 - rank,
                   comms[rank], streams[rank]);
    settle(rank);
}

static void
reduce(int rank, size_t count, ncclDataType_t type, ncclRedOp_t op)
{
    use(rank);
    nccl->ncclAllReduce((void *)(uintptr_t)buffers[rank],
                        (void *)(uintptr_t)buffers[rank], count, type, op,
                        comms[rank], streams[rank]);
    settle(rank);
}

static void
gather(int rank)
{
    use(rank);
    nccl->ncclAllGather((void *)(uintptr_t)buffers[rank],
                        (void *)(uintptr_t)buffers[rank], 4, ncclInt8,
                        comms[rank], streams[rank]);
    settle(rank);
}

static void
other_sizes(void)
{
    assert_null(rt_nccl_library_open(&nccl));
    join(0, 2, 0);
    join(1, 3, 1);
}

static void
same_rank(void)
{
    assert_null(rt_nccl_library_open(&nccl));
    join(0, 2, 0);
    join(0, 2, 1);
}

static void
same_device(void)
{
    assert_null(rt_nccl_library_open(&nccl));
    join(0, 2, 0);
    join(1, 2, 0);
}

static void
blocking(void)
{
    ncclUniqueId id = {"one"};
    ncclConfig_t config = NCCL_CONFIG_2_18;
    assert_null(rt_nccl_library_open(&nccl));
    nccl->ncclCommInitRankConfig(&comms[0], 2, id, 0, &config);
}

static void
not_ready(void)
{
    assert_null(rt_nccl_library_open(&nccl));
    join(0, 2, 0);
    nccl->ncclSend(NULL, 1, ncclInt8, 1, comms[0], one);
}

static void
other_counts(void)
{
    join_two();
    send(0, 4, ncclInt8);
    receive(1, 5, ncclInt8);
}

static void
other_types(void)
{
    join_two();
    receive(0, 4, ncclInt8);
    send(1, 4, ncclFloat32);
}

static void
other_peer(void)
{
    join_two();
    send(0, 4, ncclInt8);
    send(1, 4, ncclInt8);
    use(0);
    nccl->ncclCommFinalize(comms[0]);
    settle(0);
    nccl->ncclCommDestroy(comms[0]);
}

static void
other_collective(void)
{
    join_two();
    reduce(0, 4, ncclInt8, ncclSum);
    gather(1);
}

static void
other_operation(void)
{
    join_two();
    reduce(0, 4, ncclInt8, ncclSum);
    reduce(1, 4, ncclInt8, ncclMax);
}

static void
other_reduced_count(void)
{
    join_two();
    reduce(0, 4, ncclInt8, ncclSum);
    reduce(1, 8, ncclInt8, ncclSum);
}

static void
other_reduced_type(void)
{
    join_two();
    reduce(0, 4, ncclInt8, ncclSum);
    reduce(1, 4, ncclUint8, ncclSum);
}

static void
other_order(void)
{
    join_two();
    send(0, 4, ncclInt8);
    reduce(1, 4, ncclInt8, ncclSum);
}

static void
other_order_reversed(void)
{
    join_two();
    reduce(0, 4, ncclInt8, ncclSum);
    send(1, 4, ncclInt8);
}

static void
other_groups(void)
{
    join_two();
    use(0);
    nccl->ncclGroupStart();
    nccl->ncclSend((void *)(uintptr_t)buffers[0], 4, ncclInt8, 1, comms[0],
                   streams[0]);
    nccl->ncclSend((void *)(uintptr_t)buffers[0], 4, ncclInt8, 1, comms[0],
                   streams[0]);
    nccl->ncclGroupEnd();
    settle(0);
    receive(1, 4, ncclInt8);
    receive(1, 4, ncclInt8);
}

static void
other_stream(void)
{
    join_two();
    use(0);
    nccl->ncclGroupStart();
    nccl->ncclSend((void *)(uintptr_t)buffers[0], 4, ncclInt8, 1, comms[0],
                   streams[0]);
    nccl->ncclSend((void *)(uintptr_t)buffers[0], 4, ncclInt8, 1, comms[0],
                   one);
    nccl->ncclGroupEnd();
    settle(0);
}

static void
other_context(void)
{
    join_two();
    use(1);
    nccl->ncclSend((void *)(uintptr_t)buffers[0], 4, ncclInt8, 1, comms[0],
                   streams[0]);
}

static void
captured(void)
{
    join_two();
    use(0);
    MUST(cu->cuStreamBeginCapture_v2(streams[0],
                                     CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    nccl->ncclSend((void *)(uintptr_t)buffers[0], 4, ncclInt8, 1, comms[0],
                   streams[0]);
    settle(0);
}

static void
not_finalized(void)
{
    join_two();
    use(0);
    settle(1);
    nccl->ncclCommDestroy(comms[0]);
}

static void
finish(CUevent mark, CUstream stream)
{
    MUST(cu->cuEventRecord(mark, stream));
    while (cu->cuEventQuery(mark) == CUDA_ERROR_NOT_READY)
        ;
}

/* What was sent is read on another stream, and no event is between. */
static void
unordered(void)
{
    join_two();
    send(0, 4, ncclInt8);
    receive(1, 4, ncclInt8);
    use(1);
    CUstream other;
    CUevent mark;
    MUST(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    MUST(cu->cuEventCreate(&mark, CU_EVENT_DISABLE_TIMING));
    MUST(cu->cuMemcpyDtoDAsync_v2(buffers[1] + 64, buffers[1], 4, other));
    finish(mark, streams[1]);
    finish(mark, other);
}

/* The event that is between is recorded while the receive is in progress, and
 * so before it. */
static void
too_early(void)
{
    CUstream other;
    CUevent between, mark;
    join_two();
    use(1);
    MUST(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    MUST(cu->cuEventCreate(&between, CU_EVENT_DISABLE_TIMING));
    MUST(cu->cuEventCreate(&mark, CU_EVENT_DISABLE_TIMING));
    for (ncclResult_t result = ncclSuccess; result != ncclInProgress;) {
        settle(1);
        send(0, 4, ncclInt8);
        use(1);
        result = nccl->ncclRecv((void *)(uintptr_t)buffers[1], 4, ncclInt8, 0,
                                comms[1], streams[1]);
    }
    MUST(cu->cuEventRecord(between, streams[1]));
    MUST(cu->cuStreamWaitEvent(other, between, 0));
    MUST(cu->cuMemcpyDtoDAsync_v2(buffers[1] + 64, buffers[1], 4, other));
    settle(1);
    finish(mark, streams[1]);
    finish(mark, other);
}

static const struct {
    void (*f)(void);
    const char *says, *and;
} mistakes[] = {
    {other_sizes, "fake NCCL: the sizes differ: ", NULL},
    {same_rank, "fake NCCL: a rank joins twice: ", NULL},
    {same_device, "fake NCCL: two ranks on one GPU: ", NULL},
    {blocking, "a communicator that blocks: it cannot be given up", NULL},
    {not_ready,
     "fake NCCL: ncclSend on a communicator of which a call is still in "
     "progress",
     NULL},
    {other_counts,
     "fake NCCL: the counts differ: rank 0 sends 4 elements of type 0 to 1 (",
     "), but rank 1 receives 5 elements of type 0 from 0 ("},
    {other_types, "fake NCCL: the types differ: rank 1 sends 4 elements of",
     "), but rank 0 receives 4 elements of type 0 from 1 ("},
    {other_peer,
     "fake NCCL: a communicator is destroyed before its work is done: rank 0 "
     "sends 4 elements of type 0 to 1 (",
     NULL},
    {other_collective,
     "fake NCCL: the collectives differ: rank 0 reduces 4 elements of type 0 "
     "by 0 (",
     "), but rank 1 gathers 4 elements of type 0 ("},
    {other_operation, "fake NCCL: the operations differ: rank 0 reduces", NULL},
    {other_reduced_count, "fake NCCL: the counts differ: rank 0 reduces 4",
     "), but rank 1 reduces 8 "},
    {other_reduced_type, "fake NCCL: the types differ: rank 0 reduces 4", NULL},
    {other_order,
     "fake NCCL: the ranks call collectives in another order: rank 0 sends 4",
     "), but rank 1 reduces 4 "},
    {other_order_reversed,
     "fake NCCL: the ranks call collectives in another order: rank 1 sends 4",
     "), but rank 0 reduces 4 "},
    {other_groups, "fake NCCL: the groups differ: ", NULL},
    {other_stream, "fake NCCL: a group on two streams: rank 0 sends 4", NULL},
    {other_context,
     "fake NCCL: ncclSend in the context of another GPU: ", NULL},
    {captured, "fake driver: ncclSend while the stream captures", NULL},
    {not_finalized,
     "fake NCCL: ncclCommDestroy of a communicator that was not finalized",
     NULL},
    {unordered, "on another stream, and no event orders them", NULL},
    {too_early, "on another stream, and no event orders them", NULL},
};

static void
mistakes_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        assert_dies(mistakes[i].f, SIGABRT, mistakes[i].says);
        if (mistakes[i].and)
            assert_dies(mistakes[i].f, SIGABRT, mistakes[i].and);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_named), /* before the driver is open */
        cmocka_unit_test(every_way_gives_the_same),
        cmocka_unit_test(replicas_may_share_devices),
        cmocka_unit_test(the_library_may_reduce),
        cmocka_unit_test(what_the_library_cannot_is_refused),
        cmocka_unit_test(ranks_that_do_not_come_are_not_waited_for),
        cmocka_unit_test(programs_go_on_beside_an_abort),
    };
    setenv("TFD_FAKE_CUDA", "devices:4,seed:3", 1);
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
