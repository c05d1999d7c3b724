/*
 * position.c - where this process is, told by the threads that run the plan
 *
 * Telling is a few stores, read ten times a second by the member's thread under
 * a sequence lock: no step waits for it.  Place 0, main's thread, also keeps
 * the last calls in a ring.
 */
#include <string.h>
#include "ir/base/io/file.h"
#include "ir/base/str.h"
#include "runtime/cluster/control/job_impl.h"

#define LOAD(x) atomic_load_explicit(&(x), memory_order_relaxed)
#define STORE(x, value)                                                        \
    atomic_store_explicit(&(x), (value), memory_order_relaxed)

void
rt_positions_open(RtPositions *p, Arena *a, int num_places, int num_sites)
{
    p->num_places = num_places > 0 ? num_places : 1;
    p->num_sites = num_sites;
    p->places = rt_alloc_on_lines(a, sizeof(RtPlace) * (size_t)p->num_places);
    for (int i = 0; i < p->num_places; i++) {
        RtPlace *place = &p->places[i];
        place->calls = NEW_ARRAY(a, _Atomic int64_t, (size_t)num_sites + 1);
        place->numbers = NEW_ARRAY(a, _Atomic int64_t, (size_t)num_sites + 1);
        place->site = place->wait_site = -1;
    }
    p->places[0].ring = NEW_ARRAY(a, RtRingEntry, RT_RING);
}

/* ---- telling ------------------------------------------------------------- */

static void
begin_change(RtPlace *p)
{
    STORE(p->turn, LOAD(p->turn) + 1);
    atomic_thread_fence(memory_order_release);
}

static void
end_change(RtPlace *p)
{
    atomic_store_explicit(&p->turn, LOAD(p->turn) + 1, memory_order_release);
}

static RtRingEntry *
entry_of(RtPlace *p, int64_t call)
{
    return &p->ring[call % RT_RING];
}

void
rt_job_calls(RtJob *job, int place, int32_t site)
{
    RtPositions *all = &((RtMember *)job)->positions;
    RtPlace *p = &all->places[place];
    int64_t call = LOAD(p->call) + 1;
    begin_change(p);
    STORE(p->call, call);
    STORE(p->site, site);
    STORE(p->calls[site], LOAD(p->calls[site]) + 1);
    STORE(p->numbers[site], call);
    end_change(p);
    if (!p->ring)
        return;
    RtRingEntry *entry = entry_of(p, call);
    STORE(entry->call, 0);
    STORE(entry->site, site);
    STORE(entry->step, LOAD(all->step));
    STORE(entry->began, rt_seconds());
    STORE(entry->waited, 0.0);
    STORE(entry->done, 0.0);
    STORE(entry->call, call);
}

void
rt_job_waits(RtJob *job, int place, int32_t site)
{
    RtPlace *p = &((RtMember *)job)->positions.places[place];
    int64_t call = LOAD(p->numbers[site]);
    double now = rt_seconds();
    begin_change(p);
    STORE(p->wait_call, call);
    STORE(p->wait_site, site);
    STORE(p->wait_began, now);
    STORE(p->waits, true);
    end_change(p);
    if (p->ring && LOAD(entry_of(p, call)->call) == call)
        STORE(entry_of(p, call)->waited, now);
}

void
rt_job_goes_on(RtJob *job, int place)
{
    RtPlace *p = &((RtMember *)job)->positions.places[place];
    int64_t call = LOAD(p->wait_call);
    double now = rt_seconds();
    begin_change(p);
    STORE(p->waits, false);
    STORE(p->waited, LOAD(p->waited) + now - LOAD(p->wait_began));
    end_change(p);
    if (p->ring && LOAD(entry_of(p, call)->call) == call)
        STORE(entry_of(p, call)->done, now);
}

void
rt_job_at(RtJob *job, int64_t step, RtJobState state)
{
    RtPositions *p = &((RtMember *)job)->positions;
    STORE(p->step, step);
    STORE(p->state, (int32_t)state);
}

/* ---- reading ------------------------------------------------------------- */

typedef struct Seen {
    int64_t call, wait_call, wait_calls; /* calls of wait_site */
    int32_t site, wait_site;
    bool waits;
    double waited;
} Seen;

/* A writer that is not executed in the midst of a change is not waited for. */
static Seen
read_place(RtPlace *p)
{
    enum { MOST_TRIES = 1000 };
    for (int i = 0;; i++) {
        uint32_t turn = atomic_load_explicit(&p->turn, memory_order_acquire);
        Seen s = {.call = LOAD(p->call),
                  .wait_call = LOAD(p->wait_call),
                  .site = LOAD(p->site),
                  .wait_site = LOAD(p->wait_site),
                  .waits = LOAD(p->waits),
                  .waited = LOAD(p->waited)};
        if (s.waits && s.wait_site >= 0)
            s.wait_calls = LOAD(p->calls[s.wait_site]);
        atomic_thread_fence(memory_order_acquire);
        if ((!(turn & 1) && LOAD(p->turn) == turn) || i == MOST_TRIES)
            return s;
    }
}

/* Main's thread waits for a call that another device of this process has not
 * begun: that device is where the process is. */
static bool
is_late(RtPositions *p, const Seen *first)
{
    for (int i = 1; i < p->num_places; i++)
        if (LOAD(p->places[i].calls[first->wait_site]) < first->wait_calls)
            return true;
    return false;
}

void
rt_positions_read(RtPositions *p, RtHeartbeat *out)
{
    Seen s = read_place(&p->places[0]);
    *out = (RtHeartbeat){.step = LOAD(p->step),
                         .call = s.call,
                         .wait_call = s.wait_call,
                         .site = s.site,
                         .wait_site = s.wait_site,
                         .state = LOAD(p->state),
                         .waited = s.waited};
    if (!s.waits || s.wait_site < 0)
        return;
    if (is_late(p, &s)) {
        out->call = s.wait_call - 1;
        out->state = RT_JOB_RUNS;
    } else {
        out->state = RT_JOB_WAITS;
    }
}

/* ---- the last calls ------------------------------------------------------ */

static void
add_entry(Str *s, const RtRingEntry *e, const RtJobSite *sites)
{
    double began = LOAD(e->began), waited = LOAD(e->waited),
           done = LOAD(e->done);
    const RtJobSite *site = &sites[LOAD(e->site)];
    str_addf(s, "%10lld %8lld  %16.6f  ", (long long)LOAD(e->call),
             (long long)LOAD(e->step), began);
    if (waited > 0)
        str_addf(s, "%10.6f  ", waited - began);
    else
        str_addf(s, "%10s  ", "-");
    if (done > 0)
        str_addf(s, "%10.6f  ", done - began);
    else
        str_addf(s, "%10s  ", "-");
    str_addf(s, "%s %s\n", site->what, site->where);
}

Status
rt_positions_dump(RtPositions *p, const char *folder, int rank,
                  const char *host, const RtJobSite *sites, const char *reason)
{
    Arena *a = arena_new(NULL, "the last collectives");
    Str s = str_new(a);
    int64_t last = LOAD(p->places[0].call);
    str_addf(&s, "# rank %d, host %s: %s\n", rank, host, reason);
    str_addf(&s,
             "# the last %d collective calls; seconds on this machine's "
             "monotonic clock, now %.6f; waited and done count from began\n"
             "#     call     step             began      waited        "
             "done  operation\n",
             RT_RING, rt_seconds());
    for (int64_t call = last > RT_RING ? last - RT_RING + 1 : 1; call <= last;
         call++) {
        const RtRingEntry *e = entry_of(&p->places[0], call);
        if (LOAD(e->call) == call)
            add_entry(&s, e, sites);
    }
    Status st = file_make_folder(folder);
    if (!st)
        st = file_write(arena_printf(a, "%s/rank-%d.txt", folder, rank),
                        str_text(&s), s.len);
    arena_release(a);
    return st;
}
