/*
 * export.c - a profile for other programs
 */
#include "runtime/profile/export.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/io/file.h"
#include "runtime/profile/recorder.h"

/* A name as messages have it: names of files are any bytes, and JSON is UTF-8.
 */
static const char *
printable(Arena *a, const char *name)
{
    char *text = arena_strdup(a, name);
    str_make_printable(text, strlen(text), false);
    return text;
}

/* ---- tables ------------------------------------------------------------- */

static json_t *
phases_json(const RtRow *r)
{
    json_t *all = json_object();
    for (int i = 0; i < NUM_RT_PHASES; i++)
        if (r->phases[i] > 0.0)
            json_object_set_new(all, rt_step_phases[i].name,
                                json_real(r->phases[i]));
    return all;
}

static json_t *
row_json(const RtRun *run, const RtReport *report, const RtRow *r)
{
    double share = report->seconds > 0.0 ? r->seconds / report->seconds : 0.0;
    json_t *row = json_object();
    json_object_set_new(row, "name",
                        json_string(printable(run->arena, r->name)));
    json_object_set_new(row, "seconds", json_real(r->seconds));
    json_object_set_new(row, "share", json_real(share));
    json_object_set_new(row, "calls", json_real(r->calls));
    json_object_set_new(row, "operations", json_real(r->operations));
    json_object_set_new(row, "bytes", json_real(r->bytes));
    json_object_set_new(row, "bound",
                        json_string(rt_row_bound(r, &report->peaks)));
    json_object_set_new(row, "phases", phases_json(r));
    json_object_set_new(
        row, "file",
        json_string(printable(
            run->arena, diag_source_name(run->plan->diag, r->line.file))));
    json_object_set_new(row, "line", json_integer(r->line.line));
    return row;
}

static json_t *
report_json(const RtRun *run, const RtReport *report)
{
    json_t *all = json_object(), *tables = json_object();
    json_object_set_new(all, "steps", json_integer(report->sites.steps));
    json_object_set_new(all, "step_seconds",
                        json_real(report->sites.step_seconds));
    json_object_set_new(all, "sum_seconds", json_real(report->seconds));
    json_object_set_new(all, "outside_seconds", json_real(report->outside));
    json_object_set_new(all, "devices", json_integer(run->num_devices));
    json_object_set_new(all, "processes", json_integer(run->size));
    json_object_set_new(all, "peak_operations",
                        json_real(report->peaks.operations));
    json_object_set_new(all, "peak_bytes", json_real(report->peaks.bytes));
    for (int by = 0; by < NUM_RT_BY; by++) {
        json_t *rows = json_array();
        for (int i = 0; i < report->tables[by].rows.len; i++)
            json_array_append_new(
                rows, row_json(run, report, report->tables[by].rows.data[i]));
        json_object_set_new(tables, rt_by[by].name, rows);
    }
    json_object_set_new(all, "tables", tables);
    return all;
}

Status
rt_profile_write_json(const RtRun *run, const RtReport *report,
                      const char *path)
{
    json_t *all = report_json(run, report);
    char *text = json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    Str s = str_new(run->arena);
    str_add(&s, text);
    str_addc(&s, '\n');
    free(text);
    json_decref(all);
    return file_write(path, str_text(&s), s.len);
}

/* ---- traces ------------------------------------------------------------- */

static void
add_thread(Str *out, int number, const char *name)
{
    str_addf(out,
             "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":%d,"
             "\"args\":{\"name\":\"%s\"}}",
             number, name);
}

static void
add_text(Str *out, const char *text)
{
    const char *shown = printable(out->arena, text);
    str_add_quoted(out, shown, strlen(shown));
}

static void
add_event(Str *out, const RtRun *run, const RtTimedSite *s, int thread,
          double begin, double seconds)
{
    const RtPart *part = &s->parts[0];
    str_add(out, ",\n{\"ph\":\"X\",\"name\":");
    add_text(out, s->label);
    str_addf(out,
             ",\"cat\":\"%s\",\"pid\":0,\"tid\":%d,\"ts\":%.3f,"
             "\"dur\":%.3f,\"args\":{\"at\":",
             rt_step_phases[part->phase].name, thread, 1e6 * begin,
             1e6 * seconds);
    add_text(out,
             arena_printf(out->arena, "%s:%u",
                          diag_source_name(run->plan->diag, part->line.file),
                          part->line.line));
    str_add(out, "}}");
}

static void
add_events(Str *out, const RtRun *run, const RtReport *report,
           const RtRecorder *r, int thread)
{
    const RtProfile *p = run->profile;
    for (int64_t i = 0; i + 1 < r->num_marks; i++) {
        const RtMark *mark = &r->marks[i];
        if (mark->slot >= 0)
            add_event(out, run, &report->sites.data[mark->slot], thread,
                      (double)(mark->at - p->begin) * p->seconds_a_tick,
                      (double)(mark[1].at - mark->at) * p->seconds_a_tick);
    }
}

Status
rt_profile_write_trace(const RtRun *run, const RtReport *report,
                       const char *path)
{
    Str s = str_new(run->arena);
    str_add(&s, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    add_thread(&s, 0, "main");
    for (int i = 0; i < run->num_devices; i++) {
        str_add(&s, ",\n");
        add_thread(&s, i + 1, run->devices[i]->name);
    }
    add_events(&s, run, report, &run->profile->main, 0);
    for (int i = 0; i < run->num_devices; i++)
        add_events(&s, run, report, &run->profile->devices[i], i + 1);
    str_add(&s, "\n]}\n");
    return file_write(path, str_text(&s), s.len);
}
