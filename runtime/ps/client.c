/*
 * client.c - how main and workers use the servers' variables
 *
 * Messages to a server arrive in order, so a pull after a push sees it, though
 * the push was not acknowledged yet.
 */
#include "runtime/ps/client_impl.h"

#include <assert.h>
#include <string.h>
#include "ir/analysis/per_replica.h"
#include "ir/base/clock.h"
#include "ir/base/minmax.h"
#include "runtime/exec/end.h"
#include "runtime/exec/watchdog.h"
#include "runtime/data/data.h"
#include "runtime/ps/parts/cut.h"

static const double again = 1; /* seconds until a request is sent again */

enum {
    WAIT_MS = 50,
    LITTLE = 1 << 15, /* bytes that are worth waiting for what follows */
};

/* ---- requests ----------------------------------------------------------- */

void
rt_client_begin_request(RtPsClient *c, RtPsSent *q, RtPsType type, int64_t id)
{
    const RtTaskOptions *task = c->run->options->task;
    RtPsRequest head = {.job = c->job,
                        .number = ++c->number,
                        .id = id,
                        .role = task->role,
                        .index = (uint32_t)task->index};
    q->number = head.number;
    rt_ps_begin(&q->bytes, type);
    rt_ps_request(&q->bytes, &head);
}

static void
send_request(RtPsClient *c, int server, RtPsSent *q)
{
    q->at = clock_seconds();
    rt_ps_send(c->net, &c->servers[server].socket, &q->bytes);
}

static void
send_again(RtPsClient *c, int server, RtPsSent *q)
{
    if (q->number && clock_seconds() - q->at > again)
        send_request(c, server, q);
}

/* ---- pulls -------------------------------------------------------------- */

static void
set_part(RtPsClient *c, const RtPart *part, RtArchive *in)
{
    RtRun *run = c->run;
    const IrVar *v = run->module->vars.data[part->var];
    int step = ir_var_is_shared(v) ? run->replicas_each : 1;
    size_t n = (size_t)part->bytes;
    size_t at = (size_t)(v->place.offset + part->offset);
    const char *bytes = rt_archive_place(in, n);
    for (int i = 0; bytes && i < run->num_local; i += step)
        rt_copy_in(rt_ptr_add(run->locals[i].base, at), bytes, n);
}

/* Between the arena of a replica and a message; on the host no device need be
 * asked. */
static void
set_row(RtDevicePtr to, const char *bytes, size_t n)
{
    char *host = rt_ptr_host(to);
    if (host)
        memcpy(host, bytes, n);
    else
        rt_copy_in(to, bytes, n);
}

static void
set_rows(RtPsClient *c, const RtPsWantedRows *w, RtArchive *in)
{
    RtRun *run = c->run;
    const IrVar *v = run->module->vars.data[w->part->var];
    int step = ir_var_is_shared(v) ? run->replicas_each : 1;
    size_t n = (size_t)(w->part->bytes / w->part->rows);
    size_t at = (size_t)(v->place.offset + w->part->offset);
    const char *bytes = rt_archive_place(in, (size_t)w->num * n);
    for (int i = 0; bytes && i < run->num_local; i += step)
        for (int64_t k = 0; k < w->num; k++)
            set_row(
                rt_ptr_add(run->locals[i].base, at + (size_t)w->rows[k] * n),
                bytes + (size_t)k * n, n);
}

/* One part or some of its rows. */
static void
set_next(RtPsClient *c, RtPsServer *s, int *num_rows, RtArchive *in)
{
    int64_t part, version;
    rt_archive_i64(in, &part, 0, c->placement->parts.len - 1);
    rt_archive_i64(in, &version, RT_PS_ROWS, INT64_MAX);
    if (in->wrong)
        return;
    if (version == RT_PS_ROWS && *num_rows == s->wanted.len) {
        rt_ps_reject(in, "it has rows that nobody wants");
    } else if (version == RT_PS_ROWS) {
        set_rows(c, &s->wanted.data[(*num_rows)++], in);
    } else if (version != c->versions[part]) {
        set_part(c, &c->placement->parts.data[part], in);
        if (!in->wrong)
            c->versions[part] = version;
    }
}

static void
on_values(RtPsClient *c, int server, RtArchive *in, int64_t number)
{
    RtPsServer *s = &c->servers[server];
    int num_rows = 0, num = 0;
    if (s->pull.number != number)
        return; /* it was sent twice */
    rt_archive_i64(in, &s->clock, 0, INT64_MAX);
    for (; in->at < in->len && !in->wrong; num++)
        set_next(c, s, &num_rows, in);
    if (num != s->num_wanted)
        rt_ps_reject(in, "it has not what was asked for");
    if (!in->wrong)
        s->pull.number = 0;
}

static void
on_counted(RtPsClient *c, int server, RtArchive *in, int64_t number)
{
    RtPsTraffic t;
    RtPsSent *q = &c->servers[server].pull;
    rt_ps_traffic(in, &t);
    if (q->number != number || !rt_ps_is_good(in))
        return;
    q->number = 0;
    for (int i = 0; i < RT_NUM_TRAFFICS; i++)
        rt_ps_count_traffic(&c->traffic, (RtPsTrafficKind)i, (size_t)t.bytes[i],
                            t.units[i]);
    for (int i = 0; i < RT_PS_STALENESS_ROWS; i++)
        c->traffic.staleness[i] += t.staleness[i];
    if (t.stalest > c->traffic.stalest)
        c->traffic.stalest = t.stalest;
    c->traffic.refused += t.refused;
}

/* What is pulled from a server, to which more may be added. */
static RtArchive *
pull_from(RtPsClient *c, int server)
{
    RtPsServer *s = &c->servers[server];
    if (!s->pull.number) {
        rt_client_begin_request(c, &s->pull, RT_PS_PULL, 0);
        s->wanted.len = 0;
        s->num_wanted = 0;
    }
    s->num_wanted++;
    return &s->pull.bytes;
}

void
rt_client_want_part(RtPsClient *c, int64_t part)
{
    RtArchive *to = pull_from(c, c->placement->parts.data[part].server);
    rt_archive_i64(to, &part, 0, INT64_MAX);
    rt_archive_i64(to, &c->versions[part], 0, INT64_MAX);
}

void
rt_ps_want(RtPsClient *c, const int *vars, int num)
{
    const int *first = c->placement->first_part;
    for (int i = 0; i < num; i++)
        for (int k = first[vars[i]]; k < first[vars[i] + 1]; k++)
            rt_client_want_part(c, k);
}

void
rt_client_want_rows(RtPsClient *c, int64_t part, RtPsWantedRows *w)
{
    int64_t rows = RT_PS_ROWS;
    RtArchive *to = pull_from(c, w->part->server);
    VEC_PUSH(c->arena, c->servers[w->part->server].wanted, *w);
    rt_archive_i64(to, &part, 0, INT64_MAX);
    rt_archive_i64(to, &rows, RT_PS_ROWS, INT64_MAX);
    rt_archive_i64(to, &w->num, 0, INT64_MAX);
    rt_archive_bytes(to, w->rows, (size_t)w->num * sizeof *w->rows);
}

void
rt_ps_want_rows(RtPsClient *c, Arena *a, int var, const RtRows *rows)
{
    const int *first = &c->placement->first_part[var];
    const RtPart *parts = &c->placement->parts.data[first[0]];
    int num = first[1] - first[0];
    RtPsWantedRows *w = NEW_ARRAY(a, RtPsWantedRows, (size_t)num);
    int *of = NEW_ARRAY(a, int, (size_t)rows->num);
    for (int64_t i = 0; i < rows->num; i++) {
        of[i] = rt_part_with(parts, num, rows->rows[i]);
        w[of[i]].num++;
    }
    for (int k = 0; k < num; k++) {
        w[k].part = &parts[k];
        w[k].rows = NEW_ARRAY(a, int64_t, (size_t)w[k].num);
        w[k].num = 0;
    }
    for (int64_t i = 0; i < rows->num; i++) {
        RtPsWantedRows *to = &w[of[i]];
        to->rows[to->num++] = rows->rows[i] - to->part->first;
    }
    for (int k = 0; k < num; k++)
        if (w[k].num)
            rt_client_want_rows(c, first[0] + k, &w[k]);
}

static bool
has_values(const RtPsClient *c)
{
    for (int i = 0; i < c->num_servers; i++)
        if (c->servers[i].pull.number)
            return false;
    return true;
}

/* ---- pushes ------------------------------------------------------------- */

static RtPsPending *
pending(RtPsClient *c, int i)
{
    return &c->pending[(c->first + i) % RT_PS_MOST_PENDING];
}

void
rt_ps_begin_push(RtPsClient *c, int64_t id, int64_t attempt, int64_t low)
{
    assert(c->num_pending < RT_PS_MOST_PENDING && !c->is_pushing &&
           !c->is_held);
    RtPsPending *p = pending(c, c->num_pending++);
    p->id = id;
    p->attempt = attempt;
    p->is_told = false;
    p->open = 0;
    p->error = "";
    c->low = low;
    c->is_pushing = true;
    for (int i = 0; i < c->num_servers; i++) {
        p->pushes[i].num = 0;
        p->pushes[i].request.number = 0;
        p->pushes[i].is_staged = false;
    }
}

static void
begin_push_to(RtPsClient *c, RtPsPending *p, int server)
{
    RtPsPushed *push = &p->pushes[server];
    rt_client_begin_request(c, &push->request, RT_PS_PUSH, p->id);
    rt_archive_i64(&push->request.bytes, &c->low, 0, INT64_MAX);
    rt_archive_bool(&push->request.bytes, &c->expects_more);
    rt_archive_i64(&push->request.bytes, &c->servers[server].clock,
                   RT_PS_NO_PULL, INT64_MAX);
    rt_archive_i64(&push->request.bytes, &p->attempt, 0, INT64_MAX);
    p->open++;
}

static RtArchive *
push_to(RtPsClient *c, const RtCut *cut, const RtPart *part)
{
    RtPsPending *p = pending(c, c->num_pending - 1);
    RtPsPushed *push = &p->pushes[part->server];
    int64_t update = cut->push->update, k = part->k;
    if (!push->num++)
        begin_push_to(c, p, part->server);
    rt_archive_i64(&push->request.bytes, &update, 0, INT64_MAX);
    rt_archive_i64(&push->request.bytes, &k, 0, INT64_MAX);
    return &push->request.bytes;
}

static void
forget_clocks(RtPsClient *c)
{
    for (int i = 0; i < c->num_servers; i++)
        c->servers[i].clock = RT_PS_NO_PULL;
}

/* Sends what there is, and goes on under another id. */
static Status
push_anew(RtPsClient *c)
{
    int64_t id = pending(c, c->num_pending - 1)->id, low = c->low;
    rt_ps_end_push(c);
    Status st = rt_ps_flush(c);
    if (!st)
        st = c->next_id(c->ids, &id, &low);
    forget_clocks(c);
    rt_ps_begin_push(c, id, 0, low);
    return st;
}

/* What a part gets of what is set, so much at a time that a message is no
 * longer than a row or RT_PS_MUCH. */
static Status
set_part_of(RtPsClient *c, const RtCut *cut, const RtPart *part)
{
    int64_t most =
        c->next_id ? rt_part_rows_of_bytes(part, RT_PS_MUCH) : part->rows;
    for (int64_t first = 0; first < part->rows; first += most) {
        int64_t num = min_i64(most, part->rows - first);
        RtPsPushed *push =
            &pending(c, c->num_pending - 1)->pushes[part->server];
        if (c->next_id && push->num && push->request.bytes.len > RT_PS_MUCH)
            TRY(push_anew(c));
        rt_cut_write_rows(cut, part, first, num, push_to(c, cut, part));
    }
    return OK;
}

/* Each replica has the same. */
static Status
push_parts(RtPsClient *c, RtCut *cut)
{
    for (int k = 0; k < cut->update->num_parts; k++) {
        const RtPart *part = rt_update_part(c->placement, cut->update, k);
        if (cut->update->is_set)
            TRY(set_part_of(c, cut, part));
        else if (rt_cut_concerns(cut, k))
            rt_cut_write(cut, part, push_to(c, cut, part));
    }
    return OK;
}

int32_t
rt_ps_push(RtInvocation *inv, const RtHostOp *h)
{
    RtPsClient *c = inv->executor->run->ps_client;
    if (inv->executor->replica != 0)
        return EXEC_OK;
    assert(c->is_pushing);
    Arena *scratch = arena_new(NULL, "a push");
    RtCut cut = rt_cut_begin(scratch, inv, h, c->placement);
    Status st = push_parts(c, &cut);
    arena_release(scratch);
    return st ? rt_fault_status(inv, h, st) : EXEC_OK;
}

/* One that the coordinator commits is waited for before the next pull. */
static bool
may_be_held(const RtPsClient *c, const RtPsPending *p)
{
    size_t n = 0;
    for (int i = 0; i < c->num_servers; i++)
        if (p->pushes[i].num)
            n += p->pushes[i].request.bytes.len;
    return c->expects_more && !p->attempt && n <= LITTLE;
}

void
rt_ps_end_push(RtPsClient *c)
{
    RtPsPending *p = pending(c, c->num_pending - 1);
    c->is_pushing = false;
    c->is_held = may_be_held(c, p);
    for (int i = 0; i < c->num_servers; i++)
        if (c->is_held)
            p->pushes[i].request.at = clock_seconds();
        else if (p->pushes[i].num)
            send_request(c, i, &p->pushes[i].request);
}

/* What is held for a server; NULL: nothing. */
static RtPsSent *
held_for(RtPsClient *c, int server)
{
    if (!c->is_held)
        return NULL;
    RtPsSent *q = &pending(c, c->num_pending - 1)->pushes[server].request;
    return q->number ? q : NULL;
}

void
rt_ps_release(RtPsClient *c)
{
    for (int i = 0; i < c->num_servers; i++) {
        RtPsSent *q = held_for(c, i);
        if (q)
            send_request(c, i, q);
    }
    c->is_held = false;
}

static void
send_both(RtPsClient *c, int server, RtPsSent *push, RtPsSent *pull)
{
    rt_ps_begin(&c->several, RT_PS_SEVERAL);
    rt_ps_add(&c->several, &push->bytes);
    rt_ps_add(&c->several, &pull->bytes);
    push->at = pull->at = clock_seconds();
    rt_ps_send(c->net, &c->servers[server].socket, &c->several);
}

/* What is pulled from a server, behind what is held for it. */
static void
send_pull(RtPsClient *c, int server)
{
    RtPsSent *push = held_for(c, server), *pull = &c->servers[server].pull;
    if (push && pull->number)
        send_both(c, server, push, pull);
    else if (push || pull->number)
        send_request(c, server, push ? push : pull);
}

void
rt_ps_drop_push(RtPsClient *c)
{
    c->is_pushing = false;
    c->num_pending--;
}

static void
on_ack(RtPsClient *c, int server, RtArchive *in, int64_t number)
{
    const char *error = "";
    rt_ps_text(in, &error);
    if (!rt_ps_is_good(in))
        return;
    if (c->servers[server].pull.number == number)
        c->servers[server].pull.number = 0; /* rows are set */
    for (int i = 0; i < c->num_pending; i++) {
        RtPsPending *p = pending(c, i);
        RtPsSent *q = &p->pushes[server].request;
        if (q->number != number)
            continue;
        q->number = 0;
        p->open--;
        if (*error && !*p->error)
            p->error = arena_strdup(c->arena, error);
        return;
    }
}

static void
on_staged(RtPsClient *c, int server, int64_t number)
{
    for (int i = 0; i < c->num_pending; i++) {
        RtPsPushed *p = &pending(c, i)->pushes[server];
        if (p->request.number == number)
            p->is_staged = true;
    }
}

/* On all servers, or applied there already. */
static bool
is_staged(const RtPsClient *c, const RtPsPending *p)
{
    for (int i = 0; i < c->num_servers; i++)
        if (p->pushes[i].request.number && !p->pushes[i].is_staged)
            return false;
    return true;
}

int64_t
rt_ps_next_staged(RtPsClient *c)
{
    for (int i = 0; i < c->num_pending - c->is_pushing; i++) {
        RtPsPending *p = pending(c, i);
        if (!p->attempt || p->is_told || !is_staged(c, p))
            continue;
        p->is_told = true;
        return p->id;
    }
    return 0;
}

void
rt_ps_abandon(RtPsClient *c, int64_t id)
{
    for (int i = 0; i < c->num_pending - c->is_pushing; i++) {
        RtPsPending *p = pending(c, i);
        if (p->id != id)
            continue;
        p->open = 0;
        for (int k = 0; k < c->num_servers; k++)
            p->pushes[k].request.number = 0;
    }
}

/* A server's failure is a message and, after a newline, the lines below it. */
static RtApplied
applied(const RtPsClient *c, const RtPsPending *p)
{
    if (!*p->error)
        return (RtApplied){p->id, "", ""};
    const char *end = strchr(p->error, '\n');
    size_t len = end ? (size_t)(end - p->error) : strlen(p->error);
    return (RtApplied){p->id, arena_strndup(c->arena, p->error, len),
                       end ? end + 1 : ""};
}

RtApplied
rt_ps_next_applied(RtPsClient *c)
{
    RtPsPending *p = pending(c, 0);
    if (!c->num_pending || p->open || (c->is_pushing && c->num_pending == 1))
        return (RtApplied){0, "", ""};
    c->first = (c->first + 1) % RT_PS_MOST_PENDING;
    c->num_pending--;
    return applied(c, p);
}

int
rt_ps_num_pending(const RtPsClient *c)
{
    return c->num_pending;
}

/* ---- progress ----------------------------------------------------------- */

static void
take_answer(RtPsClient *c, int server, RtPsType type, RtArchive *in)
{
    RtPsRequest head;
    rt_ps_request(in, &head);
    if (!in->wrong && type == RT_PS_VALUES)
        on_values(c, server, in, head.number);
    else if (!in->wrong && type == RT_PS_COUNTED)
        on_counted(c, server, in, head.number);
    else if (!in->wrong && type == RT_PS_STAGED)
        on_staged(c, server, head.number);
    else if (!in->wrong && type == RT_PS_ACK)
        on_ack(c, server, in, head.number);
    else
        rt_ps_reject(in, "it is no answer");
    if (in->wrong)
        rt_ps_blame(c->net, RT_ROLE_ps, (uint32_t)server, type);
}

static void
receive(RtPsClient *c, int server, zmq_msg_t *m)
{
    RtArchive in, one;
    Arena *scratch = arena_new(NULL, "an answer");
    const RtZmq *z = c->net->zmq;
    RtPsType type =
        rt_ps_read(&in, scratch, z->zmq_msg_data(m), z->zmq_msg_size(m));
    if (type != RT_PS_SEVERAL) {
        take_answer(c, server, type, &in);
    } else {
        while (rt_ps_take(&in, scratch, &one, &type))
            take_answer(c, server, type, &one);
        if (in.wrong)
            rt_ps_blame(c->net, RT_ROLE_ps, (uint32_t)server, RT_PS_SEVERAL);
    }
    arena_release(scratch);
}

void
rt_ps_progress(RtPsClient *c)
{
    zmq_msg_t m;
    c->net->zmq->zmq_msg_init(&m);
    for (int i = 0; i < c->num_servers; i++) {
        RtPsSocket *socket = &c->servers[i].socket;
        while (socket->has_news && rt_ps_next(c->net, socket, &m))
            receive(c, i, &m);
        send_again(c, i, &c->servers[i].pull);
        for (int k = 0; k < c->num_pending - c->is_pushing; k++)
            send_again(c, i, &pending(c, k)->pushes[i].request);
    }
    c->net->zmq->zmq_msg_close(&m);
}

void
rt_ps_client_wait(RtPsClient *c, int ms)
{
    RtPsSocket *sockets[RT_PS_MOST_WAITED];
    int n = 0;
    if (c->watched)
        sockets[n++] = c->watched;
    for (int i = 0; i < c->num_servers; i++)
        if (n < RT_PS_MOST_WAITED)
            sockets[n++] = &c->servers[i].socket;
        else /* it may have */
            c->servers[i].socket.has_news = true;
    rt_ps_poll(c->net, sockets, n, ms);
}

static Status
wait_for_answers(RtPsClient *c)
{
    rt_ps_client_wait(c, WAIT_MS);
    rt_ps_progress(c);
    if (rt_is_stopped(c->run))
        return rt_data_stopped();
    return c->watch ? c->watch(c->watcher) : OK;
}

bool
rt_ps_is_over(RtPsClient *c)
{
    if (!c->watch)
        return false;
    rt_ps_client_wait(c, 0);
    Status st = c->watch(c->watcher);
    bool is_over = st != OK;
    status_free(st);
    return is_over;
}

Status
rt_ps_pull(RtPsClient *c)
{
    Status st = OK;
    forget_clocks(c);
    for (int i = 0; i < c->num_servers; i++)
        send_pull(c, i);
    c->is_held = false;
    while (!st && !has_values(c))
        st = wait_for_answers(c);
    /* What still comes of one that was stopped has no place any more. */
    for (int i = 0; st && i < c->num_servers; i++)
        c->servers[i].pull.number = 0;
    return st;
}

void
rt_ps_forget(RtPsClient *c, const int *vars, int num)
{
    const int *first = c->placement->first_part;
    for (int i = 0; i < num; i++)
        for (int k = first[vars[i]]; k < first[vars[i] + 1]; k++)
            c->versions[k] = 0;
}

Status
rt_ps_flush(RtPsClient *c)
{
    while (c->num_pending) {
        RtApplied a = rt_ps_next_applied(c);
        if (a.id && *a.error)
            return status_show(status_new(STATUS_INPUT, "%s", a.error),
                               a.lines);
        if (!a.id)
            TRY(wait_for_answers(c));
    }
    return OK;
}

/* ---- opening and closing ------------------------------------------------ */

static void
make_requests(RtPsClient *c)
{
    size_t n = (size_t)c->num_servers;
    for (int i = 0; i < c->num_servers; i++)
        c->servers[i].pull.bytes = rt_archive_writer(c->arena, 0);
    c->several = rt_archive_writer(c->arena, 0);
    for (int k = 0; k < RT_PS_MOST_PENDING; k++) {
        c->pending[k].pushes = NEW_ARRAY(c->arena, RtPsPushed, n);
        for (int i = 0; i < c->num_servers; i++)
            c->pending[k].pushes[i].request.bytes =
                rt_archive_writer(c->arena, 0);
    }
}

Status
rt_ps_client_open(RtRun *run, RtPsNet *net, const RtPsWelcome *servers,
                  const RtPlacement *placement, RtPsClient **out)
{
    Arena *a = arena_new(NULL, "servers");
    RtPsClient *c = NEW(a, RtPsClient);
    *c = (RtPsClient){.arena = a,
                      .run = run,
                      .net = net,
                      .placement = placement,
                      .job = servers->job,
                      .num_servers = (int)servers->num_servers};
    c->servers = NEW_ARRAY(a, RtPsServer, (size_t)c->num_servers);
    c->versions = NEW_ARRAY(a, int64_t, (size_t)placement->parts.len);
    make_requests(c);
    *out = c;
    for (int i = 0; i < c->num_servers; i++)
        TRY(rt_ps_connect(net, servers->addresses[i], &c->servers[i].socket));
    return OK;
}

void
rt_ps_set_ids(RtPsClient *c, RtPsNextId next, void *data)
{
    c->next_id = next;
    c->ids = data;
}

void
rt_ps_expect_more(RtPsClient *c, bool more)
{
    c->expects_more = more;
}

void
rt_ps_watch(RtPsClient *c, RtPsSocket *socket, RtPsWatch watch, void *data)
{
    c->watched = socket;
    c->watch = watch;
    c->watcher = data;
}

void
rt_ps_client_close(RtPsClient *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->num_servers; i++)
        rt_ps_disconnect(c->net, &c->servers[i].socket);
    arena_release(c->arena);
}
