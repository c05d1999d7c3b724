/*
 * grad_rules_rows.c - gradients of take and scatter
 *
 * The gradient of take is added to the rows that were taken, in the order of
 * the indices: a scatter into the gradient so far. (A variable that is only
 * read by rows never gets such a gradient: the front end asks for the gradient
 * of the rows and keeps it as slices, D12.)
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

/* Where x has a gradient already, the rows are added to that: a loop that takes
 * one row after the other changes nothing else in each step. */
void
pass_grad_rule_take(Grad *g, const IrOp *op)
{
    IrValue *x = op->operands[0];
    int axis = (int)ir_int(op, A_axis);
    if (!pass_grad_wanted(g, x))
        return;
    IrValue *rows = clamped(g, op->operands[1], x->type.dims[axis]);
    pass_grad_add_rows(g, x, rows, pass_grad_out(g, op), axis);
}

/* ---- scatter ------------------------------------------------------------ */

/* Rows of x along axis by index, in range. */
static IrValue *
take_rows(Grad *g, IrValue *x, IrValue *index, int64_t axis)
{
    IrOp *op = ir_build_op(g->b, OP_take, 2, (IrValue *[]){x, index}, g->loc);
    ir_set_int(op, A_axis, axis);
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
    t.dims[0] = op->operands[0]->type.dims[ir_int(op, A_axis)];
    IrValue *last = ir_const_zeros(g->b, &t, g->loc);
    last = ir_build_scatter(g->b, UPDATE_set, last, op->operands[1], number, 0,
                            g->loc);
    return pass_grad2(g, OP_eq, take_rows(g, last, in_range, 0), number);
}

/* x where the condition of its row holds, else 0; the rows lie along axis. */
static IrValue *
where_rows(Grad *g, IrValue *condition, IrValue *x, int64_t axis)
{
    Dim dims[IR_MAX_RANK];
    int rows = condition->type.rank;
    for (int i = 0; i < x->type.rank; i++)
        dims[i] = i >= axis && i < axis + rows ? condition->type.dims[i - axis]
                                               : ir_dim_const(1);
    condition = ir_build_reshape(g->b, condition, x->type.rank, dims, g->loc);
    return pass_grad3(g, OP_where, condition, x, pass_grad_constant(g, x, 0));
}

/* The part of dy that the values of the scatter op are in. */
static IrValue *
part_of_values(Grad *g, const IrOp *op, IrValue *in_range, IrValue *is)
{
    int64_t axis = ir_int(op, A_axis);
    IrValue *d = take_rows(g, pass_grad_out(g, op), in_range, axis);
    return where_rows(g, is, d, axis);
}

/* The old row has no effect on the result, and of several values only the last
 * one has.  (What is taken comes first: then dy may become dx in place.) */
static void
set_rows(Grad *g, const IrOp *op, IrValue *in_range)
{
    IrValue *x = op->operands[0], *values = op->operands[2];
    IrValue *dy = pass_grad_out(g, op);
    IrValue *is = are_rows(g, op->operands[1], in_range);
    if (op->operands[1]->type.rank) {
        IrValue *last = are_last(g, op, in_range);
        if (!last)
            return;
        is = pass_grad2(g, OP_and, is, last);
    }
    IrValue *d = part_of_values(g, op, in_range, is);
    if (pass_grad_sets_own_row(g, op)) {
        pass_grad_add(g, x, dy);
    } else if (pass_grad_wanted(g, x)) {
        IrValue *zeros = ir_const_zeros(g->b, &values->type, g->loc);
        pass_grad_add(g, x,
                      ir_build_scatter(g->b, UPDATE_set, dy, op->operands[1],
                                       zeros, ir_int(op, A_axis), g->loc));
    }
    pass_grad_add(g, values, d);
}

static void
add_rows(Grad *g, const IrOp *op, IrValue *in_range, bool subtracts)
{
    IrValue *is = are_rows(g, op->operands[1], in_range);
    IrValue *d = part_of_values(g, op, in_range, is);
    pass_grad_add(g, op->operands[0], pass_grad_out(g, op));
    pass_grad_add(g, op->operands[2], subtracts ? pass_grad1(g, OP_neg, d) : d);
}

void
pass_grad_rule_scatter(Grad *g, const IrOp *op)
{
    IrUpdate mode = (IrUpdate)ir_enum(op, A_mode);
    Dim size = op->operands[0]->type.dims[ir_int(op, A_axis)];
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
