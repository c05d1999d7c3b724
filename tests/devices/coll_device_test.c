/*
 * coll_device_test.c - collectives of programs that run on devices
 *
 * Programs do here what compiled ones do: they write operands, call the hooks
 * that start and end collectives, several in flight, and read results; so
 * whatever a device does beside its program or later than asked is part of the
 * test.  It has a row for each kind of device and order of its work; what
 * collectives compute is the matter of tests/unit/coll_test.c.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include "ir/base/clock.h"
#include "runtime/coll/coll.h"
#include "runtime/hal/registry/driver.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

enum { MAX_DEVICES = 3, MAX_REPLICAS = 6, ROUNDS = 4, ARENA_BYTES = 1 << 16 };

typedef struct Kind {
    IrDeviceKind kind;
    const char *sandbox; /* its options */
    bool has_no_engine;  /* though the kind has: programs do all the work */
    const char *transport;
} Kind;

static const Kind kinds[] = {
    {DEVICE_cpu, "", false, "shm"},
    {DEVICE_sandbox, "seed:0", true, "shm"},
    {DEVICE_sandbox, "seed:1", true, "shm"},
    {DEVICE_sandbox, "seed:2", true, "shm"},
    {DEVICE_sandbox, "seed:0", false, "shm"},
    {DEVICE_sandbox, "seed:1", false, "shm"},
    {DEVICE_sandbox, "seed:2", false, "shm"},
    {DEVICE_sandbox, "seed:3", false, "shm"},
    {DEVICE_sandbox, "seed:4", false, "shm"},
    {DEVICE_sandbox, "engine", false, "shm"},
    {DEVICE_sandbox, "engine,no-overlap", false, "shm"},
    {DEVICE_sandbox, "seed:0", false, "peers"},
    {DEVICE_sandbox, "seed:1", false, "peers"},
    {DEVICE_sandbox, "seed:2", false, "peers"},
    {DEVICE_sandbox, "seed:0,no-peers", false, "peers"},
    {DEVICE_sandbox, "seed:3,no-peers", false, "peers"},
    {DEVICE_sandbox, "seed:4,no-peers", false, "peers"},
    {DEVICE_sandbox, "engine", false, "peers"},
    {DEVICE_sandbox, "engine,no-peers", false, "peers"},
};

/* The collectives of a round.  Number GATHER is an all_gather of each replica's
 * number, as often as its number and one more. */
typedef struct Pack {
    RtCollAlgorithm algorithm;
    int count; /* elements */
} Pack;

static const Pack packs[] = {
    {COLL_AUTO, 700},        {COLL_AUTO, 5}, {COLL_REDUCE_TO_ONE, 300},
    {COLL_HIERARCHICAL, 99}, {COLL_AUTO, 0}, {COLL_AUTO, 130},
    {COLL_RING, 350},
};

enum { NUM_PACKS = COUNT(packs), GATHER = NUM_PACKS };

/* A pack's places in an arena. */
enum { IN = 0, OUT = 4096, STRIDE = 8192 };

/* ---- the group ----------------------------------------------------------- */

typedef struct Member {
    RtDevice *device;
    RtDeviceCaps caps;
    TfdCall calls[MAX_REPLICAS]; /* of its replicas */
    RtProgramLaunch launch;
    RtEvent end;
} Member;

static struct {
    RtColl *coll;
    int num_replicas, num_devices;
    RtDevice *devices[MAX_DEVICES];
    Member members[MAX_DEVICES];
    const RtMemory *arenas[MAX_REPLICAS];
    RtCollInstance *instances[NUM_PACKS + 1];
} group;

static int
replicas_each(void)
{
    return group.num_replicas / group.num_devices;
}

static RtDevicePtr
place(int replica, int pack, size_t offset)
{
    return (RtDevicePtr){group.arenas[replica], (size_t)pack * STRIDE + offset};
}

/* ---- hooks --------------------------------------------------------------- */

enum { START = 0, DONE = NUM_PACKS + 1 }; /* numbers of operations */

static void
start(int replica, int pack)
{
    const RtCollOps *ops = group.coll->ops;
    int first = replica / replicas_each() * replicas_each();
    RtDevicePtr in = place(replica, pack, IN), out = place(first, pack, OUT);
    if (pack == GATHER) {
        RtAllGatherPart part = {in, out, 1,
                                (replica + 1) * (int64_t)sizeof(float)};
        ops->all_gather_start(group.instances[pack], replica, &part);
    } else {
        RtAllReducePart part = {in, out, packs[pack].count};
        ops->all_reduce_start(group.instances[pack], replica, &part);
    }
}

/* Of a done, its result. */
static int32_t
hook_op(TfdCall *call, int32_t index)
{
    if (index < DONE) {
        start(call->replica, index);
        return 0;
    }
    return (int32_t)group.coll->ops->done(group.instances[index - DONE],
                                          call->replica / replicas_each(), 0.0);
}

static const TfdHooks hooks = {.abi = TFD_ABI, .op = hook_op};

/* ---- programs ------------------------------------------------------------ */

enum { WRONG = 100 }; /* a status that is no RtCollResult */

static float *
floats(char *arena, int pack, size_t offset)
{
    return (float *)(void *)(arena + (size_t)pack * STRIDE + offset);
}

static void
set_operand(TfdCall *call, int pack, int round)
{
    float *x = floats(call->base, pack, IN);
    int n = pack == GATHER ? call->replica + 1 : packs[pack].count;
    for (int i = 0; i < n; i++)
        x[i] = (float)(call->replica + round * 10 + i % 7);
}

static bool
is_reduced(const float *x, int pack, int round)
{
    int n = group.num_replicas;
    for (int i = 0; i < packs[pack].count; i++)
        if (x[i] != (float)(n * (n - 1) / 2 + n * (round * 10 + i % 7)))
            return false;
    return true;
}

static bool
is_gathered(const float *x, int round)
{
    for (int r = 0; r < group.num_replicas; r++)
        for (int i = 0; i <= r; i++)
            if (*x++ != (float)(r + round * 10 + i % 7))
                return false;
    return true;
}

static void
start_pack(TfdCall *first, int pack, int round)
{
    for (TfdCall *c = first; c; c = c->next)
        set_operand(c, pack, round);
    for (TfdCall *c = first; c; c = c->next)
        c->hooks->op(c, START + pack);
}

static int32_t
finish_pack(TfdCall *first, int pack, int round)
{
    int32_t status = first->hooks->op(first, DONE + pack);
    if (status)
        return status;
    const float *x = floats(first->shared, pack, OUT);
    bool right =
        pack == GATHER ? is_gathered(x, round) : is_reduced(x, pack, round);
    return right ? 0 : WRONG;
}

/* All are started before the first is done, and done in another order in each
 * round; operands are overwritten as soon as results are there. */
static int32_t
fly(TfdCall *first)
{
    int32_t status = 0;
    for (int round = 0; round < ROUNDS && !status; round++) {
        for (int k = 0; k <= NUM_PACKS; k++)
            start_pack(first, k, round);
        for (int k = 0; k <= NUM_PACKS && !status; k++)
            status = finish_pack(first, (k + round) % (NUM_PACKS + 1), round);
    }
    return status;
}

static int32_t
start_first(TfdCall *first)
{
    start_pack(first, 0, 0);
    return 0;
}

static int32_t
finish_first(TfdCall *first)
{
    return finish_pack(first, 0, 0);
}

enum { FLY, START_FIRST, FINISH_FIRST, NUM_PROGRAMS };

static TfdFunction *const programs[NUM_PROGRAMS] = {
    [FLY] = fly, [START_FIRST] = start_first, [FINISH_FIRST] = finish_first};

/* What a plan for GPUs has for each sum. */
static void
sum_all(void *const *ptrs, const int64_t *dims, int64_t begin, int64_t end)
{
    float *to = ptrs[group.num_replicas];
    (void)dims;
    for (int64_t i = begin; i < end; i++) {
        float sum = 0.0f;
        for (int k = 0; k < group.num_replicas; k++)
            sum += ((const float *)ptrs[k])[i];
        to[i] = sum;
    }
}

static TfdKernel *const kernels[] = {sum_all};
static const RtDeviceCode code = {.num_kernels = 1,
                                  .kernels = kernels,
                                  .num_programs = NUM_PROGRAMS,
                                  .programs = programs};

/* ---- opening and running ------------------------------------------------- */

static const char *const names[MAX_DEVICES] = {"test:0", "test:1", "test:2"};

static void
open_member(const Kind *kind, int number)
{
    Member *m = &group.members[number];
    RtDeviceConfig config = {
        .name = names[number], .num_threads = 1, .clock = clock_seconds};
    assert_null(rt_driver_find(kind->kind)->open(&config, &m->device));
    assert_null(m->device->ops->load(m->device, &code));
    m->caps = *m->device->caps;
    m->caps.has_coll_engine &= !kind->has_no_engine;
    m->device->caps = &m->caps;
    group.devices[number] = m->device;
    for (int i = replicas_each() - 1; i >= 0; i--) {
        int replica = number * replicas_each() + i;
        assert_null(m->device->ops->alloc(m->device, ARENA_BYTES, 0, false,
                                          &group.arenas[replica]));
        m->calls[i] =
            (TfdCall){.abi = TFD_ABI,
                      .replica = replica,
                      .base = rt_ptr_address(place(replica, 0, 0)),
                      .next = i + 1 < replicas_each() ? &m->calls[i + 1] : NULL,
                      .hooks = &hooks};
    }
    for (int i = 0; i < replicas_each(); i++)
        m->calls[i].shared = m->calls[0].base;
}

static void
make_instances(void)
{
    const RtCollOps *ops = group.coll->ops;
    for (int i = 0; i < NUM_PACKS; i++) {
        RtAlgorithmChoice choice = {.algorithm = packs[i].algorithm,
                                    .packs = 3,
                                    .root = i % group.num_replicas};
        RtReduceOperand operand = {DT_f32, 0, packs[i].count};
        if (choice.algorithm == COLL_HIERARCHICAL && group.num_replicas % 2)
            choice.algorithm = COLL_TWO_PHASE;
        assert_null(ops->all_reduce_new(group.coll, REDUCE_SUM, choice, 1,
                                        &operand, &group.instances[i]));
    }
    int n = group.num_replicas * (group.num_replicas + 1) / 2;
    assert_null(ops->all_gather_new(group.coll, (RtAlgorithmChoice){0},
                                    n * (int64_t)sizeof(float),
                                    &group.instances[GATHER]));
}

static void
open_group(const Kind *kind, int num_replicas, int num_devices, RtClock *clock)
{
    RtCommConfig config = {.transport = kind->transport,
                           .size = 1,
                           .num_replicas = num_replicas,
                           .num_local = num_replicas,
                           .num_devices = num_devices,
                           .num_participants = num_devices,
                           .caps = rt_driver_find(kind->kind)->caps,
                           .devices = group.devices,
                           .timeout = clock == clock_seconds ? 60.0 : 2.0,
                           .clock = clock};
    setenv("TFD_SANDBOX", kind->sandbox, 1);
    group.num_replicas = num_replicas;
    group.num_devices = num_devices;
    assert_null(rt_coll_open(&config, &group.coll));
    make_instances();
    for (int i = 0; i < num_devices; i++)
        open_member(kind, i);
    assert_null(group.coll->ops->connect(group.coll));
}

/* Whatever waits is woken, or closing devices would wait for it. */
static void
close_group(void)
{
    group.coll->ops->abort(group.coll);
    for (int i = 0; i < group.num_devices; i++)
        group.devices[i]->ops->close(group.devices[i]);
    group.coll->ops->close(group.coll);
}

static void
launch(int device, int program)
{
    Member *m = &group.members[device];
    RtQueue *q = m->device->queues[QUEUE_COMPUTE];
    m->launch = (RtProgramLaunch){.program = program, .call = m->calls};
    m->device->ops->launch_program(q, &m->launch);
    m->end = m->device->ops->record(q);
}

static int32_t
end_of(int device)
{
    rt_event_wait(group.members[device].end);
    return group.members[device].launch.status;
}

/* ---- tests --------------------------------------------------------------- */

/* Replicas, and the devices that they are on. */
static const int groups[][2] = {{1, 1}, {2, 2}, {3, 3}, {6, 3}, {4, 2}, {2, 1}};

static void
packs_in_flight_get_their_results(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT(kinds); k++)
        for (int g = 0; g < COUNT(groups); g++) {
            int num_devices = groups[g][1];
            open_group(&kinds[k], groups[g][0], num_devices, clock_seconds);
            for (int i = 0; i < num_devices; i++)
                launch(i, FLY);
            for (int i = 0; i < num_devices; i++)
                assert_int_equal(end_of(i), 0);
            close_group();
        }
}

/* A program that has started a collective can end before the others begin. */
static void
start_never_waits(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT(kinds); k++) {
        if (strstr(kinds[k].sandbox, "no-overlap"))
            continue; /* it is for being slow */
        open_group(&kinds[k], 2, 2, clock_seconds);
        for (int i = 0; i < 2; i++) {
            launch(i, START_FIRST);
            assert_int_equal(end_of(i), 0);
        }
        for (int i = 0; i < 2; i++)
            launch(i, FINISH_FIRST);
        for (int i = 0; i < 2; i++)
            assert_int_equal(end_of(i), 0);
        close_group();
    }
}

/* A minute goes by between two looks, of which half a second counts. */
static double
minutes(void)
{
    static int looks;
    return 61.0 * ++looks;
}

static void
a_missing_replica_is_named(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT(kinds); k++) {
        if (strstr(kinds[k].sandbox, "no-overlap"))
            continue;
        open_group(&kinds[k], 3, 3, minutes);
        const RtCollOps *ops = group.coll->ops;
        for (int i = 0; i < 3; i += 2) {
            launch(i, START_FIRST);
            assert_int_equal(end_of(i), 0);
        }
        launch(0, FINISH_FIRST);
        assert_int_equal(end_of(0), COLL_TIMEOUT);
        for (int i = 0; i < 3; i++)
            assert_int_equal(ops->arrived(group.instances[0], i), i != 1);
        close_group();
    }
}

static void
abort_ends_what_waits(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT(kinds); k++) {
        if (strstr(kinds[k].sandbox, "no-overlap"))
            continue;
        open_group(&kinds[k], 2, 2, clock_seconds);
        launch(0, START_FIRST);
        assert_int_equal(end_of(0), 0);
        launch(0, FINISH_FIRST);
        assert_false(group.devices[0]->ops->wait(group.members[0].end));
        group.coll->ops->abort(group.coll);
        assert_int_equal(end_of(0), COLL_ABORTED);
        close_group();
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs_in_flight_get_their_results),
        cmocka_unit_test(start_never_waits),
        cmocka_unit_test(a_missing_replica_is_named),
        cmocka_unit_test(abort_ends_what_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
