/*
 * tables.c - a plan's kernels and device programs by number
 */
#include "runtime/load/tables.h"

#include <assert.h>
#include <string.h>
#include "ir/base/str.h"

/* ---- code of the host ---------------------------------------------------- */

static Status
find_kernels(Arena *a, const Plan *p, const RtCode *code, RtCodeTables *out)
{
    TfdKernel **kernels = NEW_ARRAY(a, TfdKernel *, (size_t)p->num_kernels);
    for (int i = 0; i < p->num_kernels; i++) {
        kernels[i] = rt_code_kernel(code, p->kernels[i]);
        if (!kernels[i])
            return plan_refuse(p, "it has no code for kernel %s",
                               p->kernels[i]);
    }
    out->kernels = kernels;
    return OK;
}

/* Programs that enqueue are compiled where a target has kernels alone. */
static Status
refuse_program(const Plan *p, const char *name, bool enqueues)
{
    const TargetInfo *t = target_info;
    while (target_formats[t->device].hosts)
        t++;
    if (!enqueues)
        return plan_refuse(p, "it has no code for program @%s", name);
    return plan_refuse(p,
                       "its program @%s does not enqueue kernels, as devices "
                       "with code of their own need it; tfdc --target "
                       "native,%s makes a plan that fits",
                       name, target_least(t->device)->name);
}

static Status
find_programs(Arena *a, const Plan *p, const RtCode *code, bool enqueues,
              RtCodeTables *out)
{
    TfdFunction **programs =
        NEW_ARRAY(a, TfdFunction *, (size_t)p->num_programs);
    for (int i = 0; i < p->num_programs; i++) {
        const char *name = p->programs[i]->name;
        programs[i] = rt_code_function(
            code, arena_printf(a, "%c_%s", enqueues ? 'q' : 'p', name));
        if (!programs[i])
            return refuse_program(p, name, enqueues);
    }
    out->programs = programs;
    return OK;
}

Status
rt_code_tables(Arena *a, const Plan *p, const RtCode *code, bool enqueues,
               RtCodeTables *out)
{
    TRY(find_kernels(a, p, code, out));
    return find_programs(a, p, code, enqueues, out);
}

/* ---- PTX ----------------------------------------------------------------- */

/* Whether the text has this line, up to what may follow the name in it. */
static bool
has_line(const char *text, const char *begin, const char *name,
         const char *after)
{
    size_t n = strlen(begin), len = strlen(name);
    for (const char *at = text; (at = strstr(at, begin)); at += n)
        if ((at == text || at[-1] == '\n') && strncmp(at + n, name, len) == 0 &&
            at[n + len] && strchr(after, at[n + len]))
            return true;
    return false;
}

static Status
check_text(const Plan *p, const PlanObject *o, const char *target,
           const char *kernel)
{
    const char *text = o->bytes;
    if (memchr(text, '\0', o->size))
        return plan_refuse(p, "\"%s\" is no text", o->name);
    if (!has_line(text, ".target ", target, "\n,"))
        return plan_refuse(p, "\"%s\" is no PTX for %s", o->name, target);
    if (!has_line(text, ".visible .entry ", kernel, "("))
        return plan_refuse(p, "\"%s\" does not define %s", o->name, kernel);
    return OK;
}

Status
rt_kernel_texts(const Plan *p, const PlanCode *code, const PlanObject **out)
{
    assert(code->target && !target_formats[code->target->device].hosts);
    for (int i = 0; i < p->num_kernels; i++)
        TRY(check_text(p, &code->kernels[i], code->name, p->kernels[i]));
    *out = code->kernels;
    return OK;
}
