/*
 * progress.c - a line on the terminal with the speed of the run
 */
#include "runtime/exec/progress.h"

#include "ir/base/clock.h"

#define PERIOD 0.1 /* seconds */

void
rt_progress_begin(RtProgress *p, FILE *to)
{
    *p = (RtProgress){.to = to, .begin = clock_seconds()};
    p->last = p->begin;
}

void
rt_progress_resume(RtProgress *p, int64_t steps)
{
    p->before = steps;
}

void
rt_progress_step(RtProgress *p, int64_t steps)
{
    if (!p->to)
        return;
    double now = clock_seconds();
    if (now - p->last < PERIOD)
        return;
    p->last = now;
    p->is_shown = true;
    fprintf(p->to, "\r%lld steps, %.1f steps/s\033[K", (long long)steps,
            (double)(steps - p->before) / (now - p->begin));
    fflush(p->to);
}

void
rt_progress_clear(RtProgress *p)
{
    if (!p->is_shown)
        return;
    p->is_shown = false;
    fputs("\r\033[K", p->to);
    fflush(p->to);
}
