/*
 * schedule.c - collectives begin early and end late
 *
 * Every collective becomes a start, where its operands are defined, and a done,
 * before the first use of a result; the operations between them overlap with it
 * (D13).  Starts keep the order of the collectives, those in branches and loops
 * too, which is the same on all devices because they share the program, or run
 * variants of one.  No start passes an assert: a replica whose assertion fails
 * takes part in no collective after it, so that nobody gets, prints or saves
 * what was made of its value.
 *
 * Kernels are in their order, so that an optimization_barrier has had its
 * effect, and is removed.
 */
#include <assert.h>
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "passes/distribute/algorithm.h"
#include "passes/support/op_index.h"
#include "passes/support/pass.h"

/* The last of the operations that define op's operands, and of those that no
 * start passes; NULL: op can be first in its block. */
static IrOp *
earliest(const IrOp *op, IrOp *last)
{
    for (int i = 0; i < op->num_operands; i++) {
        IrOp *def = ir_forwarded(op->operands[i])->def;
        if (def && def->block == op->block && (!last || def->id > last->id))
            last = def;
    }
    return last;
}

/* The split of a collective that is one operation; NULL for others. */
static const IrSplit *
find_split(const IrOp *op)
{
    const IrSplit *split = ir_op_split(op->kind);
    return split && split->op == op->kind ? split : NULL;
}

/* Sets the algorithm of op on its start, unless it is the symmetric one. */
static void
set_algorithm(IrModule *m, const IrOp *op, IrOp *start)
{
    bool gathers = op->kind == OP_all_gather;
    CollectiveAlgorithm w =
        gathers ? pass_gather_algorithm(m, op) : pass_algorithm(m, op);
    if (w.algorithm == ALGORITHM_auto && !ir_has(op, A_implementation))
        return;
    const IrReason *r = start->reason;
    if (w.algorithm != ALGORITHM_auto)
        ir_set_enum(start, A_algorithm, w.algorithm);
    if (ir_algorithm_has_packs(w.algorithm))
        ir_set_int(start, A_packs, w.packs);
    if (w.root && (gathers || ir_enum(op, A_op) != AGG_first))
        ir_set_int(start, A_root, w.root);
    start->reason = ir_reason(m, r->rule, r->loc, "%s; algorithm %s: %s",
                              r->cause, pass_algorithm_name(m, &w), w.why);
}

/* How long replicas wait in it: as the call says, which the start has already,
 * or as the strategy does. */
static void
set_timeout(IrModule *m, const IrOp *op, IrOp *start)
{
    const IrReason *r = start->reason;
    if (ir_has(op, A_timeout_ms))
        start->reason =
            ir_reason(m, r->rule, r->loc, "%s; the call waits for %g seconds",
                      r->cause, (double)ir_int(op, A_timeout_ms) / 1000);
    else if (m->timeout_ms)
        ir_set_int(start, A_timeout_ms, m->timeout_ms);
}

static void
stamp(IrBlock *b, const IrOp *op)
{
    ir_inherit_calls(b, op);
    if (op->reason)
        ir_stamp(b, op->reason);
    else
        ir_stamp(b, ir_reason_for(op, "schedule.split", "%s",
                                  ir_op_info[op->kind].name));
}

static IrOp *
insert_start(IrModule *m, IrOp *op, const IrSplit *s, IrOp *after)
{
    IrBlock *b = ir_block_scratch(op);
    IrOp *start =
        ir_build_op(b, s->start, op->num_operands, op->operands, op->loc);
    ir_attrs_copy_common(start, op);
    ir_build_infer(start);
    stamp(b, op);
    set_algorithm(m, op, start);
    set_timeout(m, op, start);
    if (after)
        ir_splice_after(after, b);
    else
        ir_splice_before(op->block->first, b);
    start->id = after ? after->id : -1;
    return start;
}

static void
insert_done(IrOp *op, const IrSplit *s, IrOp *start, IrOp *before)
{
    IrBlock *b = ir_block_scratch(before);
    IrOp *done =
        ir_build_op(b, s->done, start->num_results, start->results, op->loc);
    ir_build_infer(done);
    ir_inherit_calls(b, start);
    ir_stamp(b, start->reason);
    ir_splice_before(before, b);
    done->id = before->id;
    for (int i = 0; i < op->num_results; i++) {
        done->results[i]->name = op->results[i]->name;
        ir_forward(op->results[i], done->results[i]);
    }
}

static IrOp *
split(IrModule *m, IrOp *op, const IrSplit *s, IrOp *last, IrOp *user)
{
    IrOp *start = insert_start(m, op, s, earliest(op, last));
    insert_done(op, s, start, user);
    ir_remove(op);
    return start;
}

/* Splits the collectives of b at any depth; returns whether there is one, or an
 * assert.  The users of an operation come after it, so none of them is split
 * before it. */
static bool
split_collectives(const PassCx *cx, const IrUsers *users, IrBlock *b)
{
    IrModule *m = cx->m;
    IrOp *last = NULL; /* of those that no start passes */
    pass_index_ops(b);
    for (IrOp *op = b->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < op->num_regions; i++)
            if (split_collectives(cx, users, op->regions[i]))
                last = op;
        const IrSplit *s = find_split(op);
        if (s)
            last = split(m, op, s, last, pass_first_user(users, op));
        else if (op->kind == OP_assert)
            last = op;
    }
    return last != NULL;
}

static void
remove_barrier(IrOp *op, void *data)
{
    (void)data;
    if (op->kind != OP_optimization_barrier)
        return;
    ir_forward(op->results[0], op->operands[0]);
    ir_remove(op);
}

bool
pass_schedule(PassCx *cx)
{
    assert(pass_stage(cx->m) == STAGE_replicated);
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next) {
        ir_walk(fn->body, remove_barrier, NULL);
        ir_apply_forwards(fn);
        if (fn->kind != FUNC_PROGRAM)
            continue;
        IrUsers users = ir_users_find(cx->arena, fn->body);
        split_collectives(cx, &users, fn->body);
        ir_apply_forwards(fn);
    }
    return true;
}
