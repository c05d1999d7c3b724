/*
 * report.c - what is made of a profile when main has returned
 */
#include "runtime/profile/report.h"

#include "runtime/profile/export.h"
#include "runtime/profile/rows.h"
#include "runtime/profile/text.h"

static void
print_tables(RtRun *run, const RtReport *report)
{
    Str s = str_new(run->arena);
    rt_profile_print(&s, run, report);
    rt_profile_print_listing(&s, run, report);
    rt_progress_clear(&run->progress);
    fputs(str_text(&s), run->options->err);
}

/* A run that is quiet writes only the file, if it has one. */
Status
rt_profile_report(RtRun *run)
{
    RtReport report;
    const RtOptions *o = run->options;
    if (!rt_is_chief(run))
        return OK;
    TRY(rt_profile_rows(run, &report));
    if (!o->quiet || !(o->profile_json || o->profile_trace))
        print_tables(run, &report);
    if (o->profile_json)
        TRY(rt_profile_write_json(run, &report, o->profile_json));
    if (o->profile_trace)
        TRY(rt_profile_write_trace(run, &report, o->profile_trace));
    return OK;
}
