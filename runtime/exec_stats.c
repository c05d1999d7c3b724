/*
 * exec_stats.c - what a run took
 */
#include <sys/resource.h>
#include "ir/hooks.h"
#include "runtime/cpu/wait.h"
#include "runtime/exec_impl.h"

static double
megabytes(int64_t bytes)
{
    return (double)bytes / 1e6;
}

static void
print_time(const RtRun *run, FILE *to)
{
    const RtStats *s = &run->stats;
    double ran = rt_seconds() - s->ready;
    fprintf(to, "steps          %lld, %lld launches\n", (long long)s->steps,
            (long long)s->launches);
    fprintf(to, "time           %.3f s, %.1f steps/s\n", ran,
            ran > 0 ? (double)s->steps / ran : 0.0);
    fprintf(to, "  start        %.3f s before\n", s->ready - s->begin);
    fprintf(to, "  devices      %.3f s\n", s->devices);
    fprintf(to, "  data         %.3f s\n", s->data);
    fprintf(to, "  main         %.3f s\n", ran - s->devices - s->data);
}

static void
print_bytes(RtRun *run, FILE *to)
{
    struct rusage usage = {0};
    int64_t sent = 0, main_bytes = 0;
    for (int i = 0; i < run->num_replicas; i++)
        sent += run->replicas[i].bytes_sent;
    for (IrFunc *fn = run->module->first; fn; fn = fn->next) {
        if (fn->kind == FUNC_MAIN)
            main_bytes = ir_frame_bytes(fn);
    }
    getrusage(RUSAGE_SELF, &usage);
    fprintf(to, "collectives    %.3f MB from %d replicas\n", megabytes(sent),
            run->num_replicas);
    fprintf(
        to,
        "memory         %.3f MB planned (%d x %.3f MB and %.3f MB of main), "
        "%.3f MB at most in use\n",
        megabytes(run->num_replicas * run->arena_bytes + main_bytes),
        run->num_replicas, megabytes(run->arena_bytes), megabytes(main_bytes),
        megabytes((int64_t)usage.ru_maxrss * 1024));
}

void
rt_print_stats(RtRun *run)
{
    rt_progress_clear(&run->progress);
    print_time(run, run->options->err);
    print_bytes(run, run->options->err);
}
