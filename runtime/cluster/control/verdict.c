/*
 * verdict.c - who is dead, silent, not coming, or slow
 *
 * Whoever waits knows only that it waits; the one to blame is the process that
 * has begun the fewest calls, wherever the others have come to.  A process is
 *
 *   dead          when its connection is closed, or whoever started it says so,
 *   silent        without a beat: stopped, or its host or network is gone,
 *   not coming    when it beats, and others wait in a call that it has not
 *                 begun: in an endless loop, or waiting for data,
 *   slow          when it works longer than the others in each step.
 */
#include <stdlib.h>
#include "ir/base/message.h"
#include "runtime/cluster/control/roster_impl.h"

static const double last_beats = 0.25; /* until the others' have come */
static const double silence_noted = 2;
static const double absence_noted = 5;

enum { SLOW_STEPS = 20 };

/* ---- where a process is ------------------------------------------------- */

static const RtJobSite *
site_of(const RtRoster *r, int32_t site)
{
    return site >= 0 ? &r->seats[0].hello.sites[site] : NULL;
}

static const char *
last_seen(const RtRoster *r, Arena *a, int rank)
{
    const RtBeat *b = &r->seats[rank].beat;
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
is_here(const RtSeat *seat)
{
    return seat->present && !seat->gone && !seat->ended;
}

/* The latest call that anybody waits in; 0: none. */
static int64_t
latest_wait(const RtRoster *r)
{
    int64_t latest = 0;
    for (int i = 0; i < r->config.size; i++) {
        const RtSeat *seat = &r->seats[i];
        if (is_here(seat) && seat->lost <= 0 &&
            seat->beat.state == RT_JOB_WAITS && seat->beat.wait_call > latest)
            latest = seat->beat.wait_call;
    }
    return latest;
}

/* Those that wait in a call, but for one. */
static int
list_waiters(const RtRoster *r, int64_t call, int but, bool *waits)
{
    int some = -1;
    for (int i = 0; i < r->config.size; i++) {
        const RtSeat *seat = &r->seats[i];
        waits[i] = i != but && is_here(seat) && seat->lost <= 0 &&
                   seat->beat.state == RT_JOB_WAITS &&
                   seat->beat.wait_call == call;
        if (waits[i])
            some = i;
    }
    return some;
}

/* Whole lines: who waits for it, and where. */
static const char *
waiters(const RtRoster *r, Arena *a, int rank)
{
    int64_t call = latest_wait(r);
    bool *waits = NEW_ARRAY(a, bool, (size_t)r->config.size);
    int some = call ? list_waiters(r, call, rank, waits) : -1;
    if (some < 0)
        return "";
    const char *ranks = rt_roster_ranks(r, a, waits);
    int count = 0;
    for (int i = 0; i < r->config.size; i++)
        count += waits[i];
    const RtJobSite *site = site_of(r, r->seats[some].beat.wait_site);
    const char *text =
        message_printf(a, "%s %s here for it (%s, call %lld)", ranks,
                       count == 1 ? "waits" : "wait",
                       site ? site->what : "a collective", (long long)call);
    return arena_printf(a, "%s: note: %s\n", site ? site->where : "tfd-run",
                        text);
}

/* ---- verdicts ----------------------------------------------------------- */

static void
condemn(RtRoster *r, int rank, int exit_status, const char *line,
        const char *notes)
{
    rt_roster_stop(r, exit_status, -1, line, notes);
    r->seats[rank].gone = true;
    if (r->config.out.condemn)
        r->config.out.condemn(r->config.out.data, rank);
}

static void
stop_for_dead(RtRoster *r, int rank)
{
    const RtSeat *seat = &r->seats[rank];
    Arena *a = arena_new(NULL, "a verdict");
    const char *name = rt_roster_name(r, a, rank);
    int exit_status = seat->lost_status ? seat->lost_status : 3;
    const char *how =
        seat->lost_how ? arena_printf(a, " (%s)", seat->lost_how) : "";
    const char *line =
        seat->present ? message_printf(a, "%s is dead%s; %s", name, how,
                                       last_seen(r, a, rank))
                      : message_printf(a, "%s has not joined%s", name, how);
    condemn(r, rank, exit_status, line, waiters(r, a, rank));
    arena_release(a);
}

static void
look_for_dead(RtRoster *r, double now)
{
    int dead = -1;
    for (int i = 0; i < r->config.size; i++) {
        const RtSeat *seat = &r->seats[i];
        if (seat->lost > 0 && !seat->ended && !seat->gone &&
            (dead < 0 || seat->lost < r->seats[dead].lost))
            dead = i;
    }
    if (dead >= 0 && now - r->seats[dead].lost >= last_beats)
        stop_for_dead(r, dead);
}

static void
look_for_silent(RtRoster *r, int rank, double now)
{
    RtSeat *seat = &r->seats[rank];
    double silence = now - seat->heard;
    if (!is_here(seat) || seat->lost > 0 || silence < silence_noted)
        return;
    Arena *a = arena_new(NULL, "a verdict");
    const char *name = rt_roster_name(r, a, rank);
    const char *seen = last_seen(r, a, rank);
    if (silence >= r->config.silence)
        condemn(r, rank, 3,
                message_printf(a,
                               "%s is silent: no sign of it for %.1f seconds "
                               "(it is stopped, or its host or network is "
                               "gone); %s",
                               name, silence, seen),
                waiters(r, a, rank));
    else if (!seat->silence_said)
        r->config.out.say(r->config.out.data, RT_SAY_NOTE,
                          message_printf(a,
                                         "%s is silent: no sign of it for "
                                         "%.1f seconds; %s",
                                         name, silence, seen),
                          waiters(r, a, rank));
    seat->silence_said = true;
    arena_release(a);
}

/* The one that has begun the fewest calls, less than `call`; -1: none. */
static int
furthest_behind(const RtRoster *r, int64_t call)
{
    int behind = -1;
    for (int i = 0; i < r->config.size; i++) {
        const RtSeat *seat = &r->seats[i];
        if (seat->present && seat->beat.call < call &&
            (behind < 0 || seat->beat.call < r->seats[behind].beat.call))
            behind = i;
    }
    return behind;
}

static void
say_absent(RtRoster *r, int rank, double waited)
{
    Arena *a = arena_new(NULL, "a verdict");
    const char *name = rt_roster_name(r, a, rank);
    const char *seen = last_seen(r, a, rank);
    bool ended = r->seats[rank].ended;
    const char *what =
        ended ? "has ended its run" : "is alive but does not come";
    if (ended || waited >= rt_roster_timeout(r))
        condemn(r, rank, 3,
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
look_for_absent(RtRoster *r, double now)
{
    int64_t call = latest_wait(r);
    int rank = call ? furthest_behind(r, call) : -1;
    int64_t at = rank >= 0 ? r->seats[rank].beat.call : 0;
    if (rank != r->awaited_rank || at != r->awaited_call) {
        r->awaited_rank = rank;
        r->awaited_call = at;
        r->awaited_since = now;
        r->awaited_said = false;
    }
    double timeout = rt_roster_timeout(r);
    double first = timeout < absence_noted ? timeout : absence_noted;
    if (rank >= 0 && r->seats[rank].lost <= 0 &&
        now - r->awaited_since >= first)
        say_absent(r, rank, now - r->awaited_since);
}

/* The same for exchanges, which all come to in the same order. */
static void
look_at_exchange(RtRoster *r, double now)
{
    double waited = now - r->exchange_began;
    double timeout = rt_roster_timeout(r);
    if (r->exchange_began <= 0 ||
        waited < (timeout < absence_noted ? timeout : absence_noted))
        return;
    int absent = 0, here = 0;
    while (absent < r->config.size && r->seats[absent].bytes)
        absent++;
    while (here < r->config.size && !r->seats[here].bytes)
        here++;
    if (absent == r->config.size || here == r->config.size)
        return;
    Arena *a = arena_new(NULL, "a verdict");
    const char *name = rt_roster_name(r, a, absent);
    const char *what = r->seats[here].exchange.name;
    if (waited >= timeout || r->seats[absent].ended)
        condemn(r, absent, 3,
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
open_windows(RtRoster *r, double now)
{
    for (int i = 0; i < r->config.size; i++) {
        RtSeat *seat = &r->seats[i];
        seat->window_began = now;
        seat->window_waited = seat->beat.waited;
        seat->window_step = seat->beat.step;
    }
    r->slow_looked = now;
}

static void
say_slow(RtRoster *r, int rank, double busy, double median, double window)
{
    Arena *a = arena_new(NULL, "a verdict");
    r->slow_said = true;
    r->config.out.say(
        r->config.out.data, RT_SAY_NOTE,
        message_printf(a,
                       "%s is slow: it works for %.0f%% of the time, the "
                       "median of all is %.0f%%; the others wait for it",
                       rt_roster_name(r, a, rank), 100 * busy / window,
                       100 * median / window),
        "");
    arena_release(a);
}

/* Said once: over enough steps, who works much longer than the median. */
static void
look_for_slow(RtRoster *r, double now)
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
        if (r->seats[i].beat.step - r->seats[i].window_step < SLOW_STEPS)
            return;
    Arena *a = arena_new(NULL, "slow processes");
    double *busy = NEW_ARRAY(a, double, (size_t)size);
    double *sorted = NEW_ARRAY(a, double, (size_t)size);
    for (int i = 0; i < size; i++) {
        const RtSeat *seat = &r->seats[i];
        busy[i] = window - (seat->beat.waited - seat->window_waited);
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
rt_roster_judge(RtRoster *r, double now)
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
