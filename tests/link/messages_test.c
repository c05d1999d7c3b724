/*
 * messages_test.c - collectives over messages: the bits of one process
 *
 * All processes are here: each has a carrier with its thread on a link in
 * memory, which delays messages and lets those of different pairs overtake each
 * other. The programs of all devices are this thread: start never waits, so it
 * starts everything before it waits for anything.
 *
 *     messages_test [--count N] [--seed S]      so many random shapes
 */
#include "tests/unit/unit.h"
#include "tests/unit/status.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/clock.h"
#include "runtime/coll/algorithm/reduce.h"
#include "runtime/coll/messages/messages_impl.h"
#include "runtime/coll/transport.h"
#include "runtime/link/carrier.h"
#include "tests/link/memory.h"

enum { MOST_PROCESSES = 64, MOST_REPLICAS = 64, MOST_OPERANDS = 4 };

static uint32_t random_state = 1;
static int per_machine = 1; /* of jobs that are opened */
static int num_shapes = 1000;

static int
below(int n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (uint32_t)n);
}

/* ---- processes ----------------------------------------------------------- */

static const RtMemory everything = {
    .bytes = SIZE_MAX, .address = 1, .host = (char *)1};

static RtDevicePtr
at(const void *p)
{
    return (RtDevicePtr){&everything, (uintptr_t)p - 1};
}

typedef struct Job {
    int size, each_process, devices; /* replicas and devices of a process */
    MemoryNet *net;
    RtCarrier *carriers[MOST_PROCESSES];
    RtColl *colls[MOST_PROCESSES];
    RtDevice *device; /* one for all: it only waits */
    RtDevice *same[MOST_REPLICAS];
} Job;

static void
open_job(Job *job, int size, int each, int devices, double timeout)
{
    RtDeviceConfig device = {.name = "cpu:0",
                             .num_threads = 1,
                             .on_caller = true,
                             .clock = clock_seconds};
    RtLinkAddress none[MOST_PROCESSES] = {{0}};
    *job = (Job){size, each, devices,
                 .net = memory_net_new(size, (uint32_t)below(1 << 20),
                                       (uint32_t)below(6))};
    assert_null(rt_cpu_open(&device, &job->device));
    for (int d = 0; d < devices; d++)
        job->same[d] = job->device;
    for (int p = 0; p < size; p++)
        assert_null(
            rt_carrier_open(memory_link(job->net, p), none, &job->carriers[p]));
    for (int p = 0; p < size; p++) {
        RtLinkTopology t = rt_carrier_topology(job->carriers[p]);
        t.per_machine = per_machine;
        t.near.rate *= 10;
        rt_carrier_set_topology(job->carriers[p], t);
        RtCommConfig config = {.transport = "messages",
                               .rank = p,
                               .size = size,
                               .num_replicas = size * each,
                               .first_local = p * each,
                               .num_local = each,
                               .num_devices = devices,
                               .num_participants = size * devices,
                               .caps = &rt_cpu_caps,
                               .devices = job->same,
                               .carrier = job->carriers[p],
                               .timeout = timeout,
                               .clock = clock_seconds};
        assert_null(rt_coll_open(&config, &job->colls[p]));
    }
}

static void
connect_job(const Job *job)
{
    for (int p = 0; p < job->size; p++)
        assert_null(job->colls[p]->ops->connect(job->colls[p]));
}

static void
close_job(Job *job)
{
    for (int p = 0; p < job->size; p++)
        job->colls[p]->ops->disconnect(job->colls[p]);
    for (int p = 0; p < job->size; p++) {
        rt_carrier_close(job->carriers[p]);
        job->colls[p]->ops->close(job->colls[p]);
    }
    job->device->ops->close(job->device);
    memory_net_free(job->net);
}

static void
force(const Job *job, int algorithm)
{
    for (int p = 0; p < job->size && algorithm < NUM_MESSAGES_ALGORITHMS; p++)
        rt_messages_force(job->colls[p], (RtMessagesAlgorithm)algorithm);
}

/* ---- all_reduce ---------------------------------------------------------- */

typedef struct Reduction {
    const Job *job;
    RtReduceOp how;
    int root; /* of REDUCE_FIRST */
    int num;
    bool in_place;
    RtReduceOperand operands[MOST_OPERANDS];
    RtCollInstance *instances[MOST_PROCESSES];
    int64_t counts[MOST_OPERANDS]; /* of this call */
    char *in[MOST_OPERANDS][MOST_REPLICAS];
    char *out[MOST_OPERANDS][MOST_REPLICAS];
    char *want[MOST_OPERANDS];
} Reduction;

static size_t
bytes_of(const Reduction *r, int i)
{
    return (size_t)r->counts[i] * dtype_info[r->operands[i].dtype].bytes;
}

/* Of any size and sign; f16 must not become infinite too often. */
static void
fill(DType t, char *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int x = below(1 << 24) - (1 << 23);
        double scale = below(8) == 0 ? 1e-4 : 3e-6;
        Scalar s = {.dtype = DT_f64, .f = dtype_is_float(t) ? x * scale : x};
        scalar_store(t, to, i, s);
    }
}

static int
replicas(const Job *job)
{
    return job->size * job->each_process;
}

/* By the kernel that one process uses. */
static void
set_wanted(Reduction *r, int i)
{
    int root = r->how == REDUCE_FIRST ? r->root : 0;
    int n = replicas(r->job) - root;
    DType t = r->operands[i].dtype;
    void *want = r->want[i] = malloc(bytes_of(r, i) + 1);
    rt_reduce_kernel(r->how, t)(n, (const void *const *)r->in[i] + root, 1,
                                &want, 0, r->counts[i]);
}

static void
make_operands(Reduction *r)
{
    for (int i = 0; i < r->num; i++) {
        for (int k = 0; k < replicas(r->job); k++) {
            size_t n = bytes_of(r, i) + 1;
            r->in[i][k] = malloc(n);
            r->out[i][k] = r->in_place ? r->in[i][k] : malloc(n);
            fill(r->operands[i].dtype, r->in[i][k], r->counts[i]);
        }
        set_wanted(r, i);
    }
}

static void
free_operands(Reduction *r)
{
    for (int i = 0; i < r->num; i++) {
        for (int k = 0; k < replicas(r->job); k++) {
            if (!r->in_place)
                free(r->out[i][k]);
            free(r->in[i][k]);
        }
        free(r->want[i]);
    }
}

static void
start_all(const Reduction *r)
{
    const Job *job = r->job;
    int each = job->each_process / job->devices;
    for (int k = replicas(job) - 1; k >= 0; k--) {
        int p = k / job->each_process;
        RtAllReducePart parts[MOST_OPERANDS];
        for (int i = 0; i < r->num; i++)
            parts[i] = (RtAllReducePart){
                at(r->in[i][k]), at(r->out[i][k / each * each]), r->counts[i]};
        job->colls[p]->ops->all_reduce_start(r->instances[p], k, parts);
    }
}

static void
wait_for_all(const Job *job, RtCollInstance *const *instances)
{
    for (int p = 0; p < job->size; p++)
        for (int d = 0; d < job->devices; d++)
            assert_int_equal(job->colls[p]->ops->done(instances[p], d, 0.0),
                             COLL_OK);
}

static void
check_all(const Reduction *r)
{
    int each = r->job->each_process / r->job->devices;
    for (int i = 0; i < r->num; i++)
        for (int k = 0; k < replicas(r->job); k += each)
            assert_memory_equal(r->out[i][k], r->want[i], bytes_of(r, i));
}

static void
make_reduction(Reduction *r)
{
    for (int p = 0; p < r->job->size; p++) {
        RtColl *c = r->job->colls[p];
        assert_null(c->ops->all_reduce_new(
            c, r->how, (RtAlgorithmChoice){.root = r->root}, r->num,
            r->operands, &r->instances[p]));
    }
}

static void
random_operands(Reduction *r, int most)
{
    r->num = 1 + below(3) * below(2);
    r->how = (RtReduceOp)below(NUM_REDUCE_OPS);
    r->in_place = below(2);
    r->root = below(replicas(r->job));
    for (int i = 0; i < r->num; i++) {
        DType t = (DType)below(NUM_DTYPES);
        if (t == DT_bool)
            r->how = REDUCE_FIRST;
        r->operands[i] = (RtReduceOperand){t, -1, below(most) + 1};
    }
}

static void
random_counts(Reduction *r)
{
    for (int i = 0; i < r->num; i++) {
        int64_t most = r->operands[i].most;
        int64_t counts[] = {most, below((int)most + 1), 1, 0};
        r->counts[i] = counts[below(4)];
    }
}

/* ---- all_gather ---------------------------------------------------------- */

enum { MOST_BLOCK = 3000, MOST_OUTER = 4 };

static char
gathered_byte(int k, int64_t o, int64_t b)
{
    return (char)(k * 50 + o * 7 + b);
}

typedef struct Gathering {
    const Job *job;
    RtCollInstance *instances[MOST_PROCESSES];
    int64_t outer, row;
    int64_t own[MOST_REPLICAS];
    char *in[MOST_REPLICAS], *out[MOST_REPLICAS];
} Gathering;

static void
make_gathering(Gathering *g)
{
    int64_t most = (int64_t)replicas(g->job) * MOST_BLOCK * MOST_OUTER;
    for (int p = 0; p < g->job->size; p++) {
        RtColl *c = g->job->colls[p];
        assert_null(c->ops->all_gather_new(c, (RtAlgorithmChoice){0}, most,
                                           &g->instances[p]));
    }
}

static void
make_blocks(Gathering *g)
{
    int n = replicas(g->job), most = below(2) ? MOST_BLOCK : 40;
    g->outer = below(MOST_OUTER + 1);
    g->row = 0;
    for (int k = 0; k < n; k++)
        g->row += g->own[k] = below(4) ? below(most) : 0;
    for (int k = 0; k < n; k++) {
        g->in[k] = malloc((size_t)(g->outer * g->own[k]) + 1);
        g->out[k] = malloc((size_t)(g->outer * g->row) + 1);
        for (int64_t o = 0; o < g->outer; o++)
            for (int64_t b = 0; b < g->own[k]; b++)
                g->in[k][o * g->own[k] + b] = gathered_byte(k, o, b);
    }
}

static void
start_gather(const Gathering *g)
{
    const Job *job = g->job;
    int each = job->each_process / job->devices;
    for (int k = 0; k < replicas(job); k++) {
        RtAllGatherPart part = {at(g->in[k]), at(g->out[k / each * each]),
                                g->outer, g->own[k]};
        int p = k / job->each_process;
        job->colls[p]->ops->all_gather_start(g->instances[p], k, &part);
    }
}

static void
check_gathered(const Gathering *g, int to)
{
    const char *byte = g->out[to];
    for (int64_t o = 0; o < g->outer; o++)
        for (int k = 0; k < replicas(g->job); k++)
            for (int64_t b = 0; b < g->own[k]; b++)
                if (*byte++ != gathered_byte(k, o, b))
                    fail_msg("replica %d has another block of %d", to, k);
}

static void
check_and_free_blocks(Gathering *g)
{
    int each = g->job->each_process / g->job->devices;
    for (int k = 0; k < replicas(g->job); k++) {
        if (k % each == 0)
            check_gathered(g, k);
        free(g->in[k]);
    }
    for (int k = 0; k < replicas(g->job); k++)
        free(g->out[k]);
}

/* ---- the tests ----------------------------------------------------------- */

/* Two all_reduces and an all_gather in flight together, several times. */
static void
run_random_job(int size, int each, int devices, int algorithm, int most)
{
    enum { CALLS = 2 };
    Job job;
    open_job(&job, size, each, devices, 60.0);
    Reduction one = {.job = &job}, two = {.job = &job};
    Gathering gather = {.job = &job};
    random_operands(&one, most);
    random_operands(&two, 100);
    make_reduction(&one);
    make_gathering(&gather);
    make_reduction(&two);
    force(&job, algorithm);
    connect_job(&job);
    for (int call = 0; call < CALLS; call++) {
        random_counts(&one);
        random_counts(&two);
        make_operands(&one);
        make_operands(&two);
        make_blocks(&gather);
        start_all(&one);
        start_gather(&gather);
        start_all(&two);
        wait_for_all(&job, two.instances);
        wait_for_all(&job, one.instances);
        wait_for_all(&job, gather.instances);
        check_all(&one);
        check_all(&two);
        check_and_free_blocks(&gather);
        free_operands(&one);
        free_operands(&two);
    }
    close_job(&job);
}

static void
any_shape_has_the_bits_of_one_process(void **state)
{
    (void)state;
    for (int i = 0; i < num_shapes; i += 4) { /* each has two of two calls */
        int size = 1 + below(8), devices = 1 + below(2);
        int each = devices * (1 + below(i % 3 ? 2 : 4));
        int most = below(12) ? 3000 : 60000;
        run_random_job(size, each, devices, below(NUM_MESSAGES_ALGORITHMS + 1),
                       most);
    }
}

/* The first call of its job, by one algorithm. */
static void
reduce_once(Reduction *r, int algorithm)
{
    make_reduction(r);
    force(r->job, algorithm);
    connect_job(r->job);
    make_operands(r);
    start_all(r);
    wait_for_all(r->job, r->instances);
    check_all(r);
    free_operands(r);
}

/* Each process says that it was a call by this algorithm. */
static void
check_calls(const Reduction *r, int algorithm)
{
    for (int p = 0; p < r->job->size; p++) {
        const int64_t *calls = r->job->colls[p]->ops->calls(r->instances[p]);
        for (int i = 0; i < NUM_IR_COLL_ALGORITHMS; i++)
            assert_int_equal(calls[i],
                             i == (int)rt_msg_algorithms[algorithm].by);
    }
}

/* Of 2, 4 or 8 processes each, on up to 8 machines. */
static void
machines_combine_first(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        int machines = 1 + below(8), each = 1 << below(2);
        per_machine = 2 << below(machines > 4 ? 1 : 3);
        run_random_job(machines * per_machine, each, 1,
                       i % 3 ? MESSAGES_HIERARCHY : NUM_MESSAGES_ALGORITHMS,
                       below(6) ? 3000 : 60000);
    }
    per_machine = 1;
}

/* More pieces than slots. */
static void
long_operands_go_in_pieces(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm < NUM_MESSAGES_ALGORITHMS; algorithm++) {
        Job job;
        open_job(&job, 2, 2, 1, 60.0);
        Reduction r = {.job = &job, .how = REDUCE_SUM, .num = 2};
        r.operands[0] = (RtReduceOperand){DT_f32, -1, 1500000};
        r.operands[1] = (RtReduceOperand){DT_f16, -1, 70000};
        r.counts[0] = 1500000;
        r.counts[1] = 70000;
        reduce_once(&r, algorithm);
        close_job(&job);
    }
}

/* As after two weeks of a thousand steps a second. */
static void
replicas_are_counted_beyond_32_bits(void **state)
{
    (void)state;
    Job job;
    open_job(&job, 2, 3, 1, 60.0);
    Reduction r = {.job = &job, .how = REDUCE_SUM, .num = 1};
    r.operands[0] = (RtReduceOperand){DT_f32, -1, 100};
    r.counts[0] = 100;
    make_reduction(&r);
    connect_job(&job);
    for (int p = 0; p < job.size; p++)
        r.instances[p]->announced = UINT32_MAX; /* of three each call */
    for (int call = 0; call < 3; call++) {
        make_operands(&r);
        start_all(&r);
        wait_for_all(&job, r.instances);
        check_all(&r);
        free_operands(&r);
    }
    close_job(&job);
}

/* The busiest process's messages of an all_reduce of so many f32. */
static MemoryCount
busiest(int size, int count, int algorithm)
{
    Job job;
    MemoryCount most = {0};
    open_job(&job, size, 1, 1, 60.0);
    Reduction r = {.job = &job, .how = REDUCE_SUM, .num = 1};
    r.operands[0] = (RtReduceOperand){DT_f32, -1, count};
    r.counts[0] = count;
    reduce_once(&r, algorithm);
    if (algorithm < NUM_MESSAGES_ALGORITHMS)
        check_calls(&r, algorithm);
    for (int p = 0; p < size; p++) {
        MemoryCount c = memory_net_count(job.net, p);
        most.messages = c.messages > most.messages ? c.messages : most.messages;
        most.bytes = c.bytes > most.bytes ? c.bytes : most.bytes;
    }
    close_job(&job);
    return most;
}

static uint64_t
log2_up(int n)
{
    uint64_t k = 0;
    while (1 << k < n)
        k++;
    return k;
}

static void
messages_grow_with_the_logarithm(void **state)
{
    static const int sizes[] = {2, 3, 4, 5, 8, 16, 31, 32, 64};
    (void)state;
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        int size = sizes[i], count = 64 * size;
        uint64_t all = 4 * (uint64_t)count;
        MemoryCount little = busiest(size, 16, NUM_MESSAGES_ALGORITHMS);
        assert_true(little.messages <= log2_up(size));
        MemoryCount much = busiest(size, count, MESSAGES_EXCHANGE);
        assert_int_equal(much.messages, 2 * (size - 1));
        assert_int_equal(much.bytes,
                         2 * all / (uint64_t)size * (uint64_t)(size - 1));
        if ((size & (size - 1)) == 0) {
            much = busiest(size, count, MESSAGES_HALVING);
            assert_int_equal(much.messages, 2 * log2_up(size));
            assert_int_equal(much.bytes,
                             2 * all / (uint64_t)size * (uint64_t)(size - 1));
        }
    }
}

/* Between machines goes what one process of each would send. */
static void
machines_send_as_one_process(void **state)
{
    (void)state;
    for (int machines = 2; machines <= 5; machines++) {
        int count = 64 * 4 * machines;
        per_machine = 4;
        MemoryCount most = busiest(4 * machines, count, MESSAGES_HIERARCHY);
        uint64_t all = 4 * (uint64_t)count, slice = all / 4;
        assert_int_equal(most.messages, 2 * 3 + 2 * (machines - 1));
        assert_int_equal(most.bytes,
                         2 * 3 * slice + 2 * slice / (uint64_t)machines *
                                             (uint64_t)(machines - 1));
        per_machine = 1;
    }
}

/* ---- waiting in vain ----------------------------------------------------- */

static void
open_lonely(Job *job, Reduction *r, double timeout)
{
    open_job(job, 3, 2, 1, timeout);
    *r = (Reduction){.job = job, .how = REDUCE_SUM, .num = 1};
    r->operands[0] = (RtReduceOperand){DT_f32, -1, 1000};
    r->counts[0] = 1000;
    make_reduction(r);
    connect_job(job);
    make_operands(r);
}

static void
silence_ends_with_the_time(void **state)
{
    Job job;
    Reduction r;
    (void)state;
    open_lonely(&job, &r, 0.05);
    memory_net_silence(job.net, 1);
    start_all(&r);
    assert_int_equal(job.colls[0]->ops->done(r.instances[0], 0, 0.0),
                     COLL_TIMEOUT);
    assert_true(job.colls[0]->ops->arrived(r.instances[0], 1));
    for (int p = 0; p < 3; p++)
        job.colls[p]->ops->abort(job.colls[p]);
    assert_int_equal(job.colls[0]->ops->done(r.instances[0], 0, 0.0),
                     COLL_ABORTED);
    close_job(&job);
    free_operands(&r);
}

static void
a_missing_replica_is_known(void **state)
{
    Job job;
    Reduction r;
    (void)state;
    open_lonely(&job, &r, 0.05);
    RtAllReducePart part = {at(r.in[0][1]), at(r.out[0][0]), 1000};
    job.colls[0]->ops->all_reduce_start(r.instances[0], 1, &part);
    assert_int_equal(job.colls[0]->ops->done(r.instances[0], 0, 0.0), COLL_OK);
    assert_false(job.colls[0]->ops->arrived(r.instances[0], 0));
    assert_true(job.colls[0]->ops->arrived(r.instances[0], 1));
    close_job(&job);
    free_operands(&r);
}

static void
a_link_that_fails_ends_all_calls(void **state)
{
    Job job;
    Reduction r;
    (void)state;
    open_lonely(&job, &r, 60.0);
    memory_net_silence(job.net, 1);
    start_all(&r);
    memory_net_break(job.net, 0);
    assert_int_equal(job.colls[0]->ops->done(r.instances[0], 0, 0.0),
                     COLL_ABORTED);
    assert_true(rt_device_has_failed(job.device));
    assert_string_equal(job.device->failure, "the link is broken");
    for (int p = 0; p < 3; p++)
        rt_carrier_stop(job.carriers[p]);
    assert_int_equal(job.colls[2]->ops->done(r.instances[2], 0, 0.0),
                     COLL_ABORTED);
    close_job(&job);
    free_operands(&r);
}

/* Rank 1 sends one instead of its own: in the first round of the first call, of
 * tag 0. */
static void
sizes_that_cannot_be_end_an_all_gather(void **state)
{
    static const int64_t sizes[] = {-8, INT64_MIN, INT64_MAX,
                                    2 * MOST_BLOCK * MOST_OUTER};
    char in[8];
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Job job;
        Gathering g = {.job = &job};
        RtAllGatherPart part = {at(in), at(in), 2, sizeof in};
        int64_t size = sizes[i];
        RtTransfer t = {.peer = 0, .address = &size, .bytes = sizeof size};
        open_job(&job, 2, 1, 1, 60.0);
        make_gathering(&g);
        connect_job(&job);
        job.colls[0]->ops->all_gather_start(g.instances[0], 0, &part);
        rt_carrier_transfer(job.carriers[1], &t, 0, 1, 60.0, NULL);
        assert_int_equal(job.colls[0]->ops->done(g.instances[0], 0, 0.0),
                         COLL_ABORTED);
        assert_status(rt_device_status(job.device), STATUS_MACHINE,
                      "rank 1 gathers blocks of sizes that cannot be");
        rt_carrier_stop(job.carriers[0]);
        close_job(&job);
    }
}

/* Stopped at any moment, nothing hangs and nobody writes any more. */
static void
a_stop_at_any_moment_ends_it(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        Job job;
        Reduction r;
        open_lonely(&job, &r, 60.0);
        start_all(&r);
        for (volatile int wait = below(20000); wait > 0; wait--)
            ;
        for (int p = 0; p < 3; p++)
            if (i % 2)
                rt_carrier_stop(job.carriers[p]);
            else
                job.colls[p]->ops->abort(job.colls[p]);
        for (int p = 0; p < 3; p++) { /* on a busy machine it is done before */
            int end = job.colls[p]->ops->done(r.instances[p], 0, 0.0);
            assert_true(end == COLL_ABORTED || end == COLL_OK);
        }
        close_job(&job);
        free_operands(&r);
    }
}

/* A link that has failed does not wait for others; its carrier knows it of a
 * stop that comes with the end, too. */
static void
a_stop_at_the_end_is_a_failure(void **state)
{
    RtLinkAddress none[1] = {{0}};
    (void)state;
    for (int i = 0; i < 5000; i++) {
        MemoryNet *net = memory_net_new(1, 1, 0);
        RtCarrier *c;
        assert_null(rt_carrier_open(memory_link(net, 0), none, &c));
        for (volatile int wait = below(100000); wait > 0; wait--)
            ;
        if (i % 2)
            rt_carrier_stop(c);
        rt_carrier_close(c);
        assert_int_equal(memory_net_has_failed(net, 0), i % 2);
        memory_net_free(net);
    }
}

static void
what_has_no_sum_is_refused(void **state)
{
    Job job;
    RtCollInstance *instance;
    RtReduceOperand operand = {DT_bool, -1, 1};
    (void)state;
    open_job(&job, 2, 1, 1, 60.0);
    RtColl *c = job.colls[0];
    assert_status_says(c->ops->all_reduce_new(c, REDUCE_SUM,
                                              (RtAlgorithmChoice){0}, 1,
                                              &operand, &instance),
                       STATUS_INPUT, "processes cannot combine values of bool");
    close_job(&job);
}

/* ---- joining ------------------------------------------------------------- */

typedef struct Joiner {
    pthread_t thread;
    RtCarrier *carrier;
    Status status;
} Joiner;

static void *
measure(void *data)
{
    Joiner *j = data;
    j->status = rt_carrier_measure(j->carrier, j->status ? 0.05 : 20.0);
    return NULL;
}

static void
measure_all(Job *job, Joiner *joiners)
{
    for (int p = 0; p < job->size; p++) {
        joiners[p].carrier = job->carriers[p];
        pthread_create(&joiners[p].thread, NULL, measure, &joiners[p]);
    }
    for (int p = 0; p < job->size; p++)
        pthread_join(joiners[p].thread, NULL);
}

static void
all_agree_on_the_speed(void **state)
{
    (void)state;
    for (int i = 1; i <= 8; i++) {
        Job job;
        int size = i > 5 ? 2 * (i - 4) : i; /* 4, 6, 8: machines of two */
        Joiner joiners[8] = {{0}};
        per_machine = i > 5 ? 2 : 1;
        open_job(&job, size, 1, 1, 60.0);
        per_machine = 1;
        measure_all(&job, joiners);
        RtLinkTopology t = rt_carrier_topology(job.carriers[0]);
        assert_true(t.near.latency > 0 && t.near.rate > 0);
        assert_true(t.far.latency > 0 && t.far.rate > 0);
        for (int p = 0; p < size; p++) {
            RtLinkTopology other = rt_carrier_topology(job.carriers[p]);
            assert_null(joiners[p].status);
            assert_int_equal(t.per_machine, other.per_machine);
            assert_memory_equal(&t.near, &other.near, sizeof t.near);
            assert_memory_equal(&t.far, &other.far, sizeof t.far);
        }
        close_job(&job);
    }
}

static void
a_silent_process_is_named(void **state)
{
    Job job;
    (void)state;
    open_job(&job, 3, 1, 1, 60.0);
    memory_net_silence(job.net, 2);
    assert_status_says(
        rt_carrier_measure(job.carriers[0], 0.01), STATUS_MACHINE,
        "rank 0 gets no messages of rank 1 over memory; is there "
        "a firewall between them?");
    rt_carrier_stop(job.carriers[0]);
    assert_status_says(rt_carrier_measure(job.carriers[0], 5.0), STATUS_STOPPED,
                       "the exchange of messages was stopped");
    close_job(&job);
}

/* Rank 0 has the message of rank 1, which does not take the one for it. */
static void
a_send_that_does_not_end_is_named(void **state)
{
    Job job;
    (void)state;
    open_job(&job, 2, 1, 1, 60.0);
    memory_net_hold_sends(job.net, 0);
    assert_status_says(
        rt_carrier_measure(job.carriers[1], 0.01), STATUS_MACHINE,
        "rank 1 gets no messages of rank 0 over memory; is there "
        "a firewall between them?");
    assert_status_says(
        rt_carrier_measure(job.carriers[0], 2.0), STATUS_MACHINE,
        "rank 1 gets no messages of rank 0 over memory; is there "
        "a firewall between them?");
    close_job(&job);
}

static void
read_options(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--count") == 0)
            num_shapes = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--seed") == 0)
            random_state = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_shape_has_the_bits_of_one_process),
        cmocka_unit_test(machines_combine_first),
        cmocka_unit_test(long_operands_go_in_pieces),
        cmocka_unit_test(replicas_are_counted_beyond_32_bits),
        cmocka_unit_test(messages_grow_with_the_logarithm),
        cmocka_unit_test(machines_send_as_one_process),
        cmocka_unit_test(silence_ends_with_the_time),
        cmocka_unit_test(a_missing_replica_is_known),
        cmocka_unit_test(a_link_that_fails_ends_all_calls),
        cmocka_unit_test(a_stop_at_any_moment_ends_it),
        cmocka_unit_test(sizes_that_cannot_be_end_an_all_gather),
        cmocka_unit_test(a_stop_at_the_end_is_a_failure),
        cmocka_unit_test(what_has_no_sum_is_refused),
        cmocka_unit_test(all_agree_on_the_speed),
        cmocka_unit_test(a_silent_process_is_named),
        cmocka_unit_test(a_send_that_does_not_end_is_named),
    };
    read_options(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
