/*
 * builtins_slices.c - what values are made of: slices, is_slices, dense,
 * is_variable
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/shape_ops.h"
#include "frontend/emit/slices.h"
#include "ir/type_text.h"

FeValue *
fe_builtin_dense(Lower *cx, const FeArgs *in)
{
    FeValue *v = fe_arg(in, 0);
    if (fe_is_slices(v))
        return fe_slices_dense(cx, v, in->loc);
    return fe_value_tensor(cx->arena, fe_operand(cx, v, fe_arg_loc(in, 0)));
}

FeValue *
fe_builtin_is_slices(Lower *cx, const FeArgs *in)
{
    return fe_value_bool(cx->arena, fe_is_slices(fe_arg(in, 0)));
}

FeValue *
fe_builtin_is_variable(Lower *cx, const FeArgs *in)
{
    return fe_value_bool(cx->arena, fe_arg(in, 0)->kind == FE_VAR);
}

/* Whether a replica's own value is only held here, not computed with. */
static bool
is_handle(const Lower *cx, const IrValue *x)
{
    return fe_is_cross(cx) && x->type.locality == LOCAL_PER_REPLICA;
}

/* Checks that values are rows and that as many are named. */
static bool
check_parts(Lower *cx, const FeArgs *in, const IrValue *values,
            const IrValue *indices)
{
    const IrType *v = &values->type, *i = &indices->type;
    if (!dtype_is_int(i->dtype) || i->rank != 1)
        fe_error(cx, fe_arg_loc(in, 1),
                 "the indices of slices are integers of one dimension, not %s",
                 fe_type_text(cx, i));
    else if (v->rank == 0 || !ir_dim_equal(v->dims[0], i->dims[0]))
        fe_error(cx, fe_arg_loc(in, 0),
                 "values of shape %s, and indices of shape %s: each index has "
                 "its row of values",
                 ir_dims_text(cx->module, v->rank, v->dims),
                 ir_dims_text(cx->module, i->rank, i->dims));
    else
        return true;
    return false;
}

FeValue *
fe_builtin_slices(Lower *cx, const FeArgs *in)
{
    int64_t rows = 0;
    IrValue *values = fe_handle(cx, fe_arg(in, 0), fe_arg_loc(in, 0));
    IrValue *indices = fe_handle(cx, fe_arg(in, 1), fe_arg_loc(in, 1));
    if (!values || !indices || !fe_arg_int(cx, in, 2, "rows", &rows) ||
        !check_parts(cx, in, values, indices))
        return &fe_poison;
    if (rows < 1)
        return fe_error(cx, fe_arg_loc(in, 2), "slices are of at least 1 row");
    if (!is_handle(cx, indices) &&
        !fe_check_rows(cx, indices, ir_dim_const(rows), NULL,
                       fe_arg_loc(in, 1)))
        return &fe_poison;
    if (indices->type.dtype != DT_i64) {
        FeValue *x = fe_value_tensor(cx->arena, indices);
        indices = fe_tensor(fe_cast(cx, x, DT_i64, fe_arg_loc(in, 1)));
    }
    return indices ? fe_slices(cx, values, indices, rows) : &fe_poison;
}
