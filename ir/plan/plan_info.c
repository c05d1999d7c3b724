/*
 * plan_info.c - what is in a plan, in words
 */
#include "ir/plan/abi.h"
#include "ir/plan/plan.h"

static void
print_target(Str *out, const PlanCode *code)
{
    const TargetInfo *t = code->target;
    Arena *a = arena_new(NULL, "a target in words");
    const char *bytes =
        code->num_objects ? arena_printf(a, "%zu", code->bytes) : "";
    str_addf(out, "  %-20s %15s", code->name, bytes);
    if (!t)
        str_add(out, "  for a machine that this version does not know\n");
    else
        str_addf(out, "  %s for %s devices: %s\n",
                 target_formats[t->device].doc, ir_device_kinds[t->device].name,
                 t->doc);
    arena_release(a);
}

void
plan_print_code(Str *out, const PlanCode *codes, int num)
{
    str_addf(out, "code%s\n", num && codes[0].num_objects ? ", in bytes" : "");
    for (int i = 0; i < num; i++)
        print_target(out, &codes[i]);
}

void
plan_print_info(Str *out, const Plan *p)
{
    const IrModule *m = p->module;
    const char *here = target_here();
    str_addf(out, "%s: a plan of format %d and ABI %d, by %s\n\n", p->path,
             PLAN_FORMAT, TFD_ABI, p->compiler);
    str_addf(out, "  %-20s %15d  on %s\n", "replicas", m->num_replicas,
             m->devices);
    if (ir_strategy_info[m->strategy].workers)
        str_addf(out, "  %-20s %15d  with these devices each\n", "workers",
                 m->num_workers);
    str_addf(out, "  %-20s %15d\n", "device programs", p->num_programs);
    str_addf(out, "  %-20s %15d\n\n", "kernels", p->num_kernels);
    plan_print_code(out, p->codes, p->num_codes);
    str_addf(out, "  %-20s %15s  %s\n", "this machine's CPU", "",
             here ? here : "is none of the targets");
}
