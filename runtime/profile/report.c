/*
 * report.c - what is made of a profile when main has returned
 */
#include "runtime/profile/report.h"

#include "runtime/profile/export.h"
#include "runtime/profile/rows.h"
#include "runtime/profile/text.h"

Status
rt_profile_report(RtRun *run)
{
    RtReport report;
    if (!rt_is_chief(run))
        return OK;
    TRY(rt_profile_rows(run, &report));
    Str s = str_new(run->arena);
    rt_profile_print(&s, run, &report);
    rt_profile_print_listing(&s, run, &report);
    rt_progress_clear(&run->progress);
    fputs(str_text(&s), run->options->err);
    if (run->options->profile_json)
        TRY(rt_profile_write_json(run, &report, run->options->profile_json));
    if (run->options->profile_trace)
        TRY(rt_profile_write_trace(run, &report, run->options->profile_trace));
    return OK;
}
