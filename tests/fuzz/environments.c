/*
 * environments.c - what says which process of a job this one is
 *
 * An input is an environment, which all readers of one get, those of JSON and
 * of Slurm's lists among them.
 */
#include "tests/fuzz/environments.h"

#include <string.h>
#include "ir/base/io/limit.h"
#include "runtime/cluster/resolve/platforms.h"
#include "runtime/cluster/resolve/resolve.h"
#include "tests/fuzz/fuzz.h"

enum { PORT = 8470, GPUS_PER_NODE = 8 };

typedef struct Lines {
    Arena *arena;
    const char *text;
} Lines;

static const char *
get_line(void *data, const char *name)
{
    const Lines *lines = data;
    size_t n = strlen(name);
    for (const char *at = lines->text; *at; at += *at == '\n') {
        size_t len = strcspn(at, "\n");
        if (len > n && strncmp(at, name, n) == 0 && at[n] == '=')
            return arena_strndup(lines->arena, at + n + 1, len - n - 1);
        at += len;
    }
    return NULL;
}

/* ---- what was found ------------------------------------------------------ */

static void
check_tasks(Arena *a, const RtTasks *t)
{
    int64_t sum = 0;
    for (int i = 0; i < t->jobs.len; i++) {
        const RtTaskJob *job = &t->jobs.data[i];
        sum += job->tasks.len;
        for (int k = 0; k < job->tasks.len; k++) {
            int index = job->tasks.data[k].index;
            if (index < 0 || (k > 0 && index <= job->tasks.data[k - 1].index))
                fuzz_bug("task %d of \"%s\" has index %d", k, job->name, index);
            if (!rt_task_address(a, t, job->name, index))
                fuzz_bug("%s %d has no address", job->name, index);
        }
    }
    if (sum > limit_value(LIMIT_processes))
        fuzz_bug("%lld tasks", (long long)sum);
    if (!rt_own_address(a, t))
        fuzz_bug("no own address, not even an empty one");
}

static void
check_spec(Arena *a, const RtClusterSpec *s)
{
    if (s->rank < 0 || s->rank >= s->size)
        fuzz_bug("rank %d of %d", s->rank, s->size);
    if (s->size > limit_value(LIMIT_processes))
        fuzz_bug("%d processes", s->size);
    if (s->is_chief != (s->rank == 0))
        fuzz_bug("rank %d and the chief", s->rank);
    if (s->size > 1 && !s->over_mpi && s->num_addresses == 0)
        fuzz_bug("nothing says where the control server is");
    if (s->tasks)
        check_tasks(a, s->tasks);
    for (int i = 0; i < s->facts.len; i++)
        if (!s->facts.data[i].value || !s->facts.data[i].from)
            fuzz_bug("the fact %s is from nowhere", s->facts.data[i].name);
}

/* ---- the readers --------------------------------------------------------- */

static Status
try_pods(Arena *a, RtEnvironment env)
{
    RtTasks t;
    const char *pods = env.get(env.data, "PODS");
    if (!pods)
        return OK;
    TRY(rt_pods_tasks(a, "PODS", pods, strlen(pods), PORT, "a", &t));
    check_tasks(a, &t);
    return OK;
}

static Status
try_sagemaker(Arena *a, RtEnvironment env)
{
    RtTasks t;
    if (!env.get(env.data, "SM_HOSTS"))
        return OK;
    TRY(rt_sagemaker_tasks(a, env, PORT, &t));
    check_tasks(a, &t);
    return OK;
}

static Status
try_slurm(Arena *a, RtEnvironment env)
{
    const RtSlurmLayout layout = {.gpus_per_node = GPUS_PER_NODE,
                                  .gpus_per_task = 1};
    RtTasks t;
    const char *gpus;
    if (!env.get(env.data, "SLURM_STEP_TASKS_PER_NODE"))
        return OK;
    TRY(rt_slurm_tasks(a, env, &layout, &t, &gpus));
    check_tasks(a, &t);
    return OK;
}

static Status
try_resolve(Arena *a, RtEnvironment env)
{
    const RtResolveOptions options = {.rank = -1};
    RtClusterSpec spec;
    TRY(rt_resolve(a, env, &options, &spec));
    check_spec(a, &spec);
    return OK;
}

/* The command line wins over whatever the environment is. */
static Status
try_options(Arena *a, RtEnvironment env)
{
    const RtResolveOptions options = {
        .rank = 1, .size = 2, .join = "127.0.0.1:1"};
    RtClusterSpec spec;
    TRY(rt_resolve(a, env, &options, &spec));
    check_spec(a, &spec);
    if (spec.rank != 1 || spec.size != 2)
        fuzz_bug("--rank 1 --size 2 is rank %d of %d", spec.rank, spec.size);
    return OK;
}

Status
environment_try(const char *bytes, size_t len)
{
    static Status (*const readers[])(Arena *, RtEnvironment) = {
        try_resolve, try_options, try_pods, try_sagemaker, try_slurm};
    Arena *a = arena_new(NULL, "fuzz");
    Lines lines = {a, arena_strndup(a, bytes, len)};
    Status first = OK;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        Status st = readers[i](a, (RtEnvironment){get_line, &lines});
        if (st && first)
            status_free(st);
        else if (st)
            first = st;
    }
    arena_release(a);
    return first;
}
