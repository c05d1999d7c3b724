/*
 * pipeline.c - running passes
 *
 * All of them in the order of passes.def, or those of a list.  Each has an
 * arena for itself, which is released after it; new parts of the module are in
 * the module's arena.  A module that goes into a plan is verified in any case.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "ir/base/clock.h"
#include "ir/base/io/limit.h"
#include "ir/base/str.h"
#include "ir/verify/verify.h"
#include "passes/passes.h"

const Pass pass_table[] = {
#define PASS(name, first, last, doc)                                           \
    {#name, pass_##name, STAGE_##first, STAGE_##last, doc},
#include "passes/support/passes.def"
#undef PASS
};
const int num_passes = sizeof pass_table / sizeof *pass_table;

/* A pass makes few operations of each one, but the total has a limit. */
static bool
check_growth(const IrModule *m, Diag *d)
{
    int64_t count = 0;
    for (const IrFunc *fn = m->first; fn; fn = fn->next)
        count += pass_num_ops_of(fn->body);
    if (count <= limit_value(LIMIT_placed))
        return true;
    const char *note = limit_note(m->arena, LIMIT_placed);
    diag_error(d, NO_LOC, "%s", limit_message(m->arena, LIMIT_placed));
    if (note)
        diag_note(d, NO_LOC, "%s", note);
    return false;
}

/* ---- stages at which a pass can run -------------------------------------- */

static const char *const stage_text[] = {
    [STAGE_step] = "as the front end makes it",
    [STAGE_programs] = "between replicate and communicate",
    [STAGE_replicated] = "between communicate and allocate",
    [STAGE_placed] = "placed",
};

bool
pass_fits(const Pass *pass, const IrModule *m)
{
    PassStage stage = pass_stage(m);
    return stage >= pass->first && stage <= pass->last;
}

static bool
check_stage(const Pass *pass, const IrModule *m, Diag *d)
{
    PassStage stage = pass_stage(m);
    if (pass_fits(pass, m))
        return true;
    diag_error(d, NO_LOC, "%s cannot be run on this program, which is %s",
               pass->name, stage_text[stage]);
    diag_note(d, NO_LOC, "it is for a program that is %s",
              stage_text[stage < pass->first ? pass->first : pass->last]);
    return false;
}

/* ---- running ------------------------------------------------------------- */

static bool
run_timed(const Pass *pass, IrModule *m, Diag *d, const PassOptions *options)
{
    Arena *scratch = arena_new(NULL, pass->name);
    PassCx cx = {.arena = scratch, .m = m, .diag = d, .options = options};
    double begin = clock_seconds();
    bool ok = pass->run(&cx) && check_growth(m, d);
    if (options->time)
        fprintf(stderr, "%8.3f ms  %s\n", 1e3 * (clock_seconds() - begin),
                pass->name);
    arena_release(scratch);
    return ok;
}

static bool
verify_after(const Pass *pass, const IrModule *m, Diag *d)
{
    if (ir_verify(m, d))
        return true;
    diag_note(d, NO_LOC, "the pass before this was %s", pass->name);
    return false;
}

/* after: the last pass that the module then records. */
static bool
run_one(const Pass *pass, const char *after, IrModule *m, Diag *d,
        const PassOptions *options)
{
    if (!check_stage(pass, m, d) || !run_timed(pass, m, d, options))
        return false;
    m->after = after;
    if (options->after)
        options->after(pass->name, (int)(pass - pass_table) + 1, m,
                       options->after_data);
    return !options->verify_each || verify_after(pass, m, d);
}

static const Pass *
pass_named(const char *name, size_t len)
{
    for (int i = 0; i < num_passes; i++)
        if (strlen(pass_table[i].name) == len &&
            !memcmp(pass_table[i].name, name, len))
            return &pass_table[i];
    return NULL;
}

const Pass *
pass_find(const char *name)
{
    return pass_named(name, strlen(name));
}

/* The next name of a list; moves *list past it. */
static const char *
next_name(const char **list, size_t *len)
{
    const char *name = *list;
    *len = strcspn(name, ",");
    *list += *len + (name[*len] == ',');
    return name;
}

const char *
pass_first_unknown(const char *list, Arena *a)
{
    while (*list) {
        size_t len;
        const char *name = next_name(&list, &len);
        if (!pass_named(name, len))
            return arena_strndup(a, name, len);
    }
    return NULL;
}

const char *
pass_names(Arena *a)
{
    Str names = str_new(a);
    for (int i = 0; i < num_passes; i++)
        str_addf(&names, "%s%s", i ? ", " : "", pass_table[i].name);
    return str_text(&names);
}

static bool
run_listed(IrModule *m, Diag *d, const PassOptions *options, const char *list)
{
    PassOptions each = *options;
    each.verify_each = true;
    while (*list) {
        size_t len;
        const char *name = next_name(&list, &len);
        if (!run_one(pass_named(name, len), NULL, m, d, &each))
            return false;
    }
    return true;
}

/* The first pass that the module has not been through: text that was printed
 * between passes continues there. -1: it records an unknown pass. */
static int
first_pass(const IrModule *m)
{
    const char *after = m->after;
    if (!after && m->phase == PHASE_IR)
        return 0;
    const Pass *last = pass_find(after ? after : "communicate");
    return last ? (int)(last - pass_table) + 1 : -1;
}

/* A module that goes into a plan is verified, whatever made it. */
static bool
verify_last(IrModule *m, Diag *d)
{
    if (ir_verify(m, d))
        return true;
    diag_note(d, NO_LOC,
              "a mistake of the compiler, not of the program: --verify-each "
              "says which pass made it");
    return false;
}

bool
pass_run_pipeline(IrModule *m, Diag *d, const PassOptions *options,
                  const char *list)
{
    if (list)
        return run_listed(m, d, options, list);
    int first = first_pass(m);
    if (first < 0)
        diag_error(d, m->text, "there is no pass \"%s\" that this can be after",
                   m->after);
    for (int i = first; i >= 0 && i < num_passes; i++)
        if (!run_one(&pass_table[i], pass_table[i].name, m, d, options))
            return false;
    return first >= 0 && (options->verify_each || verify_last(m, d));
}
