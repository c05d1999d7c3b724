/*
 * grad_rules_rows.c - gradients of take and scatter
 *
 * The gradient of take is added to the rows that were taken, in the order of
 * the indices: a scatter into zeros. (A variable that is only read by rows
 * never gets such a gradient: the front end asks for the gradient of the rows
 * and keeps it as slices, D12.)
 */
#include <string.h>
#include "ir/rules/build.h"
#include "passes/autodiff/grad.h"

/* The indices as i64, clamped to the rows that take read. */
static IrValue *
clamped(Grad *g, IrValue *index, Dim size)
{
    IrValue *x = ir_build_cast(g->b, index, DT_i64, g->loc);
    IrValue *one = pass_grad_constant(g, x, 1);
    IrValue *last = ir_dim_is_const(size)
                        ? ir_const_int(g->b, DT_i64, size.c, g->loc)
                        : ir_build_dim_size(g->b, size, g->loc);
    x = pass_grad2(g, OP_minimum, x, pass_grad2(g, OP_sub, last, one));
    return pass_grad2(g, OP_maximum, x, pass_grad_constant(g, x, 0));
}

/* ---- take --------------------------------------------------------------- */

/* dy of a take along axis with the axes of its indices in front. */
static IrValue *
indices_first(Grad *g, IrValue *dy, int axis, int num)
{
    int64_t perm[IR_MAX_RANK];
    int next = 0;
    for (int i = 0; i < num; i++)
        perm[next++] = axis + i;
    for (int i = 0; i < dy->type.rank; i++)
        if (i < axis || i >= axis + num)
            perm[next++] = i;
    return axis && num ? ir_build_transpose(g->b, dy, perm, g->loc) : dy;
}

/* x with its first axis at axis. */
static IrValue *
first_to(Grad *g, IrValue *x, int axis)
{
    int64_t perm[IR_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++)
        perm[i] = i == axis ? 0 : i < axis ? i + 1 : i;
    return axis ? ir_build_transpose(g->b, x, perm, g->loc) : x;
}

void
pass_grad_rule_take(Grad *g, const IrOp *op)
{
    IrValue *x = op->operands[0], *index = op->operands[1];
    int axis = (int)ir_int(op, A_axis);
    IrType t = x->type;
    if (!pass_grad_wanted(g, x))
        return;
    for (int i = axis; i > 0; i--)
        t.dims[i] = x->type.dims[i - 1];
    t.dims[0] = x->type.dims[axis];
    IrValue *zeros = ir_const_zeros(g->b, &t, g->loc);
    IrValue *rows = clamped(g, index, t.dims[0]);
    IrValue *values =
        indices_first(g, pass_grad_out(g, op), axis, index->type.rank);
    IrValue *d = ir_build_add_rows(g->b, zeros, rows, values, g->loc);
    pass_grad_add(g, x, first_to(g, d, axis));
}

/* ---- scatter ------------------------------------------------------------ */

/* Rows of x by index, in range. */
static IrValue *
take_rows(Grad *g, IrValue *x, IrValue *index)
{
    IrOp *op = ir_build_op(g->b, OP_take, 2, (IrValue *[]){x, index}, g->loc);
    ir_set_int(op, A_axis, 0);
    return ir_build_infer(op);
}

/* Which indices name existing rows. */
static IrValue *
are_rows(Grad *g, IrValue *index, IrValue *in_range)
{
    IrValue *x = ir_build_cast(g->b, index, DT_i64, g->loc);
    return pass_grad2(g, OP_eq, x, in_range);
}

/* The number of each index; NULL, with an error, if they cannot be counted in
 * one batch symbol. */
static IrValue *
numbers(Grad *g, const IrOp *op)
{
    const IrType *t = &op->operands[1]->type;
    Dim count = ir_dim_const(1);
    for (int i = 0; i < t->rank; i++)
        if (!ir_dim_mul(count, t->dims[i], &count)) {
            pass_grad_error(g->cx, op, NULL,
                            "no gradient through rows of two batches");
            return NULL;
        }
    IrValue *n = ir_build_iota(g->b, DT_i64, 1, &count, 0, g->loc);
    return ir_build_reshape(g->b, n, t->rank, t->dims, g->loc);
}

/* Which indices are the last of their row, which has their values now. */
static IrValue *
are_last(Grad *g, const IrOp *op, IrValue *in_range)
{
    IrValue *number = numbers(g, op);
    if (!number)
        return NULL;
    IrType t = {.dtype = DT_i64, .rank = 1};
    t.dims[0] = op->operands[0]->type.dims[0];
    IrValue *last = ir_const_zeros(g->b, &t, g->loc);
    last = ir_build_scatter(g->b, UPDATE_set, last, op->operands[1], number,
                            g->loc);
    return pass_grad2(g, OP_eq, take_rows(g, last, in_range), number);
}

/* x where the condition of its row holds, else 0. */
static IrValue *
where_rows(Grad *g, IrValue *condition, IrValue *x)
{
    Dim dims[IR_MAX_RANK];
    int rows = condition->type.rank;
    for (int i = 0; i < x->type.rank; i++)
        dims[i] = i < rows ? condition->type.dims[i] : ir_dim_const(1);
    condition = ir_build_reshape(g->b, condition, x->type.rank, dims, g->loc);
    return pass_grad3(g, OP_where, condition, x, pass_grad_constant(g, x, 0));
}

/* The old row has no effect on the result, and of several values only the last
 * one has. */
static void
set_rows(Grad *g, const IrOp *op, IrValue *in_range)
{
    IrValue *x = op->operands[0], *values = op->operands[2];
    IrValue *dy = pass_grad_out(g, op);
    IrValue *last = are_last(g, op, in_range);
    if (!last)
        return;
    IrValue *zeros = ir_const_zeros(g->b, &values->type, g->loc);
    if (pass_grad_wanted(g, x))
        pass_grad_add(g, x,
                      ir_build_scatter(g->b, UPDATE_set, dy, op->operands[1],
                                       zeros, g->loc));
    IrValue *is =
        pass_grad2(g, OP_and, are_rows(g, op->operands[1], in_range), last);
    pass_grad_add(g, values, where_rows(g, is, take_rows(g, dy, in_range)));
}

static void
add_rows(Grad *g, const IrOp *op, IrValue *in_range, bool subtracts)
{
    IrValue *dy = pass_grad_out(g, op);
    pass_grad_add(g, op->operands[0], dy);
    IrValue *d = take_rows(g, dy, in_range);
    d = where_rows(g, are_rows(g, op->operands[1], in_range), d);
    pass_grad_add(g, op->operands[2], subtracts ? pass_grad1(g, OP_neg, d) : d);
}

void
pass_grad_rule_scatter(Grad *g, const IrOp *op)
{
    IrUpdate mode = (IrUpdate)ir_enum(op, A_mode);
    Dim size = op->operands[0]->type.dims[0];
    if (ir_dim_equal(size, ir_dim_const(0))) {
        pass_grad_add(g, op->operands[0], pass_grad_out(g, op));
        return;
    }
    IrValue *in_range = clamped(g, op->operands[1], size);
    if (mode == UPDATE_set)
        set_rows(g, op, in_range);
    else if (mode == UPDATE_add || mode == UPDATE_sub)
        add_rows(g, op, in_range, mode == UPDATE_sub);
    else
        pass_grad_error(g->cx, op, NULL,
                        "no gradient through rows changed by %s",
                        ir_enum_word(op, A_mode));
}
