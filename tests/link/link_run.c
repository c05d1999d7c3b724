/*
 * link_run.c - collectives and a group over a real link, as one of some
 * processes
 *
 *     link_run                 forked: two to four processes over zmq
 *     link_run near            some of them on one machine, in its memory
 *     link_run ucx             the same over UCX, by shared memory and by TCP
 *     mpirun -n P link_run mpi
 *
 * Operands follow from their replica, so each process computes what it expects.
 * Prints one line, by rank 0, and exits with 1 if anything differs.
 */
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "runtime/coll/algorithm/reduce.h"
#include "runtime/coll/messages/messages.h"
#include "runtime/coll/transport.h"
#include "runtime/link/join/join.h"
#include "runtime/cluster/mpi/library.h"

enum { EACH = 3, MOST = 1 << 19, MOST_PROCESSES = 8, MOST_EXCHANGES = 4 };

static void
check(Status st)
{
    if (st) {
        status_report(st, "link_run", stderr);
        _exit(1);
    }
}

static void
want(bool is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "link_run: %s\n", what);
        _exit(1);
    }
}

/* ---- addresses ----------------------------------------------------------- */

/* Memory that the forked processes share; alone, everybody's is as one's own
 * but for its rank. */
typedef struct Board {
    _Atomic int num;
    size_t len[MOST_PROCESSES];
    char bytes[MOST_PROCESSES][RT_LINK_MAX_ADDRESS];
} Board;

static Board *board; /* of each exchange */

static Status
exchange_on_board(void *data, const char *name, const void *own, size_t bytes,
                  Arena *a, RtBytes **all)
{
    static int num; /* of this process */
    const RtExchange *x = data;
    Board *b = &board[num++];
    (void)name;
    want(num <= MOST_EXCHANGES, "too many exchanges");
    memcpy(b->bytes[x->rank], own, bytes);
    b->len[x->rank] = bytes;
    atomic_fetch_add(&b->num, 1);
    while (atomic_load(&b->num) < x->size)
        poll(NULL, 0, 1);
    *all = NEW_ARRAY(a, RtBytes, (size_t)x->size);
    for (int k = 0; k < x->size; k++)
        (*all)[k] = (RtBytes){b->bytes[k], b->len[k]};
    return OK;
}

/* An address of MPI begins with its rank, behind the name of the link. */
static Status
exchange_ranks(void *data, const char *name, const void *own, size_t bytes,
               Arena *a, RtBytes **all)
{
    const RtExchange *x = data;
    (void)name;
    *all = NEW_ARRAY(a, RtBytes, (size_t)x->size);
    for (int k = 0; k < x->size; k++) {
        char *copy = arena_copy(a, own, bytes);
        memcpy(copy + 16, &k, sizeof k);
        (*all)[k] = (RtBytes){copy, bytes};
    }
    return OK;
}

/* ---- collectives --------------------------------------------------------- */

static const RtMemory everything = {
    .bytes = SIZE_MAX, .address = 1, .host = (char *)1};

static RtDevicePtr
at(const void *p)
{
    return (RtDevicePtr){&everything, (uintptr_t)p - 1};
}

static void
fill(float *x, int count, int replica)
{
    for (int i = 0; i < count; i++)
        x[i] = (float)((i * 7919 + replica * 104729) % 10007) / 97.0f;
}

static void
reduce(RtColl *c, RtCollInstance *s, int rank, int count)
{
    static float own[EACH][MOST], out[MOST], all[MOST_PROCESSES * EACH][MOST];
    const void *in[MOST_PROCESSES * EACH];
    void *wanted = malloc((size_t)count * sizeof(float));
    for (int k = 0; k < c->num_replicas; k++) {
        fill(all[k], count, k);
        in[k] = all[k];
    }
    rt_reduce_kernel(REDUCE_SUM, DT_f32)(c->num_replicas, in, 1, &wanted, 0,
                                         count);
    for (int k = 0; k < EACH; k++) {
        RtAllReducePart part = {at(own[k]), at(out), count};
        fill(own[k], count, rank * EACH + k);
        c->ops->all_reduce_start(s, rank * EACH + k, &part);
    }
    want(c->ops->done(s, 0, 0.0) == COLL_OK, "a sum does not end");
    want(memcmp(out, wanted, (size_t)count * sizeof(float)) == 0,
         "a sum is another one");
    free(wanted);
}

static void
reduce_all(RtCarrier *carrier, int rank, int size, int algorithm)
{
    RtDeviceConfig config = {.name = "cpu:0",
                             .num_threads = 1,
                             .on_caller = true,
                             .clock = clock_seconds};
    RtDevice *d;
    check(rt_cpu_open(&config, &d));
    RtCommConfig comm = {.transport = "messages",
                         .rank = rank,
                         .size = size,
                         .num_replicas = size * EACH,
                         .first_local = rank * EACH,
                         .num_local = EACH,
                         .num_devices = 1,
                         .num_participants = size,
                         .caps = &rt_cpu_caps,
                         .devices = &d,
                         .carrier = carrier,
                         .timeout = 60,
                         .clock = clock_seconds};
    RtReduceOperand operand = {DT_f32, -1, MOST};
    RtColl *c;
    RtCollInstance *s;
    check(rt_coll_open(&comm, &c));
    check(c->ops->all_reduce_new(c, REDUCE_SUM, (RtAlgorithmChoice){0}, 1,
                                 &operand, &s));
    if (algorithm < NUM_MESSAGES_ALGORITHMS)
        rt_messages_force(c, (RtMessagesAlgorithm)algorithm);
    check(c->ops->connect(c));
    for (int count = 1; count <= MOST; count *= 8)
        reduce(c, s, rank, count);
    c->ops->disconnect(c);
    d->ops->close(d);
    c->ops->close(c);
}

/* ---- a group ------------------------------------------------------------- */

static void
take(void *data, int rank, const void *part, size_t n)
{
    int *next = data;
    const unsigned char *byte = part;
    want(rank == *next, "parts come in another order");
    want(n == (size_t)rank * 1000, "a part has another length");
    for (size_t i = 0; i < n; i++)
        want(byte[i] == rank, "a part is another one");
    ++*next;
}

static void
use_group(RtCarrier *carrier, int rank, int size)
{
    RtGroup *g = rt_link_group_open(carrier, 60);
    int all[MOST_PROCESSES];
    unsigned char bytes[MOST_PROCESSES * 1000];
    for (int i = 0; i < 50; i++) {
        int own = rank + i, ahead = i;
        check(g->ops->start(g, 0, &ahead, sizeof ahead));
        check(g->ops->start(g, 1, &own, sizeof own));
        check(g->ops->finish(g, 1, all));
        for (int k = 0; k < size; k++)
            want(all[k] == k + i, "an exchange is another one");
        check(g->ops->finish(g, 0, all));
    }
    for (int root = 0; root < size; root++) {
        int next = 0;
        memset(bytes, rank == root ? 77 : 0, sizeof bytes);
        check(g->ops->broadcast(g, root, bytes, sizeof bytes));
        want(bytes[0] == 77 && bytes[sizeof bytes - 1] == 77, "no broadcast");
        memset(bytes, rank, sizeof bytes);
        check(g->ops->gather(g, root, bytes, (size_t)rank * 1000, take, &next));
        want(next == (rank == root ? size : 0), "parts are missing");
    }
    g->ops->abort(g);
    Status st = g->ops->start(g, 0, all, sizeof all);
    want(st && status_kind(st) == STATUS_STOPPED, "an abort stops nothing");
    status_free(st);
    g->ops->close(g);
}

/* ---- processes ----------------------------------------------------------- */

/* How the processes of a job are told to join. */
typedef struct Way {
    const char *name;
    const uint8_t *key;
    const int *machine_of;
    int contained; /* a rank in a container of its own; -1: none is */
} Way;

static void
check_near(const RtCarrier *c, const Way *way, int rank, int size)
{
    for (int k = 0; k < size; k++) {
        bool is_near = way->machine_of && k != rank && k != way->contained &&
                       rank != way->contained &&
                       way->machine_of[k] == way->machine_of[rank];
        want(rt_carrier_is_near(c, k) == is_near,
             is_near ? "a near process is not reached in memory"
                     : "a far process is reached in memory");
    }
}

static void
be(const Way *way, RtExchange *x)
{
    RtCarrier *c;
    RtLinkOptions options = {.name = way->name,
                             .interface = "127.0.0.1",
                             .key = way->key,
                             .machine_of = way->machine_of,
                             .timeout = 30};
    x->data = x;
    check(rt_link_join(&options, x, &c));
    check_near(c, way, x->rank, x->size);
    for (int algorithm = 0; algorithm <= NUM_MESSAGES_ALGORITHMS; algorithm++)
        reduce_all(c, x->rank, x->size, algorithm);
    use_group(c, x->rank, x->size);
    IrLinkSpeed s = rt_carrier_topology(c).far;
    if (x->rank == 0)
        printf("# %d processes over %s: %.1f us, %.2f GB/s\n", x->size,
               way->name, s.latency * 1e6, s.rate * 1e-9);
    fflush(stdout);
    rt_carrier_close(c);
}

/* Goes on as the first process of a PID namespace. */
static void
enter_container(void)
{
    int status;
    if (unshare(CLONE_NEWPID)) {
        perror("link_run: unshare");
        _exit(1);
    }
    pid_t first = fork();
    if (first == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return;
    }
    _exit(waitpid(first, &status, 0) != first || status != 0);
}

static int
fork_all(int size, Way way)
{
    int failed = 0, status;
    size_t bytes = MOST_EXCHANGES * sizeof *board;
    board = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(stdout);
    for (int k = 0; k < size; k++)
        if (fork() == 0) {
            RtExchange x = {k, size, exchange_on_board, NULL};
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (k == way.contained)
                enter_container();
            be(&way, &x);
            _exit(0);
        }
    for (int k = 0; k < size; k++) {
        wait(&status);
        failed |= status;
    }
    munmap(board, bytes);
    return failed;
}

static int
run_mpi(void)
{
    const MpiLibrary *mpi;
    RtExchange x = {0, 0, exchange_ranks, NULL};
    check(rt_mpi_library_open(NULL, 0, &mpi));
    mpi->MPI_Comm_rank(mpi->world, &x.rank);
    mpi->MPI_Comm_size(mpi->world, &x.size);
    if (x.rank == 0)
        printf("# %s\n", mpi->family);
    be(&(Way){.name = "mpi", .contained = -1}, &x);
    rt_mpi_library_close(0);
    return 0;
}

/* Tried in a child: processes that are forked open it themselves. */
static bool
has_ucx(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        setenv("UCX_MEM_EVENTS", "n", 0); /* as ucx/library.c: for sanitizers */
        _exit(!dlopen("libucp.so.0", RTLD_LAZY));
    }
    return waitpid(child, &status, 0) == child && status == 0;
}

static int
run_ucx(void)
{
    static const char *const transports[] = {"", "self,posix,sysv,cma",
                                             "self,tcp"};
    if (!has_ucx()) {
        printf("1..0 # SKIP there is no libucp.so.0 (Debian: libucx0)\n");
        return 0;
    }
    printf("1..3\n");
    for (int i = 0; i < 3; i++) {
        if (i)
            setenv("UCX_TLS", transports[i], 1);
        printf("%s %d - %d processes over UCX %s\n",
               fork_all(i + 2, (Way){.name = "ucx", .contained = -1}) ? "not ok"
                                                                      : "ok",
               i + 1, i + 2, transports[i]);
    }
    return 0;
}

static bool
has_containers(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(unshare(CLONE_NEWPID) != 0);
    return waitpid(child, &status, 0) == child && status == 0;
}

static int
run_near(void)
{
    static const struct {
        const char *what;
        int size, machine_of[MOST_PROCESSES], contained;
    } jobs[] = {{"two on each machine", 4, {0, 0, 1, 1}, -1},
                {"of a machine in no order", 5, {0, 1, 0, 1, 0}, -1},
                {"one alone on its machine", 3, {0, 0, 1}, -1},
                {"one of a machine in a container", 4, {0, 0, 0, 1}, 1}};
    enum { NUM = sizeof jobs / sizeof *jobs };
    bool skips = !has_containers();
    printf("1..%d\n", NUM);
    for (int i = 0; i < NUM; i++) {
        Way way = {.name = "zmq",
                   .machine_of = jobs[i].machine_of,
                   .contained = jobs[i].contained};
        bool is_skipped = skips && way.contained >= 0;
        printf("%s %d - %s%s\n",
               is_skipped || fork_all(jobs[i].size, way) == 0 ? "ok" : "not ok",
               i + 1, jobs[i].what,
               is_skipped ? " # SKIP no PID namespaces here" : "");
    }
    return 0;
}

int
main(int argc, char **argv)
{
    uint8_t key[32] = {1, 2, 3};
    if (argc > 1 && strcmp(argv[1], "mpi") == 0)
        return run_mpi();
    if (argc > 1 && strcmp(argv[1], "ucx") == 0)
        return run_ucx();
    if (argc > 1 && strcmp(argv[1], "near") == 0)
        return run_near();
    printf("1..3\n");
    for (int i = 0; i < 3; i++) {
        Way way = {"zmq", i == 1 ? key : NULL, NULL, -1};
        printf("%s %d - %d processes over zmq%s\n",
               fork_all(i + 2, way) ? "not ok" : "ok", i + 1, i + 2,
               i == 1 ? ", encrypted" : "");
    }
    return 0;
}
