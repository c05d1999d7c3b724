/*
 * check_nan_words.c - what --check-nan says
 *
 * The operation is the one that makes the result: of a kernel of several, the
 * last one, with notes for the other lines that it computes.  Where a value
 * came from is followed through what only moves it; where it goes, through
 * everything, to the variables that are written with it.
 */
#include <inttypes.h>
#include <string.h>
#include "ir/analysis/hooks.h"
#include "ir/analysis/kernel_label.h"
#include "ir/base/message.h"
#include "ir/table.h"
#include "runtime/exec/run_state.h"
#include "runtime/check/check_nan_impl.h"
#include "runtime/check/difference.h"
#include "runtime/check/kernel_lines.h"

enum { MOST_NAMED = 4 }; /* variables in a message */

/* ---- where it came from -------------------------------------------------- */

typedef enum Origin {
    FROM_CONSTANT,
    FROM_UNKNOWN,
    FROM_VARIABLE,
    FROM_BATCH,
    FROM_MAIN
} Origin;

typedef struct Source {
    Origin origin;
    const char *name; /* of a variable */
    Loc loc;          /* of a batch or constant */
} Source;

typedef struct LaunchSearch {
    const IrFunc *program;
    const IrOp *launch;
} LaunchSearch;

static bool
is_name_of(const char *name, const IrFunc *program)
{
    return name && strcmp(name, program->name) == 0;
}

static void
find_launch(IrOp *op, void *data)
{
    LaunchSearch *s = data;
    if (op->kind == OP_launch && !s->launch &&
        (is_name_of(ir_text(op, A_program), s->program) ||
         is_name_of(ir_text(op, A_full), s->program) ||
         is_name_of(ir_text(op, A_worker), s->program)))
        s->launch = op;
}

static const IrValue *
before_moves(const IrValue *v)
{
    while (v->def && v->def->num_operands == 1 && v->def->kind != OP_read &&
           ir_is_move(v->def))
        v = v->def->operands[0];
    return v;
}

static const RtCheckedSite *
site_of(const RtFunction *fn, const IrOp *op)
{
    for (int i = 0; op && i < fn->positions.len; i++)
        if (fn->checked[i].op == op)
            return &fn->checked[i];
    return NULL;
}

/* A kernel in which the program writes an infinity. */
static bool
has_written(const RtFunction *fn, const IrValue *v)
{
    const RtCheckedSite *site = site_of(fn, v->def);
    return site && site->descent && site->descent[v->index].written;
}

static Source
source_of(const RtRun *run, const RtFunction *function, const IrValue *v)
{
    const IrFunc *fn = function->ir;
    v = before_moves(v);
    if (has_written(function, v))
        return (Source){FROM_CONSTANT, NULL,
                        rt_maker_of(v->def, v->index)->loc};
    if (v->def && v->def->kind == OP_read)
        return (Source){FROM_VARIABLE, ir_text(v->def, A_var), NO_LOC};
    if (v->def && v->def->kind == OP_fetch_var)
        return (Source){FROM_VARIABLE, ir_text(v->def, A_var), NO_LOC};
    if (v->def || v->block != fn->body)
        return (Source){FROM_UNKNOWN, NULL, NO_LOC};
    LaunchSearch s = {.program = fn};
    ir_walk(ir_main(run->module)->body, find_launch, &s);
    if (!s.launch)
        return (Source){FROM_UNKNOWN, NULL, NO_LOC};
    const IrOp *def = before_moves(s.launch->operands[v->index])->def;
    if (def && def->kind == OP_iter_next)
        return (Source){FROM_BATCH, NULL, def->loc};
    return (Source){FROM_MAIN, NULL, NO_LOC};
}

/* The first operand that the result descends from and that has the kind. */
static int
guilty_operand(const RtNanFinding *f, unsigned kind)
{
    uint64_t operands = f->in_each ? f->site->descent[f->result].operands : 0;
    for (int i = 0; f->in_each && i < f->site->op->num_operands; i++)
        if (operands >> (i < 63 ? i : 63) & 1 && f->in_each[i] & kind)
            return i;
    return -1;
}

static void
add_source(Str *s, const Source *from, const char *what)
{
    switch (from->origin) {
    case FROM_VARIABLE:
        str_addf(s, "the variable \"%s\" had %s before the step", from->name,
                 what);
        break;
    case FROM_CONSTANT:
        str_addf(s, "%s is a constant of the program", what);
        break;
    case FROM_BATCH:
        str_addf(s, "%s came in with the batch", what);
        break;
    case FROM_MAIN:
        str_addf(s, "main gave the step %s", what);
        break;
    case FROM_UNKNOWN:
        str_addf(s, "%s was there before it", what);
        break;
    }
}

/* ---- where it goes ------------------------------------------------------- */

typedef struct Reach {
    Arena *arena;
    IR_TABLE(bool) has; /* values */
    bool grows;
    VEC(const char *) vars; /* that are written with one */
} Reach;

static bool
is_reached(const Reach *r, const IrValue *v)
{
    const bool *found = IR_TABLE_FIND(r->has, v->number);
    return found && *found;
}

static void
reach(Reach *r, const IrValue *v)
{
    r->grows |= !is_reached(r, v);
    *IR_TABLE_SLOT(r->arena, r->has, v->number) = true;
}

static void
note_variable(Reach *r, const char *name)
{
    for (int i = 0; i < r->vars.len; i++)
        if (strcmp(r->vars.data[i], name) == 0)
            return;
    VEC_PUSH(r->arena, r->vars, name);
}

/* Operand i of an operation with regions is one of their last arguments; what
 * a region yields is a result, and in a loop the argument of the next round. */
static void
reach_regions(Reach *r, const IrOp *op, int i)
{
    for (int k = 0; k < op->num_regions; k++) {
        const IrValues *args = &op->regions[k]->args;
        int at = i - (op->num_operands - args->len);
        if (at >= 0 && at < args->len)
            reach(r, args->data[at]);
    }
}

static void
reach_around(Reach *r, const IrOp *around, int i)
{
    if (i < around->num_results)
        reach(r, around->results[i]);
    bool loops = around->kind == OP_for || around->kind == OP_while;
    for (int k = 0; loops && k < around->num_regions; k++) {
        const IrValues *args = &around->regions[k]->args;
        int at = i + args->len - around->num_results;
        if (at >= 0 && at < args->len)
            reach(r, args->data[at]);
    }
}

static void
reach_from(IrOp *op, void *data)
{
    Reach *r = data;
    for (int i = 0; i < op->num_operands; i++) {
        if (!is_reached(r, op->operands[i]))
            continue;
        if (op->kind == OP_write)
            note_variable(r, ir_text(op, A_var));
        else if (op->kind == OP_yield && op->block->op)
            reach_around(r, op->block->op, i);
        else if (op->num_regions)
            reach_regions(r, op, i);
        else if (ir_op_split(op->kind) && i < op->num_results)
            reach(r, op->results[i]);
        else
            for (int k = 0; k < op->num_results; k++)
                reach(r, op->results[k]);
    }
}

static void
find_variables(Reach *r, const IrFunc *fn, const IrValue *from)
{
    reach(r, from);
    while (r->grows) {
        r->grows = false;
        ir_walk(fn->body, reach_from, r);
    }
}

static const char *
goal_text(Arena *a, const Reach *r)
{
    Str s = str_new(a);
    int num = r->vars.len;
    for (int i = 0; i < num && i < MOST_NAMED; i++)
        str_addf(&s, "%s\"%s\"", i ? ", " : "", r->vars.data[i]);
    if (num > MOST_NAMED)
        str_addf(&s, " and %d more", num - MOST_NAMED);
    return message_printf(a, "it would go into the variable%s %s",
                          num > 1 ? "s" : "", str_text(&s));
}

/* Another result of the kernel that has one, too. */
static bool
is_bad(Arena *a, const RtNanFinding *f, int result)
{
    const RtValue *v = &f->site->out[result];
    return !f->site->is_lost[result] && dtype_is_float(v->dtype) &&
           rt_not_finite(v->dtype, rt_checked_bytes(a, f->inv, v),
                         rt_value_count(v, f->inv->executor->dims));
}

static void
note_goal(const RtNanFinding *f, Loc loc, RtFault *fault, Arena *a)
{
    Reach r = {.arena = a};
    for (int i = 0; i < f->site->op->num_results; i++)
        if (i == f->result || is_bad(a, f, i))
            find_variables(&r, f->inv->fn->ir, f->site->op->results[i]);
    if (!r.vars.len)
        return;
    RtNote note = {loc, goal_text(a, &r)};
    VEC_PUSH(a, fault->notes, note);
}

/* ---- the message --------------------------------------------------------- */

static const IrOp *
maker_of(const RtNanFinding *f)
{
    const IrOp *op = f->site->op;
    if (op->kind != OP_kernel)
        return f->site->started->op;
    return rt_maker_of(op, f->result);
}

static int
num_computed(const IrOp *kernel)
{
    int num = 0;
    for (const IrOp *op = kernel->regions[0]->first; op; op = op->next)
        num += rt_is_computed(op);
    return num;
}

/* "this div, of the gradient of loss," */
static void
add_maker(Str *s, const IrOp *maker, bool is_one_of_many)
{
    str_addf(s, is_one_of_many ? "the kernel that ends in this %s" : "this %s",
             rt_operation_name(maker));
    if (ir_op_is_gradient(maker) && maker->reason)
        str_addf(s, ", of %s,", maker->reason->cause);
}

/* "element [3, 1], of its 8" */
static void
add_element(Str *s, Arena *a, const RtNanFinding *f)
{
    const RtValue *v = &f->site->out[f->result];
    const int64_t *words = f->inv->executor->dims;
    int64_t dims[IR_MAX_RANK + 1];
    for (int i = 0; i < v->rank; i++)
        dims[i] = rt_dim(&v->dims[i], words);
    int64_t count = rt_value_count(v, words);
    RtBits b = {
        .dtype = v->dtype, .count = count, .rank = v->rank, .dims = dims};
    int64_t first = rt_first_not_finite(
        v->dtype, rt_checked_bytes(a, f->inv, v), count, f->kind);
    str_add(s, rt_bits_element(a, &b, first));
    if (v->rank)
        str_addf(s, " of %" PRId64, count);
}

static bool
is_written(const RtNanFinding *f)
{
    return f->site->op->kind == OP_kernel && f->kind == RT_HAS_NAN &&
           f->site->descent[f->result].written & RT_HAS_NAN;
}

/* Ends the work with what it is, how it came to be, and where in the result. */
static void
fault(const RtNanFinding *f, const IrOp *maker, const Source *from)
{
    Arena *a = f->inv->executor->arena;
    const IrOp *op = f->site->op;
    RtHostOp h = {.op = maker};
    long long step = atomic_load(&f->inv->executor->run->watchdog.steps) + 1;
    const char *what = f->kind == RT_HAS_NAN ? "nan" : "inf";
    Str who = str_new(a), where = str_new(a), source = str_new(a);
    add_maker(&who, maker, op->kind == OP_kernel && num_computed(op) > 1);
    add_element(&where, a, f);
    add_source(&source, from, f->in & RT_HAS_NAN ? "nan" : "infinity");
    if (maker->kind == OP_constant)
        rt_fault(f->inv, &h, STATUS_INPUT, "this constant is %s, in step %lld",
                 what, step);
    else if (f->in & RT_HAS_NAN)
        rt_fault(f->inv, &h, STATUS_INPUT,
                 "%s computes with nan in step %lld: %s; of what it makes, %s",
                 str_text(&who), step, str_text(&source), str_text(&where));
    else if (f->in)
        rt_fault(f->inv, &h, STATUS_INPUT,
                 "%s makes %s of infinity in step %lld: %s; %s", str_text(&who),
                 what, step, str_text(&where), str_text(&source));
    else
        rt_fault(f->inv, &h, STATUS_INPUT, "%s makes %s of %s in step %lld: %s",
                 str_text(&who), what,
                 is_written(f) ? "a constant nan" : "finite numbers", step,
                 str_text(&where));
}

static void
note_source(const Source *from, RtFault *fault, Arena *a)
{
    bool is_batch = from->origin == FROM_BATCH;
    const char *text = is_batch ? MESSAGE("the batch is taken here")
                                : MESSAGE("the constant goes in here");
    if (is_batch || from->origin == FROM_CONSTANT)
        VEC_PUSH(a, fault->notes, ((RtNote){from->loc, message_part(text)}));
}

static void
note_kernel(const RtNanFinding *f, const IrOp *maker, RtFault *fault, Arena *a)
{
    const IrOp *op = f->site->op;
    if (op->kind != OP_kernel || num_computed(op) < 2 || f->in & RT_HAS_NAN)
        return;
    rt_note_kernel_lines(op, maker, fault, a);
    const char *text = MESSAGE("a plan of tfdc --check-nan has each operation "
                               "in a kernel of its own, and names it");
    VEC_PUSH(a, fault->notes, ((RtNote){maker->loc, message_part(text)}));
}

void
rt_report_nan(const RtNanFinding *f)
{
    RtExecutor *executor = f->inv->executor;
    Arena *a = executor->arena;
    const IrOp *maker = maker_of(f);
    int operand =
        guilty_operand(f, f->in & RT_HAS_NAN ? RT_HAS_NAN : RT_HAS_INF);
    Source from = operand < 0 ? (Source){.origin = FROM_UNKNOWN}
                              : source_of(executor->run, f->inv->fn,
                                          f->site->op->operands[operand]);
    if (!executor->fault.op) {
        note_source(&from, &executor->fault, a);
        note_kernel(f, maker, &executor->fault, a);
        note_goal(f, maker->loc, &executor->fault, a);
    }
    fault(f, maker, &from);
}
