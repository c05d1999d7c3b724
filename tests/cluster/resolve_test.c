/*
 * resolve_test.c - which process of a job this one is, from an environment
 *
 * Cases of tf.distribute have their ids (docs/conformance.md).
 */
#include "tests/unit/unit.h"

#include "ir/base/io/file.h"
#include "ir/base/str.h"
#include "runtime/cluster/resolve/hostlist.h"
#include "runtime/cluster/resolve/platforms.h"
#include "runtime/cluster/resolve/resolve.h"
#include "tests/unit/arena.h"
#include "tests/unit/status.h"
#include "tests/unit/work_dir.h"

/* ---- environments -------------------------------------------------------- */

/* Variables in one text: "RANK=1 WORLD_SIZE=2". */
static const char *
get_of(void *data, const char *name)
{
    const char *at = data;
    size_t n = strlen(name);
    while (at && !(strncmp(at, name, n) == 0 && at[n] == '=')) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at ? arena_printf(arena, "%.*s", (int)strcspn(at + n + 1, " "),
                             at + n + 1)
              : NULL;
}

static RtEnvironment
environment(const char *text)
{
    return (RtEnvironment){get_of, (char *)text};
}

static const RtResolveOptions none = {.rank = -1};

static Status
resolve(const char *text, const RtResolveOptions *options, RtClusterSpec *out)
{
    return rt_resolve(arena, environment(text), options, out);
}

static void
assert_ok(Status st)
{
    if (st)
        fail_msg("%s", status_message(st));
}

/* ---- launchers ----------------------------------------------------------- */

static const struct {
    const char *env;
    RtLauncher launcher;
    int rank, size, local_rank, local_size;
    const char *address; /* NULL: over MPI */
    const char *job;
} launchers[] = {
    {"TFD_RANK=2 TFD_SIZE=4 TFD_LOCAL_RANK=2 TFD_LOCAL_SIZE=4 TFD_JOB=j7 "
     "TFD_CONTROL=127.0.0.1:4000 RANK=0 WORLD_SIZE=9",
     RT_LAUNCHER_tfd, 2, 4, 2, 4, "127.0.0.1:4000", "j7"},
    {"RANK=1 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h0 "
     "MASTER_PORT=29500 TORCHELASTIC_RUN_ID=r",
     RT_LAUNCHER_torchrun, 1, 4, 0, 2, "h0:29501", "r"},
    {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 "
     "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2",
     RT_LAUNCHER_open_mpi, 3, 4, 1, 2, NULL, NULL},
    /* mpirun in a step of Slurm, whose variables number its daemons */
    {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 SLURM_PROCID=1 "
     "SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=n[1-2]",
     RT_LAUNCHER_open_mpi, 3, 4, -1, 0, NULL, NULL},
    {"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1",
     RT_LAUNCHER_mpich, 1, 2, 0, 1, NULL, NULL},
    /* srun --mpi=pmi2 */
    {"PMI_RANK=1 PMI_SIZE=2 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 "
     "SLURM_STEP_NODELIST=n[1-2] SLURM_JOB_ID=42",
     RT_LAUNCHER_mpich, 1, 2, -1, 0, "n1:17042", NULL},
    {"JSM_NAMESPACE_RANK=5 JSM_NAMESPACE_SIZE=6 JSM_NAMESPACE_LOCAL_RANK=2",
     RT_LAUNCHER_jsm, 5, 6, 2, 0, NULL, NULL},
    {"PALS_RANKID=5 PALS_LOCAL_RANKID=1 PMI_SIZE=8 PMI_RANK=5",
     RT_LAUNCHER_pals, 5, 8, 1, 0, NULL, NULL},
    {"FLUX_TASK_RANK=1 FLUX_JOB_SIZE=3 FLUX_TASK_LOCAL_ID=1", RT_LAUNCHER_flux,
     1, 3, 1, 0, NULL, NULL},
    {"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=5 SLURM_LOCALID=1 SLURM_NODEID=1 "
     "SLURM_STEP_NODELIST=t[01-03] SLURM_STEP_TASKS_PER_NODE=2(x2),1 "
     "SLURM_JOB_ID=12345 SLURM_STEP_ID=0",
     RT_LAUNCHER_slurm, 3, 5, 1, 2, "t01:19345", "12345"},
    {"JOB_COMPLETION_INDEX=2 TFD_CONTROL=train-0.train:17000",
     RT_LAUNCHER_kubernetes, 2, 4, -1, 0, "train-0.train:17000", NULL},
    {"TF_CONFIG={\"cluster\":{\"chief\":[\"c:1\"],\"worker\":[\"a:2\",\"b:3\"]"
     "},\"task\":{\"type\":\"worker\",\"index\":1}}",
     RT_LAUNCHER_tf_config, 2, 3, -1, 0, "c:1", NULL},
    {"SM_HOSTS=[\"algo-1\",\"algo-2\"] SM_CURRENT_HOST=algo-2",
     RT_LAUNCHER_sagemaker, 1, 2, -1, 0, "algo-1:2223", NULL},
    /* mpirun in SageMaker's containers */
    {"SM_HOSTS=[\"algo-1\",\"algo-2\"] SM_CURRENT_HOST=algo-2 "
     "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4",
     RT_LAUNCHER_open_mpi, 3, 4, -1, 0, NULL, NULL},
    {"", RT_LAUNCHER_alone, 0, 1, -1, 0, NULL, NULL},
    /* an sbatch script without srun is alone */
    {"SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=1 SLURM_NODEID=0",
     RT_LAUNCHER_alone, 0, 1, -1, 0, NULL, NULL},
    /* a variable of this name may be anybody's */
    {"RANK=colonel", RT_LAUNCHER_alone, 0, 1, -1, 0, NULL, NULL},
};

static void
test_launchers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        RtResolveOptions o = none;
        RtClusterSpec spec;
        o.size = launchers[i].launcher == RT_LAUNCHER_kubernetes ? 4 : 0;
        assert_ok(resolve(launchers[i].env, &o, &spec));
        assert_int_equal(spec.launcher, launchers[i].launcher);
        assert_int_equal(spec.rank, launchers[i].rank);
        assert_int_equal(spec.size, launchers[i].size);
        assert_int_equal(spec.local_rank, launchers[i].local_rank);
        assert_int_equal(spec.local_size, launchers[i].local_size);
        assert_int_equal(spec.is_chief, spec.rank == 0);
        assert_true(spec.over_mpi == (spec.size > 1 && !launchers[i].address));
        if (launchers[i].address)
            assert_string_equal(spec.addresses[0], launchers[i].address);
        if (launchers[i].job)
            assert_string_equal(spec.job, launchers[i].job);
    }
}

static void
test_options_win(void **state)
{
    (void)state;
    RtClusterSpec spec;
    RtResolveOptions o = {.rank = 1, .size = 3, .join = "h0:5,h1:6"};
    assert_ok(resolve("RANK=0 WORLD_SIZE=2 PMI_RANK=1 PMI_SIZE=2", &o, &spec));
    assert_int_equal(spec.rank, 1);
    assert_int_equal(spec.size, 3);
    assert_int_equal(spec.launcher, RT_LAUNCHER_options);
    assert_int_equal(spec.num_addresses, 2);
    assert_string_equal(spec.addresses[1], "h1:6");
}

/* Alone, and in an environment that says something else, or nonsense. */
static void
test_options_leave_nothing_open(void **state)
{
    (void)state;
    RtClusterSpec spec;
    RtResolveOptions one = {.rank = -1, .size = 1};
    assert_ok(resolve("", &one, &spec));
    assert_int_equal(spec.rank, 0);
    assert_true(spec.is_chief);
    RtResolveOptions o = {.rank = 1, .size = 3, .join = "[::1]:5"};
    assert_ok(resolve("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "
                      "OMPI_COMM_WORLD_LOCAL_RANK=0 "
                      "OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=x RANK=y "
                      "WORLD_SIZE=2",
                      &o, &spec));
    assert_int_equal(spec.rank, 1);
    assert_int_equal(spec.local_rank, -1);
    assert_int_equal(spec.local_size, 0);
    assert_null(spec.job);
    assert_string_equal(spec.addresses[0], "[::1]:5");
}

/* Its processes inherit what the shell has. */
static void
test_tfd_run_leaves_nothing_open(void **state)
{
    (void)state;
    RtClusterSpec spec;
    assert_ok(resolve("TFD_RANK=1 TFD_SIZE=2 TFD_CONTROL=127.0.0.1:4000 "
                      "TF_CONFIG={\"task\":7} RANK=y WORLD_SIZE=2",
                      &none, &spec));
    assert_int_equal(spec.launcher, RT_LAUNCHER_tfd);
    assert_int_equal(spec.rank, 1);
}

static void
expect_address(const char *env, const char *address)
{
    RtClusterSpec spec;
    assert_ok(resolve(env, &none, &spec));
    assert_int_equal(spec.num_addresses, 1);
    assert_string_equal(spec.addresses[0], address);
}

static void
test_addresses(void **state)
{
    (void)state;
    expect_address("RANK=0 WORLD_SIZE=2 MASTER_ADDR=fd00::1 MASTER_PORT=5",
                   "[fd00::1]:6");
    expect_address("TF_CONFIG={\"cluster\":{\"chief\":[],\"worker\":[\"a:2\","
                   "\"b:3\"]},\"task\":{\"type\":\"worker\",\"index\":1}}",
                   "a:2");
    expect_address("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 "
                   "SLURM_STEP_NODELIST=n[1-2] SLURM_JOB_ID=4294967294 "
                   "SLURM_STEP_ID=4294967291",
                   "n1:19415");
}

static void
test_it_says_where_from(void **state)
{
    (void)state;
    RtClusterSpec spec;
    char text[2000];
    FILE *to = tmpfile();
    assert_ok(
        resolve("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4", &none, &spec));
    rt_resolve_print(&spec, to);
    rewind(to);
    text[fread(text, 1, sizeof text - 1, to)] = '\0';
    fclose(to);
    assert_string_equal(
        text, "started by      mpirun (Open MPI)  OMPI_COMM_WORLD_RANK=3\n"
              "rank            3                  OMPI_COMM_WORLD_RANK=3\n"
              "size            4                  OMPI_COMM_WORLD_SIZE=4\n"
              "chief           no                 rank 0 is\n"
              "control server  over MPI           rank 0 sends where it "
              "listens, and a key\n");
}

/* ---- what is refused ----------------------------------------------------- */

#define WORKERS(task)                                                          \
    "TF_CONFIG={\"cluster\":{\"worker\":[\"a:2\",\"b:3\"]},\"task\":" task "}"

static const struct {
    const char *env;
    RtResolveOptions options;
    StatusKind kind;
    const char *says;
} wrong[] = {
    {"RANK=0 WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2",
     {.rank = -1},
     STATUS_INPUT,
     "RANK=0 and OMPI_COMM_WORLD_RANK=1 contradict each other"},
    {WORKERS("{\"type\":\"worker\",\"index\":0}") " RANK=0 WORLD_SIZE=3",
     {.rank = -1},
     STATUS_INPUT,
     "and WORLD_SIZE=3 contradict each other"},
    {"PMI_RANK=2 PMI_SIZE=2",
     {.rank = -1},
     STATUS_INPUT,
     "PMI_RANK=2 and PMI_SIZE=2: processes are counted from 0, so the last of "
     "2 is 1"},
    {"RANK=0 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h",
     {.rank = -1},
     STATUS_INPUT,
     "LOCAL_RANK=2 and LOCAL_WORLD_SIZE=2: processes are counted from 0, so "
     "the "
     "last of 2 is 1"},
    {"TFD_RANK=1 TFD_CONTROL=127.0.0.1:4000",
     {.rank = -1},
     STATUS_INPUT,
     "TFD_RANK=1 is set, and TFD_SIZE is not; tfd-run -n sets both: unset what "
     "is left over from elsewhere, or give --rank and --size"},
    {"RANK=1 MASTER_ADDR=h MASTER_PORT=29500",
     {.rank = -1},
     STATUS_INPUT,
     "RANK=1 is set, and WORLD_SIZE is not; torchrun sets both"},
    {"PALS_RANKID=1",
     {.rank = -1},
     STATUS_INPUT,
     "PALS_RANKID=1 is set, and PMI_SIZE is not; mpiexec (PALS) sets both"},
    {"RANK=x WORLD_SIZE=2",
     {.rank = -1},
     STATUS_INPUT,
     "RANK=x is no number from 0; torchrun sets it"},
    {"RANK=1 WORLD_SIZE=-2",
     {.rank = -1},
     STATUS_INPUT,
     "WORLD_SIZE=-2 is no number from 1"},
    {"RANK=1 WORLD_SIZE=99999999",
     {.rank = -1},
     STATUS_INPUT,
     "a cluster of more than 4096 processes"},
    {"RANK=1 WORLD_SIZE=2",
     {.rank = -1},
     STATUS_INPUT,
     "MASTER_ADDR is not set"},
    {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=65535",
     {.rank = -1},
     STATUS_INPUT,
     "MASTER_PORT=65535 is no port from 1 to 65534"},
    {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=4294967297",
     {.rank = -1},
     STATUS_INPUT,
     "MASTER_PORT=4294967297 is no port from 1 to 65534"},
    {"JOB_COMPLETION_INDEX=2",
     {.rank = -1},
     STATUS_INPUT,
     "nothing says how many processes there are: give --size N"},
    {"JOB_COMPLETION_INDEX=2",
     {.rank = -1, .size = 4},
     STATUS_INPUT,
     "nothing says where rank 0 is"},
    {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2",
     {.rank = -1},
     STATUS_INPUT,
     "neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST is set"},
    {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=n[1-",
     {.rank = -1},
     STATUS_INPUT,
     "SLURM_STEP_NODELIST is \"n[1-\", where after 4 characters there should "
     "be a number that is not less"},
    {"", {.rank = 1}, STATUS_USAGE, "--rank 1: of how many? --size N says it"},
    {"",
     {.rank = -1, .size = 2},
     STATUS_USAGE,
     "--size 2: which of them is this process? --rank N says it"},
    {"",
     {.rank = 0, .size = 2, .join = "h0"},
     STATUS_USAGE,
     "--join is no list of addresses: \"h0\" is no HOST:PORT"},
    {"RANK=0 WORLD_SIZE=2 TFD_CONTROL=h0:99999",
     {.rank = -1},
     STATUS_INPUT,
     "TFD_CONTROL is no list of addresses: in \"h0:99999\" the port is no "
     "number from 1 to 65535"},
    {"", {.rank = 5, .size = 4}, STATUS_USAGE, "the last of 4 is 3"},
    {"",
     {.rank = 0, .size = 2, .join = ""},
     STATUS_USAGE,
     "--join is no list of addresses: \"\" is no HOST:PORT"},
    {"",
     {.rank = 0, .size = 2, .join = "h0:1,"},
     STATUS_USAGE,
     "--join is no list of addresses: \"\" is no HOST:PORT"},
    {"", {.rank = 0, .size = 2}, STATUS_INPUT, "nothing says where rank 0 is"},
    {WORKERS("{\"type\":\"worker\",\"index\":2}"),
     {.rank = -1},
     STATUS_INPUT,
     "the cluster has no worker 2"},
    {WORKERS("{\"type\":\"ps\",\"index\":0}"),
     {.rank = -1},
     STATUS_INPUT,
     "makes this process ps 0, which is for strategy parameter_server"},
    {WORKERS("{\"type\":\"evaluator\",\"index\":0}"),
     {.rank = -1},
     STATUS_INPUT,
     "makes this process evaluator 0"},
    {WORKERS("{\"type\":\"worker\"}"),
     {.rank = -1},
     STATUS_INPUT,
     "does not say which task this process is"},
    {WORKERS("{\"type\":\"worker\"}"),
     {.rank = -1, .task = "worker"},
     STATUS_USAGE,
     "--task worker: a task is TYPE:INDEX, as worker:1"},
    {"RANK=0 WORLD_SIZE=1",
     {.rank = -1, .task = "worker:0"},
     STATUS_USAGE,
     "--task worker:0 is one of a cluster's tasks, and there is no cluster"},
    {"TF_CONFIG={\"cluster\":{\"worker\":{\"1\":\"b:3\"}},\"task\":{\"type\":"
     "\"worker\",\"index\":1}}",
     {.rank = -1},
     STATUS_INPUT,
     "has a worker 1 and no worker 0"},
    {"TF_CONFIG={\"cluster\":{\"chief\":[\"a:1\",\"b:1\"]},\"task\":{\"type\":"
     "\"chief\",\"index\":1}}",
     {.rank = -1},
     STATUS_INPUT,
     "has 2 chiefs: there is one"},
    {"TF_CONFIG={\"cluster\":{\"worker\":[\"a:2\",\"a:2\"]}}",
     {.rank = -1},
     STATUS_INPUT,
     "worker 0 and worker 1 have the same address a:2"},
    {"TF_CONFIG={\"cluster\":{\"worker\":[\"a\"]}}",
     {.rank = -1},
     STATUS_INPUT,
     "cannot read TF_CONFIG: the address of worker 0: \"a\" is no HOST:PORT"},
    {"TF_CONFIG={\"cluster\":{\"worker\":[\"grpc://a:1\"]}}",
     {.rank = -1},
     STATUS_INPUT,
     "the address of worker 0: \"grpc://a:1\" is no HOST:PORT"},
    {"TF_CONFIG={\"cluster\":{\"worker\":[\"::1:7\"]}}",
     {.rank = -1},
     STATUS_INPUT,
     "an address of IPv6 has no brackets"},
    {"TF_CONFIG={\"cluster\":{\"worker\":[\"a:0\"]}}",
     {.rank = -1},
     STATUS_INPUT,
     "the port is no number from 1 to 65535"},
    {"TF_CONFIG={\"cluster\":{\"worker\":[7]}}",
     {.rank = -1},
     STATUS_INPUT,
     "the address of worker 0 is no string"},
    {"TF_CONFIG={\"cluster\":{\"worker\":7}}",
     {.rank = -1},
     STATUS_INPUT,
     "the tasks of \"worker\" are no list of addresses"},
    {"TF_CONFIG={\"cluster\":{\"worker\":{\"x\":\"a:1\"}}}",
     {.rank = -1},
     STATUS_INPUT,
     "\"x\" is no index of a task of \"worker\""},
    {"TF_CONFIG={\"cluster\":{\"worker\":{\"1\":\"a:1\",\"01\":\"b:1\"}}}",
     {.rank = -1},
     STATUS_INPUT,
     "worker 1 is there twice"},
    {"TF_CONFIG={\"cluster\":[]}",
     {.rank = -1},
     STATUS_INPUT,
     "\"cluster\" is no object of jobs"},
    {"TF_CONFIG={\"task\":7}",
     {.rank = -1},
     STATUS_INPUT,
     "\"task\" is no object"},
    {"TF_CONFIG={\"task\":{\"type\":[]}}",
     {.rank = -1},
     STATUS_INPUT,
     "the \"type\" of the task is no string"},
    {"TF_CONFIG={\"task\":{\"index\":-1}}",
     {.rank = -1},
     STATUS_INPUT,
     "the \"index\" of the task is no number from 0"},
    {"TF_CONFIG=[]", {.rank = -1}, STATUS_INPUT, "TF_CONFIG: it is no object"},
    {"TF_CONFIG={\"cluster\":",
     {.rank = -1},
     STATUS_INPUT,
     "TF_CONFIG is no JSON: line 1, column 11"},
};

static void
test_wrong_environments(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        RtClusterSpec spec;
        Status st = resolve(wrong[i].env, &wrong[i].options, &spec);
        if (!st)
            fail_msg("accepted: %s", wrong[i].env);
        assert_status_says(st, wrong[i].kind, wrong[i].says);
    }
}

/* ---- TF_CONFIG ----------------------------------------------------------- */

static const char ps_cluster[] =
    "{\"cluster\":{\"ps\":[\"ps0:2222\",\"ps1:2222\"],\"worker\":["
    "\"worker0:2222\",\"worker1:2222\",\"worker2:2222\"]},\"task\":{\"type\":"
    "\"ps\",\"index\":0}";

static RtTasks
parse(const char *json)
{
    RtTasks t;
    assert_ok(rt_tasks_parse(arena, "TF_CONFIG", json, strlen(json), &t));
    return t;
}

static void
test_tf_config(void **state)
{
    (void)state;
    RtTasks t = parse(arena_printf(arena, "%s}", ps_cluster));
    /* RES-01 */
    assert_int_equal(rt_tasks_job(&t, "ps")->tasks.len, 2);
    assert_int_equal(rt_tasks_job(&t, "worker")->tasks.len, 3);
    assert_string_equal(rt_own_address(arena, &t), "ps0:2222");
    /* RES-02 */
    assert_string_equal(rt_task_address(arena, &t, "worker", 1),
                        "worker1:2222");
    assert_null(rt_task_address(arena, &t, "worker", 3));
    /* RES-04 */
    t = parse(arena_printf(arena, "%s,\"rpc_layer\":\"grpc\"}", ps_cluster));
    assert_string_equal(rt_own_address(arena, &t), "grpc://ps0:2222");
    /* RES-06 */
    t = parse("{\"cluster\":{\"worker\":{\"1\":\"worker1:2222\"}}}");
    assert_int_equal(t.jobs.len, 1);
    assert_int_equal(t.jobs.data[0].tasks.len, 1);
    assert_int_equal(t.jobs.data[0].tasks.data[0].index, 1);
    /* RES-07 */
    t = parse("{\"task\":{\"type\":123456,\"index\":\"1\"}}");
    assert_string_equal(t.type, "123456");
    assert_int_equal(t.index, 1);
    /* RES-08 */
    t = parse("{}");
    assert_string_equal(rt_own_address(arena, &t), "");
    t = parse("{\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"type\":"
              "\"worker\",\"index\":0}}");
    assert_string_equal(rt_own_address(arena, &t), "");
}

/* RES-20 */
static void
test_unions(void **state)
{
    (void)state;
    RtTasks a = parse("{\"cluster\":{\"ps\":[\"p:1\"],\"worker\":[\"a:1\"]}}");
    RtTasks b = parse("{\"cluster\":{\"worker\":[\"b:1\",\"c:1\"]}}");
    RtTasks c = parse("{\"cluster\":{\"worker\":{\"9\":\"d:1\"}}}");
    assert_ok(rt_tasks_add(arena, &a, &b));
    assert_int_equal(a.jobs.len, 2);
    assert_string_equal(rt_task_address(arena, &a, "worker", 2), "c:1");
    assert_ok(rt_tasks_add(arena, &a, &c));
    assert_string_equal(rt_task_address(arena, &a, "worker", 9), "d:1");
    assert_status(rt_tasks_add(arena, &a, &c), STATUS_INPUT,
                  "two clusters have worker 9: d:1 and d:1");
    /* A map keeps its indices, also those that a list would have. */
    RtTasks d = parse("{\"cluster\":{\"worker\":{\"0\":\"e:1\"}}}");
    assert_status(rt_tasks_add(arena, &d, &b), STATUS_INPUT,
                  "two clusters have worker 0: e:1 and b:1");
}

static void
test_who_trains_together(void **state)
{
    (void)state;
    RtTasks with = parse("{\"cluster\":{\"chief\":[\"c:1\"],\"worker\":["
                         "\"a:1\",\"b:1\"],\"evaluator\":[\"e:1\"],\"ps\":["
                         "\"p:1\"]}}");
    RtTasks without = parse("{\"cluster\":{\"worker\":[\"a:1\",\"b:1\"]}}");
    bool chief;
    int n;
    /* RES-22 */
    assert_ok(rt_task_is_chief(&with, "chief", 0, &chief));
    assert_true(chief);
    assert_ok(rt_task_is_chief(&with, "worker", 0, &chief));
    assert_false(chief);
    assert_ok(rt_task_is_chief(&without, "worker", 0, &chief));
    assert_true(chief);
    assert_ok(rt_task_is_chief(&with, "evaluator", 0, &chief));
    assert_true(chief);
    /* RES-23 */
    assert_ok(rt_worker_count(&with, "worker", &n));
    assert_int_equal(n, 3);
    assert_ok(rt_worker_count(&with, "evaluator", &n));
    assert_int_equal(n, 1);
    /* RES-24 */
    assert_status_says(rt_worker_count(&with, "ps", &n), STATUS_INPUT,
                       "a ps is no worker");
    assert_status_says(rt_worker_count(&with, "boss", &n), STATUS_INPUT,
                       "\"boss\" is no type of a task");
    /* RES-25 */
    assert_ok(rt_task_rank(&with, "chief", 0, &n));
    assert_int_equal(n, 0);
    assert_ok(rt_task_rank(&with, "worker", 1, &n));
    assert_int_equal(n, 2);
    assert_ok(rt_task_rank(&without, "worker", 1, &n));
    assert_int_equal(n, 1);
}

/* ---- Slurm --------------------------------------------------------------- */

static const char *
join_names(const char *list)
{
    RtNames names;
    Str s = str_new(arena);
    assert_ok(rt_hostlist(arena, "LIST", list, &names));
    for (int i = 0; i < names.len; i++)
        str_addf(&s, "%s%s", i ? " " : "", names.data[i]);
    return str_text(&s);
}

static const char *
join_counts(const char *list)
{
    RtCounts counts;
    Str s = str_new(arena);
    assert_ok(rt_repeated_counts(arena, "LIST", list, &counts));
    for (int i = 0; i < counts.len; i++)
        str_addf(&s, "%s%d", i ? " " : "", counts.data[i]);
    return str_text(&s);
}

static void
test_slurm_lists(void **state)
{
    (void)state;
    RtNames names;
    RtCounts counts;
    /* RES-09 */
    assert_string_equal(join_names("n[1-2],m5,o[3-4,6,7-9]"),
                        "n1 n2 m5 o3 o4 o6 o7 o8 o9");
    assert_string_equal(join_names("n[08-11]"), "n08 n09 n10 n11");
    /* RES-11 */
    assert_string_equal(join_counts("3(x2),2,1"), "3 3 2 1");
    assert_string_equal(join_counts("3(x2),2,11(x4)"), "3 3 2 11 11 11 11");
    assert_string_equal(join_names("r[0-1]n[7,9],n[1-2]-ib"),
                        "r0n7 r0n9 r1n7 r1n9 n1-ib n2-ib");
    static char long_name[2000];
    for (size_t i = 0; i + 3 < sizeof long_name; i += 3)
        memcpy(&long_name[i], "[1]", 4);
    const char *const bad_names[] = {
        "",        ",",   "n[",           "n[1",           "n[2-1]", "n[1]]",
        "n[1[2]]", "n[]", "n[1-2000000]", "n[1-99][1-99]", "n,",     long_name};
    for (size_t i = 0; i < sizeof bad_names / sizeof *bad_names; i++) {
        Status st = rt_hostlist(arena, "LIST", bad_names[i], &names);
        assert_non_null(st);
        status_free(st);
    }
    static const char *const bad_counts[] = {"",     "3(", "3(y2)",      "3(x)",
                                             "3(x2", "3,", "1(x2000000)"};
    for (size_t i = 0; i < sizeof bad_counts / sizeof *bad_counts; i++) {
        Status st = rt_repeated_counts(arena, "LIST", bad_counts[i], &counts);
        assert_non_null(st);
        status_free(st);
    }
}

static void
refuse_step(const char *env, const char *says)
{
    const RtSlurmLayout usual = {0};
    RtTasks t;
    const char *gpus;
    assert_status_says(
        rt_slurm_tasks(arena, environment(env), &usual, &t, &gpus),
        STATUS_INPUT, says);
}

static void
test_slurm_tasks(void **state)
{
    (void)state;
    RtTasks t;
    const char *gpus;
    RtSlurmLayout usual = {0};
    /* RES-12 */
    assert_ok(rt_slurm_tasks(
        arena,
        environment("SLURM_PROCID=0 SLURM_STEP_NODELIST=t02n13,t02n41,t02n43 "
                    "SLURM_STEP_TASKS_PER_NODE=1(x3)"),
        &usual, &t, &gpus));
    assert_string_equal(rt_task_address(arena, &t, "worker", 0), "t02n13:8888");
    assert_string_equal(rt_task_address(arena, &t, "worker", 2), "t02n43:8888");
    assert_null(gpus);
    /* RES-14 */
    static const RtJobShare shares[] = {{"ps", 1}, {"worker", 4}};
    RtSlurmLayout layout = {shares, 2, 0, 2, 1};
    const char *step =
        "SLURM_PROCID=1 SLURM_STEP_NODELIST=t02n13,t02n41,t02n43 "
        "SLURM_STEP_TASKS_PER_NODE=2(x2),1";
    assert_ok(rt_slurm_tasks(arena, environment(step), &layout, &t, &gpus));
    assert_string_equal(rt_task_address(arena, &t, "ps", 0), "t02n13:8888");
    assert_string_equal(rt_task_address(arena, &t, "worker", 0), "t02n13:8889");
    assert_string_equal(rt_task_address(arena, &t, "worker", 1), "t02n41:8888");
    assert_string_equal(rt_task_address(arena, &t, "worker", 2), "t02n41:8889");
    assert_string_equal(rt_task_address(arena, &t, "worker", 3), "t02n43:8888");
    assert_string_equal(t.type, "worker");
    assert_int_equal(t.index, 0);
    assert_string_equal(gpus, "1");
    layout.gpus_per_task = 2;
    assert_status(rt_slurm_tasks(arena, environment(step), &layout, &t, &gpus),
                  STATUS_INPUT,
                  "2 tasks of 2 GPUs each are on one node, which has 2");
    layout.num_shares = 1;
    assert_status(rt_slurm_tasks(arena, environment(step), &layout, &t, &gpus),
                  STATUS_INPUT,
                  "the jobs have 1 tasks, and the step of Slurm has 5");
    refuse_step("SLURM_PROCID=0 SLURM_STEP_NODELIST=n[1-4] "
                "SLURM_STEP_TASKS_PER_NODE=999999999(x4)",
                "a cluster of more than 4096 processes");
    refuse_step("SLURM_PROCID=2 SLURM_STEP_NODELIST=n1 "
                "SLURM_STEP_TASKS_PER_NODE=2",
                "SLURM_PROCID=2 is no task of the step, which has 2");
    layout = (RtSlurmLayout){.first_port = 65535};
    assert_status(rt_slurm_tasks(arena, environment(step), &layout, &t, &gpus),
                  STATUS_INPUT,
                  "2 tasks of a node have no ports from 65535 on: the last is "
                  "65535");
    assert_status_says(
        rt_slurm_tasks(arena, environment("SLURM_PROCID=1"), &usual, &t, &gpus),
        STATUS_INPUT, "SLURM_STEP_NODELIST is not set");
    assert_status_says(
        rt_slurm_tasks(arena,
                       environment("SLURM_PROCID=1 SLURM_STEP_NODELIST=a,b "
                                   "SLURM_STEP_TASKS_PER_NODE=1"),
                       &usual, &t, &gpus),
        STATUS_INPUT, "has 2 nodes, and SLURM_STEP_TASKS_PER_NODE=1 is for 1");
}

/* ---- Kubernetes, SageMaker ----------------------------------------------- */

static Status
pods(const char *json, RtTasks *t)
{
    return rt_pods_tasks(arena, "pods.json", json, strlen(json), 8470, "c", t);
}

#define POD(name, phase, ip)                                                   \
    "{\"metadata\":{\"name\":\"" name "\"},\"status\":{\"phase\":\"" phase     \
    "\",\"podIP\":\"" ip "\"}}"

static void
test_pods(void **state)
{
    (void)state;
    RtTasks t;
    /* RES-16 */
    assert_ok(pods("{\"items\":[" POD("b", "Running", "10.1.2.3") "," POD(
                       "c", "Running", "10.1.2.4") "," POD("a", "Running",
                                                           "10.1.2.5") "]}",
                   &t));
    assert_string_equal(rt_task_address(arena, &t, "worker", 0),
                        "10.1.2.5:8470");
    assert_string_equal(rt_task_address(arena, &t, "worker", 1),
                        "10.1.2.3:8470");
    assert_string_equal(rt_task_address(arena, &t, "worker", 2),
                        "10.1.2.4:8470");
    /* RES-17 */
    assert_status(pods("{\"items\":[" POD("a", "Failed", "10.1.2.3") "]}", &t),
                  STATUS_INPUT,
                  "pods.json: the pod a is not running: its phase is Failed");
    assert_status_says(pods("{}", &t), STATUS_INPUT, "has no \"items\"");
    assert_status_says(pods("{\"items\":[7]}", &t), STATUS_INPUT,
                       "item 0 has no metadata.name");
    assert_status_says(
        pods("{\"items\":[{\"metadata\":{\"name\":\"a\"},\"status\":{\"phase\":"
             "\"Running\"}}]}",
             &t),
        STATUS_INPUT, "the pod a has no status.podIP");
    assert_status_says(pods("{", &t), STATUS_INPUT, "pods.json is no JSON");
}

/* --cluster FILE takes such a list, where the pod's host name is its own. */
static void
test_a_cluster_of_pods(void **state)
{
    static const char list[] = "{\"items\":[" POD(
        "b", "Running", "10.1.2.3") "," POD("a", "Running", "fd00::5") "]}";
    const char *path = arena_printf(arena, "%s/pods.json", work_dir(arena));
    RtResolveOptions o = {.rank = -1, .cluster_file = path};
    RtClusterSpec spec;
    (void)state;
    assert_ok(file_write(path, list, strlen(list)));
    assert_ok(resolve("HOSTNAME=b", &o, &spec));
    assert_int_equal(spec.rank, 1);
    assert_int_equal(spec.size, 2);
    assert_string_equal(spec.addresses[0], "[fd00::5]:17000");
    assert_status_says(resolve("HOSTNAME=laptop", &o, &spec), STATUS_INPUT,
                       "does not say which task this process is");
    o.task = "worker:0";
    assert_ok(resolve("HOSTNAME=laptop", &o, &spec));
    assert_int_equal(spec.rank, 0);
}

/* RES-19 */
static void
test_sagemaker(void **state)
{
    (void)state;
    RtTasks t;
    const char *hosts = "SM_HOSTS=[\"algo-1\",\"algo-2\"]";
    assert_ok(rt_sagemaker_tasks(
        arena,
        environment(arena_printf(arena, "%s SM_CURRENT_HOST=algo-2", hosts)),
        2223, &t));
    assert_string_equal(rt_task_address(arena, &t, "worker", 0), "algo-1:2223");
    assert_string_equal(rt_own_address(arena, &t), "algo-2:2223");
    assert_status(rt_sagemaker_tasks(arena,
                                     environment(arena_printf(
                                         arena, "%s SM_CURRENT_HOST=x", hosts)),
                                     2223, &t),
                  STATUS_INPUT, "SM_CURRENT_HOST=x is none of SM_HOSTS");
    assert_status_says(rt_sagemaker_tasks(arena, environment(hosts), 2223, &t),
                       STATUS_INPUT, "SM_CURRENT_HOST is not set");
    assert_status_says(
        rt_sagemaker_tasks(arena, environment("SM_HOSTS={} SM_CURRENT_HOST=a"),
                           2223, &t),
        STATUS_INPUT, "SM_HOSTS is no list of names");
    assert_status_says(
        rt_sagemaker_tasks(arena, environment("SM_HOSTS=[7] SM_CURRENT_HOST=a"),
                           2223, &t),
        STATUS_INPUT, "SM_HOSTS: item 0 is no name");
}

/* ---- documentation ------------------------------------------------------- */

/* docs/cluster.md has a row for each launcher, with its variables. */
static void
test_docs(void **state)
{
    (void)state;
    static const struct {
        const char *name, *rank, *size;
    } known[] = {
#define LAUNCHER(id, name, rank, size, ...) {name, rank, size},
#include "runtime/cluster/resolve/launchers.def"
#undef LAUNCHER
    };
    char *page;
    size_t len;
    assert_ok(file_read(arena, getenv("TFD_CLUSTER_PAGE"), &page, &len));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *row =
            arena_printf(arena, "| %s | `%s` | %s%s%s |", known[i].name,
                         known[i].rank, *known[i].size ? "`" : "",
                         *known[i].size ? known[i].size : "`--size`",
                         *known[i].size ? "`" : "");
        if (!strstr(page, row))
            fail_msg("docs/cluster.md has no row \"%s\"", row);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launchers),
        cmocka_unit_test(test_options_win),
        cmocka_unit_test(test_options_leave_nothing_open),
        cmocka_unit_test(test_tfd_run_leaves_nothing_open),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_it_says_where_from),
        cmocka_unit_test(test_wrong_environments),
        cmocka_unit_test(test_tf_config),
        cmocka_unit_test(test_unions),
        cmocka_unit_test(test_who_trains_together),
        cmocka_unit_test(test_slurm_lists),
        cmocka_unit_test(test_slurm_tasks),
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_a_cluster_of_pods),
        cmocka_unit_test(test_sagemaker),
        cmocka_unit_test(test_docs),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
