/*
 * plan_code.c - the code in a plan: for which targets, of which kernels
 *
 * A plan has a folder of code for each target.  A target that this program does
 * not know is kept by name, so that a plan with code for later machines, too,
 * still runs here.
 *
 * Kernels are launched by number on devices of every kind, so the folders must
 * have the same kernels.
 */
#include <stdlib.h>
#include <string.h>
#include "ir/base/message.h"
#include "ir/base/str.h"
#include "ir/plan/plan_impl.h"
#include "ir/plan/target.h"

/* ---- entries ------------------------------------------------------------- */

typedef struct CodeEntry {
    const char *target, *name; /* "x86-64-v3", "k_12ab" */
    const PlanEntry *entry;
} CodeEntry;

typedef VEC(CodeEntry) CodeEntries;

static bool
is_kernel(const char *name)
{
    return strncmp(name, KERNEL_PREFIX, strlen(KERNEL_PREFIX)) == 0;
}

/* Whether a target has entries of such a name and extension. */
static bool
is_for(const char *target, const char *name, const char *extension)
{
    const TargetInfo *t = target_find(target);
    if (!t)
        return true;
    const TargetFormat *format = &target_formats[t->device];
    return strcmp(extension, format->extension) == 0 &&
           (format->hosts || is_kernel(name));
}

/* Takes "code/TARGET/NAME.EXTENSION" apart; false for any other name. */
static bool
split_name(Arena *a, const PlanEntry *e, CodeEntry *out)
{
    const char *target = e->name + strlen(DIR_CODE);
    const char *slash = strchr(target, '/');
    const char *dot = strrchr(target, '.');
    if (!slash || slash == target || !dot || dot <= slash + 1 ||
        strchr(slash + 1, '/'))
        return false;
    *out =
        (CodeEntry){arena_strndup(a, target, (size_t)(slash - target)),
                    arena_strndup(a, slash + 1, (size_t)(dot - slash - 1)), e};
    return is_for(out->target, out->name, dot + 1);
}

static Status
read_names(Arena *a, const PlanEntries *all, const Plan *p, CodeEntries *out)
{
    for (int i = 0; i < all->len; i++) {
        const PlanEntry *e = &all->data[i];
        CodeEntry code;
        if (strncmp(e->name, DIR_CODE, strlen(DIR_CODE)) != 0)
            continue;
        if (!split_name(a, e, &code))
            return plan_refuse(p, "it has \"%s\", which is code of no target",
                               e->name);
        VEC_PUSH(a, *out, code);
    }
    return OK;
}

/* ---- order --------------------------------------------------------------- */

/* Unknown targets come last. */
static int
target_order(const char *name)
{
    const TargetInfo *t = target_find(name);
    return t ? (int)(t - target_info) : NUM_TARGETS;
}

/* By target; then the functions, then the kernels, by name. */
static int
compare_entries(const void *x, const void *y)
{
    const CodeEntry *a = x, *b = y;
    int order = target_order(a->target) - target_order(b->target);
    if (!order)
        order = strcmp(a->target, b->target);
    if (!order)
        order = is_kernel(a->name) - is_kernel(b->name);
    return order ? order : strcmp(a->name, b->name);
}

/* The entries from first on that are of one target. */
static int
count_of_target(const CodeEntries *all, int first)
{
    int n = 1;
    while (first + n < all->len &&
           strcmp(all->data[first + n].target, all->data[first].target) == 0)
        n++;
    return n;
}

static PlanCode
code_of_target(Arena *a, const CodeEntry *entries, int n)
{
    PlanObject *objects = NEW_ARRAY(a, PlanObject, (size_t)n);
    PlanCode code = {.name = entries[0].target,
                     .target = target_find(entries[0].target),
                     .objects = objects,
                     .num_objects = n};
    int num_others = 0;
    for (int i = 0; i < n; i++) {
        const PlanEntry *e = entries[i].entry;
        objects[i] = (PlanObject){e->name, e->bytes, e->size};
        code.bytes += e->size;
        num_others += !is_kernel(entries[i].name);
    }
    code.kernels = objects + num_others;
    return code;
}

/* ---- kernels ------------------------------------------------------------- */

static int
num_kernels(const PlanCode *code)
{
    return code->num_objects - (int)(code->kernels - code->objects);
}

/* The kernels of the first target, whose entries stand first. */
static void
name_kernels(Arena *a, const CodeEntry *entries, Plan *p)
{
    const PlanCode *code = &p->codes[0];
    const char **names = NEW_ARRAY(a, const char *, (size_t)num_kernels(code));
    p->num_kernels = num_kernels(code);
    entries += code->num_objects - p->num_kernels;
    for (int i = 0; i < p->num_kernels; i++)
        names[i] = entries[i].name;
    p->kernels = names;
}

static Status
refuse_kernel(const Plan *p, const char *has, const char *kernel,
              const char *lacks)
{
    return plan_refuse(p,
                       "the plan is damaged (its code for %s has \"%s\", and "
                       "that for %s has not)",
                       has, kernel, lacks);
}

/* Whether a target has the kernels of the first one; entries are its own. */
static Status
check_kernels(const Plan *p, const PlanCode *code, const CodeEntry *entries)
{
    const char *first = p->codes[0].name;
    int num = num_kernels(code);
    entries += code->num_objects - num;
    for (int i = 0; i < num || i < p->num_kernels; i++) {
        int order = i == num ? 1
                    : i == p->num_kernels
                        ? -1
                        : strcmp(entries[i].name, p->kernels[i]);
        if (order > 0)
            return refuse_kernel(p, first, p->kernels[i], code->name);
        if (order < 0)
            return refuse_kernel(p, code->name, entries[i].name, first);
    }
    return OK;
}

Status
plan_list_code(Arena *a, const PlanEntries *all, Plan *p)
{
    CodeEntries entries = {0};
    VEC(PlanCode) codes = {0};
    TRY(read_names(a, all, p, &entries));
    if (!entries.len)
        return plan_refuse(p, "the plan is damaged (it has no code)");
    qsort(entries.data, (size_t)entries.len, sizeof(CodeEntry),
          compare_entries);
    for (int i = 0; i < entries.len; i += VEC_LAST(codes).num_objects)
        VEC_PUSH(
            a, codes,
            code_of_target(a, &entries.data[i], count_of_target(&entries, i)));
    p->codes = codes.data;
    p->num_codes = codes.len;
    name_kernels(a, entries.data, p);
    for (int i = 0, at = 0; i < codes.len; at += codes.data[i++].num_objects)
        TRY(check_kernels(p, &codes.data[i], &entries.data[at]));
    return OK;
}

static int
compare_names(const void *name, const void *element)
{
    return strcmp(name, *(const char *const *)element);
}

int
plan_kernel_named(const Plan *p, const char *name)
{
    const char *const *found = bsearch(name, p->kernels, (size_t)p->num_kernels,
                                       sizeof *p->kernels, compare_names);
    return found ? (int)(found - p->kernels) : -1;
}

int
plan_kernel_number(const Plan *p, const IrOp *kernel)
{
    return ir_has(kernel, A_symbol)
               ? plan_kernel_named(p, ir_text(kernel, A_symbol))
               : -1;
}

typedef struct Search {
    const Plan *plan;
    const char *missing; /* or NULL */
} Search;

static void
find_kernel(Search *s, const char *name)
{
    if (plan_kernel_named(s->plan, name) < 0)
        s->missing = name;
}

static void
find_kernels_of(IrOp *op, void *data)
{
    int count = 0;
    const char *const *names = NULL;
    if (op->kind == OP_kernel && ir_has(op, A_symbol))
        find_kernel(data, ir_text(op, A_symbol));
    if (op->kind == OP_all_reduce_start)
        names = ir_names(op, A_kernels, &count);
    for (int i = 0; i < count; i++)
        find_kernel(data, names[i]);
}

Status
plan_check_kernels(const Plan *p)
{
    Search s = {.plan = p};
    for (IrFunc *fn = p->module->first; fn && !s.missing; fn = fn->next)
        ir_walk(fn->body, find_kernels_of, &s);
    return s.missing
               ? plan_refuse(p, "it has no code for kernel %s of its program",
                             s.missing)
               : OK;
}

/* ---- choice -------------------------------------------------------------- */

static bool
is_of_kind(const PlanCode *code, IrDeviceKind device)
{
    return code->target && code->target->device == device;
}

/* "x86-64-v4, sm_80": the targets of a kind, or of all. */
static const char *
list_targets(Arena *a, const Plan *p, IrDeviceKind device)
{
    Str s = str_new(a);
    for (int i = 0; i < p->num_codes; i++)
        if (device == NUM_DEVICE_KINDS || is_of_kind(&p->codes[i], device))
            str_addf(&s, "%s%s", s.len ? ", " : "", p->codes[i].name);
    return str_text(&s);
}

/* What --target has to be: a target that such devices run, and the plan's own
 * of other kinds. */
static const char *
targets_that_fit(Arena *a, const Plan *p, const TargetInfo *fitting)
{
    Str s = str_new(a);
    bool hosts = target_formats[fitting->device].hosts;
    if (hosts)
        str_add(&s, fitting->name);
    for (int i = 0; i < p->num_codes; i++)
        if (p->codes[i].target && !is_of_kind(&p->codes[i], fitting->device))
            str_addf(&s, "%s%s", s.len ? "," : "", p->codes[i].name);
    if (!hosts)
        str_addf(&s, "%s%s", s.len ? "," : "", fitting->name);
    return str_text(&s);
}

/* There is code for devices of this kind, but not for these. */
static Status
refuse_level(Arena *a, const Plan *p, IrDeviceKind device, int level)
{
    const TargetInfo *fitting = target_of_level(device, level);
    const char *machine = target_formats[device].machine;
    const char *have = list_targets(a, p, device);
    if (!fitting)
        return plan_refuse(p,
                           "its code is for %s, and this %s has not even the "
                           "instructions of %s",
                           have, machine, target_least(device)->name);
    return plan_refuse(p,
                       "its code is for %s, which this %s is not; "
                       "tfdc --target %s makes a plan that fits",
                       have, machine, targets_that_fit(a, p, fitting));
}

/* The repair has the target that tfdc takes for such devices: a host's own, and
 * of others the least. */
static Status
refuse_kind(Arena *a, const Plan *p, IrDeviceKind device, int level)
{
    const TargetInfo *best = target_of_level(device, level);
    bool own = target_formats[device].hosts && best;
    return plan_refuse(
        p,
        "its code is for %s, and none of it for %ss; tfdc --target %s makes a "
        "plan that fits",
        list_targets(a, p, NUM_DEVICE_KINDS), target_formats[device].machine,
        targets_that_fit(a, p, own ? best : target_least(device)));
}

static Status
refuse_code(const Plan *p, IrDeviceKind device, int level)
{
    bool has_kind = false;
    Arena *scratch = arena_new(NULL, "refusing a plan");
    for (int i = 0; i < p->num_codes; i++)
        has_kind |= is_of_kind(&p->codes[i], device);
    Status st = has_kind ? refuse_level(scratch, p, device, level)
                         : refuse_kind(scratch, p, device, level);
    arena_release(scratch);
    return st;
}

/* The code of the highest level up to that one, or NULL. */
static const PlanCode *
best_code(const Plan *p, IrDeviceKind device, int level)
{
    const PlanCode *best = NULL;
    for (int i = 0; i < p->num_codes; i++) {
        const PlanCode *code = &p->codes[i];
        if (is_of_kind(code, device) && code->target->level <= level &&
            (!best || code->target->level > best->target->level))
            best = code;
    }
    return best;
}

Status
plan_choose_code(const Plan *p, IrDeviceKind device, int level,
                 const PlanCode **out)
{
    const TargetFormat *format = &target_formats[device];
    *out = NULL;
    if (!format->extension || (!format->hosts && !p->num_kernels))
        return OK;
    *out = best_code(p, device, level);
    return *out ? OK : refuse_code(p, device, level);
}

Status
plan_choose_code_here(const Plan *p, const PlanCode **out)
{
    const TargetInfo *fastest = target_best_here();
    *out = fastest ? best_code(p, DEVICE_cpu, fastest->level) : NULL;
    if (*out)
        return OK;
    return plan_choose_code(p, DEVICE_cpu, target_level_here(), out);
}
