/*
 * position.c - where a process of a job is, told and read
 *
 * Telling is a few stores under a sequence lock: no step waits for a reader.
 * The readers are the member's thread, ten times a second, and the control
 * server, which may read the memory of a process that is dead: a change that
 * was never finished is read as far as it came.  Place 0, main's thread, also
 * keeps the last calls in a ring.
 *
 * A reader trusts nothing that it maps: numbers of places and sites are checked
 * against the size of the segment, which cannot change, and taken once.
 */
#include "runtime/cluster/control/position.h"

#include <string.h>
#include "ir/base/clock.h"
#include "ir/base/io/file.h"
#include "ir/base/str.h"
#include "runtime/cluster/control/job_impl.h"

#define LOAD(x) atomic_load_explicit(&(x), memory_order_relaxed)
#define STORE(x, value)                                                        \
    atomic_store_explicit(&(x), (value), memory_order_relaxed)

enum { MOST_PLACES = 1 << 16 };

/* ---- the segment --------------------------------------------------------- */

static size_t
bytes_for(int num_places, int num_sites)
{
    size_t places = (size_t)num_places, sites = (size_t)num_sites;
    return sizeof(RtPositionsHeader) + places * sizeof(RtPlace) +
           2 * places * sites * sizeof(_Atomic int64_t) +
           RT_RING * sizeof(RtRingEntry);
}

/* The parts, in the order of their alignment. */
static void
lay_out(RtPositions *p)
{
    size_t counts = (size_t)p->num_places * (size_t)p->num_sites;
    p->header = (RtPositionsHeader *)(void *)p->segment.at;
    p->places = (RtPlace *)(void *)(p->header + 1);
    p->calls = (_Atomic int64_t *)(void *)(p->places + p->num_places);
    p->numbers = p->calls + counts;
    p->ring = (RtRingEntry *)(void *)(p->numbers + counts);
}

Status
rt_positions_open(RtPositions *p, int num_places, int num_sites)
{
    *p = (RtPositions){.num_places = num_places > 0 ? num_places : 1,
                       .num_sites = num_sites > 0 ? num_sites : 1};
    TRY(rt_segment_new(bytes_for(p->num_places, p->num_sites), false,
                       &p->segment));
    lay_out(p);
    STORE(p->header->num_places, p->num_places);
    STORE(p->header->num_sites, p->num_sites);
    STORE(p->header->at_site, -1);
    STORE(p->header->maker, -1);
    STORE(p->header->read_site, -1);
    for (int i = 0; i < p->num_places; i++) {
        STORE(p->places[i].site, -1);
        STORE(p->places[i].wait_site, -1);
    }
    return OK;
}

bool
rt_positions_map(RtPositions *p, const RtSegmentName *name)
{
    *p = (RtPositions){0};
    if (!name->pid || rt_segment_map(name, &p->segment))
        return false;
    RtPositionsHeader *h = (RtPositionsHeader *)(void *)p->segment.at;
    bool good = p->segment.bytes >= sizeof *h;
    if (good) {
        p->num_places = LOAD(h->num_places);
        p->num_sites = LOAD(h->num_sites);
        good = p->num_places > 0 && p->num_places <= MOST_PLACES &&
               p->num_sites > 0 && p->num_sites <= RT_MOST_SITES &&
               p->segment.bytes == bytes_for(p->num_places, p->num_sites);
    }
    if (good)
        lay_out(p);
    else
        rt_positions_close(p);
    return good;
}

void
rt_positions_close(RtPositions *p)
{
    rt_segment_close(&p->segment);
    *p = (RtPositions){0};
}

static _Atomic int64_t *
count_of(_Atomic int64_t *counts, const RtPositions *p, int place, int32_t site)
{
    return &counts[(int64_t)place * p->num_sites + site];
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

/* Of a call of place 0; NULL: another place's, or it is not kept any more. */
static RtRingEntry *
entry_of(const RtPositions *all, int place, int64_t call)
{
    RtRingEntry *entry = &all->ring[call % RT_RING];
    return place == 0 && LOAD(entry->call) == call ? entry : NULL;
}

static void
begin_entry(RtPositions *all, int64_t call, int32_t site)
{
    RtRingEntry *entry = &all->ring[call % RT_RING];
    STORE(entry->call, 0);
    STORE(entry->site, site);
    STORE(entry->step, LOAD(all->header->step));
    STORE(entry->began, clock_seconds());
    STORE(entry->waited, 0.0);
    STORE(entry->done, 0.0);
    STORE(entry->call, call);
}

void
rt_job_calls(RtJob *job, int place, int32_t site)
{
    RtPositions *all = &((RtMember *)job)->positions;
    RtPlace *p = &all->places[place];
    int64_t call = LOAD(p->call) + 1;
    _Atomic int64_t *calls = count_of(all->calls, all, place, site);
    begin_change(p);
    STORE(p->call, call);
    STORE(p->site, site);
    STORE(*calls, LOAD(*calls) + 1);
    STORE(*count_of(all->numbers, all, place, site), call);
    end_change(p);
    if (place == 0)
        begin_entry(all, call, site);
}

void
rt_job_waits(RtJob *job, int place, int32_t site)
{
    RtPositions *all = &((RtMember *)job)->positions;
    RtPlace *p = &all->places[place];
    int64_t call = LOAD(*count_of(all->numbers, all, place, site));
    RtRingEntry *entry = entry_of(all, place, call);
    double now = clock_seconds();
    begin_change(p);
    STORE(p->wait_call, call);
    STORE(p->wait_site, site);
    STORE(p->wait_began, now);
    STORE(p->waits, true);
    end_change(p);
    if (entry)
        STORE(entry->waited, now);
}

void
rt_job_goes_on(RtJob *job, int place)
{
    RtPositions *all = &((RtMember *)job)->positions;
    RtPlace *p = &all->places[place];
    RtRingEntry *entry = entry_of(all, place, LOAD(p->wait_call));
    double now = clock_seconds();
    begin_change(p);
    STORE(p->waits, false);
    STORE(p->waited, LOAD(p->waited) + now - LOAD(p->wait_began));
    end_change(p);
    if (entry)
        STORE(entry->done, now);
}

void
rt_job_at(RtJob *job, int64_t step, RtJobState state)
{
    RtPositionsHeader *h = ((RtMember *)job)->positions.header;
    STORE(h->step, step);
    STORE(h->state, (int32_t)state);
}

void
rt_job_reads(RtJob *job, int64_t step, int32_t site)
{
    STORE(((RtMember *)job)->positions.header->read_site, site);
    rt_job_at(job, step, RT_JOB_READS);
}

void
rt_job_has_maker(RtJob *job, int rank)
{
    STORE(((RtMember *)job)->positions.header->maker, rank);
}

void
rt_positions_tell_at(RtPositions *p, int32_t site)
{
    STORE(p->header->at_site, site);
}

/* ---- reading ------------------------------------------------------------- */

typedef struct Seen {
    int64_t call, wait_call, wait_calls; /* calls of wait_site */
    int32_t site, wait_site;
    bool waits;
    double waited;
} Seen;

/* How often a place has called a site that other memory names. */
static int64_t
calls_of(const RtPositions *p, int place, int32_t site)
{
    if (site < 0 || site >= p->num_sites)
        return 0;
    return LOAD(*count_of(p->calls, p, place, site));
}

/* A writer that is not executed in the midst of a change is not waited for. */
static Seen
read_place(const RtPositions *all, int place)
{
    enum { MOST_TRIES = 1000 };
    RtPlace *p = &all->places[place];
    for (int i = 0;; i++) {
        uint32_t turn = atomic_load_explicit(&p->turn, memory_order_acquire);
        Seen s = {.call = LOAD(p->call),
                  .wait_call = LOAD(p->wait_call),
                  .site = LOAD(p->site),
                  .wait_site = LOAD(p->wait_site),
                  .waits = LOAD(p->waits),
                  .waited = LOAD(p->waited)};
        if (s.waits)
            s.wait_calls = calls_of(all, place, s.wait_site);
        atomic_thread_fence(memory_order_acquire);
        if ((!(turn & 1) && LOAD(p->turn) == turn) || i == MOST_TRIES)
            return s;
    }
}

/* Main's thread waits for a call that another device of this process has not
 * begun: that device is where the process is. */
static bool
is_late(const RtPositions *p, const Seen *first)
{
    for (int i = 1; i < p->num_places; i++)
        if (calls_of(p, i, first->wait_site) < first->wait_calls)
            return true;
    return false;
}

void
rt_positions_read(const RtPositions *p, RtHeartbeat *out)
{
    Seen s = read_place(p, 0);
    *out = (RtHeartbeat){.step = LOAD(p->header->step),
                         .call = s.call,
                         .wait_call = s.wait_call,
                         .site = s.site,
                         .wait_site = s.wait_site,
                         .state = LOAD(p->header->state),
                         .at_site = LOAD(p->header->at_site),
                         .maker = LOAD(p->header->maker),
                         .read_site = LOAD(p->header->read_site),
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
add_time(Str *s, double time, double began)
{
    if (time > 0)
        str_addf(s, "%10.6f  ", time - began);
    else
        str_addf(s, "%10s  ", "-");
}

static void
add_entry(Str *s, const RtRingEntry *e, const RtDump *dump)
{
    double began = LOAD(e->began), waited = LOAD(e->waited),
           done = LOAD(e->done);
    int32_t number = LOAD(e->site);
    if (number < 0 || number >= dump->num_sites)
        return;
    str_addf(s, "%10lld %8lld  %16.6f  ", (long long)LOAD(e->call),
             (long long)LOAD(e->step), began);
    add_time(s, waited, began);
    add_time(s, done, began);
    str_addf(s, "%s %s\n", dump->sites[number].what, dump->sites[number].where);
}

Status
rt_positions_dump(const RtPositions *p, const RtDump *dump)
{
    Arena *a = arena_new(NULL, "the last collectives");
    Str s = str_new(a);
    int64_t last = LOAD(p->places[0].call);
    str_addf(&s, "# rank %d, host %s: %s\n", dump->rank, dump->host,
             dump->reason);
    str_addf(&s,
             "# the last %d collective calls; seconds on this machine's "
             "monotonic clock, now %.6f; waited and done count from began\n"
             "#     call     step             began      waited        "
             "done  operation\n",
             RT_RING, clock_seconds());
    for (int64_t call = last > RT_RING ? last - RT_RING + 1 : 1; call <= last;
         call++) {
        const RtRingEntry *e = entry_of(p, 0, call);
        if (e)
            add_entry(&s, e, dump);
    }
    Status st = file_make_folder(dump->folder);
    if (!st)
        st = file_write(
            arena_printf(a, "%s/rank-%d.txt", dump->folder, dump->rank),
            str_text(&s), s.len);
    arena_release(a);
    return st;
}
