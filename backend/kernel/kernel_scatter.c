/*
 * kernel_scatter.c - changes rows in place
 *
 * A scatter is the only operation that maps its operands to places in the
 * result, not the reverse.  Its output begins as the operand whose rows it
 * changes, and the kernel goes through the indices in order, for all columns
 * side by side:
 *
 *   out out0: f32[6400] from in0
 *   grid vector i0 < 64 {
 *     ordered i1 < 32 {
 *       %0: i64 = load in1[i1]
 *       ...
 *       i2 < 100 = pick %0
 *       %5: f32 = load out0[i0 + 64*i2] if %4
 *       %6: f32 = add %5, %3
 *       store out0[i0 + 64*i2], %6 if %4
 *
 * Columns are independent, so threads divide them; the result of a row depends
 * only on the order of the indices. %4 is whether the row exists.
 *
 * Where there is one index, what is stored in its row may be among other
 * results of the same elements:
 *
 *   grid vector i0 < 64 {
 *     ...
 *     store out0[i0], %3
 *     store out1[i0 + 64*i1], %3 if %9
 */
#include "backend/kernel/kernel_expr.h"
#include "ir/segments.h"

/* The operation that combines a row and its value; OP_copy: none. */
static IrOpKind
fold_of(const IrOp *op)
{
    return ir_update_op((IrUpdate)ir_enum(op, A_mode),
                        dtype_is_float(op->results[0]->type.dtype));
}

/* Whether v is a parameter of the region whose only use is one operand of op.
 */
static bool
is_own_parameter(const IrOp *op, const IrValue *v)
{
    int uses = 0;
    for (const IrOp *x = op->block->first; x; x = x->next)
        for (int i = 0; i < x->num_operands; i++)
            uses += x->operands[i] == v;
    return v->block == op->block && uses == 1;
}

static KIndex
new_index(Build *b, Dim extent, bool is_column, Output *o)
{
    if (dim_is_one(extent))
        return be_lin_const(ir_dim_const(0));
    ExprVar *v = be_expr_loop_var(b, extent);
    v->is_root = is_column;
    if (is_column)
        VEC_PUSH(b->scratch, o->vars, v);
    else
        o->ordered.vars[o->ordered.count++] = &v->var;
    return be_lin_var(b, v);
}

/* The number at an index, as an i64. */
static Expr *
row_number(Build *b, const IrValue *rows, const View *at)
{
    Expr *row = be_value_at(b, rows, at, NULL);
    return row->node.dtype == DT_i64 ? row : be_expr_cast(b, row, DT_i64);
}

static Expr *
is_row(Build *b, Expr *row, Dim size)
{
    KNode last = {.kind = K_INDEX, .dtype = DT_i64, .index = {.base = size}};
    Expr *zero = be_expr_const(b, scalar_int(DT_i64, 0));
    Expr *end = ir_dim_is_const(size)
                    ? be_expr_const(b, scalar_int(DT_i64, size.c))
                    : be_expr_make(b, &last);
    Expr *low = be_expr_map(b, OP_ge, DT_bool, 2, (Expr *[]){row, zero});
    Expr *high = be_expr_map(b, OP_lt, DT_bool, 2, (Expr *[]){row, end});
    return be_expr_and(b, low, high);
}

const IrOp *
be_scatter_of(const IrValue *result)
{
    const IrOp *op = result->def;
    return op && op->kind == OP_scatter ? op : NULL;
}

/* Where o is stored, whether it is, and how it is combined: in the row that the
 * index at `rows` names, at the other indices of `to`. */
static void
find_row(Build *b, const IrOp *op, const View *rows, View *to, Output *o)
{
    int axis = (int)ir_int(op, A_axis);
    Dim size = to->shape.dims[axis];
    Expr *row = row_number(b, op->operands[1], rows);
    o->fold = fold_of(op);
    o->guard = is_row(b, row, size);
    if (!dim_is_one(size) && !ir_dim_equal(size, ir_dim_const(0)))
        to->at[axis] = be_lin_pick(b, row, size);
    o->at = be_view_linear(b, to);
}

bool
be_scatter_begins(Build *b, const IrOp *op, Output *o)
{
    const IrValue *x = op->operands[0];
    if (is_own_parameter(op, x) && (b->outputs.len == 1 || ir_updates_part(op)))
        o->array->from = b->k->arrays[K_IN].data[x->index];
    else
        be_expr_fail(b, "a scatter is not alone with the rows it changes");
    return o->array->from != NULL;
}

void
be_scatter_part(Build *b, const IrOp *op, const View *part, Output *o)
{
    View to = be_view_of(b, op->operands[0]);
    View place = be_view_of(b, op->operands[1]);
    int axis = (int)ir_int(op, A_axis), more = place.shape.rank - 1;
    for (int i = 0; i < to.shape.rank; i++)
        if (i != axis)
            to.at[i] = part->at[i < axis ? i : i + more];
    find_row(b, op, &place, &to, o);
}

void
be_scatter_bind(Build *b, const IrOp *op, Output *o)
{
    View to = be_view_of(b, op->operands[0]);
    View values = be_view_of(b, op->operands[2]);
    View rows = be_view_of(b, op->operands[1]);
    int axis = (int)ir_int(op, A_axis), num = rows.shape.rank;
    for (int i = 0; i < to.shape.rank; i++)
        if (i != axis)
            to.at[i] = new_index(b, to.shape.dims[i], true, o);
    for (int i = 0; i < num; i++)
        rows.at[i] = new_index(b, rows.shape.dims[i], false, o);
    for (int i = 0; i < values.shape.rank; i++)
        values.at[i] = i < axis         ? to.at[i]
                       : i < axis + num ? rows.at[i - axis]
                                        : to.at[i - num + 1];
    find_row(b, op, &rows, &to, o);
    o->value = be_value_at(b, op->operands[2], &values, NULL);
}
