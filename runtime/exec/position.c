/*
 * position.c - positions of the executors, for timeouts and interrupts
 *
 * Compiled code stores the number of each kernel, loop and hooked operation
 * that it reaches (TfdCall.at).  Another thread reads it, so the position may
 * be outdated; an endless loop is still found.
 */
#include "runtime/exec/position.h"

#include "ir/base/message.h"
#include "ir/ir.h"
#include "runtime/exec/function.h"
#include "runtime/exec/run_state.h"

enum { MAX_STRAGGLERS = 8 }; /* that a diagnosis names */

const IrOp *
rt_position(const RtExecutor *executor, int32_t *at)
{
    const RtInvocation *inv =
        atomic_load_explicit(&executor->running, memory_order_acquire);
    *at = inv ? atomic_load_explicit(&inv->call.at, memory_order_relaxed) : -1;
    return *at >= 0 && *at < inv->fn->positions.len
               ? inv->fn->positions.data[*at]
               : NULL;
}

const IrOp *
rt_unbounded_loop(const IrOp *op)
{
    const IrOp *outermost = NULL;
    for (; op; op = op->block->op)
        if (op->kind == OP_while && !ir_is_dataset_loop(op))
            outermost = op;
    return outermost;
}

bool
rt_waits_for_data(const IrOp *op)
{
    return op->kind == OP_iter_has_next || op->kind == OP_iter_next ||
           ir_is_dataset_loop(op);
}

/* ---- names -------------------------------------------------------------- */

/* The last operation of a kernel, which defines its result. */
static const IrOp *
last_of_kernel(const IrOp *kernel)
{
    const IrOp *yield = ir_block_yield(kernel->regions[0]);
    return yield && yield->prev ? yield->prev : kernel;
}

static const char *
name_of(const IrOp *op)
{
    if (op->kind == OP_kernel)
        op = last_of_kernel(op);
    if (op->kind == OP_launch)
        return "step";
    const IrSplit *split = ir_op_split(op->kind);
    return ir_op_info[split ? split->op : op->kind].name;
}

/* Adds the position of `who`: the endless loop around op, if there is one. */
static void
add_note(Arena *a, RtNotes *to, const char *who, const IrOp *op)
{
    const IrOp *loop = rt_unbounded_loop(op);
    RtNote note = {loop ? loop->loc : op->loc, NULL};
    if (loop && loop != op)
        note.text =
            message_printf(a, "%s is in this %s, at the %s of line %u", who,
                           name_of(loop), name_of(op), op->loc.line);
    else
        note.text = message_printf(a, "%s is in this %s", who, name_of(op));
    VEC_PUSH(a, *to, note);
}

/* ---- stragglers --------------------------------------------------------- */

/* Whether it waits for others, as a library may make it do when a collective
 * starts, or has finished. */
static bool
is_straggler(const IrOp *op)
{
    return op->kind != OP_return && !ir_op_is_start(op->kind) &&
           !ir_op_is_done(op->kind);
}

static void
add_replicas(RtRun *run, Arena *a, RtNotes *to)
{
    int32_t at;
    for (int i = 0; i < run->num_local && to->len < MAX_STRAGGLERS; i++) {
        const RtExecutor *executor = &run->locals[i];
        const IrOp *op = rt_position(executor, &at);
        if (op && is_straggler(op))
            add_note(a, to,
                     arena_printf(a, "replica %d, device %s,",
                                  executor->replica, executor->device->name),
                     op);
    }
}

static void
add_elements(RtRun *run, Arena *a, RtNotes *to)
{
    int32_t at;
    for (int i = 0; i < run->elements.len && to->len < MAX_STRAGGLERS; i++) {
        const IrOp *op = rt_position(&run->elements.data[i]->executor, &at);
        if (op && op->kind != OP_return)
            add_note(a, to, "the dataset's function", op);
    }
}

void
rt_add_stragglers(RtRun *run, Arena *a, RtNotes *to)
{
    int32_t at;
    const IrOp *op = rt_position(&run->main, &at);
    if (!op)
        return;
    if (op->kind == OP_launch)
        add_replicas(run, a, to);
    else if (rt_waits_for_data(op))
        add_elements(run, a, to);
    else
        add_note(a, to, "main", op);
}

/* ---- the job ------------------------------------------------------------- */

static int32_t
site_of(const RtRun *run, const IrOp *op)
{
    const IrOp *loop = rt_unbounded_loop(op);
    for (int i = 0; i < run->sites.len; i++)
        if (run->sites.data[i] == (loop ? loop : op))
            return i;
    return -1;
}

/* Of the first replica of this process that others may wait for. */
static int32_t
site_of_replica(const RtRun *run)
{
    int32_t at, site = -1;
    for (int i = 0; i < run->num_local && site < 0; i++) {
        const IrOp *op = rt_position(&run->locals[i], &at);
        if (op && is_straggler(op))
            site = site_of(run, op);
    }
    return site;
}

static int32_t
site_of_element(const RtRun *run)
{
    int32_t at, site = -1;
    for (int i = 0; i < run->elements.len && site < 0; i++) {
        const IrOp *op = rt_position(&run->elements.data[i]->executor, &at);
        if (op && op->kind != OP_return)
            site = site_of(run, op);
    }
    return site;
}

int32_t
rt_working_site(const RtRun *run)
{
    int32_t at, site = -1;
    const IrOp *op = rt_position(&run->main, &at);
    if (!op || op->kind == OP_return)
        return -1;
    if (op->kind == OP_launch)
        site = site_of_replica(run);
    else if (rt_waits_for_data(op))
        site = site_of_element(run);
    return site >= 0 ? site : site_of(run, op);
}

/* ---- messages ------------------------------------------------------------ */

Status
rt_show_notes(const RtRun *run, const RtNotes *notes, Status st)
{
    const Diag *d = run->plan->diag;
    Arena *scratch = arena_new(NULL, "where a run was");
    Str lines = str_new(scratch);
    for (int i = 0; i < notes->len; i++) {
        Loc loc = notes->data[i].loc;
        str_addf(&lines, "%s:%u:%u: note: %s\n", diag_source_name(d, loc.file),
                 loc.line, loc.col, notes->data[i].text);
        diag_add_excerpt(&lines, d, loc);
    }
    st = status_show(st, str_text(&lines));
    arena_release(scratch);
    return st;
}
