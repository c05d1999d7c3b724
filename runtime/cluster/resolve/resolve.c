/*
 * resolve.c - which process of a job this one is
 *
 * Everything that says so is a *claim*: a number, how many there are, and the
 * variables that say it.  Claims are sorted by precedence; the first one
 * counts, and those that stand beside it, not outside of it, must agree.
 */
#include "runtime/cluster/resolve/resolve.h"

#include <stdlib.h>
#include <string.h>
#include "ir/base/io/file.h"
#include "ir/base/io/limit.h"
#include "ir/base/str.h"
#include "runtime/cluster/resolve/addresses.h"
#include "runtime/cluster/resolve/platforms.h"
#include "runtime/cluster/resolve/resolve_impl.h"
#include "runtime/cluster/resolve/task_counts.h"

enum {
    LEVEL_EXPLICIT = 0, /* as of launchers.def */
    LEVEL_BESIDE = 1,   /* TF_CONFIG, too: they must agree */
    LEVEL_OUTSIDE = 3   /* what starts containers */
};

enum {
    FIRST_LAUNCHER = RT_LAUNCHER_sagemaker + 1, /* of launchers.def */
    PODS_PORT = 17000,
    SAGEMAKER_PORT = 2223
};

typedef struct LauncherRow {
    const char *name;
    const char *rank, *size, *local_rank, *local_size, *job, *attempt;
    int level;
} LauncherRow;

static const LauncherRow rows[RT_NUM_LAUNCHERS] = {
    [RT_LAUNCHER_alone] = {.name = "no launcher"},
    [RT_LAUNCHER_options] = {.name = "the command line"},
    [RT_LAUNCHER_tf_config] = {.name = "TF_CONFIG", .level = LEVEL_BESIDE},
    [RT_LAUNCHER_sagemaker] = {.name = "SageMaker", .level = LEVEL_OUTSIDE},
#define LAUNCHER(id, ...) [RT_LAUNCHER_##id] = {__VA_ARGS__},
#include "runtime/cluster/resolve/launchers.def"
#undef LAUNCHER
};

const char *
rt_launcher_name(RtLauncher launcher)
{
    return rows[launcher].name;
}

bool
rt_launcher_starts(RtLauncher launcher)
{
    return rows[launcher].rank && rows[launcher].level < LEVEL_OUTSIDE;
}

typedef struct Claim {
    RtLauncher launcher;
    int level;
    int rank, size, local_rank, local_size, attempt;
    const char *job;
    /* "RANK=3"; NULL of what is not said */
    const char *rank_from, *size_from, *local_rank_from, *local_size_from,
        *job_from, *attempt_from;
} Claim;

typedef VEC(Claim) Claims;

typedef struct Resolver {
    Arena *arena;
    RtEnvironment env;
    const RtResolveOptions *options;
    Claims claims; /* by precedence */
    RtClusterSpec *spec;
} Resolver;

/* ---- variables ----------------------------------------------------------- */

/* NULL: it is not set, or there is no such variable. */
static const char *
get(const Resolver *r, const char *name)
{
    return *name ? rt_variable(r->env, name) : NULL;
}

/* "RANK=3"; NULL where it is not set. */
static const char *
assignment(const Resolver *r, const char *name)
{
    const char *value = get(r, name);
    return value ? arena_printf(r->arena, "%s=%s", name, value) : NULL;
}

/* A variable's number, at least `least`; *out stays where it is not set. */
static Status
read_number(const Resolver *r, const LauncherRow *row, const char *name,
            int least, int *out)
{
    const char *text = get(r, name);
    if (!text)
        return OK;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || text[digits] || atoi(text) < least)
        return status_new(STATUS_INPUT,
                          "%s=%s is no number from %d; %s sets it", name, text,
                          least, row->name);
    *out = atoi(text);
    return OK;
}

/* ---- claims -------------------------------------------------------------- */

static Status
beyond_the_last(StatusKind kind, const char *rank_from, const char *size_from,
                int size)
{
    return status_new(kind,
                      "%s and %s: processes are counted from 0, so the last of "
                      "%d is %d",
                      rank_from, size_from, size, size - 1);
}

/* kind: of what is wrong, the environment's or the command line's. */
static Status
check_claim(const Claim *c, StatusKind kind)
{
    if (c->size > limit_value(LIMIT_processes))
        return limit_status(LIMIT_processes, c->size_from);
    if (c->rank >= c->size)
        return beyond_the_last(kind, c->rank_from, c->size_from, c->size);
    if (c->local_size && c->local_rank >= c->local_size)
        return beyond_the_last(STATUS_INPUT, c->local_rank_from,
                               c->local_size_from, c->local_size);
    return OK;
}

static Status
add_claim(Resolver *r, Claim c)
{
    TRY(check_claim(&c, STATUS_INPUT));
    VEC_PUSH(r->arena, r->claims, c);
    return OK;
}

/* Kubernetes has no variable for the number of processes. */
static Status
check_size(const Resolver *r, const LauncherRow *row)
{
    if (*row->size || r->options->size)
        return OK;
    return status_new(STATUS_INPUT,
                      "%s is set by %s, and nothing says how many processes "
                      "there are: give --size N (its completions)",
                      assignment(r, row->rank), row->name);
}

/* Who has a rank alone would train alone, as all others do.  But Slurm sets one
 * in batch scripts, too, whose process is alone, and RANK may be anybody's. */
static Status
check_pair(const Resolver *r, RtLauncher launcher)
{
    const LauncherRow *row = &rows[launcher];
    bool may_be_alone =
        launcher == RT_LAUNCHER_slurm ||
        (launcher == RT_LAUNCHER_torchrun && !get(r, "MASTER_ADDR"));
    if (may_be_alone)
        return OK;
    return status_new(STATUS_INPUT,
                      "%s is set, and %s is not; %s sets both: unset what is "
                      "left over from elsewhere, or give --rank and --size",
                      assignment(r, row->rank), row->size, row->name);
}

static Status
claim_of_launcher(Resolver *r, RtLauncher launcher)
{
    const LauncherRow *row = &rows[launcher];
    Claim c = {.launcher = launcher, .level = row->level, .local_rank = -1};
    if (!get(r, row->rank))
        return OK;
    if (*row->size && !get(r, row->size))
        return check_pair(r, launcher);
    TRY(check_size(r, row));
    c.rank_from = assignment(r, row->rank);
    c.size = r->options->size;
    c.size_from = *row->size ? assignment(r, row->size) : "--size";
    TRY(read_number(r, row, row->rank, 0, &c.rank));
    TRY(read_number(r, row, row->size, 1, &c.size));
    TRY(read_number(r, row, row->local_rank, 0, &c.local_rank));
    TRY(read_number(r, row, row->local_size, 1, &c.local_size));
    TRY(read_number(r, row, row->attempt, 0, &c.attempt));
    c.job = get(r, row->job);
    c.local_rank_from = assignment(r, row->local_rank);
    c.local_size_from = assignment(r, row->local_size);
    c.job_from = assignment(r, row->job);
    c.attempt_from = assignment(r, row->attempt);
    return add_claim(r, c);
}

/* ---- TF_CONFIG and --cluster --------------------------------------------- */

Status
rt_read_task(Arena *a, const char *option, const char *text, const char **type,
             int *index)
{
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || !rt_is_number(colon + 1) ||
        strlen(colon + 1) > 9)
        return status_new(STATUS_USAGE,
                          "%s %s: a task is TYPE:INDEX, as worker:1", option,
                          text);
    *type = arena_printf(a, "%.*s", (int)(colon - text), text);
    *index = atoi(colon + 1);
    return OK;
}

Status
rt_check_task_option(RtEnvironment env, const RtResolveOptions *options)
{
    if (!options->task || options->cluster_file ||
        rt_variable(env, "TF_CONFIG"))
        return OK;
    return status_new(STATUS_USAGE,
                      "--task %s is one of a cluster's tasks, and there is no "
                      "cluster: give --cluster FILE, or set TF_CONFIG",
                      options->task);
}

Status
rt_find_tasks(Arena *a, RtEnvironment env, const RtResolveOptions *options,
              const char **from, RtTasks **out)
{
    const char *file = options->cluster_file;
    const char *text = rt_variable(env, "TF_CONFIG");
    size_t len = text ? strlen(text) : 0;
    char *bytes;
    *from = "TF_CONFIG";
    if (file) {
        TRY(file_read_limited(a, file, LIMIT_record, &bytes, &len));
        text = bytes;
        *from = file;
    }
    if (!text)
        return OK;
    RtTasks *t = *out = NEW(a, RtTasks);
    if (file && rt_is_pods(text, len)) /* a pod's host name is the pod's */
        TRY(rt_pods_tasks(a, file, text, len, PODS_PORT,
                          rt_variable(env, "HOSTNAME"), t));
    else
        TRY(rt_tasks_parse(a, *from, text, len, t));
    return options->task
               ? rt_read_task(a, "--task", options->task, &t->type, &t->index)
               : OK;
}

Status
rt_check_own_task(const char *from, const RtTasks *t)
{
    if (t->type && t->index >= 0)
        return OK;
    return status_new(STATUS_INPUT,
                      "%s does not say which task this process is: \"task\": "
                      "{\"type\": \"worker\", \"index\": 0}, or --task "
                      "worker:0",
                      from);
}

bool
rt_has_no_replicas(const RtTasks *t)
{
    return t->type &&
           (strcmp(t->type, "ps") == 0 || strcmp(t->type, "evaluator") == 0);
}

static Status
refuse_role(const char *from, const RtTasks *t)
{
    if (!rt_has_no_replicas(t))
        return OK;
    return status_new(STATUS_INPUT,
                      "%s makes this process %s %d, which is for strategy "
                      "parameter_server: multi_worker_mirrored has a chief and "
                      "workers",
                      from, t->type, t->index);
}

/* All of them have to be known, since each works with all others. */
Status
rt_check_complete(const char *from, const RtTaskJob *job)
{
    for (int i = 0; job && i < job->tasks.len; i++)
        if (job->tasks.data[i].index != i)
            return status_new(STATUS_INPUT,
                              "%s has a %s %d and no %s %d: with "
                              "multi_worker_mirrored every process names all, "
                              "with parameter_server the chief does",
                              from, job->name, job->tasks.data[i].index,
                              job->name, i);
    if (job && strcmp(job->name, "chief") == 0 && job->tasks.len > 1)
        return status_new(STATUS_INPUT, "%s has %d chiefs: there is one", from,
                          job->tasks.len);
    return OK;
}

static Status
claim_of_cluster(Resolver *r, RtLauncher launcher, const char *from,
                 const RtTasks *t)
{
    Claim c = {
        .launcher = launcher, .level = rows[launcher].level, .local_rank = -1};
    r->spec->tasks = t;
    TRY(rt_check_own_task(from, t));
    TRY(refuse_role(from, t));
    TRY(rt_check_complete(from, rt_tasks_job(t, "chief")));
    TRY(rt_check_complete(from, rt_tasks_job(t, "worker")));
    TRY(status_note(rt_task_rank(t, t->type, t->index, &c.rank), "reading %s",
                    from));
    TRY(rt_worker_count(t, t->type, &c.size));
    c.rank_from =
        arena_printf(r->arena, "%s: task %s %d", from, t->type, t->index);
    c.size_from = arena_printf(r->arena, "%s: its chief and workers", from);
    return add_claim(r, c);
}

static Status
claim_of_tasks(Resolver *r)
{
    RtTasks *t = NULL;
    const char *from;
    TRY(rt_find_tasks(r->arena, r->env, r->options, &from, &t));
    if (!t || t->jobs.len == 0)
        return OK;
    return claim_of_cluster(r, RT_LAUNCHER_tf_config, from, t);
}

static Status
claim_of_sagemaker(Resolver *r)
{
    RtTasks *t = NEW(r->arena, RtTasks);
    if (!get(r, "SM_HOSTS"))
        return OK;
    TRY(rt_sagemaker_tasks(r->arena, r->env, SAGEMAKER_PORT, t));
    return claim_of_cluster(r, RT_LAUNCHER_sagemaker, "SM_HOSTS", t);
}

/* ---- which one counts ---------------------------------------------------- */

static Status
check_agreement(const Claim *first, const Claim *other)
{
    if (first->level != LEVEL_BESIDE || other->level != LEVEL_BESIDE ||
        (first->rank == other->rank && first->size == other->size))
        return OK;
    bool rank = first->rank != other->rank;
    return status_new(STATUS_INPUT,
                      "%s and %s contradict each other: unset the one that is "
                      "left over from elsewhere, or give --rank and --size",
                      rank ? first->rank_from : first->size_from,
                      rank ? other->rank_from : other->size_from);
}

/* --rank and --size, or tfd-run -n, leave nothing to the rest, which may be of
 * whatever started the shell. */
static bool
is_decided(const Resolver *r)
{
    return r->options->rank >= 0 && r->options->size > 0;
}

static Status
find_claims(Resolver *r)
{
    if (is_decided(r))
        return r->options->cluster_file ? claim_of_tasks(r) : OK;
    for (int i = FIRST_LAUNCHER; i < RT_NUM_LAUNCHERS; i++)
        if (rows[i].level == LEVEL_EXPLICIT)
            TRY(claim_of_launcher(r, (RtLauncher)i));
    if (r->claims.len && !r->options->cluster_file)
        return OK;
    TRY(claim_of_tasks(r));
    for (int i = FIRST_LAUNCHER; i < RT_NUM_LAUNCHERS; i++)
        if (rows[i].level != LEVEL_EXPLICIT)
            TRY(claim_of_launcher(r, (RtLauncher)i));
    return r->claims.len ? OK : claim_of_sagemaker(r);
}

/* What the command line says wins, number by number. */
static Status
apply_options(const Resolver *r, Claim *c)
{
    const RtResolveOptions *o = r->options;
    bool given = o->rank >= 0 || o->size > 0;
    if (o->rank >= 0) {
        c->rank = o->rank;
        c->rank_from = arena_printf(r->arena, "--rank %d", o->rank);
    }
    if (o->size > 0) {
        c->size = o->size;
        c->size_from = arena_printf(r->arena, "--size %d", o->size);
    }
    if (is_decided(r))
        c->launcher = RT_LAUNCHER_options;
    if (o->rank >= 0 && !c->size)
        return status_new(STATUS_USAGE,
                          "--rank %d: of how many? --size N says "
                          "it",
                          o->rank);
    if (c->size > 1 && c->rank < 0)
        return status_new(STATUS_USAGE,
                          "--size %d: which of them is this "
                          "process? --rank N says it",
                          c->size);
    return check_claim(c, given ? STATUS_USAGE : STATUS_INPUT);
}

static Status
choose_claim(Resolver *r, Claim *out)
{
    *out = (Claim){.rank = -1,
                   .local_rank = -1,
                   .rank_from = "nothing says otherwise",
                   .size_from = "nothing says otherwise"};
    if (r->claims.len)
        *out = r->claims.data[0];
    for (int i = 1; i < r->claims.len && !is_decided(r); i++)
        TRY(check_agreement(out, &r->claims.data[i]));
    TRY(apply_options(r, out));
    if (out->size <= 1) { /* alone */
        out->rank = 0;
        out->size = 1;
    }
    return OK;
}

/* ---- the result ---------------------------------------------------------- */

void
rt_add_fact(Arena *a, RtClusterSpec *spec, const char *name, const char *from,
            const char *format, ...)
{
    va_list args;
    va_start(args, format);
    RtFact f = {name, arena_vprintf(a, format, args), from};
    va_end(args);
    VEC_PUSH(a, spec->facts, f);
}

static void
list_facts(const Resolver *r, const Claim *c)
{
    const RtClusterSpec *spec = r->spec;
    rt_add_fact(r->arena, r->spec, "started by", c->rank_from, "%s",
                rt_launcher_name(c->launcher));
    rt_add_fact(r->arena, r->spec, "rank", c->rank_from, "%d", spec->rank);
    rt_add_fact(r->arena, r->spec, "size", c->size_from, "%d", spec->size);
    if (spec->local_rank >= 0)
        rt_add_fact(r->arena, r->spec, "rank on this machine",
                    c->local_rank_from, "%d", spec->local_rank);
    if (spec->local_size > 0)
        rt_add_fact(r->arena, r->spec, "size on this machine",
                    c->local_size_from, "%d", spec->local_size);
    if (spec->job)
        rt_add_fact(r->arena, r->spec, "job", c->job_from, "%s", spec->job);
    if (spec->attempt)
        rt_add_fact(r->arena, r->spec, "attempt", c->attempt_from, "%d",
                    spec->attempt);
    rt_add_fact(r->arena, r->spec, "chief", "rank 0 is", "%s",
                spec->is_chief ? "yes" : "no");
}

/* Whether a step of Slurm started the processes, with whichever library. */
static bool
has_slurm(const Resolver *r, const Claim *c)
{
    for (int i = 0; i < r->claims.len; i++) {
        const Claim *other = &r->claims.data[i];
        if (other->launcher == RT_LAUNCHER_slurm && other->rank == c->rank &&
            other->size == c->size)
            return true;
    }
    return false;
}

static Status
describe(Resolver *r, Claim *c)
{
    RtClusterSpec *spec = r->spec;
    RtAddressQuery q = {.arena = r->arena,
                        .env = r->env,
                        .join = r->options->join,
                        .what = "control server",
                        .spec = spec,
                        .has_slurm = has_slurm(r, c)};
    if (c->launcher == RT_LAUNCHER_slurm)
        TRY(rt_slurm_local_size(&q, &c->local_size, &c->local_size_from));
    spec->rank = c->rank;
    spec->size = c->size;
    spec->local_rank = c->local_rank;
    spec->local_size = c->local_size;
    spec->launcher = c->launcher;
    spec->job = c->job;
    spec->attempt = c->attempt;
    spec->is_chief = c->rank == 0;
    list_facts(r, c);
    return c->size > 1 ? rt_find_addresses(&q) : OK;
}

Status
rt_resolve(Arena *a, RtEnvironment env, const RtResolveOptions *options,
           RtClusterSpec *out)
{
    Resolver r = {.arena = a, .env = env, .options = options, .spec = out};
    Claim c;
    *out = (RtClusterSpec){.local_rank = -1};
    TRY(rt_check_task_option(env, options));
    TRY(find_claims(&r));
    TRY(choose_claim(&r, &c));
    return describe(&r, &c);
}

void
rt_resolve_print(const RtClusterSpec *spec, FILE *to)
{
    int name = 0, value = 0;
    for (int i = 0; i < spec->facts.len; i++) {
        const RtFact *f = &spec->facts.data[i];
        name = (int)strlen(f->name) > name ? (int)strlen(f->name) : name;
        value = (int)strlen(f->value) > value ? (int)strlen(f->value) : value;
    }
    for (int i = 0; i < spec->facts.len; i++) {
        const RtFact *f = &spec->facts.data[i];
        fprintf(to, "%-*s  %-*s  %s\n", name, f->name, value, f->value,
                f->from);
    }
}
