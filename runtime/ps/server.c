/*
 * server.c - a server: holds variables, and executes updates of them
 *
 * One thread does all in turns: what a closure pushes is applied in one of
 * them, so whoever pulls sees all of it or nothing.  A variable's version
 * counts its changes; who has the current one is not sent it again.
 */
#include "runtime/ps/server_impl.h"

#include <string.h>
#include "ir/base/clock.h"
#include "ir/base/message.h"
#include "runtime/exec/end.h"
#include "runtime/exec/watchdog.h"

enum { TURN_MS = 50, HELD_MS = 1 };

static const double load_time = 0.2; /* seconds from one LOAD to the next */

/* ---- requests ----------------------------------------------------------- */

static void
begin_answer(RtArchive *out, RtPsType type, RtPsRequest head)
{
    rt_ps_begin(out, type);
    rt_ps_request(out, &head);
}

static void
write_ack(RtArchive *out, RtPsRequest head, const char *failure)
{
    const char *error = failure ? failure : "";
    begin_answer(out, RT_PS_ACK, head);
    rt_archive_text(out, &error);
}

static void
acknowledge(RtServer *s, const RtPsRoute *to, RtPsRequest head,
            const char *failure)
{
    write_ack(&s->out, head, failure);
    rt_ps_send_to(s->with.listener, to, &s->out);
}

static void
acknowledge_held(RtServer *s)
{
    for (int i = 0; i < s->num_held; i++)
        acknowledge(s, &s->held[i].to, s->held[i].head, s->held[i].failure);
    s->num_held = 0;
}

static bool
is_held_for(const RtServer *s, const RtPsRoute *to)
{
    for (int i = 0; i < s->num_held; i++)
        if (rt_ps_is_route(&s->held[i].to, to))
            return true;
    return false;
}

/* Those that wait for an answer to this peer go with it. */
static void
add_held(RtServer *s, const RtPsRoute *to)
{
    int left = 0;
    for (int i = 0; i < s->num_held; i++) {
        RtHeldAck *h = &s->held[i];
        if (!rt_ps_is_route(&h->to, to)) {
            s->held[left++] = *h;
            continue;
        }
        write_ack(&s->ack, h->head, h->failure);
        rt_ps_add(&s->out, &s->ack);
    }
    s->num_held = left;
}

static void
hold(RtServer *s, const RtPsRoute *to, RtPsRequest head)
{
    if (s->num_held == RT_SERVER_MOST_HELD)
        acknowledge_held(s);
    s->held[s->num_held++] = (RtHeldAck){*to, head, s->failure};
}

/* What is before a damage is applied. */
static void
apply_all(RtServer *s, RtArchive *in)
{
    while (in->at < in->len && rt_server_apply_next(s, in))
        ;
    if ((in->wrong || in->at < in->len) && !s->failure)
        s->failure = MESSAGE("the updates of a closure are damaged");
}

/* Once, until it is committed or its closure has ended without it. */
static void
stage(RtServer *s, const RtArchive *in, const RtPsRoute *from, RtPsRequest head,
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
    begin_answer(&s->out, RT_PS_STAGED, head);
    rt_ps_send_to(s->with.listener, from, &s->out);
}

/* others: closures of the same round that are applied just before. */
static void
apply_staged(RtServer *s, const RtStagedPush *p, int64_t others)
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
commit(RtServer *s, int64_t id, int64_t attempt, int64_t others)
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
on_commit(RtServer *s, RtArchive *in)
{
    RtPsCommit c;
    rt_ps_commit(in, &c);
    if (rt_ps_is_good(in) && c.number > s->last_commit + 1)
        rt_ps_reject(in, "the batch before it is not there");
    if (in->wrong)
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
    rt_ps_send(s->with.net, &s->with.member->socket, &s->out);
}

static void
on_push(RtServer *s, RtArchive *in, const RtPsRoute *from, RtPsRequest head)
{
    int64_t low, clock, attempt;
    bool may_wait;
    rt_archive_i64(in, &low, 0, INT64_MAX);
    rt_archive_bool(in, &may_wait);
    rt_archive_i64(in, &clock, RT_PS_NO_PULL, rt_meter_clock(&s->meter));
    rt_archive_i64(in, &attempt, 0, INT64_MAX);
    if (low > head.id)
        rt_ps_reject(in, "its closure has ended");
    if (in->wrong)
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
on_set(RtServer *s, RtArchive *in, const RtPsRoute *from, RtPsRequest head)
{
    const RtPlacement *p = s->with.placement;
    int64_t part;
    if (!p->parts.len)
        return;
    rt_archive_i64(in, &part, 0, p->parts.len - 1);
    if (p->parts.data[part].server != s->index)
        rt_ps_reject(in, "it is for another server");
    if (in->wrong)
        return;
    if (head.number > s->last_set)
        rt_server_set(s, &p->parts.data[part], in);
    if (in->wrong)
        return;
    if (head.number > s->last_set)
        s->last_set = head.number;
    acknowledge(s, from, head, s->failure);
}

static void
add_value(RtServer *s, const RtPart *part)
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
add_rows(RtServer *s, const RtPart *part, RtArchive *in)
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
 * version; false if the message is damaged. */
static bool
write_values(RtServer *s, RtArchive *in)
{
    const RtPlacement *p = s->with.placement;
    while (in->at < in->len) {
        int64_t i, has;
        if (!p->parts.len)
            return false;
        rt_archive_i64(in, &i, 0, p->parts.len - 1);
        rt_archive_i64(in, &has, RT_PS_ROWS, INT64_MAX);
        if (p->parts.data[i].server != s->index)
            rt_ps_reject(in, "it is for another server");
        if (in->wrong)
            return false;
        bool are_rows = has == RT_PS_ROWS;
        rt_archive_i64(&s->out, &i, 0, INT64_MAX);
        rt_archive_i64(&s->out, are_rows ? &has : &s->versions[i], RT_PS_ROWS,
                       INT64_MAX);
        if (are_rows)
            add_rows(s, &p->parts.data[i], in);
        else if (has != s->versions[i])
            add_value(s, &p->parts.data[i]);
    }
    return !in->wrong;
}

/* The answer is in s->out then, from *begin on. */
static bool
write_pulled(RtServer *s, RtArchive *in, RtPsRequest head)
{
    uint32_t type = RT_PS_VALUES;
    int64_t clock = rt_meter_clock(&s->meter);
    rt_archive_u32(&s->out, &type);
    rt_ps_request(&s->out, &head);
    rt_archive_i64(&s->out, &clock, 0, INT64_MAX);
    return write_values(s, in);
}

static void
on_pull(RtServer *s, RtArchive *in, const RtPsRoute *from, RtPsRequest head)
{
    bool several = is_held_for(s, from);
    size_t part = 0, before;
    rt_archive_clear(&s->out);
    if (several) {
        rt_ps_begin(&s->out, RT_PS_SEVERAL);
        part = rt_archive_begin_part(&s->out);
    }
    before = s->out.len;
    if (!write_pulled(s, in, head))
        return;
    rt_meter_pull(&s->meter, s->out.len - before);
    if (several) {
        rt_archive_end_part(&s->out, part);
        add_held(s, from);
    }
    s->has_answered = true;
    rt_ps_send_to(s->with.listener, from, &s->out);
}

static void
on_count(RtServer *s, const RtPsRoute *from, RtPsRequest head)
{
    const RtPsLoad *l = &s->meter.load;
    memcpy(s->traffic.staleness, l->staleness, sizeof l->staleness);
    s->traffic.stalest = l->stalest;
    s->traffic.refused = l->refused;
    begin_answer(&s->out, RT_PS_COUNTED, head);
    rt_ps_traffic(&s->out, &s->traffic);
    rt_ps_send_to(s->with.listener, from, &s->out);
}

static void
answer(RtServer *s, RtPsType type, RtArchive *in, const RtPsRoute *from,
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
    else
        rt_ps_reject(in, "it is no request");
}

/* Who has asked from there before. */
static void
note_peer(RtServer *s, const RtPsRequest *head, const RtPsRoute *from)
{
    int i = head->role == RT_ROLE_coordinator ? 0 : 1 + (int)head->index;
    while (s->peers.len <= i)
        VEC_PUSH(s->arena, s->peers, (RtPsRoute){0});
    s->peers.data[i] = *from;
}

static void
blame(RtServer *s, RtPsType type, const RtPsRoute *from)
{
    uint32_t role = RT_ROLE_alone;
    int i = 0;
    while (i < s->peers.len && !rt_ps_is_route(&s->peers.data[i], from))
        i++;
    if (i < s->peers.len)
        role = i ? RT_ROLE_worker : RT_ROLE_coordinator;
    rt_ps_blame(s->with.net, role, (uint32_t)i - 1, type);
}

static void
take_request(RtServer *s, RtPsType type, RtArchive *in, const RtPsRoute *from)
{
    RtPsRequest head;
    rt_ps_request(in, &head);
    if (!in->wrong && head.job != s->with.member->job)
        return; /* it is left of another job */
    if (!in->wrong) {
        note_peer(s, &head, from);
        answer(s, type, in, from, head);
    }
    if (in->wrong && !s->failure) /* which ends the job */
        blame(s, type, from);
}

static void
take_message(RtServer *s, const RtPsRoute *from, zmq_msg_t *m)
{
    RtArchive in, one;
    Arena *scratch = arena_new(NULL, "a request");
    const RtZmq *z = s->with.net->zmq;
    RtPsType type =
        rt_ps_read(&in, scratch, z->zmq_msg_data(m), z->zmq_msg_size(m));
    if (type != RT_PS_SEVERAL) {
        take_request(s, type, &in, from);
    } else {
        while (rt_ps_take(&in, scratch, &one, &type))
            take_request(s, type, &one, from);
        if (in.wrong)
            blame(s, RT_PS_SEVERAL, from);
    }
    arena_release(scratch);
}

/* ---- turns -------------------------------------------------------------- */

/* Whether there was one. */
static bool
take_requests(RtServer *s)
{
    enum { MOST_AT_ONCE = 1000 };
    RtPsRoute from;
    zmq_msg_t m;
    double begun = clock_seconds();
    int num = 0;
    s->with.net->zmq->zmq_msg_init(&m);
    while (num < MOST_AT_ONCE && rt_ps_next_from(s->with.listener, &from, &m)) {
        take_message(s, &from, &m);
        rt_guard_turn(s->with.member->config.guard);
        num++;
    }
    s->with.net->zmq->zmq_msg_close(&m);
    s->busy += clock_seconds() - begun;
    return num > 0;
}

/* What is held goes with the answers of this turn or of the next one, or when
 * none came for a while. */
static void
take_turn(RtServer *s)
{
    int before = s->num_held;
    s->has_answered = false;
    bool any = take_requests(s);
    if (before || !any || s->has_answered)
        acknowledge_held(s);
}

static void
tell_load(RtServer *s)
{
    double now = clock_seconds();
    RtPsLoad *l = &s->meter.load;
    if (now - s->load_sent < load_time)
        return;
    s->load_sent = now;
    l->at = (int64_t)(now * 1e6);
    l->busy = (int64_t)(s->busy * 1e6);
    rt_ps_begin(&s->out, RT_PS_LOAD);
    rt_ps_server_load(&s->out, l);
    rt_ps_send(s->with.net, &s->with.member->socket, &s->out);
}

static void
take(RtServer *s, RtPsType type, RtArchive *in)
{
    switch (type) {
    case RT_PS_END:
        s->has_ended = true;
        break;
    case RT_PS_COMMIT:
        on_commit(s, in);
        break;
    case RT_PS_REFUSED:
        if (!s->refused)
            s->refused = rt_ps_member_refused(s->with.member, in);
        break;
    case RT_PS_WAIT:
    case RT_PS_WELCOME: /* it has joined */
        break;
    default:
        rt_ps_reject(in, "it is for somebody else");
    }
}

static void
receive(RtServer *s, zmq_msg_t *m)
{
    RtArchive in;
    Arena *scratch = arena_new(NULL, "a message");
    const RtZmq *z = s->with.net->zmq;
    RtPsType type =
        rt_ps_read(&in, scratch, z->zmq_msg_data(m), z->zmq_msg_size(m));
    s->with.member->heard = clock_seconds();
    take(s, type, &in);
    if (in.wrong)
        rt_ps_blame(s->with.net, RT_ROLE_coordinator, 0, type);
    arena_release(scratch);
}

static void
listen_to_coordinator(RtServer *s)
{
    RtPsMember *member = s->with.member;
    zmq_msg_t m;
    s->with.net->zmq->zmq_msg_init(&m);
    while (member->socket.has_news &&
           rt_ps_next(s->with.net, &member->socket, &m))
        receive(s, &m);
    s->with.net->zmq->zmq_msg_close(&m);
    rt_ps_member_greet(member);
}

static Status
serve(RtServer *s)
{
    RtPsListener *l = s->with.listener;
    RtPsSocket *sockets[] = {&l->router, &l->zap, &s->with.member->socket};
    while (!s->has_ended) {
        rt_ps_poll(s->with.net, sockets, 3, s->num_held ? HELD_MS : TURN_MS);
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
open_slot(const RtServer *s, RtDevicePtr *out)
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
open_slots(RtServer *s)
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
init(RtServer *s)
{
    const RtPlacement *p = s->with.placement;
    Arena *a = s->arena;
    s->out = rt_archive_writer(a, 0);
    s->ack = rt_archive_writer(a, 0);
    s->applies = NEW_ARRAY(a, RtApply, (size_t)p->updates.len);
    s->versions = NEW_ARRAY(a, int64_t, (size_t)p->parts.len);
    for (int i = 0; i < p->parts.len; i++)
        s->versions[i] = 1;
    for (int i = 0; i < p->updates.len; i++)
        rt_server_init_apply(s, &s->applies[i], &p->updates.data[i]);
    s->meter = (RtPsMeter){.bound = s->with.staleness};
    s->meter.load.index = (uint32_t)s->index;
    s->meter.load.variables = rt_server_bytes(p, s->index);
}

Status
rt_ps_serve(const RtServing *serving)
{
    Arena *a = arena_new(NULL, "a server");
    RtServer *s = NEW(a, RtServer);
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
