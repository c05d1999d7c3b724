/*
 * grad.c - grad(loss, wrt)
 *
 * The gradient is an operation until the passes differentiate; here its results
 * get their types.  What flows back through a collective is a replica's own
 * part: such a gradient differs among the replicas even of a loss that does
 * not.
 */
#include "frontend/lower.h"

#include <string.h>

/* ---- what a loss is made of --------------------------------------------- */

/* A walk over the operations that a value needs. */
typedef struct Walk {
    Arena *arena;
    VEC(IrOp *) todo;
    bool has_collective; /* one that a gradient flows through, or what differs
                            among the replicas where it does */
    bool has_sum;        /* all_reduce(sum, ...) */
} Walk;

static void
note_value(Walk *w, const IrValue *v)
{
    IrOp *op = v->def;
    if (!op || op->mark == w)
        return;
    op->mark = w;
    VEC_PUSH(w->arena, w->todo, op);
}

static void
note_operands(Walk *w, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        note_value(w, op->operands[i]);
}

/* In a region everything counts. */
static void
visit_nested(IrOp *op, void *data)
{
    Walk *w = data;
    if (op->mark != w)
        VEC_PUSH(w->arena, w->todo, op);
    op->mark = w;
}

/* The region of an own_grad is what flows back: a replica's own part if it
 * takes what only one replica has. */
static void
visit_own(IrOp *op, void *data)
{
    Walk *w = data;
    bool joins = false, is_own = false;
    for (int i = 0; i < op->num_operands; i++) {
        const IrValue *v = op->operands[i];
        joins |= v->type.locality == LOCAL_PER_REPLICA;
        is_own |= v->type.locality == LOCAL_PER_REPLICA &&
                  (v->def ? v->def->block : v->block) != op->block;
    }
    for (int i = 0; i < op->num_results; i++)
        is_own |= !joins && op->results[i]->type.locality == LOCAL_PER_REPLICA;
    w->has_collective |= is_own || ir_op_info[op->kind].effect == COLLECTIVE;
}

/* What it makes the same on all may be made of what is not. */
static void
visit_own_grad(Walk *w, IrOp *op)
{
    for (int i = op->num_results; i < op->num_operands; i++) {
        const IrValue *x = op->operands[i];
        w->has_collective |= x->type.locality == LOCAL_PER_REPLICA;
        note_value(w, x);
    }
    ir_walk(op->regions[0], visit_own, w);
}

static void
visit(Walk *w, IrOp *op)
{
    if (op->kind == OP_own_grad) {
        visit_own_grad(w, op);
        return;
    }
    bool is_sum =
        op->kind == OP_all_reduce && strcmp(ir_text(op, A_op), "sum") == 0;
    w->has_collective |= ir_op_info[op->kind].effect == COLLECTIVE;
    w->has_sum |= is_sum;
    note_operands(w, op);
    for (int r = 0; r < op->num_regions; r++)
        ir_walk(op->regions[r], visit_nested, w);
}

/* Each walk has an address of its own: marks of others mean nothing to it. */
static const Walk *
walk_loss(Arena *a, const IrValue *loss)
{
    Walk *w = NEW(a, Walk);
    w->arena = a;
    note_value(w, loss);
    while (w->todo.len)
        visit(w, VEC_POP(w->todo));
    return w;
}

/* ---- with respect to what ----------------------------------------------- */

typedef struct Wrt {
    IrValues operands; /* the loss, then values */
    VEC(const char *) vars;
    VEC(IrType) types[2]; /* of the gradients: of values, of variables */
} Wrt;

static bool
check_float(Lower *cx, const IrType *t, const char *what, Loc loc)
{
    if (dtype_is_float(t->dtype))
        return true;
    fe_error(cx, loc, "there is no gradient with respect to %s of %s", what,
             dtype_info[t->dtype].name);
    return false;
}

static bool
add_leaf(Lower *cx, FeValue *leaf, Loc loc, Wrt *wrt)
{
    IrType t;
    switch (leaf->kind) {
    case FE_POISON:
        return false;
    case FE_VAR:
        t = fe_var_type(cx, leaf->var);
        VEC_PUSH(cx->arena, wrt->vars, leaf->var->name);
        VEC_PUSH(cx->arena, wrt->types[1], t);
        return check_float(cx, &t, "a variable", loc);
    case FE_TENSOR:
        t = leaf->tensor->type;
        VEC_PUSH(cx->arena, wrt->operands, fe_operand(cx, leaf, loc));
        VEC_PUSH(cx->arena, wrt->types[0], t);
        return VEC_LAST(wrt->operands) && check_float(cx, &t, "a value", loc);
    case FE_INSTANCE:
        fe_error_note(cx, loc,
                      fe_format(cx, "trainable(%s) is the list of them",
                                leaf->instance->path),
                      "a gradient is with respect to variables or values");
        return false;
    default:
        fe_error(cx, loc, "there is no gradient with respect to %s",
                 fe_what(cx, leaf));
        return false;
    }
}

/* Each gradient has the shape of its leaf; where the loss lives, or each
 * replica its own. */
static void
set_localities(Wrt *wrt, const IrType *loss, bool own_parts)
{
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < wrt->types[k].len; i++) {
            IrType *t = &wrt->types[k].data[i];
            Locality l = own_parts ? LOCAL_PER_REPLICA : loss->locality;
            t->on = l > t->locality ? loss->on : t->on;
            t->locality = l > t->locality ? l : t->locality;
        }
    }
}

/* ---- grad --------------------------------------------------------------- */

static IrValue *
loss_operand(Lower *cx, FeValue *loss, Loc loc)
{
    IrValue *x = fe_operand(cx, loss, loc);
    if (!x)
        return NULL;
    if (x->type.rank == 0 && dtype_is_float(x->type.dtype))
        return x;
    fe_error_note(
        cx, loc, x->type.rank ? "sum(...) makes one number of it" : NULL,
        "a loss is one float, and this is %s", fe_type_text(cx, &x->type));
    return NULL;
}

static void
warn_of_sum(Lower *cx, const IrValue *loss, const Walk *w, Loc loc)
{
    if (w->has_sum && loss->type.locality < LOCAL_PER_REPLICA &&
        cx->context == FE_REPLICA && cx->module->num_replicas > 1)
        fe_warning(cx, loc,
                   "the loss is already summed over the replicas, so that the "
                   "sum of its gradients counts each part %d times",
                   cx->module->num_replicas);
}

static IrOp *
emit_grad(Lower *cx, Wrt *wrt, Loc loc)
{
    VEC(IrType) types = {0};
    IrOp *op = fe_op(cx, OP_grad, wrt->operands.len, wrt->operands.data, loc);
    if (!fe_may_emit(cx, loc))
        return NULL;
    if (wrt->vars.len)
        ir_set_names(op, A_vars, wrt->vars.data, wrt->vars.len);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < wrt->types[k].len; i++)
            VEC_PUSH(cx->arena, types, wrt->types[k].data[i]);
    ir_op_results(op, types.len, types.data);
    ir_append(cx->block, op);
    return op;
}

/* The results in the order of the leaves. */
static FeValue *
result_nest(Lower *cx, FeValue *wrt, FeValues *leaves, const IrOp *op,
            int num_values)
{
    int next_value = 0, next_var = num_values;
    for (int i = 0; i < leaves->len; i++) {
        int *next = leaves->data[i]->kind == FE_VAR ? &next_var : &next_value;
        leaves->data[i] = fe_value_tensor(cx->arena, op->results[(*next)++]);
    }
    FeValue *const *rest = leaves->data;
    return fe_value_rebuild(cx->arena, wrt, &rest);
}

FeValue *
fe_grad(Lower *cx, FeValue *loss, FeValue *wrt, Loc loc)
{
    Wrt w = {0};
    FeValues leaves = {0};
    IrValue *x = loss_operand(cx, loss, loc);
    bool ok = x != NULL;
    VEC_PUSH(cx->arena, w.operands, x);
    fe_value_leaves(cx->arena, wrt, &leaves);
    for (int i = 0; i < leaves.len; i++)
        ok = add_leaf(cx, leaves.data[i], loc, &w) && ok;
    if (!ok || !leaves.len)
        return ok ? wrt : &fe_poison;
    const Walk *walk = walk_loss(cx->arena, x);
    set_localities(&w, &x->type, walk->has_collective);
    warn_of_sum(cx, x, walk, loc);
    IrOp *op = emit_grad(cx, &w, loc);
    if (!op)
        return &fe_poison;
    return result_nest(cx, wrt, &leaves, op, w.types[0].len);
}
