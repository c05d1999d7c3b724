/*
 * kernel_rules.c - how each operation computes an element of its result
 *
 * One rule for each operation: it maps an element of the result to the elements
 * of the operands that it is computed from.  Beginning with the outputs, rules
 * call each other up to the inputs, so that operations which only move elements
 * become index arithmetic and leave no node.
 */
#include "backend/kernel/kernel_expr.h"

#include <string.h>

/* ---- memory ------------------------------------------------------------- */

static bool
all_equal(const char *bytes, int64_t size, size_t element)
{
    for (int64_t i = (int64_t)element; i < size; i++) {
        if (bytes[i] != bytes[i - (int64_t)element])
            return false;
    }
    return true;
}

static KArray *
table_of(Build *b, DType dtype, const void *data, int64_t count)
{
    size_t bytes = (size_t)count * dtype_info[dtype].bytes;
    for (int i = 0; i < b->k->arrays[K_TABLE].len; i++) {
        KArray *t = b->k->arrays[K_TABLE].data[i];
        if (t->dtype == dtype && t->size.c == count &&
            memcmp(t->data, data, bytes) == 0)
            return t;
    }
    KArray *t = be_kernel_array(b->k, K_TABLE, dtype, ir_dim_const(count));
    t->data = arena_copy(b->k->arena, data, bytes);
    return t;
}

static Expr *
at_constant(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    int64_t size;
    const void *data = ir_data(op, A_data, &size);
    DType dtype = op->results[0]->type.dtype;
    size_t element = dtype_info[dtype].bytes;
    if (size == 0) /* never computed */
        return be_expr_const(b, scalar_int(dtype, 0));
    if (all_equal(data, size, element))
        return be_expr_const(b, scalar_load(dtype, data, 0));
    KArray *t = table_of(b, dtype, data, size / (int64_t)element);
    return be_value_load(b, t, view, guard);
}

/* ---- numbers that are known without memory ------------------------------ */

static Expr *
index_value(Build *b, KIndex x, DType dtype)
{
    Expr *e =
        be_expr_make(b, &(KNode){.kind = K_INDEX, .dtype = DT_i64, .index = x});
    return dtype == DT_i64 ? e : be_expr_cast(b, e, dtype);
}

static Expr *
at_iota(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    (void)guard;
    return index_value(b, view->at[ir_int(op, A_axis)],
                       op->results[0]->type.dtype);
}

static Dim
dim_attr(Build *b, const IrOp *op)
{
    int count;
    return be_kernel_dim(b, ir_dims(op, A_dims, &count)[0]);
}

static Expr *
at_dim_size(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    (void)view, (void)guard;
    return index_value(b, be_lin_const(dim_attr(b, op)), DT_i64);
}

static Expr *
at_replica_id(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    (void)op, (void)view, (void)guard;
    return be_expr_make(b, &(KNode){.kind = K_REPLICA_ID, .dtype = DT_i32});
}

static Expr *
at_row_start(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    (void)view, (void)guard;
    return be_expr_make(b, &(KNode){.kind = K_ROW_START,
                                    .dtype = DT_i64,
                                    .pair = dim_attr(b, op).sym / 2});
}

/* ---- elementwise -------------------------------------------------------- */

/* A cast that only widens does nothing: the value is an f32 already. */
static Expr *
converted(Build *b, Expr *e, DType from, DType to)
{
    return to == from || to == dtype_compute(from) ? e : be_expr_cast(b, e, to);
}

static Expr *
at_elementwise(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    /* In a view of another shape, all operands with several elements have the
     * result's shape. */
    bool foreign =
        !be_shape_equal(&view->shape, be_value_shape(b, op->results[0]));
    Expr *args[K_MAX_ARGS];
    for (int i = 0; i < op->num_operands; i++) {
        const IrValue *x = op->operands[i];
        View at = foreign && !be_shape_is_single(be_value_shape(b, x))
                      ? *view
                      : be_view_broadcast(b, x, view);
        args[i] = be_value_at(b, x, &at, guard);
    }
    DType dtype = op->results[0]->type.dtype;
    if (op->kind == OP_cast)
        return converted(b, args[0], op->operands[0]->type.dtype, dtype);
    if (op->kind == OP_stop_gradient)
        return args[0];
    Expr *e = be_expr_map(b, op->kind, dtype, op->num_operands, args);
    return ir_op_code(op->kind)->exact ? e : be_expr_rounded(b, e, dtype);
}

/* ---- along an axis, in order -------------------------------------------- */

/* The output index that x equals; else NULL. */
static ExprVar *
lone_index(const KIndex *x)
{
    bool lone = x->num_terms == 1 && ir_dim_equal(x->base, ir_dim_const(0)) &&
                dim_is_one(x->terms[0].coef);
    ExprVar *v = lone ? var_of(x->terms[0].var) : NULL;
    return v && v->is_root && !v->divide ? v : NULL;
}

/* The loop over an index of the output becomes a scan. */
static Expr *
at_cumsum(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    DType dtype = op->results[0]->type.dtype;
    const KIndex *along = &view->at[ir_int(op, A_axis)];
    bool exclusive = ir_int(op, A_exclusive);
    LoopOrder order = ir_int(op, A_reverse) ? BACKWARDS : FORWARDS;
    if (dim_is_one(view->shape.dims[ir_int(op, A_axis)]))
        return exclusive ? be_expr_zero(b, dtype)
                         : be_value_at(b, op->operands[0], view, guard);
    ExprVar *v = lone_index(along);
    if (!v || v->order != FREE_ORDER || guard) {
        be_expr_fail(b, "the running sum of a kernel is not what it gives");
        return be_expr_zero(b, dtype);
    }
    v->order = order;
    KNode n = {.kind = K_RUNNING, .dtype = dtype_compute(dtype)};
    n.running.exclusive = exclusive;
    n.running.along = be_lin_var(b, v);
    n.running.value = &be_value_at(b, op->operands[0], view, guard)->node;
    return be_expr_rounded(b, be_expr_make(b, &n), dtype);
}

/* A sort that is a result is made by be_nest_build. */
static Expr *
at_argsort(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    (void)op, (void)view, (void)guard;
    be_expr_fail(b, "the order of a kernel's argsort is not what it gives");
    return be_expr_const(b, scalar_int(DT_i64, 0));
}

/* By the number of its element, clamped. */
static Expr *
at_reorder(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    int last = view->shape.rank - 1;
    View at = *view;
    at.shape = *be_value_shape(b, op->operands[0]);
    Dim size = at.shape.dims[last];
    if (dim_is_one(size))
        return be_value_at(b, op->operands[0], &at, guard);
    if (ir_dim_equal(size, ir_dim_const(0))) /* never computed */
        return be_expr_zero(b, op->results[0]->type.dtype);
    at.at[last] =
        be_lin_pick(b, be_value_at(b, op->operands[1], view, guard), size);
    if (ir_dim_is_const(size))
        return be_value_at(b, op->operands[0], &at, guard);
    Expr *inside = be_expr_inside(b, at.at[last], size);
    return be_value_masked(b, op->operands[0], &at, inside,
                           be_expr_and(b, guard, inside));
}

/* ---- rules by operation ------------------------------------------------- */

static ValueRule *const rules[NUM_OPS] = {
    [OP_constant] = at_constant,
    [OP_iota] = at_iota,
    [OP_dim_size] = at_dim_size,
    [OP_replica_id] = at_replica_id,
    [OP_row_start] = at_row_start,
    [OP_dot] = be_at_dot,
    [OP_copy] = be_at_same,
    [OP_broadcast] = be_at_broadcast,
    [OP_transpose] = be_at_transpose,
    [OP_slice] = be_at_slice,
    [OP_pad] = be_at_pad,
    [OP_reverse] = be_at_reverse,
    [OP_concat] = be_at_concat,
    [OP_take] = be_at_take,
    [OP_conv] = be_at_conv,
    [OP_conv_weights] = be_at_conv_weights,
    [OP_cumsum] = at_cumsum,
    [OP_reorder] = at_reorder,
    [OP_argsort] = at_argsort,
};

ValueRule *
be_rule_of(const IrOp *op)
{
    unsigned traits = ir_op_info[op->kind].traits;
    if (traits & ELEMENTWISE)
        return at_elementwise;
    if (ir_op_info[op->kind].code == CODE_reshape)
        return be_at_same;
    return traits & REDUCES ? be_at_reduce : rules[op->kind];
}
