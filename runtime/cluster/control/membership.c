/*
 * membership.c - who belongs to a job: from the first hello to the last end
 */
#include <stdlib.h>
#include <string.h>
#include "ir/base/message.h"
#include "runtime/cluster/control/membership_impl.h"

enum { MISSING_EVERY = 5 };

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

static void
send_to(RtMembership *r, const RtRoute *to, const RtFrame *f)
{
    r->config.out.send(r->config.out.data, to, f);
}

void
rt_membership_send(RtMembership *r, const RtMemberState *member,
                   const RtFrame *f)
{
    if (member->present && !member->gone)
        send_to(r, &member->route, f);
}

void
rt_membership_send_all(RtMembership *r, const RtFrame *f)
{
    for (int i = 0; i < r->config.size; i++)
        rt_membership_send(r, &r->members[i], f);
}

static void
send_simple(RtMembership *r, const RtRoute *to, RtFrameType type,
            uint64_t number)
{
    uint8_t bytes[16];
    RtFrame f =
        rt_frame_in(bytes, sizeof bytes, type, r->config.attempt, number);
    send_to(r, to, &f);
}

static void
send_simple_to_all(RtMembership *r, RtFrameType type)
{
    uint8_t bytes[16];
    RtFrame f = rt_frame_in(bytes, sizeof bytes, type, r->config.attempt, 0);
    rt_membership_send_all(r, &f);
}

static void
send_end(RtMembership *r, const RtRoute *to, RtFrameType type)
{
    Arena *a = arena_new(NULL, "the end of a job");
    RtFrame f = rt_frame_new(a, type, r->config.attempt, 0);
    RtEnd end = {.exit_status = r->exit_status,
                 .speaker = r->speaker,
                 .reason = r->reason,
                 .notes = r->notes};
    rt_frame_end(&f, &end);
    send_to(r, to, &f);
    arena_release(a);
}

/* ---- the end ------------------------------------------------------------ */

static void
tell_end(RtMembership *r, const RtMemberState *member)
{
    if (member->present && !member->gone)
        send_end(r, &member->route,
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

/* ---- joining ------------------------------------------------------------ */

/* The first kind of identity in which a member differs from rank 0's; -1: none.
 */
static int
difference(const RtMembership *r, int rank)
{
    const RtHello *first = &r->members[0].hello, *h = &r->members[rank].hello;
    for (int i = 0; i < RT_NUM_IDENTITIES; i++)
        if (strcmp(first->identity[i], h->identity[i]) != 0)
            return i;
    return -1;
}

static const char *
shown(Arena *a, const char *value)
{
    enum { MOST = 120 };
    if (!*value)
        return "none";
    if (strlen(value) <= MOST)
        return value;
    return arena_printf(a, "%s...", arena_strndup(a, value, MOST));
}

static const char *const identity_names[] = {
#define IDENTITY(name, what, repair) what,
#include "runtime/cluster/control/identity.def"
#undef IDENTITY
};

static const char *const identity_repairs[] = {
#define IDENTITY(name, what, repair) repair,
#include "runtime/cluster/control/identity.def"
#undef IDENTITY
};

static void
refuse_difference(RtMembership *r, int rank, int kind)
{
    Arena *a = arena_new(NULL, "a refusal");
    const char *const *own = r->members[rank].hello.identity;
    const char *const *first = r->members[0].hello.identity;
    rt_membership_stop(
        r, 1, -1,
        message_printf(a,
                       "rank %d (%s) has another %s than rank 0 (%s): %s, "
                       "not %s; %s",
                       rank, r->members[rank].hello.host, identity_names[kind],
                       r->members[0].hello.host, shown(a, own[kind]),
                       shown(a, first[kind]), identity_repairs[kind]),
        "");
    arena_release(a);
}

static void
compare_identities(RtMembership *r)
{
    for (int i = 1; i < r->config.size; i++) {
        int kind = r->members[0].present && r->members[i].present
                       ? difference(r, i)
                       : -1;
        if (kind >= 0) {
            refuse_difference(r, i, kind);
            return;
        }
    }
}

static void
refuse_twice(RtMembership *r, const RtHello *h)
{
    Arena *a = arena_new(NULL, "a refusal");
    const RtHello *first = &r->members[h->rank].hello;
    rt_membership_stop(r, 1, -1,
                       message_printf(a,
                                      "rank %d was started twice: on %s (pid "
                                      "%lld) and on %s (pid %lld)",
                                      h->rank, first->host,
                                      (long long)first->pid, h->host,
                                      (long long)h->pid),
                       "");
    arena_release(a);
}

static void
refuse_size(RtMembership *r, const RtHello *h)
{
    Arena *a = arena_new(NULL, "a refusal");
    rt_membership_stop(
        r, 1, -1,
        message_printf(a,
                       "rank %d of %d (%s, pid %lld) came to a job "
                       "of %d processes; start all processes with "
                       "the same number",
                       h->rank, h->size, h->host, (long long)h->pid,
                       r->config.size),
        "");
    arena_release(a);
}

/* A process that comes when the job runs, or has ended, is told so; the job
 * goes on. */
static void
refuse_newcomer(RtMembership *r, const RtRoute *from, const RtHello *h)
{
    Arena *a = arena_new(NULL, "a refusal");
    RtFrame f = rt_frame_new(a, RT_FRAME_STOP, r->config.attempt, 0);
    RtEnd end = {.exit_status = 1,
                 .speaker = h->rank,
                 .reason = message_printf(
                     a,
                     "the job has begun with another rank %d (%s, pid %lld); a "
                     "process cannot join it now",
                     h->rank, r->members[h->rank].hello.host,
                     (long long)r->members[h->rank].hello.pid),
                 .notes = ""};
    rt_frame_end(&f, &end);
    send_to(r, from, &f);
    arena_release(a);
}

static const char **
copy_texts(Arena *a, const char *const *texts, int n)
{
    const char **copies = NEW_ARRAY(a, const char *, (size_t)n);
    for (int i = 0; i < n; i++)
        copies[i] = arena_strdup(a, texts[i]);
    return copies;
}

static RtHello
copy_hello(Arena *a, const RtHello *from)
{
    RtHello h = *from;
    h.host = arena_strdup(a, from->host);
    h.machine = arena_strdup(a, from->machine);
    for (int i = 0; i < RT_NUM_IDENTITIES; i++)
        h.identity[i] = arena_strdup(a, from->identity[i]);
    h.addresses.text = copy_texts(a, from->addresses.text, from->addresses.num);
    h.sites = NEW_ARRAY(a, RtJobSite, (size_t)from->num_sites);
    for (int i = 0; i < from->num_sites; i++)
        h.sites[i] = (RtJobSite){arena_strdup(a, from->sites[i].where),
                                 arena_strdup(a, from->sites[i].what)};
    return h;
}

static bool
all_are_present(const RtMembership *r)
{
    for (int i = 0; i < r->config.size; i++)
        if (!r->members[i].present)
            return false;
    return true;
}

/* Ranks among those of the same machine. */
static void
count_local(const RtMembership *r, int rank, int *local_rank, int *local_size)
{
    *local_rank = *local_size = 0;
    for (int i = 0; i < r->config.size; i++) {
        if (strcmp(r->members[i].hello.machine, r->members[rank].hello.machine))
            continue;
        *local_rank += i < rank;
        (*local_size)++;
    }
}

static void
welcome(RtMembership *r)
{
    Arena *a = arena_new(NULL, "a welcome");
    RtWelcome w = {.id = r->config.id,
                   .size = r->config.size,
                   .server = r->config.server_rank,
                   .peers =
                       NEW_ARRAY(a, RtWelcomePeer, (size_t)r->config.size)};
    for (int i = 0; i < r->config.size; i++) {
        const RtHello *h = &r->members[i].hello;
        RtWelcomePeer *p = &w.peers[i];
        p->peer =
            (RtJobPeer){.host = h->host, .machine = h->machine, .pid = h->pid};
        count_local(r, i, &p->peer.local_rank, &p->peer.local_size);
        p->addresses = h->addresses;
    }
    RtFrame f = rt_frame_new(a, RT_FRAME_WELCOME, r->config.attempt, 0);
    rt_frame_welcome(&f, &w);
    rt_membership_send_all(r, &f);
    arena_release(a);
    r->phase = PHASE_LINKING;
}

/* A process whose memory cannot be mapped is known by its heartbeats. */
static void
map_positions(const RtMembership *r, RtMemberState *member)
{
    const RtHello *h = &member->hello;
    if (r->config.machine && strcmp(r->config.machine, h->machine) == 0 &&
        !rt_positions_map(&member->positions, &h->positions))
        rt_positions_close(&member->positions);
}

static void
take_hello(RtMembership *r, const RtRoute *from, int fd, uint64_t nonce,
           const RtHello *h, double now)
{
    if (h->size != r->config.size || h->rank < 0 || h->rank >= h->size) {
        if (r->phase < PHASE_RUNNING)
            refuse_size(r, h);
        if (r->phase >= PHASE_STOPPED)
            send_end(r, from, RT_FRAME_STOP);
        return;
    }
    RtMemberState *member = &r->members[h->rank];
    bool again = member->present && member->nonce == nonce;
    if (again)
        return; /* by another of our addresses */
    if (r->phase >= PHASE_LINKING && r->phase < PHASE_STOPPED) {
        refuse_newcomer(r, from, h);
    } else if (r->phase >= PHASE_STOPPED) {
        send_end(r, from, RT_FRAME_STOP);
    } else if (member->present) {
        refuse_twice(r, h);
        send_end(r, from, RT_FRAME_STOP);
    } else {
        member->hello = copy_hello(r->arena, h);
        member->present = true;
        member->nonce = nonce;
        member->route = *from;
        member->fd = fd;
        member->heard = now;
        map_positions(r, member);
        send_simple(r, from, RT_FRAME_HEARD, nonce);
        compare_identities(r);
        if (r->phase == PHASE_JOINING && all_are_present(r))
            welcome(r);
    }
}

static void
say_missing(RtMembership *r, double now)
{
    if (now - r->missing_said < MISSING_EVERY)
        return;
    r->missing_said = now;
    Arena *a = arena_new(NULL, "who is missing");
    bool *missing = NEW_ARRAY(a, bool, (size_t)r->config.size);
    for (int i = 0; i < r->config.size; i++)
        missing[i] = !r->members[i].present;
    const char *ranks = rt_membership_ranks(r, a, missing);
    double waited = now - r->began;
    if (waited >= rt_membership_timeout(r))
        rt_membership_stop(r, 3, -1,
                           message_printf(a,
                                          "%s of %d have not come after %.0f "
                                          "seconds (--timeout allows more)",
                                          ranks, r->config.size, waited),
                           "");
    else
        r->config.out.say(
            r->config.out.data, RT_SAY_NOTE,
            message_printf(a, "waiting for %s of %d", ranks, r->config.size),
            "");
    arena_release(a);
}

/* ---- the link test ------------------------------------------------------ */

static void
refuse_unreached(RtMembership *r)
{
    Arena *a = arena_new(NULL, "processes that do not reach each other");
    Str notes = str_new(a);
    const char *line = NULL;
    for (int i = 0; i < r->config.size; i++)
        for (int k = 0; k < r->members[i].unreached.num; k++) {
            const RtUnreached *u = &r->members[i].unreached.unreached[k];
            const char *from = rt_membership_name(r, a, i);
            const char *to = rt_membership_name(r, a, u->peer);
            const char *text =
                message_printf(a, "%s does not reach %s: %s", from, to, u->why);
            if (!line)
                line = text;
            else
                str_addf(&notes, "tfd-run: note: %s\n", text);
        }
    rt_membership_stop(r, 3, -1, line, str_text(&notes));
    arena_release(a);
}

static bool
all_are_linked(const RtMembership *r, bool *all_reached)
{
    *all_reached = true;
    for (int i = 0; i < r->config.size; i++) {
        if (!r->members[i].linked)
            return false;
        *all_reached = *all_reached && r->members[i].unreached.num == 0;
    }
    return true;
}

static void
take_linked(RtMembership *r, RtMemberState *member, const RtLinked *linked)
{
    bool all_reached;
    if (r->phase != PHASE_LINKING || member->linked)
        return;
    member->linked = true;
    member->unreached.unreached =
        NEW_ARRAY(r->arena, RtUnreached, (size_t)linked->num);
    for (int i = 0; i < linked->num; i++) {
        const RtUnreached *u = &linked->unreached[i];
        if (u->peer < 0 || u->peer >= r->config.size)
            continue;
        member->unreached.unreached[member->unreached.num++] =
            (RtUnreached){u->peer, arena_strdup(r->arena, u->why)};
    }
    if (!all_are_linked(r, &all_reached))
        return;
    if (!all_reached) {
        refuse_unreached(r);
        return;
    }
    r->phase = PHASE_RUNNING;
    r->begun = true;
    send_simple_to_all(r, RT_FRAME_GO);
}

/* ---- exchanges ---------------------------------------------------------- */

static void
drop_exchange(RtMembership *r)
{
    for (int i = 0; i < r->config.size; i++) {
        if (r->members[i].bytes)
            arena_release(r->members[i].bytes);
        r->members[i].bytes = NULL;
    }
    r->exchange_began = 0;
    r->exchange_said = false;
}

static void
send_exchange(RtMembership *r)
{
    Arena *a = arena_new(NULL, "an exchange");
    RtBytes *all = NEW_ARRAY(a, RtBytes, (size_t)r->config.size);
    for (int i = 0; i < r->config.size; i++)
        all[i] = r->members[i].exchange.own;
    RtFrame f =
        rt_frame_new(a, RT_FRAME_ALL, r->config.attempt, r->exchange_number);
    rt_frame_all(&f, all, r->config.size);
    rt_membership_send_all(r, &f);
    arena_release(a);
    r->exchange_number++;
    drop_exchange(r);
}

/* Programs of which the one does what the other does not have diverged, which
 * only a fault of ours explains. */
static void
stop_diverged(RtMembership *r, int one, int other)
{
    Arena *a = arena_new(NULL, "an exchange");
    const char *first = rt_membership_name(r, a, one);
    const char *second = rt_membership_name(r, a, other);
    rt_membership_stop(
        r, 3, -1,
        message_printf(a,
                       "%s is at \"%s\" where %s is at \"%s\": the "
                       "processes have diverged",
                       first, r->members[one].exchange.name, second,
                       r->members[other].exchange.name),
        "");
    arena_release(a);
}

static void
take_exchange(RtMembership *r, int rank, uint64_t number,
              const RtExchangePart *exchange, double now)
{
    RtMemberState *member = &r->members[rank];
    int first = 0;
    if (r->phase != PHASE_RUNNING || member->bytes ||
        number != r->exchange_number)
        return;
    while (first < r->config.size && !r->members[first].bytes)
        first++;
    member->bytes = arena_new(r->arena, "an exchange");
    member->exchange.name = arena_strdup(member->bytes, exchange->name);
    member->exchange.own = exchange->own;
    if (exchange->own.len)
        member->exchange.own.data =
            arena_copy(member->bytes, exchange->own.data, exchange->own.len);
    if (first == r->config.size)
        r->exchange_began = now;
    else if (strcmp(member->exchange.name, r->members[first].exchange.name) !=
             0) {
        stop_diverged(r, first, rank);
        return;
    }
    for (int i = 0; i < r->config.size; i++)
        if (!r->members[i].bytes)
            return;
    send_exchange(r);
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
    if (at->state < 0 || at->state > RT_JOB_RETURNED)
        at->state = RT_JOB_RUNS;
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
            take_linked(r, member, &linked);
        break;
    case RT_FRAME_EXCHANGE:
        rt_frame_exchange(f, &exchange);
        if (rt_frame_is_good(f))
            take_exchange(r, rank, f->number, &exchange, now);
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

static void
refuse_protocol(RtMembership *r, const RtRoute *from, int protocol)
{
    Arena *a = arena_new(NULL, "a refusal");
    if (r->phase == PHASE_JOINING)
        rt_membership_stop(
            r, 1, -1,
            message_printf(a,
                           "a process speaks protocol %d, and the "
                           "control server protocol %d; %s",
                           protocol, RT_FRAME_PROTOCOL,
                           identity_repairs[RT_IDENTITY_PROTOCOL]),
            "");
    if (r->phase >= PHASE_STOPPED)
        send_end(r, from, RT_FRAME_STOP);
    arena_release(a);
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
        refuse_protocol(r, from, f.protocol);
    } else if (f.type == RT_FRAME_HELLO) {
        rt_frame_hello(&f, &hello);
        if (rt_frame_is_good(&f))
            take_hello(r, from, fd, f.number, &hello, now);
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

/* A server that was not executed for a while has heard nothing meanwhile. */
static void
forgive_own_gap(RtMembership *r, double now)
{
    double gap = now - r->looked;
    if (gap > 0.5)
        for (int i = 0; i < r->config.size; i++)
            r->members[i].heard += gap;
    r->looked = now;
}

void
rt_membership_tick(RtMembership *r, double now)
{
    forgive_own_gap(r, now);
    if (now - r->heartbeat_sent >= server_heartbeat_every) {
        r->heartbeat_sent = now;
        send_simple_to_all(r, RT_FRAME_SERVER_HEARTBEAT);
    }
    if (r->phase == PHASE_JOINING)
        say_missing(r, now);
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
