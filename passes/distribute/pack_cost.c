/*
 * pack_cost.c - where packs of all_reduces close, by what they cost
 */
#include "passes/distribute/pack_cost.h"

#include <math.h>

/* Of a transfer to the latency: then all latencies of a step are at most a
 * quarter of its transfers, also on devices where nothing is hidden. */
static const double MIN_TRANSFER = 4.0;

PackCost
pass_pack_cost(PassCx *cx, const IrBlock *b, int last_known)
{
    PackCost c = {
        .m = cx->m, .machine = ir_machine_of(cx->m), .last_known = last_known};
    size_t n = b->last ? (size_t)b->last->id + 2 : 1;
    c.seconds = NEW_ARRAY(cx->arena, double, n);
    for (const IrOp *op = b->first; op; op = op->next)
        c.seconds[op->id + 1] =
            c.seconds[op->id] + ir_op_seconds(cx->m, op, c.machine);
    return c;
}

static double
transfer(const PackCost *c, const PackLoad *p)
{
    return ir_transfer_seconds(c->m, c->machine, (double)p->bytes);
}

static const char *
why_closed(const PackCost *c, const PackLoad *p, double later)
{
    return arena_printf(c->m->arena,
                        "%.3g us on the link are over %g times the latency, "
                        "and the next value is ready %.3g us later",
                        transfer(c, p) * 1e6, MIN_TRANSFER, later * 1e6);
}

const char *
pass_pack_closes(PackCost *c, const PackLoad *p, int next)
{
    double latency = c->machine->collective;
    double ready = c->seconds[p->known + 1], later = c->seconds[next + 1];
    double begin = fmax(ready, c->link_free);
    bool is_needed = next >= p->needed;
    bool waits =
        transfer(c, p) < MIN_TRANSFER * latency || later < begin + latency;
    if (!is_needed && waits)
        return NULL;
    c->link_free = begin + latency + transfer(c, p);
    if (!is_needed)
        return why_closed(c, p, later - ready);
    return p->by_assert ? "an assert comes before the next value is ready"
                        : "a result is needed before the next value is ready";
}

static bool
is_urgent(const PackCost *c, const PackLoad *p)
{
    return p->needed <= c->last_known;
}

const char *
pass_pack_ends(const PackCost *c, const PackLoad *p)
{
    if (p->known == c->last_known)
        return "no value is ready later";
    if (!is_urgent(c, p))
        return "what is ready later cannot share it";
    return p->by_assert ? "an assert comes before the others"
                        : "a result is needed before the others";
}

bool
pass_pack_shares(const PackCost *c, const PackLoad *p, const PackLoad *value)
{
    if (is_urgent(c, p) == is_urgent(c, value))
        return true;
    const PackLoad *patient = is_urgent(c, p) ? value : p;
    return transfer(c, patient) < c->machine->collective;
}
