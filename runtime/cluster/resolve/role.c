/*
 * role.c - which task of a parameter-server job this process is
 */
#include "runtime/cluster/resolve/role.h"

#include <string.h>
#include "ir/base/message.h"
#include "runtime/cluster/resolve/addresses.h"
#include "runtime/cluster/resolve/resolve_impl.h"
#include "runtime/cluster/resolve/task_counts.h"

typedef struct Finder {
    Arena *arena;
    RtEnvironment env;
    const RtResolveOptions *options;
    bool has_key;
    RtTaskOptions *task;
    RtClusterSpec *spec;
} Finder;

/* The jobs of a cluster, and the options' names of tasks. */
static const struct {
    const char *name;
    RtRole role;
} roles[] = {
    {"chief", RT_ROLE_coordinator},
    {"coordinator", RT_ROLE_coordinator},
    {"ps", RT_ROLE_ps},
    {"worker", RT_ROLE_worker},
    {"evaluator", RT_ROLE_evaluator},
};

enum { NUM_ROLES = sizeof roles / sizeof *roles };

/* RT_ROLE_alone: there is none of this name. */
static RtRole
role_of(const char *name)
{
    for (int i = 0; i < NUM_ROLES; i++)
        if (strcmp(roles[i].name, name) == 0)
            return roles[i].role;
    return RT_ROLE_alone;
}

const char *
rt_task_name(Arena *a, RtRole role, int index)
{
    int i = 0;
    while (roles[i].role != role)
        i++;
    return role == RT_ROLE_coordinator ? "coordinator"
           : role == RT_ROLE_evaluator
               ? "evaluator"
               : arena_printf(a, "%s %d", roles[i].name, index);
}

/* ---- what each role needs ------------------------------------------------ */

/* from: what says who this process is. */
static void
set_role(const Finder *f, RtLauncher launcher, RtRole role, int index,
         const char *from)
{
    f->task->role = role;
    f->task->index = index;
    f->spec->launcher = launcher;
    rt_add_fact(f->arena, f->spec, "started by", from, "%s",
                rt_launcher_name(launcher));
    rt_add_fact(f->arena, f->spec, "role", from, "%s",
                rt_task_name(f->arena, role, index));
}

static void
set_counts(const Finder *f, int workers, int servers, const char *from)
{
    f->task->num_workers = workers;
    f->task->num_servers = servers;
    rt_add_fact(f->arena, f->spec, "workers", from, "%d", workers);
    rt_add_fact(f->arena, f->spec, "servers", from, "%d", servers);
}

static void
set_listen(const Finder *f, const char *address, const char *from)
{
    f->task->listen = address;
    rt_add_fact(f->arena, f->spec, "listens at", from, "%s", address);
}

static Status
find_coordinator(const Finder *f)
{
    RtAddressQuery q = {.arena = f->arena,
                        .env = f->env,
                        .join = f->options->join,
                        .what = "coordinator",
                        .spec = f->spec};
    TRY(rt_find_addresses(&q));
    f->task->join = f->spec->addresses;
    f->task->num_join = f->spec->num_addresses;
    return OK;
}

/* Of a server of which nothing says where it listens: the coordinator tells
 * the workers. */
static void
listen_anywhere(const Finder *f)
{
    set_listen(f, f->has_key ? "*:0" : "127.0.0.1:0",
               f->has_key ? "any free port" : "without --key, on loopback");
}

/* ---- --serve, --coordinate ----------------------------------------------- */

static Status
take_listen(const Finder *f, bool any_port)
{
    const char *text = f->options->listen;
    const char *wrong = rt_wrong_listen(f->arena, text, any_port);
    if (wrong)
        return status_new(STATUS_USAGE, "--listen: %s", message_part(wrong));
    set_listen(f, text, "--listen");
    return OK;
}

static Status
coordinate(const Finder *f)
{
    RtTaskCounts counts;
    const char *text = f->options->coordinate;
    TRY(rt_task_counts_parse(f->arena, "--coordinate", text, &counts));
    f->task->has_evaluator = counts.evaluators > 0;
    set_role(f, RT_LAUNCHER_options, RT_ROLE_coordinator, 0, "--coordinate");
    set_counts(f, counts.workers, counts.servers, "--coordinate");
    if (!f->options->listen)
        return status_new(STATUS_USAGE,
                          "--coordinate needs --listen HOST:PORT, which "
                          "servers and workers --join");
    return take_listen(f, rt_variable(f->env, "TFD_ANNOUNCE_FD"));
}

static Status
check_served(const char *type)
{
    RtRole role = role_of(type);
    if (role == RT_ROLE_ps || role == RT_ROLE_worker ||
        role == RT_ROLE_evaluator)
        return OK;
    if (role == RT_ROLE_coordinator)
        return status_new(STATUS_USAGE,
                          "--serve %s: a coordinator is started by "
                          "--coordinate workers=3,ps=2",
                          type);
    return status_new(STATUS_USAGE,
                      "--serve %s: a task that serves is ps, worker or "
                      "evaluator, as ps:0",
                      type);
}

/* Whether a task connects to others and listens nowhere itself. */
static bool
only_connects(RtRole role)
{
    return role == RT_ROLE_worker || role == RT_ROLE_evaluator;
}

/* There is one evaluator, which needs no number. */
static Status
read_served(const Finder *f, const char **type, int *index)
{
    *type = f->options->serve;
    *index = 0;
    if (role_of(*type) == RT_ROLE_evaluator)
        return OK;
    TRY(rt_read_task(f->arena, "--serve", f->options->serve, type, index));
    TRY(check_served(*type));
    if (role_of(*type) == RT_ROLE_evaluator && *index > 0)
        return status_new(STATUS_USAGE,
                          "--serve %s: a job has one evaluator at most",
                          f->options->serve);
    return OK;
}

static Status
serve(const Finder *f)
{
    const char *type;
    int index;
    TRY(read_served(f, &type, &index));
    set_role(f, RT_LAUNCHER_options, role_of(type), index, "--serve");
    if (!f->options->join && !rt_variable(f->env, "TFD_CONTROL"))
        return status_new(STATUS_USAGE,
                          "--serve %s needs --join HOST:PORT, where the "
                          "coordinator listens",
                          f->options->serve);
    TRY(find_coordinator(f));
    if (only_connects(f->task->role) && f->options->listen)
        return status_new(STATUS_USAGE,
                          "--serve %s and --listen: it connects to others, "
                          "and listens nowhere",
                          f->options->serve);
    if (only_connects(f->task->role))
        return OK;
    if (f->options->listen)
        return take_listen(f, true);
    listen_anywhere(f);
    return OK;
}

/* ---- TF_CONFIG, --cluster ------------------------------------------------ */

static const RtTaskJob *
job_of(const RtTasks *t, RtRole role)
{
    for (int i = 0; i < t->jobs.len; i++)
        if (role_of(t->jobs.data[i].name) == role &&
            t->jobs.data[i].tasks.len > 0)
            return &t->jobs.data[i];
    return NULL;
}

static Status
check_jobs(const char *from, const RtTasks *t)
{
    int coordinators = 0;
    for (int i = 0; i < t->jobs.len; i++) {
        const RtTaskJob *job = &t->jobs.data[i];
        RtRole role = role_of(job->name);
        if (role == RT_ROLE_alone || role == RT_ROLE_evaluator)
            return status_new(STATUS_INPUT,
                              "%s has a job \"%s\": one of strategy "
                              "parameter_server has a chief (or coordinator), "
                              "ps and worker alone",
                              from, job->name);
        coordinators += role == RT_ROLE_coordinator ? job->tasks.len : 0;
    }
    if (coordinators != 1 || !job_of(t, RT_ROLE_ps) ||
        !job_of(t, RT_ROLE_worker))
        return status_new(
            STATUS_INPUT,
            "%s has %d tasks of chief (or coordinator), %d of "
            "ps and %d of worker: strategy parameter_server "
            "needs one chief, and at least one of the others",
            from, coordinators,
            job_of(t, RT_ROLE_ps) ? job_of(t, RT_ROLE_ps)->tasks.len : 0,
            job_of(t, RT_ROLE_worker) ? job_of(t, RT_ROLE_worker)->tasks.len
                                      : 0);
    return OK;
}

static const RtTask *
find_own(const RtTasks *t)
{
    const RtTaskJob *job = rt_tasks_job(t, t->type);
    for (int i = 0; job && i < job->tasks.len; i++)
        if (job->tasks.data[i].index == t->index)
            return &job->tasks.data[i];
    return NULL;
}

static Status
check_own(const char *from, const RtTasks *t)
{
    TRY(rt_check_own_task(from, t));
    if (role_of(t->type) == RT_ROLE_alone)
        return status_new(STATUS_INPUT,
                          "%s makes this process %s %d: a task of strategy "
                          "parameter_server is chief (or coordinator), ps, "
                          "worker or evaluator",
                          from, t->type, t->index);
    if (role_of(t->type) == RT_ROLE_evaluator)
        return OK; /* others need not know of it */
    if (!find_own(t))
        return status_new(STATUS_INPUT,
                          "%s makes this process %s %d, which is not in its "
                          "cluster",
                          from, t->type, t->index);
    return OK;
}

/* Where others reach it by the cluster's address. */
static void
listen_at_own(const Finder *f, const char *address, const char *from)
{
    set_listen(f, rt_listen_address(f->arena, address, f->has_key), from);
}

static void
set_addresses(const Finder *f, const RtTaskJob *coordinators)
{
    const char **list = NEW_ARRAY(f->arena, const char *, 1);
    list[0] = coordinators->tasks.data[0].address;
    f->task->join = f->spec->addresses = list;
    f->task->num_join = f->spec->num_addresses = 1;
    rt_add_fact(f->arena, f->spec, "coordinator",
                arena_printf(f->arena, "%s 0", coordinators->name), "%s",
                list[0]);
}

static Status
be_task_of(const Finder *f, const char *from, const RtTasks *t)
{
    TRY(check_jobs(from, t));
    TRY(check_own(from, t));
    RtRole role = role_of(t->type);
    const RtTask *own = find_own(t);
    const RtTaskJob *workers = job_of(t, RT_ROLE_worker);
    const RtTaskJob *servers = job_of(t, RT_ROLE_ps);
    f->spec->tasks = t;
    set_role(f, RT_LAUNCHER_tf_config, role, t->index,
             arena_printf(f->arena, "%s: task %s %d", from, t->type, t->index));
    if (role != RT_ROLE_coordinator)
        set_addresses(f, job_of(t, RT_ROLE_coordinator));
    if (!only_connects(role))
        listen_at_own(f, own->address, from);
    if (role != RT_ROLE_coordinator)
        return OK;
    TRY(rt_check_complete(from, workers));
    TRY(rt_check_complete(from, servers));
    set_counts(f, workers->tasks.len, servers->tasks.len, from);
    return OK;
}

/* ---- a launcher's ranks -------------------------------------------------- */

static Status
resolve_rank(const Finder *f)
{
    return rt_resolve(f->arena, f->env, f->options, f->spec);
}

static Status
check_size(const Finder *f, const RtTaskCounts *counts)
{
    if (f->spec->size != rt_num_tasks(counts))
        return status_new(STATUS_INPUT,
                          "--tasks %s are %d tasks with the coordinator, and "
                          "the number of processes is %d (%s)",
                          f->options->tasks, rt_num_tasks(counts),
                          f->spec->size, rt_launcher_name(f->spec->launcher));
    if (f->spec->over_mpi)
        return status_new(STATUS_INPUT,
                          "nothing says where the coordinator, rank 0, is (%s "
                          "does not): give --join HOST:PORT",
                          rt_launcher_name(f->spec->launcher));
    return OK;
}

/* Rank 0, then the servers, then the workers, then an evaluator. */
static RtRole
role_of_rank(const RtTaskCounts *counts, int rank, int *index)
{
    int first_worker = 1 + counts->servers;
    int evaluator = first_worker + counts->workers;
    *index = rank == 0             ? 0
             : rank < first_worker ? rank - 1
             : rank < evaluator    ? rank - first_worker
                                   : rank - evaluator;
    return rank == 0             ? RT_ROLE_coordinator
           : rank < first_worker ? RT_ROLE_ps
           : rank < evaluator    ? RT_ROLE_worker
                                 : RT_ROLE_evaluator;
}

static Status
be_task_by_rank(const Finder *f)
{
    RtTaskCounts counts;
    const char *text = f->options->tasks;
    TRY(rt_task_counts_parse(f->arena, "--tasks", text, &counts));
    TRY(resolve_rank(f));
    TRY(check_size(f, &counts));
    RtClusterSpec *spec = f->spec;
    const char *from =
        arena_printf(f->arena, "rank %d, --tasks %s", spec->rank, text);
    const char *rendezvous = spec->addresses[0];
    spec->facts.len = 0;
    int index;
    RtRole role = role_of_rank(&counts, spec->rank, &index);
    set_role(f, spec->launcher, role, index, from);
    if (role == RT_ROLE_coordinator) {
        f->task->has_evaluator = counts.evaluators > 0;
        set_counts(f, counts.workers, counts.servers, "--tasks");
        listen_at_own(f, rendezvous, "the port of rank 0's address");
        return OK;
    }
    f->task->join = spec->addresses;
    f->task->num_join = spec->num_addresses;
    for (int i = 0; i < spec->num_addresses; i++)
        rt_add_fact(f->arena, f->spec, "coordinator", "rank 0", "%s",
                    spec->addresses[i]);
    if (role == RT_ROLE_ps)
        listen_anywhere(f);
    return OK;
}

/* A launcher has started several, and nothing says who they are. */
static Status
be_alone(const Finder *f)
{
    RtClusterSpec *spec = f->spec;
    TRY(resolve_rank(f));
    if (spec->size > 1)
        return status_new(STATUS_INPUT,
                          "this is process %d of %d (%s), and the plan is of "
                          "strategy parameter_server: --tasks workers=%d,ps=1 "
                          "says which of them serve",
                          spec->rank, spec->size,
                          rt_launcher_name(spec->launcher),
                          spec->size > 2 ? spec->size - 2 : 1);
    spec->facts.len = 0;
    rt_add_fact(f->arena, f->spec, "role", "nothing says otherwise", "%s",
                "coordinator, server and worker");
    return OK;
}

/* ---- which of them counts ------------------------------------------------ */

bool
rt_options_have_role(const RtResolveOptions *o, const char **option)
{
    *option = o->serve        ? "--serve"
              : o->coordinate ? "--coordinate"
              : o->tasks      ? "--tasks"
              : o->listen     ? "--listen"
                              : NULL;
    return *option;
}

bool
rt_cluster_has_role(Arena *a, RtEnvironment env, const RtResolveOptions *o)
{
    const char *from;
    RtTasks *t = NULL;
    Status st = rt_find_tasks(a, env, o, &from, &t);
    bool has = !st && t && rt_has_no_replicas(t);
    status_free(st);
    return has;
}

static Status
check_options(const RtResolveOptions *o)
{
    if (!!o->serve + !!o->coordinate + !!o->tasks > 1)
        return status_new(STATUS_USAGE,
                          "--serve, --coordinate and --tasks each say which "
                          "task this process is: give one of them");
    if (o->listen && !o->serve && !o->coordinate)
        return status_new(STATUS_USAGE,
                          "--listen needs --serve or --coordinate, whose "
                          "address it is");
    return OK;
}

Status
rt_resolve_role(Arena *a, RtEnvironment env, const RtResolveOptions *options,
                bool has_key, RtTaskOptions *task, RtClusterSpec *spec)
{
    Finder f = {a, env, options, has_key, task, spec};
    RtTasks *tasks = NULL;
    const char *from;
    *task = (RtTaskOptions){.role = RT_ROLE_alone, .announce_fd = -1};
    *spec = (RtClusterSpec){.size = 1, .local_rank = -1};
    TRY(check_options(options));
    TRY(rt_check_task_option(env, options));
    if (options->coordinate)
        return coordinate(&f);
    if (options->serve)
        return serve(&f);
    if (options->tasks)
        return be_task_by_rank(&f);
    TRY(rt_find_tasks(a, env, options, &from, &tasks));
    return tasks && tasks->jobs.len ? be_task_of(&f, from, tasks)
                                    : be_alone(&f);
}
