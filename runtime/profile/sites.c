/*
 * sites.c - what the positions that were timed are, and their times
 */
#include "runtime/profile/sites.h"

#include <string.h>
#include "ir/analysis/cost.h"
#include "ir/analysis/kernel_label.h"
#include "ir/table.h"

const RtStepPhaseInfo rt_step_phases[NUM_RT_PHASES] = {
#define PHASE(name, waits, doc) [RT_PHASE_##name] = {#name, waits},
#include "runtime/profile/phases.def"
#undef PHASE
};

typedef struct Analysis {
    RtRun *run;
    Arena *arena;
    IR_TABLE(bool) derived; /* values that gradients enter */
} Analysis;

/* ---- phases ------------------------------------------------------------- */

static bool
is_derived(const Analysis *x, const IrValue *v)
{
    const bool *found = IR_TABLE_FIND(x->derived, v->number);
    return found && *found;
}

static bool
has_derived(const Analysis *x, int n, IrValue *const *values)
{
    for (int i = 0; i < n; i++)
        if (is_derived(x, values[i]))
            return true;
    return false;
}

static void
set_derived(Analysis *x, const IrValue *v, bool is)
{
    *IR_TABLE_SLOT(x->arena, x->derived, v->number) = is;
}

static void derive_block(Analysis *x, const IrBlock *b);

/* Each argument of a region is one of the last operands, each result what the
 * last region yields there. */
static void
derive_regions(Analysis *x, const IrOp *op)
{
    for (int r = 0; r < op->num_regions; r++) {
        const IrBlock *b = op->regions[r];
        int first = op->num_operands - b->args.len;
        for (int i = 0; i < b->args.len; i++)
            if (first + i >= 0)
                set_derived(x, b->args.data[i],
                            is_derived(x, op->operands[first + i]));
        derive_block(x, b);
    }
    const IrOp *yield = op->num_regions
                            ? ir_block_yield(op->regions[op->num_regions - 1])
                            : NULL;
    for (int i = 0; yield && i < op->num_results && i < yield->num_operands;
         i++)
        set_derived(x, op->results[i], is_derived(x, yield->operands[i]));
}

static void
derive_block(Analysis *x, const IrBlock *b)
{
    for (const IrOp *op = b->first; op; op = op->next) {
        bool is = ir_op_is_gradient(op) ||
                  has_derived(x, op->num_operands, op->operands);
        for (int i = 0; i < op->num_results; i++)
            set_derived(x, op->results[i], is);
        if (op->num_regions)
            derive_regions(x, op);
    }
}

static bool
is_data(IrOpKind kind)
{
    return kind == OP_iter_open || kind == OP_iter_has_next ||
           kind == OP_iter_next;
}

/* It fills or empties a pack, or scales what was summed. */
static bool
is_for_collective(const IrOp *op)
{
    return op->reason && (strncmp(op->reason->rule, "bucket.", 7) == 0 ||
                          strncmp(op->reason->rule, "communicate.", 12) == 0);
}

/* In a kernel, or an operation of its own. */
static RtStepPhase
phase_of(const Analysis *x, const IrOp *op)
{
    if (op->kind == OP_launch)
        return RT_PHASE_waiting;
    if (ir_op_info[op->kind].effect == COLLECTIVE || is_for_collective(op))
        return RT_PHASE_communication;
    if (is_data(op->kind))
        return RT_PHASE_data;
    if (op->block->func->kind == FUNC_MAIN)
        return RT_PHASE_main;
    if (ir_op_is_gradient(op))
        return RT_PHASE_backward;
    return has_derived(x, op->num_operands, op->operands) ? RT_PHASE_optimizer
                                                          : RT_PHASE_forward;
}

/* ---- sites -------------------------------------------------------------- */

static RtPart
part_of(const Analysis *x, const IrOp *op)
{
    return (RtPart){.op = op,
                    .line = ir_own_loc(x->run->plan->diag, op->loc, op->calls),
                    .phase = phase_of(x, op),
                    .share = 1.0};
}

static bool
takes_time(const IrOp *op)
{
    return op->kind != OP_yield && op->kind != OP_constant;
}

/* What only moves values has a small share, and all of it in a kernel of
 * nothing else. */
static double
weight_of(const IrModule *m, const IrOp *op)
{
    return 1.0 + ir_op_operations(m, op);
}

static void
list_parts(const Analysis *x, RtTimedSite *s)
{
    const IrBlock *b = s->op->regions[0];
    const IrModule *m = x->run->module;
    double sum = 0.0;
    int num = 0;
    for (const IrOp *op = b->first; op; op = op->next)
        num += takes_time(op);
    s->parts = NEW_ARRAY(x->arena, RtPart, (size_t)num + 1);
    for (const IrOp *op = b->first; op; op = op->next)
        if (takes_time(op)) {
            RtPart *part = &s->parts[s->num_parts++];
            *part = part_of(x, op);
            part->operations = ir_op_operations(m, op);
            part->share = weight_of(m, op);
            sum += part->share;
        }
    if (!num)
        s->parts[s->num_parts++] = part_of(x, s->op);
    for (int i = 0; i < num; i++)
        s->parts[i].share /= sum;
}

/* Steps are the rounds that end in safepoints. */
static bool
is_in_step(const IrOp *op)
{
    for (; op; op = op->block->op)
        if (ir_has_safepoints(op))
            return true;
    return false;
}

static void
init_site(Analysis *x, const RtFunction *fn, const IrOp *op, RtTimedSite *s)
{
    *s = (RtTimedSite){
        .fn = fn->ir, .op = op, .is_kernel = op->kind == OP_kernel};
    s->label = s->is_kernel ? ir_kernel_label(x->arena, op)
                            : ir_op_info[op->kind].name;
    s->in_steps = fn->ir->kind == FUNC_MAIN && is_in_step(op);
    if (!s->is_kernel) {
        s->parts = NEW(x->arena, RtPart);
        *s->parts = part_of(x, op);
        s->num_parts = 1;
        return;
    }
    IrKernelWork w = ir_kernel_work(x->run->module, op);
    s->operations = w.operations;
    s->bytes = w.bytes;
    list_parts(x, s);
}

/* ---- times -------------------------------------------------------------- */

static RtTimes
counted(const RtRecorder *r, int slot, bool without_first)
{
    RtTimes t = r->slots[slot];
    if (without_first) {
        t.ticks -= r->first[slot].ticks;
        t.calls -= r->first[slot].calls;
    }
    return t;
}

/* Of main, or the mean of the devices. */
static void
set_times(const RtRun *run, const RtTimedSites *all, RtTimedSite *s, int slot)
{
    const RtProfile *p = run->profile;
    bool is_main = s->fn->kind == FUNC_MAIN;
    int num = is_main ? 1 : run->num_devices;
    bool later = s->in_steps && p->steps > 1;
    double steps = s->in_steps && all->steps ? (double)all->steps : 1.0;
    for (int i = 0; i < num; i++) {
        RtTimes t = counted(is_main ? &p->main : &p->devices[i], slot, later);
        double tick = is_main ? p->seconds_a_tick : p->device_tick;
        s->seconds += (double)t.ticks * tick / (num * steps);
        s->calls += (double)t.calls / (num * steps);
    }
}

static const RtFunction *
program_of(const RtRun *run, const IrOp *launch, IrAttrName which)
{
    const char *name = ir_text(launch, which);
    return name ? map_get(run->fns, name) : NULL;
}

static bool
launches(const RtRun *run, const IrOp *launch, const RtFunction *fn)
{
    return program_of(run, launch, A_program) == fn ||
           program_of(run, launch, A_full) == fn;
}

static void
set_in_steps(RtTimedSites *all, const RtFunction *fn)
{
    for (int i = 0; fn && i < fn->positions.len; i++)
        all->data[fn->first_slot + i].in_steps = true;
}

/* A program that a step launches belongs to it. */
static void
find_programs(const RtRun *run, RtTimedSites *all)
{
    for (int i = 0; i < all->len; i++) {
        const RtTimedSite *s = &all->data[i];
        if (s->op && s->op->kind == OP_launch && s->in_steps) {
            set_in_steps(all, program_of(run, s->op, A_program));
            set_in_steps(all, program_of(run, s->op, A_full));
        }
    }
}

/* Main's calls of launches of a program. */
static double
calls_of_program(const RtRun *run, const RtTimedSites *all,
                 const RtFunction *fn, bool in_steps)
{
    double calls = 0.0;
    for (int i = 0; i < all->len; i++) {
        const RtTimedSite *s = &all->data[i];
        if (s->op && s->op->kind == OP_launch && s->in_steps == in_steps &&
            launches(run, s->op, fn))
            calls += s->calls;
    }
    return calls;
}

static void
subtract_program(const RtRun *run, RtTimedSites *all, RtTimedSite *launch,
                 const RtFunction *fn)
{
    double seconds = 0.0;
    if (!fn || !launch->calls)
        return;
    for (int i = 0; i < fn->positions.len; i++)
        if (all->data[fn->first_slot + i].in_steps == launch->in_steps)
            seconds += all->data[fn->first_slot + i].seconds;
    launch->seconds -= seconds * launch->calls /
                       calls_of_program(run, all, fn, launch->in_steps);
}

/* What main waited longer than the programs ran.  (The clocks of two threads
 * are read one after the other.) */
static void
subtract_programs(const RtRun *run, RtTimedSites *all)
{
    for (int i = 0; i < all->len; i++) {
        RtTimedSite *s = &all->data[i];
        if (!s->op || s->op->kind != OP_launch)
            continue;
        subtract_program(run, all, s, program_of(run, s->op, A_program));
        subtract_program(run, all, s, program_of(run, s->op, A_full));
        s->seconds = s->seconds > 0.0 ? s->seconds : 0.0;
    }
}

static void
set_steps(const RtRun *run, RtTimedSites *all)
{
    const RtProfile *p = run->profile;
    uint64_t begin = p->steps > 1 ? p->first_end : p->begin;
    all->steps = p->steps > 1 ? p->steps - 1 : p->steps;
    if (all->steps)
        all->step_seconds = (double)(p->last_end - begin) * p->seconds_a_tick /
                            (double)all->steps;
}

RtTimedSites
rt_profile_sites(RtRun *run)
{
    Analysis x = {.run = run, .arena = run->arena};
    RtTimedSites all = {.len = run->profile->num_slots};
    all.data = NEW_ARRAY(x.arena, RtTimedSite, (size_t)all.len);
    for (IrFunc *fn = run->module->first; fn; fn = fn->next)
        derive_block(&x, fn->body);
    for (int i = 0; i < map_count(run->fns); i++) {
        const RtFunction *fn = map_value(run->fns, i);
        for (int k = 0; k < fn->positions.len; k++)
            init_site(&x, fn, fn->positions.data[k],
                      &all.data[fn->first_slot + k]);
    }
    find_programs(run, &all);
    set_steps(run, &all);
    for (int i = 0; i < all.len; i++)
        if (all.data[i].fn->kind == FUNC_MAIN ||
            all.data[i].fn->kind == FUNC_PROGRAM)
            set_times(run, &all, &all.data[i], i);
    subtract_programs(run, &all);
    return all;
}
