/*
 * all_reduce.c - all_reduce of several processes, beside MPI_Allreduce
 *
 *   mpirun -n P all_reduce [OPTION]... MEGABYTES...
 *
 * Each rank has one CPU device, and a communicator of this project beside
 * MPI's. In each round both sum the same number of f32, from one buffer to
 * another; the time is that of the slowest rank.  Printed are medians, their
 * ratio, and for comparison how long it takes when every rank copies as many
 * bytes from one buffer to another at the same time: what has to be read and
 * written at least.
 *
 *   --rounds N      so many
 *   --link NAME     the processes send messages over this link; else they share
 *                   memory, as those of one machine
 *   --gigabits N    the rate of each process's network: prints how much of it
 *                   is used, if a process sends and receives 2 (P - 1) / P of
 *                   the bytes, which is the least
 *   --check N       fails if tfd's time is more than N times MPI's
 *
 * Without a link the time of an exchange of the mains (cluster/group) comes
 * last, of 64 bytes.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include "ir/base/clock.h"
#include "runtime/cluster/group/shared.h"
#include "runtime/coll/coll.h"
#include "runtime/link/join/join.h"
#include "tests/bench/times.h"

enum { MOST_ROUNDS = 1000, GROUP_ROUNDS = 2000 };

static int rank, size;

static struct {
    int rounds; /* 0: as many as are usual */
    const char *link;
    double gigabits, most;
} options;

static _Noreturn void
fail(const char *what)
{
    fprintf(stderr, "all_reduce: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void
must(Status st)
{
    if (st)
        fail(status_message(st));
}

/* ---- what joins the processes -------------------------------------------- */

static Status
exchange(void *data, const char *name, const void *own, size_t bytes, Arena *a,
         RtBytes **all)
{
    int n = (int)bytes, total = 0;
    int *counts = NEW_ARRAY(a, int, (size_t)size);
    int *begins = NEW_ARRAY(a, int, (size_t)size);
    (void)data, (void)name;
    MPI_Allgather(&n, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; total += counts[r++])
        begins[r] = total;
    char *bytes_of_all = arena_alloc(a, (size_t)total + 1);
    MPI_Allgatherv(own, n, MPI_BYTE, bytes_of_all, counts, begins, MPI_BYTE,
                   MPI_COMM_WORLD);
    *all = NEW_ARRAY(a, RtBytes, (size_t)size);
    for (int r = 0; r < size; r++)
        (*all)[r] = (RtBytes){bytes_of_all + begins[r], (size_t)counts[r]};
    return OK;
}

/* The carrier of --link, or NULL. */
static RtCarrier *
join(const RtExchange *x)
{
    RtCarrier *c = NULL;
    RtLinkOptions link = {.name = options.link, .timeout = 60.0};
    if (!options.link)
        return NULL;
    must(rt_link_join(&link, x, &c));
    IrLinkSpeed s = rt_carrier_topology(c).far;
    if (rank == 0)
        printf("P = %d over %s: a message takes %.1f us, and %.3f Gbit/s\n",
               size, options.link, s.latency * 1e6, s.rate * 8e-9);
    return c;
}

/* This process's part of a sum of count elements. */
typedef struct Sum {
    RtColl *coll;
    RtDevice *device;
    RtCollInstance *instance;
    RtDevicePtr in, out;
    int64_t count;
} Sum;

static void
open_sum(Sum *s, const RtExchange *x, RtCarrier *carrier, int64_t count)
{
    RtReduceOperand operand = {DT_f32, -1, count};
    RtDeviceConfig device = {.name = "cpu:0",
                             .num_threads = 1,
                             .spin = rt_may_spin(size),
                             .on_caller = true,
                             .shares_memory = !carrier,
                             .clock = clock_seconds};
    RtCommConfig config = {.transport = carrier ? "messages" : "shm",
                           .rank = rank,
                           .size = size,
                           .num_replicas = size,
                           .first_local = rank,
                           .num_local = 1,
                           .num_devices = 1,
                           .num_participants = size,
                           .exchange = x,
                           .carrier = carrier,
                           .caps = &rt_cpu_caps,
                           .devices = &s->device,
                           .timeout = 60.0,
                           .clock = clock_seconds};
    size_t bytes = (size_t)count * sizeof(float);
    const RtMemory *memory;
    s->count = count;
    must(rt_coll_open(&config, &s->coll));
    must(s->coll->ops->all_reduce_new(s->coll, REDUCE_SUM,
                                      (RtAlgorithmChoice){0}, 1, &operand,
                                      &s->instance));
    must(rt_cpu_open(&device, &s->device));
    must(s->device->ops->alloc(s->device, 2 * bytes, 0, true, &memory));
    s->in = (RtDevicePtr){memory, 0};
    s->out = (RtDevicePtr){memory, bytes};
    must(s->coll->ops->connect(s->coll));
}

static void
close_sum(Sum *s)
{
    if (s->coll->ops->disconnect)
        s->coll->ops->disconnect(s->coll);
    s->device->ops->close(s->device);
    s->coll->ops->close(s->coll);
}

/* ---- what is measured ---------------------------------------------------- */

typedef struct Buffers {
    Sum sum;
    float *in, *out; /* MPI's */
    size_t bytes;
} Buffers;

static void
sum_by_tfd(Buffers *b)
{
    RtAllReducePart part = {b->sum.in, b->sum.out, b->sum.count};
    const RtCollOps *ops = b->sum.coll->ops;
    ops->all_reduce_start(b->sum.instance, rank, &part);
    if (ops->done(b->sum.instance, 0, 0.0) != COLL_OK)
        fail("a sum has not ended");
}

static void
sum_by_mpi(Buffers *b)
{
    MPI_Allreduce(b->in, b->out, (int)b->sum.count, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
}

static void
copy(Buffers *b)
{
    memcpy(b->out, b->in, b->bytes);
}

typedef enum Way { BY_TFD, BY_MPI, BY_COPY, NUM_WAYS } Way;
typedef void Run(Buffers *b);
static Run *const runs[NUM_WAYS] = {sum_by_tfd, sum_by_mpi, copy};

/* Of the slowest rank. */
static double
time_once(Run *run, Buffers *b)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = nanoseconds(), slowest;
    run(b);
    double own = nanoseconds() - begin;
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static void
fill(Buffers *b)
{
    float *own = (float *)(void *)rt_ptr_host(b->sum.in);
    for (int64_t i = 0; i < b->sum.count; i++)
        own[i] = b->in[i] = (float)(i % 1000) + (float)rank;
}

/* Both have summed the same small integers. */
static void
compare(const Buffers *b)
{
    if (memcmp(rt_ptr_host(b->sum.out), b->out, b->bytes) != 0)
        fail("the sums differ");
}

static double
percent_of_wire(double bytes, double us)
{
    double least = 2 * bytes * (size - 1) / size;
    return 100 * least * 8 / (us * 1e3 * options.gigabits);
}

static void
print_times(const Buffers *b, double times[][MOST_ROUNDS], const double *us)
{
    printf("P = %d, %6g MB: tfd %9.1f us, MPI %9.1f us (best %.1f, %.1f), "
           "ratio %.3f; copies alone %9.1f us (%.2f of tfd's)\n",
           size, (double)b->bytes / 1048576, us[BY_TFD], us[BY_MPI],
           times[BY_TFD][0] / 1e3, times[BY_MPI][0] / 1e3,
           us[BY_TFD] / us[BY_MPI], us[BY_COPY], us[BY_COPY] / us[BY_TFD]);
    if (options.gigabits > 0)
        printf("  of %g Gbit/s: tfd %.1f %%, MPI %.1f %%; tfd's rate is %.3f "
               "of MPI's\n",
               options.gigabits, percent_of_wire((double)b->bytes, us[BY_TFD]),
               percent_of_wire((double)b->bytes, us[BY_MPI]),
               us[BY_MPI] / us[BY_TFD]);
}

/* The ratio of medians. */
static double
measure(const RtExchange *x, RtCarrier *carrier, double megabytes, int rounds)
{
    static double times[NUM_WAYS][MOST_ROUNDS];
    int64_t count = (int64_t)(megabytes * 1048576.0 / sizeof(float));
    Buffers b = {.bytes = (size_t)count * sizeof(float)};
    b.in = aligned_alloc(64, b.bytes);
    b.out = aligned_alloc(64, b.bytes);
    open_sum(&b.sum, x, carrier, count);
    fill(&b);
    for (int w = 0; w < BY_COPY; w++)
        time_once(runs[w], &b);
    compare(&b);
    for (int i = 0; i < rounds; i++)
        for (int w = 0; w < NUM_WAYS; w++)
            times[w][i] = time_once(runs[w], &b);
    double us[NUM_WAYS];
    for (int w = 0; w < NUM_WAYS; w++)
        us[w] = median(times[w], rounds) / 1e3;
    if (rank == 0)
        print_times(&b, times, us);
    close_sum(&b.sum);
    free(b.in);
    free(b.out);
    return us[BY_TFD] / us[BY_MPI];
}

static void
measure_group(const RtExchange *x)
{
    static double times[GROUP_ROUNDS];
    char own[64] = "", *all = calloc((size_t)size, sizeof own);
    RtSharedGroupConfig config = {x, rt_may_spin(size), 60.0, clock_seconds};
    Arena *a = arena_new(NULL, "why");
    Str why = str_new(a);
    RtGroup *g;
    must(rt_shared_group_open(&config, &g, &why));
    if (!g)
        fail(str_text(&why));
    for (int i = 0; i < GROUP_ROUNDS; i++) {
        double begin = nanoseconds();
        must(g->ops->start(g, 0, own, sizeof own));
        must(g->ops->finish(g, 0, all));
        times[i] = nanoseconds() - begin;
    }
    double half = median(times, GROUP_ROUNDS) / 1e3;
    if (rank == 0)
        printf("P = %d, exchange of the mains: %.2f us (best tenth %.2f, %s)\n",
               size, half, times[GROUP_ROUNDS / 10] / 1e3,
               config.spin ? "spinning" : "sleeping");
    g->ops->close(g);
    arena_release(a);
    free(all);
}

/* The index of the first size. */
static int
read_options(int argc, char **argv)
{
    int at = 1;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        const char *name = argv[at], *value = argv[at + 1];
        if (strcmp(name, "--rounds") == 0)
            options.rounds = atoi(value);
        else if (strcmp(name, "--link") == 0)
            options.link = value;
        else if (strcmp(name, "--gigabits") == 0)
            options.gigabits = atof(value);
        else if (strcmp(name, "--check") == 0)
            options.most = atof(value);
        else
            fail(name);
    }
    return at;
}

static int
rounds_of(double megabytes)
{
    if (options.rounds > 0 && options.rounds < MOST_ROUNDS)
        return options.rounds;
    return megabytes >= 16 ? 15 : 301;
}

int
main(int argc, char **argv)
{
    bool is_over_limit = false;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    RtExchange x = {rank, size, exchange, NULL};
    int at = read_options(argc, argv);
    RtCarrier *carrier = join(&x);
    for (; at < argc; at++) {
        double megabytes = atof(argv[at]);
        double ratio = measure(&x, carrier, megabytes, rounds_of(megabytes));
        is_over_limit |= options.most > 0 && ratio > options.most;
    }
    if (carrier)
        rt_carrier_close(carrier);
    else
        measure_group(&x);
    MPI_Finalize();
    return is_over_limit;
}
