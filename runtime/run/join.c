/*
 * join.c - a run joins the job of which it is a process
 *
 * What must be equal in all processes is compared when they join: the plan, and
 * the options that main's values depend on.  The sites of the plan are where
 * its processes wait for each other, numbered alike in all of them: the
 * operations of main that the runtime executes, and the starts of collectives.
 */
#include "runtime/run/join.h"

#include <string.h>
#include "ir/analysis/hooks.h"
#include "ir/base/io/limit.h"
#include "runtime/cluster/control/server.h"
#include "runtime/cluster/group/shared.h"
#include "runtime/cluster/mpi/deadline.h"
#include "runtime/exec/position.h"
#include "runtime/exec/run_state.h"
#include "runtime/exec/watchdog.h"
#include "runtime/hal/bounded.h"
#include "runtime/hal/wait.h"
#include "runtime/link/join/join.h"
#include "runtime/ops/host_ops.h"

/* ---- what is equal ------------------------------------------------------- */

/* The kind of the first device, which is that of all. */
static const char *
kind_of_devices(const RtRun *run)
{
    const char *list = run->options->devices;
    if (!list)
        list = run->module->devices;
    return arena_strndup(run->arena, list, strcspn(list, ":"));
}

static const char *
params_text(const RtRun *run)
{
    Str s = str_new(run->arena);
    for (int i = 0; i < run->options->num_sets; i++) {
        const RtSet *set = &run->options->sets[i];
        str_addf(&s, "%s%s=%s", i ? " " : "", set->name, set->value);
    }
    return str_text(&s);
}

/* Those that are not as usual. */
static const char *
limits_text(const RtRun *run)
{
    Str s = str_new(run->arena);
    for (int i = 0; i < NUM_LIMITS; i++)
        if (limit_value((LimitId)i) != limit_rows[i].value)
            str_addf(&s, "%s%s=%lld", s.len ? " " : "", limit_rows[i].name,
                     (long long)limit_value((LimitId)i));
    return str_text(&s);
}

static const char *
checkpoints_text(const RtRun *run)
{
    const RtOptions *o = run->options;
    if (!o->checkpoint_dir)
        return "";
    return arena_printf(run->arena, "every %lld steps%s", (long long)o->every,
                        o->resume ? ", resumed" : "");
}

static void
add_option(Str *s, bool is_given, const char *option)
{
    if (is_given)
        str_addf(s, "%s%s", s->len ? " " : "", option);
}

static const char *
output_text(const RtRun *run)
{
    const RtOptions *o = run->options;
    Str s = str_new(run->arena);
    add_option(&s, o->checksum, "--checksum");
    add_option(&s, o->stats, "--stats");
    add_option(&s, o->log_dir, "--log-dir");
    add_option(&s, o->compare, "--compare");
    add_option(&s, o->preflight, "--preflight");
    return str_text(&s);
}

/* Where it is not given, processes of one machine first try their memory. */
static const char *
link_text(const RtRun *run)
{
    const RtOptions *o = run->options;
    return arena_printf(run->arena, "%s%s%s", o->link ? "" : "memory or ",
                        rt_link_choose(o->link, o->mpi),
                        o->is_wire_plain ? " --wire plain" : "");
}

static void
identify(RtRun *run, RtJobConfig *config)
{
    const RtOptions *o = run->options;
    const char **lines = config->identity;
    lines[RT_IDENTITY_PLAN] = run->plan->hash;
    lines[RT_IDENTITY_DEVICES] = kind_of_devices(run);
    lines[RT_IDENTITY_PARAMS] = params_text(run);
    lines[RT_IDENTITY_LIMITS] = limits_text(run);
    lines[RT_IDENTITY_CHECKPOINTS] = checkpoints_text(run);
    lines[RT_IDENTITY_OUTPUT] = output_text(run);
    lines[RT_IDENTITY_LINK] = link_text(run);
    lines[RT_IDENTITY_TIMEOUT] = arena_printf(run->arena, "%g", o->timeout);
    if (o->seed_given)
        lines[RT_IDENTITY_SEED] =
            arena_printf(run->arena, "%llu", (unsigned long long)o->seed);
}

/* ---- where processes wait ------------------------------------------------ */

/* Where processes wait for each other, and loops that may never end. */
static bool
is_site(const IrFunc *fn, const IrOp *op)
{
    if (op->kind == OP_while)
        return !ir_is_dataset_loop(op);
    return (fn->kind == FUNC_MAIN && ir_is_hooked(op)) ||
           op->kind == OP_all_reduce_start || op->kind == OP_all_gather_start;
}

static void
list_sites(RtRun *run)
{
    for (IrFunc *fn = run->module->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_MAIN && fn->kind != FUNC_PROGRAM &&
            fn->kind != FUNC_HOST)
            continue;
        IrHooks hooks = ir_hooks(run->arena, fn);
        for (int i = 0; i < hooks.positions.len; i++)
            if (is_site(fn, hooks.positions.data[i]))
                VEC_PUSH(run->arena, run->sites, hooks.positions.data[i]);
    }
}

/* An all_reduce, where the plan has its start. */
static const char *
name_of(const IrOp *op)
{
    if (op->kind == OP_launch)
        return "step";
    const IrSplit *split = ir_op_split(op->kind);
    return ir_op_info[split ? split->op : op->kind].name;
}

static void
describe_sites(RtRun *run, RtJobConfig *config)
{
    const Diag *d = run->plan->diag;
    int n = config->num_sites = run->sites.len;
    RtJobSite *sites = NEW_ARRAY(run->arena, RtJobSite, (size_t)n);
    for (int i = 0; i < n; i++) {
        Loc loc = run->sites.data[i]->loc;
        sites[i] = (RtJobSite){arena_printf(run->arena, "%s:%u:%u",
                                            diag_source_name(d, loc.file),
                                            loc.line, loc.col),
                               name_of(run->sites.data[i])};
    }
    config->sites = sites;
}

/* Seconds that replicas wait in the most patient collective. */
static double
longest_wait(const RtRun *run)
{
    double most = 0;
    for (int i = 0; i < run->sites.len; i++) {
        const IrOp *op = run->sites.data[i];
        double own = ir_op_is_start(op->kind) ? rt_own_timeout(run, op) : 0;
        most = own > most ? own : most;
    }
    return most;
}

/* ---- devices ------------------------------------------------------------- */

/* Of this process; a list that is wrong is refused later. */
static int
num_devices(const RtRun *run)
{
    IrDevices list = {0};
    const char *asked = run->options->devices;
    int num_local = run->num_replicas / run->options->job->size;
    const char *wrong = ir_devices_parse(
        run->arena, asked ? asked : run->module->devices, &list);
    if (wrong || !list.len || !num_local)
        return 1;
    return asked ? list.len : rt_num_planned(list.len, num_local);
}

/* ---- joining ------------------------------------------------------------- */

static bool
are_together(const RtJobPeer *x, const RtJobPeer *y)
{
    return strcmp(x->machine, y->machine) == 0 && strcmp(x->host, y->host) == 0;
}

/* Of each rank the first one of its machine. */
static const int *
machines_of(const RtRun *run)
{
    const RtJob *job = run->job;
    int *first = NEW_ARRAY(run->arena, int, (size_t)job->size);
    for (int k = 0; k < job->size; k++)
        while (!are_together(&job->peers[first[k]], &job->peers[k]))
            first[k]++;
    return first;
}

typedef struct Joining {
    const RtLinkOptions *options;
    RtExchange exchange;
    RtCarrier *carrier;
    Status st;
} Joining;

static void
join_it(void *data)
{
    Joining *j = data;
    j->st = rt_link_join(j->options, &j->exchange, &j->carrier);
}

static bool
is_interrupted(void *run)
{
    return rt_is_interrupted(run);
}

/* An MPI is called by the thread that has initialized it. */
static bool
may_be_left(const RtRun *run)
{
    const RtOptions *o = run->options;
    return strcmp(rt_link_choose(o->link, o->mpi), "mpi") != 0;
}

/* No other thread can go on without this one; who waits for a process that is
 * stuck here names it before the deadline. */
static Status
join_over_mpi(Joining *j, double seconds)
{
    RtDeadline d;
    TRY(rt_deadline_begin(&d, "MPI_Test", "--link mpi", seconds));
    join_it(j);
    rt_deadline_end(&d);
    return OK;
}

static Status
join_link(RtRun *run, const RtLinkOptions *options)
{
    RtBound bound = {run->timeout + options->timeout, is_interrupted, run};
    Joining *j = NEW(run->arena, Joining);
    *j = (Joining){.options = arena_copy(run->arena, options, sizeof *options),
                   .exchange = run->exchange};
    if (!may_be_left(run))
        TRY(join_over_mpi(j, bound.seconds + options->timeout));
    else if (!rt_call_bounded(join_it, j, &bound))
        return rt_not_returned(
            arena_printf(run->arena, "rank %d", run->rank),
            arena_printf(run->arena, "the library of --link %s",
                         rt_link_choose(options->name, options->mpi)),
            &bound);
    run->carrier = j->carrier;
    return j->st;
}

/* Of processes that share no memory: on several machines. */
static Status
open_link(RtRun *run)
{
    enum { JOINING = 30 }; /* seconds */
    const RtOptions *o = run->options;
    bool has_network = run->job->key && !run->job->is_local;
    RtLinkOptions options = {.name = o->link,
                             .mpi = o->mpi,
                             .interface = has_network ? NULL : "127.0.0.1",
                             .key = o->is_wire_plain ? NULL : run->job->key,
                             .machine_of = machines_of(run),
                             .timeout = JOINING};
    TRY(join_link(run, &options));
    run->group = rt_link_group_open(run->carrier, run->timeout);
    return OK;
}

static Status
open_group(RtRun *run)
{
    Str why = str_new(run->arena);
    run->exchange = rt_exchange_of_job(run->job);
    RtSharedGroupConfig config = {.exchange = &run->exchange,
                                  .spin = rt_may_spin(run->local_size),
                                  .timeout = run->timeout,
                                  .clock = run->clock};
    if (!run->options->link)
        TRY(rt_shared_group_open(&config, &run->group, &why));
    return run->group ? OK : open_link(run);
}

Status
rt_join_job(RtRun *run)
{
    const RtOptions *o = run->options;
    if (!o->job)
        return OK;
    RtJobConfig config = {.num_places = num_devices(run),
                          .has_messages = o->link,
                          .timeout = run->timeout,
                          .interrupted = o->interrupted};
    list_sites(run);
    describe_sites(run, &config);
    config.patience = longest_wait(run);
    identify(run, &config);
    Status st = rt_job_open(o->job, &config, &run->job);
    if (st) {
        *o->end = (RtJobEnd){!rt_job_speaks(), status_exit_code(st), true};
        return st;
    }
    run->rank = run->job->rank;
    run->size = run->job->size;
    run->local_rank = run->job->local_rank;
    run->local_size = run->job->local_size;
    return run->size > 1 ? open_group(run) : OK;
}

static void
stop(void *data, const char *reason)
{
    RtRun *run = data;
    (void)reason;
    rt_stop(run);
    rt_wait_word_add(&run->job_bell, 1);
}

Status
rt_follow_job(RtRun *run)
{
    if (!run->job)
        return OK;
    rt_job_on_stop(run->job, stop, run);
    return rt_job_stopped(run->job);
}

static int32_t
locate(void *data)
{
    return rt_working_site(data);
}

void
rt_locate_for_job(RtRun *run)
{
    if (run->job)
        rt_job_locate(run->job, locate, run);
}

static void
close_carrier(void *carrier)
{
    rt_carrier_close(carrier);
}

/* After a failure nobody may answer. */
void
rt_close_link(RtRun *run, Status st)
{
    enum { CLOSING = 5 }; /* seconds */
    if (!run->carrier)
        return;
    if (st)
        rt_carrier_stop(run->carrier);
    if (run->carrier == run->options->carrier)
        return;
    if (may_be_left(run))
        rt_close_bounded(close_carrier, run->carrier, CLOSING);
    else
        rt_carrier_close(run->carrier);
}
