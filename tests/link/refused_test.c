/*
 * refused_test.c - what links and what is on them refuse, and how they say it
 */
#include "tests/unit/unit.h"
#include "tests/unit/status.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/cluster/zmq/socket.h"
#include "runtime/link/join/join.h"
#include "runtime/link/mpi/mpi.h"
#include "runtime/link/zmq/zmq.h"
#include "tests/link/memory.h"

static const char *fake_mpi, *fake_without;     /* fake_mpi.c, and less of it */
static const char *fake_ucx, *fake_without_arm; /* fake_ucx.c, the same */

/* What rank 1 of two answers: these bytes, or as rank 0. */
static const void *answer;
static size_t answer_bytes;

static Status
exchange(void *data, const char *name, const void *own, size_t bytes, Arena *a,
         RtBytes **all)
{
    (void)data;
    (void)name;
    *all = NEW_ARRAY(a, RtBytes, 2);
    (*all)[0] = (RtBytes){arena_copy(a, own, bytes), bytes};
    (*all)[1] = answer ? (RtBytes){answer, answer_bytes} : (*all)[0];
    return OK;
}

static Status
join(const char *name, const char *mpi)
{
    RtCarrier *c;
    RtExchange x = {0, 2, exchange, NULL};
    RtLinkOptions options = {
        .name = name, .mpi = mpi, .interface = "127.0.0.1", .timeout = 0.05};
    return rt_link_join(&options, &x, &c);
}

static void
a_job_has_one_link(void **state)
{
    static const char other[16 + 8] = "mpi";
    (void)state;
    answer = other;
    answer_bytes = sizeof other;
    assert_status_says(join("zmq", NULL), STATUS_INPUT,
                       "rank 1 sends messages over mpi, and rank 0 over zmq: "
                       "all processes use one link");
    answer = NULL;
}

static void
without_curve_there_is_only_loopback(void **state)
{
    RtZmq zmq = {.has_curve = 0};
    RtCurveKeys keys = {.given = false};
    (void)state;
    assert_null(rt_zmq_check_address(&zmq, &keys, "tcp://127.0.0.1:9"));
    assert_status_says(rt_zmq_check_address(&zmq, &keys, "tcp://192.0.2.1:9"),
                       STATUS_MACHINE, "this libzmq has no CURVE");
}

static void
addresses_of_zmq_are_checked(void **state)
{
    static char other[4096] = "zmq";
    (void)state;
    answer = other;
    answer_bytes = 20;
    assert_status_says(join("zmq", NULL), STATUS_INPUT,
                       "rank 1 has no address of ZeroMQ: all processes use one "
                       "link");
    RtLink *l;
    assert_null(rt_link_zmq_open(0, 2, "127.0.0.1", NULL, &l));
    answer_bytes = 16 + l->ops->address(l).len;
    l->ops->close(l, true);
    assert_status_says(join("zmq", NULL), STATUS_INPUT,
                       "rank 1 has a damaged address");
    answer = NULL;
}

static void
a_library_that_is_not_there_is_no_mpi(void **state)
{
    (void)state;
    Status st = join("mpi", "/nowhere/libmpi.so");
    assert_int_equal(status_kind(st), STATUS_INPUT);
    assert_non_null(strstr(status_message(st),
                           "cannot open the MPI library of --mpi: "
                           "/nowhere/libmpi.so"));
    status_free(st);
}

/* An MPI is opened once in a process: each case has its own. */
static void
refuses(const char *library, const char *fake, const void *other, size_t n,
        const char *message)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        setenv("FAKE_MPI", fake, 1);
        answer = other;
        answer_bytes = n;
        Status st = join("mpi", library);
        if (strcmp(status_message(st), message) != 0)
            fprintf(stderr, "# %s\n", status_message(st));
        _exit(strcmp(status_message(st), message) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* What a child says that has loaded this library as libucp.so.0, or that may
 * open no file. */
static void
ucx_refuses(const char *library, const char *call, const char *message)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setenv("FAKE_UCX", call, 1);
        if (!library)
            setrlimit(RLIMIT_NOFILE, &none);
        else if (!dlopen(library, RTLD_NOW))
            _exit(2);
        Status st = join("ucx", NULL);
        bool is_said = strstr(status_message(st), message) != NULL;
        if (!is_said)
            fprintf(stderr, "# %s\n", status_message(st));
        _exit(!is_said);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void
what_a_ucx_refuses(void **state)
{
    static const char *const calls[] = {
        "ucp_config_read",   "ucp_config_modify",      "ucp_init_version",
        "ucp_worker_create", "ucp_worker_get_efd",     "ucp_ep_create",
        "ucp_tag_recv_nbx",  "ucp_worker_get_address", "ucp_tag_send_nbx"};
    (void)state;
    ucx_refuses(NULL, "",
                "cannot open libucp.so.0, which --link ucx needs (on Debian "
                "the package libucx0): ");
    ucx_refuses(fake_without_arm, "",
                "libucp.so.0 has no ucp_worker_arm; UCX 1.10 or newer is "
                "needed");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char message[128];
        snprintf(message, sizeof message, "%s fails: No such device", calls[i]);
        ucx_refuses(fake_ucx, calls[i], message);
    }
}

/* The name of the link, then the rank, the size and the family of rank 1. */
typedef struct Blob {
    char link[16];
    int rank, size;
    char family[32];
} Blob;

static void
what_an_mpi_refuses(void **state)
{
    const Blob none = {"mpi", 0, 0, ""}, other = {"mpi", 1, 2, "Open MPI"};
    (void)state;
    refuses(fake_without, "", NULL, 0, "this MPI has no MPI_Cancel");
    refuses(fake_mpi, "MPI_Init_thread", NULL, 0,
            "MPI_Init_thread fails (MPICH)");
    refuses(fake_mpi, "threads", NULL, 0,
            "this MPI (MPICH) may be called by main's thread only: tfd-run "
            "needs one with MPI_THREAD_SERIALIZED");
    refuses(fake_mpi, "", &none, 20,
            "rank 1 has no address of MPI: all processes use one link");
    refuses(fake_mpi, "", &other, sizeof other,
            "rank 1 has Open MPI, and rank 0 MPICH: use one MPI on all hosts "
            "(--mpi PATH)");
    refuses(fake_mpi, "size", NULL, 0,
            "MPI says that rank 0 is 0 of 1, and the job has 2 processes: is "
            "its launcher that of another MPI than MPICH?");
    refuses(fake_mpi, "MPI_Irecv", NULL, 0, "MPI_Irecv fails");
    refuses(fake_mpi, "MPI_Test", NULL, 0,
            "MPI_Test fails: another process may have died");
}

static void
a_group_waits_no_longer_than_it_may(void **state)
{
    RtCarrier *c;
    RtLinkAddress none[2] = {{0}};
    int own = 1, all[2];
    MemoryNet *net = memory_net_new(2, 1, 0);
    (void)state;
    assert_null(rt_carrier_open(memory_link(net, 0), none, &c));
    RtGroup *g = rt_link_group_open(c, 0.05);
    assert_null(g->ops->start(g, 0, &own, sizeof own));
    assert_status_says(g->ops->finish(g, 0, all), STATUS_MACHINE,
                       "rank 0 waits for rank 1, which has not come after "
                       "0.05 s");
    g->ops->abort(g);
    assert_status_says(g->ops->start(g, 1, &own, sizeof own), STATUS_STOPPED,
                       "the processes of the job were stopped");
    g->ops->close(g);
    rt_carrier_close(c);
    memory_net_free(net);
}

static void
take_none(void *data, int rank, const void *part, size_t n)
{
    (void)data;
    (void)part;
    assert_int_equal(rank, 0); /* this one */
    assert_int_equal(n, sizeof(int));
}

static void
a_part_has_a_length_that_can_be(void **state)
{
    enum { TAG_LENGTH = 1024 + RT_GROUP_SLOTS * 16 + 1 }; /* group.c's */
    RtCarrier *carriers[2];
    RtLinkAddress none[2] = {{0}};
    MemoryNet *net = memory_net_new(2, 1, 0);
    uint64_t length = UINT64_MAX;
    int own = 1;
    RtTransfer t = {.peer = 0,
                    .tag = TAG_LENGTH,
                    .address = &length,
                    .bytes = sizeof length};
    (void)state;
    for (int p = 0; p < 2; p++)
        assert_null(rt_carrier_open(memory_link(net, p), none, &carriers[p]));
    RtGroup *g = rt_link_group_open(carriers[0], 20.0);
    assert_true(rt_carrier_transfer(carriers[1], &t, 0, 1, 20.0, NULL));
    assert_status(g->ops->gather(g, 0, &own, sizeof own, take_none, NULL),
                  STATUS_MACHINE,
                  "rank 1 has sent a length that no part of a gather has");
    g->ops->close(g);
    for (int p = 0; p < 2; p++)
        rt_carrier_close(carriers[p]);
    memory_net_free(net);
}

int
main(int argc, char **argv)
{
    assert(argc == 5);
    fake_mpi = argv[1];
    fake_without = argv[2];
    fake_ucx = argv[3];
    fake_without_arm = argv[4];
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_has_one_link),
        cmocka_unit_test(without_curve_there_is_only_loopback),
        cmocka_unit_test(addresses_of_zmq_are_checked),
        cmocka_unit_test(a_library_that_is_not_there_is_no_mpi),
        cmocka_unit_test(what_an_mpi_refuses),
        cmocka_unit_test(what_a_ucx_refuses),
        cmocka_unit_test(a_group_waits_no_longer_than_it_may),
        cmocka_unit_test(a_part_has_a_length_that_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
