/*
 * coll_shm_test.c - collectives of processes that share memory
 *
 * What several processes compute is compared with what one process with as many
 * devices does: the same body runs in both, with random shapes, which follow
 * from a seed, and leaves a hash of every result.
 */
#include "tests/unit/unit.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "runtime/coll/coll.h"
#include "tests/cluster/exchange.h"
#include "tests/cluster/forked.h"
#include "tests/unit/status.h"

enum {
    INSTANCES = 40,
    MOST_OPERANDS = 3,
    MOST_DEVICES = 8, /* of all processes */
    MOST_COUNT = 3000,
    ARENA_BYTES = 2 * MOST_OPERANDS * (MOST_COUNT + 64) * 8 * 2
};

static int num_shapes = 1000; /* in all */

/* ---- random shapes ------------------------------------------------------- */

static uint64_t
mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int
below(uint64_t *seed, int n)
{
    *seed = mix(*seed);
    return (int)(*seed % (uint64_t)n);
}

/* What an instance is. */
typedef struct Kind {
    bool gathers;
    RtReduceOp how;
    RtAlgorithmChoice choice;
    int num;
    DType dtypes[MOST_OPERANDS];
} Kind;

static Kind
kind_of(uint64_t seed, int number, int num_replicas)
{
    static const RtCollAlgorithm ways[] = {COLL_AUTO, COLL_TWO_PHASE,
                                           COLL_REDUCE_TO_ONE, COLL_RING,
                                           COLL_HIERARCHICAL};
    uint64_t s = mix(seed) + (uint64_t)number;
    Kind k = {.gathers = below(&s, 4) == 0,
              .how = (RtReduceOp)below(&s, NUM_REDUCE_OPS),
              .num = 1 + below(&s, MOST_OPERANDS)};
    int way = below(&s, num_replicas % 2 ? 4 : 5);
    k.choice =
        (RtAlgorithmChoice){.algorithm = k.gathers ? ways[way % 3] : ways[way],
                            .packs = below(&s, 2) * below(&s, 50),
                            .root = below(&s, num_replicas)};
    for (int i = 0; i < k.num; i++) {
        k.dtypes[i] = (DType)below(&s, NUM_DTYPES);
        if (k.dtypes[i] == DT_bool && k.how != REDUCE_FIRST)
            k.dtypes[i] = DT_f32;
    }
    if (k.gathers)
        k.num = 1;
    return k;
}

/* Of a call. */
typedef struct Shape {
    int instance;
    bool in_place;
    int64_t counts[MOST_OPERANDS]; /* of a gather: blocks */
    int64_t own_bytes[2 * MOST_DEVICES];
} Shape;

static int64_t
random_count(uint64_t *s)
{
    static const int scales[] = {1, 10, 150, MOST_COUNT};
    return below(s, scales[below(s, 4)] + 1);
}

static Shape
shape_of(uint64_t seed, int call)
{
    uint64_t s = mix(seed + 1) + (uint64_t)call;
    Shape shape = {.instance = below(&s, INSTANCES), .in_place = below(&s, 2)};
    for (int i = 0; i < MOST_OPERANDS; i++)
        shape.counts[i] = random_count(&s);
    for (int r = 0; r < 2 * MOST_DEVICES; r++)
        shape.own_bytes[r] = below(&s, 3) * below(&s, 20);
    return shape;
}

/* ---- a job of one or several processes ----------------------------------- */

typedef struct Job {
    int size, devices_each, replicas_each; /* processes, of one, of a device */
    uint64_t seed;
    int calls;
    uint64_t
        *hashes; /* of each call on each participant; NULL: not asked for */
} Job;

/* A process of it. */
typedef struct Process {
    const Job *job;
    int rank, size;
    RtColl *coll;
    RtDevice *devices[MOST_DEVICES];
    const RtMemory *arenas[2 * MOST_DEVICES]; /* of its replicas */
    Kind kinds[INSTANCES];
    RtCollInstance *instances[INSTANCES];
} Process;

typedef struct Worker {
    Process *process;
    int device;
    RtCollResult result;
    pthread_t thread;
} Worker;

static int
num_replicas(const Job *job)
{
    return job->size * job->devices_each * job->replicas_each;
}

static Status
open_coll(Process *p, const RtExchange *exchange)
{
    const Job *job = p->job;
    int devices =
        p->size == 1 ? job->size * job->devices_each : job->devices_each;
    RtCommConfig config = {.transport = "shm",
                           .rank = p->rank,
                           .size = p->size,
                           .num_replicas = num_replicas(job),
                           .first_local =
                               p->rank * devices * job->replicas_each,
                           .num_local = devices * job->replicas_each,
                           .num_devices = devices,
                           .num_participants = job->size * job->devices_each,
                           .exchange = exchange,
                           .caps = &rt_cpu_caps,
                           .devices = p->devices,
                           .timeout = 60.0,
                           .clock = clock_seconds};
    return rt_coll_open(&config, &p->coll);
}

static void
make_instances(Process *p)
{
    const RtCollOps *ops = p->coll->ops;
    for (int i = 0; i < INSTANCES; i++) {
        Kind *k = &p->kinds[i];
        RtReduceOperand operands[MOST_OPERANDS];
        *k = kind_of(p->job->seed, i, p->coll->num_replicas);
        for (int n = 0; n < k->num; n++)
            operands[n] = (RtReduceOperand){k->dtypes[n], -1, MOST_COUNT};
        if (k->gathers)
            assert_null(
                ops->all_gather_new(p->coll, k->choice, 0, &p->instances[i]));
        else
            assert_null(ops->all_reduce_new(p->coll, k->how, k->choice, k->num,
                                            operands, &p->instances[i]));
    }
}

static void
open_devices(Process *p)
{
    RtDeviceConfig config = {.name = "cpu:0",
                             .num_threads = 1,
                             .on_caller = true,
                             .shares_memory = p->coll->shares_memory,
                             .clock = clock_seconds};
    int each = p->job->replicas_each;
    for (int i = 0; i < p->coll->num_devices; i++) {
        RtDevice **d = &p->devices[i];
        assert_null(rt_cpu_open(&config, d));
        for (int k = 0; k < each; k++)
            assert_null((*d)->ops->alloc(*d, ARENA_BYTES, 0, true,
                                         &p->arenas[i * each + k]));
    }
}

static void
close_process(Process *p)
{
    for (int i = 0; i < p->coll->num_devices; i++)
        p->devices[i]->ops->close(p->devices[i]);
    p->coll->ops->close(p->coll);
}

/* ---- calls --------------------------------------------------------------- */

static void
fill(char *to, DType t, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        seed = mix(seed);
        scalar_store(t, to, i,
                     (Scalar){.dtype = DT_f64,
                              .f = ((double)(seed % 20001) - 10000.0) / 300.0});
    }
}

static void
add_to_hash(uint64_t *hash, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *hash = mix(*hash ^ (unsigned char)bytes[i]);
}

/* Where operand i begins in an arena; its result is half an arena further. */
static size_t
place_of(int i)
{
    return (size_t)i * (MOST_COUNT + 64) * 8;
}

static RtDevicePtr
result_of(const Process *p, int device, const Shape *shape, int i)
{
    const RtMemory *first = p->arenas[device * p->job->replicas_each];
    return (RtDevicePtr){
        first, place_of(i) + (shape->in_place ? 0 : (size_t)ARENA_BYTES / 2)};
}

static void
start_reduce(const Process *p, int device, int local, const Shape *shape,
             uint64_t seed)
{
    const Kind *k = &p->kinds[shape->instance];
    RtAllReducePart parts[MOST_OPERANDS];
    for (int i = 0; i < k->num; i++) {
        RtDevicePtr in = {p->arenas[local], place_of(i)};
        fill(rt_ptr_host(in), k->dtypes[i], shape->counts[i],
             seed + (uint64_t)i);
        parts[i] = (RtAllReducePart){in, result_of(p, device, shape, i),
                                     shape->counts[i]};
    }
    int first = p->rank * p->coll->num_devices * p->job->replicas_each;
    p->coll->ops->all_reduce_start(p->instances[shape->instance], first + local,
                                   parts);
}

static int64_t
num_blocks(const Shape *shape)
{
    return shape->counts[0] % 40;
}

static void
start_gather(const Process *p, int device, int local, Shape *shape,
             uint64_t seed)
{
    int first = p->rank * p->coll->num_devices * p->job->replicas_each;
    RtAllGatherPart part = {.in = {p->arenas[local], 0},
                            .outer = num_blocks(shape),
                            .own_bytes = shape->own_bytes[first + local]};
    shape->in_place = false;
    part.out = result_of(p, device, shape, 0);
    fill(rt_ptr_host(part.in), DT_u8, part.outer * part.own_bytes, seed);
    p->coll->ops->all_gather_start(p->instances[shape->instance], first + local,
                                   &part);
}

static uint64_t
hash_result(const Process *p, int device, const Shape *shape)
{
    const Kind *k = &p->kinds[shape->instance];
    uint64_t hash = 1;
    int64_t row = 0;
    if (!k->gathers) {
        for (int i = 0; i < k->num; i++)
            add_to_hash(&hash, rt_ptr_host(result_of(p, device, shape, i)),
                        (size_t)shape->counts[i] *
                            dtype_info[k->dtypes[i]].bytes);
        return hash;
    }
    for (int r = 0; r < p->coll->num_replicas; r++)
        row += shape->own_bytes[r];
    add_to_hash(&hash, rt_ptr_host(result_of(p, device, shape, 0)),
                (size_t)(row * num_blocks(shape)));
    return hash;
}

static RtCollResult
call_once(const Process *p, int device, int call)
{
    Shape shape = shape_of(p->job->seed, call);
    int each = p->job->replicas_each;
    int participant = p->rank * p->coll->num_devices + device;
    for (int k = 0; k < each; k++) {
        uint64_t seed =
            mix((uint64_t)(call * 100 + participant * each + k)) + 7;
        if (p->kinds[shape.instance].gathers)
            start_gather(p, device, device * each + k, &shape, seed);
        else
            start_reduce(p, device, device * each + k, &shape, seed);
    }
    RtCollResult r =
        p->coll->ops->done(p->instances[shape.instance], device, 0.0);
    if (p->job->hashes)
        p->job->hashes[call * MOST_DEVICES + participant] =
            hash_result(p, device, &shape);
    return r;
}

static void *
call_often(void *data)
{
    Worker *w = data;
    for (int call = 0; !w->result && call < w->process->job->calls; call++)
        w->result = call_once(w->process, w->device, call);
    return NULL;
}

static RtCollResult
run_devices(Process *p)
{
    Worker workers[MOST_DEVICES];
    RtCollResult result = COLL_OK;
    for (int i = 0; i < p->coll->num_devices; i++) {
        workers[i] = (Worker){.process = p, .device = i};
        assert_int_equal(
            pthread_create(&workers[i].thread, NULL, call_often, &workers[i]),
            0);
    }
    for (int i = 0; i < p->coll->num_devices; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].result)
            result = workers[i].result;
    }
    return result;
}

static Process *
open_process(const Job *job, int rank, int size, const RtExchange *exchange)
{
    Process *p = calloc(1, sizeof *p);
    *p = (Process){.job = job, .rank = rank, .size = size};
    assert_null(open_coll(p, exchange));
    make_instances(p);
    open_devices(p);
    assert_null(p->coll->ops->connect(p->coll));
    return p;
}

/* ---- equal bits ---------------------------------------------------------- */

static int
run_process(void *data, Forked *f, RtGroup *group)
{
    RtExchange exchange = exchange_over(group);
    (void)f;
    Process *p = open_process(data, group->rank, group->size, &exchange);
    RtCollResult r = run_devices(p);
    close_process(p);
    free(p);
    return (int)r;
}

/* Memory of this process and those that it forks. */
static void *
new_shared(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

static void
compare(int size, int devices_each, int replicas_each, int calls)
{
    int statuses[FORKED_MOST], devices = size * devices_each;
    size_t bytes = (size_t)calls * MOST_DEVICES * sizeof(uint64_t);
    Forked *f = forked_new(size, 0);
    Job job = {.size = size,
               .devices_each = devices_each,
               .replicas_each = replicas_each,
               .seed = (uint64_t)(size * 100 + devices_each),
               .calls = calls,
               .hashes = new_shared(bytes)};
    forked_run(f, run_process, &job, statuses);
    uint64_t *several = job.hashes;
    job.hashes = calloc(1, bytes);
    Process *one = open_process(&job, 0, 1, NULL);
    assert_int_equal(run_devices(one), COLL_OK);
    close_process(one);
    free(one);
    for (int r = 0; r < size; r++)
        assert_int_equal(statuses[r], 0);
    for (int i = 0; i < calls; i++)
        for (int d = 0; d < devices; d++)
            if (several[i * MOST_DEVICES + d] !=
                job.hashes[i * MOST_DEVICES + d])
                fail_msg("%d processes with %d devices: call %d, device %d",
                         size, devices_each, i, d);
    free(job.hashes);
    munmap(several, bytes);
    forked_free(f);
}

static void
processes_compute_what_one_does(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++)
        for (int each = 1; each <= 2; each++)
            compare(size, each, 1 + size % 2, num_shapes / 6 + 1);
}

/* ---- memory that cannot be mapped ---------------------------------------- */

typedef enum Refusal {
    OTHER_MACHINE,
    OTHER_CONTAINER,
    OTHER_FILE,
    NO_PROCESS,
    OTHER_USER,
    NUM_REFUSALS
} Refusal;

static const char *const refusals[NUM_REFUSALS] = {
    [OTHER_MACHINE] = "it is on another machine",
    [OTHER_CONTAINER] = "it is in another container (PID namespace)",
    [OTHER_FILE] = "process and descriptor are not of this job",
    [NO_PROCESS] = "No such file or directory",
    [OTHER_USER] = "Permission denied",
};

/* An exchange in which rank 1 seems to be elsewhere. */
typedef struct Disguise {
    RtExchange real;
    Refusal as;
} Disguise;

static Status
exchange_disguised(void *data, const char *name, const void *own, size_t bytes,
                   Arena *a, RtBytes **all)
{
    const Disguise *d = data;
    RtSegmentName said;
    if (d->real.rank == 1 && bytes == sizeof said) {
        memcpy(&said, own, sizeof said);
        said.boot[0] = d->as == OTHER_MACHINE ? 'x' : said.boot[0];
        said.pid_space += d->as == OTHER_CONTAINER;
        said.cookie += d->as == OTHER_FILE;
        said.fd += d->as == NO_PROCESS ? 1000 : 0;
        own = &said;
    }
    return rt_exchange_bytes(&d->real, name, own, bytes, a, all);
}

static int
be_refused(void *data, Forked *f, RtGroup *group)
{
    const Refusal *why = data;
    Job job = {.size = group->size, .devices_each = 1, .replicas_each = 1};
    Process p = {.job = &job, .rank = group->rank, .size = group->size};
    Disguise disguise = {exchange_over(group), *why};
    RtExchange exchange = {group->rank, group->size, exchange_disguised,
                           &disguise};
    (void)f;
    if (*why == OTHER_USER &&
        setresuid(70000 + (uid_t)group->rank, 70000 + (uid_t)group->rank,
                  70000 + (uid_t)group->rank))
        return 2;
    Status st = open_coll(&p, &exchange);
    if (!st)
        return 3;
    const char *said = status_message(st);
    bool right = strstr(said, "rank 0 cannot map memory of rank 1: ") &&
                 strstr(said, refusals[*why]) &&
                 status_kind(st) == STATUS_INPUT;
    if (!right)
        fprintf(stderr, "rank %d: %s\n", group->rank, said);
    status_free(st);
    return !right;
}

/* All processes say the same, and may then take another transport. */
static void
memory_out_of_reach_is_told(void **state)
{
    (void)state;
    for (Refusal why = 0; why < NUM_REFUSALS; why++) {
        int statuses[3];
        Forked *f = forked_new(3, 0);
        if (why == OTHER_USER && geteuid() != 0)
            continue; /* only root can be two users */
        forked_run(f, be_refused, &why, statuses);
        for (int r = 0; r < 3; r++)
            assert_int_equal(statuses[r], 0);
        forked_free(f);
    }
}

static void
too_much_memory_is_told(void **state)
{
    RtSegment s;
    (void)state;
    assert_status_says(rt_segment_new(SIZE_MAX / 4, false, &s), STATUS_MACHINE,
                       " bytes that processes share");
}

/* ---- processes that are killed ------------------------------------------- */

/* Rank `victim` is killed while it calls for the `at`th time; the others hear
 * of it, as they would from the job, and are to end. */
typedef struct Murder {
    Job job;
    int victim, at;
    _Atomic pid_t pid;         /* of the victim */
    _Atomic int calls;         /* of the victim */
    _Atomic uint32_t is_ready; /* whether pid is set */
} Murder;

/* Somewhere in the next call or the one after it. */
static void *
kill_own_process(void *data)
{
    Murder *m = data;
    while (atomic_load(&m->calls) < m->at)
        sched_yield();
    for (volatile int i = (int)(mix((uint64_t)m->at) % 20000); i > 0;)
        i = i - 1;
    kill(getpid(), SIGKILL);
    return NULL;
}

typedef struct Witness {
    Murder *murder;
    RtColl *coll;
} Witness;

static void *
stop_when_it_dies(void *data)
{
    Witness *w = data;
    uint32_t is_ready = 0;
    while (!is_ready)
        is_ready = forked_wait(&w->murder->is_ready, 0);
    struct pollfd victim = {
        .fd = (int)syscall(SYS_pidfd_open, atomic_load(&w->murder->pid), 0),
        .events = POLLIN};
    while (victim.fd >= 0 && poll(&victim, 1, -1) < 0)
        continue;
    w->coll->ops->abort(w->coll);
    return NULL;
}

static RtCollResult
call_until_killed(Process *p, Murder *m, bool is_victim)
{
    RtCollResult r = COLL_OK;
    for (int call = 0; !r; call++) {
        r = call_once(p, 0, call);
        if (is_victim)
            atomic_store(&m->calls, call);
    }
    return r;
}

static int
see_a_murder(void *data, Forked *f, RtGroup *group)
{
    Murder *m = data;
    RtExchange exchange = exchange_over(group);
    bool is_victim = group->rank == m->victim;
    pthread_t thread;
    (void)f;
    Process *p = open_process(&m->job, group->rank, group->size, &exchange);
    Witness w = {m, p->coll};
    if (is_victim) {
        atomic_store(&m->pid, getpid());
        forked_add(&m->is_ready, 1);
    }
    pthread_create(&thread, NULL,
                   is_victim ? kill_own_process : stop_when_it_dies,
                   is_victim ? (void *)m : &w);
    RtCollResult r = call_until_killed(p, m, is_victim);
    pthread_join(thread, NULL);
    close_process(p);
    free(p);
    return r == COLL_ABORTED ? 0 : 1;
}

static void
a_killed_process_holds_nobody(void **state)
{
    (void)state;
    for (int round = 0; round < num_shapes / 50; round++) {
        int size = 2 + round % 3, statuses[FORKED_MOST];
        Forked *f = forked_new(size, 0);
        Murder *m = new_shared(sizeof *m);
        m->job = (Job){.size = size,
                       .devices_each = 1,
                       .replicas_each = 1,
                       .seed = (uint64_t)round};
        m->victim = round % size;
        m->at = 1 + (int)(mix((uint64_t)round) % 50);
        forked_run(f, see_a_murder, m, statuses);
        for (int r = 0; r < size; r++)
            assert_int_equal(statuses[r], r == m->victim ? 128 + SIGKILL : 0);
        munmap(m, sizeof *m);
        forked_free(f);
    }
}

/* Rank 0 stops, and its communicator; the others call until they learn. */
static int
stop_or_be_stopped(void *data, Forked *f, RtGroup *group)
{
    RtExchange exchange = exchange_over(group);
    (void)f;
    Process *p = open_process(data, group->rank, group->size, &exchange);
    RtCollResult r = COLL_OK;
    for (int call = 0; !r && (group->rank > 0 || call < 20); call++)
        r = call_once(p, 0, call);
    if (group->rank == 0)
        p->coll->ops->abort(p->coll);
    close_process(p);
    free(p);
    return r == (group->rank == 0 ? COLL_OK : COLL_ABORTED) ? 0 : 1;
}

static void
an_abort_stops_all_processes(void **state)
{
    Job job = {.size = 3, .devices_each = 1, .replicas_each = 1, .seed = 5};
    int statuses[3];
    Forked *f = forked_new(3, 0);
    (void)state;
    forked_run(f, stop_or_be_stopped, &job, statuses);
    for (int r = 0; r < 3; r++)
        assert_int_equal(statuses[r], 0);
    forked_free(f);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_compute_what_one_does),
        cmocka_unit_test(memory_out_of_reach_is_told),
        cmocka_unit_test(too_much_memory_is_told),
        cmocka_unit_test(a_killed_process_holds_nobody),
        cmocka_unit_test(an_abort_stops_all_processes),
    };
    if (argc > 1)
        num_shapes = atoi(argv[1]);
    return cmocka_run_group_tests_name("coll_shm", tests, NULL, NULL);
}
