/*
 * text.c - the tables of a profile
 */
#include "runtime/profile/text.h"

#include <string.h>
#include "runtime/profile/recorder.h"

enum { MOST_ROWS = 20, NAME_WIDTH = 44 };

#define LEAST_SHARE 0.0005 /* of the step, of a row that is printed */

/* The end of a long name says more than its beginning. */
static const char *
short_name(Arena *a, const char *name)
{
    size_t n = strlen(name);
    if (n <= NAME_WIDTH)
        return name;
    return arena_printf(a, "..%s", name + n - (NAME_WIDTH - 2));
}

/* "12.3 Gop/s 45%" */
static void
add_rate(Str *out, double amount, double seconds, double peak, const char *unit)
{
    double rate = seconds > 0.0 ? amount / seconds : 0.0;
    if (amount <= 0.0)
        str_addf(out, "  %*s", (int)strlen(unit) + 13, "");
    else
        str_addf(out, "  %7.1f %s %3.0f%%", 1e-9 * rate, unit,
                 100.0 * rate / peak);
}

static void
add_row(Str *out, const RtReport *report, const RtRow *r)
{
    str_addf(out, "  %-*s %5.1f%% %10.3f ms %9.1f", NAME_WIDTH,
             short_name(out->arena, r->name),
             report->seconds > 0.0 ? 100.0 * r->seconds / report->seconds : 0.0,
             1e3 * r->seconds, r->calls);
    add_rate(out, r->operations, r->seconds, report->peaks.operations, "Gop/s");
    add_rate(out, r->bytes, r->seconds, report->peaks.bytes, "GB/s");
    str_addf(out, "  %s\n", rt_row_bound(r, &report->peaks));
}

/* The rows that are printed: the rest is one line. */
static int
num_shown(const RtReport *report, const RtTable *t)
{
    int n = 0;
    while (n < t->rows.len && n < MOST_ROWS &&
           t->rows.data[n]->seconds >= LEAST_SHARE * report->seconds)
        n++;
    return n;
}

static void
add_rest(Str *out, const RtReport *report, const RtTable *t, int shown)
{
    double seconds = 0.0;
    for (int i = shown; i < t->rows.len; i++)
        seconds += t->rows.data[i]->seconds;
    if (shown < t->rows.len)
        str_addf(out, "  and %d more: %.1f%%\n", t->rows.len - shown,
                 report->seconds > 0.0 ? 100.0 * seconds / report->seconds
                                       : 0.0);
}

static void
add_table(Str *out, const RtReport *report, RtBy by)
{
    const RtTable *t = &report->tables[by];
    int shown = num_shown(report, t);
    if (!t->rows.len)
        return;
    str_addf(out, "\n  %-*s %6s %13s %9s  %18s  %17s  %s\n", NAME_WIDTH,
             rt_by[by].title, "share", report->sites.steps ? "a step" : "time",
             "calls", "arithmetic", "memory", "bound by");
    for (int i = 0; i < shown; i++)
        add_row(out, report, t->rows.data[i]);
    add_rest(out, report, t, shown);
}

static void
add_head(Str *out, const RtRun *run, const RtReport *report)
{
    const RtTimedSites *s = &report->sites;
    if (s->steps)
        str_addf(out, "profile        %lld steps of %.3f ms%s",
                 (long long)s->steps, 1e3 * s->step_seconds,
                 run->profile->steps > 1 ? ", without the first" : "");
    else
        str_addf(out, "profile        %.3f ms, without steps",
                 1e3 * report->seconds);
    str_addf(out, ", the mean of %d device%s", run->num_devices,
             run->num_devices > 1 ? "s" : "");
    if (run->size > 1)
        str_addf(out, " of process 0 of %d", run->size);
    str_addf(out,
             "\n  a device     %.1f Gop/s of f32 and %.1f GB/s at most%s\n",
             1e-9 * report->peaks.operations, 1e-9 * report->peaks.bytes,
             run->enqueues ? ", by its clocks" : "");
    if (s->steps)
        str_addf(out,
                 "  outside      %.3f ms before, between and after steps\n",
                 1e3 * report->outside);
}

void
rt_profile_print(Str *out, const RtRun *run, const RtReport *report)
{
    add_head(out, run, report);
    for (int by = 0; by < NUM_RT_BY; by++)
        add_table(out, report, (RtBy)by);
}
