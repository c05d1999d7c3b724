/*
 * preflight.c - --preflight: how fast the processes of a job reach each other
 *
 * Pairs are measured over what carries the run's own bytes: the link, or memory
 * that the processes share.  In a round each process has one partner at most,
 * so that pairs do not wait for each other; a round's pairs measure at the same
 * time, as those of a collective send.  Of many processes there would be too
 * many pairs to read, so each is measured with the next rank alone.
 */
#include "runtime/run/preflight.h"

#include <string.h>
#include "runtime/cluster/segments/speed.h"
#include "runtime/exec/end.h"
#include "runtime/exec/output.h"
#include "runtime/exec/run_state.h"
#include "runtime/exec/watchdog.h"
#include "runtime/hal/wait.h"
#include "runtime/link/carrier.h"
#include "runtime/run/pairs.h"
#include "runtime/run/preflight_devices.h"

static const double long_message = 1 << 20; /* bytes: who is the slowest */

/* What one process has measured with another one; no rate: nothing. */
typedef struct PairSpeed {
    double latency; /* seconds */
    double rate;    /* bytes/s */
    bool is_near;   /* in memory, of a job that a link joins */
} PairSpeed;

/* ---- measuring ---------------------------------------------------------- */

static Status
measure_links(RtRun *run, PairSpeed *own)
{
    for (int k = 0; k < rt_num_rounds(run->size); k++) {
        int peer = rt_partner(run->rank, run->size, k);
        IrLinkSpeed s;
        if (peer < 0)
            continue;
        TRY(rt_carrier_measure_pair(run->carrier, peer, run->timeout,
                                    &run->watchdog.stop, &s));
        own[peer] = (PairSpeed){s.latency, s.rate,
                                rt_carrier_is_near(run->carrier, peer)};
    }
    return OK;
}

static Status
measure_memory_pairs(RtRun *run, RtMemoryTest *test, PairSpeed *own)
{
    for (int k = 0; k < rt_num_rounds(run->size); k++) {
        int peer = rt_partner(run->rank, run->size, k);
        RtMemorySpeed s;
        if (peer < 0)
            continue;
        TRY(rt_memory_test_pair(test, peer, run->timeout, &run->watchdog.stop,
                                &s));
        own[peer] = (PairSpeed){s.latency, s.rate, false};
    }
    return OK;
}

static Status
measure_memory(RtRun *run, PairSpeed *own)
{
    RtMemoryTest *test;
    Str why = str_new(run->arena);
    TRY(rt_memory_test_open(&run->exchange, rt_may_spin(run->local_size), &test,
                            &why));
    if (!test)
        return status_new(STATUS_MACHINE, "%s", str_text(&why));
    Status st = measure_memory_pairs(run, test, own);
    if (!st) /* who may still read */
        st = rt_wait_for_others(run);
    rt_memory_test_close(test);
    return st;
}

/* A stop ends what is measured, too, and has a reason of its own. */
static Status
measure(RtRun *run, PairSpeed *own)
{
    Status st =
        run->carrier ? measure_links(run, own) : measure_memory(run, own);
    if (!st || !rt_is_stopped(run))
        return st;
    status_free(st);
    return rt_status_of_stop(run);
}

/* Of the two numbers of a pair the worse one counts, for both. */
static void
take_speeds(void *data, int rank, const void *part, size_t n)
{
    PairSpeed *all = data;
    const PairSpeed *own = part;
    int size = (int)(n / sizeof *own);
    for (int peer = 0; peer < size; peer++) {
        int low = rank < peer ? rank : peer, high = rank < peer ? peer : rank;
        PairSpeed *s = &all[low * size + high];
        if (own[peer].latency > s->latency)
            s->latency = own[peer].latency;
        if (own[peer].rate > 0 && (s->rate == 0 || own[peer].rate < s->rate))
            s->rate = own[peer].rate;
        s->is_near |= own[peer].is_near;
    }
}

/* ---- what is printed ---------------------------------------------------- */

static const char *
host_of(const RtRun *run, int rank)
{
    return run->job ? run->job->peers[rank].host : "";
}

static const char *
transport_name(const RtRun *run, const PairSpeed *s)
{
    if (s->is_near)
        return "shared memory";
    return run->carrier ? rt_carrier_link(run->carrier) : run->group->ops->name;
}

static double
seconds_of(const PairSpeed *s)
{
    return s->latency + long_message / s->rate;
}

static int
host_width(const RtRun *run)
{
    size_t width = strlen("host");
    for (int i = 0; i < run->size; i++) {
        size_t n = strlen(host_of(run, i));
        width = n > width ? n : width;
    }
    return (int)width;
}

static void
add_pairs(const RtRun *run, const PairSpeed *all, Str *s)
{
    int size = run->size, w = host_width(run);
    str_addf(s, "\n  rank  %-*s  rank  %-*s  %-13s  %10s  %10s\n", w, "host", w,
             "host", "transport", "latency us", "GB/s");
    for (int i = 0; i < size * size; i++)
        if (all[i].rate > 0)
            str_addf(s, "  %4d  %-*s  %4d  %-*s  %-13s  %10.1f  %10.3f\n",
                     i / size, w, host_of(run, i / size), i % size, w,
                     host_of(run, i % size), transport_name(run, &all[i]),
                     1e6 * all[i].latency, 1e-9 * all[i].rate);
}

static void
add_slowest(const RtRun *run, const PairSpeed *all, Str *s)
{
    int size = run->size, slowest = -1;
    for (int i = 0; i < size * size; i++)
        if (all[i].rate > 0 &&
            (slowest < 0 || seconds_of(&all[i]) > seconds_of(&all[slowest])))
            slowest = i;
    if (slowest < 0)
        return;
    int low = slowest / size, high = slowest % size;
    str_addf(s,
             "\nslowest pair   rank %d (%s) and rank %d (%s): %.1f us, %.3f "
             "GB/s\n",
             low, host_of(run, low), high, host_of(run, high),
             1e6 * all[slowest].latency, 1e-9 * all[slowest].rate);
}

/* Collectives of one algorithm. */
typedef struct Chosen {
    const char *algorithm;
    int num;
    int64_t most; /* bytes of the largest */
} Chosen;

static void
add_chosen(Chosen *list, int *num, const char *algorithm, int64_t bytes)
{
    int i = 0;
    while (i < *num && strcmp(list[i].algorithm, algorithm) != 0)
        i++;
    if (i == *num)
        list[(*num)++] = (Chosen){.algorithm = algorithm};
    list[i].num++;
    if (bytes > list[i].most)
        list[i].most = bytes;
}

/* Of the transports that choose by what was measured. */
static Status
add_algorithms(RtRun *run, Str *s)
{
    enum { MOST = 16 };
    Chosen list[MOST];
    int num = 0;
    for (int i = 0; i < run->plan->num_programs; i++) {
        const IrFunc *ir = run->plan->programs[i];
        RtFunction *fn;
        if (ir->variant_of || ir->worker_of)
            continue;
        TRY(rt_load_function(run, ir->name, FUNC_PROGRAM, &fn));
        for (int k = 0; k < fn->starts.len && num < MOST; k++) {
            int64_t bytes;
            const char *algorithm =
                run->coll->ops->chosen(fn->starts.data[k]->instance, &bytes);
            add_chosen(list, &num, algorithm, bytes);
        }
    }
    for (int i = 0; i < num; i++)
        str_addf(s, "  %-12s %d, of at most %lld bytes\n", list[i].algorithm,
                 list[i].num, (long long)list[i].most);
    return OK;
}

static Status
print(RtRun *run, const PairSpeed *all, const RtDeviceSpeeds *devices)
{
    Str s = str_new(run->arena);
    const RtColl *c = run->coll;
    str_addf(&s,
             "preflight      %d processes, %d replicas on %d devices: all have "
             "joined and reach each other\ncollectives    by %s%s%s\n",
             run->size, run->num_replicas, run->size * run->num_devices,
             c->ops->name, c->why[0] ? ", since " : "", c->why);
    if (c->ops->chosen)
        TRY(add_algorithms(run, &s));
    if (rt_takes_all_pairs(run->size))
        str_addf(&s, "measured       all pairs\n");
    else
        str_addf(&s, "measured       each rank with the next one\n");
    add_pairs(run, all, &s);
    add_slowest(run, all, &s);
    if (devices)
        rt_add_devices(run, devices, &s);
    rt_print(run, str_text(&s), s.len);
    return rt_flush(run);
}

static Status
print_alone(RtRun *run, const RtDeviceSpeeds *devices)
{
    Str s = str_new(run->arena);
    str_addf(
        &s,
        "preflight      one process, %d replica%s on %d device%s: the plan "
        "can run\nmeasured       nothing: there is no other process (-n "
        "P, or a launcher)\n",
        run->num_replicas, run->num_replicas > 1 ? "s" : "", run->num_devices,
        run->num_devices > 1 ? "s" : "");
    if (devices)
        rt_add_devices(run, devices, &s);
    rt_print(run, str_text(&s), s.len);
    return rt_flush(run);
}

Status
rt_preflight(RtRun *run)
{
    size_t size = (size_t)run->size;
    RtDeviceSpeeds *devices;
    TRY(rt_measure_devices(run, &devices));
    if (size == 1)
        return print_alone(run, devices);
    PairSpeed *own = NEW_ARRAY(run->arena, PairSpeed, size);
    PairSpeed *all = NEW_ARRAY(run->arena, PairSpeed, size * size);
    TRY(measure(run, own));
    TRY(rt_gather_equal(run, own, size * sizeof *own, take_speeds, all));
    return rt_is_chief(run) ? print(run, all, devices) : OK;
}
