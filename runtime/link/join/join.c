/*
 * join.c - joins the processes of a job by a link
 */
#include "runtime/link/join/join.h"

#include <string.h>
#include "runtime/cluster/mpi/library.h"
#include "runtime/link/mpi/mpi.h"
#include "runtime/link/near/near.h"
#include "runtime/link/ucx/ucx.h"
#include "runtime/link/zmq/zmq.h"

enum { MOST_NAME = 16 };

static Status
open_zmq(const RtLinkOptions *o, const RtExchange *x, RtLink **out)
{
    return rt_link_zmq_open(x->rank, x->size, o->interface, o->key, out);
}

static Status
open_mpi(const RtLinkOptions *o, const RtExchange *x, RtLink **out)
{
    return rt_link_mpi_open(x->rank, x->size, o->mpi, out);
}

static Status
open_ucx(const RtLinkOptions *o, const RtExchange *x, RtLink **out)
{
    bool is_local = o->interface && strcmp(o->interface, "127.0.0.1") == 0;
    return rt_link_ucx_open(x->rank, x->size, is_local, out);
}

typedef struct LinkRow {
    const char *name;
    Status (*open)(const RtLinkOptions *o, const RtExchange *x, RtLink **out);
    bool has_memory; /* it uses that of a machine by itself */
} LinkRow;

static const LinkRow links[] = {
    {"zmq", open_zmq, false},
    {"mpi", open_mpi, true},
    {"ucx", open_ucx, true},
};

static const LinkRow *
row_of(const char *name)
{
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (strcmp(name, links[i].name) == 0)
            return &links[i];
    UNREACHABLE("a link %s", name);
}

const char *
rt_link_choose(const char *name, const char *mpi)
{
    if (name)
        return name;
    return mpi || rt_mpi_has_launcher() ? "mpi" : "zmq";
}

/* A name and an address of each. */
static Status
exchange_addresses(RtLink *link, const RtExchange *x, Arena *a,
                   RtLinkAddress *all)
{
    RtLinkAddress own = link->ops->address(link);
    char *bytes = arena_alloc(a, MOST_NAME + own.len);
    RtBytes *got;
    strncpy(bytes, link->ops->name, MOST_NAME - 1);
    memcpy(bytes + MOST_NAME, own.bytes, own.len);
    TRY(rt_exchange_bytes(x, "link", bytes, MOST_NAME + own.len, a, &got));
    for (int k = 0; k < x->size; k++) {
        const char *other = got[k].data;
        if (got[k].len < MOST_NAME || memcmp(other, bytes, MOST_NAME) != 0)
            return status_new(STATUS_INPUT,
                              "rank %d sends messages over %.15s, and rank %d "
                              "over %.15s: all processes use one link",
                              k, got[k].len < MOST_NAME ? "" : other, x->rank,
                              bytes);
        all[k] = (RtLinkAddress){other + MOST_NAME, got[k].len - MOST_NAME};
    }
    return OK;
}

/* ---- machines ------------------------------------------------------------ */

/* Several machines, of which one has several processes. */
static bool
are_mixed(const int *machine_of, int size)
{
    bool any_near = false, any_far = false;
    for (int k = 1; k < size; k++)
        for (int i = 0; i < k; i++) {
            bool is_near = machine_of[i] == machine_of[k];
            any_near |= is_near;
            any_far |= !is_near;
        }
    return any_near && any_far;
}

/* RtLinkTopology's: where all machines have as many processes, with
 * neighbouring ranks; else, or on one machine, 1. */
static int
num_per_machine(const int *machine_of, int size)
{
    int n = 1;
    while (n < size && machine_of[0] == machine_of[n])
        n++;
    if (n == size || size % n)
        return 1;
    for (int k = 1; k < size; k++)
        if ((machine_of[k - 1] == machine_of[k]) != (k % n != 0))
            return 1;
    return n;
}

static void
set_topology(RtCarrier *c, const int *machine_of)
{
    int n = machine_of ? num_per_machine(machine_of, rt_carrier_size(c)) : 1;
    if (n > 1)
        rt_carrier_set_topology(c, (RtLinkTopology){.per_machine = n});
}

static Status
open_link(const RtLinkOptions *o, const RtExchange *x, RtLink **out)
{
    const LinkRow *row = row_of(rt_link_choose(o->name, o->mpi));
    TRY(row->open(o, x, out));
    if (row->has_memory || !o->machine_of || !are_mixed(o->machine_of, x->size))
        return OK;
    return rt_link_near_open(*out, x, o->machine_of, out);
}

/* ---- all of it ----------------------------------------------------------- */

Status
rt_link_join(const RtLinkOptions *options, const RtExchange *exchange,
             RtCarrier **out)
{
    RtLink *link;
    RtCarrier *c = NULL;
    TRY(open_link(options, exchange, &link));
    Arena *a = arena_new(NULL, "joining");
    RtLinkAddress *all = NEW_ARRAY(a, RtLinkAddress, (size_t)exchange->size);
    Status st = exchange_addresses(link, exchange, a, all);
    if (st)
        link->ops->close(link, true);
    else
        st = rt_carrier_open(link, all, &c);
    if (!st) {
        set_topology(c, options->machine_of);
        st = rt_carrier_measure(c, options->timeout);
    }
    if (st && c) {
        rt_carrier_stop(c);
        rt_carrier_close(c);
    }
    arena_release(a);
    if (!st)
        *out = c;
    return st;
}
