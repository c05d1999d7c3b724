/*
 * slices.c - sparse values: some rows of a tensor that is zero elsewhere (D12)
 *
 * The gradient of a variable that is read by rows is such a value, made by
 * grad.c; how the replicas put theirs together is in dist_values.c, how they
 * are written to variables in var_access.c.
 */
#include "frontend/emit/slices.h"

#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/type_of.h"
#include "ir/rules/build.h"
#include "ir/type_text.h"

#include <assert.h>

/* ---- making and taking apart -------------------------------------------- */

static FeValue *
make(Lower *cx, FeValue *values, FeValue *indices, FeValue *rows)
{
    const char *const names[] = {intern(cx->names, "values"),
                                 intern(cx->names, "indices"),
                                 intern(cx->names, "rows")};
    FeValue *items[] = {values, indices, rows};
    FeValue *v = fe_value_named(cx->arena, 3, names, items);
    v->nest.kind = NEST_SLICES;
    return v;
}

FeValue *
fe_slices(Lower *cx, IrValue *values, IrValue *indices, int64_t rows)
{
    return make(cx, fe_value_tensor(cx->arena, values),
                fe_value_tensor(cx->arena, indices),
                fe_value_int(cx->arena, rows));
}

FeValue *
fe_slices_values(const FeValue *slices)
{
    assert(fe_is_slices(slices));
    return slices->nest.items[0];
}

FeValue *
fe_slices_indices(const FeValue *slices)
{
    assert(fe_is_slices(slices));
    return slices->nest.items[1];
}

FeValue *
fe_slices_with(Lower *cx, const FeValue *like, FeValue *values,
               FeValue *indices)
{
    if (fe_is_poison(values) || fe_is_poison(indices))
        return &fe_poison;
    return make(cx, values, indices, like->nest.items[2]);
}

IrType
fe_slices_type(const FeValue *slices)
{
    int64_t rows = 0;
    IrType t = fe_slices_values(slices)->tensor->type;
    fe_value_is_int(slices->nest.items[2], &rows);
    t.dims[0] = ir_dim_const(rows);
    return t;
}

/* ---- as a tensor -------------------------------------------------------- */

FeValue *
fe_slices_dense(Lower *cx, const FeValue *slices, Loc loc)
{
    assert(fe_is_slices(slices));
    IrType t = fe_slices_type(slices);
    IrValue *values = fe_operand(cx, fe_slices_values(slices), loc);
    IrValue *indices = fe_operand(cx, fe_slices_indices(slices), loc);
    if (!values || !indices || !fe_check_can_emit(cx, loc))
        return &fe_poison;
    IrValue *zeros = ir_const_zeros(cx->block, &t, loc);
    return fe_value_tensor(
        cx->arena,
        ir_build_add_rows(cx->block, zeros, indices, values, 0, loc));
}

/* ---- arithmetic --------------------------------------------------------- */

static bool
is_scalar(Lower *cx, FeValue *v)
{
    IrType t;
    return !fe_is_slices(v) && fe_type_of(cx, v, &t) && t.rank == 0;
}

static FeValue *
concat_rows(Lower *cx, FeValue *x, FeValue *y, Loc loc)
{
    IrValue *parts[2];
    parts[0] = fe_operand(cx, x, loc);
    parts[1] = fe_operand(cx, y, loc);
    IrOp *op = fe_op(cx, OP_concat, 2, parts, loc);
    ir_set_int(op, A_axis, 0);
    return fe_emit(cx, op);
}

static FeValue *
add_slices(Lower *cx, FeValue *x, FeValue *y, Loc loc)
{
    IrType a = fe_slices_type(x), b = fe_slices_type(y);
    if (!ir_type_same_shape(&a, &b))
        return fe_error(cx, loc, "slices of %s and of %s do not add up",
                        ir_dims_text(cx->module, a.rank, a.dims),
                        ir_dims_text(cx->module, b.rank, b.dims));
    FeValue *values =
        concat_rows(cx, fe_slices_values(x), fe_slices_values(y), loc);
    FeValue *indices =
        concat_rows(cx, fe_slices_indices(x), fe_slices_indices(y), loc);
    return fe_slices_with(cx, x, values, indices);
}

static FeValue *
scale(Lower *cx, AstOp op, FeValue *x, FeValue *y, Loc loc)
{
    const FeValue *slices = fe_is_slices(x) ? x : y;
    FeValue *values = fe_slices_values(slices);
    values = slices == x ? fe_binary(cx, op, values, y, loc)
                         : fe_binary(cx, op, x, values, loc);
    return fe_slices_with(cx, slices, values, fe_slices_indices(slices));
}

FeValue *
fe_slices_unary(Lower *cx, AstOp op, FeValue *x, Loc loc)
{
    FeValue *values = fe_unary(cx, op, fe_slices_values(x), loc);
    return fe_slices_with(cx, x, values, fe_slices_indices(x));
}

static FeValue *
densify(Lower *cx, FeValue *v, Loc loc)
{
    return fe_is_slices(v) ? fe_slices_dense(cx, v, loc) : v;
}

FeValue *
fe_slices_binary(Lower *cx, AstOp op, FeValue *x, FeValue *y, Loc loc)
{
    assert(fe_is_slices(x) || fe_is_slices(y));
    bool adds = op == AST_OP_ADD || op == AST_OP_SUB;
    if (adds && fe_is_slices(x) && fe_is_slices(y)) {
        if (op == AST_OP_SUB)
            y = fe_slices_unary(cx, op, y, loc);
        return fe_is_poison(y) ? y : add_slices(cx, x, y, loc);
    }
    if (adds) {
        x = densify(cx, x, loc);
        return fe_binary(cx, op, x, densify(cx, y, loc), loc);
    }
    if ((op == AST_OP_MUL && (is_scalar(cx, x) || is_scalar(cx, y))) ||
        (op == AST_OP_DIV && is_scalar(cx, y)))
        return scale(cx, op, x, y, loc);
    return fe_error_note(cx, loc, "dense(...) makes a tensor of them",
                         "slices are added, subtracted, and multiplied or "
                         "divided by a number");
}
