/*
 * stats.c - time, memory and bytes of a run
 */
#include "runtime/run/stats.h"

#include "ir/analysis/cost.h"
#include "ir/analysis/footprint.h"
#include "ir/base/clock.h"
#include "ir/base/usage.h"
#include "runtime/exec/run_state.h"
#include "runtime/run/coll_stats.h"
#include "runtime/run/memory.h"
#include "runtime/ps/ps.h"

/* How long steps waited for checkpoints. */
static void
print_saving(const RtStats *s, FILE *to)
{
    fprintf(to, "  checkpoints  %.3f s", s->saving + s->saving_end);
    if (s->saved)
        fprintf(to,
                ": %lld of %.3f MB, steps waited %.3f ms for each, %.3f ms at "
                "most, and the end %.3f ms",
                (long long)s->saved,
                rt_megabytes(s->saved_bytes) / (double)s->saved,
                1e3 * s->saving / (double)s->saved, 1e3 * s->saving_most,
                1e3 * s->saving_end);
    fputc('\n', to);
}

static void
print_time(const RtRun *run, FILE *to)
{
    const RtStats *s = &run->stats;
    double ran = clock_seconds() - s->ready;
    int64_t steps = s->steps - s->resumed;
    fprintf(to, "steps          %lld, %lld launches\n", (long long)steps,
            (long long)s->launches);
    fprintf(to, "time           %.3f s, %.1f steps/s\n", ran,
            ran > 0 ? (double)steps / ran : 0.0);
    fprintf(to, "  start        %.3f s before\n", s->ready - s->begin);
    fprintf(to, "  devices      %.3f s\n", s->devices);
    fprintf(to, "  data         %.3f s\n", s->data);
    double saving = s->saving + s->saving_end;
    if (run->resume.folder)
        print_saving(s, to);
    fprintf(to, "  main         %.3f s\n", ran - s->devices - s->data - saving);
}

/* ---- totals over the processes of a job ---------------------------------- */

typedef struct Totals {
    int64_t devices, in_use, before;
    RtFootprint planned;
} Totals;

/* Of this process; then the number of runs of each program. */
static int64_t *
own_totals(const RtRun *run, size_t *bytes)
{
    int n = run->plan->num_programs;
    size_t words = sizeof(Totals) / sizeof(int64_t);
    int64_t *own = NEW_ARRAY(run->arena, int64_t, words + (size_t)n);
    Totals *t = (Totals *)(void *)own;
    *t = (Totals){.devices = run->num_devices,
                  .in_use = usage_peak() - run->stats.memory,
                  .before = run->stats.memory,
                  .planned = rt_memory_footprint(run)};
    for (int i = 0; i < n; i++)
        own[words + (size_t)i] = run->stats.program_runs[i];
    *bytes = (words + (size_t)n) * sizeof *own;
    return own;
}

static void
add_totals(void *data, int rank, const void *part, size_t n)
{
    const int64_t *own = part;
    int64_t *all = data;
    (void)rank;
    for (size_t i = 0; i < n / sizeof *all; i++)
        all[i] += own[i];
}

/* ---- what is printed ----------------------------------------------------- */

/* Kernels that programs began, by the model's counts. */
static IrProgramWork
work_of_run(const RtRun *run, const int64_t *num_runs)
{
    IrProgramWork sum = {0};
    const IrMachine *machine = ir_machine_of(run->module);
    for (int i = 0; i < run->plan->num_programs; i++) {
        IrProgramWork w =
            ir_program_work(run->module, run->plan->programs[i], machine);
        double runs = (double)num_runs[i];
        sum.once.kernels += runs * w.once.kernels;
        sum.each.kernels += runs * w.each.kernels;
    }
    return sum;
}

static const char *
processes_text(const RtRun *run)
{
    return run->size > 1
               ? arena_printf(run->arena, " of %d processes", run->size)
               : "";
}

/* Where the replicas were, and what it saved that those of a device share. */
static void
print_replicas(const RtRun *run, const Totals *t, FILE *to)
{
    int all = run->num_replicas, num = (int)t->devices;
    int64_t saved =
        ir_arenas_bytes(run->arena, run->module, run->arena_bytes, all) -
        ir_arenas_bytes(run->arena, run->module, run->arena_bytes, num);
    int64_t vars = ir_vars_bytes(run->module, num);
    IrProgramWork w = work_of_run(run, (const int64_t *)(t + 1));
    double others = (double)(all / num - 1);
    fprintf(to,
            "replicas       %d on %d device%s%s: %.3f MB of variables, %.3f MB "
            "less than on %d; %.3f MB less in all\n",
            all, num, num > 1 ? "s" : "", processes_text(run),
            rt_megabytes(vars),
            rt_megabytes(ir_vars_bytes(run->module, all) - vars), all,
            rt_megabytes(saved));
    fprintf(to,
            "  kernels      %.0f for each replica, %.0f once for all of a "
            "device, which saved %.0f\n",
            w.each.kernels * (others + 1.0), w.once.kernels,
            w.once.kernels * others);
}

/* The plan's estimate, and the memory that the processes have taken since the
 * run began. */
static void
print_memory(const Totals *t, FILE *to)
{
    RtFootprint n = t->planned;
    int num = (int)t->devices;
    fprintf(to,
            "memory         %.3f MB planned: %.3f MB of %d device%s, %.3f MB "
            "of main, %.3f MB of data",
            rt_megabytes(n.all), rt_megabytes(n.arenas), num,
            num > 1 ? "s" : "", rt_megabytes(n.frame), rt_megabytes(n.data));
    if (n.copy)
        fprintf(to, ", %.3f MB of a checkpoint", rt_megabytes(n.copy));
    fprintf(to,
            "\n  in use       %.3f MB at most, beside %.3f MB of the runner "
            "and the plan\n",
            rt_megabytes(t->in_use), rt_megabytes(t->before));
}

void
rt_begin_stats(RtRun *run)
{
    run->stats.begin = clock_seconds();
    run->stats.program_runs =
        NEW_ARRAY(run->arena, int64_t, (size_t)run->plan->num_programs);
    if (!run->options->stats)
        return;
    usage_forget_peak();
    run->stats.memory = usage_now();
}

Status
rt_print_stats(RtRun *run)
{
    size_t bytes;
    FILE *to = run->options->err;
    int64_t *own = own_totals(run, &bytes);
    Totals *sum = arena_alloc(run->arena, bytes);
    TRY(rt_gather_equal(run, own, bytes, add_totals, sum));
    RtCollTotals *collectives;
    TRY(rt_coll_totals(run, &collectives));
    if (!rt_is_chief(run))
        return OK;
    rt_progress_clear(&run->progress);
    print_time(run, to);
    rt_print_collectives(run, collectives, to);
    rt_ps_print(run, to);
    if (run->num_replicas > 1)
        print_replicas(run, sum, to);
    print_memory(sum, to);
    return OK;
}
