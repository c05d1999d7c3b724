/*
 * server.c - a server: holds variables, and executes updates of them
 *
 * One thread does all in turns: what a closure pushes is applied in one of
 * them, so whoever pulls sees all of it or nothing.  A variable's version
 * counts its changes; who has the current one is not sent it again.
 */
#include "runtime/ps/server.h"

#include <string.h>
#include "ir/analysis/batch.h"
#include "ir/base/message.h"
#include "ir/type_bounds.h"
#include "runtime/exec/end.h"
#include "runtime/exec/watchdog.h"
#include "runtime/hal/wait.h"
#include "runtime/ps/applied.h"
#include "runtime/ps/parts/batches.h"
#include "runtime/ps/parts/rows.h"

enum { TURN_MS = 50, HELD_MS = 1, MOST_HELD = 16 };

static const double load_time = 0.2; /* seconds from one LOAD to the next */

/* An update with places for its arguments. */
typedef struct Apply {
    RtInvocation inv;
    RtDevicePtr *in;
    RtValue *values; /* its parameters */
    RtRows rows;     /* that it is of, if it needs no others */
    RtProgramLaunch launch;
} Apply;

/* An acknowledgement that waits for the next answer. */
typedef struct Held {
    RtPsRoute to;
    RtPsRequest head;
    const char *failure; /* then: those before did not fail */
} Held;

typedef struct Server {
    RtServing with;
    Arena *arena;
    RtArchive out;
    Apply *applies;
    int index;            /* of this server */
    RtDevicePtr *slots;   /* memories, each for a part of a variable */
    RtDevicePtr together; /* another one, for rows from anywhere in a part */
    int64_t *versions;    /* of each part, from 1 */
    RtAppliedSet applied;
    RtStaging staging;
    int64_t last_commit; /* one that comes again is only answered */
    int64_t last_set; /* the last SET: one that comes again is only answered */
    RtPsMeter meter;
    RtPsTraffic traffic;
    double busy, load_sent; /* seconds; when */
    Held held[MOST_HELD];   /* in their order */
    int num_held;
    bool has_answered;   /* something else in this turn */
    const char *failure; /* of an update; NULL: none */
    bool has_ended;
    Status refused; /* by the coordinator, since it joined */
} Server;

/* ---- places of arguments ------------------------------------------------- */

static int64_t
bytes_of(const RtRun *run, const IrValue *v)
{
    int64_t bytes = 0;
    if (!ir_type_bytes(run->module, &v->type, &bytes))
        UNREACHABLE("an argument of an update without a size");
    return rt_align(bytes);
}

static int64_t
bytes_of_update(const RtRun *run, const RtUpdate *u)
{
    int64_t sum = 0;
    for (int i = 0; i < u->fn->ir->body->args.len; i++)
        sum += bytes_of(run, u->fn->ir->body->args.data[i]);
    return sum;
}

int64_t
rt_update_bytes(const RtRun *run, const RtPlacement *p)
{
    int64_t most = 0;
    for (int i = 0; i < p->updates.len; i++) {
        const RtUpdate *u = &p->updates.data[i];
        int64_t bytes = u->is_set ? 0 : bytes_of_update(run, u);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void
init_apply(Server *s, Apply *a, const RtUpdate *u)
{
    RtRun *run = s->with.run;
    RtExecutor *replica = &run->locals[0];
    const IrBlock *body = u->fn->ir->body;
    size_t n = (size_t)body->args.len;
    int64_t at = s->with.staging;
    a->in = NEW_ARRAY(s->arena, RtDevicePtr, n);
    a->values = NEW_ARRAY(s->arena, RtValue, n);
    for (size_t i = 0; i < n; i++) {
        a->values[i] = rt_value_of(run->module, body->args.data[i]);
        a->in[i] = rt_ptr_add(replica->base, (size_t)at);
        at += bytes_of(run, body->args.data[i]);
    }
    rt_program_invocation_init(&a->inv, u->fn, replica, a->in, NULL,
                               replica->dims);
}

/* ---- updates ------------------------------------------------------------ */

static void
count_argument(Server *s, const Apply *a, int i, size_t n)
{
    const IrFunc *fn = a->inv.fn->ir;
    int64_t entries = 0;
    if (fn->row_ids < 0) {
        rt_ps_count_traffic(&s->traffic, RT_TRAFFIC_pushed_parts, n, i == 0);
        return;
    }
    if (i == fn->row_ids)
        entries = rt_value_count(&a->values[i], s->with.run->locals[0].dims);
    rt_ps_count_traffic(&s->traffic, RT_TRAFFIC_pushed_rows, n, entries);
}

/* Arguments are read behind their lengths; ids of rows that are put together
 * become numbers of these. */
static void
read_arguments(Server *s, Apply *a, const RtPart *part, RtArchive *in)
{
    const RtRun *run = s->with.run;
    const IrFunc *fn = a->inv.fn->ir;
    for (int i = 0; i < a->inv.fn->num_in && !in->wrong; i++) {
        const RtValue *v = &a->values[i];
        size_t n = rt_value_bytes(v, run->locals[0].dims);
        size_t part_begin = rt_archive_begin_part(in);
        char *bytes = rt_archive_place(in, n);
        rt_archive_end_part(in, part_begin);
        if (!bytes || in->wrong)
            continue;
        if (fn->rows_only && i == fn->row_ids)
            a->rows = rt_rows_number(in->arena, bytes, v->dtype,
                                     rt_value_count(v, run->locals[0].dims),
                                     part->rows);
        rt_copy_in(a->in[i], bytes, n);
        count_argument(s, a, i, n);
    }
}

/* In the memory of a slot. */
static void
move_to(Apply *a, RtDevicePtr slot)
{
    RtExecutor *replica = a->inv.executor;
    replica->base = replica->shared = slot;
    a->inv.call.base = a->inv.call.shared = rt_ptr_address(slot);
}

/* On replica 0, which nobody waits for. */
static int32_t
execute(Apply *a)
{
    RtExecutor *replica = a->inv.executor;
    RtDevice *d = replica->device;
    atomic_store_explicit(&a->inv.call.at, -1, memory_order_relaxed);
    atomic_store_explicit(&replica->running, &a->inv, memory_order_relaxed);
    replica->started = replica->met = 0;
    a->launch =
        (RtProgramLaunch){.program = a->inv.fn->number, .call = &a->inv.call};
    d->ops->launch_program(d->queues[QUEUE_COMPUTE], &a->launch);
    rt_event_wait(d->ops->record(d->queues[QUEUE_COMPUTE]));
    atomic_store_explicit(&replica->running, NULL, memory_order_relaxed);
    return a->launch.status;
}

/* Why an update failed, as the coordinator will say it. */
static void
note_failure(Server *s, const RtUpdate *u)
{
    RtRun *run = s->with.run;
    RtFault *f = &run->locals[0].fault;
    if (!f->op) {
        s->failure = "an update was stopped";
        return;
    }
    Status st = rt_fault_in_words(run, f);
    Str text = str_new(s->arena);
    str_addf(&text, "%s\n%s", status_message(st), status_lines(st));
    str_addf(&text, "note: on server %d, in an update of \"%s\"\n", s->index,
             run->module->vars.data[u->writes.data[0]]->name);
    s->failure = str_text(&text);
    status_free(st);
}

static void
copy_row(const Server *s, RtDevicePtr to, RtDevicePtr from, size_t n)
{
    RtDevice *d = s->with.run->locals[0].device;
    char *host = rt_ptr_host(to);
    if (host)
        memcpy(host, rt_ptr_host(from), n);
    else
        d->ops->copy(d->queues[QUEUE_COMPUTE], to, from, n);
}

/* The rows of var that an update needs, between a part and where they are put
 * together. */
static void
copy_rows(const Server *s, const RtRows *rows, const RtPart *part, bool back)
{
    size_t at = (size_t)s->with.run->module->vars.data[part->var]->place.offset;
    size_t n = (size_t)(part->bytes / part->rows);
    RtDevicePtr of_part = rt_ptr_add(s->slots[part->slot], at);
    RtDevicePtr of_rows = rt_ptr_add(s->together, at);
    for (int64_t i = 0; i < rows->num; i++) {
        RtDevicePtr one = rt_ptr_add(of_part, (size_t)rows->rows[i] * n);
        RtDevicePtr other = rt_ptr_add(of_rows, (size_t)i * n);
        if (back)
            copy_row(s, one, other, n);
        else
            copy_row(s, other, one, n);
    }
}

static const RtPart *
part_of(const Server *s, int var, int64_t k)
{
    const RtPlacement *p = s->with.placement;
    return &p->parts.data[p->first_part[var] + k];
}

static int32_t
execute_on_rows(Server *s, Apply *a, const RtUpdate *u, int64_t k)
{
    for (int i = 0; i < u->uses.len; i++)
        copy_rows(s, &a->rows, part_of(s, u->uses.data[i], k), false);
    move_to(a, s->together);
    int32_t end = execute(a);
    for (int i = 0; i < u->writes.len && end == EXEC_OK; i++)
        copy_rows(s, &a->rows, part_of(s, u->writes.data[i], k), true);
    return end;
}

static void
apply(Server *s, int64_t update, int64_t k, RtArchive *in)
{
    RtRun *run = s->with.run;
    const RtPlacement *p = s->with.placement;
    const RtUpdate *u = &p->updates.data[update];
    const RtPart *part = rt_update_part(p, u, k);
    Apply *a = &s->applies[update];
    rt_ps_batches(run, &run->locals[0], in);
    read_arguments(s, a, part, in);
    if (in->wrong || s->failure)
        return;
    move_to(a, s->slots[part->slot]);
    int32_t end =
        u->fn->ir->rows_only ? execute_on_rows(s, a, u, k) : execute(a);
    if (end != EXEC_OK)
        note_failure(s, u);
    move_to(a, s->slots[0]);
    for (int i = 0; i < u->writes.len; i++)
        s->versions[p->first_part[u->writes.data[i]] + k]++;
}

/* Rows of a part get the bytes that come, without a program. */
static void
set(Server *s, const RtPart *part, RtArchive *in)
{
    const IrVar *v = s->with.run->module->vars.data[part->var];
    size_t each = (size_t)(part->bytes / part->rows);
    int64_t first, num;
    rt_archive_i64(in, &first, 0, part->rows);
    rt_archive_i64(in, &num, 0, part->rows - first);
    size_t n = (size_t)num * each, part_begin = rt_archive_begin_part(in);
    const char *bytes = rt_archive_place(in, n);
    rt_archive_end_part(in, part_begin);
    if (in->wrong || s->failure)
        return;
    RtDevicePtr at = rt_ptr_add(s->slots[part->slot],
                                (size_t)v->place.offset + (size_t)first * each);
    if (bytes && n)
        rt_copy_in(at, bytes, n);
    s->versions[part - s->with.placement->parts.data]++;
    rt_ps_count_traffic(&s->traffic, RT_TRAFFIC_pushed_parts, n, first == 0);
}

/* One update of a part; false if the message is damaged, or that is not here.
 */
static bool
apply_next(Server *s, RtArchive *in)
{
    const RtPlacement *p = s->with.placement;
    int64_t update, k;
    if (!p->updates.len)
        return false;
    rt_archive_i64(in, &update, 0, p->updates.len - 1);
    if (in->wrong)
        return false;
    const RtUpdate *u = &p->updates.data[update];
    rt_archive_i64(in, &k, 0, u->num_parts - 1);
    if (in->wrong || rt_update_part(p, u, k)->server != s->index)
        return false;
    if (u->is_set)
        set(s, rt_update_part(p, u, k), in);
    else
        apply(s, update, k, in);
    return !in->wrong;
}

/* ---- requests ----------------------------------------------------------- */

static void
begin_answer(Server *s, RtPsType type, RtPsRequest head)
{
    rt_ps_begin(&s->out, type);
    rt_ps_request(&s->out, &head);
}

static void
acknowledge(Server *s, const RtPsRoute *to, RtPsRequest head,
            const char *failure)
{
    const char *error = failure ? failure : "";
    begin_answer(s, RT_PS_ACK, head);
    rt_archive_text(&s->out, &error);
    rt_ps_send_to(s->with.listener, to, &s->out);
}

static void
acknowledge_held(Server *s)
{
    for (int i = 0; i < s->num_held; i++)
        acknowledge(s, &s->held[i].to, s->held[i].head, s->held[i].failure);
    s->num_held = 0;
}

static void
hold(Server *s, const RtPsRoute *to, RtPsRequest head)
{
    if (s->num_held == MOST_HELD)
        acknowledge_held(s);
    s->held[s->num_held++] = (Held){*to, head, s->failure};
}

/* What is before a damage is applied. */
static void
apply_all(Server *s, RtArchive *in)
{
    while (in->at < in->len && apply_next(s, in))
        ;
    if ((in->wrong || in->at < in->len) && !s->failure)
        s->failure = MESSAGE("the updates of a closure are damaged");
}

/* Once, until it is committed or its closure has ended without it. */
static void
stage(Server *s, const RtArchive *in, const RtPsRoute *from, RtPsRequest head,
      int64_t clock, int64_t attempt)
{
    RtStagedPush p = {.id = head.id,
                      .attempt = attempt,
                      .from = *from,
                      .head = head,
                      .clock = clock,
                      .bytes = in->data + in->at,
                      .len = in->len - in->at};
    if (!rt_staging_has(&s->staging, head.id, attempt))
        rt_staging_add(&s->staging, &p);
    begin_answer(s, RT_PS_STAGED, head);
    rt_ps_send_to(s->with.listener, from, &s->out);
}

/* others: closures of the same round that are applied just before. */
static void
apply_staged(Server *s, const RtStagedPush *p, int64_t others)
{
    Arena *scratch = arena_new(NULL, "a staged push");
    RtArchive in = rt_archive_reader(scratch, p->bytes, p->len);
    if (!rt_meter_admits(&s->meter, p->clock) && !s->failure)
        s->failure = "a closure was committed that is staler than --staleness";
    apply_all(s, &in);
    rt_meter_push(&s->meter,
                  p->clock == RT_PS_NO_PULL ? p->clock : p->clock + others,
                  p->len);
    arena_release(scratch);
}

/* One attempt of a closure counts here, if it has pushed; whoever has pushed
 * one is told that the closure is applied. */
static void
commit(Server *s, int64_t id, int64_t attempt, int64_t others)
{
    RtStagedPush *all = rt_staging_take(&s->staging, id);
    bool is_new = !rt_applied_has(&s->applied, id);
    rt_applied_add(&s->applied, id);
    for (RtStagedPush *p = all; is_new && p; p = p->next)
        if (p->attempt == attempt)
            apply_staged(s, p, others);
    for (RtStagedPush *p = all; p; p = p->next)
        acknowledge(s, &p->from, p->head, NULL);
    rt_staged_free(all);
}

static void
on_commit(Server *s, RtArchive *in)
{
    RtPsCommit c;
    rt_ps_commit(in, &c);
    if (!rt_ps_is_good(in) || c.number > s->last_commit + 1)
        return;
    rt_applied_advance(&s->applied, c.low);
    rt_staging_advance(&s->staging, c.low);
    int64_t begun = rt_meter_clock(&s->meter);
    for (int64_t i = 0; i < c.num && c.number > s->last_commit; i++)
        if (!rt_applied_is_beyond(&s->applied, c.ids[i]))
            commit(s, c.ids[i], c.attempts[i],
                   c.is_round ? rt_meter_clock(&s->meter) - begun : 0);
    if (c.number > s->last_commit)
        s->last_commit = c.number;
    RtPsCommitted answer = {.index = (uint32_t)s->index,
                            .number = c.number,
                            .error = s->failure ? s->failure : ""};
    rt_ps_begin(&s->out, RT_PS_COMMITTED);
    rt_ps_committed(&s->out, &answer);
    rt_ps_send(s->with.net, s->with.member->socket, &s->out);
}

static void
on_push(Server *s, RtArchive *in, const RtPsRoute *from, RtPsRequest head)
{
    int64_t low, clock, attempt;
    bool may_wait;
    rt_archive_i64(in, &low, 0, INT64_MAX);
    rt_archive_bool(in, &may_wait);
    rt_archive_i64(in, &clock, RT_PS_NO_PULL, rt_meter_clock(&s->meter));
    rt_archive_i64(in, &attempt, 0, INT64_MAX);
    if (in->wrong || low > head.id)
        return;
    rt_applied_advance(&s->applied, low);
    if (rt_applied_is_beyond(&s->applied, head.id))
        return;
    if (!rt_applied_has(&s->applied, head.id)) {
        if (attempt) {
            stage(s, in, from, head, clock, attempt);
            return;
        }
        if (!rt_meter_admits(&s->meter, clock))
            return;
        rt_applied_add(&s->applied, head.id);
        apply_all(s, in);
        rt_meter_push(&s->meter, clock, in->len);
    }
    if (may_wait)
        hold(s, from, head);
    else
        acknowledge(s, from, head, s->failure);
    s->has_answered |= !may_wait;
}

/* From a checkpoint, before anybody else comes. */
static void
on_set(Server *s, RtArchive *in, const RtPsRoute *from, RtPsRequest head)
{
    const RtPlacement *p = s->with.placement;
    int64_t part;
    if (!p->parts.len)
        return;
    rt_archive_i64(in, &part, 0, p->parts.len - 1);
    if (in->wrong || p->parts.data[part].server != s->index)
        return;
    if (head.number > s->last_set)
        set(s, &p->parts.data[part], in);
    if (in->wrong)
        return;
    if (head.number > s->last_set)
        s->last_set = head.number;
    acknowledge(s, from, head, s->failure);
}

static void
add_value(Server *s, const RtPart *part)
{
    const IrVar *v = s->with.run->module->vars.data[part->var];
    size_t n = (size_t)part->bytes;
    RtDevicePtr at = rt_ptr_add(s->slots[part->slot], (size_t)v->place.offset);
    rt_copy_out(rt_archive_place(&s->out, n), at, n);
    rt_ps_count_traffic(&s->traffic, RT_TRAFFIC_pulled_parts, n, 1);
}

static void
get_row(char *to, RtDevicePtr from, size_t n)
{
    const char *host = rt_ptr_host(from);
    if (host)
        memcpy(to, host, n);
    else
        rt_copy_out(to, from, n);
}

/* Rows of a part, whose numbers are in *in. */
static void
add_rows(Server *s, const RtPart *part, RtArchive *in)
{
    const IrVar *v = s->with.run->module->vars.data[part->var];
    size_t n = (size_t)(part->bytes / part->rows);
    RtDevicePtr at = rt_ptr_add(s->slots[part->slot], (size_t)v->place.offset);
    int64_t num, row;
    rt_archive_count(in, &num, INT64_MAX, sizeof row);
    for (int64_t i = 0; i < num && !in->wrong; i++) {
        rt_archive_i64(in, &row, 0, part->rows - 1);
        if (!in->wrong)
            get_row(rt_archive_place(&s->out, n),
                    rt_ptr_add(at, (size_t)row * n), n);
    }
    rt_ps_count_traffic(&s->traffic, RT_TRAFFIC_pulled_rows,
                        (size_t)num * (n + sizeof row), num);
}

/* The parts that have changed, or rows of them, each behind its number and
 * version. */
static void
on_pull(Server *s, RtArchive *in, const RtPsRoute *from, RtPsRequest head)
{
    const RtPlacement *p = s->with.placement;
    int64_t clock = rt_meter_clock(&s->meter);
    begin_answer(s, RT_PS_VALUES, head);
    rt_archive_i64(&s->out, &clock, 0, INT64_MAX);
    while (in->at < in->len) {
        int64_t i, has;
        if (!p->parts.len)
            return;
        rt_archive_i64(in, &i, 0, p->parts.len - 1);
        rt_archive_i64(in, &has, RT_PS_ROWS, INT64_MAX);
        if (in->wrong || p->parts.data[i].server != s->index)
            return;
        bool are_rows = has == RT_PS_ROWS;
        rt_archive_i64(&s->out, &i, 0, INT64_MAX);
        rt_archive_i64(&s->out, are_rows ? &has : &s->versions[i], RT_PS_ROWS,
                       INT64_MAX);
        if (are_rows)
            add_rows(s, &p->parts.data[i], in);
        else if (has != s->versions[i])
            add_value(s, &p->parts.data[i]);
    }
    if (in->wrong)
        return;
    s->has_answered = true;
    rt_meter_pull(&s->meter, s->out.len);
    rt_ps_send_to(s->with.listener, from, &s->out);
}

static void
on_count(Server *s, const RtPsRoute *from, RtPsRequest head)
{
    const RtPsLoad *l = &s->meter.load;
    memcpy(s->traffic.staleness, l->staleness, sizeof l->staleness);
    s->traffic.stalest = l->stalest;
    s->traffic.refused = l->refused;
    begin_answer(s, RT_PS_COUNTED, head);
    rt_ps_traffic(&s->out, &s->traffic);
    rt_ps_send_to(s->with.listener, from, &s->out);
}

static void
answer(Server *s, RtPsType type, RtArchive *in, const RtPsRoute *from,
       RtPsRequest head)
{
    if (type == RT_PS_PULL)
        on_pull(s, in, from, head);
    else if (type == RT_PS_PUSH)
        on_push(s, in, from, head);
    else if (type == RT_PS_SET)
        on_set(s, in, from, head);
    else if (type == RT_PS_COUNT)
        on_count(s, from, head);
}

static void
take_request(Server *s, const RtPsRoute *from, zmq_msg_t *m)
{
    RtArchive in;
    RtPsRequest head;
    Arena *scratch = arena_new(NULL, "a request");
    const RtZmq *z = s->with.net->zmq;
    RtPsType type =
        rt_ps_read(&in, scratch, z->zmq_msg_data(m), z->zmq_msg_size(m));
    rt_ps_request(&in, &head);
    if (!in.wrong && head.job == s->with.member->job)
        answer(s, type, &in, from, head);
    arena_release(scratch);
}

/* ---- turns -------------------------------------------------------------- */

/* Whether there was one. */
static bool
take_requests(Server *s)
{
    enum { MOST_AT_ONCE = 1000 };
    RtPsRoute from;
    zmq_msg_t m;
    double begun = rt_seconds();
    int num = 0;
    s->with.net->zmq->zmq_msg_init(&m);
    while (num < MOST_AT_ONCE && rt_ps_next_from(s->with.listener, &from, &m)) {
        take_request(s, &from, &m);
        num++;
    }
    s->with.net->zmq->zmq_msg_close(&m);
    s->busy += rt_seconds() - begun;
    return num > 0;
}

/* What is held goes with the answers of this turn or of the next one, or when
 * none came for a while. */
static void
take_turn(Server *s)
{
    int before = s->num_held;
    s->has_answered = false;
    bool any = take_requests(s);
    if (before || !any || s->has_answered)
        acknowledge_held(s);
}

static void
tell_load(Server *s)
{
    double now = rt_seconds();
    RtPsLoad *l = &s->meter.load;
    if (now - s->load_sent < load_time)
        return;
    s->load_sent = now;
    l->at = (int64_t)(now * 1e6);
    l->busy = (int64_t)(s->busy * 1e6);
    rt_ps_begin(&s->out, RT_PS_LOAD);
    rt_ps_server_load(&s->out, l);
    rt_ps_send(s->with.net, s->with.member->socket, &s->out);
}

static void
receive(Server *s, zmq_msg_t *m)
{
    RtArchive in;
    Arena *scratch = arena_new(NULL, "a message");
    const RtZmq *z = s->with.net->zmq;
    RtPsType type =
        rt_ps_read(&in, scratch, z->zmq_msg_data(m), z->zmq_msg_size(m));
    s->with.member->heard = rt_seconds();
    if (type == RT_PS_END)
        s->has_ended = true;
    else if (type == RT_PS_COMMIT)
        on_commit(s, &in);
    else if (type == RT_PS_REFUSED && !s->refused)
        s->refused = rt_ps_member_refused(s->with.member, &in);
    arena_release(scratch);
}

static void
listen_to_coordinator(Server *s)
{
    RtPsMember *member = s->with.member;
    zmq_msg_t m;
    s->with.net->zmq->zmq_msg_init(&m);
    while (rt_ps_next(s->with.net, member->socket, &m))
        receive(s, &m);
    s->with.net->zmq->zmq_msg_close(&m);
    rt_ps_member_greet(member);
}

static Status
serve(Server *s)
{
    RtPsListener *l = s->with.listener;
    zmq_pollitem_t items[] = {{l->router, 0, ZMQ_POLLIN, 0},
                              {s->with.member->socket, 0, ZMQ_POLLIN, 0},
                              {l->zap, 0, ZMQ_POLLIN, 0}};
    while (!s->has_ended) {
        s->with.net->zmq->zmq_poll(items, l->zap ? 3 : 2,
                                   s->num_held ? HELD_MS : TURN_MS);
        take_turn(s);
        listen_to_coordinator(s);
        tell_load(s);
        if (s->refused)
            return s->refused;
        TRY(rt_ps_member_check(s->with.member));
    }
    status_free(s->refused);
    return OK;
}

static Status
open_slot(const Server *s, RtDevicePtr *out)
{
    RtRun *run = s->with.run;
    RtDevice *d = run->locals[0].device;
    const RtMemory *memory;
    TRY(d->ops->alloc(d, (size_t)run->arena_bytes, 0, false, &memory));
    *out = (RtDevicePtr){memory, 0};
    return OK;
}

static bool
puts_rows_together(const RtPlacement *p)
{
    for (int i = 0; i < p->updates.len; i++)
        if (p->updates.data[i].fn->ir->rows_only)
            return true;
    return false;
}

/* The first slot is the arena; others are like it, and only what a part has is
 * ever touched. */
static Status
open_slots(Server *s)
{
    int num = rt_server_slots(s->with.placement, s->index);
    s->slots = NEW_ARRAY(s->arena, RtDevicePtr, (size_t)num);
    s->slots[0] = s->with.run->locals[0].base;
    for (int i = 1; i < num; i++)
        TRY(open_slot(s, &s->slots[i]));
    return puts_rows_together(s->with.placement) ? open_slot(s, &s->together)
                                                 : OK;
}

static void
init(Server *s)
{
    const RtPlacement *p = s->with.placement;
    Arena *a = s->arena;
    s->out = rt_archive_writer(a, 0);
    s->applies = NEW_ARRAY(a, Apply, (size_t)p->updates.len);
    s->versions = NEW_ARRAY(a, int64_t, (size_t)p->parts.len);
    for (int i = 0; i < p->parts.len; i++)
        s->versions[i] = 1;
    for (int i = 0; i < p->updates.len; i++)
        init_apply(s, &s->applies[i], &p->updates.data[i]);
    s->meter = (RtPsMeter){.bound = s->with.staleness};
    s->meter.load.index = (uint32_t)s->index;
    s->meter.load.variables = rt_server_bytes(p, s->index);
}

Status
rt_ps_serve(const RtServing *serving)
{
    Arena *a = arena_new(NULL, "a server");
    Server *s = NEW(a, Server);
    s->with = *serving;
    s->arena = a;
    s->index = serving->member->config.task->index;
    Status st = open_slots(s);
    if (!st) {
        init(s);
        st = serve(s);
    }
    rt_staging_advance(&s->staging, INT64_MAX);
    arena_release(a);
    return st;
}
