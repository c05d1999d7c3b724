/*
 * listing.c - the program with times beside it
 *
 * A file is shown from its first line that took time to the last, without long
 * stretches that took none.
 */
#include "runtime/profile/text.h"

#include <string.h>

enum { AROUND = 2 }; /* lines that are shown beside one that took time */

typedef struct Listing {
    Str *out;
    const RtReport *report;
    const RtRow **lines; /* by number from 1; NULL: took no time */
    uint32_t num_lines;
} Listing;

static uint32_t
count_lines(const char *text, size_t len)
{
    uint32_t n = 1;
    for (size_t i = 0; i < len; i++)
        n += text[i] == '\n';
    return n;
}

static bool
is_near(const Listing *l, uint32_t line)
{
    uint32_t first = line > AROUND ? line - AROUND : 1;
    for (uint32_t i = first; i <= line + AROUND && i <= l->num_lines; i++)
        if (l->lines[i])
            return true;
    return false;
}

static void
add_line(const Listing *l, uint32_t number, const char *text, size_t len)
{
    const RtRow *r = l->lines[number];
    if (r && l->report->seconds > 0.0)
        str_addf(l->out, "%6.1f%% %10.3f ms %5u | ",
                 100.0 * r->seconds / l->report->seconds, 1e3 * r->seconds,
                 number);
    else
        str_addf(l->out, "%7s %13s %5u | ", "", "", number);
    str_addn(l->out, text, len);
    str_addc(l->out, '\n');
}

static void
add_lines(const Listing *l, const char *text, size_t len)
{
    const char *end = text + len;
    bool skipped = false, begun = false;
    for (uint32_t n = 1; n <= l->num_lines; n++) {
        const char *eol = memchr(text, '\n', (size_t)(end - text));
        size_t size = (size_t)((eol ? eol : end) - text);
        if (is_near(l, n)) {
            if (skipped && begun)
                str_addf(l->out, "%7s %13s %5s |\n", "", "", "...");
            add_line(l, n, text, size);
            begun = true;
            skipped = false;
        } else {
            skipped = true;
        }
        text = eol ? eol + 1 : end;
    }
}

static void
add_file(Str *out, const RtRun *run, const RtReport *report, uint16_t file)
{
    size_t len;
    const Diag *d = run->plan->diag;
    const char *text = diag_source_text(d, file, &len);
    const RtTable *t = &report->tables[RT_BY_line];
    Listing l = {.out = out, .report = report};
    bool any = false;
    if (!text || diag_is_library(d, file))
        return;
    l.num_lines = count_lines(text, len);
    l.lines = NEW_ARRAY(out->arena, const RtRow *, (size_t)l.num_lines + 1);
    for (int i = 0; i < t->rows.len; i++) {
        const RtRow *r = t->rows.data[i];
        if (r->line.file == file && r->line.line && r->line.line <= l.num_lines)
            any = (l.lines[r->line.line] = r) || any;
    }
    if (!any)
        return;
    str_addf(out, "\n%7s %13s %s\n", "share",
             report->sites.steps ? "a step" : "time",
             diag_source_name(d, file));
    add_lines(&l, text, len);
}

void
rt_profile_print_listing(Str *out, const RtRun *run, const RtReport *report)
{
    for (int i = 0; i < diag_num_sources(run->plan->diag); i++)
        add_file(out, run, report, (uint16_t)i);
}
