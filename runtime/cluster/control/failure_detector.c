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
 */
#include <stdlib.h>
#include "ir/base/message.h"
#include "runtime/cluster/control/membership_impl.h"

static const double last_heartbeats = 0.25; /* until the others' have come */
static const double silence_noted = 2;
static const double absence_noted = 5;

enum { SLOW_STEPS = 20 };

/* ---- where a process is ------------------------------------------------- */

static const RtJobSite *
site_of(const RtMembership *r, int32_t site)
{
    return site >= 0 ? &r->members[0].hello.sites[site] : NULL;
}

static const char *
last_seen(const RtMembership *r, Arena *a, int rank)
{
    const RtHeartbeat *b = &r->members[rank].heartbeat;
    const RtJobSite *site = site_of(r, b->site);
    if (b->state == RT_JOB_STARTS || !site || b->call == 0)
        return message_printf(a,
                              "it was last seen before its first "
                              "collective, in step %lld",
                              (long long)b->step);
    const char *doing = b->state == RT_JOB_READS   ? ", waiting for data"
                        : b->state == RT_JOB_SAVES ? ", saving"
                                                   : "";
    return message_printf(
        a, "it was last seen in call %lld, %s (%s, step %lld%s)",
        (long long)b->call, site->where, site->what, (long long)b->step, doing);
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

/* Those that wait in a call, but for one. */
static int
list_waiters(const RtMembership *r, int64_t call, int but, bool *waits)
{
    int some = -1;
    for (int i = 0; i < r->config.size; i++) {
        const RtMemberState *member = &r->members[i];
        waits[i] = i != but && is_here(member) && member->lost <= 0 &&
                   member->heartbeat.state == RT_JOB_WAITS &&
                   member->heartbeat.wait_call == call;
        if (waits[i])
            some = i;
    }
    return some;
}

/* Whole lines: who waits for it, and where. */
static const char *
waiters(const RtMembership *r, Arena *a, int rank)
{
    int64_t call = latest_wait(r);
    bool *waits = NEW_ARRAY(a, bool, (size_t)r->config.size);
    int some = call ? list_waiters(r, call, rank, waits) : -1;
    if (some < 0)
        return "";
    const char *ranks = rt_membership_ranks(r, a, waits);
    int count = 0;
    for (int i = 0; i < r->config.size; i++)
        count += waits[i];
    const RtJobSite *site = site_of(r, r->members[some].heartbeat.wait_site);
    const char *text =
        message_printf(a, "%s %s here for it (%s, call %lld)", ranks,
                       count == 1 ? "waits" : "wait",
                       site ? site->what : "a collective", (long long)call);
    return arena_printf(a, "%s: note: %s\n", site ? site->where : "tfd-run",
                        text);
}

/* ---- failures ----------------------------------------------------------- */

static void
evict(RtMembership *r, int rank, int exit_status, const char *line,
      const char *notes)
{
    rt_membership_stop(r, exit_status, -1, line, notes);
    r->members[rank].gone = true;
    if (r->config.out.evict)
        r->config.out.evict(r->config.out.data, rank);
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
    if (dead >= 0 && now - r->members[dead].lost >= last_heartbeats)
        stop_for_dead(r, dead);
}

static void
look_for_silent(RtMembership *r, int rank, double now)
{
    RtMemberState *member = &r->members[rank];
    double silence = now - member->heard;
    if (!is_here(member) || member->lost > 0 || silence < silence_noted)
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
    else if (!member->silence_said)
        r->config.out.say(r->config.out.data, RT_SAY_NOTE,
                          message_printf(a,
                                         "%s is silent: no sign of it for "
                                         "%.1f seconds; %s",
                                         name, silence, seen),
                          waiters(r, a, rank));
    member->silence_said = true;
    arena_release(a);
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
              waiters(r, a, rank));
    else if (!r->awaited_said)
        r->config.out.say(r->config.out.data, RT_SAY_NOTE,
                          message_printf(a,
                                         "%s %s: others have waited for %.0f "
                                         "seconds; %s",
                                         name, what, waited, seen),
                          waiters(r, a, rank));
    r->awaited_said = true;
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
    else if (!r->exchange_said)
        r->config.out.say(r->config.out.data, RT_SAY_NOTE,
                          message_printf(a,
                                         "%s has not come to the exchange "
                                         "\"%s\" for %.0f seconds",
                                         name, what, waited),
                          "");
    r->exchange_said = true;
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
    look_for_dead(r, now);
    for (int i = 0; i < r->config.size && r->phase < PHASE_STOPPED; i++)
        look_for_silent(r, i, now);
    if (r->phase != PHASE_RUNNING)
        return;
    look_at_exchange(r, now);
    if (r->phase == PHASE_RUNNING)
        look_for_absent(r, now);
    if (r->phase == PHASE_RUNNING)
        look_for_slow(r, now);
}
