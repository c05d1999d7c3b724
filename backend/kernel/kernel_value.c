/*
 * kernel_value.c - elements of values, each computed once
 *
 * The rule of the operation that defines the value maps it to elements of the
 * operands (kernel_rules.c).  Rules ask for those here, and so on to the
 * inputs: Build's rule_of is the only call back to the rules.
 */
#include "backend/kernel/kernel_expr.h"

#include "ir/base/message.h"

/* An element that was requested before. */
struct Memo {
    Memo *next; /* of its bucket */
    const IrValue *of;
    View view;
    Expr *guard, *value;
};

Expr *
be_value_load(Build *b, KArray *array, const View *view, Expr *guard)
{
    KNode n = {.kind = K_LOAD, .dtype = dtype_compute(array->dtype)};
    n.load.array = array;
    n.load.at = be_view_linear(b, view);
    n.load.guard = guard ? &guard->node : NULL;
    return be_expr_make(b, &n);
}

static Expr *
compute(Build *b, const IrValue *v, const View *view, Expr *guard)
{
    if (v->block)
        return be_value_load(b, b->k->arrays[K_IN].data[v->index], view, guard);
    ValueRule *rule = b->rule_of(v->def);
    if (rule)
        return rule(b, v->def, view, guard);
    be_expr_fail(b, message_printf(b->k->arena, "%s cannot stand in a kernel",
                                   ir_op_info[v->def->kind].name));
    return be_expr_const(b, scalar_int(DT_i64, 0));
}

static bool
is_memo(const Memo *m, const IrValue *v, const View *view, const Expr *guard)
{
    if (m->of != v || m->guard != guard ||
        !be_shape_equal(&m->view.shape, &view->shape))
        return false;
    for (int i = 0; i < view->shape.rank; i++) {
        if (!be_index_equal(&m->view.at[i], &view->at[i]))
            return false;
    }
    return true;
}

static Memo **
memo_bucket(Build *b, const IrValue *v, const View *view, const Expr *guard)
{
    uint64_t h = (uint64_t)v->id ^ (uint64_t)(uintptr_t)guard >> 4;
    for (int i = 0; i < view->shape.rank; i++)
        h = be_lin_hash(h, &view->at[i]);
    return &b->memos[h % EXPR_BUCKETS];
}

/* Whether v can be evaluated in a view of any shape. */
static bool
takes_any_shape(const Build *b, const IrValue *v)
{
    const IrOp *op = v->def;
    if (v->block || op->kind == OP_constant || op->kind == OP_copy ||
        ir_op_info[op->kind].code == CODE_reshape)
        return true;
    if (!(ir_op_info[op->kind].traits & ELEMENTWISE))
        return false;
    for (int i = 0; i < op->num_operands; i++) {
        const Shape *s = be_value_shape(b, op->operands[i]);
        if (!be_shape_equal(s, be_value_shape(b, v)) && !be_shape_is_single(s))
            return false;
    }
    return true;
}

Expr *
be_value_at(Build *b, const IrValue *v, const View *view, Expr *guard)
{
    bool known =
        v->id >= 0 && v->id < b->values.len && b->values.data[v->id] == v;
    if (!known)
        be_expr_fail(b, "a kernel uses a value from around it");
    if (b->error)
        return be_expr_const(b, scalar_int(DT_i64, 0));
    View own;
    if (!be_shape_equal(&view->shape, be_value_shape(b, v)) &&
        !takes_any_shape(b, v)) {
        own = be_view_own(b, v, view);
        view = &own;
    }
    Memo **bucket = memo_bucket(b, v, view, guard);
    for (Memo *m = *bucket; m; m = m->next) {
        if (is_memo(m, v, view, guard))
            return m->value;
    }
    Memo *m = NEW(b->scratch, Memo);
    *m = (Memo){NULL, v, *view, guard, compute(b, v, view, guard)};
    m->next = *bucket;
    *bucket = m;
    return m->value;
}

Expr *
be_value_masked(Build *b, const IrValue *x, const View *at, Expr *inside,
                Expr *both)
{
    Expr *e = be_value_at(b, x, at, both);
    /* A load is 0 where its guard does not hold. */
    if (!inside ||
        (e->node.kind == K_LOAD && e->node.load.guard == &both->node))
        return e;
    return be_expr_where(b, inside, e, be_expr_zero(b, x->type.dtype),
                         x->type.dtype);
}
