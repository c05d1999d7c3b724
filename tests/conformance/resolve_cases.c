/*
 * resolve_cases.c - the cases of cluster resolvers
 *
 * What a process finds out from its environment needs no program of the
 * language and no other process: each case is a test of rt_resolve's parts.
 *
 * A test has the names of the cases that it asserts; the mark is for
 * gen_conformance.c.
 *
 *~ RES-18 otherwise: tfd asks no API server, so there is no place to ask from: pods are read from a list, and what is no list of pods is an error
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"
#include "tests/unit/environment.h"
#include "tests/unit/status.h"

#include "ir/base/str.h"
#include "runtime/cluster/resolve/hostlist.h"
#include "runtime/cluster/resolve/platforms.h"
#include "runtime/cluster/resolve/role.h"

#define CASES(names, test)                                                     \
    {                                                                          \
        names, test, new_arena, release_arena, NULL                            \
    }

/* ---- clusters as text ---------------------------------------------------- */

static RtTasks
tasks_of(const char *json)
{
    RtTasks t;
    assert_null(rt_tasks_parse(arena, "TF_CONFIG", json, strlen(json), &t));
    return t;
}

/* "ps: 0=a:1 1=b:1; worker: 0=c:1", jobs in their order. */
static const char *
text_of(const RtTasks *t)
{
    Str s = str_new(arena);
    for (int i = 0; i < t->jobs.len; i++) {
        const RtTaskJob *job = &t->jobs.data[i];
        str_addf(&s, "%s%s:", i ? "; " : "", job->name);
        for (int k = 0; k < job->tasks.len; k++)
            str_addf(&s, " %d=%s", job->tasks.data[k].index,
                     job->tasks.data[k].address);
    }
    return str_text(&s);
}

static void
expect_tasks(const RtTasks *t, const char *want)
{
    assert_string_equal(text_of(t), want);
}

#define PS_AND_WORKERS                                                         \
    "{\"cluster\": {\"ps\": [\"ps0:2222\", \"ps1:2222\"], \"worker\": "        \
    "[\"worker0:2222\", \"worker1:2222\", \"worker2:2222\"]}, "

/* ---- TF_CONFIG ----------------------------------------------------------- */

static void
tasks_and_addresses(void **state)
{
    RtTasks t =
        tasks_of(PS_AND_WORKERS "\"task\": {\"type\": \"ps\", \"index\": 0}}");
    (void)state;
    expect_tasks(&t, "ps: 0=ps0:2222 1=ps1:2222; "
                     "worker: 0=worker0:2222 1=worker1:2222 2=worker2:2222");
    assert_string_equal(rt_own_address(arena, &t), "ps0:2222");
    assert_string_equal(rt_task_address(arena, &t, "worker", 1),
                        "worker1:2222");
    assert_null(rt_task_address(arena, &t, "worker", 3));
}

static void
addresses_have_the_rpc_layer(void **state)
{
    RtTasks t =
        tasks_of(PS_AND_WORKERS "\"rpc_layer\": \"grpc\", "
                                "\"task\": {\"type\": \"ps\", \"index\": 0}}");
    (void)state;
    assert_string_equal(rt_own_address(arena, &t), "grpc://ps0:2222");
    assert_string_equal(rt_task_address(arena, &t, "worker", 2),
                        "grpc://worker2:2222");
}

static void
jobs_may_be_sparse(void **state)
{
    RtTasks t = tasks_of("{\"cluster\": {\"worker\": {\"1\": "
                         "\"worker1:2222\"}}, \"task\": {\"type\": "
                         "\"worker\", \"index\": 1}}");
    (void)state;
    expect_tasks(&t, "worker: 1=worker1:2222");
    assert_null(rt_task_address(arena, &t, "worker", 0));
}

static void
types_and_indices_are_cast(void **state)
{
    RtTasks t = tasks_of(PS_AND_WORKERS
                         "\"task\": {\"type\": 123456, \"index\": \"1\"}}");
    (void)state;
    assert_int_equal(t.index, 1);
    assert_string_equal(t.type, "123456");
}

static void
a_process_alone_has_no_address(void **state)
{
    RtTasks none = tasks_of("{}");
    RtTasks one = tasks_of("{\"cluster\": {\"worker\": [\"worker0:2222\"]}, "
                           "\"task\": {\"type\": \"worker\", \"index\": 0}}");
    (void)state;
    assert_string_equal(rt_own_address(arena, &none), "");
    assert_string_equal(rt_own_address(arena, &one), "");
}

/* ---- Slurm --------------------------------------------------------------- */

static void
node_lists_expand(void **state)
{
    static const char list[] = "n[1-2],m5,o[3-4,6,7-9]";
    RtNames names;
    Str s = str_new(arena);
    (void)state;
    assert_null(rt_hostlist(arena, "SLURM_STEP_NODELIST", list, &names));
    for (int i = 0; i < names.len; i++)
        str_addf(&s, "%s%s", i ? " " : "", names.data[i]);
    assert_string_equal(str_text(&s), "n1 n2 m5 o3 o4 o6 o7 o8 o9");
}

static void
expect_counts(const char *list, const char *want)
{
    RtCounts counts;
    Str s = str_new(arena);
    assert_null(
        rt_repeated_counts(arena, "SLURM_STEP_TASKS_PER_NODE", list, &counts));
    for (int i = 0; i < counts.len; i++)
        str_addf(&s, "%s%d", i ? " " : "", counts.data[i]);
    assert_string_equal(str_text(&s), want);
}

static void
counts_of_tasks_expand(void **state)
{
    (void)state;
    expect_counts("3(x2),2,1", "3 3 2 1");
    expect_counts("3(x2),2,11(x4)", "3 3 2 11 11 11 11");
}

static void
tasks_of_a_step_are_workers(void **state)
{
    static const char *const step[] = {
        "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=3",
        "SLURM_STEP_NODELIST=t02n13,t02n41,t02n43",
        "SLURM_STEP_TASKS_PER_NODE=1(x3)", NULL};
    RtTasks t;
    const char *gpus;
    (void)state;
    assert_null(rt_slurm_tasks(arena, environment_of(step), &(RtSlurmLayout){0},
                               &t, &gpus));
    expect_tasks(&t, "worker: 0=t02n13:8888 1=t02n41:8888 2=t02n43:8888");
    assert_string_equal(t.type, "worker");
    assert_int_equal(t.index, 1);
    assert_null(gpus);
}

static void
a_step_may_have_several_jobs(void **state)
{
    static const char *const step[] = {
        "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=5",
        "SLURM_STEP_NODELIST=t02n13,t02n41,t02n43",
        "SLURM_STEP_TASKS_PER_NODE=2(x2),1", NULL};
    static const RtJobShare shares[] = {{"ps", 1}, {"worker", 4}};
    const RtSlurmLayout layout = {.shares = shares,
                                  .num_shares = 2,
                                  .gpus_per_node = 2,
                                  .gpus_per_task = 1};
    RtTasks t;
    const char *gpus;
    (void)state;
    assert_null(
        rt_slurm_tasks(arena, environment_of(step), &layout, &t, &gpus));
    expect_tasks(&t, "ps: 0=t02n13:8888; worker: 0=t02n13:8889 "
                     "1=t02n41:8888 2=t02n41:8889 3=t02n43:8888");
    assert_string_equal(t.type, "worker");
    assert_int_equal(t.index, 0);
    assert_string_equal(gpus, "1");
}

/* ---- Kubernetes and SageMaker -------------------------------------------- */

#define POD(name, phase, address)                                              \
    "{\"metadata\": {\"name\": \"" name "\"}, \"status\": {\"phase\": "        \
    "\"" phase "\", \"podIP\": \"" address "\"}}"

static Status
read_pods(const char *items, RtTasks *out)
{
    const char *json = arena_printf(arena, "{\"items\": [%s]}", items);
    return rt_pods_tasks(arena, "pods.json", json, strlen(json), 8470, NULL,
                         out);
}

static void
pods_are_sorted_by_name(void **state)
{
    RtTasks t;
    (void)state;
    assert_null(read_pods(
        POD("tensorflow-def", "Running", "10.1.2.3") ", " POD(
            "tensorflow-ghi", "Running",
            "10.1.2.4") ", " POD("tensorflow-abc", "Running", "10.1.2.5"),
        &t));
    expect_tasks(&t, "worker: 0=10.1.2.5:8470 1=10.1.2.3:8470 2=10.1.2.4:8470");
}

static void
a_pod_that_failed_is_named(void **state)
{
    RtTasks t;
    (void)state;
    assert_status(read_pods(POD("tensorflow-abc", "Failed", "10.1.2.3"), &t),
                  STATUS_INPUT,
                  "pods.json: the pod tensorflow-abc is not running: its phase "
                  "is Failed");
}

static void
pods_come_from_a_list(void **state)
{
    RtTasks t;
    (void)state;
    assert_status(rt_pods_tasks(arena, "pods.json", "{}", 2, 8470, NULL, &t),
                  STATUS_INPUT,
                  "pods.json has no \"items\": it is no list of pods");
}

static void
hosts_of_sagemaker(void **state)
{
    static const char *const set[] = {"SM_HOSTS=[\"algo-1\",\"algo-2\"]",
                                      "SM_CURRENT_HOST=algo-2", NULL};
    RtTasks t;
    (void)state;
    assert_null(rt_sagemaker_tasks(arena, environment_of(set), 2223, &t));
    expect_tasks(&t, "worker: 0=algo-1:2223 1=algo-2:2223");
    assert_string_equal(rt_own_address(arena, &t), "algo-2:2223");
}

/* ---- clusters ------------------------------------------------------------ */

static void
lists_of_a_union_are_appended(void **state)
{
    RtTasks t = tasks_of("{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}}");
    RtTasks more = tasks_of("{\"cluster\": {\"ps\": [\"p:1\"], \"worker\": "
                            "[\"c:1\"]}}");
    (void)state;
    assert_null(rt_tasks_add(arena, &t, &more));
    expect_tasks(&t, "worker: 0=a:1 1=b:1 2=c:1; ps: 0=p:1");
}

#define CHIEF "\"chief\": [\"c:1\"], "
#define WORKERS "\"worker\": [\"w0:1\", \"w1:1\"], "
#define EVALUATOR "\"evaluator\": [\"e:1\"], "
#define REST "\"ps\": [\"p:1\"]"
#define CLUSTER(jobs) tasks_of("{\"cluster\": {" jobs REST "}}")

static bool
is_chief(const RtTasks *t, const char *type, int index)
{
    bool is = false;
    assert_null(rt_task_is_chief(t, type, index, &is));
    return is;
}

static void
who_is_chief(void **state)
{
    RtTasks with = CLUSTER(CHIEF WORKERS EVALUATOR);
    RtTasks without = CLUSTER(WORKERS);
    (void)state;
    assert_true(is_chief(&with, "chief", 0));
    assert_false(is_chief(&with, "worker", 0));
    assert_true(is_chief(&without, "worker", 0));
    assert_false(is_chief(&without, "worker", 1));
    assert_true(is_chief(&with, "evaluator", 0));
}

static void
how_many_train(void **state)
{
    RtTasks t = CLUSTER(CHIEF WORKERS EVALUATOR);
    int n = 0;
    (void)state;
    assert_null(rt_worker_count(&t, "chief", &n));
    assert_int_equal(n, 3);
    assert_null(rt_worker_count(&t, "worker", &n));
    assert_int_equal(n, 3);
    assert_null(rt_worker_count(&t, "evaluator", &n));
    assert_int_equal(n, 1);
}

static void
others_do_not_train(void **state)
{
    RtTasks t = CLUSTER(CHIEF WORKERS);
    int n;
    (void)state;
    assert_status(rt_worker_count(&t, "ps", &n), STATUS_INPUT,
                  "a ps is no worker: it holds variables for strategy "
                  "parameter_server and executes no replica");
    assert_status(rt_worker_count(&t, "leader", &n), STATUS_INPUT,
                  "\"leader\" is no type of a task: chief, worker, ps or "
                  "evaluator");
}

static int
rank_of(const RtTasks *t, const char *type, int index)
{
    int rank = -1;
    assert_null(rt_task_rank(t, type, index, &rank));
    return rank;
}

static void
ranks_begin_with_the_chief(void **state)
{
    RtTasks with = CLUSTER(CHIEF WORKERS), without = CLUSTER(WORKERS);
    int rank;
    (void)state;
    assert_int_equal(rank_of(&with, "chief", 0), 0);
    assert_int_equal(rank_of(&with, "worker", 1), 2);
    assert_int_equal(rank_of(&without, "worker", 1), 1);
    assert_status(rt_task_rank(&with, "worker", 2, &rank), STATUS_INPUT,
                  "the cluster has no worker 2");
}

/* ---- tasks of a parameter server ----------------------------------------- */

static void
expect_no_role(const char *tf_config, const char *message)
{
    const char *const set[] = {arena_printf(arena, "TF_CONFIG=%s", tf_config),
                               NULL};
    RtTaskOptions task;
    RtClusterSpec spec;
    assert_status(rt_resolve_role(arena, environment_of(set),
                                  &(RtResolveOptions){.rank = -1}, false, &task,
                                  &spec),
                  STATUS_INPUT, message);
}

#define PS_CLUSTER(more, type)                                                 \
    "{\"cluster\": {\"chief\": [\"c:1\"], \"ps\": [\"p:1\"], \"worker\": "     \
    "[\"w:1\"]" more "}, \"task\": {\"type\": \"" type "\", \"index\": 0}}"

static const char *
only(const char *job)
{
    return arena_printf(arena,
                        "TF_CONFIG has a job \"%s\": one of strategy "
                        "parameter_server has a chief (or coordinator), ps and "
                        "worker alone",
                        job);
}

static void
other_tasks_are_refused(void **state)
{
    (void)state;
    expect_no_role(PS_CLUSTER(", \"evaluator\": [\"e:1\"]", "chief"),
                   only("evaluator"));
    expect_no_role(PS_CLUSTER(", \"foo\": [\"e:1\"]", "chief"), only("foo"));
    expect_no_role(PS_CLUSTER("", "foobar"),
                   "TF_CONFIG makes this process foobar 0: a task of strategy "
                   "parameter_server is chief (or coordinator), ps, worker or "
                   "evaluator");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASES("RES-01, RES-02", tasks_and_addresses),
        CASES("RES-04", addresses_have_the_rpc_layer),
        CASES("RES-06", jobs_may_be_sparse),
        CASES("RES-07", types_and_indices_are_cast),
        CASES("RES-08", a_process_alone_has_no_address),
        CASES("RES-09", node_lists_expand),
        CASES("RES-11", counts_of_tasks_expand),
        CASES("RES-12", tasks_of_a_step_are_workers),
        CASES("RES-14", a_step_may_have_several_jobs),
        CASES("RES-16", pods_are_sorted_by_name),
        CASES("RES-17", a_pod_that_failed_is_named),
        CASES("RES-18", pods_come_from_a_list),
        CASES("RES-19", hosts_of_sagemaker),
        CASES("RES-20", lists_of_a_union_are_appended),
        CASES("RES-22", who_is_chief),
        CASES("RES-23", how_many_train),
        CASES("RES-24", others_do_not_train),
        CASES("RES-25", ranks_begin_with_the_chief),
        CASES("PSV-21", other_tasks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
