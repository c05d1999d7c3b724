/*
 * explain.c - a description of a placed program
 *
 * Variables with their devices and bytes, the sharding of batches, the
 * operations that passes inserted and why, and memory.
 */
#include <string.h>
#include "ir/analysis/cost.h"
#include "ir/analysis/footprint.h"
#include "ir/analysis/gpu_memory.h"
#include "ir/analysis/hooks.h"
#include "ir/analysis/live_range.h"
#include "ir/base/usage.h"
#include "ir/dataset/sharding.h"
#include "ir/dataset/stage.h"
#include "ir/ir.h"
#include "ir/rules/pairs.h"
#include "ir/rules/tf32.h"
#include "ir/type_bounds.h"
#include "ir/type_text.h"
#include "passes/distribute/algorithm.h"
#include "passes/explain.h"
#include "passes/memory/memory.h"
#include "passes/passes.h"

static int64_t
bytes_of(const IrModule *m, const IrType *t)
{
    int64_t n = 0;
    return ir_type_bytes(m, t, &n) ? n : 0;
}

/* ---- variables ---------------------------------------------------------- */

static const char *
how_kept(const IrVar *v)
{
    if (v->type.locality == LOCAL_ON)
        return "central";
    return v->sync == SYNC_ON_READ ? "a part on each replica, sync on_read"
                                   : "mirrored";
}

static void
explain_parts(Str *out, const IrVar *v)
{
    int64_t least = ir_var_part_rows(v, v->parts - 1);
    int64_t most = ir_var_part_rows(v, 0);
    str_addf(out, "  %20s in %lld parts of ", "", (long long)v->parts);
    if (least < most)
        str_addf(out, "%lld to ", (long long)least);
    str_addf(out, "%lld row%s on servers\n", (long long)most,
             most == 1 ? "" : "s");
}

static void
explain_variable(Str *out, const IrModule *m, const IrVar *v)
{
    IrType t = v->type;
    t.locality = LOCAL_HOST;
    bool is_central = v->type.locality == LOCAL_ON;
    str_addf(out, "  %-20s %-18s %s, aggregation %s: %lld bytes on %s%s\n",
             v->name, ir_type_text(m, &t), how_kept(v),
             ir_words[WORDS_AGG][v->agg], (long long)bytes_of(m, &v->type),
             is_central ? "" : "each of ",
             is_central ? pass_device_name(m, m->home) : m->devices);
    if (v->parts > 1)
        explain_parts(out, v);
    if (v->server)
        str_addf(out, "  %20s on the server ps:%lld\n", "",
                 (long long)v->server - 1);
}

static void
explain_strategy(Str *out, const IrModule *m)
{
    CollectiveAlgorithm w = pass_algorithm(m, NULL);
    str_addf(out, "strategy %s, %d replica%s on ",
             ir_strategy_names[m->strategy], m->num_replicas,
             m->num_replicas == 1 ? "" : "s");
    if (ir_strategy_info[m->strategy].workers)
        str_addf(out, "%d worker%s with %s%s\n", m->num_workers,
                 m->num_workers == 1 ? "" : "s", m->devices,
                 m->num_workers == 1 ? "" : " each");
    else
        str_addf(out, "%s\n", m->devices);
    if (m->num_replicas > 1)
        str_addf(out, "cross-device operation %s: %s\n",
                 pass_algorithm_name(m, &w), w.why);
    if (m->num_replicas > 1 && m->bytes_per_pack >= 0)
        str_addf(out,
                 m->bytes_per_pack ? "packs of collectives are closed "
                                     "when larger than %lld bytes\n"
                                   : "packs of collectives have no limit "
                                     "(bytes_per_pack %lld)\n",
                 (long long)m->bytes_per_pack);
    if (m->num_replicas > 1 && m->timeout_ms)
        str_addf(out,
                 "in a collective a replica waits for the others for %g "
                 "seconds\n",
                 (double)m->timeout_ms / 1000);
}

static void
explain_variables(Str *out, const IrModule *m)
{
    int64_t sum = 0, central = 0;
    str_add(out, "\nvariables\n");
    for (int i = 0; i < m->vars.len; i++) {
        explain_variable(out, m, m->vars.data[i]);
        const IrType *t = &m->vars.data[i]->type;
        *(t->locality == LOCAL_ON ? &central : &sum) += bytes_of(m, t);
    }
    str_addf(out, "  %lld bytes on each device\n", (long long)sum);
    if (central)
        str_addf(out, "  %lld bytes more on %s\n", (long long)central,
                 pass_device_name(m, m->home));
}

/* ---- batches ------------------------------------------------------------ */

static const char *const division_text[] = {
    [REBATCH_LEGACY] = "each batch cut by itself, in equal parts",
    [REBATCH_V2] = "cut from the stream of rows, in turn",
    [REBATCH_NONE] = "whole elements, in turn"};

/* What each of several workers reads. */
static const char *
worker_text(const IrModule *m, const IrIter *it)
{
    if (it->whole)
        return "has a pipeline of its own";
    switch (ir_iter_shard_policy(m, it)) {
    case SHARD_FILE:
        return "reads its files";
    case SHARD_DATA:
        return "reads all and takes its parts";
    default:
        return "reads all";
    }
}

/* What a coordinator's worker has. */
static const char *const share_text[] = {
    [WORKER_SHARD_OFF] = "reads all",
    [WORKER_SHARD_DATA] = "reads all and takes its elements",
    [WORKER_SHARD_FILE] = "reads its files",
    [WORKER_SHARD_DYNAMIC] = "reads the files that are dealt to it",
};

static void
explain_batches(Str *out, const IrModule *m)
{
    str_add(out, "\nbatches\n");
    for (int i = 0; i < m->iters.len; i++) {
        const IrIter *it = m->iters.data[i];
        str_addf(out, "  %-20s %s", it->datasets.data[0],
                 division_text[ir_iter_rebatch(m, it)]);
        if (it->rows >= 0) {
            const IrSymbol *n = &m->symbols.data[it->rows];
            str_addf(out, ": at most %lld rows a replica, %lld in all",
                     (long long)n->bound,
                     (long long)m->symbols.data[n->partner].bound);
        }
        if (m->num_workers > 1)
            str_addf(out, "; each of %d workers %s", m->num_workers,
                     worker_text(m, it));
        if (it->per_worker)
            str_addf(out, "; each worker %s", share_text[it->workers]);
        str_addf(out, "; %lld steps made ahead",
                 (long long)ir_iter_ahead(m, it));
        if (it->buffer != 1 || it->on_host)
            str_addf(out,
                     ", %lld of them copied to devices of their own memory",
                     (long long)ir_iter_fetched(it));
        str_addc(out, '\n');
    }
}

/* ---- memory ------------------------------------------------------------- */

static double
percent_above(int64_t x, int64_t least)
{
    return least ? 100.0 * (double)(x - least) / (double)least : 0.0;
}

static void
explain_need(Str *out, const char *what, int64_t arena, int64_t live)
{
    str_addf(out, "  %-20s %15lld %15lld %7.2f %%\n", what, (long long)arena,
             (long long)live, percent_above(arena, live));
}

/* Arenas, and the bytes that are live at the worst point: no arena can be
 * smaller than these. */
static void
explain_devices(Str *out, const IrModule *m, const DeviceMemory *dm)
{
    str_addf(out,
             "\nmemory of each of %s, in bytes\n"
             "  %-20s %15lld\n  %-20s %15lld\n"
             "\n  %-20s %15s %15s %9s\n",
             m->devices, "variables", (long long)dm->vars, "rows of main",
             (long long)dm->rows, "", "arena", "live at most", "above");
    for (int i = 0; i < dm->programs.len; i++) {
        const ProgramMemory *p = &dm->programs.data[i];
        int64_t live = dm->vars + p->given + p->live;
        explain_need(out, p->program->name, p->arena, live);
    }
    explain_need(out, "the device", dm->arena, dm->live);
}

/* The largest values that are live at the worst point of the largest program.
 */
static void
explain_largest(Str *out, Arena *a, const IrModule *m)
{
    IrLarge large[IR_LARGEST];
    int num = ir_largest_at_peak(a, m, large);
    if (num)
        str_add(out, "\n  most of it\n");
    for (int i = 0; i < num; i++)
        str_addf(out, "  %-20s %15lld  at %s:%u:%u\n", large[i].what,
                 (long long)large[i].bytes,
                 diag_source_name(m->diag, large[i].loc.file),
                 large[i].loc.line, large[i].loc.col);
}

static int64_t
data_bytes(const IrModule *m)
{
    int64_t sum = 0;
    for (int i = 0; i < m->iters.len; i++)
        sum += ir_iter_bytes(m, m->iters.data[i]);
    return sum;
}

static int64_t
frame_bytes(const IrModule *m)
{
    IrFunc *fn = ir_main(m);
    return fn ? ir_frame_bytes(fn) : 0;
}

/* Elements that stages keep, in an unknown number, which is in no sum; returns
 * whether there are any. */
static bool
explain_kept(Str *out, Arena *a, const IrModule *m)
{
    bool any = false;
    for (int i = 0; i < m->iters.len; i++) {
        IrUncountedStages kept =
            ir_iter_uncounted_stages(a, m, m->iters.data[i]);
        for (int k = 0; k < kept.len; k++, any = true) {
            const IrStage *s = kept.data[k].stage;
            str_addf(out,
                     "  %-20s %15lld  for each element kept at %s:%u:%u, how "
                     "many is unknown until the files are read\n",
                     ir_stage_info[s->kind].name, (long long)kept.data[k].each,
                     diag_source_name(m->diag, s->loc.file), s->loc.line,
                     s->loc.col);
        }
    }
    return any;
}

/* Parts of the files that datasets read are in memory, too: the size of a
 * record is known only when it is read. */
static void
explain_host(Str *out, Arena *a, const IrModule *m, int64_t devices)
{
    int64_t frame = frame_bytes(m), data = data_bytes(m);
    str_addf(out,
             "\nmemory of the host, in bytes\n"
             "  %-20s %15lld\n"
             "  %-20s %15lld  and a block of a file for each source\n",
             "main", (long long)frame, "datasets", (long long)data);
    bool more = explain_kept(out, a, m);
    UsageRoom room = usage_room();
    int64_t all = frame + data + devices;
    str_addf(out, "\nmemory in all, in bytes\n  %-20s %15lld%s\n", "",
             (long long)all, more ? "  and what is kept of files" : "");
    if (all > room.bytes)
        str_addf(out, "  %-20s %15lld  are there on this machine: %s\n", "",
                 (long long)room.bytes, room.of);
}

/* ---- precision ----------------------------------------------------------- */

typedef struct Products {
    int all, tf32, of_bf16, one_chain;
} Products;

static void
count_product(IrOp *op, void *data)
{
    Products *p = data;
    p->all += ir_can_be_tf32(op);
    p->tf32 += ir_is_tf32(op);
    p->of_bf16 += ir_adds_pairs(op);
    p->one_chain += ir_pair_order(op) == IR_ONE_CHAIN;
}

/* Nothing where all products are exact.  Variants of a program count each. */
static void
explain_precision(Str *out, const IrModule *m)
{
    Products p = {0};
    for (const IrFunc *fn = m->first; fn; fn = fn->next)
        ir_walk(fn->body, count_product, &p);
    if (p.tf32 && ir_devices_have(m->devices, DEVICE_cuda))
        str_addf(out,
                 "\nprecision\n  %d of %d products of f32, bf16 and f16 may be "
                 "computed in TF32 by GPUs' tensor cores, which have an order "
                 "of sums of their own: results differ from those of a CPU "
                 "(--precision tf32)\n",
                 p.tf32, p.all);
    if (p.one_chain)
        str_addf(out,
                 "\nprecision\n  %d of %d products of bf16 are added in the "
                 "order of vdpbf16ps, on every device: results have other bits "
                 "than without --precision vdpbf16ps\n",
                 p.one_chain, p.of_bf16);
}

/* ---- GPUs ---------------------------------------------------------------- */

static void
explain_part(Str *out, const char *what, int64_t bytes, const char *note)
{
    str_addf(out, "  %-20s %15lld%s%s\n", what, (long long)bytes,
             *note ? "  " : "", note);
}

/* Of one GPU, with a replica on each. */
static void
explain_gpus(Str *out, Arena *a, const IrModule *m, int64_t arena)
{
    IrGpuMemory n = ir_gpu_memory(m, arena, 1, false, ir_asks_for_nccl(m));
    str_addf(out, "\nmemory of each GPU of %s, in bytes\n", m->devices);
    explain_part(out, "arena", n.arenas, "");
    explain_part(out, "staging", n.staging, "of the next batch");
    explain_part(out, "graphs", n.graphs,
                 arena_printf(a, "at most, for %d launches", n.launches));
    if (n.scratch)
        explain_part(out, "scratch", n.scratch,
                     "between the two launches of a kernel, at most");
    explain_part(out, "modules", n.modules,
                 arena_printf(a, "at most, for %d kernels", n.kernels));
    if (n.nccl)
        explain_part(out, "nccl", n.nccl,
                     "at most, for its connections and slices of operands");
    explain_part(out, "context", n.context, "about, the driver's own");
    explain_part(out, "in all", n.all,
                 arena_printf(a, "of the %lld of %s", (long long)ir_gpu_bytes(),
                              ir_gpu_name()));
    explain_part(out, "pinned", n.pinned, "of the host's memory, for copies");
    if (n.all <= ir_gpu_bytes())
        return;
    IrGpuRemedies r = ir_gpu_remedies(a, m, &n, ir_gpu_bytes());
    str_addf(out, "  which is too much: %s\n", ir_gpu_remedies_text(a, &r));
}

/* ---- replicas that share devices ---------------------------------------- */

/* The program that takes longest, which is the step of a training. */
static const IrFunc *
longest_program(const IrModule *m, const IrMachine *machine)
{
    const IrFunc *longest = NULL;
    double most = -1.0;
    for (const IrFunc *fn = m->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_PROGRAM || fn->variant_of)
            continue;
        double seconds = ir_program_seconds(m, fn, machine, m->num_replicas);
        if (seconds > most)
            longest = fn;
        most = seconds > most ? seconds : most;
    }
    return longest;
}

static void
explain_work(Str *out, const IrFunc *fn, const IrProgramWork *w)
{
    double seconds = w->once.seconds + w->each.seconds;
    str_addf(out,
             "  in %s: %.0f of %.0f kernels and %.1f %% of the work are the "
             "same for all replicas\n",
             fn->name, w->once.kernels, w->once.kernels + w->each.kernels,
             seconds > 0.0 ? 100.0 * w->once.seconds / seconds : 0.0);
}

/* What it takes on each number of devices that the replicas can share: memory,
 * which is less on fewer, and time, which is more. */
static void
explain_sharing(Str *out, Arena *a, const IrModule *m, int64_t arena)
{
    const IrMachine *machine = ir_machine_of(m);
    const IrFunc *fn = longest_program(m, machine);
    IrProgramWork w = {0};
    str_addf(out,
             "\n%d replicas may share devices (tfd-run --devices), which keep "
             "and compute once what is the same for all\n",
             m->num_replicas);
    if (fn) {
        w = ir_program_work(m, fn, machine);
        explain_work(out, fn, &w);
    }
    str_addf(out, "  %7s %15s %15s %12s %20s\n", "devices", "device memory",
             "variables", "step takes", "bytes between them");
    double alone = ir_work_seconds(m, &w, machine, m->num_replicas);
    for (int n = m->num_replicas; n > 0; n--) {
        if (m->num_replicas % n != 0)
            continue;
        double seconds = ir_work_seconds(m, &w, machine, n);
        str_addf(out, "  %7d %15lld %15lld %10.2f x %20.0f\n", n,
                 (long long)ir_arenas_bytes(a, m, arena, n),
                 (long long)ir_vars_bytes(m, n),
                 alone > 0.0 ? seconds / alone : 1.0,
                 ir_work_bytes_between(m, &w, n));
    }
}

static void
explain_memory(Str *out, const IrModule *m)
{
    Arena *a = arena_new(NULL, "explaining memory");
    DeviceMemory dm = pass_device_memory(a, m);
    explain_devices(out, m, &dm);
    explain_largest(out, a, m);
    if (ir_devices_have(m->devices, DEVICE_cuda))
        explain_gpus(out, a, m, dm.arena);
    explain_host(out, a, m, ir_arenas_bytes(a, m, dm.arena, m->num_replicas));
    if (m->num_replicas > 1)
        explain_sharing(out, a, m, dm.arena);
    arena_release(a);
}

void
pass_explain(Str *out, const IrModule *m)
{
    explain_strategy(out, m);
    explain_variables(out, m);
    explain_batches(out, m);
    pass_explain_inserted(out, m);
    pass_explain_processes(out, m);
    pass_explain_servers(out, m);
    explain_precision(out, m);
    explain_memory(out, m);
}
