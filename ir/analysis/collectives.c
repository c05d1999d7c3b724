/*
 * collectives.c - by which algorithm a run carries out a collective
 *
 * The model: rounds of messages that follow each other take a latency each, and
 * bytes the time of the rate.  Messages of a round that go to several processes
 * follow each other at once, and count a quarter of a latency each.
 */
#include "ir/analysis/collectives.h"

#include "ir/base/status.h"

const char *const ir_coll_names[NUM_IR_COLL_ALGORITHMS] = {
#define COLLECTIVE(id, name, joined_by, doc) [IR_COLL_##id] = name,
#include "ir/analysis/collectives.def"
};

void
ir_coll_take_slower(IrLinkSpeed *s, IrLinkSpeed other)
{
    if (other.latency > s->latency)
        s->latency = other.latency;
    if (other.rate > 0 && (s->rate == 0 || other.rate < s->rate))
        s->rate = other.rate;
}

int
ir_coll_node_end(int at, int end, int num_replicas)
{
    int best = at + 1;
    for (int size = 2; at % size == 0; size *= 2) {
        int to = at + size < num_replicas ? at + size : num_replicas;
        if (to > end)
            break;
        best = to;
        if (to == num_replicas)
            break;
    }
    return best;
}

/* ---- whether it can be used ---------------------------------------------- */

static bool
joins_processes(IrCollAlgorithm algorithm)
{
    enum { DEVICES = false, PROCESSES = true };
    static const bool joined_by[] = {
#define COLLECTIVE(id, name, joined_by, doc) [IR_COLL_##id] = joined_by,
#include "ir/analysis/collectives.def"
    };
    return joined_by[algorithm];
}

static bool
is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/* Each process has one node, which is combined with others in several steps. */
static bool
has_one_node_each(const IrCollProcesses *p)
{
    return !p->is_rounded && p->nodes == p->size && p->most_nodes == 1;
}

/* Ranks that differ in a bit have nodes beside each other. */
static bool
has_levels(const IrCollProcesses *p)
{
    return has_one_node_each(p) && is_power_of_two(p->size) &&
           is_power_of_two(p->num_replicas);
}

/* A machine's nodes are a node. */
static bool
has_machines(const IrCollProcesses *p)
{
    int n = p->per_machine;
    return has_one_node_each(p) && n > 1 && n < p->size && is_power_of_two(n) &&
           is_power_of_two(p->num_replicas / (p->size / n));
}

bool
ir_coll_can(IrCollAlgorithm algorithm, const IrCollProcesses *p)
{
    switch (algorithm) {
    case IR_COLL_HALVING:
    case IR_COLL_DOUBLING:
        return has_levels(p);
    case IR_COLL_HIERARCHY:
        return has_machines(p);
    default:
        return joins_processes(algorithm);
    }
}

/* ---- how long it takes --------------------------------------------------- */

static int
rounds_of(int size)
{
    int n = 0;
    while (1 << n < size)
        n++;
    return n;
}

/* Messages one after the other, of so many bytes in all. */
static double
rounds_at(IrLinkSpeed speed, double rounds, double bytes)
{
    return rounds * speed.latency + bytes / speed.rate;
}

/* A round of messages to all others of num. */
static double
scatter_at(IrLinkSpeed speed, double num, double bytes)
{
    return num > 1 ? rounds_at(speed, 1 + (num - 2) / 4, bytes) : 0;
}

/* Of `bytes` that all combine, what a process sends of its share. */
static double
share(double bytes, double num)
{
    return bytes * (num - 1) / num;
}

static double
seconds(IrCollAlgorithm algorithm, const IrCollProcesses *p, double bytes)
{
    double size = p->size, each = p->per_machine, machines = size / each;
    double near = rounds_of(p->per_machine);
    double far = rounds_of(p->size) - near;
    double away = size > 1 ? (size - each) / (size - 1) : 0; /* of messages */
    switch (algorithm) {
    case IR_COLL_GATHER:
        return rounds_at(p->far, near + far,
                         (p->nodes - p->nodes / size) * bytes);
    case IR_COLL_EXCHANGE:
        return 2 * scatter_at(p->far, size, 0) +
               (p->most_nodes + 1) * share(bytes, size) *
                   (away / p->far.rate + (1 - away) / p->near.rate);
    case IR_COLL_HALVING:
        return rounds_at(p->near, 2 * near, 2 * share(bytes, each)) +
               rounds_at(p->far, 2 * far, 2 * share(bytes / each, machines));
    case IR_COLL_DOUBLING:
        return rounds_at(p->near, near, near * bytes) +
               rounds_at(p->far, far, far * bytes);
    case IR_COLL_HIERARCHY:
        return 2 * scatter_at(p->near, each, share(bytes, each)) +
               2 * scatter_at(p->far, machines, share(bytes / each, machines));
    default:
        UNREACHABLE("%s joins no processes", ir_coll_names[algorithm]);
    }
}

static bool
can_at(IrCollAlgorithm algorithm, const IrCollProcesses *p, double bytes)
{
    return ir_coll_can(algorithm, p) &&
           (algorithm != IR_COLL_GATHER || bytes <= IR_COLL_GATHER_BYTES);
}

IrCollAlgorithm
ir_coll_choose(const IrCollProcesses *p, double bytes)
{
    IrCollAlgorithm best = IR_COLL_EXCHANGE;
    for (int i = 0; i < NUM_IR_COLL_ALGORITHMS; i++) {
        IrCollAlgorithm algorithm = (IrCollAlgorithm)i;
        if (can_at(algorithm, p, bytes) &&
            seconds(algorithm, p, bytes) < seconds(best, p, bytes))
            best = algorithm;
    }
    return best;
}
