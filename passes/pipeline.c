/*
 * pipeline.c - running passes
 *
 * All of them in the order of passes.def, or those of a list.  Each has an
 * arena for itself, whose memory is gone after it; what it makes for the module
 * is in the module's.  A module that goes into a plan is verified in any case.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "passes/passes.h"
#include "runtime/base/limits.h"
#include "runtime/base/str.h"

const Pass pass_table[] = {
#define PASS(name, doc) {#name, pass_##name, doc},
#include "passes/passes.def"
#undef PASS
};
const int num_passes = sizeof pass_table / sizeof *pass_table;

const Pass *
pass_find(const char *name)
{
    for (int i = 0; i < num_passes; i++)
        if (!strcmp(pass_table[i].name, name))
            return &pass_table[i];
    return NULL;
}

static double
milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void
count_op(IrOp *op, void *count)
{
    (void)op;
    ++*(int64_t *)count;
}

/* What a pass makes of each operation is little, and yet there is an end. */
static bool
check_growth(const IrModule *m, Diag *d)
{
    int64_t count = 0;
    for (const IrFunc *fn = m->first; fn; fn = fn->next)
        ir_walk(fn->body, count_op, &count);
    if (count <= limit_value(LIMIT_placed))
        return true;
    const char *note = limit_note(m->arena, LIMIT_placed);
    diag_error(d, NO_LOC, "%s", limit_message(m->arena, LIMIT_placed));
    if (note)
        diag_note(d, NO_LOC, "%s", note);
    return false;
}

static bool
run_one(const Pass *pass, int number, IrModule *m, Diag *d,
        const PassOptions *options)
{
    Arena *scratch = arena_new(NULL, pass->name);
    PassCx cx = {.arena = scratch, .m = m, .diag = d, .options = options};
    double begin = milliseconds();
    bool ok = pass->run(&cx) && check_growth(m, d);
    if (options->time)
        fprintf(stderr, "%8.3f ms  %s\n", milliseconds() - begin, pass->name);
    arena_release(scratch);
    if (ok && options->after)
        options->after(pass->name, number, m, options->after_data);
    if (ok && options->verify_each && !ir_verify(m, d)) {
        diag_note(d, NO_LOC, "the pass before this was %s", pass->name);
        ok = false;
    }
    return ok;
}

static bool
run_listed(IrModule *m, Diag *d, const PassOptions *options, const char *list)
{
    Arena *a = arena_new(NULL, "pass list");
    bool ok = true;
    int number = 1;
    for (const char *p = list; ok && *p;) {
        size_t n = strcspn(p, ",");
        const char *name = arena_strndup(a, p, n);
        const Pass *pass = pass_find(name);
        if (pass) {
            ok = run_one(pass, number++, m, d, options);
        } else {
            diag_error(d, NO_LOC, "there is no pass \"%s\"", name);
            ok = false;
        }
        p += n + (p[n] == ',');
    }
    arena_release(a);
    return ok;
}

/* The pass that the module has not been through: text that was printed between
 * passes goes on from there. */
static int
first_pass(const IrModule *m)
{
    int i = 0;
    if (m->phase == PHASE_IR)
        return 0;
    while (i < num_passes && strcmp(pass_table[i].name, "communicate") != 0)
        i++;
    return i + 1;
}

/* What goes into a plan is right, whoever made it. */
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
passes_run(IrModule *m, Diag *d, const PassOptions *options, const char *list)
{
    if (list)
        return run_listed(m, d, options, list);
    for (int i = first_pass(m); i < num_passes; i++)
        if (!run_one(&pass_table[i], i + 1, m, d, options))
            return false;
    return options->verify_each || verify_last(m, d);
}
