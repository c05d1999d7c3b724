/*
 * slurm.c - the jobs of a cluster on the tasks of a step of Slurm
 */
#include "runtime/cluster/resolve/platforms.h"

#include <stdlib.h>
#include <string.h>
#include "ir/base/io/limit.h"
#include "ir/base/str.h"
#include "runtime/cluster/resolve/hostlist.h"
#include "runtime/cluster/resolve/resolve_impl.h"

enum { USUAL_PORT = 8888, LAST_PORT = 65535 };

typedef struct Step {
    Arena *arena;
    const RtSlurmLayout *layout;
    RtNames hosts;
    RtCounts tasks; /* of each host */
    int rank, num;  /* of this task, of all */
} Step;

static Status
require(RtEnvironment env, const char *name, const char **out)
{
    *out = rt_variable(env, name);
    return *out ? OK
                : status_new(STATUS_INPUT,
                             "%s is not set: srun sets it for each task of a "
                             "step",
                             name);
}

static Status
count_tasks(Step *s)
{
    int64_t sum = 0;
    for (int i = 0; i < s->tasks.len; i++)
        sum += s->tasks.data[i];
    if (sum > limit_value(LIMIT_processes))
        return limit_status(LIMIT_processes, "SLURM_STEP_TASKS_PER_NODE");
    s->num = (int)sum;
    return OK;
}

static Status
find_rank(Step *s, const char *text)
{
    char *end;
    long rank = strtol(text, &end, 10);
    if (end == text || *end || rank < 0 || rank >= s->num)
        return status_new(STATUS_INPUT,
                          "SLURM_PROCID=%s is no task of the step, which has "
                          "%d, counted from 0",
                          text, s->num);
    s->rank = (int)rank;
    return OK;
}

static Status
read_step(Step *s, RtEnvironment env)
{
    const char *hosts, *tasks, *rank;
    TRY(require(env, "SLURM_STEP_NODELIST", &hosts));
    TRY(require(env, "SLURM_STEP_TASKS_PER_NODE", &tasks));
    TRY(require(env, "SLURM_PROCID", &rank));
    TRY(rt_hostlist(s->arena, "SLURM_STEP_NODELIST", hosts, &s->hosts));
    TRY(rt_repeated_counts(s->arena, "SLURM_STEP_TASKS_PER_NODE", tasks,
                           &s->tasks));
    if (s->hosts.len != s->tasks.len)
        return status_new(STATUS_INPUT,
                          "SLURM_STEP_NODELIST=%s has %d nodes, and "
                          "SLURM_STEP_TASKS_PER_NODE=%s is for %d",
                          hosts, s->hosts.len, tasks, s->tasks.len);
    TRY(count_tasks(s));
    return find_rank(s, rank);
}

static Status
check_shares(const Step *s)
{
    int sum = 0;
    for (int i = 0; i < s->layout->num_shares; i++)
        sum += s->layout->shares[i].num;
    if (s->layout->num_shares == 0 || sum == s->num)
        return OK;
    return status_new(STATUS_INPUT,
                      "the jobs have %d tasks, and the step of Slurm has %d",
                      sum, s->num);
}

/* "1": those of task number `local` of a node. */
static const char *
gpus_of(const Step *s, int local)
{
    const RtSlurmLayout *l = s->layout;
    Str text = str_new(s->arena);
    for (int i = 0; i < l->gpus_per_task; i++)
        str_addf(&text, "%s%d", i ? "," : "", local * l->gpus_per_task + i);
    return str_text(&text);
}

/* Where the tasks of the step go, one after the other. */
typedef struct Dealer {
    int share, in_share; /* the next one's job, and number in it */
} Dealer;

static const char *
next_job(const Step *s, Dealer *d)
{
    const RtSlurmLayout *l = s->layout;
    while (d->share < l->num_shares && d->in_share == l->shares[d->share].num) {
        d->share++;
        d->in_share = 0;
    }
    return l->num_shares ? l->shares[d->share].name : "worker";
}

static void
add_task(const Step *s, Dealer *d, RtTasks *out, const char *address, bool own)
{
    const char *name = next_job(s, d);
    if (!rt_tasks_job(out, name))
        VEC_PUSH(s->arena, out->jobs, ((RtTaskJob){.name = name}));
    RtTaskJob *job = (RtTaskJob *)rt_tasks_job(out, name);
    if (own) {
        out->type = name;
        out->index = d->in_share;
    }
    VEC_PUSH(s->arena, job->tasks, ((RtTask){d->in_share++, address}));
}

static Status
check_node(const Step *s, int first_port, int tasks_of_node)
{
    const RtSlurmLayout *l = s->layout;
    if (first_port + tasks_of_node - 1 > LAST_PORT)
        return status_new(STATUS_INPUT,
                          "%d tasks of a node have no ports from %d on: the "
                          "last is %d",
                          tasks_of_node, first_port, LAST_PORT);
    if ((int64_t)tasks_of_node * l->gpus_per_task <= l->gpus_per_node)
        return OK;
    return status_new(STATUS_INPUT,
                      "%d tasks of %d GPUs each are on one node, which has %d",
                      tasks_of_node, l->gpus_per_task, l->gpus_per_node);
}

Status
rt_slurm_tasks(Arena *a, RtEnvironment env, const RtSlurmLayout *layout,
               RtTasks *out, const char **gpus)
{
    Step s = {.arena = a, .layout = layout};
    Dealer d = {0};
    int rank = 0;
    int port = layout->first_port ? layout->first_port : USUAL_PORT;
    *out = (RtTasks){.index = -1};
    *gpus = NULL;
    TRY(read_step(&s, env));
    TRY(check_shares(&s));
    for (int i = 0; i < s.hosts.len; i++) {
        TRY(check_node(&s, port, s.tasks.data[i]));
        for (int k = 0; k < s.tasks.data[i]; k++, rank++) {
            add_task(&s, &d, out,
                     arena_printf(a, "%s:%d", s.hosts.data[i], port + k),
                     rank == s.rank);
            if (rank == s.rank && layout->gpus_per_task)
                *gpus = gpus_of(&s, k);
        }
    }
    return OK;
}
