/*
 * failure_detector.c - who is dead, silent, not coming, or slow
 *
 * Whoever waits knows only that it waits; the one to blame is the process that
 * has begun the fewest calls, wherever the others have come to.  A process is
 *
 *   dead          when its connection is closed, or whoever started it says so,
 *   silent        without heartbeats: stopped, or its host or network is gone,
 *   not coming    with heartbeats, where others wait in a call that it has not
 *                 begun: in an endless loop, or waiting for data,
 *   slow          when it works longer than the others in each step.
 *
 * Where a process was that is dead or stopped is known exactly: on the server's
 * machine from its memory, which outlives it (position.h); on another one from
 * those that wait for it, since what it has not finished is the first call that
 * the others have all begun and that one of them does not come out of.  A
 * heartbeat, which is a tenth of a second old, counts only as long as no other
 * process waits.
 */
#include <stdlib.h>
#include <string.h>
#include "ir/base/message.h"
#include "runtime/cluster/control/membership_impl.h"
#include "runtime/cluster/zmq/socket.h"

static const double last_heartbeats = 0.25; /* until the others' have come */
static const double last_calls = 0.8;       /* until they wait for it, on other
                                               machines */
static const double settled = 0.2;          /* that they wait in one place */
static const double silence_noted = 2;
static const double absence_noted = 5;

enum { SLOW_STEPS = 20 };

/* ---- where a process is ------------------------------------------------- */

static void
locate_all(RtMembership *r, double now)
{
    for (int i = 0; i < r->config.size; i++) {
        RtMemberState *member = &r->members[i];
        RtHeartbeat at;
        if (!member->positions.header)
            continue;
        rt_positions_read(&member->positions, &at);
        rt_membership_locate(r, member, &at, now);
    }
}

static const RtJobSite *
site_of(const RtMembership *r, int32_t site)
{
    return site >= 0 ? &r->members[0].hello.sites[site] : NULL;
}

static bool
is_here(const RtMemberState *member)
{
    return member->present && !member->gone && !member->ended;
}

/* The latest call that anybody waits in; 0: none. */
static int64_t
latest_wait(const RtMembership *r)
{
    int64_t latest = 0;
    for (int i = 0; i < r->config.size; i++) {
        const RtMemberState *member = &r->members[i];
        if (is_here(member) && member->lost <= 0 &&
            member->heartbeat.state == RT_JOB_WAITS &&
            member->heartbeat.wait_call > latest)
            latest = member->heartbeat.wait_call;
    }
    return latest;
}

static bool
is_past(const RtHeartbeat *b)
{
    return b->state != RT_JOB_WAITS && b->wait_call == b->call;
}

/* Whether others may lack this rank in the call that a member waits in. */
static bool
may_wait_for(const RtMemberState *member, const RtHeartbeat *rank)
{
    const RtHeartbeat *b = &member->heartbeat;
    return is_here(member) && member->lost <= 0 && b->state == RT_JOB_WAITS &&
           b->wait_call >= rank->call + is_past(rank);
}

/* Whoever waits in the first call that lacks this rank; -1: nobody. */
static int
first_waiter(const RtMembership *r, int rank)
{
    int first = -1;
    for (int i = 0; i < r->config.size; i++) {
        const RtMemberState *member = &r->members[i];
        if (i != rank && may_wait_for(member, &r->members[rank].heartbeat) &&
            (first < 0 || member->heartbeat.wait_call <
                              r->members[first].heartbeat.wait_call))
            first = i;
    }
    return first;
}

/* The same, where nobody else is lacked there and no message can be under way
 * any more: it is the first call that the rank has not finished. */
static int
only_waiter(const RtMembership *r, int rank)
{
    int first = first_waiter(r, rank);
    if (first >= 0 && r->looked - r->members[first].moved < settled)
        return -1;
    for (int i = 0; first >= 0 && i < r->config.size; i++) {
        const RtMemberState *member = &r->members[i];
        if (i != rank && is_here(member) && member->lost <= 0 &&
            member->heartbeat.call < r->members[first].heartbeat.wait_call)
            first = -1;
    }
    return first;
}

static const char *
not_finished(const RtMembership *r, Arena *a, int waiter)
{
    const RtHeartbeat *b = &r->members[waiter].heartbeat;
    const RtJobSite *site = site_of(r, b->wait_site);
    return message_printf(
        a, "it has not finished call %lld, %s (%s, step %lld)",
        (long long)b->wait_call, site ? site->where : "?",
        site ? site->what : "a collective", (long long)b->step);
}

/* The last call that it has begun; whether it has come out of it. */
static const char *
last_seen(const RtMembership *r, Arena *a, int rank)
{
    const RtMemberState *member = &r->members[rank];
    const RtHeartbeat *b = &member->heartbeat;
    const RtJobSite *site = site_of(r, b->site);
    int waiter = member->positions.header ? -1 : only_waiter(r, rank);
    if (waiter >= 0)
        return not_finished(r, a, waiter);
    if (!site || b->call == 0)
        return message_printf(a,
                              "it was last seen before its first "
                              "collective, in step %lld",
                              (long long)b->step);
    const char *doing = b->state == RT_JOB_READS   ? ", waiting for data"
                        : b->state == RT_JOB_SAVES ? ", saving"
                                                   : "";
    if (is_past(b))
        return message_printf(
            a, "it was last seen after call %lld, %s (%s, step %lld%s)",
            (long long)b->call, site->where, site->what, (long long)b->step,
            doing);
    return message_printf(
        a, "it was last seen in call %lld, %s (%s, step %lld%s)",
        (long long)b->call, site->where, site->what, (long long)b->step, doing);
}

/* Those that wait where `first` does; how many. */
static int
list_waiters(const RtMembership *r, int first, int rank, bool *waits)
{
    const RtHeartbeat *at = &r->members[rank].heartbeat;
    int count = 0;
    for (int i = 0; i < r->config.size; i++) {
        const RtMemberState *member = &r->members[i];
        waits[i] = i != rank && may_wait_for(member, at) &&
                   member->heartbeat.wait_call ==
                       r->members[first].heartbeat.wait_call;
        count += waits[i];
    }
    return count;
}

/* A whole line: who waits in a call for it, and where; or "". */
static const char *
callers(const RtMembership *r, Arena *a, int rank)
{
    bool *waits = NEW_ARRAY(a, bool, (size_t)r->config.size);
    int first = first_waiter(r, rank);
    if (first < 0)
        return "";
    int count = list_waiters(r, first, rank, waits);
    const RtHeartbeat *b = &r->members[first].heartbeat;
    const RtJobSite *site = site_of(r, b->wait_site);
    const char *ranks = rt_membership_ranks(r, a, waits);
    const char *text = message_printf(a, "%s %s here for it (%s, call %lld)",
                                      ranks, count == 1 ? "waits" : "wait",
                                      site ? site->what : "a collective",
                                      (long long)b->wait_call);
    return arena_printf(a, "%s: note: %s\n", site ? site->where : "tfd-run",
                        text);
}

/* Those that wait for data of its; how many, and one of them. */
static int
list_readers(const RtMembership *r, int rank, bool *reads, int *one)
{
    int count = 0;
    for (int i = 0; i < r->config.size; i++) {
        const RtMemberState *member = &r->members[i];
        reads[i] = i != rank && is_here(member) && member->lost <= 0 &&
                   member->heartbeat.state == RT_JOB_READS &&
                   member->heartbeat.maker == rank;
        count += reads[i];
        if (reads[i])
            *one = i;
    }
    return count;
}

/* The same of data that it makes for other processes of its machine. */
static const char *
readers(const RtMembership *r, Arena *a, int rank)
{
    bool *reads = NEW_ARRAY(a, bool, (size_t)r->config.size);
    int one = -1, count = list_readers(r, rank, reads, &one);
    if (!count)
        return "";
    const RtHeartbeat *b = &r->members[one].heartbeat;
    const RtJobSite *site = site_of(r, b->read_site);
    const char *text = message_printf(
        a, "%s %s here for data that it reads for them (step %lld)",
        rt_membership_ranks(r, a, reads), count == 1 ? "waits" : "wait",
        (long long)b->step);
    return arena_printf(a, "%s: note: %s\n", site ? site->where : "tfd-run",
                        text);
}

/* Whole lines: who waits for it, and where. */
static const char *
waiters(const RtMembership *r, Arena *a, int rank)
{
    return arena_printf(a, "%s%s", callers(r, a, rank), readers(r, a, rank));
}

/* A whole line: in whose work it is, with the lines of who waits. */
static const char *
where_it_is(const RtMembership *r, Arena *a, int rank)
{
    const char *others = waiters(r, a, rank);
    const RtJobSite *site = site_of(r, r->members[rank].heartbeat.at_site);
    if (!site)
        return others;
    const char *text =
        message_printf(a, "rank %d is in this %s", rank, site->what);
    return arena_printf(a, "%s: note: %s\n%s", site->where, text, others);
}

/* ---- failures ----------------------------------------------------------- */

/* The last calls of a process that is not going to write them itself. */
static void
dump(const RtMembership *r, int rank, const char *reason)
{
    const RtMemberState *member = &r->members[rank];
    const RtHello *first = &r->members[0].hello;
    RtDump d = {r->config.diagnose, rank,  member->hello.host, first->sites,
                first->num_sites,   reason};
    if (!d.folder || (!member->positions.header && !member->told))
        return;
    Status st = member->positions.header
                    ? rt_positions_dump(&member->positions, &d)
                    : rt_heard_dump(member->told, &d, r->looked);
    if (st)
        r->config.out.say(r->config.out.data, RT_SAY_NOTE, status_message(st),
                          "");
    status_free(st);
}

static void
evict(RtMembership *r, int rank, int exit_status, const char *line,
      const char *notes)
{
    rt_membership_stop(r, exit_status, -1, line, notes);
    dump(r, rank, line);
    r->members[rank].gone = true;
    if (r->config.out.evict)
        r->config.out.evict(r->config.out.data, rank);
}

/* A rank that may still come is named once, in a note. */
static void
warn(RtMembership *r, bool *said, const char *line, const char *notes)
{
    if (!*said)
        r->config.out.say(r->config.out.data, RT_SAY_NOTE, line, notes);
    *said = true;
}

static void
stop_for_dead(RtMembership *r, int rank)
{
    const RtMemberState *member = &r->members[rank];
    Arena *a = arena_new(NULL, "a failure");
    const char *name = rt_membership_name(r, a, rank);
    int exit_status = member->lost_status ? member->lost_status : 3;
    const char *how =
        member->lost_how ? arena_printf(a, " (%s)", member->lost_how) : "";
    const char *line =
        member->present ? message_printf(a, "%s is dead%s; %s", name, how,
                                         last_seen(r, a, rank))
                        : message_printf(a, "%s has not joined%s", name, how);
    evict(r, rank, exit_status, line, waiters(r, a, rank));
    arena_release(a);
}

/* Seconds until what is known of a dead process is all that will be. */
static double
patience_with(const RtMembership *r, int rank)
{
    bool known = r->members[rank].positions.header ||
                 !r->members[rank].present || only_waiter(r, rank) >= 0;
    return known ? last_heartbeats : last_calls;
}

static void
look_for_dead(RtMembership *r, double now)
{
    int dead = -1;
    for (int i = 0; i < r->config.size; i++) {
        const RtMemberState *member = &r->members[i];
        if (member->lost > 0 && !member->ended && !member->gone &&
            (dead < 0 || member->lost < r->members[dead].lost))
            dead = i;
    }
    if (dead >= 0 && now - r->members[dead].lost >= patience_with(r, dead))
        stop_for_dead(r, dead);
}

/* Those of other machines than the server's; how many. */
static int
list_remote(const RtMembership *r, bool *which)
{
    int count = 0;
    for (int i = 0; i < r->config.size; i++) {
        const RtMemberState *member = &r->members[i];
        which[i] = is_here(member) && r->config.machine &&
                   strcmp(member->hello.machine, r->config.machine) != 0;
        count += which[i];
    }
    return count;
}

/* Since it was heard, or seen to go on. */
static double
silence_of(const RtMemberState *member, double now)
{
    double sign = member->heard > member->moved ? member->heard : member->moved;
    return is_here(member) && member->lost <= 0 ? now - sign : 0;
}

/* What came and waits to be read is a sign, too: on a busy machine the thread
 * that reads may get no processor for seconds. */
static void
look_for_unread(RtMembership *r, double now)
{
    for (int i = 0; i < r->config.size; i++) {
        RtMemberState *member = &r->members[i];
        if (silence_of(member, now) >= silence_noted &&
            rt_zmq_has_unread(member->fd))
            member->heard = now;
    }
}

/* Several processes of other machines, all of them at the same time: it is the
 * network of the server's machine. */
static bool
look_for_own_network(RtMembership *r, double now)
{
    Arena *a = arena_new(NULL, "a failure");
    bool *which = NEW_ARRAY(a, bool, (size_t)r->config.size);
    bool all = list_remote(r, which) > 1, said = false;
    double least = r->config.silence + now;
    for (int i = 0; i < r->config.size; i++) {
        double silence = silence_of(&r->members[i], now);
        if (which[i] && silence < least)
            least = silence;
    }
    all = all && least >= silence_noted;
    for (int i = 0; all && i < r->config.size; i++) {
        said |= which[i] && r->members[i].silence_said;
        r->members[i].silence_said |= which[i];
    }
    if (all && (!said || least >= r->config.silence)) {
        const char *line = message_printf(
            a,
            "%s are silent: no sign of any process of another machine for "
            "%.1f seconds (the network of this one is gone)",
            rt_membership_ranks(r, a, which), least);
        if (least >= r->config.silence)
            rt_membership_stop(r, 3, -1, line, "");
        else
            warn(r, &said, line, "");
    }
    arena_release(a);
    return all;
}

static void
look_for_silent(RtMembership *r, int rank, double now)
{
    RtMemberState *member = &r->members[rank];
    double silence = silence_of(member, now);
    if (silence < silence_noted)
        return;
    Arena *a = arena_new(NULL, "a failure");
    const char *name = rt_membership_name(r, a, rank);
    const char *seen = last_seen(r, a, rank);
    if (silence >= r->config.silence)
        evict(r, rank, 3,
              message_printf(a,
                             "%s is silent: no sign of it for %.1f seconds "
                             "(it is stopped, or its host or network is "
                             "gone); %s",
                             name, silence, seen),
              waiters(r, a, rank));
    else
        warn(r, &member->silence_said,
             message_printf(a,
                            "%s is silent: no sign of it for %.1f seconds; %s",
                            name, silence, seen),
             waiters(r, a, rank));
    arena_release(a);
}

static void
look_for_all_silent(RtMembership *r, double now)
{
    look_for_unread(r, now);
    if (look_for_own_network(r, now))
        return;
    for (int i = 0; i < r->config.size && r->phase < PHASE_STOPPED; i++)
        look_for_silent(r, i, now);
}

/* The one that has begun the fewest calls, less than `call`; -1: none. */
static int
furthest_behind(const RtMembership *r, int64_t call)
{
    int behind = -1;
    for (int i = 0; i < r->config.size; i++) {
        const RtMemberState *member = &r->members[i];
        if (member->present && member->heartbeat.call < call &&
            (behind < 0 ||
             member->heartbeat.call < r->members[behind].heartbeat.call))
            behind = i;
    }
    return behind;
}

static void
say_absent(RtMembership *r, int rank, double waited)
{
    Arena *a = arena_new(NULL, "a failure");
    const char *name = rt_membership_name(r, a, rank);
    const char *seen = last_seen(r, a, rank);
    bool ended = r->members[rank].ended;
    const char *what =
        ended ? "has ended its run" : "is alive but does not come";
    if (ended || waited >= rt_membership_timeout(r))
        evict(r, rank, 3,
              message_printf(a,
                             "%s %s: others have waited for %.0f seconds "
                             "(--timeout allows more); %s",
                             name, what, waited, seen),
              where_it_is(r, a, rank));
    else
        warn(r, &r->awaited_said,
             message_printf(a, "%s %s: others have waited for %.0f seconds; %s",
                            name, what, waited, seen),
             where_it_is(r, a, rank));
    arena_release(a);
}

static void
look_for_absent(RtMembership *r, double now)
{
    int64_t call = latest_wait(r);
    int rank = call ? furthest_behind(r, call) : -1;
    int64_t at = rank >= 0 ? r->members[rank].heartbeat.call : 0;
    if (rank != r->awaited_rank || at != r->awaited_call) {
        r->awaited_rank = rank;
        r->awaited_call = at;
        r->awaited_since = now;
        r->awaited_said = false;
    }
    double timeout = rt_membership_timeout(r);
    double first = timeout < absence_noted ? timeout : absence_noted;
    if (rank >= 0 && r->members[rank].lost <= 0 &&
        now - r->awaited_since >= first)
        say_absent(r, rank, now - r->awaited_since);
}

/* The same for exchanges, which all come to in the same order. */
static void
look_at_exchange(RtMembership *r, double now)
{
    double waited = now - r->exchange_began;
    double timeout = rt_membership_timeout(r);
    if (r->exchange_began <= 0 ||
        waited < (timeout < absence_noted ? timeout : absence_noted))
        return;
    int absent = 0, here = 0;
    while (absent < r->config.size && r->members[absent].bytes)
        absent++;
    while (here < r->config.size && !r->members[here].bytes)
        here++;
    if (absent == r->config.size || here == r->config.size)
        return;
    Arena *a = arena_new(NULL, "a failure");
    const char *name = rt_membership_name(r, a, absent);
    const char *what = r->members[here].exchange.name;
    if (waited >= timeout || r->members[absent].ended)
        evict(r, absent, 3,
              message_printf(a,
                             "%s has not come to the exchange \"%s\" after "
                             "%.0f seconds (--timeout allows more)",
                             name, what, waited),
              "");
    else
        warn(r, &r->exchange_said,
             message_printf(
                 a, "%s has not come to the exchange \"%s\" for %.0f seconds",
                 name, what, waited),
             "");
    arena_release(a);
}

/* ---- slow processes ----------------------------------------------------- */

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void
open_windows(RtMembership *r, double now)
{
    for (int i = 0; i < r->config.size; i++) {
        RtMemberState *member = &r->members[i];
        member->window_began = now;
        member->window_waited = member->heartbeat.waited;
        member->window_step = member->heartbeat.step;
    }
    r->slow_looked = now;
}

static void
say_slow(RtMembership *r, int rank, double busy, double median, double window)
{
    Arena *a = arena_new(NULL, "a failure");
    r->slow_said = true;
    r->config.out.say(
        r->config.out.data, RT_SAY_NOTE,
        message_printf(a,
                       "%s is slow: it works for %.0f%% of the time, the "
                       "median of all is %.0f%%; the others wait for it",
                       rt_membership_name(r, a, rank), 100 * busy / window,
                       100 * median / window),
        "");
    arena_release(a);
}

/* Said once: over enough steps, who works much longer than the median. */
static void
look_for_slow(RtMembership *r, double now)
{
    enum { LEAST_SECONDS = 2 };
    int size = r->config.size, slowest = 0;
    double window = now - r->slow_looked;
    if (r->slow_looked <= 0) {
        open_windows(r, now);
        return;
    }
    if (r->slow_said || size < 3 || window < LEAST_SECONDS)
        return;
    for (int i = 0; i < size; i++)
        if (r->members[i].heartbeat.step - r->members[i].window_step <
            SLOW_STEPS)
            return;
    Arena *a = arena_new(NULL, "slow processes");
    double *busy = NEW_ARRAY(a, double, (size_t)size);
    double *sorted = NEW_ARRAY(a, double, (size_t)size);
    for (int i = 0; i < size; i++) {
        const RtMemberState *member = &r->members[i];
        busy[i] = window - (member->heartbeat.waited - member->window_waited);
        sorted[i] = busy[i];
        if (busy[i] > busy[slowest])
            slowest = i;
    }
    qsort(sorted, (size_t)size, sizeof *sorted, compare_doubles);
    double median = sorted[(size - 1) / 2];
    if (median > 0 && busy[slowest] >= 1.5 * median)
        say_slow(r, slowest, busy[slowest], median, window);
    arena_release(a);
    open_windows(r, now);
}

void
rt_detect_failures(RtMembership *r, double now)
{
    locate_all(r, now);
    look_for_dead(r, now);
    if (r->phase < PHASE_STOPPED)
        look_for_all_silent(r, now);
    if (r->phase != PHASE_RUNNING)
        return;
    look_at_exchange(r, now);
    if (r->phase == PHASE_RUNNING)
        look_for_absent(r, now);
    if (r->phase == PHASE_RUNNING)
        look_for_slow(r, now);
}
