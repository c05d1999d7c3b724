/*
 * tasks.c - questions about the tasks of a cluster
 *
 * Which tasks train together, and which of them is the first, is as
 * TensorFlow's multi_worker_util has it.
 */
#include "runtime/cluster/resolve/tasks.h"

#include <string.h>

static const char *const types[] = {"chief", "worker", "ps", "evaluator"};

enum { NUM_TYPES = sizeof types / sizeof *types };

const RtTaskJob *
rt_tasks_job(const RtTasks *t, const char *name)
{
    for (int i = 0; i < t->jobs.len; i++)
        if (strcmp(t->jobs.data[i].name, name) == 0)
            return &t->jobs.data[i];
    return NULL;
}

static int
num_tasks(const RtTasks *t, const char *name)
{
    const RtTaskJob *job = rt_tasks_job(t, name);
    return job ? job->tasks.len : 0;
}

const char *
rt_task_address(Arena *a, const RtTasks *t, const char *type, int index)
{
    const RtTaskJob *job = rt_tasks_job(t, type);
    for (int i = 0; job && i < job->tasks.len; i++) {
        const RtTask *task = &job->tasks.data[i];
        if (task->index == index)
            return t->rpc_layer
                       ? arena_printf(a, "%s://%s", t->rpc_layer, task->address)
                       : task->address;
    }
    return NULL;
}

const char *
rt_own_address(Arena *a, const RtTasks *t)
{
    int sum = 0;
    for (int i = 0; i < t->jobs.len; i++)
        sum += t->jobs.data[i].tasks.len;
    const char *own =
        sum > 1 && t->type ? rt_task_address(a, t, t->type, t->index) : NULL;
    return own ? own : "";
}

/* ---- unions -------------------------------------------------------------- */

static Status
add_sparse(Arena *a, RtTaskJob *to, const RtTaskJob *more)
{
    for (int i = 0; i < more->tasks.len; i++) {
        RtTask task = more->tasks.data[i];
        int at = to->tasks.len;
        while (at > 0 && to->tasks.data[at - 1].index > task.index)
            at--;
        if (at > 0 && to->tasks.data[at - 1].index == task.index)
            return status_new(
                STATUS_INPUT, "two clusters have %s %d: %s and %s", to->name,
                task.index, to->tasks.data[at - 1].address, task.address);
        VEC_PUSH(a, to->tasks, task);
        memmove(&to->tasks.data[at + 1], &to->tasks.data[at],
                (size_t)(to->tasks.len - 1 - at) * sizeof task);
        to->tasks.data[at] = task;
    }
    return OK;
}

static Status
add_job(Arena *a, RtTaskJob *to, const RtTaskJob *more)
{
    if (to->sparse)
        return add_sparse(a, to, more);
    for (int i = 0; i < more->tasks.len; i++) {
        RtTask task = {to->tasks.len, more->tasks.data[i].address};
        VEC_PUSH(a, to->tasks, task);
    }
    return OK;
}

Status
rt_tasks_add(Arena *a, RtTasks *to, const RtTasks *more)
{
    for (int i = 0; i < more->jobs.len; i++) {
        const RtTaskJob *job = &more->jobs.data[i];
        RtTaskJob *own = (RtTaskJob *)rt_tasks_job(to, job->name);
        if (!own) {
            VEC_PUSH(a, to->jobs, ((RtTaskJob){.name = job->name}));
            own = &VEC_LAST(to->jobs);
        }
        own->sparse |= job->sparse;
        TRY(add_job(a, own, job));
    }
    return OK;
}

/* ---- who trains with whom ------------------------------------------------ */

/* The types, and that the task is there. */
static Status
check_task(const RtTasks *t, const char *type, int index)
{
    int k = 0;
    while (k < NUM_TYPES && strcmp(types[k], type) != 0)
        k++;
    if (k == NUM_TYPES)
        return status_new(STATUS_INPUT,
                          "\"%s\" is no type of a task: chief, worker, ps or "
                          "evaluator",
                          type);
    for (int i = 0; i < t->jobs.len; i++) {
        const RtTaskJob *job = &t->jobs.data[i];
        for (int m = 0; m < job->tasks.len; m++)
            if (strcmp(job->name, type) == 0 &&
                job->tasks.data[m].index == index)
                return OK;
    }
    /* An evaluator need not be in the cluster that it evaluates. */
    if (strcmp(type, "evaluator") == 0)
        return OK;
    return status_new(STATUS_INPUT, "the cluster has no %s %d", type, index);
}

static Status
refuse_ps(const char *type)
{
    if (strcmp(type, "ps") != 0)
        return OK;
    return status_new(STATUS_INPUT,
                      "a ps is no worker: it holds variables for strategy "
                      "parameter_server and executes no replica");
}

Status
rt_task_is_chief(const RtTasks *t, const char *type, int index, bool *out)
{
    TRY(check_task(t, type, index));
    *out = strcmp(type, "chief") == 0 || strcmp(type, "evaluator") == 0 ||
           (strcmp(type, "worker") == 0 && index == 0 &&
            num_tasks(t, "chief") == 0);
    return OK;
}

Status
rt_worker_count(const RtTasks *t, const char *type, int *out)
{
    TRY(check_task(t, type, 0));
    TRY(refuse_ps(type));
    *out = strcmp(type, "evaluator") == 0
               ? num_tasks(t, "evaluator")
               : num_tasks(t, "chief") + num_tasks(t, "worker");
    return OK;
}

Status
rt_task_rank(const RtTasks *t, const char *type, int index, int *out)
{
    TRY(check_task(t, type, index));
    TRY(refuse_ps(type));
    *out = index;
    if (strcmp(type, "worker") == 0)
        *out += num_tasks(t, "chief");
    return OK;
}
