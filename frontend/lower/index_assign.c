/*
 * index_assign.c - x[...] = e and x[...] += e
 *
 * Values do not change: an assignment to a part of a mut makes a new value for
 * it, the old one where a mask is false and e, spread out to the shape of the
 * old one, where it is true.  A part whose number is known only when the
 * program runs is scattered to, so that a loop which assigns to one part after
 * the other changes nothing else; so are several rows, x[indices], one after
 * the other.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/emit/index.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/shape_ops.h"
#include "frontend/lower/lower_impl.h"
#include "ir/rules/build.h"

/* ---- the mask ----------------------------------------------------------- */

static FeValue *
integer(Lower *cx, int64_t x)
{
    return fe_value_scalar(cx->arena, scalar_int(DT_i64, x));
}

/* The index along an axis, in a shape that has 1 for all others. */
static FeValue *
axis_index(Lower *cx, const IrType *t, int axis, Loc loc)
{
    Dim dims[IR_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        dims[i] = i == axis ? t->dims[i] : ir_dim_const(1);
    IrOp *op = fe_op(cx, OP_iota, 0, NULL, loc);
    ir_set_dims(op, A_dims, dims, t->rank);
    ir_set_int(op, A_dtype, DT_i64);
    ir_set_int(op, A_axis, axis);
    return fe_emit(cx, op);
}

/* Whether index along an axis is one of those meant. */
static FeValue *
axis_mask(Lower *cx, const FeIndex *x, FeValue *index, Loc loc)
{
    if (x->kind == INDEX_STATIC)
        return fe_binary(cx, AST_OP_EQ, index, integer(cx, x->start), loc);
    FeValue *offset =
        fe_binary(cx, AST_OP_SUB, index, integer(cx, x->start), loc);
    FeValue *low = fe_binary(cx, AST_OP_GE, offset, integer(cx, 0), loc);
    FeValue *high =
        fe_binary(cx, AST_OP_LT, offset, integer(cx, x->size * x->step), loc);
    FeValue *mask = fe_binary(cx, AST_OP_AND, low, high, loc);
    if (x->step == 1)
        return mask;
    FeValue *rest =
        fe_binary(cx, AST_OP_MOD, offset, integer(cx, x->step), loc);
    FeValue *on = fe_binary(cx, AST_OP_EQ, rest, integer(cx, 0), loc);
    return fe_binary(cx, AST_OP_AND, mask, on, loc);
}

/* NULL when every element is meant. */
static FeValue *
build_mask(Lower *cx, const IrType *t, const FeIndices *indices, Loc loc)
{
    FeValue *mask = NULL;
    for (int axis = 0; axis < indices->len; axis++) {
        const FeIndex *x = &indices->items[axis];
        if (x->kind == INDEX_FULL)
            continue;
        FeValue *index = axis_index(cx, t, axis, loc);
        FeValue *one = axis_mask(cx, x, index, loc);
        mask = mask ? fe_binary(cx, AST_OP_AND, mask, one, loc) : one;
    }
    return mask;
}

/* ---- the value ---------------------------------------------------------- */

static bool
is_number(const FeIndex *x)
{
    return x->kind == INDEX_STATIC || x->kind == INDEX_DYNAMIC;
}

/* e in the shape of the part, with 1 for the axes of numbers. */
static FeValue *
reshape_to_part(Lower *cx, IrValue *e, const IrType *t,
                const FeIndices *indices, Loc loc)
{
    Dim part[IR_MAX_RANK], full[IR_MAX_RANK];
    int rank = 0;
    for (int axis = 0; axis < t->rank; axis++) {
        const FeIndex *x = &indices->items[axis];
        Dim size =
            x->kind == INDEX_RANGE ? ir_dim_const(x->size) : t->dims[axis];
        full[axis] = is_number(x) ? ir_dim_const(1) : size;
        if (!is_number(x))
            part[rank++] = size;
    }
    FeValue *spread = fe_broadcast(cx, e, rank, part, loc);
    return fe_reshape(cx, fe_tensor(spread), t->rank, full, loc);
}

/* The part put where it belongs, with zeros around it. */
static FeValue *
pad_to_whole(Lower *cx, IrValue *part, const IrType *t,
             const FeIndices *indices, Loc loc)
{
    int64_t low[IR_MAX_RANK], step[IR_MAX_RANK];
    Dim dims[IR_MAX_RANK];
    bool moves = false;
    for (int axis = 0; axis < t->rank; axis++) {
        const FeIndex *x = &indices->items[axis];
        bool range = x->kind == INDEX_RANGE;
        moves = moves || range;
        low[axis] = range ? x->start : 0;
        step[axis] = range ? x->step : 1;
        dims[axis] = range ? t->dims[axis] : part->type.dims[axis];
    }
    if (!moves)
        return fe_value_tensor(cx->arena, part);
    IrOp *op = fe_op(cx, OP_pad, 1, &part, loc);
    ir_set_ints(op, A_low, low, t->rank);
    ir_set_dims(op, A_dims, dims, t->rank);
    ir_set_ints(op, A_step, step, t->rank);
    return fe_emit(cx, op);
}

static bool
check_assignable(Lower *cx, const FeIndices *indices, Loc loc)
{
    for (int i = 0; i < indices->len; i++) {
        const FeIndex *x = &indices->items[i];
        if (x->kind == INDEX_DYNAMIC && x->value->type.rank > 0) {
            fe_error_note(
                cx, loc,
                "x[:, indices] = ... assigns to whole parts of x along one "
                "axis",
                "parts of several rows cannot be assigned to at once");
            return false;
        }
        bool bad = x->kind == INDEX_NEW || x->kind == INDEX_REVERSED ||
                   (x->kind == INDEX_RANGE && x->step < 0);
        if (!bad)
            continue;
        fe_error(cx, loc,
                 "a new axis or a negative step cannot be assigned "
                 "to");
        return false;
    }
    return true;
}

/* ---- rows --------------------------------------------------------------- */

/* The axis that has indices of rows, where every other is whole; -1: none, or a
 * single row of which the old elements are needed. */
static int
find_rows(const FeIndices *indices, AstOp op)
{
    int axis = -1;
    for (int i = 0; i < indices->len; i++) {
        const FeIndex *x = &indices->items[i];
        bool rows = x->kind == INDEX_DYNAMIC &&
                    (x->value->type.rank > 0 || op == AST_OP_NONE);
        if (rows ? axis >= 0 : x->kind != INDEX_FULL)
            return -1;
        axis = rows ? i : axis;
    }
    return axis;
}

static const IrUpdate modes[NUM_AST_OPS] = {
    [AST_OP_NONE] = UPDATE_set, [AST_OP_ADD] = UPDATE_add,
    [AST_OP_SUB] = UPDATE_sub,  [AST_OP_MUL] = UPDATE_mul,
    [AST_OP_DIV] = UPDATE_div,
};

static bool
check_divides(Lower *cx, AstOp op, const IrType *t, Loc loc)
{
    if (op != AST_OP_DIV || dtype_is_float(t->dtype))
        return true;
    fe_error_note(cx, loc, "cast, or write //", "/= is for floats");
    return false;
}

/* x with its rows along axis changed by e.  Sums of f16 and bf16 are rounded
 * once (D4). */
static FeValue *
update_rows(Lower *cx, IrValue *x, IrValue *rows, int axis, AstOp op,
            IrValue *e, Loc loc)
{
    Dim dims[IR_MAX_RANK];
    const IrType *t = &x->type;
    int rank = rows->type.rank + t->rank - 1;
    bool divides = check_divides(cx, op, t, loc);
    if (!fe_check_rank(cx, rank, loc))
        return &fe_poison;
    fe_rows_dims(t, &rows->type, axis, dims);
    FeValue *values =
        divides ? fe_broadcast(cx, e, rank, dims, loc) : &fe_poison;
    if (op == AST_OP_SUB && !fe_is_poison(values))
        values = fe_unary(cx, op, values, loc);
    if (fe_is_poison(values) || !fe_check_can_emit(cx, loc))
        return &fe_poison;
    if (op == AST_OP_ADD || op == AST_OP_SUB)
        return fe_value_tensor(
            cx->arena,
            ir_build_add_rows(cx->block, x, rows, values->tensor, axis, loc));
    return fe_scatter(cx, modes[op], x, rows, values->tensor, axis, loc);
}

/* ---- any part ----------------------------------------------------------- */

/* What changes x elsewhere than in the part: factors and divisors are 1 there,
 * since a gradient also goes through what is not taken. */
static FeValue *
neutral_elsewhere(Lower *cx, FeValue *e, FeValue *mask, AstOp op, Loc loc)
{
    if (!mask || op == AST_OP_NONE || op == AST_OP_ADD || op == AST_OP_SUB)
        return e;
    DType dtype = e->tensor->type.dtype;
    FeValue *one = fe_cast(
        cx, fe_value_scalar(cx->arena, scalar_int(DT_i64, 1)), dtype, loc);
    return fe_op3(cx, OP_where, mask, e, one, loc);
}

/* x with e, by op, in a part whose numbers are known. */
static FeValue *
update_known(Lower *cx, IrValue *x, const FeIndices *indices, AstOp op,
             IrValue *e, Loc loc)
{
    FeValue *part = reshape_to_part(cx, e, &x->type, indices, loc);
    if (fe_is_poison(part))
        return part;
    FeValue *next = pad_to_whole(cx, part->tensor, &x->type, indices, loc);
    FeValue *mask = build_mask(cx, &x->type, indices, loc);
    FeValue *whole = fe_value_tensor(cx->arena, x);
    next = neutral_elsewhere(cx, next, mask, op, loc);
    if (op != AST_OP_NONE)
        next = fe_binary(cx, op, whole, next, loc);
    return mask ? fe_op3(cx, OP_where, mask, next, whole, loc) : next;
}

/* The first axis whose index is known only when the program runs; -1: none. */
static int
find_dynamic(const FeIndices *indices)
{
    for (int i = 0; i < indices->len; i++)
        if (indices->items[i].kind == INDEX_DYNAMIC)
            return i;
    return -1;
}

static FeIndices
without_axis(const FeIndices *indices, int axis)
{
    FeIndices rest = {.len = indices->len - 1};
    for (int i = 0; i < rest.len; i++)
        rest.items[i] = indices->items[i < axis ? i : i + 1];
    return rest;
}

/* x with e, by op, in the part that the indices mean: along the first axis
 * with a dynamic index one row changes. */
static FeValue *
update_part(Lower *cx, IrValue *x, const FeIndices *indices, AstOp op,
            IrValue *e, Loc loc)
{
    int axis = find_dynamic(indices);
    if (axis < 0)
        return update_known(cx, x, indices, op, e, loc);
    IrValue *number = indices->items[axis].value;
    FeIndices rest = without_axis(indices, axis);
    FeValue *row = fe_take(cx, x, number, axis, loc);
    if (!fe_is_poison(row))
        row = update_part(cx, row->tensor, &rest, op, e, loc);
    if (fe_is_poison(row))
        return row;
    return fe_scatter(cx, UPDATE_set, x, number, row->tensor, axis, loc);
}

static FeValue *
update_tensor(Lower *cx, FeValue *old, const AstNode *target, AstOp op,
              FeValue *value, Loc loc)
{
    FeIndices indices;
    IrValue *x = fe_operand(cx, old, target->index.value->loc);
    if (!x || !fe_indices(cx, target, x, &indices))
        return &fe_poison;
    IrValue *e = fe_operand_as(cx, value, x->type.dtype, loc);
    int axis = find_rows(&indices, op);
    if (axis >= 0)
        return e ? update_rows(cx, x, indices.items[axis].value, axis, op, e,
                               loc)
                 : &fe_poison;
    if (!check_assignable(cx, &indices, target->loc))
        return &fe_poison;
    return e ? update_part(cx, x, &indices, op, e, loc) : &fe_poison;
}

static FeValue *
update_nest(Lower *cx, FeValue *old, const AstNode *target, AstOp op,
            FeValue *value, Loc loc)
{
    FeValue *item = fe_index_of(cx, old, target);
    int64_t i;
    const AstNode *index = target->index.items.data[0];
    if (fe_is_poison(item))
        return item;
    if (!fe_require_int(cx, fe_eval(cx, index), "an index", index->loc, &i))
        return &fe_poison;
    if (op != AST_OP_NONE)
        value = fe_binary(cx, op, item, value, loc);
    FeValues items = {0};
    fe_value_items(cx->arena, old, &items);
    items.data[i < 0 ? i + old->nest.len : i] =
        fe_next_value(cx, "the item", item, value, loc);
    return fe_value_with_items(cx->arena, old, items.data);
}

/* The call that does to rows of a variable what the assignment says. */
static const char *
scatter_note(Lower *cx, const AstNode *target, AstOp op, const IrVar *var)
{
    const AstList *items = &target->index.items;
    const AstNode *index = items->data[0];
    bool is_row = items->len == 1 && index->kind != AST_SLICE &&
                  index->kind != AST_NONE && index->kind != AST_ELLIPSIS;
    const char *verb = op == AST_OP_ADD   ? "add"
                       : op == AST_OP_SUB ? "sub"
                       : op == AST_OP_MUL ? "mul"
                       : op == AST_OP_DIV ? "div"
                                          : "update";
    return fe_format(cx, "scatter_%s(%s, %s, values) %s rows of a variable",
                     verb, var->name,
                     is_row ? fe_ast_text(cx->arena, index) : "rows",
                     op == AST_OP_NONE ? "writes" : "changes");
}

/* ---- indices that are evaluated once ------------------------------------- */

/* Whether a second evaluation may have another value, or an effect. */
static bool
has_calls(const AstNode *n)
{
    const AstNode *child;
    if (n->kind == AST_CALL || n->kind == AST_IF)
        return true;
    for (AstIter it = fe_ast_children(n); (child = fe_ast_next_child(&it));)
        if (has_calls(child))
            return true;
    return false;
}

/* An index, or a name for its value, which is what was written. */
static AstNode *
evaluated_once(Lower *cx, AstNode *n)
{
    if (!n || !has_calls(n))
        return n;
    AstNode *once = NEW(cx->arena, AstNode);
    *once = *n;
    if (n->kind == AST_SLICE) {
        once->slice.start = evaluated_once(cx, n->slice.start);
        once->slice.stop = evaluated_once(cx, n->slice.stop);
        once->slice.step = evaluated_once(cx, n->slice.step);
        return once;
    }
    once->kind = AST_NAME;
    once->name.text = intern(cx->names, fe_ast_text(cx->arena, n));
    fe_bind(cx, cx->scope, once->name.text, fe_eval(cx, n), n->loc);
    return once;
}

/* x[i][j], whose parts are read from x and written to it, with the values of i
 * and j, in this order. */
static const AstNode *
with_known_indices(Lower *cx, const AstNode *target)
{
    if (target->kind != AST_INDEX || !has_calls(target))
        return target;
    AstNode *known = NEW(cx->arena, AstNode);
    *known = *target;
    known->index.value = (AstNode *)with_known_indices(cx, target->index.value);
    known->index.items = (AstList){0};
    for (int i = 0; i < target->index.items.len; i++)
        VEC_PUSH(cx->arena, known->index.items,
                 evaluated_once(cx, target->index.items.data[i]));
    return known;
}

static void
assign_part(Lower *cx, const AstNode *target, AstOp op, FeValue *value,
            const AstNode *node)
{
    FeValue *old = fe_eval(cx, target->index.value);
    FeValue *next = &fe_poison;
    switch (old->kind) {
    case FE_POISON:
        return;
    case FE_SLOT:
        next = fe_index_of(cx, old, target);
        if (next->kind == FE_VAR)
            fe_var_write(cx, next->var, op, value, node, node->loc);
        return;
    case FE_VAR:
        fe_error_note(cx, target->loc, scatter_note(cx, target, op, old->var),
                      "a part of a variable cannot be assigned to");
        return;
    case FE_NEST:
        next = update_nest(cx, old, target, op, value, node->loc);
        break;
    default:
        next = update_tensor(cx, old, target, op, value, node->loc);
        break;
    }
    fe_assign(cx, target->index.value, AST_OP_NONE, next, node);
}

void
fe_assign_index(Lower *cx, const AstNode *target, AstOp op, FeValue *value,
                const AstNode *node)
{
    FeScope *around = cx->scope;
    cx->scope = fe_scope_new(cx, around, SCOPE_BLOCK);
    assign_part(cx, with_known_indices(cx, target), op, value, node);
    cx->scope = around;
}
