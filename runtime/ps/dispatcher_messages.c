/*
 * dispatcher_messages.c - what the coordinator's thread sends and receives
 */
#include <stdlib.h>
#include <string.h>
#include "ir/base/message.h"
#include "runtime/ps/dispatcher_impl.h"

static const double again = 1; /* seconds until what was sent is sent again */

/* ---- out ---------------------------------------------------------------- */

static void
send_welcome(RtDispatcher *d, const RtPsRoute *to)
{
    int num = d->config.task->num_servers;
    if (d->num_servers < num || !d->has_params) {
        rt_ps_begin(&d->out, RT_PS_WAIT);
        rt_ps_send_to(&d->listener, to, &d->out);
        return;
    }
    Arena *scratch = arena_new(NULL, "a welcome");
    RtPsWelcome w = {.job = d->job,
                     .num_servers = num,
                     .num_workers = d->config.task->num_workers,
                     .params = d->params.data,
                     .staleness = d->config.task->staleness,
                     .atomic = d->config.task->atomic,
                     .by_bytes = d->config.task->by_bytes,
                     .in_rounds = d->queue.rounds.need > 0,
                     .params_len = (int64_t)d->params.len};
    w.addresses = NEW_ARRAY(scratch, const char *, (size_t)num);
    for (int i = 0; i < num; i++)
        w.addresses[i] = str_text(&d->servers[i].address);
    rt_ps_begin(&d->out, RT_PS_WELCOME);
    rt_ps_welcome(&d->out, &w);
    rt_ps_send_to(&d->listener, to, &d->out);
    arena_release(scratch);
}

void
rt_dispatcher_welcome(RtDispatcher *d)
{
    if (d->was_welcome || !d->has_params ||
        d->num_servers < d->config.task->num_servers)
        return;
    d->was_welcome = true;
    for (int i = 0; i < d->config.task->num_servers; i++)
        send_welcome(d, &d->servers[i].route);
    for (int i = 0; i < d->queue.workers.len; i++)
        send_welcome(d, &d->queue.workers.data[i].route);
    send_welcome(d, &d->evaluator);
}

/* Which elements of the worker's datasets it takes. */
static void
name_elements(Arena *a, const RtClosure *c, RtPsRun *run)
{
    run->num_feeds = c->feeds.len;
    run->indices = NEW_ARRAY(a, int64_t, (size_t)c->feeds.len);
    for (int i = 0; i < c->feeds.len; i++)
        run->indices[i] = c->feeds.data[i].index;
}

/* NULL: it has ended, and is only to be answered. */
static void
send_run(RtDispatcher *d, RtPsWorker *w, const RtSent *s, RtClosure *c)
{
    Arena *scratch = arena_new(NULL, "a closure that is sent");
    RtPsRun run = {.number = s->number,
                   .received = w->received,
                   .id = s->id,
                   .is_void = !c,
                   .low = d->queue.low,
                   .launch = c ? c->launch : 0,
                   .attempt = s->attempt};
    if (c)
        name_elements(scratch, c, &run);
    rt_ps_begin(&d->out, RT_PS_RUN);
    rt_ps_run(&d->out, &run);
    if (c)
        rt_archive_bytes(&d->out, c->arguments.data, c->arguments.len);
    rt_ps_send_to(&d->listener, &w->route, &d->out);
    arena_release(scratch);
}

static bool
feed(RtDispatcher *d, RtPsWorker *w, double now)
{
    if (!w->is_known || w->is_lost || !w->route.len)
        return false;
    RtClosure *c = rt_queue_send(&d->queue, w, now);
    if (c)
        send_run(d, w, &w->in_flight[w->num_in_flight - 1], c);
    return c;
}

void
rt_dispatcher_feed(RtDispatcher *d, double now)
{
    int num = d->queue.workers.len;
    for (int idle = 0;
         d->queue.num_waiting + d->queue.num_returned && idle < num;) {
        d->turn = (d->turn + 1) % num;
        idle = feed(d, &d->queue.workers.data[d->turn], now) ? 0 : idle + 1;
    }
}

/* Workers that have not joined may have some, for as long as anybody waits. */
void
rt_dispatcher_look_for_elements(RtDispatcher *d, double now)
{
    bool waits = now - d->begun < d->config.timeout;
    int num = waits ? d->config.task->num_workers : 0;
    const RtClosure *c = rt_queue_without_elements(&d->queue, num);
    if (!c || !d->has_begun || d->failure)
        return;
    Status st = d->config.at_launch(
        d->config.data, c->launch,
        MESSAGE("the closure that is scheduled here takes an element of a "
                "dataset that workers share, and none of them has one left"));
    rt_dispatcher_fail(
        d, status_note(st, "executing closure %lld", (long long)c->id));
}

/* What the worker has not received, some time after it was sent. */
static void
send_again(RtDispatcher *d, RtPsWorker *w, int64_t has, double now)
{
    for (int i = 0; i < w->num_in_flight; i++) {
        RtSent *s = &w->in_flight[i];
        if (s->number <= has || now - s->at < again)
            continue;
        s->at = now;
        send_run(d, w, s, rt_queue_closure(&d->queue, s->id));
    }
}

/* One that is lost with a connection cancels nothing: what it is about is
 * executed. */
void
rt_dispatcher_send_cancels(RtDispatcher *d)
{
    for (int i = 0; i < d->queue.workers.len; i++) {
        RtPsWorker *w = &d->queue.workers.data[i];
        if (!w->cancels)
            continue;
        rt_ps_begin(&d->out, RT_PS_CANCEL);
        rt_archive_i64(&d->out, &w->cancels, 1, INT64_MAX);
        rt_ps_send_to(&d->listener, &w->route, &d->out);
        w->cancels = 0;
    }
}

static void
send_commit(RtDispatcher *d, int server)
{
    RtDispatcherBatch *b = &d->batch;
    RtPsCommit c = {.number = b->number,
                    .low = d->queue.low,
                    .is_round = b->is_round,
                    .num = b->ids.len,
                    .ids = b->ids.data,
                    .attempts = b->attempts.data};
    rt_ps_begin(&d->out, RT_PS_COMMIT);
    rt_ps_commit(&d->out, &c);
    rt_ps_send_to(&d->listener, &d->servers[server].route, &d->out);
}

static int
by_id(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Its closures that count go into the next batch, by their ids. */
static void
decide_round(RtDispatcher *d)
{
    if (d->round.len)
        qsort(d->round.data, (size_t)d->round.len, sizeof *d->round.data,
              by_id);
    for (int i = 0; i < d->round.len; i++)
        VEC_PUSH(d->arena, d->decided, d->round.data[i]);
    d->round.len = 0;
}

static void
open_batch(RtDispatcher *d)
{
    RtDispatcherBatch *b = &d->batch;
    b->is_round = rt_rounds_are_complete(&d->queue.rounds);
    if (b->is_round)
        decide_round(d);
    b->number++;
    b->is_open = true;
    b->said = 0;
    b->ids.len = b->attempts.len = 0;
    for (int i = 0; i < d->decided.len; i++) {
        RtClosure *c = rt_queue_closure(&d->queue, d->decided.data[i]);
        VEC_PUSH(d->arena, b->ids, c->id);
        VEC_PUSH(d->arena, b->attempts, c->is_late ? 0 : c->attempts);
    }
    d->decided.len = 0;
    memset(b->committed, 0, (size_t)d->config.task->num_servers);
}

void
rt_dispatcher_send_commits(RtDispatcher *d, double now)
{
    RtDispatcherBatch *b = &d->batch;
    if (!b->is_open &&
        (d->decided.len || rt_rounds_are_complete(&d->queue.rounds)))
        open_batch(d);
    if (!b->is_open || now - b->said < again)
        return;
    b->said = now;
    for (int i = 0; i < d->config.task->num_servers; i++)
        if (!b->committed[i])
            send_commit(d, i);
}

/* ---- in ----------------------------------------------------------------- */

void
rt_dispatcher_fail(RtDispatcher *d, Status st)
{
    rt_queue_drop(&d->queue);
    if (d->failure)
        status_free(st);
    else
        d->failure = st;
    rt_wait_word_add(&d->news, 1);
}

static void
refuse(RtDispatcher *d, const RtPsRoute *to, const char *why)
{
    rt_ps_begin(&d->out, RT_PS_REFUSED);
    rt_archive_text(&d->out, &why);
    rt_ps_send_to(&d->listener, to, &d->out);
}

/* In containers all may have the same pid. */
static bool
is_server(const RtDispatcherServer *s, const RtPsHello *h)
{
    return s->incarnation == h->incarnation && s->pid == h->pid &&
           strcmp(str_text(&s->host), h->host) == 0;
}

static void
add_server(RtDispatcher *d, RtDispatcherServer *s, const RtPsHello *h)
{
    s->is_known = true;
    s->incarnation = h->incarnation;
    s->pid = h->pid;
    str_add(&s->host, h->host);
    str_add(&s->address, h->address);
    if (++d->num_servers == d->config.task->num_servers)
        rt_wait_word_add(&d->news, 1);
}

static void
server_joins(RtDispatcher *d, const RtPsHello *h, const RtPsRoute *from,
             double now)
{
    if (h->index >= (uint32_t)d->config.task->num_servers) {
        refuse(d, from, "the job has fewer servers");
        return;
    }
    RtDispatcherServer *s = &d->servers[h->index];
    if (s->is_known && !is_server(s, h)) {
        refuse(d, from, "another process is this server");
        return;
    }
    bool is_new = !s->is_known;
    s->route = *from;
    s->heard = now;
    if (is_new)
        add_server(d, s, h);
    send_welcome(d, from);
}

/* It would end the next worker, too. */
static Status
closure_crashes(RtDispatcher *d, const RtPsHello *h)
{
    const RtClosure *c = rt_queue_closure(&d->queue, d->queue.deadly);
    Arena *scratch = arena_new(NULL, "a closure that crashes");
    const char *text =
        message_printf(scratch,
                       "a closure that is scheduled here has ended %d workers, "
                       "each by signal %u (%s)",
                       RT_PS_MOST_CRASHES, h->crash, strsignal((int)h->crash));
    Status st = d->config.at_launch(d->config.data, c->launch, text);
    arena_release(scratch);
    return status_note(st, "executing closure %lld on worker %u",
                       (long long)c->id, h->index);
}

static const char displaced[] = "a later process has taken its place";

static void
worker_joins(RtDispatcher *d, const RtPsHello *h, const RtPsRoute *from,
             double now)
{
    RtPsWorker *w = rt_queue_join(&d->queue, h, now);
    if (d->queue.deadly)
        rt_dispatcher_fail(d, closure_crashes(d, h));
    d->queue.deadly = 0;
    if (!w) {
        refuse(d, from, displaced);
        return;
    }
    w->route = *from;
    send_welcome(d, from);
}

/* It only waits for the job's end. */
static void
evaluator_joins(RtDispatcher *d, const RtPsRoute *from)
{
    d->evaluator = *from;
    rt_wait_word_add(&d->news, 1);
    send_welcome(d, from);
}

static const char another_job[] =
    "it is of another job, whose coordinator has ended";

static void
on_hello(RtDispatcher *d, RtArchive *in, const RtPsRoute *from, double now)
{
    RtPsHello h;
    rt_ps_hello(in, &h);
    if (!rt_ps_is_good(in))
        return;
    if (h.job && h.job != d->job)
        refuse(d, from, another_job);
    else if (strcmp(h.plan, d->config.plan) != 0)
        refuse(d, from, "it has another plan than the coordinator");
    else if (h.role == RT_ROLE_ps)
        server_joins(d, &h, from, now);
    else if (h.role == RT_ROLE_worker)
        worker_joins(d, &h, from, now);
    else if (h.role == RT_ROLE_evaluator)
        evaluator_joins(d, from);
    else
        rt_ps_reject(in, "nobody has that role");
}

/* The worker of that number and incarnation, which was heard. */
static RtPsWorker *
worker_of(RtDispatcher *d, uint32_t index, uint64_t incarnation, double now)
{
    RtPsWorker *w = rt_queue_worker(&d->queue, index);
    if (!w || w->incarnation != incarnation)
        return NULL;
    w->heard = now;
    w->is_lost = false;
    return w;
}

static void
check_server(const RtDispatcher *d, RtArchive *in, uint32_t index)
{
    if (index >= (uint32_t)d->config.task->num_servers)
        rt_ps_reject(in, "there is no such server");
}

static void
on_heartbeat(RtDispatcher *d, RtArchive *in, double now)
{
    RtPsHeartbeat b;
    rt_ps_heartbeat(in, &b);
    if (!rt_ps_is_good(in))
        return;
    if (b.role == RT_ROLE_worker)
        worker_of(d, b.index, b.incarnation, now);
    if (b.role != RT_ROLE_ps)
        return;
    check_server(d, in, b.index);
    if (in->wrong)
        return;
    RtDispatcherServer *s = &d->servers[b.index];
    if (s->is_known && s->incarnation == b.incarnation)
        s->heard = now;
}

static void
on_sync(RtDispatcher *d, RtArchive *in, const RtPsRoute *from, double now)
{
    RtPsSync s;
    rt_ps_sync(in, &s);
    if (!rt_ps_is_good(in))
        return;
    RtPsWorker *w = worker_of(d, s.index, s.incarnation, now);
    if (!w) {
        bool has_place = rt_queue_worker(&d->queue, s.index);
        refuse(d, from, has_place ? displaced : another_job);
        return;
    }
    w->route = *from;
    send_again(d, w, s.received, now);
    s.received = w->received;
    rt_ps_begin(&d->out, RT_PS_SYNC);
    rt_ps_sync(&d->out, &s);
    rt_ps_send_to(&d->listener, from, &d->out);
}

static Status
closure_failed(const RtPsDone *e, const RtPsWorker *w)
{
    Status st = status_new(STATUS_INPUT, "%s", message_part(e->error));
    return status_note(status_show(st, e->lines),
                       "executing closure %lld on worker %u (%s, pid %lld)",
                       (long long)e->id, e->index, str_text(&w->host),
                       (long long)w->pid);
}

/* Those of a round are committed together. */
static void
decided(RtDispatcher *d, int64_t id)
{
    const RtClosure *c = rt_queue_closure(&d->queue, id);
    if (d->queue.rounds.need && !c->is_late)
        VEC_PUSH(d->arena, d->round, id);
    else
        VEC_PUSH(d->arena, d->decided, id);
}

static void
on_done(RtDispatcher *d, RtArchive *in, const RtPsRoute *from, double now)
{
    RtPsDone e;
    rt_ps_done(in, &e);
    RtPsWorker *w =
        in->wrong ? NULL : worker_of(d, e.index, e.incarnation, now);
    if (!w || e.number != w->received + 1)
        return; /* it was here before, or one before it was lost */
    w->route = *from;
    w->received = e.number;
    rt_queue_take_from(w, e.id, now);
    if (e.lacks_elements) {
        rt_queue_lacks_elements(&d->queue, w, e.id);
        return;
    }
    if (e.is_cancelled) {
        if (rt_queue_end_cancelled(&d->queue, e.id))
            rt_dispatcher_wake(d);
        return;
    }
    if (d->config.task->atomic && !*e.error) {
        if (rt_queue_decide(&d->queue, e.id, e.attempt, in->data + in->at,
                            in->len - in->at))
            decided(d, e.id);
        return;
    }
    if (rt_queue_end(&d->queue, e.id, in->data + in->at, in->len - in->at)) {
        if (*e.error)
            rt_dispatcher_fail(d, closure_failed(&e, w));
        rt_dispatcher_wake(d);
    }
}

/* A server's failure is a message and, after a newline, the lines below it. */
static Status
commit_failed(const char *error)
{
    const char *end = strchr(error, '\n');
    int n = end ? (int)(end - error) : (int)strlen(error);
    Status st = status_new(STATUS_INPUT, "%.*s", n, error);
    return status_show(st, end ? end + 1 : "");
}

/* The closures have ended once all servers have committed them. */
static void
on_committed(RtDispatcher *d, RtArchive *in)
{
    RtPsCommitted c;
    RtDispatcherBatch *b = &d->batch;
    rt_ps_committed(in, &c);
    if (rt_ps_is_good(in))
        check_server(d, in, c.index);
    if (in->wrong || !b->is_open || c.number != b->number)
        return;
    b->committed[c.index] = true;
    if (*c.error)
        rt_dispatcher_fail(d, commit_failed(c.error));
    for (int i = 0; i < d->config.task->num_servers; i++)
        if (!b->committed[i])
            return;
    b->is_open = false;
    if (b->is_round)
        rt_rounds_close(&d->queue.rounds);
    for (int i = 0; i < b->ids.len; i++)
        rt_queue_end(&d->queue, b->ids.data[i], NULL, 0);
    rt_dispatcher_wake(d);
}

static void
on_load(RtDispatcher *d, RtArchive *in)
{
    RtPsLoad l;
    rt_ps_server_load(in, &l);
    if (rt_ps_is_good(in))
        check_server(d, in, l.index);
    if (in->wrong)
        return;
    d->servers[l.index].load = l;
}

/* ---- what workers have --------------------------------------------------- */

/* The same question is asked until it is answered. */
static void
on_deal(RtDispatcher *d, RtArchive *in, const RtPsRoute *from, double now)
{
    RtPsDealing deal;
    rt_ps_dealing(in, &deal);
    if (!rt_ps_is_good(in) || !d->has_begun ||
        !worker_of(d, deal.index, deal.incarnation, now))
        return;
    switch (rt_ps_deal(&d->deals, &deal)) {
    case RT_DEAL_ignored:
        return;
    case RT_DEAL_differs:
        if (!d->failure)
            rt_dispatcher_fail(
                d, status_new(STATUS_INPUT,
                              "worker %u has other files of a dataset that is "
                              "dealt to workers than another one, or as many "
                              "by other names: %lld",
                              deal.index, (long long)deal.num));
        return;
    case RT_DEAL_answered:
        break;
    }
    rt_ps_begin(&d->out, RT_PS_DEALT);
    rt_ps_dealing(&d->out, &deal);
    rt_ps_send_to(&d->listener, from, &d->out);
}

/* The head of a message about a worker's state; NULL: it is a stranger's. */
static RtPsWorker *
read_saving(RtDispatcher *d, RtArchive *in, RtPsSaving *s, double now)
{
    rt_ps_saving(in, s);
    return in->wrong ? NULL : worker_of(d, s->index, s->incarnation, now);
}

/* It asks again until main has begun. */
static void
on_start(RtDispatcher *d, RtArchive *in, const RtPsRoute *from, double now)
{
    RtPsSaving s;
    if (!read_saving(d, in, &s, now) || !d->has_begun)
        return;
    const Str *state = &rt_ps_state_of(&d->states, s.index)->bytes;
    rt_ps_begin(&d->out, RT_PS_STATE);
    rt_ps_saving(&d->out, &s);
    rt_archive_bytes(&d->out, state->data, state->len);
    rt_ps_send_to(&d->listener, from, &d->out);
}

static void
on_saved(RtDispatcher *d, RtArchive *in, double now)
{
    RtPsSaving s;
    if (!read_saving(d, in, &s, now) || !d->is_saving || s.number != d->saving)
        return;
    rt_ps_state_set(&d->states, s.index, s.number, in->data + in->at,
                    in->len - in->at);
    rt_wait_word_add(&d->news, 1);
}

bool
rt_dispatcher_lacks_state(RtDispatcher *d, int worker)
{
    const RtPsWorker *w = &d->queue.workers.data[worker];
    return w->is_known && !w->is_lost &&
           rt_ps_state_of(&d->states, (uint32_t)worker)->number != d->saving;
}

void
rt_dispatcher_ask_states(RtDispatcher *d, double now)
{
    if (!d->is_saving || now - d->saving_said < again)
        return;
    d->saving_said = now;
    for (int i = 0; i < d->queue.workers.len; i++) {
        const RtPsWorker *w = &d->queue.workers.data[i];
        RtPsSaving s = {(uint32_t)i, w->incarnation, d->saving};
        if (!rt_dispatcher_lacks_state(d, i))
            continue;
        rt_ps_begin(&d->out, RT_PS_SAVE);
        rt_ps_saving(&d->out, &s);
        rt_ps_send_to(&d->listener, &w->route, &d->out);
    }
}

/* ---- by type ------------------------------------------------------------ */

static void
on_ask(RtDispatcher *d, RtArchive *in, const RtPsRoute *from, double now)
{
    if (!rt_ps_is_good(in))
        return;
    RtPsStatus s = rt_dispatcher_status(d, in->arena, now);
    rt_ps_begin(&d->out, RT_PS_STATUS);
    rt_ps_status(&d->out, &s);
    rt_ps_send_to(&d->listener, from, &d->out);
}

/* Whose it is says the connection: what it says of itself may be damaged. */
static void
blame(RtDispatcher *d, RtPsType type, const RtPsRoute *from)
{
    uint32_t role = RT_ROLE_alone, index = 0;
    if (rt_ps_is_route(&d->evaluator, from))
        role = RT_ROLE_evaluator;
    for (int i = 0; i < d->queue.workers.len; i++)
        if (rt_ps_is_route(&d->queue.workers.data[i].route, from))
            role = RT_ROLE_worker, index = (uint32_t)i;
    for (int i = 0; i < d->config.task->num_servers; i++)
        if (rt_ps_is_route(&d->servers[i].route, from))
            role = RT_ROLE_ps, index = (uint32_t)i;
    rt_ps_blame(d->net, role, index, type);
}

static void
take(RtDispatcher *d, RtPsType type, RtArchive *in, const RtPsRoute *from,
     double now)
{
    switch (type) {
    case RT_PS_HELLO:
        on_hello(d, in, from, now);
        break;
    case RT_PS_HEARTBEAT:
        on_heartbeat(d, in, now);
        break;
    case RT_PS_SYNC:
        on_sync(d, in, from, now);
        break;
    case RT_PS_DONE:
        on_done(d, in, from, now);
        break;
    case RT_PS_START:
        on_start(d, in, from, now);
        break;
    case RT_PS_DEAL:
        on_deal(d, in, from, now);
        break;
    case RT_PS_SAVED:
        on_saved(d, in, now);
        break;
    case RT_PS_COMMITTED:
        on_committed(d, in);
        break;
    case RT_PS_LOAD:
        on_load(d, in);
        break;
    case RT_PS_ASK:
        on_ask(d, in, from, now);
        break;
    default:
        rt_ps_reject(in, "it is for somebody else");
    }
}

void
rt_dispatcher_receive(RtDispatcher *d, const RtPsRoute *from, zmq_msg_t *m,
                      double now)
{
    RtArchive in;
    Arena *scratch = arena_new(NULL, "a message");
    const RtZmq *z = d->net->zmq;
    RtPsType type =
        rt_ps_read(&in, scratch, z->zmq_msg_data(m), z->zmq_msg_size(m));
    take(d, type, &in, from, now);
    if (in.wrong)
        blame(d, type, from);
    arena_release(scratch);
}
