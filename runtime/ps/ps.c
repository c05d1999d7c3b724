/*
 * ps.c - a run as a task of a parameter-server job
 */
#include "runtime/ps/ps.h"

#include <string.h>
#include "ir/analysis/hooks.h"
#include "ir/analysis/live.h"
#include "ir/dataset/sharding.h"
#include "ir/evaluation.h"
#include "runtime/exec/end.h"
#include "runtime/exec/params.h"
#include "runtime/exec/watchdog.h"
#include "runtime/ps/client.h"
#include "runtime/ps/closures.h"
#include "runtime/ps/dispatcher.h"
#include "runtime/ps/input/dealer.h"
#include "runtime/ps/server.h"
#include "runtime/ps/worker.h"

/* Of what a process waits before it is lost. */
enum { DEALERS_PATIENCE = 4 };

typedef struct RtPs RtPs;

struct RtPs {
    RtRun *run;
    const RtTaskOptions *task;
    RtPsNet net;
    RtPsGuard *guard;
    RtDispatcher *dispatcher; /* the coordinator's */
    RtPsListener listener;    /* a server's, */
    int64_t staging;          /* and where its updates' arguments are */
    RtPsMember member;        /* a server's or worker's */
    RtPsWelcome servers;
    RtPlacement placement;
    RtClosures closures;
    int64_t id;          /* of what main executes now; 0: nothing */
    RtPsTraffic traffic; /* the coordinator's, for --stats */
    RtPsClient *client;  /* the coordinator's or a worker's */
    RtPsDealer *dealer;  /* a worker's */
    RtArchive arguments;
    RtFeeds feeds;
};

static const RtCoordinatorState coordinator_state;

/* ---- joining ------------------------------------------------------------- */

/* A run that can be saved first is, at main's next safepoint. */
static bool
is_stopped(void *data)
{
    const RtRun *run = data;
    return rt_is_stopped(data) ||
           (rt_is_interrupted(run) && !run->resume.is_on);
}

static Status
at_launch(void *data, int64_t launch, const char *message)
{
    RtRun *run = data;
    Arena *scratch = arena_new(NULL, "a failure at a launch");
    RtFault f = {.op = run->ps->closures.list.data[launch]->h->op,
                 .kind = STATUS_INPUT,
                 .text = str_new(scratch)};
    str_add(&f.text, message);
    Status st = rt_fault_in_words(run, &f);
    arena_release(scratch);
    return st;
}

static Status
open_coordinator(RtPs *ps)
{
    RtDispatcherConfig config = {.task = ps->task,
                                 .plan = ps->run->plan->hash,
                                 .timeout = ps->run->timeout,
                                 .is_stopped = is_stopped,
                                 .at_launch = at_launch,
                                 .data = ps->run};
    TRY(rt_dispatcher_open(&ps->net, &config, &ps->dispatcher));
    rt_guard_pause(ps->guard); /* main has a limit of its own from here on */
    TRY(rt_dispatcher_servers(ps->dispatcher, &ps->servers));
    return rt_placement_check(ps->run, ps->task->num_servers);
}

/* Where others find this server: the address on which it listens. */
static const char *
own_address(const RtPs *ps, const char *listen)
{
    const char *colon = strrchr(listen, ':');
    int n = colon ? (int)(colon - listen) : 0;
    return arena_printf(ps->run->arena, "tcp://%.*s:%d", n, listen,
                        ps->listener.port);
}

static Status
open_member(RtPs *ps)
{
    RtMemberConfig config = {.task = ps->task,
                             .plan = ps->run->plan->hash,
                             .address = "",
                             .timeout = ps->run->timeout,
                             .is_stopped = is_stopped,
                             .data = ps->run,
                             .guard = ps->guard};
    if (ps->task->role == RT_ROLE_ps) {
        const char *at = ps->task->listen ? ps->task->listen : "127.0.0.1:0";
        TRY(rt_ps_listen(&ps->net, at, &ps->listener));
        config.address = own_address(ps, at);
    }
    TRY(rt_ps_member_join(&ps->net, &config, &ps->member, &ps->servers));
    rt_guard_pause(ps->guard); /* until it takes part */
    return OK;
}

static void
give_up(void *data)
{
    RtRun *run = data;
    Status st = status_new(STATUS_MACHINE,
                           "libzmq has not returned from a call for %g seconds "
                           "(--timeout allows more)",
                           run->timeout);
    if (run->options->abandon)
        run->options->abandon(run->plan, st);
}

Status
rt_ps_open(RtRun *run)
{
    const RtTaskOptions *task = run->options->task;
    if (!task || task->role == RT_ROLE_alone || task->role == RT_ROLE_evaluator)
        return OK;
    RtPs *ps = NEW(run->arena, RtPs);
    ps->run = run;
    ps->task = task;
    ps->arguments = rt_archive_writer(run->arena, 0);
    run->ps = ps;
    TRY(rt_guard_start(run->timeout, give_up, run, &ps->guard));
    TRY(rt_ps_net_open(&ps->net, task->key));
    if (task->role == RT_ROLE_coordinator) {
        run->resume.coordinator = &coordinator_state;
        return open_coordinator(ps);
    }
    TRY(open_member(ps));
    run->told_params = rt_archive_reader(run->arena, ps->servers.params,
                                         (size_t)ps->servers.params_len);
    return OK;
}

void
rt_ps_tell_params(RtRun *run)
{
    if (!rt_ps_coordinates(run))
        return;
    RtArchive params = rt_archive_writer(run->arena, 0);
    rt_params_archive(run, &params);
    rt_dispatcher_set_params(run->ps->dispatcher, &params);
}

/* ---- loading ------------------------------------------------------------- */

Status
rt_ps_load(RtRun *run, const RtFunction *main)
{
    RtPs *ps = run->ps;
    if (!ps)
        return OK;
    rt_placement_init(&ps->placement, run, (int)ps->servers.num_servers,
                      ps->servers.by_bytes);
    rt_closures_init(&ps->closures, run, main);
    if (ps->task->role != RT_ROLE_ps)
        return OK;
    ps->staging = ir_align_to_line(run->arena_bytes);
    return rt_reserve_arena(run,
                            ps->staging + rt_update_bytes(run, &ps->placement));
}

/* A server that is lost never answers main. */
static Status
watch_servers(void *data)
{
    return rt_dispatcher_check(data);
}

static bool
is_worker(const RtRun *run)
{
    return run->ps && run->ps->task->role == RT_ROLE_worker;
}

/* If files are dealt to it. */
static Status
open_dealer(RtPs *ps)
{
    const RtPsDealing who = {.index = (uint32_t)ps->task->index,
                             .incarnation = ps->task->incarnation};
    bool is_dealt = false;
    for (int i = 0; i < ps->run->module->iters.len; i++)
        is_dealt |=
            ps->run->module->iters.data[i]->workers == WORKER_SHARD_DYNAMIC;
    if (!is_worker(ps->run) || !is_dealt)
        return OK;
    return rt_ps_dealer_open(
        &ps->net, ps->member.coordinator, &who,
        DEALERS_PATIENCE * rt_ps_member_patience(&ps->member), &ps->dealer);
}

Status
rt_ps_connect_all(RtRun *run)
{
    RtPs *ps = run->ps;
    if (!ps || ps->task->role == RT_ROLE_ps)
        return OK;
    TRY(rt_ps_client_open(run, &ps->net, &ps->servers, &ps->placement,
                          &ps->client));
    TRY(open_dealer(ps));
    run->ps_client = ps->client;
    run->push = rt_ps_push;
    if (ps->dispatcher)
        rt_ps_watch(ps->client, NULL, watch_servers, ps->dispatcher);
    return OK;
}

/* ---- a run --------------------------------------------------------------- */

void
rt_ps_begin_main(RtRun *run)
{
    if (rt_ps_coordinates(run))
        rt_dispatcher_begin_main(run->ps->dispatcher);
}

bool
rt_ps_coordinates(const RtRun *run)
{
    return run->ps && run->ps->dispatcher;
}

bool
rt_ps_has_main(const RtRun *run)
{
    return !run->ps || run->ps->dispatcher;
}

static Status
take_part(RtPs *ps, RtInvocation *main)
{
    RtRun *run = ps->run;
    if (ps->task->role == RT_ROLE_ps)
        return rt_ps_serve(&(RtServing){.run = run,
                                        .net = &ps->net,
                                        .member = &ps->member,
                                        .listener = &ps->listener,
                                        .placement = &ps->placement,
                                        .staleness = ps->servers.staleness,
                                        .staging = ps->staging});
    return rt_ps_work(&(RtWorking){.run = run,
                                   .net = &ps->net,
                                   .member = &ps->member,
                                   .client = ps->client,
                                   .closures = &ps->closures,
                                   .atomic = ps->servers.atomic,
                                   .in_rounds = ps->servers.in_rounds,
                                   .main = main});
}

Status
rt_ps_take_part(RtRun *run, RtInvocation *main)
{
    RtPs *ps = run->ps;
    rt_guard_resume(ps->guard);
    Status st = take_part(ps, main);
    rt_guard_pause(ps->guard); /* the watchdog looks at how it closes */
    return st;
}

Status
rt_ps_finish(RtRun *run)
{
    if (!rt_ps_coordinates(run))
        return OK;
    RtPs *ps = run->ps;
    TRY(rt_dispatcher_join(ps->dispatcher));
    if (run->options->stats)
        TRY(rt_ps_count(ps->client, &ps->traffic));
    TRY(rt_ps_pull_all(ps->client));
    rt_dispatcher_expect_evaluator(ps->dispatcher);
    if (run->resume.folder && ir_evaluation(run->module))
        TRY(rt_checkpoints_mark_ended(run->resume.folder));
    return OK;
}

static void
print_server(const RtPs *ps, int server, FILE *to)
{
    const RtPlacement *p = &ps->placement;
    fprintf(to, "  server %-5d", server);
    for (int i = 0; i < p->parts.len; i++) {
        const RtPart *part = &p->parts.data[i];
        const IrVar *v = ps->run->module->vars.data[part->var];
        if (part->server != server)
            continue;
        fprintf(to, " %s", v->name);
        if (ir_var_parts(ps->run->module, v) > 1)
            fprintf(to, "[%lld:%lld]", (long long)part->first,
                    (long long)(part->first + part->rows));
    }
    fprintf(to, " (%lld bytes)\n", (long long)rt_server_bytes(p, server));
}

static void
print_traffic(const RtPsTraffic *t, FILE *to)
{
    static const struct {
        const char *units, *doc;
    } kinds[] = {
#define TRAFFIC(name, units, doc) {units, doc},
#include "runtime/ps/parts/traffic.def"
#undef TRAFFIC
    };
    for (int i = 0; i < RT_NUM_TRAFFICS; i++)
        fprintf(to, "  %lld bytes %s: %lld %s\n", (long long)t->bytes[i],
                kinds[i].doc, (long long)t->units[i], kinds[i].units);
    fprintf(to, "staleness    ");
    rt_staleness_print(t->staleness, to);
    fprintf(to, "  most %lld, %lld refused\n", (long long)t->stalest,
            (long long)t->refused);
}

void
rt_ps_print(RtRun *run, FILE *to)
{
    if (!rt_ps_coordinates(run))
        return;
    rt_dispatcher_print(run->ps->dispatcher, to);
    for (int i = 0; i < run->ps->placement.num_servers; i++)
        print_server(run->ps, i, to);
    print_traffic(&run->ps->traffic, to);
}

void
rt_ps_show_status(RtRun *run, void (*show)(void *data, const RtPsStatus *s),
                  void *data)
{
    rt_dispatcher_show_status(run->ps->dispatcher, show, data);
}

void
rt_ps_close(RtRun *run)
{
    RtPs *ps = run->ps;
    if (!ps)
        return;
    rt_ps_client_close(ps->client);
    rt_ps_dealer_close(ps->dealer);
    if (ps->dispatcher)
        rt_dispatcher_close(ps->dispatcher);
    rt_ps_member_leave(&ps->member);
    rt_ps_listener_close(&ps->listener);
    rt_ps_net_close(&ps->net);
    rt_guard_stop(ps->guard);
    run->ps = NULL;
}

/* ---- datasets of workers ------------------------------------------------- */

void
rt_ps_set_context(RtRun *run)
{
    for (int i = 0; is_worker(run) && i < run->module->params.len; i++) {
        const char *name = run->module->params.data[i]->name;
        if (strcmp(name, IR_PIPELINE_ID) == 0)
            run->params[i] = scalar_int(DT_i64, run->ps->task->index);
        else if (strcmp(name, IR_NUM_PIPELINES) == 0)
            run->params[i] = scalar_int(DT_i64, run->ps->servers.num_workers);
    }
}

void
rt_ps_share_data(RtRun *run, const RtIterBinding *it, RtDataOptions *options)
{
    RtPs *ps = run->ps;
    if (!is_worker(run) || !rt_is_workers_iterator(it))
        return;
    options->worker = ps->task->index;
    options->num_workers = (int)ps->servers.num_workers;
    if (it->ir->workers == WORKER_SHARD_DYNAMIC)
        options->dealer = rt_ps_dealer_of(ps->dealer, it - run->iterators);
}

uint64_t
rt_ps_pass_of(const RtRun *run, const RtIterBinding *it, uint64_t here)
{
    return is_worker(run) && rt_is_workers_iterator(it)
               ? run->ps->closures.numbers[it - run->iterators]
               : here;
}

bool
rt_ps_has_elements(const RtRun *run, const RtIterBinding *it)
{
    if (it->is_evaluators != (run->evaluator != NULL))
        return false;
    if (!run->ps)
        return true;
    return run->ps->dispatcher && !rt_is_workers_iterator(it);
}

uint64_t
rt_ps_data_seed(const RtRun *run)
{
    static const uint64_t step = 0x9e3779b97f4a7c15; /* 2^64 / golden ratio */
    return is_worker(run) ? run->seed + step * (uint64_t)run->ps->task->index
                          : run->seed;
}

/* ---- closures ------------------------------------------------------------ */

static Status
schedule(RtPs *ps, RtInvocation *inv, RtClosureOp *op)
{
    int num = op->h->op->num_results;
    if (op->future)
        rt_dispatcher_release(ps->dispatcher, op->future);
    op->future = NULL;
    op->cancelled = 0;
    rt_archive_clear(&ps->arguments);
    rt_closure_arguments(&ps->closures, op, inv, &ps->arguments);
    memset(op->is_set, 0, (size_t)num * sizeof *op->is_set);
    rt_closure_feeds(&ps->closures, op, &ps->feeds);
    return rt_dispatcher_schedule(ps->dispatcher, op->number, &ps->arguments,
                                  &ps->feeds, num > 0, &op->future);
}

/* What main executes itself has an id, or several. */
static Status
begin_id(void *data, int64_t *id, int64_t *low)
{
    RtPs *ps = data;
    if (ps->id)
        rt_dispatcher_end(ps->dispatcher, ps->id);
    ps->id = 0;
    TRY(rt_dispatcher_begin(ps->dispatcher, id, low));
    ps->id = *id;
    return OK;
}

static int32_t
execute(RtPs *ps, RtInvocation *inv, const RtClosureOp *op, RtOpRun *here)
{
    int64_t id, low;
    Status st = begin_id(ps, &id, &low);
    if (st)
        return rt_fault_status(inv, op->h, st);
    rt_ps_set_ids(ps->client, begin_id, ps);
    int32_t end = rt_ps_execute(ps->client, inv, op, here, NULL, id, 0, low);
    st = end == EXEC_OK ? rt_ps_flush(ps->client) : OK;
    if (ps->id)
        rt_dispatcher_end(ps->dispatcher, ps->id);
    ps->id = 0;
    return st ? rt_fault_status(inv, op->h, st) : end;
}

static int32_t
settle_all(RtInvocation *inv, const RtHostOp *h)
{
    int32_t end = EXEC_OK;
    for (int i = 0; i < h->op->num_operands && end == EXEC_OK; i++)
        end = rt_ps_settle(inv, h, i);
    return end;
}

int32_t
rt_ps_launch(RtInvocation *inv, const RtHostOp *h, RtOpRun *here)
{
    RtPs *ps = inv->executor->run->ps;
    RtClosureOp *op = rt_closure_of(&ps->closures, h);
    int32_t end = settle_all(inv, h);
    if (end != EXEC_OK)
        return end;
    if (!op->is_scheduled)
        return execute(ps, inv, op, here);
    Status st = schedule(ps, inv, op);
    return st ? rt_fault_status(inv, h, st) : EXEC_OK;
}

static int
result_number(const IrValue *v)
{
    int i = 0;
    while (v->def->results[i] != v)
        i++;
    return i;
}

/* Waits for the closure that gives v, if one does, and puts it into its row:
 * unless it was cancelled, which is noted. */
static Status
settle(RtPs *ps, const IrValue *v)
{
    RtClosureOp *op = rt_closure_of_value(&ps->closures, v);
    if (!op || !op->future)
        return OK;
    int index = result_number(v);
    if (op->is_set[index] || op->cancelled)
        return OK;
    TRY(rt_dispatcher_wait(ps->dispatcher, op->future));
    if (op->future->is_cancelled) {
        op->cancelled = op->future->id;
        return OK;
    }
    const Str *bytes = &op->future->bytes;
    RtArchive in = rt_archive_reader(ps->run->arena, bytes->data, bytes->len);
    rt_closure_result(&ps->closures, op, index, &in);
    op->is_set[index] = true;
    return in.wrong ? status_new(STATUS_INPUT, "%s", in.wrong) : OK;
}

int32_t
rt_ps_settle(RtInvocation *inv, const RtHostOp *h, int i)
{
    RtPs *ps = inv->executor->run->ps;
    const IrValue *v = h->op->operands[i];
    Status st = settle(ps, v);
    const RtClosureOp *op = rt_closure_of_value(&ps->closures, v);
    if (!st && op && op->cancelled)
        return rt_fault(inv, h, STATUS_INPUT,
                        "closure %lld was cancelled before a worker had begun "
                        "it, so it has no results",
                        (long long)op->cancelled);
    return st ? rt_fault_status(inv, h, st) : EXEC_OK;
}

/* ---- checkpoints --------------------------------------------------------- */

/* Results that main has not fetched and still may are in their rows then. */
static Status
settle_live(RtPs *ps, const IrSafepoint *p)
{
    Status st = OK;
    Arena *scratch = arena_new(NULL, "live values");
    IrValues live = ir_live_at_safepoint(scratch, p->loop);
    for (int i = 0; i < live.len && !st; i++)
        st = settle(ps, live.data[i]);
    arena_release(scratch);
    return st;
}

static Status
collect(RtInvocation *main, const IrSafepoint *p)
{
    RtPs *ps = main->executor->run->ps;
    TRY(rt_dispatcher_save(ps->dispatcher));
    TRY(settle_live(ps, p));
    return rt_ps_pull_all(ps->client);
}

static void
coordinator_pass(RtRun *run, int iter, RtArchive *ar)
{
    rt_archive_u64(ar, &run->ps->closures.passes[iter]);
    rt_archive_u64(ar, &run->ps->closures.numbers[iter]);
}

static void
coordinator_archive(RtRun *run, RtArchive *ar)
{
    rt_dispatcher_archive(run->ps->dispatcher, ar);
    for (int i = 0; i < run->module->iters.len; i++)
        coordinator_pass(run, i, ar);
    for (int i = 0; i < run->ps->closures.list.len; i++)
        rt_archive_i64(ar, &run->ps->closures.list.data[i]->cancelled, 0,
                       INT64_MAX);
}

static Status
distribute(RtRun *run)
{
    return rt_ps_set_all(run->ps->client);
}

static const RtCoordinatorState coordinator_state = {
    collect, coordinator_archive, distribute};

/* ---- other operations ---------------------------------------------------- */

int32_t
rt_ps_pull_variable(RtInvocation *inv, const RtHostOp *h, const IrVar *var)
{
    RtRun *run = inv->executor->run;
    int number = ir_var_number(run->module, var);
    rt_ps_want(run->ps->client, &number, 1);
    Status st = rt_ps_pull(run->ps->client);
    return st ? rt_fault_status(inv, h, st) : EXEC_OK;
}

bool
rt_ps_opens_iterator(RtRun *run, const RtIterBinding *it)
{
    if (!rt_ps_coordinates(run) || !rt_is_workers_iterator(it))
        return false;
    rt_closures_open(&run->ps->closures, (int)(it - run->iterators));
    return true;
}

int32_t
rt_ps_wait(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    if (!rt_ps_coordinates(run))
        return EXEC_OK;
    Status st = rt_dispatcher_join(run->ps->dispatcher);
    return st ? rt_fault_status(inv, h, st) : EXEC_OK;
}

void
rt_ps_cancel(RtRun *run)
{
    if (rt_ps_coordinates(run))
        rt_dispatcher_cancel(run->ps->dispatcher);
}

int32_t
rt_ps_are_done(RtInvocation *inv, const RtHostOp *h, bool *out)
{
    RtRun *run = inv->executor->run;
    *out = true;
    if (!rt_ps_coordinates(run))
        return EXEC_OK;
    Status st = rt_dispatcher_done(run->ps->dispatcher, out);
    return st ? rt_fault_status(inv, h, st) : EXEC_OK;
}
