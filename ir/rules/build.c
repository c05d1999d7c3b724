/*
 * build.c - making operations in a line each
 *
 * Every function here ends in ir_build_infer: an inference error is a mistake
 * of the caller, not of a user.
 */
#include "ir/ir.h"
#include "ir/rules/build.h"

#include <assert.h>
#include <string.h>
#include "ir/base/status.h"
#include "ir/type_bounds.h"

IrOp *
ir_build_op(IrBlock *b, IrOpKind kind, int num_operands,
            IrValue *const *operands, Loc loc)
{
    IrOp *op = ir_op_new(b->func, kind, num_operands, operands, loc);
    ir_append(b, op);
    for (int i = 0; i < ir_op_info[kind].num_regions; i++)
        ir_set_region(op, i, ir_block_new(b->func));
    return op;
}

IrValue *
ir_build_infer(IrOp *op)
{
    const char *wrong = ir_op_infer(op, op->block);
    if (wrong)
        UNREACHABLE("building %s: %s", ir_op_info[op->kind].name, wrong);
    return op->num_results ? op->results[0] : NULL;
}

IrValue *
ir_build0(IrBlock *b, IrOpKind kind, Loc loc)
{
    return ir_build_infer(ir_build_op(b, kind, 0, NULL, loc));
}

IrValue *
ir_build1(IrBlock *b, IrOpKind kind, IrValue *x, Loc loc)
{
    return ir_build_infer(ir_build_op(b, kind, 1, &x, loc));
}

IrValue *
ir_build2(IrBlock *b, IrOpKind kind, IrValue *x, IrValue *y, Loc loc)
{
    return ir_build_infer(ir_build_op(b, kind, 2, (IrValue *[]){x, y}, loc));
}

IrValue *
ir_build3(IrBlock *b, IrOpKind kind, IrValue *x, IrValue *y, IrValue *z,
          Loc loc)
{
    return ir_build_infer(ir_build_op(b, kind, 3, (IrValue *[]){x, y, z}, loc));
}

/* ---- constants --------------------------------------------------------- */

IrValue *
ir_const_data(IrBlock *b, DType t, int rank, const Dim *dims, const void *bytes,
              Loc loc)
{
    assert(rank >= 0 && rank <= IR_MAX_RANK);
    IrType type = {.dtype = t, .rank = rank};
    int64_t size;
    if (rank)
        memcpy(type.dims, dims, (size_t)rank * sizeof *dims);
    if (!ir_type_bytes(b->func->module, &type, &size))
        UNREACHABLE("a constant that is too large");
    IrOp *op = ir_build_op(b, OP_constant, 0, NULL, loc);
    ir_set_dims(op, A_dims, dims, rank);
    ir_set_int(op, A_dtype, t);
    ir_set_data(op, A_data, bytes, size);
    return ir_build_infer(op);
}

IrValue *
ir_const_scalar(IrBlock *b, Scalar x, Loc loc)
{
    char bytes[8];
    scalar_store(x.dtype, bytes, 0, x);
    return ir_const_data(b, x.dtype, 0, NULL, bytes, loc);
}

IrValue *
ir_const_float(IrBlock *b, DType t, double x, Loc loc)
{
    Scalar s = {.dtype = DT_f64, .f = x};
    return ir_const_scalar(b, scalar_cast(s, t), loc);
}

IrValue *
ir_const_int(IrBlock *b, DType t, int64_t x, Loc loc)
{
    Scalar s = {.dtype = DT_i64, .i = x};
    return ir_const_scalar(b, scalar_cast(s, t), loc);
}

IrValue *
ir_const_bool(IrBlock *b, bool x, Loc loc)
{
    return ir_const_int(b, DT_bool, x, loc);
}

IrValue *
ir_const_fill(IrBlock *b, DType t, int rank, const Dim *dims, Scalar x, Loc loc)
{
    IrValue *one = ir_const_scalar(b, scalar_cast(x, t), loc);
    return ir_build_broadcast(b, one, rank, dims, loc);
}

IrValue *
ir_const_zeros(IrBlock *b, const IrType *like, Loc loc)
{
    return ir_const_fill(b, like->dtype, like->rank, like->dims,
                         scalar_int(DT_i64, 0), loc);
}

/* The element of constant op, if all its elements are equal. */
static bool
uniform_element(const IrOp *op, Scalar *out)
{
    int64_t size;
    const char *data = ir_data(op, A_data, &size);
    DType t = (DType)ir_int(op, A_dtype);
    size_t width = dtype_info[t].bytes;
    if ((size_t)size < width)
        return false;
    for (size_t at = width; at < (size_t)size; at += width) {
        if (memcmp(data, data + at, width) != 0)
            return false;
    }
    *out = scalar_load(t, data, 0);
    return true;
}

bool
ir_const_known(const IrValue *v, Scalar *out)
{
    while (v->def && (v->def->kind == OP_broadcast ||
                      v->def->kind == OP_reshape || v->def->kind == OP_copy))
        v = v->def->operands[0];
    return v->def && v->def->kind == OP_constant &&
           uniform_element(v->def, out);
}

/* ---- operations with attributes ---------------------------------------- */

static bool
has_shape(const IrValue *x, int rank, const Dim *dims)
{
    IrType t = {.rank = rank};
    if (rank)
        memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    return ir_type_same_shape(&x->type, &t);
}

IrValue *
ir_build_cast(IrBlock *b, IrValue *x, DType to, Loc loc)
{
    assert(to < NUM_DTYPES);
    if (x->type.dtype == to)
        return x;
    IrOp *op = ir_build_op(b, OP_cast, 1, &x, loc);
    ir_set_int(op, A_dtype, to);
    return ir_build_infer(op);
}

static IrValue *
build_shaped(IrBlock *b, IrOpKind kind, IrValue *x, int rank, const Dim *dims,
             Loc loc)
{
    assert(rank >= 0 && rank <= IR_MAX_RANK);
    if (has_shape(x, rank, dims))
        return x;
    IrOp *op = ir_build_op(b, kind, 1, &x, loc);
    ir_set_dims(op, A_dims, dims, rank);
    return ir_build_infer(op);
}

IrValue *
ir_build_broadcast(IrBlock *b, IrValue *x, int rank, const Dim *dims, Loc loc)
{
    return build_shaped(b, OP_broadcast, x, rank, dims, loc);
}

IrValue *
ir_build_reshape(IrBlock *b, IrValue *x, int rank, const Dim *dims, Loc loc)
{
    return build_shaped(b, OP_reshape, x, rank, dims, loc);
}

IrValue *
ir_build_reduce(IrBlock *b, IrOpKind kind, IrValue *x, const int64_t *axes,
                int num_axes, bool keepdims, Loc loc)
{
    assert(ir_op_info[kind].traits & REDUCES);
    IrOp *op = ir_build_op(b, kind, 1, &x, loc);
    ir_set_ints(op, A_axes, axes, num_axes);
    if (keepdims)
        ir_set_int(op, A_keepdims, 1);
    return ir_build_infer(op);
}

IrValue *
ir_build_sum_all(IrBlock *b, IrValue *x, Loc loc)
{
    static const int64_t axes[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    return ir_build_reduce(b, OP_sum, x, axes, x->type.rank, false, loc);
}

IrValue *
ir_build_transpose(IrBlock *b, IrValue *x, const int64_t *perm, Loc loc)
{
    IrOp *op = ir_build_op(b, OP_transpose, 1, &x, loc);
    ir_set_ints(op, A_perm, perm, x->type.rank);
    return ir_build_infer(op);
}

static IrValue *
build_strided(IrBlock *b, IrOpKind kind, IrValue *x, IrAttrName first_name,
              const int64_t *first, const Dim *dims, const int64_t *step,
              Loc loc)
{
    int rank = x->type.rank;
    IrOp *op = ir_build_op(b, kind, 1, &x, loc);
    ir_set_ints(op, first_name, first, rank);
    ir_set_dims(op, A_dims, dims, rank);
    ir_set_ints(op, A_step, step, rank);
    return ir_build_infer(op);
}

IrValue *
ir_build_slice(IrBlock *b, IrValue *x, const int64_t *start, const Dim *dims,
               const int64_t *step, Loc loc)
{
    return build_strided(b, OP_slice, x, A_start, start, dims, step, loc);
}

IrValue *
ir_build_pad(IrBlock *b, IrValue *x, const int64_t *low, const Dim *dims,
             const int64_t *step, Loc loc)
{
    return build_strided(b, OP_pad, x, A_low, low, dims, step, loc);
}

IrValue *
ir_build_reverse(IrBlock *b, IrValue *x, const int64_t *axes, int num_axes,
                 Loc loc)
{
    IrOp *op = ir_build_op(b, OP_reverse, 1, &x, loc);
    ir_set_ints(op, A_axes, axes, num_axes);
    return ir_build_infer(op);
}

IrValue *
ir_build_concat(IrBlock *b, int n, IrValue *const *xs, int64_t axis, Loc loc)
{
    assert(n > 0 && axis >= 0 && axis < xs[0]->type.rank);
    IrOp *op = ir_build_op(b, OP_concat, n, xs, loc);
    ir_set_int(op, A_axis, axis);
    return ir_build_infer(op);
}

IrValue *
ir_build_scatter(IrBlock *b, IrUpdate mode, IrValue *x, IrValue *rows,
                 IrValue *values, int64_t axis, Loc loc)
{
    assert(x->type.dtype == values->type.dtype);
    assert(axis >= 0 && axis < x->type.rank);
    IrOp *op =
        ir_build_op(b, OP_scatter, 3, (IrValue *[]){x, rows, values}, loc);
    ir_set_enum(op, A_mode, mode);
    if (axis)
        ir_set_int(op, A_axis, axis);
    return ir_build_infer(op);
}

IrValue *
ir_build_add_rows(IrBlock *b, IrValue *x, IrValue *rows, IrValue *values,
                  int64_t axis, Loc loc)
{
    DType narrow = x->type.dtype, wide = dtype_compute(narrow);
    Dim count;
    if (ir_type_elements(&rows->type, &count) &&
        ir_dim_equal(count, ir_dim_const(1)))
        wide = narrow; /* one addition */
    x = ir_build_cast(b, x, wide, loc);
    values = ir_build_cast(b, values, wide, loc);
    x = ir_build_scatter(b, UPDATE_add, x, rows, values, axis, loc);
    return ir_build_cast(b, x, narrow, loc);
}

IrValue *
ir_build_iota(IrBlock *b, DType t, int rank, const Dim *dims, int64_t axis,
              Loc loc)
{
    assert(axis >= 0 && axis < rank);
    IrOp *op = ir_build_op(b, OP_iota, 0, NULL, loc);
    ir_set_dims(op, A_dims, dims, rank);
    ir_set_int(op, A_dtype, t);
    ir_set_int(op, A_axis, axis);
    return ir_build_infer(op);
}

IrValue *
ir_build_dot(IrBlock *b, IrValue *x, IrValue *y, const IrDotAxes *axes, Loc loc)
{
    assert(axes->num_contract >= 0 && axes->num_batch >= 0);
    IrOp *op = ir_build_op(b, OP_dot, 2, (IrValue *[]){x, y}, loc);
    ir_set_ints(op, A_contract_x, axes->contract_x, axes->num_contract);
    ir_set_ints(op, A_contract_y, axes->contract_y, axes->num_contract);
    if (axes->num_batch) {
        ir_set_ints(op, A_batch_x, axes->batch_x, axes->num_batch);
        ir_set_ints(op, A_batch_y, axes->batch_y, axes->num_batch);
    }
    return ir_build_infer(op);
}

IrValue *
ir_build_dim_size(IrBlock *b, Dim d, Loc loc)
{
    IrOp *op = ir_build_op(b, OP_dim_size, 0, NULL, loc);
    ir_set_dims(op, A_dims, &d, 1);
    return ir_build_infer(op);
}

IrValue *
ir_build_param(IrBlock *b, const char *param, Loc loc)
{
    IrOp *op = ir_build_op(b, OP_param, 0, NULL, loc);
    ir_set_text(op, A_param, param);
    return ir_build_infer(op);
}

IrValue *
ir_build_read(IrBlock *b, const char *var, Loc loc)
{
    IrOp *op = ir_build_op(b, OP_read, 0, NULL, loc);
    ir_set_text(op, A_var, var);
    return ir_build_infer(op);
}

IrOp *
ir_build_write(IrBlock *b, const char *var, IrUpdate mode, IrValue *x, Loc loc)
{
    IrOp *op = ir_build_op(b, OP_write, 1, &x, loc);
    ir_set_text(op, A_var, var);
    ir_set_enum(op, A_mode, mode);
    ir_build_infer(op);
    return op;
}

IrOp *
ir_build_all_reduce(IrBlock *b, IrAgg how, int n, IrValue *const *xs, Loc loc)
{
    IrOp *op = ir_build_op(b, OP_all_reduce, n, xs, loc);
    ir_set_enum(op, A_op, how);
    ir_build_infer(op);
    return op;
}

IrValue *
ir_build_all_gather(IrBlock *b, IrValue *x, int64_t axis, Loc loc)
{
    IrOp *op = ir_build_op(b, OP_all_gather, 1, &x, loc);
    ir_set_int(op, A_axis, axis);
    return ir_build_infer(op);
}

IrOp *
ir_build_yield(IrBlock *b, int n, IrValue *const *xs, Loc loc)
{
    return ir_build_op(b, OP_yield, n, xs, loc);
}

IrOp *
ir_build_return(IrBlock *b, int n, IrValue *const *xs, Loc loc)
{
    return ir_build_op(b, OP_return, n, xs, loc);
}
