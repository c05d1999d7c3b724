/*
 * membership.c - who belongs to a job: from the first hello to the last end
 */
#include <stdlib.h>
#include <string.h>
#include "ir/base/message.h"
#include "runtime/cluster/control/membership_impl.h"

static const double server_heartbeat_every = 0.2;
static const double grace = 0.25;  /* for others that fail at the same time */
static const double patience = 10; /* for runs that were told to end */

RtMembership *
rt_membership_new(Arena *a, const RtMembershipConfig *config, double now)
{
    RtMembership *r = NEW(a, RtMembership);
    r->arena = a;
    r->config = *config;
    r->config.id = arena_strdup(a, config->id ? config->id : "");
    if (config->machine)
        r->config.machine = arena_strdup(a, config->machine);
    if (r->config.silence <= 0)
        r->config.silence = RT_JOB_SILENCE;
    r->members = NEW_ARRAY(a, RtMemberState, (size_t)config->size);
    for (int i = 0; i < config->size; i++) {
        r->members[i].fd = -1;
        r->members[i].heartbeat.site = r->members[i].heartbeat.wait_site = -1;
        r->members[i].heartbeat.at_site = -1;
    }
    r->began = r->looked = r->missing_said = r->heartbeat_sent = now;
    r->awaited_rank = -1;
    r->speaker = -1;
    r->reason = r->notes = "";
    return r;
}

void
rt_membership_close(RtMembership *r)
{
    for (int i = 0; i < r->config.size; i++)
        rt_positions_close(&r->members[i].positions);
}

/* ---- names -------------------------------------------------------------- */

const char *
rt_membership_name(const RtMembership *r, Arena *a, int rank)
{
    const RtMemberState *member = &r->members[rank];
    if (!member->present)
        return arena_printf(a, "rank %d", rank);
    return arena_printf(a, "rank %d (%s, pid %lld)", rank, member->hello.host,
                        (long long)member->hello.pid);
}

const char *
rt_membership_ranks(const RtMembership *r, Arena *a, const bool *which)
{
    Str s = str_new(a);
    int count = 0, size = r->config.size;
    for (int i = 0, end; i < size; i = end) {
        for (end = i; end < size && which[end]; end++)
            count++;
        if (end - i >= 3)
            str_addf(&s, "%s%d-%d", s.len ? ", " : "", i, end - 1);
        else
            for (int k = i; k < end; k++)
                str_addf(&s, "%s%d", s.len ? ", " : "", k);
        if (end == i)
            end++;
    }
    return arena_printf(a, "%s %s", count == 1 ? "rank" : "ranks",
                        str_text(&s));
}

double
rt_membership_timeout(const RtMembership *r)
{
    double most = 0;
    for (int i = 0; i < r->config.size; i++)
        if (r->members[i].present && r->members[i].hello.timeout > most)
            most = r->members[i].hello.timeout;
    return most > 0 ? most : RT_JOB_TIMEOUT;
}

/* ---- sending ------------------------------------------------------------ */

void
rt_membership_send_route(RtMembership *r, const RtRoute *to, const RtFrame *f)
{
    r->config.out.send(r->config.out.data, to, f);
}

void
rt_membership_send(RtMembership *r, const RtMemberState *member,
                   const RtFrame *f)
{
    if (member->present && !member->gone)
        rt_membership_send_route(r, &member->route, f);
}

void
rt_membership_send_all(RtMembership *r, const RtFrame *f)
{
    for (int i = 0; i < r->config.size; i++)
        rt_membership_send(r, &r->members[i], f);
}

void
rt_membership_send_simple(RtMembership *r, const RtRoute *to, RtFrameType type,
                          uint64_t number)
{
    uint8_t bytes[16];
    RtFrame f =
        rt_frame_in(bytes, sizeof bytes, type, r->config.attempt, number);
    rt_membership_send_route(r, to, &f);
}

void
rt_membership_send_simple_to_all(RtMembership *r, RtFrameType type)
{
    uint8_t bytes[16];
    RtFrame f = rt_frame_in(bytes, sizeof bytes, type, r->config.attempt, 0);
    rt_membership_send_all(r, &f);
}

void
rt_membership_send_end(RtMembership *r, const RtRoute *to, RtFrameType type)
{
    Arena *a = arena_new(NULL, "the end of a job");
    RtFrame f = rt_frame_new(a, type, r->config.attempt, 0);
    RtEnd end = {.exit_status = r->exit_status,
                 .speaker = r->speaker,
                 .reason = r->reason,
                 .notes = r->notes};
    rt_frame_end(&f, &end);
    rt_membership_send_route(r, to, &f);
    arena_release(a);
}

/* ---- the end ------------------------------------------------------------ */

static void
tell_end(RtMembership *r, const RtMemberState *member)
{
    if (member->present && !member->gone)
        rt_membership_send_end(r, &member->route,
                               member->ended ? RT_FRAME_BYE : RT_FRAME_STOP);
}

void
rt_membership_stop(RtMembership *r, int exit_status, int speaker,
                   const char *reason, const char *notes)
{
    if (r->phase >= PHASE_STOPPED)
        return;
    r->phase = PHASE_STOPPED;
    r->stopped = r->looked;
    r->exit_status = exit_status;
    r->speaker = speaker;
    r->reason = arena_strdup(r->arena, reason);
    r->notes = arena_strdup(r->arena, notes);
    for (int i = 0; i < r->config.size; i++)
        tell_end(r, &r->members[i]);
    if (speaker < 0)
        r->config.out.say(r->config.out.data, RT_SAY_ERROR, r->reason,
                          r->notes);
}

static bool
all_have_ended(const RtMembership *r)
{
    for (int i = 0; i < r->config.size; i++) {
        const RtMemberState *member = &r->members[i];
        if (!member->ended && !member->gone &&
            (member->present || r->phase < PHASE_STOPPED))
            return false;
    }
    return true;
}

/* The failure that is the job's: of the one that came least far, for the
 * others' may follow from it.  An interrupt reaches all, and each ends in its
 * own time. */
static int
cause_of_end(const RtMembership *r)
{
    int cause = -1;
    for (int i = 0; i < r->config.size; i++) {
        const RtMemberState *member = &r->members[i];
        if (!member->ended || member->end.exit_status == 0)
            continue;
        if (cause < 0 ||
            member->heartbeat.call < r->members[cause].heartbeat.call)
            cause = i;
    }
    return cause;
}

static bool
was_interrupted(const RtMemberState *member)
{
    return member->end.exit_status > 128;
}

static void
finish(RtMembership *r)
{
    int cause = cause_of_end(r);
    r->phase = PHASE_STOPPED;
    r->stopped = r->looked;
    if (cause >= 0) {
        r->exit_status = r->members[cause].end.exit_status;
        r->speaker = cause;
    }
    for (int i = 0; i < r->config.size; i++)
        tell_end(r, &r->members[i]);
    r->phase = PHASE_OVER;
}

/* A run has failed: the others are told, unless they fail by themselves. */
static void
look_at_ends(RtMembership *r, double now)
{
    int cause = cause_of_end(r);
    if (all_have_ended(r)) {
        finish(r);
        return;
    }
    if (cause < 0)
        return;
    const RtMemberState *member = &r->members[cause];
    double wait = was_interrupted(member) ? patience : grace;
    if (now - member->ended_at < wait)
        return;
    Arena *a = arena_new(NULL, "a run that failed");
    rt_membership_stop(r, member->end.exit_status, cause,
                       message_printf(a, "the run of %s has failed: %s",
                                      rt_membership_name(r, a, cause),
                                      message_part(member->end.reason)),
                       "");
    arena_release(a);
}

static void
look_at_stopped(RtMembership *r, double now)
{
    if (all_have_ended(r) || now - r->stopped > patience)
        r->phase = PHASE_OVER;
}

/* ---- frames ------------------------------------------------------------- */

static int32_t
site_or_none(const RtMembership *r, int32_t site)
{
    return site >= 0 && site < r->members[0].hello.num_sites ? site : -1;
}

void
rt_membership_locate(RtMembership *r, RtMemberState *member,
                     const RtHeartbeat *heartbeat, double now)
{
    RtHeartbeat *at = &member->heartbeat;
    if (at->call != heartbeat->call || at->state != heartbeat->state ||
        at->wait_call != heartbeat->wait_call)
        member->moved = now;
    *at = *heartbeat;
    at->site = site_or_none(r, at->site);
    at->wait_site = site_or_none(r, at->wait_site);
    at->at_site = site_or_none(r, at->at_site);
    at->read_site = site_or_none(r, at->read_site);
    if (at->state < 0 || at->state > RT_JOB_RETURNED)
        at->state = RT_JOB_RUNS;
    if (member->told)
        rt_heard_add(member->told, at, now);
}

static void
take_end(RtMembership *r, RtMemberState *member, const RtEnd *end, double now)
{
    if (member->ended)
        return;
    member->ended = true;
    member->ended_at = now;
    member->end = *end;
    member->end.reason = arena_strdup(r->arena, end->reason);
    if (r->phase >= PHASE_STOPPED)
        tell_end(r, member);
}

static int
rank_of(const RtMembership *r, const RtRoute *from)
{
    for (int i = 0; i < r->config.size; i++) {
        const RtMemberState *member = &r->members[i];
        if (member->present && member->route.len == from->len &&
            memcmp(member->route.id, from->id, from->len) == 0)
            return i;
    }
    return -1;
}

/* What a member says once it was heard. */
static void
take(RtMembership *r, int rank, RtFrame *f, double now)
{
    RtMemberState *member = &r->members[rank];
    RtHeartbeat heartbeat = {0};
    RtLinked linked = {0};
    RtExchangePart exchange = {0};
    RtEnd end = {0};
    switch ((RtFrameType)f->type) {
    case RT_FRAME_HEARTBEAT:
        rt_frame_heartbeat(f, &heartbeat);
        if (rt_frame_is_good(f))
            rt_membership_locate(r, member, &heartbeat, now);
        break;
    case RT_FRAME_LINKED:
        rt_frame_linked(f, &linked);
        if (rt_frame_is_good(f))
            rt_membership_linked(r, member, &linked);
        break;
    case RT_FRAME_EXCHANGE:
        rt_frame_exchange(f, &exchange);
        if (rt_frame_is_good(f))
            rt_membership_exchange(r, rank, f->number, &exchange, now);
        break;
    case RT_FRAME_END:
        rt_frame_end(f, &end);
        if (rt_frame_is_good(f))
            take_end(r, member, &end, now);
        break;
    default:
        return;
    }
    if (rt_frame_is_good(f)) {
        member->heard = now;
        member->silence_said = false;
    }
}

void
rt_membership_receive(RtMembership *r, const RtRoute *from, int fd,
                      const void *bytes, size_t n, double now)
{
    Arena *a = arena_new(NULL, "a frame");
    RtFrame f = rt_frame_read(a, bytes, n);
    int rank = rank_of(r, from);
    RtHello hello = {0};
    if (f.bad) {
        /* not ours: nothing is known of it, and it is told nothing */
    } else if (f.protocol != RT_FRAME_PROTOCOL) {
        rt_membership_refuse_protocol(r, from, f.protocol);
    } else if (f.type == RT_FRAME_HELLO) {
        rt_frame_hello(&f, &hello);
        if (rt_frame_is_good(&f))
            rt_membership_hello(r, from, fd, f.number, &hello, now);
    } else if (rank >= 0 && f.attempt == r->config.attempt) {
        take(r, rank, &f, now);
    }
    arena_release(a);
}

/* ---- from outside ------------------------------------------------------- */

void
rt_membership_closed(RtMembership *r, int fd, double now)
{
    for (int i = 0; fd >= 0 && i < r->config.size; i++) {
        RtMemberState *member = &r->members[i];
        if (!member->present || member->fd != fd)
            continue;
        member->fd = -1;
        if (member->ended || r->phase >= PHASE_STOPPED)
            member->gone = true;
        else if (member->lost <= 0)
            member->lost = now;
    }
}

void
rt_membership_lost(RtMembership *r, int rank, const char *how, int exit_status,
                   double now)
{
    RtMemberState *member = &r->members[rank];
    if (member->ended || r->phase >= PHASE_STOPPED) {
        member->gone = true;
        return;
    }
    if (member->lost <= 0)
        member->lost = now;
    member->lost_how = arena_strdup(r->arena, how);
    member->lost_status = exit_status;
}

/* A server that was not executed for a while has heard nothing meanwhile; and
 * others may have been stopped with it, as by control-Z, so nobody has waited.
 */
static void
forgive_own_gap(RtMembership *r, double now)
{
    double gap = now - r->looked;
    r->looked = now;
    if (gap <= 0.5)
        return;
    for (int i = 0; i < r->config.size; i++) {
        r->members[i].heard += gap;
        r->members[i].ended_at += gap;
    }
    r->began += gap;
    r->stopped += gap;
    r->awaited_since += gap;
    if (r->exchange_began > 0)
        r->exchange_began += gap;
    r->slow_looked = 0; /* another window */
}

void
rt_membership_tick(RtMembership *r, double now)
{
    forgive_own_gap(r, now);
    if (now - r->heartbeat_sent >= server_heartbeat_every) {
        r->heartbeat_sent = now;
        rt_membership_send_simple_to_all(r, RT_FRAME_SERVER_HEARTBEAT);
    }
    if (r->phase == PHASE_JOINING)
        rt_membership_say_missing(r, now);
    if (r->phase < PHASE_STOPPED)
        rt_detect_failures(r, now);
    if (r->phase < PHASE_STOPPED)
        look_at_ends(r, now);
    else if (r->phase == PHASE_STOPPED)
        look_at_stopped(r, now);
}

bool
rt_membership_has_begun(const RtMembership *r)
{
    return r->begun;
}

bool
rt_membership_is_stopped(const RtMembership *r)
{
    return r->phase >= PHASE_STOPPED;
}

bool
rt_membership_has_ended(const RtMembership *r, int *exit_status)
{
    *exit_status = r->exit_status;
    return r->phase == PHASE_OVER;
}
