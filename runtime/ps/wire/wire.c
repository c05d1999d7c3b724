/*
 * wire.c - messages of a parameter-server job as bytes
 */
#include "runtime/ps/wire/wire.h"

#include <string.h>
#include "ir/base/str.h"

void
rt_ps_begin(RtArchive *ar, RtPsType type)
{
    uint32_t word = type;
    rt_archive_clear(ar);
    rt_archive_u32(ar, &word);
}

RtPsType
rt_ps_read(RtArchive *ar, Arena *a, const void *bytes, size_t n)
{
    uint32_t word = 0;
    *ar = rt_archive_reader(a, bytes, n);
    rt_archive_u32(ar, &word);
    return ar->wrong || word >= RT_PS_NUM_TYPES ? RT_PS_NONE : (RtPsType)word;
}

void
rt_ps_reject(RtArchive *ar, const char *why)
{
    if (!ar->wrong)
        ar->wrong = why;
}

bool
rt_ps_is_good(RtArchive *ar)
{
    if (ar->at < ar->len)
        rt_ps_reject(ar, "it is longer than it should be");
    return !ar->wrong;
}

const char *
rt_ps_type_name(RtPsType type)
{
    static const char *const names[] = {
        "of no kind",
#define FRAME(name, sender, doc) #name,
#include "runtime/ps/wire/frames.def"
#undef FRAME
    };
    return names[type];
}

void
rt_ps_blame(RtPsNet *net, uint32_t role, uint32_t index, RtPsType type)
{
    char peer[RT_PS_PEER_BYTES] = "a process with the job's key";
    if (role == RT_ROLE_coordinator)
        snprintf(peer, sizeof peer, "the coordinator");
    else if (role == RT_ROLE_evaluator)
        snprintf(peer, sizeof peer, "the evaluator");
    else if (role == RT_ROLE_worker || role == RT_ROLE_ps)
        snprintf(peer, sizeof peer, "%s %u",
                 role == RT_ROLE_ps ? "server" : "worker", index);
    rt_ps_damaged(&net->damage, peer, rt_ps_type_name(type), stderr);
}

void
rt_ps_text(RtArchive *ar, const char **text)
{
    rt_archive_text(ar, text);
    if (!ar->reads || ar->wrong)
        return;
    char *copy = arena_strdup(ar->arena, *text);
    str_make_printable(copy, strlen(copy), true);
    *text = copy;
}

void
rt_ps_hello(RtArchive *ar, RtPsHello *h)
{
    rt_archive_u32(ar, &h->role);
    rt_archive_u32(ar, &h->index);
    rt_archive_u64(ar, &h->incarnation);
    rt_archive_u64(ar, &h->job);
    rt_archive_u32(ar, &h->crash);
    rt_archive_i64(ar, &h->pid, 0, INT64_MAX);
    rt_ps_text(ar, &h->plan);
    rt_ps_text(ar, &h->host);
    rt_ps_text(ar, &h->address);
    if (ar->reads && h->index >= RT_PS_MOST_TASKS)
        rt_ps_reject(ar, "there is no such task");
}

void
rt_ps_welcome(RtArchive *ar, RtPsWelcome *w)
{
    rt_archive_u64(ar, &w->job);
    rt_archive_i64(ar, &w->num_workers, 0, RT_PS_MOST_TASKS);
    rt_archive_i64(ar, &w->staleness, -1, INT64_MAX);
    rt_archive_bool(ar, &w->atomic);
    rt_archive_bool(ar, &w->by_bytes);
    rt_archive_bool(ar, &w->in_rounds);
    rt_archive_count(ar, &w->num_servers, RT_PS_MOST_TASKS, sizeof(int64_t));
    if (ar->reads)
        w->addresses =
            NEW_ARRAY(ar->arena, const char *, (size_t)w->num_servers);
    for (int64_t i = 0; i < w->num_servers; i++)
        rt_ps_text(ar, &w->addresses[i]);
    rt_archive_count(ar, &w->params_len, INT64_MAX, 1);
    char *place = rt_archive_place(ar, (size_t)w->params_len);
    if (ar->reads && place)
        w->params = memcpy(arena_alloc(ar->arena, (size_t)w->params_len + 1),
                           place, (size_t)w->params_len);
    else if (place && w->params_len)
        memcpy(place, w->params, (size_t)w->params_len);
}

void
rt_ps_saving(RtArchive *ar, RtPsSaving *s)
{
    rt_archive_u32(ar, &s->index);
    rt_archive_u64(ar, &s->incarnation);
    rt_archive_i64(ar, &s->number, 0, INT64_MAX);
}

void
rt_ps_dealing(RtArchive *ar, RtPsDealing *d)
{
    rt_archive_u32(ar, &d->index);
    rt_archive_u64(ar, &d->incarnation);
    rt_archive_i64(ar, &d->iter, 0, INT32_MAX);
    rt_archive_u64(ar, &d->pass);
    rt_archive_i64(ar, &d->taken, 0, INT32_MAX);
    rt_archive_i64(ar, &d->num, 0, INT32_MAX);
    rt_archive_text(ar, &d->names);
    rt_archive_i64(ar, &d->file, 0, INT32_MAX);
}

void
rt_ps_heartbeat(RtArchive *ar, RtPsHeartbeat *b)
{
    rt_archive_u32(ar, &b->role);
    rt_archive_u32(ar, &b->index);
    rt_archive_u64(ar, &b->incarnation);
}

void
rt_ps_sync(RtArchive *ar, RtPsSync *s)
{
    rt_archive_u32(ar, &s->index);
    rt_archive_u64(ar, &s->incarnation);
    rt_archive_i64(ar, &s->received, 0, INT64_MAX);
}

void
rt_ps_run(RtArchive *ar, RtPsRun *r)
{
    rt_archive_i64(ar, &r->number, 1, INT64_MAX);
    rt_archive_i64(ar, &r->received, 0, INT64_MAX);
    rt_archive_i64(ar, &r->id, 1, INT64_MAX);
    rt_archive_bool(ar, &r->is_void);
    rt_archive_i64(ar, &r->low, 0, INT64_MAX);
    rt_archive_i64(ar, &r->launch, 0, INT32_MAX);
    rt_archive_i64(ar, &r->attempt, 0, INT64_MAX);
    rt_archive_count(ar, &r->num_feeds, RT_PS_MOST_FEEDS, sizeof(int64_t));
    if (ar->reads)
        r->indices = NEW_ARRAY(ar->arena, int64_t, (size_t)r->num_feeds);
    for (int64_t i = 0; i < r->num_feeds; i++)
        rt_archive_i64(ar, &r->indices[i], 0, INT64_MAX);
}

void
rt_ps_done(RtArchive *ar, RtPsDone *d)
{
    rt_archive_u32(ar, &d->index);
    rt_archive_u64(ar, &d->incarnation);
    rt_archive_i64(ar, &d->number, 1, INT64_MAX);
    rt_archive_i64(ar, &d->received, 0, INT64_MAX);
    rt_archive_i64(ar, &d->id, 1, INT64_MAX);
    rt_archive_i64(ar, &d->attempt, 0, INT64_MAX);
    rt_archive_bool(ar, &d->is_cancelled);
    rt_archive_bool(ar, &d->lacks_elements);
    rt_ps_text(ar, &d->error);
    rt_archive_text(ar, &d->lines);
}

void
rt_ps_commit(RtArchive *ar, RtPsCommit *c)
{
    rt_archive_i64(ar, &c->number, 1, INT64_MAX);
    rt_archive_i64(ar, &c->low, 0, INT64_MAX);
    rt_archive_bool(ar, &c->is_round);
    rt_archive_count(ar, &c->num, RT_PS_WINDOW, 2 * sizeof(int64_t));
    if (ar->reads) {
        c->ids = NEW_ARRAY(ar->arena, int64_t, (size_t)c->num);
        c->attempts = NEW_ARRAY(ar->arena, int64_t, (size_t)c->num);
    }
    for (int64_t i = 0; i < c->num; i++) {
        rt_archive_i64(ar, &c->ids[i], 1, INT64_MAX);
        rt_archive_i64(ar, &c->attempts[i], 0, INT64_MAX);
    }
}

void
rt_ps_committed(RtArchive *ar, RtPsCommitted *c)
{
    rt_archive_u32(ar, &c->index);
    rt_archive_i64(ar, &c->number, 1, INT64_MAX);
    rt_ps_text(ar, &c->error);
}

void
rt_ps_request(RtArchive *ar, RtPsRequest *r)
{
    rt_archive_u64(ar, &r->job);
    rt_archive_i64(ar, &r->number, 1, INT64_MAX);
    rt_archive_i64(ar, &r->id, 0, INT64_MAX);
    rt_archive_u32(ar, &r->role);
    rt_archive_u32(ar, &r->index);
    if (ar->reads && r->index >= RT_PS_MOST_TASKS)
        rt_ps_reject(ar, "there is no such task");
}

void
rt_ps_add(RtArchive *several, const RtArchive *one)
{
    size_t part = rt_archive_begin_part(several);
    rt_archive_bytes(several, one->data, one->len);
    rt_archive_end_part(several, part);
}

bool
rt_ps_take(RtArchive *several, Arena *a, RtArchive *one, RtPsType *type)
{
    if (several->wrong || several->at == several->len)
        return false;
    size_t end = rt_archive_begin_part(several);
    size_t n = several->wrong ? 0 : end - several->at;
    const char *bytes = rt_archive_place(several, n);
    if (several->wrong)
        return false;
    *type = rt_ps_read(one, a, bytes, n);
    if (*type == RT_PS_SEVERAL)
        *type = RT_PS_NONE;
    return true;
}

void
rt_ps_traffic(RtArchive *ar, RtPsTraffic *t)
{
    for (int i = 0; i < RT_NUM_TRAFFICS; i++) {
        rt_archive_i64(ar, &t->bytes[i], 0, INT64_MAX);
        rt_archive_i64(ar, &t->units[i], 0, INT64_MAX);
    }
    for (int i = 0; i < RT_PS_STALENESS_ROWS; i++)
        rt_archive_i64(ar, &t->staleness[i], 0, INT64_MAX);
    rt_archive_i64(ar, &t->stalest, 0, INT64_MAX);
    rt_archive_i64(ar, &t->refused, 0, INT64_MAX);
}

void
rt_ps_server_load(RtArchive *ar, RtPsLoad *l)
{
    rt_archive_u32(ar, &l->index);
    rt_archive_i64(ar, &l->at, 0, INT64_MAX);
    rt_archive_i64(ar, &l->busy, 0, INT64_MAX);
    rt_archive_i64(ar, &l->closures, 0, INT64_MAX);
    rt_archive_i64(ar, &l->pulled, 0, INT64_MAX);
    rt_archive_i64(ar, &l->pushed, 0, INT64_MAX);
    rt_archive_i64(ar, &l->variables, 0, INT64_MAX);
    rt_archive_i64(ar, &l->stalest, 0, INT64_MAX);
    rt_archive_i64(ar, &l->refused, 0, INT64_MAX);
    for (int i = 0; i < RT_PS_STALENESS_ROWS; i++)
        rt_archive_i64(ar, &l->staleness[i], 0, INT64_MAX);
    rt_archive_i64(ar, &l->staleness_sum, 0, INT64_MAX);
}

static void
task(RtArchive *ar, RtPsTask *t)
{
    rt_ps_text(ar, &t->host);
    rt_archive_i64(ar, &t->pid, 0, INT64_MAX);
    rt_archive_bool(ar, &t->is_lost);
    rt_archive_i64(ar, &t->silent, 0, INT64_MAX);
    rt_archive_i64(ar, &t->in_flight, 0, RT_PS_WINDOW);
    rt_archive_i64(ar, &t->done, 0, INT64_MAX);
}

/* The number of tasks and each of them; those that are read are new. */
static void
tasks(RtArchive *ar, int64_t *num, RtPsTask **list)
{
    rt_archive_count(ar, num, RT_PS_MOST_TASKS, sizeof(int64_t));
    if (ar->reads)
        *list = NEW_ARRAY(ar->arena, RtPsTask, (size_t)*num);
    for (int64_t i = 0; i < *num; i++)
        task(ar, &(*list)[i]);
}

void
rt_ps_status(RtArchive *ar, RtPsStatus *s)
{
    rt_archive_i64(ar, &s->at, 0, INT64_MAX);
    rt_archive_i64(ar, &s->scheduled, 0, INT64_MAX);
    rt_archive_i64(ar, &s->ended, 0, INT64_MAX);
    rt_archive_i64(ar, &s->waiting, 0, INT64_MAX);
    rt_archive_i64(ar, &s->put_back, 0, INT64_MAX);
    rt_archive_i64(ar, &s->cancelled, 0, INT64_MAX);
    rt_archive_i64(ar, &s->staleness, -1, INT64_MAX);
    tasks(ar, &s->num_workers, &s->workers);
    tasks(ar, &s->num_servers, &s->servers);
    if (ar->reads)
        s->loads = NEW_ARRAY(ar->arena, RtPsLoad, (size_t)s->num_servers);
    for (int64_t i = 0; i < s->num_servers; i++)
        rt_ps_server_load(ar, &s->loads[i]);
}
