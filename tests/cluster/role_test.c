/*
 * role_test.c - which task of a parameter-server job this process is
 */
#include "tests/unit/unit.h"

#include "ir/base/str.h"
#include "runtime/cluster/launch/own_host.h"
#include "runtime/cluster/resolve/role.h"
#include "runtime/cluster/resolve/task_counts.h"
#include "tests/unit/arena.h"
#include "tests/unit/environment.h"
#include "tests/unit/status.h"

/* ---- how many of each ---------------------------------------------------- */

static void
counts_have_two_spellings(void **state)
{
    static const char *const texts[] = {"workers=3,ps=2", "ps=2,worker=3",
                                        "1 coordinator, 2 ps, 3 workers",
                                        " ps = 2 ,3  workers,chief=1"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        RtTaskCounts counts;
        assert_null(rt_task_counts_parse(arena, "-n", texts[i], &counts));
        assert_int_equal(counts.workers, 3);
        assert_int_equal(counts.servers, 2);
        assert_int_equal(rt_num_tasks(&counts), 6);
        assert_int_equal(counts.evaluators, 0);
    }
}

static void
an_evaluator_is_one_task_more(void **state)
{
    static const char *const texts[] = {
        "workers=3,ps=2,evaluator=1",
        "1 coordinator, 2 ps, 3 workers, 1 evaluator"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        RtTaskCounts counts;
        assert_null(rt_task_counts_parse(arena, "-n", texts[i], &counts));
        assert_int_equal(counts.evaluators, 1);
        assert_int_equal(rt_num_tasks(&counts), 7);
    }
}

static const struct {
    const char *text, *says;
    StatusKind kind;
} wrong_counts[] = {
    {"workers",
     "-n workers: \"workers\" is no number of tasks, as "
     "workers=3,ps=2",
     STATUS_USAGE},
    {"", "\"\" is no number of tasks", STATUS_USAGE},
    {"workers=3,", "\"\" is no number of tasks", STATUS_USAGE},
    {"workers=3,pigs=2", "\"pigs\" is no kind of a task: workers, ps",
     STATUS_USAGE},
    {"workers=3,ps=0", "\"0\" is no number of ps from 1 on", STATUS_USAGE},
    {"many workers,1 ps", "\"many\" is no number of workers from 1 on",
     STATUS_USAGE},
    {"workers=9999999999,ps=1", "is no number of workers", STATUS_USAGE},
    {"workers=3", "a job has workers and servers (ps)", STATUS_USAGE},
    {"ps=3,ps=3", "ps are there twice", STATUS_USAGE},
    {"2 coordinators,1 ps,1 worker", "\"coordinators\" is no kind",
     STATUS_USAGE},
    {"coordinator=2,ps=1,workers=1", "a job has one coordinator", STATUS_USAGE},
    {"ps=1,workers=1,evaluator=2", "a job has one evaluator at most",
     STATUS_USAGE},
    {"workers=999999999,ps=999999999", "a cluster of more than 4096 processes",
     STATUS_INPUT},
};

static void
counts_are_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong_counts / sizeof *wrong_counts; i++) {
        RtTaskCounts counts;
        assert_status_says(
            rt_task_counts_parse(arena, "-n", wrong_counts[i].text, &counts),
            wrong_counts[i].kind, wrong_counts[i].says);
    }
}

/* ---- who this is --------------------------------------------------------- */

#define JOBS                                                                   \
    "\"ps\":[\"p0:1\",\"p1:1\"],\"worker\":[\"w0:1\",\"w1:1\",\"w2:1\"]"
#define CLUSTER(jobs, type, index)                                             \
    "TF_CONFIG={\"cluster\":{" jobs "},\"task\":{\"type\":\"" type             \
    "\",\"index\":" #index "}}"
#define SLURM(rank)                                                            \
    "SLURM_PROCID=" #rank, "SLURM_STEP_NUM_TASKS=6",                           \
        "SLURM_STEP_NODELIST=n[1-6]", "SLURM_JOB_ID=42"

typedef struct Case {
    const char *env[6];
    RtResolveOptions options;
    bool has_key;
    const char *want;
} Case;

/* "ps 1 joins h:1, listens *:0", "coordinator of 3 workers and 2 ps, ..." */
static const char *
text_of(const RtTaskOptions *t)
{
    Str s = str_new(arena);
    if (t->role == RT_ROLE_alone)
        return "alone";
    str_add(&s, rt_task_name(arena, t->role, t->index));
    if (t->role == RT_ROLE_coordinator)
        str_addf(&s, " of %d workers and %d ps", t->num_workers,
                 t->num_servers);
    for (int i = 0; i < t->num_join; i++)
        str_addf(&s, ", joins %s", t->join[i]);
    if (t->listen)
        str_addf(&s, ", listens %s", t->listen);
    return str_text(&s);
}

static Status
resolve(const Case *c, RtTaskOptions *task, RtClusterSpec *spec)
{
    RtResolveOptions options = c->options;
    options.rank = options.size ? options.rank : -1;
    return rt_resolve_role(arena, environment_of(c->env), &options, c->has_key,
                           task, spec);
}

static const Case cases[] = {
    {{0}, {0}, false, "alone"},
    {{0},
     {.serve = "ps:1", .join = "h:17,[::1]:18"},
     false,
     "ps 1, joins h:17, joins [::1]:18, listens 127.0.0.1:0"},
    {{0},
     {.serve = "ps:1", .join = "h:17"},
     true,
     "ps 1, joins h:17, listens *:0"},
    {{0},
     {.serve = "ps:0", .join = "h:17", .listen = "10.0.0.1:18"},
     true,
     "ps 0, joins h:17, listens 10.0.0.1:18"},
    {{"TFD_CONTROL=h:17"}, {.serve = "worker:7"}, true, "worker 7, joins h:17"},
    {{0},
     {.coordinate = "2 ps, 3 workers", .listen = "*:17"},
     true,
     "coordinator of 3 workers and 2 ps, listens *:17"},
    /* the parent hears the port */
    {{"TFD_ANNOUNCE_FD=7"},
     {.coordinate = "workers=3,ps=2", .listen = "127.0.0.1:0"},
     true,
     "coordinator of 3 workers and 2 ps, listens 127.0.0.1:0"},
    /* the command line wins */
    {{CLUSTER("\"chief\":[\"c:1\"]," JOBS, "ps", 1)},
     {.serve = "worker:0", .join = "h:17"},
     true,
     "worker 0, joins h:17"},
    {{CLUSTER("\"chief\":[\"c:1\"]," JOBS, "chief", 0)},
     {0},
     true,
     "coordinator of 3 workers and 2 ps, listens *:1"},
    {{CLUSTER("\"coordinator\":[\"c:1\"]," JOBS, "coordinator", 0)},
     {0},
     false,
     "coordinator of 3 workers and 2 ps, listens 127.0.0.1:1"},
    {{CLUSTER("\"chief\":[\"c:1\"]," JOBS, "ps", 1)},
     {0},
     true,
     "ps 1, joins c:1, listens *:1"},
    {{CLUSTER("\"chief\":[\"c:1\"]," JOBS, "worker", 2)},
     {0},
     true,
     "worker 2, joins c:1"},
    {{CLUSTER("\"chief\":[\"c:1\"]," JOBS, "worker", 2)},
     {.task = "ps:0"},
     true,
     "ps 0, joins c:1, listens *:1"},
    /* who is no coordinator needs not know all others */
    {{CLUSTER("\"chief\":[\"c:1\"],\"ps\":[\"p:1\"],\"worker\":{\"5\":\"w:1\"}",
              "worker", 5)},
     {0},
     true,
     "worker 5, joins c:1"},
    {{SLURM(0)},
     {.tasks = "workers=3,ps=2"},
     true,
     "coordinator of 3 workers and 2 ps, listens *:17042"},
    {{SLURM(2)},
     {.tasks = "workers=3,ps=2"},
     true,
     "ps 1, joins n1:17042, listens *:0"},
    {{SLURM(3)}, {.tasks = "workers=3,ps=2"}, true, "worker 0, joins n1:17042"},
    {{SLURM(5)}, {.tasks = "workers=3,ps=2"}, true, "worker 2, joins n1:17042"},
    {{0},
     {.rank = 1, .size = 3, .tasks = "workers=1,ps=1", .join = "h:17"},
     false,
     "ps 0, joins h:17, listens 127.0.0.1:0"},
};

static void
roles_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RtTaskOptions task;
        RtClusterSpec spec;
        Status st = resolve(&cases[i], &task, &spec);
        if (st)
            fail_msg("%s: %s", cases[i].want, status_message(st));
        assert_string_equal(text_of(&task), cases[i].want);
        assert_int_equal(task.announce_fd, -1);
        assert_true(spec.facts.len > 0);
    }
}

static void
it_says_where_from(void **state)
{
    (void)state;
    static const Case c = {{SLURM(2)}, {.tasks = "workers=3,ps=2"}, true, NULL};
    RtTaskOptions task;
    RtClusterSpec spec;
    char text[1000];
    FILE *to = tmpfile();
    assert_null(resolve(&c, &task, &spec));
    rt_resolve_print(&spec, to);
    rewind(to);
    text[fread(text, 1, sizeof text - 1, to)] = '\0';
    fclose(to);
    assert_string_equal(
        text, "started by   srun (Slurm)  rank 2, --tasks workers=3,ps=2\n"
              "role         ps 1          rank 2, --tasks workers=3,ps=2\n"
              "coordinator  n1:17042      rank 0\n"
              "listens at   *:0           any free port\n");
}

/* ---- what is refused ----------------------------------------------------- */

static const struct {
    Case of;
    StatusKind kind;
} wrong[] = {
    {{{0},
      {.serve = "ps"},
      true,
      "--serve ps: a task is TYPE:INDEX, as worker:1"},
     STATUS_USAGE},
    {{{0},
      {.serve = "ps:x"},
      true,
      "--serve ps:x: a task is TYPE:INDEX, as worker:1"},
     STATUS_USAGE},
    {{{0},
      {.serve = "boss:0"},
      true,
      "--serve boss: a task that serves is ps, worker or evaluator, as ps:0"},
     STATUS_USAGE},
    {{{0},
      {.serve = "evaluator:1", .join = "h:1"},
      true,
      "--serve evaluator:1: a job has one evaluator at most"},
     STATUS_USAGE},
    {{{0},
      {.serve = "evaluator", .join = "h:1", .listen = "*:0"},
      true,
      "--serve evaluator and --listen: it connects to others"},
     STATUS_USAGE},
    {{{0},
      {.serve = "chief:0"},
      true,
      "--serve chief: a coordinator is started by --coordinate"},
     STATUS_USAGE},
    {{{0}, {.serve = "ps:1"}, true, "--serve ps:1 needs --join HOST:PORT"},
     STATUS_USAGE},
    {{{0},
      {.serve = "ps:1", .join = "h"},
      true,
      "--join is no list of addresses: \"h\" is no HOST:PORT"},
     STATUS_USAGE},
    {{{0},
      {.serve = "worker:1", .join = "h:1", .listen = "*:0"},
      true,
      "--serve worker:1 and --listen: it connects to others"},
     STATUS_USAGE},
    {{{0},
      {.serve = "ps:1", .join = "h:1", .listen = "*"},
      true,
      "--listen: \"*\" is no HOST:PORT"},
     STATUS_USAGE},
    {{{0},
      {.serve = "ps:1", .join = "h:1", .listen = "*:65536"},
      true,
      "--listen: in \"*:65536\" the port is no number from 0 to 65535"},
     STATUS_USAGE},
    {{{0},
      {.coordinate = "workers=1,ps=1"},
      true,
      "--coordinate needs --listen HOST:PORT"},
     STATUS_USAGE},
    {{{0},
      {.coordinate = "workers=1,ps=1", .listen = "*:0"},
      true,
      "--listen: in \"*:0\" the port is no number from 1 to 65535"},
     STATUS_USAGE},
    {{{0},
      {.coordinate = "4", .listen = "*:1"},
      true,
      "--coordinate 4: \"4\" is no number of tasks"},
     STATUS_USAGE},
    {{{0}, {.listen = "*:1"}, true, "--listen needs --serve or --coordinate"},
     STATUS_USAGE},
    {{{0},
      {.serve = "ps:1", .tasks = "workers=1,ps=1"},
      true,
      "--serve, --coordinate and --tasks each say which task"},
     STATUS_USAGE},
    /* PSV-21 */
    {{{CLUSTER("\"chief\":[\"c:1\"],\"foo\":[\"f:1\"]," JOBS, "chief", 0)},
      {0},
      true,
      "TF_CONFIG has a job \"foo\": one of strategy parameter_server has a "
      "chief (or coordinator), ps and worker alone"},
     STATUS_INPUT},
    {{{CLUSTER("\"chief\":[\"c:1\"],\"evaluator\":[\"f:1\"]," JOBS, "chief",
               0)},
      {0},
      true,
      "TF_CONFIG has a job \"evaluator\""},
     STATUS_INPUT},
    {{{CLUSTER("\"chief\":[\"c:1\"]," JOBS, "foobar", 0)},
      {0},
      true,
      "TF_CONFIG makes this process foobar 0: a task of strategy "
      "parameter_server is chief (or coordinator), ps, worker or evaluator"},
     STATUS_INPUT},
    {{{CLUSTER("\"chief\":[\"c:1\"]," JOBS, "ps", 2)},
      {0},
      true,
      "TF_CONFIG makes this process ps 2, which is not in its cluster"},
     STATUS_INPUT},
    {{{CLUSTER("\"chief\":[\"c:1\"]," JOBS, "ps", 2)},
      {.task = "ps"},
      true,
      "--task ps: a task is TYPE:INDEX, as worker:1"},
     STATUS_USAGE},
    {{{"TF_CONFIG={\"cluster\":{\"chief\":[\"c:1\"]," JOBS "}}"},
      {0},
      true,
      "TF_CONFIG does not say which task this process is"},
     STATUS_INPUT},
    {{{CLUSTER(JOBS, "ps", 0)},
      {0},
      true,
      "TF_CONFIG has 0 tasks of chief (or coordinator), 2 of ps and 3 of "
      "worker: strategy parameter_server needs one chief"},
     STATUS_INPUT},
    {{{CLUSTER("\"chief\":[\"c:1\"],\"coordinator\":[\"d:1\"]," JOBS, "ps", 0)},
      {0},
      true,
      "TF_CONFIG has 2 tasks of chief (or coordinator)"},
     STATUS_INPUT},
    {{{CLUSTER("\"chief\":[\"c:1\"],\"worker\":[\"w:1\"]", "worker", 0)},
      {0},
      true,
      "TF_CONFIG has 1 tasks of chief (or coordinator), 0 of ps"},
     STATUS_INPUT},
    {{{CLUSTER("\"chief\":[\"c:1\"],\"ps\":[\"p:1\"],\"worker\":{\"5\":\"w:"
               "1\"}",
               "chief", 0)},
      {0},
      true,
      "TF_CONFIG has a worker 5 and no worker 0"},
     STATUS_INPUT},
    {{{SLURM(2)},
      {.tasks = "workers=3,ps=1"},
      true,
      "--tasks workers=3,ps=1 are 5 tasks with the coordinator, and the "
      "number of processes is 6 (srun (Slurm))"},
     STATUS_INPUT},
    {{{0},
      {.tasks = "workers=3,ps=1"},
      true,
      "and the number of processes is 1 (no launcher)"},
     STATUS_INPUT},
    {{{"PMI_RANK=1", "PMI_SIZE=3"},
      {.tasks = "workers=1,ps=1"},
      true,
      "nothing says where the coordinator, rank 0, is (mpiexec (MPICH, Intel "
      "MPI) does not): give --join HOST:PORT"},
     STATUS_INPUT},
    {{{SLURM(2)},
      {0},
      true,
      "this is process 2 of 6 (srun (Slurm)), and the plan is of strategy "
      "parameter_server: --tasks workers=4,ps=1 says which of them serve"},
     STATUS_INPUT},
};

static void
contradictions_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        RtTaskOptions task;
        RtClusterSpec spec;
        Status st = resolve(&wrong[i].of, &task, &spec);
        if (!st)
            fail_msg("accepted: %s", wrong[i].of.want);
        assert_status_says(st, wrong[i].kind, wrong[i].of.want);
    }
}

static void
options_speak_of_tasks(void **state)
{
    (void)state;
    const char *option;
    assert_false(rt_options_have_role(
        &(RtResolveOptions){.task = "ps:0", .join = "h:1"}, &option));
    assert_true(
        rt_options_have_role(&(RtResolveOptions){.listen = "h:1"}, &option));
    assert_string_equal(option, "--listen");
    assert_true(
        rt_options_have_role(&(RtResolveOptions){.coordinate = "x"}, &option));
    assert_string_equal(option, "--coordinate");
}

#define OWN(task)                                                              \
    "TF_CONFIG={\"cluster\":{\"chief\":[\"a:1\"],\"ps\":[\"b:1\"]},\"task\":{" \
    "\"type\":\"" task "\",\"index\":0}}"

/* Without a plan, by which tfd-run --resolve would know. */
static void
clusters_speak_of_tasks(void **state)
{
    static const char *const set[][2] = {{OWN("ps")},      {OWN("evaluator")},
                                         {OWN("chief")},   {"TF_CONFIG={}"},
                                         {"TF_CONFIG=ps"}, {"RANK=0"}};
    RtResolveOptions options = {.rank = -1};
    (void)state;
    for (int i = 0; i < (int)(sizeof set / sizeof *set); i++)
        assert_int_equal(
            rt_cluster_has_role(arena, environment_of(set[i]), &options),
            i < 2);
}

/* ---- where others reach it ----------------------------------------------- */

static void
routing_knows_the_own_address(void **state)
{
    static const char *const ways[] = {"no.such.name.invalid:1",
                                       "127.0.0.1:17000"};
    static const char *const six[] = {"[::1]:17000"};
    const char *host;
    (void)state;
    assert_null(rt_own_host(arena, ways, 2, &host));
    assert_string_equal(host, "127.0.0.1");
    Status st = rt_own_host(arena, six, 1, &host);
    if (!st) /* a machine may have no IPv6 */
        assert_string_equal(host, "[::1]");
    status_free(st);
    assert_status_says(rt_own_host(arena, ways, 1, &host), STATUS_MACHINE,
                       "this machine has no way to the coordinator at "
                       "no.such.name.invalid:1");
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_have_two_spellings),
        cmocka_unit_test(an_evaluator_is_one_task_more),
        cmocka_unit_test(counts_are_checked),
        cmocka_unit_test(roles_are_found),
        cmocka_unit_test(it_says_where_from),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(options_speak_of_tasks),
        cmocka_unit_test(clusters_speak_of_tasks),
        cmocka_unit_test(routing_knows_the_own_address),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
