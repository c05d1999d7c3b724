/*
 * explain_processes.c - by what rule a run in several processes chooses the
 * algorithm of a collective
 *
 * Which one depends on what the processes measure when they join.  The model
 * (ir/analysis/collectives.h) has two numbers of a link, latency and rate, and
 * compares bytes with their product K only; so what is unknown here is K.
 */
#include "ir/analysis/collectives.h"
#include "ir/device/device.h"
#include "ir/ir.h"
#include "passes/distribute/algorithm.h"
#include "passes/explain.h"

/* ---- bytes at which the choice changes ----------------------------------- */

/* On one machine each, so that one pair of numbers is all; in units of K. */
static IrCollProcesses
processes_of(int num_replicas, int size)
{
    IrLinkSpeed unit = {1.0, 1.0};
    IrCollProcesses p = {.size = size,
                         .per_machine = 1,
                         .near = unit,
                         .far = unit,
                         .num_replicas = num_replicas};
    int each = num_replicas / size;
    for (int first = 0; first < num_replicas; first += each) {
        int num = 0;
        for (int at = first; at < first + each; num++)
            at = ir_coll_node_end(at, first + each, num_replicas);
        p.nodes += num;
        p.most_nodes = num > p.most_nodes ? num : p.most_nodes;
    }
    return p;
}

/* The largest size in lo .. hi at which the choice is that at lo. */
static double
last_of(const IrCollProcesses *p, double lo, double hi)
{
    IrCollAlgorithm choice = ir_coll_choose(p, lo);
    for (int i = 0; i < 40; i++) {
        double middle = (lo + hi) / 2;
        if (ir_coll_choose(p, middle) == choice)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

/* "doubling to 1.00 K, then halving" */
static void
add_choices(Str *out, const IrCollProcesses *p)
{
    const double first = 1.0 / 1024, most = 4096, step = 1.25;
    const char *between = "";
    for (double at = first; at < most; at *= step) {
        IrCollAlgorithm now = ir_coll_choose(p, at);
        if (ir_coll_choose(p, at * step) == now)
            continue;
        str_addf(out, "%s%s to %.2f K", between, ir_coll_names[now],
                 last_of(p, at, at * step));
        between = ", ";
    }
    IrCollAlgorithm last = ir_coll_choose(p, most);
    str_addf(out, "%s%s", *between ? ", then " : "", ir_coll_names[last]);
    if (last == IR_COLL_GATHER)
        str_addf(out, " to %d bytes, then %s", IR_COLL_GATHER_BYTES,
                 ir_coll_names[ir_coll_choose(p, IR_COLL_GATHER_BYTES + 1)]);
    str_addc(out, '\n');
}

/* ---- the page ------------------------------------------------------------ */

static void
add_link(Str *out, const IrModule *m)
{
    int n = m->num_replicas;
    str_add(out,
            "  zmq, mpi, ucx      what takes least by the latency and the rate "
            "that are measured then; K is their product\n");
    for (int size = 2; size <= n; size++) {
        if (n % size)
            continue;
        IrCollProcesses p = processes_of(n, size);
        str_addf(out, "  %6d processes   ", size);
        add_choices(out, &p);
    }
    str_addf(out,
             "                     gather to %d bytes only; hierarchy where "
             "machines have 2^k processes, near K and far K\n"
             "  all_gather         gather to %d bytes of all replicas, then "
             "exchange\n",
             IR_COLL_GATHER_BYTES, IR_COLL_BLOCKS_BYTES);
}

/* Devices that meet in memory, or as ranks of NCCL. */
static void
add_devices(Str *out, const IrModule *m, bool are_gpus)
{
    CollectiveAlgorithm asked = pass_algorithm(m, NULL);
    const char *two_phase = ir_coll_names[IR_COLL_TWO_PHASE];
    str_add(out, are_gpus ? "  nccl               " : "  shared memory      ");
    if (asked.algorithm != ALGORITHM_auto)
        str_addf(out, "%s, since %s\n", pass_algorithm_name(m, &asked),
                 asked.why);
    else if (are_gpus)
        str_addf(out, "%s\n", two_phase);
    else
        str_addf(out, "%s to %d bytes of a replica, then %s\n",
                 ir_coll_names[IR_COLL_REPLICATED], IR_COLL_REPLICATED_BYTES,
                 two_phase);
}

static void
note_collective(IrOp *op, void *data)
{
    bool *found = data;
    *found |=
        op->kind == OP_all_reduce_start || op->kind == OP_all_gather_start;
}

static bool
has_collectives(const IrModule *m)
{
    bool found = false;
    for (const IrFunc *fn = m->first; fn; fn = fn->next)
        ir_walk(fn->body, note_collective, &found);
    return found;
}

void
pass_explain_processes(Str *out, const IrModule *m)
{
    bool are_gpus = ir_devices_have(m->devices, DEVICE_cuda);
    if (m->num_replicas < 2 || !has_collectives(m))
        return;
    str_add(out, "\nalgorithms of collectives in several processes, which "
                 "tfd-run chooses when they have joined\n");
    add_devices(out, m, are_gpus);
    if (!are_gpus)
        add_link(out, m);
}
