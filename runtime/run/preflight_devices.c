/*
 * preflight_devices.c - --preflight: how fast devices reach each other
 *
 * As processes do (preflight.c): in a round each device has one partner, of
 * this process or another one, and all pairs of a round measure at the same
 * time.
 */
#include "runtime/run/preflight_devices.h"

#include <string.h>
#include "runtime/exec/agreement.h"
#include "runtime/exec/run_state.h"
#include "runtime/run/pairs.h"

enum { MOST_NAME = 16 };
static const double long_message = 1 << 20; /* bytes: who is the slowest */

typedef struct Named {
    char name[MOST_NAME];
} Named;

struct RtDeviceSpeeds {
    int num, each;      /* devices of all processes, and of one */
    int host_width;     /* of what is printed */
    Named *names;       /* of each */
    IrLinkSpeed *pairs; /* num x num, the lower number first; no rate: none */
};

/* ---- measuring ---------------------------------------------------------- */

/* Of this process: its devices' names, then what each has measured with all. */
typedef struct Own {
    size_t bytes;
    Named *names;
    IrLinkSpeed *speeds;
} Own;

static Own
new_own(RtRun *run, const RtDeviceSpeeds *all)
{
    size_t names = (size_t)all->each * sizeof(Named);
    size_t speeds = (size_t)(all->each * all->num) * sizeof(IrLinkSpeed);
    char *bytes = arena_alloc(run->arena, names + speeds);
    Own own = {names + speeds, (Named *)(void *)bytes,
               (IrLinkSpeed *)(void *)(bytes + names)};
    for (int i = 0; i < all->each; i++)
        snprintf(own.names[i].name, MOST_NAME, "%s", run->devices[i]->name);
    return own;
}

static Status
measure_round(RtRun *run, const RtDeviceSpeeds *all, int round, const Own *own)
{
    int *partners = NEW_ARRAY(run->arena, int, (size_t)all->each);
    IrLinkSpeed *got = NEW_ARRAY(run->arena, IrLinkSpeed, (size_t)all->each);
    for (int i = 0; i < all->each; i++)
        partners[i] = rt_partner(run->rank * all->each + i, all->num, round);
    TRY(run->coll->ops->measure(run->coll, partners, got));
    for (int i = 0; i < all->each; i++)
        if (partners[i] >= 0)
            own->speeds[i * all->num + partners[i]] = got[i];
    return OK;
}

static void
take_own(void *data, int rank, const void *part, size_t n)
{
    RtDeviceSpeeds *all = data;
    const Named *names = part;
    const IrLinkSpeed *speeds =
        (const IrLinkSpeed *)(const void *)(names + all->each);
    (void)n;
    for (int i = 0; i < all->each; i++) {
        int own = rank * all->each + i;
        all->names[own] = names[i];
        /* of the two numbers of a pair the worse one counts */
        for (int k = 0; k < all->num; k++)
            ir_coll_take_slower(
                &all->pairs[own < k ? own * all->num + k : k * all->num + own],
                speeds[i * all->num + k]);
    }
}

Status
rt_measure_devices(RtRun *run, RtDeviceSpeeds **out)
{
    RtDeviceSpeeds *all = NEW(run->arena, RtDeviceSpeeds);
    *out = NULL;
    all->each = run->num_devices;
    all->num = run->size * run->num_devices;
    if (!run->coll->ops->measure || all->num == 1)
        return OK;
    size_t num = (size_t)all->num;
    all->names = NEW_ARRAY(run->arena, Named, num);
    all->pairs = NEW_ARRAY(run->arena, IrLinkSpeed, num * num);
    Own own = new_own(run, all);
    for (int k = 0; k < rt_num_rounds(all->num); k++)
        TRY(measure_round(run, all, k, &own));
    *out = all;
    return rt_gather_equal(run, own.names, own.bytes, take_own, all);
}

/* ---- what is printed ---------------------------------------------------- */

static const char *
host_of(const RtRun *run, const RtDeviceSpeeds *all, int device)
{
    return run->job ? run->job->peers[device / all->each].host : "this";
}

static int
host_width(const RtRun *run, const RtDeviceSpeeds *all)
{
    size_t width = strlen("host");
    for (int i = 0; i < all->num; i++) {
        size_t n = strlen(host_of(run, all, i));
        width = n > width ? n : width;
    }
    return (int)width;
}

static double
seconds_of(const IrLinkSpeed *s)
{
    return s->latency + long_message / s->rate;
}

static void
add_pair(const RtRun *run, const RtDeviceSpeeds *all, int pair, Str *s)
{
    int w = host_width(run, all), ends[] = {pair / all->num, pair % all->num};
    for (int i = 0; i < 2; i++)
        str_addf(s, "  %4d  %-*s  %-7s", ends[i] / all->each, w,
                 host_of(run, all, ends[i]), all->names[ends[i]].name);
    str_addf(s, "  %10.1f  %10.3f\n", 1e6 * all->pairs[pair].latency,
             1e-9 * all->pairs[pair].rate);
}

static void
add_slowest(const RtRun *run, const RtDeviceSpeeds *all, int pair, Str *s)
{
    int low = pair / all->num, high = pair % all->num;
    str_addf(s,
             "\nslowest GPUs   %s of rank %d (%s) and %s of rank %d (%s): %.1f "
             "us, %.3f GB/s\n",
             all->names[low].name, low / all->each, host_of(run, all, low),
             all->names[high].name, high / all->each, host_of(run, all, high),
             1e6 * all->pairs[pair].latency, 1e-9 * all->pairs[pair].rate);
}

void
rt_add_devices(const RtRun *run, const RtDeviceSpeeds *all, Str *s)
{
    int slowest = -1, w = host_width(run, all);
    str_addf(s, "\nGPUs           %s over %s, in both directions at a time\n\n",
             rt_takes_all_pairs(all->num) ? "all pairs"
                                          : "each with the next one",
             run->coll->ops->name);
    for (int i = 0; i < 2; i++)
        str_addf(s, "  rank  %-*s  %-7s", w, "host", "GPU");
    str_addf(s, "  %10s  %10s\n", "latency us", "GB/s");
    for (int i = 0; i < all->num * all->num; i++) {
        const IrLinkSpeed *p = &all->pairs[i];
        if (p->rate == 0)
            continue;
        add_pair(run, all, i, s);
        if (slowest < 0 || seconds_of(p) > seconds_of(&all->pairs[slowest]))
            slowest = i;
    }
    add_slowest(run, all, slowest, s);
}
