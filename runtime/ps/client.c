/*
 * client.c - how main and workers use the servers' variables
 *
 * Messages to a server arrive in order, so a pull after a push sees it, though
 * the push was not acknowledged yet.
 */
#include "runtime/ps/client.h"

#include <assert.h>
#include <string.h>
#include "ir/analysis/per_replica.h"
#include "runtime/exec/end.h"
#include "runtime/exec/watchdog.h"
#include "runtime/data/data.h"
#include "runtime/hal/wait.h"
#include "runtime/ps/parts/cut.h"

static const double again = 1; /* seconds until a request is sent again */

enum {
    MOST_PENDING = 32,
    WAIT_MS = 50,
    MUCH = 1 << 20 /* bytes of a message that can be several */
};

/* A request that is not answered. */
typedef struct Request {
    int64_t number; /* 0: none */
    double at;
    RtArchive bytes;
} Request;

/* What is pushed to a server for one closure. */
typedef struct Push {
    Request request;
    bool is_staged;
    int64_t num;
} Push;

/* A closure whose updates are under way. */
typedef struct Pending {
    int64_t id, attempt;
    bool is_told; /* that all servers keep it */
    int open;     /* servers that have not acknowledged it */
    const char *error;
    Push *pushes; /* to each server */
} Pending;

/* Rows of a part that are pulled, counted from its first. */
typedef struct WantedRows {
    const RtPart *part;
    int64_t *rows, num;
} WantedRows;

typedef struct Server {
    void *socket;
    Request pull;
    int64_t clock;          /* of what was pulled last, or RT_PS_NO_PULL */
    VEC(WantedRows) wanted; /* by it, in its order */
} Server;

struct RtPsClient {
    Arena *arena;
    RtRun *run;
    RtPsNet *net;
    const RtPlacement *placement;
    int num_servers;
    Server *servers;
    uint64_t job;
    int64_t number;    /* of the last request */
    int64_t *versions; /* of each part, that are here; 0: none */
    /* The closures under way, from the oldest on: a ring. */
    Pending pending[MOST_PENDING];
    int first, num_pending;
    bool is_pushing;
    bool expects_more; /* rt_ps_expect_more */
    int64_t low;
    RtPsTraffic traffic; /* of the servers that were asked for it */
    RtPsNextId next_id;  /* NULL: a closure has one */
    void *ids;
    RtPsWatch watch; /* while it waits; NULL: nobody */
    void *watcher;
};

/* ---- requests ----------------------------------------------------------- */

static void
begin_request(RtPsClient *c, Request *q, RtPsType type, int64_t id)
{
    RtPsRequest head = {.job = c->job, .number = ++c->number, .id = id};
    q->number = head.number;
    rt_ps_begin(&q->bytes, type);
    rt_ps_request(&q->bytes, &head);
}

static void
send_request(RtPsClient *c, int server, Request *q)
{
    q->at = rt_seconds();
    rt_ps_send(c->net, c->servers[server].socket, &q->bytes);
}

static void
send_again(RtPsClient *c, int server, Request *q)
{
    if (q->number && rt_seconds() - q->at > again)
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
set_rows(RtPsClient *c, const WantedRows *w, RtArchive *in)
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

static void
on_values(RtPsClient *c, int server, RtArchive *in, int64_t number)
{
    Server *s = &c->servers[server];
    int num_rows = 0;
    if (s->pull.number != number)
        return; /* it was sent twice */
    rt_archive_i64(in, &s->clock, 0, INT64_MAX);
    while (in->at < in->len && !in->wrong) {
        int64_t part, version;
        rt_archive_i64(in, &part, 0, c->placement->parts.len - 1);
        rt_archive_i64(in, &version, RT_PS_ROWS, INT64_MAX);
        if (in->wrong)
            return;
        if (version == RT_PS_ROWS && num_rows == s->wanted.len)
            return;
        if (version == RT_PS_ROWS) {
            set_rows(c, &s->wanted.data[num_rows++], in);
        } else if (version != c->versions[part]) {
            set_part(c, &c->placement->parts.data[part], in);
            c->versions[part] = version;
        }
    }
    if (!in->wrong)
        s->pull.number = 0;
}

static void
on_counted(RtPsClient *c, int server, RtArchive *in, int64_t number)
{
    RtPsTraffic t;
    Request *q = &c->servers[server].pull;
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
    Server *s = &c->servers[server];
    if (!s->pull.number) {
        begin_request(c, &s->pull, RT_PS_PULL, 0);
        s->wanted.len = 0;
    }
    return &s->pull.bytes;
}

static void
want_part(RtPsClient *c, int64_t part)
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
            want_part(c, k);
}

static void
want_rows_of(RtPsClient *c, int64_t part, WantedRows *w)
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
    WantedRows *w = NEW_ARRAY(a, WantedRows, (size_t)num);
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
        WantedRows *to = &w[of[i]];
        to->rows[to->num++] = rows->rows[i] - to->part->first;
    }
    for (int k = 0; k < num; k++)
        if (w[k].num)
            want_rows_of(c, first[0] + k, &w[k]);
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

static Pending *
pending(RtPsClient *c, int i)
{
    return &c->pending[(c->first + i) % MOST_PENDING];
}

void
rt_ps_begin_push(RtPsClient *c, int64_t id, int64_t attempt, int64_t low)
{
    assert(c->num_pending < MOST_PENDING && !c->is_pushing);
    Pending *p = pending(c, c->num_pending++);
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
begin_push_to(RtPsClient *c, Pending *p, int server)
{
    Push *push = &p->pushes[server];
    begin_request(c, &push->request, RT_PS_PUSH, p->id);
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
    Pending *p = pending(c, c->num_pending - 1);
    Push *push = &p->pushes[part->server];
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
 * longer than a row or MUCH. */
static Status
set_part_of(RtPsClient *c, const RtCut *cut, const RtPart *part)
{
    int64_t each = part->bytes / part->rows;
    int64_t most = c->next_id ? MUCH / (each ? each : 1) + 1 : part->rows;
    for (int64_t first = 0; first < part->rows; first += most) {
        int64_t left = part->rows - first;
        Push *push = &pending(c, c->num_pending - 1)->pushes[part->server];
        if (c->next_id && push->num && push->request.bytes.len > MUCH)
            TRY(push_anew(c));
        rt_cut_write_rows(cut, part, first, left < most ? left : most,
                          push_to(c, cut, part));
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

void
rt_ps_end_push(RtPsClient *c)
{
    Pending *p = pending(c, c->num_pending - 1);
    c->is_pushing = false;
    for (int i = 0; i < c->num_servers; i++)
        if (p->pushes[i].num)
            send_request(c, i, &p->pushes[i].request);
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
    rt_archive_text(in, &error);
    if (!rt_ps_is_good(in))
        return;
    if (c->servers[server].pull.number == number)
        c->servers[server].pull.number = 0; /* rows are set */
    for (int i = 0; i < c->num_pending; i++) {
        Pending *p = pending(c, i);
        Request *q = &p->pushes[server].request;
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
        Push *p = &pending(c, i)->pushes[server];
        if (p->request.number == number)
            p->is_staged = true;
    }
}

/* On all servers, or applied there already. */
static bool
is_staged(const RtPsClient *c, const Pending *p)
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
        Pending *p = pending(c, i);
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
        Pending *p = pending(c, i);
        if (p->id != id)
            continue;
        p->open = 0;
        for (int k = 0; k < c->num_servers; k++)
            p->pushes[k].request.number = 0;
    }
}

/* A server's failure is a message and, after a newline, the lines below it. */
static RtApplied
applied(const RtPsClient *c, const Pending *p)
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
    Pending *p = pending(c, 0);
    if (!c->num_pending || p->open || (c->is_pushing && c->num_pending == 1))
        return (RtApplied){0, "", ""};
    c->first = (c->first + 1) % MOST_PENDING;
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
receive(RtPsClient *c, int server, zmq_msg_t *m)
{
    RtArchive in;
    RtPsRequest head;
    Arena *scratch = arena_new(NULL, "an answer");
    const RtZmq *z = c->net->zmq;
    RtPsType type =
        rt_ps_read(&in, scratch, z->zmq_msg_data(m), z->zmq_msg_size(m));
    rt_ps_request(&in, &head);
    if (!in.wrong && type == RT_PS_VALUES)
        on_values(c, server, &in, head.number);
    else if (!in.wrong && type == RT_PS_COUNTED)
        on_counted(c, server, &in, head.number);
    else if (!in.wrong && type == RT_PS_STAGED)
        on_staged(c, server, head.number);
    else if (!in.wrong && type == RT_PS_ACK)
        on_ack(c, server, &in, head.number);
    arena_release(scratch);
}

void
rt_ps_progress(RtPsClient *c)
{
    zmq_msg_t m;
    c->net->zmq->zmq_msg_init(&m);
    for (int i = 0; i < c->num_servers; i++) {
        while (rt_ps_next(c->net, c->servers[i].socket, &m))
            receive(c, i, &m);
        send_again(c, i, &c->servers[i].pull);
        for (int k = 0; k < c->num_pending - c->is_pushing; k++)
            send_again(c, i, &pending(c, k)->pushes[i].request);
    }
    c->net->zmq->zmq_msg_close(&m);
}

int
rt_ps_poll_items(const RtPsClient *c, zmq_pollitem_t *items, int most)
{
    int n = c->num_servers < most ? c->num_servers : most;
    for (int i = 0; i < n; i++)
        items[i] = (zmq_pollitem_t){c->servers[i].socket, 0, ZMQ_POLLIN, 0};
    return n;
}

static Status
wait_for_answers(RtPsClient *c)
{
    enum { MOST_ITEMS = 64 };
    zmq_pollitem_t items[MOST_ITEMS];
    int n = rt_ps_poll_items(c, items, MOST_ITEMS);
    c->net->zmq->zmq_poll(items, n, WAIT_MS);
    rt_ps_progress(c);
    if (rt_is_stopped(c->run))
        return rt_data_stopped();
    return c->watch ? c->watch(c->watcher) : OK;
}

Status
rt_ps_pull(RtPsClient *c)
{
    Status st = OK;
    forget_clocks(c);
    for (int i = 0; i < c->num_servers; i++)
        if (c->servers[i].pull.number)
            send_request(c, i, &c->servers[i].pull);
    while (!st && !has_values(c))
        st = wait_for_answers(c);
    /* What still comes of one that was stopped has no place any more. */
    for (int i = 0; st && i < c->num_servers; i++)
        c->servers[i].pull.number = 0;
    return st;
}

/* A part of many bytes in rows, one message after another. */
static Status
pull_by_rows(RtPsClient *c, const RtPart *part)
{
    Status st = OK;
    int64_t most = MUCH / (part->bytes / part->rows) + 1;
    Arena *scratch = arena_new(NULL, "numbers of rows");
    WantedRows w = {.part = part,
                    .rows = NEW_ARRAY(scratch, int64_t, (size_t)most)};
    for (int64_t first = 0; first < part->rows && !st; first += w.num) {
        int64_t left = part->rows - first;
        w.num = left < most ? left : most;
        for (int64_t i = 0; i < w.num; i++)
            w.rows[i] = first + i;
        want_rows_of(c, part - c->placement->parts.data, &w);
        st = rt_ps_pull(c);
    }
    arena_release(scratch);
    return st;
}

Status
rt_ps_pull_all(RtPsClient *c)
{
    const RtPlacement *p = c->placement;
    for (int i = 0; i < p->parts.len; i++)
        if (p->parts.data[i].bytes <= MUCH)
            want_part(c, i);
    TRY(rt_ps_pull(c));
    for (int i = 0; i < p->parts.len; i++)
        if (p->parts.data[i].bytes > MUCH)
            TRY(pull_by_rows(c, &p->parts.data[i]));
    return OK;
}

/* Rows of a part, from the first replica that has them. */
static Status
set_rows_of(RtPsClient *c, const RtPart *part, int64_t first, int64_t num)
{
    const IrVar *v = c->run->module->vars.data[part->var];
    int64_t number = part - c->placement->parts.data;
    size_t each = (size_t)(part->bytes / part->rows);
    size_t n = (size_t)num * each;
    size_t at = (size_t)(v->place.offset + part->offset) + (size_t)first * each;
    Request *q = &c->servers[part->server].pull;
    begin_request(c, q, RT_PS_SET, 0);
    rt_archive_i64(&q->bytes, &number, 0, INT64_MAX);
    rt_archive_i64(&q->bytes, &first, 0, INT64_MAX);
    rt_archive_i64(&q->bytes, &num, 0, INT64_MAX);
    size_t begin = rt_archive_begin_part(&q->bytes);
    rt_copy_out(rt_archive_place(&q->bytes, n),
                rt_ptr_add(c->run->locals[0].base, at), n);
    rt_archive_end_part(&q->bytes, begin);
    return rt_ps_pull(c);
}

Status
rt_ps_set_all(RtPsClient *c)
{
    for (int i = 0; i < c->placement->parts.len; i++) {
        const RtPart *part = &c->placement->parts.data[i];
        int64_t most =
            part->rows ? MUCH / (part->bytes / part->rows + 1) + 1 : 0;
        for (int64_t first = 0; first < part->rows; first += most) {
            int64_t left = part->rows - first;
            TRY(set_rows_of(c, part, first, left < most ? left : most));
        }
    }
    return OK;
}

Status
rt_ps_count(RtPsClient *c, RtPsTraffic *sum)
{
    c->traffic = (RtPsTraffic){.stalest = 0};
    for (int i = 0; i < c->num_servers; i++)
        begin_request(c, &c->servers[i].pull, RT_PS_COUNT, 0);
    TRY(rt_ps_pull(c));
    *sum = c->traffic;
    return OK;
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
    for (int k = 0; k < MOST_PENDING; k++) {
        c->pending[k].pushes = NEW_ARRAY(c->arena, Push, n);
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
    c->servers = NEW_ARRAY(a, Server, (size_t)c->num_servers);
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
rt_ps_watch(RtPsClient *c, RtPsWatch watch, void *data)
{
    c->watch = watch;
    c->watcher = data;
}

void
rt_ps_client_close(RtPsClient *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->num_servers; i++)
        rt_ps_disconnect(c->net, c->servers[i].socket);
    arena_release(c->arena);
}
