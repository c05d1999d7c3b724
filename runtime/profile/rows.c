/*
 * rows.c - the times of sites, added up by line, function, layer, ...
 */
#include "runtime/profile/rows.h"

#include <stdlib.h>
#include <string.h>
#include "ir/analysis/cost.h"
#include "ir/type_bounds.h"

const RtByInfo rt_by[NUM_RT_BY] = {
#define BY(name, title, doc) [RT_BY_##name] = {#name, title},
#include "runtime/profile/tables.def"
#undef BY
};

#define SHORT 2e-6 /* seconds, of a call: its begin and end are most of it */

const char *
rt_row_bound(const RtRow *r, const RtPeaks *peaks)
{
    double arithmetic = r->operations / peaks->operations;
    double memory = r->bytes / peaks->bytes;
    if (r->waits > r->seconds / 2)
        return "waiting";
    bool is_far = arithmetic < r->seconds / 2 && memory < r->seconds / 2;
    if (!r->operations || (is_far && r->seconds < SHORT * r->calls))
        return "latency";
    return arithmetic >= memory ? "arithmetic" : "memory";
}

/* ---- adding up ----------------------------------------------------------- */

static RtRow *
row_of(RtRun *run, RtReport *report, RtBy by, const char *name)
{
    RtTable *t = &report->tables[by];
    RtRow *r = map_get(t->by_name, name);
    if (!r) {
        r = NEW(run->arena, RtRow);
        r->name = arena_strdup(run->arena, name);
        map_set(t->by_name, name, r);
        VEC_PUSH(run->arena, t->rows, r);
    }
    return r;
}

/* A call of a site counts once in a row, however many parts are of it. */
static void
add_part(RtRow *r, const RtTimedSite *s, const RtPart *part, double share)
{
    double seconds = s->seconds * part->share * share;
    if (!r->line.line)
        r->line = part->line;
    r->seconds += seconds;
    r->phases[part->phase] += seconds;
    r->waits += rt_step_phases[part->phase].waits ? seconds : 0.0;
    r->operations += s->calls * part->operations * share;
    r->bytes += s->calls * s->bytes * part->share * share;
    r->calls += r->last == s ? 0.0 : s->calls;
    r->last = s;
}

static const char *
line_name(const RtRun *run, Loc line)
{
    return line.line
               ? arena_printf(run->arena, "%s:%u",
                              diag_source_name(run->plan->diag, line.file),
                              line.line)
               : "(no line)";
}

static const char *
function_name(const RtTimedSite *s, const RtPart *part)
{
    if (part->op->calls)
        return part->op->calls->function;
    return s->fn->kind == FUNC_MAIN ? "main" : "(the compiler's own)";
}

static const char *
layer_name(const RtPart *part)
{
    for (const IrCall *c = part->op->calls; c; c = c->caller)
        if (c->layer)
            return c->layer;
    return "(none)";
}

static const char *
kernel_name(const RtRun *run, const RtTimedSite *s)
{
    return arena_printf(run->arena, "%s@%s", s->label,
                        line_name(run, s->parts[0].line));
}

/* ---- variables ----------------------------------------------------------- */

/* The variable that a value is: what is read, or what will be written. */
static const char *
variable_of(const IrValue *v, const Map *written)
{
    while (v->def && v->def->num_operands == 1 && ir_is_move(v->def) &&
           v->def->kind != OP_read)
        v = v->def->operands[0];
    if (v->def && v->def->kind == OP_read)
        return ir_text(v->def, A_var);
    char key[24];
    snprintf(key, sizeof key, "%d", v->number);
    return map_get(written, key);
}

static void
note_write(IrOp *op, void *data)
{
    char key[24];
    if (op->kind != OP_write)
        return;
    snprintf(key, sizeof key, "%d", op->operands[0]->number);
    map_set(data, key, (void *)ir_text(op, A_var));
}

static double
bytes_of(const RtRun *run, const IrValue *v)
{
    int64_t bytes;
    return ir_type_bytes(run->module, &v->type, &bytes) ? (double)bytes : 0.0;
}

static const IrValue *
array_of(const IrOp *op, int i)
{
    return i < op->num_operands ? op->operands[i]
                                : op->results[i - op->num_operands];
}

static void
add_variables(RtRun *run, RtReport *report, const RtTimedSite *s,
              const Map *written)
{
    const IrOp *op = s->op;
    int num = op->num_operands + op->num_results;
    double sum = 0.0;
    for (int i = 0; i < num; i++)
        if (variable_of(array_of(op, i), written))
            sum += bytes_of(run, array_of(op, i));
    for (int i = 0; i < num; i++) {
        const char *name = variable_of(array_of(op, i), written);
        if (!name || sum <= 0.0)
            continue;
        RtRow *r = row_of(run, report, RT_BY_variable, name);
        for (int k = 0; k < s->num_parts; k++)
            add_part(r, s, &s->parts[k], bytes_of(run, array_of(op, i)) / sum);
    }
}

/* ---- all tables ---------------------------------------------------------- */

static void
add_site(RtRun *run, RtReport *report, const RtTimedSite *s)
{
    const char *kernel = kernel_name(run, s);
    for (int i = 0; i < s->num_parts; i++) {
        const RtPart *p = &s->parts[i];
        const char *names[NUM_RT_BY] = {[RT_BY_phase] =
                                            rt_step_phases[p->phase].name,
                                        [RT_BY_line] = line_name(run, p->line),
                                        [RT_BY_function] = function_name(s, p),
                                        [RT_BY_layer] = layer_name(p),
                                        [RT_BY_kernel] = kernel};
        for (int by = 0; by < NUM_RT_BY; by++)
            if (names[by])
                add_part(row_of(run, report, (RtBy)by, names[by]), s, p, 1.0);
    }
}

static int
compare_rows(const void *a, const void *b)
{
    const RtRow *x = *(RtRow *const *)a, *y = *(RtRow *const *)b;
    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void
sort_rows(RtReport *report)
{
    for (int by = 0; by < NUM_RT_BY; by++) {
        RtTable *t = &report->tables[by];
        if (t->rows.len)
            qsort(t->rows.data, (size_t)t->rows.len, sizeof *t->rows.data,
                  compare_rows);
    }
}

Status
rt_profile_rows(RtRun *run, RtReport *out)
{
    *out = (RtReport){0};
    TRY(plan_load_calls(run->plan));
    out->peaks = rt_measure_peaks(run->devices[0]);
    out->sites = rt_profile_sites(run);
    Map *written = map_new(run->arena);
    for (IrFunc *fn = run->module->first; fn; fn = fn->next)
        ir_walk(fn->body, note_write, written);
    for (int by = 0; by < NUM_RT_BY; by++)
        out->tables[by].by_name = map_new(run->arena);
    for (int i = 0; i < out->sites.len; i++) {
        const RtTimedSite *s = &out->sites.data[i];
        bool counts = s->in_steps || !out->sites.steps;
        if (!counts || !s->calls)
            out->outside += counts ? 0.0 : s->seconds;
        else {
            out->seconds += s->seconds;
            add_site(run, out, s);
            if (s->is_kernel && s->fn->kind == FUNC_PROGRAM)
                add_variables(run, out, s, written);
        }
    }
    sort_rows(out);
    return OK;
}
