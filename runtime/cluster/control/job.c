/*
 * job.c - joining a job, exchanges with all its processes, and leaving it
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "ir/base/message.h"
#include "ir/base/thread.h"
#include "runtime/hal/system.h"
#include "runtime/cluster/control/job_impl.h"
#include "runtime/cluster/control/open_files.h"
#include "runtime/cluster/control/printing.h"

static bool is_silent; /* another process prints why joining failed */

bool
rt_job_speaks(void)
{
    return !is_silent;
}

/* ---- who this process is ------------------------------------------------ */

static void
copy_sites(RtMember *m, const RtJobConfig *config)
{
    RtJobSite *sites =
        NEW_ARRAY(m->arena, RtJobSite, (size_t)config->num_sites);
    for (int i = 0; i < config->num_sites; i++)
        sites[i] = (RtJobSite){arena_strdup(m->arena, config->sites[i].where),
                               arena_strdup(m->arena, config->sites[i].what)};
    m->hello.sites = sites;
    m->hello.num_sites =
        config->num_sites < RT_MOST_SITES ? config->num_sites : RT_MOST_SITES;
}

static void
say_who(RtMember *m, const RtJobConfig *config)
{
    const RtJobOptions *o = &m->options;
    RtHello *h = &m->hello;
    *h = (RtHello){.rank = o->rank,
                   .size = o->size,
                   .pid = getpid(),
                   .timeout = config->patience > config->timeout
                                  ? config->patience
                                  : config->timeout,
                   .positions = rt_segment_name(&m->positions.segment),
                   .host = rt_host_name(m->arena),
                   .machine = rt_machine_name(m->arena)};
    for (int i = 0; i < RT_NUM_IDENTITIES; i++) {
        const char *text = config->identity[i];
        h->identity[i] = arena_strdup(m->arena, text ? text : "");
    }
    h->identity[RT_IDENTITY_PROTOCOL] =
        arena_printf(m->arena, "%d", RT_FRAME_PROTOCOL);
    h->identity[RT_IDENTITY_VERSION] = TFD_VERSION;
    h->identity[RT_IDENTITY_JOB] = arena_printf(
        m->arena, "%s, attempt %u", o->id ? o->id : "", (unsigned)o->attempt);
    h->identity[RT_IDENTITY_SIZE] = arena_printf(m->arena, "%d", o->size);
    copy_sites(m, config);
}

/* ---- joining ------------------------------------------------------------ */

static bool
is_local(const RtJobOptions *o)
{
    for (int i = 0; i < o->num_addresses; i++)
        if (!rt_zmq_is_loopback(o->addresses[i]))
            return false;
    return true;
}

static Status
open_server(RtMember *m)
{
    const RtJobOptions *o = &m->options;
    RtServerConfig config = {.id = o->id,
                             .size = o->size,
                             .attempt = o->attempt,
                             .rank = o->rank,
                             .silence = o->silence,
                             .diagnose = o->diagnose,
                             .key = o->key,
                             .address = o->listen,
                             .say = rt_server_print};
    TRY(rt_server_open(&config, &m->own_server));
    /* Its own connection cannot fail. */
    const char **addresses = NEW_ARRAY(m->arena, const char *, 1);
    addresses[0] =
        arena_printf(m->arena, "127.0.0.1:%d", rt_server_port(m->own_server));
    m->options.addresses = addresses;
    m->options.num_addresses = 1;
    return OK;
}

/* Where no address is known, rank 0 tells it. */
static Status
meet(RtMember *m, const RtJobConfig *config)
{
    RtRendezvous *r = m->options.rendezvous;
    Status st = r ? r->ops->meet(r, config, m->arena, &m->options) : OK;
    m->job.key = m->options.key;
    return st;
}

static Status
announce(RtMember *m)
{
    RtRendezvous *r = m->options.rendezvous;
    return r && m->own_server
               ? r->ops->announce(r, rt_server_port(m->own_server))
               : OK;
}

static Status
open_bell(RtMember *m)
{
    m->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (m->bell < 0)
        return rt_system_error("eventfd");
    if (getrandom(&m->nonce, sizeof m->nonce, 0) != sizeof m->nonce)
        m->nonce = (uint64_t)getpid();
    return OK;
}

static Status
start(RtMember *m)
{
    const RtJobOptions *o = &m->options;
    bool local = is_local(o) && (!o->listen || rt_zmq_is_loopback(o->listen));
    RtFileUse use = {.size = o->size,
                     .is_member = true,
                     .has_server = o->listen,
                     .has_messages = m->has_messages ||
                                     !(o->rendezvous ? local : is_local(o))};
    TRY(rt_provide_files(&use));
    TRY(rt_zmq_open(&m->zmq));
    TRY(rt_zmq_keys(m->zmq, m->options.key, &m->keys));
    TRY(open_bell(m));
    m->context = m->zmq->zmq_ctx_new();
    if (!m->context)
        return rt_zmq_error(m->zmq, "cannot join the job");
    if (!local)
        TRY(rt_link_test_open(m, &m->hello.addresses));
    if (m->options.listen)
        TRY(open_server(m));
    TRY(thread_start(&m->thread, rt_member_run, m, "the member of the job"));
    m->has_thread = true;
    return OK;
}

/* How a run that was stopped ends. */
static Status
status_of_stop(const RtMember *m)
{
    StatusKind kind = m->stop.exit_status == 1 ? STATUS_INPUT : STATUS_MACHINE;
    Status st = status_new(kind, "%s", m->stop.reason);
    return *m->stop.notes ? status_show(st, m->stop.notes) : st;
}

static bool
is_interrupted(void *member)
{
    const RtMember *m = member;
    return m->interrupted && atomic_load(m->interrupted);
}

/* By main's thread: the member's is in a call that does not return. */
static bool
is_stuck(RtMember *m)
{
    return rt_is_stuck(&m->liveness, &m->bound);
}

static Status
not_returned(const RtMember *m)
{
    char who[32];
    const char *calls = atomic_load(&m->liveness.calls);
    snprintf(who, sizeof who, "rank %d", m->job.rank);
    return rt_not_returned(who, calls ? calls : "libzmq.so.5", &m->bound);
}

/* Until something changed, or for a tenth of a second. */
static void
wait_a_little(RtMember *m)
{
    struct timespec until = rt_time_after(0.1);
    pthread_cond_clockwait(&m->changed, &m->lock, CLOCK_MONOTONIC, &until);
}

Status
rt_job_interrupted(void)
{
    return status_new(STATUS_STOPPED,
                      "interrupted before all processes had joined the job");
}

/* Bounded by the thread: it stops when nothing answers. */
static Status
wait_for_go(RtMember *m)
{
    Status st = OK;
    bool stuck = false;
    pthread_mutex_lock(&m->lock);
    while (m->phase < MEMBER_GOES && !is_interrupted(m) && !stuck) {
        wait_a_little(m);
        stuck = is_stuck(m);
    }
    if (m->phase < MEMBER_GOES && stuck) {
        st = not_returned(m);
    } else if (m->phase < MEMBER_GOES) {
        st = rt_job_interrupted();
    } else if (m->phase != MEMBER_GOES) {
        st = status_of_stop(m);
        is_silent = m->stop.speaker != m->job.rank;
    }
    pthread_mutex_unlock(&m->lock);
    return st;
}

static void
wait_for_server(RtMember *m)
{
    int exit_status;
    double end = clock_seconds() + m->last_words;
    while (m->own_server && !rt_server_has_ended(m->own_server, &exit_status) &&
           clock_seconds() < end)
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
}

static void
release(void *member)
{
    RtMember *m = member;
    wait_for_server(m);
    if (m->has_thread) {
        pthread_mutex_lock(&m->lock);
        m->closing = true;
        pthread_mutex_unlock(&m->lock);
        rt_member_ring(m);
        pthread_join(m->thread, NULL);
    }
    rt_link_test_close(m);
    if (m->context)
        m->zmq->zmq_ctx_term(m->context);
    if (m->own_server)
        rt_server_close(m->own_server);
    rt_positions_close(&m->positions);
    if (m->bell >= 0)
        close(m->bell);
    if (rt_has_left_threads())
        return; /* one of them may be in an exchange */
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    arena_release(m->arena);
}

/* A server of this process first tells all others why, for some seconds. */
static void
leave(RtMember *m, double last_words)
{
    enum { CLOSING = 5 };
    m->last_words = m->own_server ? last_words : 0;
    rt_close_bounded(release, m, m->last_words + CLOSING);
    rt_server_printed();
}

typedef struct Start {
    RtMember *member;
    Status st;
} Start;

static void
make_start(void *start_of)
{
    Start *s = start_of;
    s->st = start(s->member);
}

/* *left: libzmq has not returned, and everything belongs to it. */
static Status
start_bounded(RtMember *m, bool *left)
{
    Start *s = NEW(m->arena, Start);
    s->member = m;
    *left = !rt_call_bounded(make_start, s, &m->bound);
    return *left ? not_returned(m) : s->st;
}

static RtMember *
new_member(const RtJobOptions *options, const RtJobConfig *config)
{
    Arena *a = arena_new(NULL, "the job");
    RtMember *m = NEW(a, RtMember);
    m->arena = a;
    m->options = *options;
    m->bell = m->server_rank = m->server_fd = -1;
    m->timeout = config->timeout > 0 ? config->timeout : RT_JOB_TIMEOUT;
    m->silence = options->silence > 0 ? options->silence : RT_JOB_SILENCE;
    m->interrupted = config->interrupted;
    m->has_messages = config->has_messages;
    m->bound = (RtBound){m->timeout, is_interrupted, m};
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    m->job = (RtJob){.rank = options->rank, .size = options->size};
    return m;
}

/* *left as start_bounded says. */
static Status
join(RtMember *m, const RtJobConfig *config, bool *left)
{
    Status st =
        rt_positions_open(&m->positions, config->num_places, config->num_sites);
    say_who(m, config);
    m->job.host = m->hello.host;
    if (!st)
        st = meet(m, config);
    if (!st)
        st = start_bounded(m, left);
    if (!st)
        st = announce(m);
    return st ? st : wait_for_go(m);
}

Status
rt_job_open(const RtJobOptions *options, const RtJobConfig *config, RtJob **out)
{
    bool left = false;
    RtRendezvous *r = options->rendezvous;
    RtMember *m = new_member(options, config);
    Status st = join(m, config, &left);
    if (!st)
        *out = &m->job;
    if (st && !left)
        leave(m, 2);
    if (st && r)
        r->ops->leave(r, true, !is_silent);
    return st;
}

/* ---- exchanges ---------------------------------------------------------- */

/* Others come at once, if they do, so an interrupt gives them a moment. */
static Status
wait_for_exchange(RtMember *m)
{
    const double moment = 0.3; /* seconds */
    double interrupted = 0;
    while (!m->exchange_done && !m->stopped && m->phase != MEMBER_DONE) {
        wait_a_little(m);
        if (interrupted == 0 && is_interrupted(m))
            interrupted = clock_seconds();
        if (is_stuck(m))
            return not_returned(m);
        if (interrupted > 0 && clock_seconds() - interrupted > moment &&
            !m->exchange_done)
            break;
    }
    if (m->exchange_done)
        return OK;
    if (m->stopped)
        return status_of_stop(m);
    return status_new(STATUS_STOPPED,
                      "interrupted while rank %d waited for the exchange "
                      "\"%s\" of all processes",
                      m->job.rank, m->exchange.name);
}

Status
rt_job_exchange(RtJob *job, const char *name, const void *own, size_t bytes,
                Arena *a, RtBytes **all)
{
    RtMember *m = (RtMember *)job;
    Status st = OK;
    assert(bytes <= RT_JOB_EXCHANGE);
    pthread_mutex_lock(&m->lock);
    m->exchange = (RtExchangePart){.name = name, .own = {own, bytes}};
    m->exchange_arena = a;
    m->exchange_wanted = true;
    m->exchange_done = false;
    rt_member_ring(m);
    st = wait_for_exchange(m);
    if (!st)
        *all = m->exchange_all;
    m->exchange_wanted = false;
    m->exchange_arena = NULL;
    m->exchange_number++;
    pthread_mutex_unlock(&m->lock);
    return st;
}

/* ---- where it is -------------------------------------------------------- */

void
rt_job_locate(RtJob *job, int32_t (*locate)(void *data), void *data)
{
    RtMember *m = (RtMember *)job;
    pthread_mutex_lock(&m->lock);
    m->locate = locate;
    m->locate_data = data;
    pthread_mutex_unlock(&m->lock);
}

/* ---- the end ------------------------------------------------------------ */

void
rt_job_on_stop(RtJob *job, void (*stop)(void *data, const char *reason),
               void *data)
{
    RtMember *m = (RtMember *)job;
    pthread_mutex_lock(&m->lock);
    m->on_stop = stop;
    m->on_stop_data = data;
    bool call = m->stopped && !m->stop_called && stop;
    m->stop_called |= call;
    pthread_mutex_unlock(&m->lock);
    if (call)
        stop(data, m->stop.reason);
}

Status
rt_job_stopped(RtJob *job)
{
    RtMember *m = (RtMember *)job;
    pthread_mutex_lock(&m->lock);
    Status st = m->stopped ? status_of_stop(m) : OK;
    pthread_mutex_unlock(&m->lock);
    return st;
}

static bool
has_lost_server(const RtMember *m)
{
    return m->stopped && m->stop.speaker == m->job.rank && !m->has_bye;
}

/* Others may take as long to end as they are alive: the server, who knows,
 * answers, or is gone. */
static void
wait_for_bye(RtMember *m)
{
    struct timespec until = rt_time_after(3);
    while (!m->has_bye && !has_lost_server(m)) {
        if (!m->stopped)
            wait_a_little(m);
        else if (pthread_cond_clockwait(&m->changed, &m->lock, CLOCK_MONOTONIC,
                                        &until))
            return;
        if (is_stuck(m))
            return;
    }
}

bool
rt_job_close(RtJob *job, Status st, int *exit_status)
{
    RtMember *m = (RtMember *)job;
    pthread_mutex_lock(&m->lock);
    m->end = (RtEnd){.exit_status = m->stopped ? m->stop.exit_status
                                               : status_exit_code(st),
                     .speaker = -1,
                     .reason = st ? status_message(st) : "",
                     .notes = ""};
    *exit_status = m->end.exit_status;
    m->end_wanted = true;
    rt_member_ring(m);
    wait_for_bye(m);
    int speaker = m->has_bye   ? m->bye.speaker
                  : m->stopped ? m->stop.speaker
                               : m->job.rank;
    if (m->has_bye)
        *exit_status = m->bye.exit_status;
    bool speaks = speaker == m->job.rank;
    pthread_mutex_unlock(&m->lock);
    RtRendezvous *r = m->options.rendezvous;
    leave(m, 10);
    if (r)
        r->ops->leave(r, *exit_status != 0, speaks);
    return speaks;
}
