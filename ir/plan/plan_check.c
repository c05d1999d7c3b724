/*
 * plan_check.c - checks the entries of a plan before it is run
 *
 * From the outside in: the manifest (a known format, and complete), then the
 * module (it can be read and verified).  plan_code.c has what is between.
 */
#include "ir/plan/plan_impl.h"

#include <jansson.h>
#include <string.h>
#include "ir/base/hash/hash.h"
#include "ir/base/str.h"
#include "ir/plan/abi.h"
#include "ir/text/calls.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"

/* ---- the manifest ------------------------------------------------------ */

/* One of the two numbers that determine which programs can read a plan. */
static Status
check_number(const Plan *p, const json_t *manifest, const char *key, int known)
{
    const json_t *value = json_object_get(manifest, key);
    if (!json_is_integer(value))
        return plan_refuse(p, "its manifest has no number \"%s\"", key);
    long long number = json_integer_value(value);
    if (number > known)
        return plan_refuse(p,
                           "it needs a newer tfd-run (%s %lld; this one knows "
                           "%d)",
                           key, number, known);
    if (number < known)
        return plan_refuse(p,
                           "an older tfdc made it (%s %lld, now %d); compile "
                           "the program again",
                           key, number, known);
    return OK;
}

static Status
check_entry(Arena *a, const Plan *p, const PlanEntry *e, const json_t *files)
{
    const char *listed = json_string_value(json_object_get(files, e->name));
    if (!listed)
        return plan_refuse(p, "its manifest does not list \"%s\"", e->name);
    if (hash_is_checked() &&
        strcmp(listed, hash_text(a, e->bytes, e->size)) != 0)
        return plan_refuse(p, "the plan is damaged (checksum of \"%s\")",
                           e->name);
    return OK;
}

static Status
check_files(Arena *a, const Plan *p, const PlanEntries *all,
            const json_t *files)
{
    size_t found = 0;
    for (int i = 0; i < all->len; i++) {
        if (strcmp(all->data[i].name, ENTRY_MANIFEST) == 0)
            continue;
        TRY(check_entry(a, p, &all->data[i], files));
        found++;
    }
    if (found != json_object_size(files))
        return plan_refuse(p, "the plan is damaged (%zu of %zu files)", found,
                           json_object_size(files));
    return OK;
}

static Status
check_keys(Arena *a, const PlanEntries *all, const json_t *manifest, Plan *p)
{
    TRY(check_number(p, manifest, KEY_FORMAT, PLAN_FORMAT));
    TRY(check_number(p, manifest, KEY_ABI, TFD_ABI));
    const char *compiler =
        json_string_value(json_object_get(manifest, KEY_COMPILER));
    p->compiler = arena_strdup(a, compiler ? compiler : "unknown");
    return check_files(a, p, all, json_object_get(manifest, KEY_FILES));
}

Status
plan_check_manifest(Arena *a, const PlanEntries *all, Plan *p)
{
    json_error_t error;
    const PlanEntry *e = plan_entry(all, ENTRY_MANIFEST);
    if (!e)
        return plan_refuse(p, "it is a zip without the manifest of a plan");
    json_t *manifest =
        json_loadb(e->bytes, e->size, JSON_REJECT_DUPLICATES, &error);
    if (!manifest)
        return plan_refuse(p, "its manifest cannot be read: line %d: %s",
                           error.line, error.text);
    Status st = check_keys(a, all, manifest, p);
    json_decref(manifest);
    return st;
}

/* ---- the module -------------------------------------------------------- */

/* The first message of d as the reason. */
static Status
refuse_module(Arena *a, const Plan *p)
{
    const char *text = diag_text(p->diag, a);
    return plan_refuse(p, "its program is damaged: %.*s",
                       (int)strcspn(text, "\n"), text);
}

/* Sources are numbered as in the module. */
static Status
add_texts(Arena *a, const PlanEntries *all, const Plan *p)
{
    const IrModule *m = p->module;
    int num = 0;
    const char *dir = DIR_SOURCE "0/";
    for (int i = 0; i < all->len; i++) {
        const PlanEntry *e = &all->data[i];
        if (strncmp(e->name, dir, strlen(dir)) != 0)
            continue;
        if (num == m->sources.len)
            return plan_refuse(p,
                               "it has texts of more sources than the %d "
                               "that its program names",
                               num);
        diag_set_text(p->diag, m->sources.data[num], e->bytes, e->size);
        dir = arena_printf(a, DIR_SOURCE "%d/", ++num);
    }
    return OK;
}

void
plan_set_module(Arena *a, Plan *p, IrModule *m)
{
    VEC(IrFunc *) programs = {0};
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM)
            VEC_PUSH(a, programs, fn);
    p->module = m;
    p->programs = programs.data;
    p->num_programs = programs.len;
}

int
plan_program_number(const Plan *p, const IrFunc *fn)
{
    for (int i = 0; i < p->num_programs; i++)
        if (p->programs[i] == fn)
            return i;
    return -1;
}

Status
plan_load_module(Arena *a, const PlanEntries *all, Plan *p)
{
    const PlanEntry *ir = plan_entry(all, ENTRY_IR);
    if (!ir)
        return plan_refuse(p, "it has no %s", ENTRY_IR);
    p->diag = diag_new(a);
    if (hash_is_checked())
        p->ir_hash = hash_text(a, ir->bytes, ir->size);
    uint16_t file = diag_add_source(p->diag, ENTRY_IR, ir->bytes, ir->size);
    IrModule *m =
        ir_parse(a, intern_new(a), p->diag, file, ir->bytes, ir->size);
    if (!m)
        return refuse_module(a, p);
    plan_set_module(a, p, m);
    const PlanEntry *calls = plan_entry(all, ENTRY_CALLS);
    if (calls) {
        p->calls = calls->bytes;
        p->calls_len = calls->size;
    }
    if (p->module->phase != PHASE_PLACED)
        return plan_refuse(p, "its program is not placed");
    TRY(add_texts(a, all, p));
    if (!ir_verify(p->module, p->diag))
        return refuse_module(a, p);
    return plan_check_kernels(p);
}

Status
plan_load_calls(const Plan *p)
{
    if (p->calls && !ir_parse_calls(p->module, p->calls, p->calls_len))
        return plan_refuse(p, "the plan is damaged (%s is not of its program)",
                           ENTRY_CALLS);
    return OK;
}
