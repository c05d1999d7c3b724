/*
 * recompute.c - values that are computed again for a gradient
 *
 * What a program calls by recompute(f) is lowered as any; its results pass
 * through a recompute, which takes what f uses from outside, too.  The reverse
 * sweep uses the values of f as any others.  Then those that it uses are
 * replaced by copies, which stand where the gradient of f's results has
 * arrived, so that nothing but what f uses from outside is kept until then.
 *
 * Copies take that through an optimization_barrier with the gradient: else the
 * copies and the originals would be common subexpressions, and a copy could be
 * made before it is needed.
 */
#include "ir/rules/build.h"
#include "passes/autodiff/grad.h"

/* Where an operation is. */
typedef enum Part {
    OUTSIDE,
    INSIDE, /* of f, and may be computed again */
    WANTED  /* it is */
} Part;

typedef struct Again {
    Arena *arena;
    const Recompute *of;
    IR_TABLE(bool) kept;  /* values that f uses from outside */
    IR_TABLE(Part) parts; /* of operations, by their first results */
    VEC(IrOp *) todo;
    const IrOp *user; /* whose uses are listed */
    IrValues uses;
    int num_wanted;
    IrCloneMap *map; /* to the copies */
    IrBlock *copies;
} Again;

/* ---- what is in f -------------------------------------------------------- */

static void
note_effect(IrOp *op, void *data)
{
    int effect = ir_op_info[op->kind].effect;
    *(bool *)data |= effect != PURE && effect != CONTROL;
}

static bool
has_effect(IrOp *op)
{
    bool found = false;
    ir_walk_op(op, note_effect, &found);
    return found;
}

static void
note_uses(IrOp *op, void *data)
{
    Again *again = data;
    ir_follow_forwards(op);
    for (int i = 0; i < op->num_operands; i++)
        if (!ir_is_inside(op->operands[i], again->user))
            VEC_PUSH(again->arena, again->uses, op->operands[i]);
}

/* The values that op and its regions use, from outside of it; until the next
 * call. */
static const IrValues *
uses_of(Again *again, IrOp *op)
{
    again->user = op;
    again->uses.len = 0;
    ir_walk_op(op, note_uses, again);
    return &again->uses;
}

static Part
part_of(const Again *again, const IrOp *op)
{
    const Part *part = op->num_results
                           ? IR_TABLE_FIND(again->parts, op->results[0]->number)
                           : NULL;
    return part ? *part : OUTSIDE;
}

/* It is done with later. */
static void
put_in(Again *again, IrOp *op, Part part)
{
    *IR_TABLE_SLOT(again->arena, again->parts, op->results[0]->number) = part;
    VEC_PUSH(again->arena, again->todo, op);
}

static void
add_inside(Again *again, const IrValue *v)
{
    const bool *kept = IR_TABLE_FIND(again->kept, v->number);
    IrOp *op = v->def;
    if (!op || (kept && *kept) || op->block != again->of->op->block ||
        part_of(again, op) != OUTSIDE || has_effect(op))
        return;
    put_in(again, op, INSIDE);
}

static void
find_inside(Again *again)
{
    IrOp *op = again->of->op;
    ir_follow_forwards(op);
    for (int i = op->num_results; i < op->num_operands; i++)
        *IR_TABLE_SLOT(again->arena, again->kept, op->operands[i]->number) =
            true;
    for (int i = 0; i < op->num_results; i++)
        add_inside(again, op->operands[i]);
    while (again->todo.len) {
        const IrValues *uses = uses_of(again, VEC_POP(again->todo));
        for (int i = 0; i < uses->len; i++)
            add_inside(again, uses->data[i]);
    }
}

/* ---- what is computed again ---------------------------------------------- */

static void
want(Again *again, const IrValues *uses)
{
    for (int i = 0; i < uses->len; i++) {
        IrOp *op = uses->data[i]->def;
        if (!op || part_of(again, op) != INSIDE)
            continue;
        put_in(again, op, WANTED);
        again->num_wanted++;
    }
}

/* What the operations from `user` on use, and what that is made of. */
static void
find_wanted(Again *again, IrOp *user)
{
    for (; user; user = user->next)
        want(again, uses_of(again, user));
    while (again->todo.len)
        want(again, uses_of(again, VEC_POP(again->todo)));
}

/* What op uses from outside of f goes through a barrier, once. */
static void
hold_back(Again *again, IrOp *op)
{
    const IrValues *uses = uses_of(again, op);
    for (int i = 0; i < uses->len; i++) {
        IrValue *v = uses->data[i];
        bool is_constant = v->def && v->def->kind == OP_constant;
        if (!is_constant && ir_clone_get(again->map, v) == v)
            ir_clone_set(again->map, v,
                         ir_build2(again->copies, OP_optimization_barrier, v,
                                   ir_forwarded(again->of->arrived), op->loc));
    }
}

static void
copy_wanted(Again *again)
{
    IrOp *end = again->of->op, *op = end;
    for (int left = again->num_wanted; left;
         left -= part_of(again, op) == WANTED)
        op = op->prev;
    for (; op != end; op = op->next) {
        if (part_of(again, op) != WANTED)
            continue;
        hold_back(again, op);
        ir_clone_op(again->map, op, again->copies);
    }
}

static void
use_copies(IrOp *op, void *data)
{
    Again *again = data;
    for (int i = 0; i < op->num_operands; i++) {
        const IrOp *def = op->operands[i]->def;
        if (def && part_of(again, def) == WANTED)
            op->operands[i] = ir_clone_get(again->map, op->operands[i]);
    }
}

/* ---- the rule ------------------------------------------------------------ */

static void
compute_again(Grad *g, const Recompute *of)
{
    Again again = {.arena = g->cx->arena, .of = of};
    IrOp *user = of->last ? of->last->next : of->b->first;
    if (!user)
        return;
    find_inside(&again);
    find_wanted(&again, user);
    if (!again.num_wanted)
        return;
    again.map = ir_clone_map(again.arena);
    again.copies = ir_block_scratch(user);
    copy_wanted(&again);
    for (IrOp *op = user; op; op = op->next)
        ir_walk_op(op, use_copies, &again);
    ir_stamp(again.copies,
             ir_reason_for(of->op, "differentiate.recompute",
                           "values that are not kept for the gradient"));
    ir_splice_before(user, again.copies);
}

/* Inner ones first: their barriers are computed again with the outer ones. */
void
pass_grad_compute_again(Grad *g, int num_before)
{
    while (g->recomputes.len > num_before) {
        Recompute of = VEC_POP(g->recomputes);
        compute_again(g, &of);
    }
}

void
pass_grad_rule_recompute(Grad *g, const IrOp *op)
{
    Recompute r = {.op = (IrOp *)op, .b = g->b, .last = g->b->last};
    for (int i = 0; i < op->num_results; i++) {
        IrValue *dy = pass_grad_of(g, op->results[i]);
        if (!dy)
            continue;
        r.arrived = dy;
        pass_grad_add(g, op->operands[i], dy);
    }
    VEC_PUSH(g->cx->arena, g->recomputes, r);
}
