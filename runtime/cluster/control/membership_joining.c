/*
 * membership_joining.c - how a job begins: who comes, whether all are equal,
 * and whether they reach each other
 */
#include <string.h>
#include "ir/base/message.h"
#include "runtime/cluster/control/membership_impl.h"

enum { MISSING_EVERY = 5 };

/* ---- whether all are equal ----------------------------------------------- */

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
    rt_membership_send_route(r, from, &f);
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

void
rt_membership_hello(RtMembership *r, const RtRoute *from, int fd,
                    uint64_t nonce, const RtHello *h, double now)
{
    if (h->size != r->config.size || h->rank < 0 || h->rank >= h->size) {
        if (r->phase < PHASE_RUNNING)
            refuse_size(r, h);
        if (r->phase >= PHASE_STOPPED)
            rt_membership_send_end(r, from, RT_FRAME_STOP);
        return;
    }
    RtMemberState *member = &r->members[h->rank];
    bool again = member->present && member->nonce == nonce;
    if (again)
        return; /* by another of our addresses */
    if (r->phase >= PHASE_LINKING && r->phase < PHASE_STOPPED) {
        refuse_newcomer(r, from, h);
    } else if (r->phase >= PHASE_STOPPED) {
        rt_membership_send_end(r, from, RT_FRAME_STOP);
    } else if (member->present) {
        refuse_twice(r, h);
        rt_membership_send_end(r, from, RT_FRAME_STOP);
    } else {
        member->hello = copy_hello(r->arena, h);
        member->present = true;
        member->nonce = nonce;
        member->route = *from;
        member->fd = fd;
        member->heard = now;
        map_positions(r, member);
        if (r->config.diagnose && !member->positions.header)
            member->told = NEW(r->arena, RtHeard);
        rt_membership_send_simple(r, from, RT_FRAME_HEARD, nonce);
        compare_identities(r);
        if (r->phase == PHASE_JOINING && all_are_present(r))
            welcome(r);
    }
}

/* They need not come: another number of processes goes on without them. */
static bool
may_be_fewer(const RtMembership *r)
{
    double timeout = rt_membership_timeout(r);
    return r->config.joining > 0 && r->config.joining < timeout;
}

/* ranks: "rank 1", "ranks 1-3". */
static const char *
late_text(const RtMembership *r, Arena *a, const char *ranks, double waited)
{
    const char *have = strncmp(ranks, "ranks", 5) == 0 ? "have" : "has";
    return may_be_fewer(r)
               ? message_printf(a, "%s of %d %s not come after %.0f seconds",
                                ranks, r->config.size, have, waited)
               : message_printf(a,
                                "%s of %d %s not come after %.0f "
                                "seconds (--timeout allows more)",
                                ranks, r->config.size, have, waited);
}

void
rt_membership_say_missing(RtMembership *r, double now)
{
    double waited = now - r->began;
    double limit =
        may_be_fewer(r) ? r->config.joining : rt_membership_timeout(r);
    if (now - r->missing_said < MISSING_EVERY && waited < limit)
        return;
    r->missing_said = now;
    Arena *a = arena_new(NULL, "who is missing");
    bool *missing = NEW_ARRAY(a, bool, (size_t)r->config.size);
    for (int i = 0; i < r->config.size; i++)
        missing[i] = !r->members[i].present;
    const char *ranks = rt_membership_ranks(r, a, missing);
    if (waited >= limit)
        rt_membership_stop(r, 3, -1, late_text(r, a, ranks, waited), "");
    else
        r->config.out.say(
            r->config.out.data, RT_SAY_NOTE,
            message_printf(a, "waiting for %s of %d", ranks, r->config.size),
            "");
    arena_release(a);
}

void
rt_membership_refuse_protocol(RtMembership *r, const RtRoute *from,
                              int protocol)
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
        rt_membership_send_end(r, from, RT_FRAME_STOP);
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

void
rt_membership_linked(RtMembership *r, RtMemberState *member,
                     const RtLinked *linked)
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
    rt_membership_send_simple_to_all(r, RT_FRAME_GO);
}
