/*
 * coll_test.c - collectives, compared with a sequential computation
 *
 * Every replica is a thread here as it is in a run.
 */
#include "tests/unit/unit.h"
#include "tests/unit/status.h"
#include "tests/unit/asleep.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include "ir/base/clock.h"
#include "runtime/coll/algorithm/reduce.h"
#include "runtime/coll/coll.h"
#include "runtime/hal/wait.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

enum { MAX_REPLICAS = 8, MAX_OPERANDS = 3 };

static const int replica_counts[] = {1, 2, 3, 6, 7, 8};

/* Elements of each operand, of no use and of every path. */
static const int64_t sizes[][MAX_OPERANDS] = {
    {1, 0, 0},    {3, 1, 0},      {7, 65, 1},
    {64, 64, 64}, {1000, 3, 129}, {20000, 0, 1},
};

/* ---- the definition ------------------------------------------------------ */

/* IEEE maximum. */
static double
greater(double x, double y)
{
    if (isnan(x) || isnan(y))
        return x + y;
    if (x == y)
        return signbit(x) ? y : x;
    return x > y ? x : y;
}

static Scalar
combine_two(RtReduceOp how, Scalar x, Scalar y)
{
    DType t = x.dtype;
    if (!dtype_is_float(t)) {
        uint64_t sum = (uint64_t)x.i + (uint64_t)y.i;
        int64_t most = x.i > y.i ? x.i : y.i, least = x.i < y.i ? x.i : y.i;
        return scalar_int(t, how == REDUCE_SUM   ? (int64_t)sum
                             : how == REDUCE_MAX ? most
                                                 : least);
    }
    if (how == REDUCE_SUM)
        return scalar_float(t, x.f + y.f);
    return scalar_float(t, how == REDUCE_MAX ? greater(x.f, y.f)
                                             : -greater(-x.f, -y.f));
}

/* By levels of D2's tree: neighbours first, then pairs of them.  f16 and bf16
 * are combined in f32. */
static Scalar
expected(RtReduceOp how, DType t, int n, char *const *in, int root, int64_t i)
{
    Scalar x[MAX_REPLICAS];
    for (int k = 0; k < n; k++)
        x[k] = scalar_cast(scalar_load(t, in[k], i), dtype_compute(t));
    if (how == REDUCE_FIRST)
        return scalar_cast(x[root], t);
    for (int width = 1; width < n; width *= 2)
        for (int k = 0; k + width < n; k += 2 * width)
            x[k] = combine_two(how, x[k], x[k + width]);
    return scalar_cast(x[0], t);
}

/* ---- replicas ------------------------------------------------------------ */

/* The memory of all devices: the host's, whole. */
static const RtMemory everything = {
    .bytes = SIZE_MAX, .address = 1, .host = (char *)1};

static RtDevicePtr
at(const void *p)
{
    return (RtDevicePtr){&everything, (uintptr_t)p - 1};
}

static RtAllReducePart
part_of(const void *in, void *out, int64_t count)
{
    return (RtAllReducePart){at(in), at(out), count};
}

typedef struct Group {
    RtColl *coll;
    RtDevice *devices[MAX_REPLICAS];
} Group;

static Group group; /* of the communicator that is open */

/* Its calls wait for a minute at most. */
static RtColl *
open_shared(int num_replicas, int num_devices, bool spin, RtClock *clock)
{
    RtDeviceConfig device = {.name = "cpu:0",
                             .num_threads = 1,
                             .spin = spin,
                             .on_caller = true,
                             .clock = clock};
    RtCommConfig config = {.transport = "shm",
                           .size = 1,
                           .num_replicas = num_replicas,
                           .num_local = num_replicas,
                           .num_devices = num_devices,
                           .num_participants = num_devices,
                           .caps = &rt_cpu_caps,
                           .devices = group.devices,
                           .timeout = 60.0,
                           .clock = clock};
    assert_null(group.coll);
    for (int i = 0; i < num_devices; i++)
        assert_null(rt_cpu_open(&device, &group.devices[i]));
    assert_null(rt_coll_open(&config, &group.coll));
    return group.coll;
}

static void
close_shared(RtColl *coll)
{
    assert_ptr_equal(coll, group.coll);
    for (int i = 0; i < coll->num_devices; i++)
        group.devices[i]->ops->close(group.devices[i]);
    coll->ops->close(coll);
    group.coll = NULL;
}

/* Each replica on a device of its own. */
static RtColl *
open_coll(int num_replicas, bool spin, RtClock *clock)
{
    return open_shared(num_replicas, num_replicas, spin, clock);
}

static int
replicas_each(const RtColl *coll)
{
    return coll->num_replicas / coll->num_devices;
}

typedef struct Reduction {
    RtColl *coll;
    RtCollInstance *instance;
    int num, round;
    int root;       /* of REDUCE_FIRST */
    double timeout; /* 0: the communicator's */
    DType dtype;
    int64_t count[MAX_OPERANDS];
    char *in[MAX_OPERANDS][MAX_REPLICAS];
    char *out[MAX_OPERANDS][MAX_REPLICAS]; /* may be in */
} Reduction;

typedef struct Device {
    pthread_t thread;
    int number;
    void *job;
    RtCollResult result;
} Device;

static void
on_all_devices(int n, void *(*body)(void *), void *job, Device *devices)
{
    for (int i = 0; i < n; i++) {
        devices[i] = (Device){.number = i, .job = job};
        assert_int_equal(
            pthread_create(&devices[i].thread, NULL, body, &devices[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(devices[i].thread, NULL);
}

static void *
reduce_once(void *data)
{
    Device *d = data;
    const Reduction *job = d->job;
    RtAllReducePart parts[MAX_OPERANDS];
    int each = replicas_each(job->coll), first = d->number * each;
    for (int r = first; r < first + each; r++) {
        for (int i = 0; i < job->num; i++)
            parts[i] =
                part_of(job->in[i][r], job->out[i][first], job->count[i]);
        job->coll->ops->all_reduce_start(job->instance, r, parts);
    }
    d->result = job->coll->ops->done(job->instance, d->number, job->timeout);
    return NULL;
}

/* Values that are small and large, of both signs, with NaN and zeros. */
static void
fill(DType t, char *to, int64_t count, int replica, int round)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t hash = (uint32_t)(i * 2654435761u + (uint32_t)replica * 977u +
                                   (uint32_t)round * 31u);
        hash ^= hash >> 15;
        double x = ((double)(hash % 20001) - 10000.0) / 300.0;
        if (dtype_is_float(t) && hash % 97 == 0)
            x = hash % 2 ? NAN : -0.0;
        scalar_store(t, to, i, (Scalar){.dtype = DT_f64, .f = x});
    }
}

static size_t
bytes_of(DType t, int64_t count)
{
    return (size_t)count * dtype_info[t].bytes;
}

static void
make_operands(Reduction *job, int n, bool in_place)
{
    for (int i = 0; i < job->num; i++) {
        for (int k = 0; k < n; k++) {
            size_t bytes = bytes_of(job->dtype, job->count[i]) + 1;
            job->in[i][k] = malloc(bytes);
            job->out[i][k] = in_place ? job->in[i][k] : malloc(bytes);
        }
    }
}

static void
free_operands(Reduction *job, int n)
{
    for (int i = 0; i < job->num; i++) {
        for (int k = 0; k < n; k++) {
            if (job->out[i][k] != job->in[i][k])
                free(job->out[i][k]);
            free(job->in[i][k]);
        }
    }
}

/* The expected bytes of operand i. */
static char *
expected_bytes(const Reduction *job, RtReduceOp how, int n, int i)
{
    char *want = malloc(bytes_of(job->dtype, job->count[i]) + 1);
    for (int64_t e = 0; e < job->count[i]; e++)
        scalar_store(job->dtype, want, e,
                     expected(how, job->dtype, n, job->in[i], job->root, e));
    return want;
}

/* NaNs are one. */
static bool
same_elements(DType t, const char *x, const char *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        Scalar a = scalar_load(t, x, i), b = scalar_load(t, y, i);
        bool nan = dtype_is_float(t) && isnan(a.f) && isnan(b.f);
        if (!nan && memcmp(x + bytes_of(t, i), y + bytes_of(t, i),
                           dtype_info[t].bytes) != 0)
            return false;
    }
    return true;
}

static void
reduce_and_check(Reduction *job, RtReduceOp how, int n)
{
    char *want[MAX_OPERANDS];
    Device devices[MAX_REPLICAS];
    for (int i = 0; i < job->num; i++) {
        for (int k = 0; k < n; k++)
            fill(job->dtype, job->in[i][k], job->count[i], k, job->round);
        want[i] = expected_bytes(job, how, n, i);
    }
    on_all_devices(job->coll->num_devices, reduce_once, job, devices);
    for (int i = 0; i < job->num; i++) {
        for (int k = 0; k < job->coll->num_devices; k++) {
            char *out = job->out[i][k * replicas_each(job->coll)];
            assert_int_equal(devices[k].result, COLL_OK);
            assert_true(same_elements(job->dtype, want[i], out, job->count[i]));
        }
        free(want[i]);
    }
}

static void
reduce_sizes(RtColl *coll, RtReduceOp how, RtAlgorithmChoice choice, DType t,
             bool in_place)
{
    RtReduceOperand operand = {t, -1, 0},
                    operands[MAX_OPERANDS] = {operand, operand, operand};
    Reduction job = {.coll = coll, .num = MAX_OPERANDS, .dtype = t};
    choice.root = job.root = (int)(how + t) % coll->num_replicas;
    assert_null(coll->ops->all_reduce_new(coll, how, choice, MAX_OPERANDS,
                                          operands, &job.instance));
    for (int s = 0; s < COUNT(sizes); s++) {
        memcpy(job.count, sizes[s], sizeof job.count);
        make_operands(&job, coll->num_replicas, in_place);
        job.round = s;
        reduce_and_check(&job, how, coll->num_replicas);
        free_operands(&job, coll->num_replicas);
    }
}

/* The sum of count f32 values, by D2's tree written as it is defined. */
static float
tree_sum(int count, const float *x)
{
    int left = 1;
    if (count == 1)
        return x[0];
    while (2 * left < count)
        left *= 2;
    return tree_sum(left, x) + tree_sum(count - left, x + left);
}

/* Any number of replicas; a block of 2^k that begins at a multiple of 2^k can
 * be added by itself and stand for its replicas. */
static void
any_number_is_a_tree(void **state)
{
    enum { MOST = 1100, WIDTH = 3 };
    static float x[MOST];
    const void *leaf[MOST];
    RtReduceKernel *sum = rt_reduce_kernel(REDUCE_SUM, DT_f32);
    (void)state;
    for (int i = 0; i < MOST; i++) {
        x[i] = ldexpf(1.0f + (float)i / 7.0f, i * 37 % 40 - 20);
        leaf[i] = &x[i];
    }
    for (int n = 1; n <= MOST; n += n < 70 ? 1 : 103) {
        float all, of_nodes, node[MOST];
        const void *nodes[MOST];
        int num = 0;
        for (int i = 0; i < n; i += 1 << WIDTH, num++) {
            int size = n - i < 1 << WIDTH ? n - i : 1 << WIDTH;
            nodes[num] = &node[num];
            sum(size, leaf + i, 1, (void *[]){&node[num]}, 0, 1);
        }
        sum(n, leaf, 1, (void *[]){&all}, 0, 1);
        sum(num, nodes, 1, (void *[]){&of_nodes}, 0, 1);
        assert_true(all == tree_sum(n, x));
        assert_true(of_nodes == all);
    }
}

enum { STREAMED_COUNT = (1 << 20) + 3, STREAMED_OUTS = 8 };

/* Results that no cache holds are stored past it, also where they do not begin
 * at a vector, and have the bits of a result that is stored as usual. */
static void
large_results_have_the_same_bits(void **state)
{
    size_t bytes = STREAMED_COUNT * sizeof(float);
    RtReduceKernel *sum = rt_reduce_kernel(REDUCE_SUM, DT_f32);
    char *in[3], *want = calloc(1, bytes);
    void *out[STREAMED_OUTS];
    (void)state;
    for (int k = 0; k < 3; k++) {
        in[k] = malloc(bytes);
        fill(DT_f32, in[k], STREAMED_COUNT, k, 0);
    }
    for (int k = 0; k < STREAMED_OUTS; k++)
        out[k] =
            (char *)calloc(1, bytes + sizeof(float)) + k % 2 * sizeof(float);
    sum(3, (const void *const *)in, 1, (void *[]){want}, 64, STREAMED_COUNT);
    sum(3, (const void *const *)in, STREAMED_OUTS, out, 64, STREAMED_COUNT);
    for (int k = 0; k < STREAMED_OUTS; k++) {
        assert_memory_equal(out[k], want, bytes);
        free((char *)out[k] - k % 2 * sizeof(float));
    }
    for (int k = 0; k < 3; k++)
        free(in[k]);
    free(want);
}

static void
reductions_follow_the_tree(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT(replica_counts); i++) {
        RtColl *coll;
        int n = replica_counts[i];
        coll = open_coll(n, rt_may_spin(n), clock_seconds);
        for (int t = 0; t < NUM_DTYPES; t++)
            for (int how = 0; how < NUM_REDUCE_OPS; how++)
                if (t != DT_bool || how == REDUCE_FIRST)
                    reduce_sizes(coll, (RtReduceOp)how, (RtAlgorithmChoice){0},
                                 (DType)t, how % 2);
        close_shared(coll);
    }
}

static const RtAlgorithmChoice ways[] = {
    {.algorithm = COLL_AUTO},
    {.algorithm = COLL_TWO_PHASE},
    {.algorithm = COLL_REDUCE_TO_ONE},
    {.algorithm = COLL_HIERARCHICAL},
    {.algorithm = COLL_HIERARCHICAL, .packs = 1},
    {.algorithm = COLL_HIERARCHICAL, .packs = 3},
    {.algorithm = COLL_HIERARCHICAL, .packs = 100},
    {.algorithm = COLL_RING},
};

/* The algorithm and its packs do not change a bit. */
static void
every_way_gives_the_same(void **state)
{
    static const DType dtypes[] = {DT_f32, DT_i64, DT_bf16, DT_u8};
    (void)state;
    for (int i = 0; i < COUNT(replica_counts); i++) {
        RtColl *coll;
        int n = replica_counts[i];
        coll = open_coll(n, rt_may_spin(n), clock_seconds);
        for (int w = 0; w < COUNT(ways); w++)
            for (int t = 0; t < COUNT(dtypes); t++)
                if (ways[w].algorithm != COLL_HIERARCHICAL || n % 2 == 0)
                    reduce_sizes(coll, REDUCE_SUM, ways[w], dtypes[t], t % 2);
        close_shared(coll);
    }
}

/* Replicas, and the devices that they are on. */
static const int shared_counts[][2] = {
    {2, 1}, {8, 4}, {8, 2}, {8, 1}, {6, 3}, {6, 2}, {6, 1}, {7, 1}, {3, 1},
};

/* Where the replicas are changes no bit. */
static void
replicas_may_share_devices(void **state)
{
    static const DType dtypes[] = {DT_f32, DT_f16, DT_i32};
    (void)state;
    for (int i = 0; i < COUNT(shared_counts); i++) {
        int n = shared_counts[i][0], devices = shared_counts[i][1];
        RtColl *coll =
            open_shared(n, devices, rt_may_spin(devices), clock_seconds);
        for (int w = 0; w < COUNT(ways); w++)
            for (int t = 0; t < COUNT(dtypes); t++)
                if (ways[w].algorithm != COLL_HIERARCHICAL || n % 2 == 0)
                    reduce_sizes(coll, REDUCE_SUM, ways[w], dtypes[t], t % 2);
        close_shared(coll);
    }
}

static void
halves_need_an_even_number(void **state)
{
    (void)state;
    RtColl *coll;
    RtCollInstance *instance;
    RtReduceOperand operand = {DT_f32, -1, 1};
    coll = open_coll(3, false, clock_seconds);
    Status st = coll->ops->all_reduce_new(
        coll, REDUCE_SUM,
        (RtAlgorithmChoice){.algorithm = COLL_HIERARCHICAL, .packs = 1}, 1,
        &operand, &instance);
    assert_non_null(st);
    assert_non_null(
        strstr(status_message(st), "3 replicas have no two halves"));
    status_free(st);
    close_shared(coll);
}

/* ---- the same instance again and again ----------------------------------- */

enum { CALLS = 300, STRESS_COUNT = 40 };

typedef struct Stress {
    RtColl *coll;
    RtCollInstance *small, *large;
} Stress;

static bool
all_are(const float *x, int64_t count, float want)
{
    for (int64_t i = 0; i < count; i++) {
        if (x[i] != want)
            return false;
    }
    return true;
}

/* Two instances in flight together, of changing sizes; replicas run ahead of
 * each other as far as they can. */
static void *
reduce_often(void *data)
{
    Device *d = data;
    const Stress *s = d->job;
    int n = s->coll->num_replicas;
    const RtCollOps *ops = s->coll->ops;
    float one[STRESS_COUNT], many[600], sum[600];
    for (int call = 0; call < CALLS; call++) {
        int64_t count = call % 7 ? 600 : STRESS_COUNT;
        for (int i = 0; i < 600; i++)
            many[i] = (float)(call + d->number);
        for (int i = 0; i < STRESS_COUNT; i++)
            one[i] = (float)(call * d->number);
        RtAllReducePart a = part_of(one, one, STRESS_COUNT);
        RtAllReducePart b = part_of(many, sum, count);
        ops->all_reduce_start(s->small, d->number, &a);
        ops->all_reduce_start(s->large, d->number, &b);
        bool done = ops->done(s->small, d->number, 0.0) == COLL_OK &&
                    ops->done(s->large, d->number, 0.0) == COLL_OK;
        float ranks = (float)(n * (n - 1) / 2);
        if (!done || !all_are(one, STRESS_COUNT, (float)call * ranks) ||
            !all_are(sum, count, (float)(call * n) + ranks))
            d->result = COLL_TIMEOUT;
    }
    return NULL;
}

static void
use_sites_again(int n, RtAlgorithmChoice choice)
{
    Stress s;
    Device devices[MAX_REPLICAS];
    RtReduceOperand operand = {DT_f32, -1, 600};
    s.coll = open_coll(n, rt_may_spin(n), clock_seconds);
    const RtCollOps *ops = s.coll->ops;
    assert_null(
        ops->all_reduce_new(s.coll, REDUCE_SUM, choice, 1, &operand, &s.small));
    assert_null(
        ops->all_reduce_new(s.coll, REDUCE_SUM, choice, 1, &operand, &s.large));
    on_all_devices(n, reduce_often, &s, devices);
    for (int k = 0; k < n; k++)
        assert_int_equal(devices[k].result, COLL_OK);
    close_shared(s.coll);
}

static void
sites_are_used_again(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT(replica_counts); i++)
        use_sites_again(replica_counts[i], (RtAlgorithmChoice){0});
    use_sites_again(4, (RtAlgorithmChoice){.algorithm = COLL_REDUCE_TO_ONE});
    use_sites_again(
        4, (RtAlgorithmChoice){.algorithm = COLL_HIERARCHICAL, .packs = 3});
}

/* ---- several in flight --------------------------------------------------- */

enum { FLIGHT = 4, FLIGHT_COUNT = 500 };

typedef struct Flight {
    RtColl *coll;
    RtCollInstance *packs[FLIGHT];
} Flight;

static void
open_flight(Flight *f, int num_replicas, int num_devices, RtClock *clock)
{
    RtReduceOperand operand = {DT_f32, -1, FLIGHT_COUNT};
    f->coll =
        open_shared(num_replicas, num_devices, rt_may_spin(num_devices), clock);
    for (int i = 0; i < FLIGHT; i++)
        assert_null(f->coll->ops->all_reduce_new(f->coll, REDUCE_SUM,
                                                 (RtAlgorithmChoice){0}, 1,
                                                 &operand, &f->packs[i]));
}

static void
set_all(float *x, int64_t count, float value)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = value;
}

/* Of a call that has nothing to wait for. */
static double
no_clock(void)
{
    fail_msg("a call waits");
    return 0.0;
}

/* The start of a device's last replica completes what all have started, and no
 * more; the first two packs are large, the last two small. */
static void
start_does_what_need_not_wait(void **state)
{
    static const int64_t counts[FLIGHT] = {FLIGHT_COUNT, FLIGHT_COUNT, 60, 60};
    static float in[FLIGHT][2][FLIGHT_COUNT], out[FLIGHT][FLIGHT_COUNT];
    Flight f;
    (void)state;
    open_flight(&f, 2, 1, no_clock);
    const RtCollOps *ops = f.coll->ops;
    for (int i = 0; i < FLIGHT; i++)
        for (int r = 0; r < 2 - i % 2; r++) {
            RtAllReducePart part = part_of(in[i][r], out[i], counts[i]);
            set_all(in[i][r], counts[i], (float)(i + 1));
            ops->all_reduce_start(f.packs[i], r, &part);
        }
    for (int i = 0; i < FLIGHT; i++)
        assert_true(
            all_are(out[i], counts[i], i % 2 ? 0.0f : 2.0f * (float)(i + 1)));
    assert_int_equal(ops->done(f.packs[0], 0, 0.0), COLL_OK);
    assert_int_equal(ops->done(f.packs[2], 0, 0.0), COLL_OK);
    close_shared(f.coll);
}

static void *
finish_first_pack(void *data)
{
    Device *d = data;
    const Flight *f = d->job;
    d->result = f->coll->ops->done(f->packs[0], d->number, 0.0);
    return NULL;
}

/* Of two devices, the last to start has combined its slice when start returns,
 * and does not touch it again; the other has not combined its own. */
static void
the_last_to_start_leaves_only_the_meeting(void **state)
{
    static float in[2][FLIGHT_COUNT], out[2][FLIGHT_COUNT];
    const int64_t middle = 256; /* where the last one's slice begins */
    Device devices[2];
    Flight f;
    (void)state;
    open_flight(&f, 2, 2, clock_seconds);
    for (int k = 0; k < 2; k++) {
        RtAllReducePart part = part_of(in[k], out[k], FLIGHT_COUNT);
        set_all(in[k], FLIGHT_COUNT, (float)(k + 1));
        f.coll->ops->all_reduce_start(f.packs[0], k, &part);
    }
    for (int k = 0; k < 2; k++) {
        assert_true(all_are(out[k], middle, 0.0f));
        assert_true(all_are(out[k] + middle, FLIGHT_COUNT - middle, 3.0f));
        set_all(in[k] + middle, FLIGHT_COUNT - middle, 100.0f);
    }
    on_all_devices(2, finish_first_pack, &f, devices);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(devices[k].result, COLL_OK);
        assert_true(all_are(out[k], FLIGHT_COUNT, 3.0f));
    }
    close_shared(f.coll);
}

/* All start before the first is done, each call with other values; the packs
 * are done in another order than they were started in. */
static void *
fly_often(void *data)
{
    Device *d = data;
    const Flight *f = d->job;
    const RtCollOps *ops = f->coll->ops;
    int n = f->coll->num_replicas;
    float in[FLIGHT][FLIGHT_COUNT];
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < FLIGHT; i++) {
            RtAllReducePart part =
                part_of(in[i], in[i], FLIGHT_COUNT - 150 * i);
            for (int k = 0; k < FLIGHT_COUNT; k++)
                in[i][k] = (float)(call + i * d->number);
            ops->all_reduce_start(f->packs[i], d->number, &part);
        }
        for (int j = 0; j < FLIGHT; j++) {
            int i = (j + call) % FLIGHT;
            float want = (float)(n * call + i * n * (n - 1) / 2);
            if (ops->done(f->packs[i], d->number, 0.0) != COLL_OK ||
                !all_are(in[i], FLIGHT_COUNT - 150 * i, want))
                d->result = COLL_TIMEOUT;
        }
    }
    return NULL;
}

static void
packs_in_flight_do_not_mix(void **state)
{
    (void)state;
    for (int c = 0; c < COUNT(replica_counts); c++) {
        Flight f;
        Device devices[MAX_REPLICAS];
        int n = replica_counts[c];
        open_flight(&f, n, n, clock_seconds);
        on_all_devices(n, fly_often, &f, devices);
        for (int k = 0; k < n; k++)
            assert_int_equal(devices[k].result, COLL_OK);
        close_shared(f.coll);
    }
}

/* ---- gathering ----------------------------------------------------------- */

typedef struct Gathering {
    RtColl *coll;
    RtCollInstance *instance;
    int64_t outer;
    int64_t bytes[MAX_REPLICAS];
    char *in[MAX_REPLICAS], *out[MAX_REPLICAS];
} Gathering;

static void *
gather_once(void *data)
{
    Device *d = data;
    const Gathering *job = d->job;
    int each = replicas_each(job->coll), first = d->number * each;
    for (int r = first; r < first + each; r++) {
        RtAllGatherPart part = {at(job->in[r]), at(job->out[first]), job->outer,
                                job->bytes[r]};
        job->coll->ops->all_gather_start(job->instance, r, &part);
    }
    d->result = job->coll->ops->done(job->instance, d->number, 0.0);
    return NULL;
}

/* Byte b of block o of replica k. */
static char
gathered_byte(int k, int64_t o, int64_t b)
{
    return (char)(k * 50 + o * 7 + b);
}

static void
gather_and_check(RtColl *coll, RtCollInstance *instance, int64_t outer)
{
    Gathering job = {.coll = coll, .instance = instance, .outer = outer};
    Device devices[MAX_REPLICAS];
    int n = coll->num_replicas;
    int64_t row = 0;
    for (int k = 0; k < n; k++)
        row += job.bytes[k] = (k * 3 + 4) % 5 * 4; /* one has none */
    for (int k = 0; k < n; k++) {
        job.in[k] = malloc((size_t)(outer * job.bytes[k] + 1));
        job.out[k] = malloc((size_t)(outer * row + 1));
        for (int64_t o = 0; o < outer; o++)
            for (int64_t b = 0; b < job.bytes[k]; b++)
                job.in[k][o * job.bytes[k] + b] = gathered_byte(k, o, b);
    }
    on_all_devices(coll->num_devices, gather_once, &job, devices);
    for (int to = 0; to < coll->num_devices; to++) {
        const char *byte = job.out[to * replicas_each(coll)];
        assert_int_equal(devices[to].result, COLL_OK);
        for (int64_t o = 0; o < outer; o++)
            for (int k = 0; k < n; k++)
                for (int64_t b = 0; b < job.bytes[k]; b++)
                    assert_int_equal(*byte++, gathered_byte(k, o, b));
    }
    for (int k = 0; k < n; k++) {
        free(job.in[k]);
        free(job.out[k]);
    }
}

static void
gather_among(int n, int num_devices, RtCollAlgorithm algorithm)
{
    static const int64_t outers[] = {1, 5, 0};
    RtColl *coll;
    RtCollInstance *instance;
    coll = open_shared(n, num_devices, rt_may_spin(num_devices), clock_seconds);
    assert_null(coll->ops->all_gather_new(
        coll, (RtAlgorithmChoice){.algorithm = algorithm, .root = n - 1}, 0,
        &instance));
    for (int k = 0; k < COUNT(outers); k++)
        gather_and_check(coll, instance, outers[k]);
    close_shared(coll);
}

static void
gathering_keeps_order(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT(replica_counts); i++) {
        gather_among(replica_counts[i], replica_counts[i], COLL_TWO_PHASE);
        gather_among(replica_counts[i], replica_counts[i], COLL_REDUCE_TO_ONE);
    }
    for (int i = 0; i < COUNT(shared_counts); i++) {
        const int *c = shared_counts[i];
        gather_among(c[0], c[1], COLL_TWO_PHASE);
        gather_among(c[0], c[1], COLL_REDUCE_TO_ONE);
    }
}

/* ---- waiting in vain ----------------------------------------------------- */

static Reduction
lonely_reduction(RtClock *clock)
{
    static char bytes[4];
    RtReduceOperand operand = {DT_f32, -1, 1};
    Reduction job = {.num = 1, .dtype = DT_f32, .count = {1}};
    job.coll = open_coll(3, false, clock);
    assert_null(job.coll->ops->all_reduce_new(job.coll, REDUCE_SUM,
                                              (RtAlgorithmChoice){0}, 1,
                                              &operand, &job.instance));
    for (int k = 0; k < 3; k++)
        job.in[0][k] = job.out[0][k] = bytes;
    return job;
}

static int looks;

/* A minute goes by between two looks, as where the process is stopped. */
static double
minutes(void)
{
    return 61.0 * ++looks;
}

static void
a_missing_replica_is_named(void **state)
{
    Reduction job = lonely_reduction(minutes);
    Device first = {.number = 0, .job = &job};
    job.timeout = 2.0;
    looks = 0;
    const RtCollOps *ops = job.coll->ops;
    (void)state;
    RtAllReducePart part = part_of(job.in[0][2], job.out[0][2], 1);
    ops->all_reduce_start(job.instance, 2, &part);
    reduce_once(&first);
    assert_int_equal(first.result, COLL_TIMEOUT);
    assert_true(looks > 4); /* half a second each */
    assert_true(ops->arrived(job.instance, 0));
    assert_false(ops->arrived(job.instance, 1));
    assert_true(ops->arrived(job.instance, 2));
    close_shared(job.coll);
}

typedef struct Waiter {
    const Reduction *job;
    _Atomic pid_t tid; /* the replica that waits in it */
} Waiter;

static void *
abort_once_it_waits(void *data)
{
    const Waiter *w = data;
    const RtCollOps *ops = w->job->coll->ops;
    while (!ops->arrived(w->job->instance, 0))
        sched_yield();
    wait_until_asleep(&w->tid);
    ops->abort(w->job->coll);
    return NULL;
}

static void
stopping_wakes_the_others(void **state)
{
    Reduction job = lonely_reduction(clock_seconds);
    Device first = {.number = 0, .job = &job};
    Waiter waiter = {&job, gettid()};
    pthread_t other;
    double begin = clock_seconds();
    (void)state;
    pthread_create(&other, NULL, abort_once_it_waits, &waiter);
    reduce_once(&first);
    pthread_join(other, NULL);
    assert_int_equal(first.result, COLL_ABORTED);
    assert_true(clock_seconds() - begin < 10.0);
    reduce_once(&first); /* and so does every later call */
    assert_int_equal(first.result, COLL_ABORTED);
    close_shared(job.coll);
}

static void
what_has_no_sum_is_refused(void **state)
{
    RtColl *coll;
    RtCollInstance *instance;
    RtReduceOperand operand = {DT_bool, -1, 1};
    (void)state;
    coll = open_coll(2, false, clock_seconds);
    Status st = coll->ops->all_reduce_new(
        coll, REDUCE_SUM, (RtAlgorithmChoice){0}, 1, &operand, &instance);
    assert_non_null(st);
    status_free(st);
    close_shared(coll);
}

static void
processes_need_a_transport(void **state)
{
    RtCommConfig config = {.rank = 1,
                           .size = 2,
                           .num_replicas = 2,
                           .first_local = 1,
                           .num_local = 1,
                           .num_devices = 1,
                           .num_participants = 2,
                           .caps = &rt_cpu_caps,
                           .timeout = 60.0,
                           .clock = clock_seconds};
    RtColl *coll;
    (void)state;
    Status st = rt_coll_open(&config, &coll);
    assert_non_null(st);
    assert_string_equal(status_message(st),
                        "this version has no transport "
                        "that joins 2 processes with such devices");
    status_free(st);
    config.transport = "shm";
    st = rt_coll_open(&config, &coll);
    assert_non_null(st);
    assert_string_equal(status_message(st),
                        "this version has no transport "
                        "shm that joins 2 processes with such devices");
    status_free(st);
    config = (RtCommConfig){.size = 1,
                            .num_replicas = 1,
                            .num_local = 1,
                            .num_devices = 1,
                            .num_participants = 1,
                            .caps = &rt_cuda_caps,
                            .timeout = 60.0,
                            .clock = clock_seconds};
    assert_null(rt_coll_open(&config, &coll)); /* shm needs tasks */
    assert_string_equal(coll->ops->name, "peers");
    coll->ops->close(coll);
    config.transport = "shm";
    assert_status_says(rt_coll_open(&config, &coll), STATUS_INPUT,
                       "this version has no transport shm that joins 1 process "
                       "with such devices");
}

/* Devices that execute no code of the host combine by kernels of the plan. */
static void
peers_need_kernels(void **state)
{
    RtCommConfig config = {.transport = "peers",
                           .size = 1,
                           .num_replicas = 3,
                           .num_local = 3,
                           .num_devices = 1,
                           .num_participants = 1,
                           .caps = &rt_cuda_caps,
                           .timeout = 60.0,
                           .clock = clock_seconds};
    RtReduceOperand operand = {DT_f16, -1, 1};
    RtCollInstance *instance;
    RtColl *coll;
    (void)state;
    assert_null(rt_coll_open(&config, &coll));
    assert_null(coll->ops->all_reduce_new(
        coll, REDUCE_FIRST, (RtAlgorithmChoice){0}, 1, &operand, &instance));
    assert_status_says(
        coll->ops->all_reduce_new(coll, REDUCE_SUM, (RtAlgorithmChoice){0}, 1,
                                  &operand, &instance),
        STATUS_INPUT,
        "the plan has no kernel that combines values of f16 of 3 replicas, "
        "which devices that execute no code of the host need");
    coll->ops->close(coll);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_is_a_tree),
        cmocka_unit_test(large_results_have_the_same_bits),
        cmocka_unit_test(reductions_follow_the_tree),
        cmocka_unit_test(every_way_gives_the_same),
        cmocka_unit_test(replicas_may_share_devices),
        cmocka_unit_test(halves_need_an_even_number),
        cmocka_unit_test(sites_are_used_again),
        cmocka_unit_test(start_does_what_need_not_wait),
        cmocka_unit_test(the_last_to_start_leaves_only_the_meeting),
        cmocka_unit_test(packs_in_flight_do_not_mix),
        cmocka_unit_test(gathering_keeps_order),
        cmocka_unit_test(a_missing_replica_is_named),
        cmocka_unit_test(stopping_wakes_the_others),
        cmocka_unit_test(what_has_no_sum_is_refused),
        cmocka_unit_test(processes_need_a_transport),
        cmocka_unit_test(peers_need_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
