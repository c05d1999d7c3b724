/*
 * worker.c - a worker: executes closures
 *
 * Closures are executed one after the other; the next one begins while servers
 * still apply what the last one pushed.  A closure has ended when all of them
 * have.  Its end is kept until the coordinator has it.
 */
#include "runtime/ps/worker.h"

#include <string.h>
#include "ir/base/clock.h"
#include "runtime/exec/agreement.h"
#include "runtime/exec/end.h"
#include "runtime/exec/watchdog.h"

enum {
    WAIT_MS = 50,
    MOST_UNAPPLIED = RT_PS_IN_FLIGHT,
    MOST_ENDS = 2 * RT_PS_IN_FLIGHT /* that the coordinator does not have */
};

static const double sync_time = 0.5;    /* seconds */
static const double short_time = 0.001; /* of a closure, and of an end that is
                                           not told */

/* A closure that was executed. */
typedef struct End {
    int64_t id, attempt;
    int64_t number;            /* of its DONE; 0: not applied everywhere */
    double at;                 /* when that was sent */
    bool is_cancelled;         /* it was not executed, */
    bool lacks_elements;       /* for this worker has none for it */
    const char *error, *lines; /* "": none */
    RtArchive results;
} End;

typedef struct Worker {
    RtWorking with;
    Arena *arena;
    RtArchive out;
    int64_t received, sent;           /* numbers of RUN and DONE */
    int num_untold;                   /* of the last DONEs, that are not sent */
    double untold;                    /* since when */
    double took;                      /* the last closure, in seconds, */
    double elements_took;             /* and its elements of datasets */
    int64_t cancelled;                /* the last RUN that main wants no more */
    zmq_msg_t tasks[RT_PS_IN_FLIGHT]; /* RUNs to be executed, a ring */
    int first_task, num_tasks;
    End ends[MOST_ENDS]; /* a ring, in the order of execution */
    int first_end, num_ends;
    uint64_t *passes; /* of each iterator, that is open here, */
    int64_t *taken;   /* and how many elements of it were taken */
    bool has_state;   /* the coordinator has said where it begins */
    double synced, asked;
    Status failure; /* of its datasets */
    bool has_ended;
    Status lost; /* the coordinator was, or has refused it, also in the midst of
                    a closure */
} Worker;

/* ---- ends --------------------------------------------------------------- */

static End *
end_at(Worker *w, int i)
{
    return &w->ends[(w->first_end + i) % MOST_ENDS];
}

static void
send_done(Worker *w, End *e)
{
    const RtTaskOptions *task = w->with.member->config.task;
    RtPsDone done = {.index = (uint32_t)task->index,
                     .incarnation = task->incarnation,
                     .number = e->number,
                     .received = w->received,
                     .id = e->id,
                     .attempt = e->attempt,
                     .is_cancelled = e->is_cancelled,
                     .lacks_elements = e->lacks_elements,
                     .error = e->error,
                     .lines = e->lines};
    rt_ps_begin(&w->out, RT_PS_DONE);
    rt_ps_done(&w->out, &done);
    if (!*e->error && !e->is_cancelled && !e->lacks_elements)
        rt_archive_bytes(&w->out, e->results.data, e->results.len);
    rt_ps_send(w->with.net, &w->with.member->socket, &w->out);
    e->at = clock_seconds();
}

/* DONEs are numbered in the order in which closures were executed, and so are
 * applied. */
static void
note_applied(Worker *w, int64_t id, const char *error, const char *lines)
{
    for (int i = 0; i < w->num_ends; i++) {
        End *e = end_at(w, i);
        if (e->id != id || e->number)
            continue;
        e->number = ++w->sent;
        if (!w->num_untold++)
            w->untold = clock_seconds();
        if (*error && !*e->error) {
            e->error = arena_strdup(w->arena, error);
            e->lines = arena_strdup(w->arena, lines);
        }
        return;
    }
}

static End *
end_with(Worker *w, int64_t number)
{
    for (int i = 0; i < w->num_ends; i++)
        if (end_at(w, i)->number == number)
            return end_at(w, i);
    return NULL;
}

/* While short closures follow, several ends are told together: so the
 * coordinator wakes less often. */
static bool
may_wait(const Worker *w)
{
    return !w->with.atomic && w->num_tasks &&
           w->num_untold < RT_PS_IN_FLIGHT / 2 && w->took < short_time &&
           clock_seconds() - w->untold < short_time;
}

static void
tell_ends(Worker *w)
{
    if (may_wait(w))
        return;
    for (; w->num_untold; w->num_untold--) {
        End *e = end_with(w, w->sent - w->num_untold + 1);
        if (e)
            send_done(w, e);
    }
}

static void
drop_ends(Worker *w, int64_t received)
{
    while (w->num_ends && end_at(w, 0)->number &&
           end_at(w, 0)->number <= received) {
        w->first_end = (w->first_end + 1) % MOST_ENDS;
        w->num_ends--;
    }
}

static End *
new_end(Worker *w, int64_t id)
{
    End *e = end_at(w, w->num_ends++);
    if (!e->results.arena)
        e->results = rt_archive_writer(w->arena, 0);
    rt_archive_clear(&e->results);
    e->id = id;
    e->number = 0;
    e->is_cancelled = e->lacks_elements = false;
    e->error = e->lines = "";
    return e;
}

/* ---- execution ---------------------------------------------------------- */

static Status
pull(RtPsClient *client, const RtInvocation *main, const RtClosureOp *op)
{
    Arena *scratch = arena_new(NULL, "a pull");
    rt_ps_want(client, op->reads.data, op->reads.len);
    for (int i = 0; i < op->lookups.len; i++) {
        const RtLookup *l = &op->lookups.data[i];
        RtRows rows = rt_rows_looked_up(scratch, main, op->h, l);
        rt_ps_want_rows(client, scratch, l->var, &rows);
    }
    Status st = rt_ps_pull(client);
    arena_release(scratch);
    return st;
}

int32_t
rt_ps_execute(RtPsClient *client, RtInvocation *main, const RtClosureOp *op,
              RtOpRun *launch, RtPsGuard *guard, int64_t id, int64_t attempt,
              int64_t low)
{
    Status st = pull(client, main, op);
    if (st)
        return rt_fault_status(main, op->h, st);
    rt_ps_begin_push(client, id, attempt, low);
    rt_guard_pause(guard);
    int32_t end = launch(main, op->h);
    rt_guard_resume(guard);
    if (end == EXEC_OK)
        rt_ps_end_push(client);
    else
        rt_ps_drop_push(client);
    rt_ps_forget(client, op->writes.data, op->writes.len);
    return end;
}

/* Opens an iterator from its beginning in the pass that main is in. */
static int32_t
open_pass(Worker *w, const RtHostOp *next)
{
    RtRun *run = w->with.run;
    const RtFunction *fn = w->with.closures->main;
    size_t i = (size_t)(next->iterator - run->iterators);
    if (w->passes[i] == w->with.closures->passes[i])
        return EXEC_OK;
    w->passes[i] = w->with.closures->passes[i];
    w->taken[i] = 0;
    for (int k = 0; k < fn->num_ops; k++)
        if (fn->ops[k].op->kind == OP_iter_open &&
            fn->ops[k].iterator == next->iterator)
            return fn->ops[k].run(w->with.main, &fn->ops[k]);
    UNREACHABLE("an iterator that main does not open");
}

/* The positions of its datasets: those that closures have opened. */
static Status
archive_iterators(Worker *w, RtArchive *ar)
{
    RtRun *run = w->with.run;
    for (int i = 0; i < run->module->iters.len && !ar->wrong; i++) {
        RtIterBinding *it = &run->iterators[i];
        if (!rt_is_workers_iterator(it))
            continue;
        rt_archive_u64(ar, &w->passes[i]);
        rt_archive_position(ar, &w->taken[i]);
        if (!w->passes[i] || ar->wrong)
            continue;
        if (!it->iter)
            TRY(run->open_iterator(run, it));
        TRY(rt_iter_archive(it->iter, ar, NULL));
    }
    return rt_archive_end(ar);
}

static Status
state_archive(Worker *w, RtArchive *ar)
{
    rt_guard_pause(w->with.member->config.guard);
    Status st = archive_iterators(w, ar);
    rt_guard_resume(w->with.member->config.guard);
    return st;
}

/* Whether this worker's share of a dataset has ended; of one that others have,
 * too, nobody else has more. */
static int32_t
look_for_end(Worker *w, const RtHostOp *next, bool *lacks)
{
    bool more = true;
    if (next->iterator->ir->workers == WORKER_SHARD_OFF)
        return EXEC_OK;
    Status st = rt_agree_on_next(w->with.run, next->iterator, &more);
    *lacks = !st && !more;
    return st ? rt_fault_status(w->with.main, next, st) : EXEC_OK;
}

/* Takes the element of that index.  Those before it are other closures', or of
 * the process that this one replaces.  *lacks: there is none. */
static int32_t
take_element(Worker *w, const RtHostOp *next, int64_t index, bool *lacks)
{
    size_t i = (size_t)(next->iterator - w->with.run->iterators);
    if (w->taken[i] > index)
        w->passes[i] = 0; /* it begins the pass again */
    int32_t end = open_pass(w, next);
    while (end == EXEC_OK && w->taken[i] <= index) {
        end = look_for_end(w, next, lacks);
        if (end != EXEC_OK || *lacks)
            return end;
        end = next->run(w->with.main, next);
        w->taken[i]++;
    }
    return end;
}

static int32_t
take_elements(Worker *w, const RtClosureOp *op, const RtPsRun *run, bool *lacks)
{
    int32_t end = EXEC_OK;
    double begun = clock_seconds();
    rt_guard_pause(w->with.member->config.guard);
    for (int i = 0; i < op->feeds.len && end == EXEC_OK && !*lacks; i++)
        end = take_element(w, op->feeds.data[i], run->indices[i], lacks);
    rt_guard_resume(w->with.member->config.guard);
    w->elements_took = clock_seconds() - begun;
    return end;
}

static RtFault *
first_fault(RtRun *run)
{
    for (int i = 0; i < run->num_local; i++)
        if (run->locals[i].fault.op)
            return &run->locals[i].fault;
    return run->main.fault.op ? &run->main.fault : NULL;
}

/* The failure, as the coordinator will say it. */
static void
describe_failure(Worker *w, End *e)
{
    RtFault *f = first_fault(w->with.run);
    if (!f) {
        e->error = "it was stopped";
        return;
    }
    Status st = rt_fault_in_words(w->with.run, f);
    e->error = arena_strdup(w->arena, status_message(st));
    e->lines = arena_strdup(w->arena, status_lines(st));
    status_free(st);
}

/* Whether the next closure pulls at once. */
static bool
is_followed(const Worker *w, const RtClosureOp *op)
{
    return w->num_tasks > 0 && op->reads.len + op->lookups.len > 0 &&
           w->elements_took < short_time;
}

static void
execute(Worker *w, const RtPsRun *run, RtArchive *in)
{
    RtClosures *closures = w->with.closures;
    End *e = new_end(w, run->id);
    e->attempt = run->attempt;
    e->is_cancelled =
        !run->is_void && run->number <= w->cancelled && run->attempt == 1;
    if (run->is_void || e->is_cancelled) {
        note_applied(w, run->id, "", "");
        return;
    }
    const RtClosureOp *op = closures->list.data[run->launch];
    rt_closure_arguments(closures, op, w->with.main, in);
    int32_t end =
        in->wrong ? EXEC_OK : take_elements(w, op, run, &e->lacks_elements);
    if (end == EXEC_OK && e->lacks_elements) {
        note_applied(w, run->id, "", "");
        return;
    }
    if (in->wrong)
        e->error = arena_strdup(w->arena, in->wrong);
    rt_ps_expect_more(w->with.client, is_followed(w, op));
    if (!in->wrong && end == EXEC_OK)
        end = rt_ps_execute(w->with.client, w->with.main, op, op->h->run,
                            w->with.member->config.guard, run->id,
                            w->with.atomic ? run->attempt : 0, run->low);
    if (end == EXEC_OK && !*e->error)
        rt_closure_results(closures, op, &e->results);
    else if (!*e->error)
        describe_failure(w, e);
    if (*e->error)
        note_applied(w, run->id, "", "");
}

static void
execute_next(Worker *w)
{
    RtArchive in;
    RtPsRun run;
    const RtZmq *z = w->with.net->zmq;
    zmq_msg_t *m = &w->tasks[w->first_task];
    double begun = clock_seconds();
    Arena *scratch = arena_new(NULL, "a closure");
    w->first_task = (w->first_task + 1) % RT_PS_IN_FLIGHT;
    w->num_tasks--;
    rt_ps_read(&in, scratch, z->zmq_msg_data(m), z->zmq_msg_size(m));
    rt_ps_run(&in, &run);
    rt_guard_turn(w->with.member->config.guard);
    execute(w, &run, &in);
    /* What came meanwhile is not read yet: its patience begins anew. */
    w->with.member->heard = clock_seconds();
    w->took = w->with.member->heard - begun;
    z->zmq_msg_close(m);
    arena_release(scratch);
}

/* ---- messages ----------------------------------------------------------- */

static bool
is_known(const Worker *w, const RtPsRun *run)
{
    const RtClosures *c = w->with.closures;
    const RtClosureOp *op =
        run->launch < c->list.len ? c->list.data[run->launch] : NULL;
    return run->is_void ||
           (op && op->is_scheduled && run->num_feeds == op->feeds.len);
}

/* What comes twice, or after one that was lost, will come again. */
static void
on_run(Worker *w, RtArchive *in, zmq_msg_t *m)
{
    RtPsRun run;
    const RtZmq *z = w->with.net->zmq;
    rt_ps_run(in, &run);
    if (!is_known(w, &run))
        rt_ps_reject(in, "its closure is of another plan");
    if (in->wrong || run.number != w->received + 1 ||
        w->num_tasks == RT_PS_IN_FLIGHT)
        return;
    drop_ends(w, run.received);
    if (w->with.atomic) /* an attempt of before, which nobody commits */
        rt_ps_abandon(w->with.client, run.id);
    w->received = run.number;
    zmq_msg_t *to =
        &w->tasks[(w->first_task + w->num_tasks++) % RT_PS_IN_FLIGHT];
    z->zmq_msg_init(to);
    z->zmq_msg_move(to, m);
}

static void
send_saving(Worker *w, RtPsType type, int64_t number, const RtArchive *state)
{
    const RtTaskOptions *task = w->with.member->config.task;
    RtPsSaving s = {(uint32_t)task->index, task->incarnation, number};
    rt_ps_begin(&w->out, type);
    rt_ps_saving(&w->out, &s);
    if (state)
        rt_archive_bytes(&w->out, state->data, state->len);
    rt_ps_send(w->with.net, &w->with.member->socket, &w->out);
}

/* Begins where the coordinator says. */
static void
on_state(Worker *w, RtArchive *in)
{
    RtPsSaving s;
    rt_ps_saving(in, &s);
    if (in->wrong || w->has_state)
        return;
    w->has_state = true;
    if (in->at < in->len)
        w->failure = state_archive(w, in);
}

/* No closure is open now. */
static void
on_save(Worker *w, RtArchive *in)
{
    RtPsSaving s;
    rt_ps_saving(in, &s);
    if (!rt_ps_is_good(in) || !w->has_state || w->failure)
        return;
    RtArchive state = rt_archive_writer(in->arena, 0);
    w->failure = state_archive(w, &state);
    if (!w->failure)
        send_saving(w, RT_PS_SAVED, s.number, &state);
}

/* Of its closures up to a number those that wait here. */
static void
on_cancel(Worker *w, RtArchive *in)
{
    int64_t number;
    rt_archive_i64(in, &number, 1, INT64_MAX);
    if (rt_ps_is_good(in) && number > w->cancelled)
        w->cancelled = number;
}

static void
on_sync(Worker *w, RtArchive *in)
{
    RtPsSync s;
    rt_ps_sync(in, &s);
    if (!rt_ps_is_good(in))
        return;
    drop_ends(w, s.received);
    for (int i = 0; i < w->num_ends; i++) {
        End *e = end_at(w, i);
        if (e->number && clock_seconds() - e->at > sync_time)
            send_done(w, e);
    }
}

static void
take(Worker *w, RtPsType type, RtArchive *in, zmq_msg_t *m)
{
    switch (type) {
    case RT_PS_RUN:
        on_run(w, in, m);
        break;
    case RT_PS_CANCEL:
        on_cancel(w, in);
        break;
    case RT_PS_SYNC:
        on_sync(w, in);
        break;
    case RT_PS_STATE:
        on_state(w, in);
        break;
    case RT_PS_SAVE:
        on_save(w, in);
        break;
    case RT_PS_END:
        w->has_ended = true;
        break;
    case RT_PS_REFUSED:
        if (!w->lost)
            w->lost = rt_ps_member_refused(w->with.member, in);
        break;
    case RT_PS_WAIT:
    case RT_PS_WELCOME: /* it has joined */
        break;
    default:
        rt_ps_reject(in, "it is for somebody else");
    }
}

static void
receive(Worker *w, zmq_msg_t *m)
{
    RtArchive in;
    const RtZmq *z = w->with.net->zmq;
    Arena *scratch = arena_new(NULL, "a message");
    w->with.member->heard = clock_seconds();
    RtPsType type =
        rt_ps_read(&in, scratch, z->zmq_msg_data(m), z->zmq_msg_size(m));
    take(w, type, &in, m);
    if (in.wrong)
        rt_ps_blame(w->with.net, RT_ROLE_coordinator, 0, type);
    arena_release(scratch);
}

/* Again and again until the coordinator's main has begun. */
static void
ask_for_state(Worker *w)
{
    double now = clock_seconds();
    if (w->has_state || now - w->asked < WAIT_MS / 1e3)
        return;
    w->asked = now;
    send_saving(w, RT_PS_START, 0, NULL);
}

static void
synchronize(Worker *w)
{
    const RtTaskOptions *task = w->with.member->config.task;
    if (clock_seconds() - w->synced <
        rt_ps_member_interval(w->with.member, sync_time))
        return;
    RtPsSync s = {(uint32_t)task->index, task->incarnation, w->received};
    w->synced = clock_seconds();
    rt_ps_begin(&w->out, RT_PS_SYNC);
    rt_ps_sync(&w->out, &s);
    rt_ps_send(w->with.net, &w->with.member->socket, &w->out);
}

/* ---- turns -------------------------------------------------------------- */

static void
listen_to_coordinator(Worker *w)
{
    zmq_msg_t m;
    RtPsSocket *socket = &w->with.member->socket;
    w->with.net->zmq->zmq_msg_init(&m);
    while (socket->has_news && rt_ps_next(w->with.net, socket, &m))
        receive(w, &m);
    w->with.net->zmq->zmq_msg_close(&m);
}

/* A server that has ended never answers: the coordinator says that the job has
 * ended, or is silent. */
static Status
watch_coordinator(void *data)
{
    Worker *w = data;
    listen_to_coordinator(w);
    synchronize(w);
    if (!w->lost)
        w->lost = rt_ps_member_check(w->with.member);
    return w->has_ended || w->lost ? rt_data_stopped() : OK;
}

static void
take_messages(Worker *w)
{
    RtApplied applied;
    int64_t staged;
    listen_to_coordinator(w);
    rt_ps_progress(w->with.client);
    while ((staged = rt_ps_next_staged(w->with.client))) {
        note_applied(w, staged, "", "");
        if (w->with.in_rounds) /* others of the round do not wait for it */
            rt_ps_abandon(w->with.client, staged);
    }
    while ((applied = rt_ps_next_applied(w->with.client)).id)
        note_applied(w, applied.id, applied.error, applied.lines);
    tell_ends(w);
}

static void
wait_for_messages(Worker *w)
{
    rt_ps_release(w->with.client);
    rt_ps_client_wait(w->with.client, WAIT_MS);
}

/* What is not committed yet is not pulled, and a closure sees those that were
 * executed before it here. */
static bool
may_execute(const Worker *w)
{
    int most = w->with.atomic ? 1 : MOST_UNAPPLIED;
    return w->has_state && w->num_tasks && w->num_ends < MOST_ENDS &&
           rt_ps_num_pending(w->with.client) < most &&
           !rt_is_stopped(w->with.run);
}

static Status
work(Worker *w)
{
    while (!w->has_ended) {
        ask_for_state(w);
        take_messages(w);
        if (w->lost)
            return w->lost;
        if (w->failure)
            return w->failure;
        if (may_execute(w))
            execute_next(w);
        else
            wait_for_messages(w);
        synchronize(w);
        if (!w->lost)
            w->lost = rt_ps_member_check(w->with.member);
        if (w->lost)
            return w->lost;
    }
    return OK;
}

Status
rt_ps_work(const RtWorking *working)
{
    Arena *a = arena_new(NULL, "a worker");
    Worker *w = NEW(a, Worker);
    w->with = *working;
    w->arena = a;
    w->out = rt_archive_writer(a, 0);
    w->passes = NEW_ARRAY(a, uint64_t, (size_t)working->run->module->iters.len);
    w->taken = NEW_ARRAY(a, int64_t, (size_t)working->run->module->iters.len);
    rt_ps_watch(w->with.client, &working->member->socket, watch_coordinator, w);
    Status st = work(w);
    if (st != w->lost)
        status_free(w->lost);
    if (st != w->failure)
        status_free(w->failure);
    rt_ps_watch(w->with.client, NULL, NULL, NULL);
    for (; w->num_tasks; w->num_tasks--) {
        working->net->zmq->zmq_msg_close(&w->tasks[w->first_task]);
        w->first_task = (w->first_task + 1) % RT_PS_IN_FLIGHT;
    }
    arena_release(a);
    return st;
}
