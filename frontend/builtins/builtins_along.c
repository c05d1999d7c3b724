/*
 * builtins_along.c - along an axis, other elements in each row
 *
 * The elements of x as one row: the indices of an element of
 * x[outer, axis, inner] become its number there, by which take and scatter
 * name it.  Where there is one index for all of the last axes, what they hold
 * moves together, and is what is numbered.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/messages.h"
#include "frontend/emit/index.h"
#include "frontend/emit/operand.h"
#include "ir/rules/build.h"
#include "ir/type_text.h"

/* What the axes from first to end have together; false: two lengths of
 * batches. */
static bool
count_dims(const Dim *dims, int64_t first, int64_t end, Dim *out)
{
    *out = ir_dim_const(1);
    for (int64_t i = first; i < end; i++)
        if (!ir_dim_mul(*out, dims[i], out))
            return false;
    return true;
}

/* Indices of x's elements along an axis: their shape is that of x but for the
 * axis. */
typedef struct Along {
    IrValue *x, *index;
    int64_t axis;
    int last; /* axes from here on have one index, and hold what moves */
    Dim shape[IR_MAX_RANK];
} Along;

/* Fills in shape: an index may have 1 where x has more. */
static bool
match_shapes(Along *a)
{
    const IrType *x = &a->x->type, *i = &a->index->type;
    if (x->rank != i->rank)
        return false;
    for (int k = 0; k < x->rank; k++) {
        a->shape[k] = k == a->axis ? i->dims[k] : x->dims[k];
        if (!ir_dim_equal(i->dims[k], a->shape[k]) &&
            !ir_dim_equal(i->dims[k], ir_dim_const(1)))
            return false;
    }
    a->last = x->rank;
    while (a->last > a->axis + 1 &&
           ir_dim_equal(i->dims[a->last - 1], ir_dim_const(1)))
        a->last--;
    return true;
}

/* Reads x, the indices and the axis, which is parameter i; false with a
 * message. */
static bool
read_along(Lower *cx, const FeArgs *in, int i, Along *a)
{
    Loc loc = fe_arg_loc(in, 1);
    a->x = fe_arg_line(cx, in, i, &a->axis);
    a->index = fe_operand(cx, fe_arg(in, 1), loc);
    if (!a->x || !a->index)
        return false;
    const IrType *x = &a->x->type, *index = &a->index->type;
    const AstNode *n = in->args[1]->node;
    FeOwn at = n ? fe_own(cx, n) : fe_own_at(cx, loc);
    FeAxis axis = {.size = x->dims[a->axis],
                   .var = fe_variable_of(a->x),
                   .number = (int)a->axis};
    if (!dtype_is_int(index->dtype))
        return fe_index_dtype_error(cx, index->dtype, &at);
    if (!match_shapes(a)) {
        fe_error_note(cx, loc,
                      "take(x, indices, axis) takes the same parts of every "
                      "row",
                      "indices of shape %s along axis %lld of shape %s: they "
                      "have as many axes, and along each other one as many, "
                      "or 1",
                      ir_dims_text(cx->module, index->rank, index->dims),
                      (long long)a->axis,
                      ir_dims_text(cx->module, x->rank, x->dims));
        return false;
    }
    return fe_check_range(cx, a->index, &axis, &at);
}

/* which * size + rest. */
static IrValue *
count_on(Lower *cx, IrValue *which, Dim size, IrValue *rest, Loc loc)
{
    IrValue *length = fe_length_of(cx, size, loc);
    which = ir_build2(cx->block, OP_mul, which, length, loc);
    return ir_build2(cx->block, OP_add, which, rest, loc);
}

/* x by what moves, one number each: [numbers, elements], or as one row where
 * these are single elements; NULL with a message. */
static IrValue *
numbered(Lower *cx, const Along *a, Loc loc)
{
    const IrType *x = &a->x->type;
    Dim dims[2], total;
    if (!count_dims(x->dims, 0, a->last, &dims[0]) ||
        !count_dims(x->dims, a->last, x->rank, &dims[1]) ||
        !ir_dim_mul(dims[0], dims[1], &total)) {
        fe_error_note(cx, loc,
                      "batches have a length that is known by "
                      "distribute_from(fn(ctx) = "
                      "d.batch(n, drop_remainder = true))",
                      "the elements of shape %s are not numbered, since two "
                      "of its lengths are of batches",
                      ir_dims_text(cx->module, x->rank, x->dims));
        return NULL;
    }
    int rank = ir_dim_equal(dims[1], ir_dim_const(1)) ? 1 : 2;
    return fe_tensor(fe_reshape(cx, a->x, rank, dims, loc));
}

/* The index for each of what moves, as [outer, axis, inner]. */
static IrValue *
index_of_each(Lower *cx, const Along *a, Loc loc)
{
    Dim dims[3] = {[1] = a->shape[a->axis]};
    if (!count_dims(a->shape, 0, a->axis, &dims[0]) ||
        !count_dims(a->shape, a->axis + 1, a->last, &dims[2]))
        return NULL; /* numbered() has said so */
    const Dim *own = a->index->type.dims;
    IrValue *i = fe_tensor(fe_reshape(cx, a->index, a->last, own, loc));
    i = i ? fe_tensor(fe_broadcast(cx, i, a->last, a->shape, loc)) : NULL;
    return i ? fe_tensor(fe_reshape(cx, i, 3, dims, loc)) : NULL;
}

/* The numbers of what is named in all, x as numbered() gives it; NULL with a
 * message. */
static IrValue *
number_elements(Lower *cx, const Along *a, const IrValue *all, Loc loc)
{
    IrValue *i = index_of_each(cx, a, loc);
    if (!i || !fe_check_can_emit(cx, loc))
        return NULL;
    const Dim *dims = i->type.dims;
    i = ir_build_cast(cx->block, i, DT_i64, loc);
    IrValue *outer = ir_build_iota(cx->block, DT_i64, 3, dims, 0, loc);
    IrValue *inner = ir_build_iota(cx->block, DT_i64, 3, dims, 2, loc);
    i = count_on(cx, outer, a->x->type.dims[a->axis], i, loc);
    i = count_on(cx, i, dims[2], inner, loc);
    fe_mark_index_checked(cx, i, all->type.dims[0]);
    return i;
}

FeValue *
fe_builtin_take_along(Lower *cx, const FeArgs *in)
{
    Along a;
    if (!read_along(cx, in, 2, &a))
        return &fe_poison;
    IrValue *all = numbered(cx, &a, in->loc);
    IrValue *at = all ? number_elements(cx, &a, all, in->loc) : NULL;
    if (!at)
        return &fe_poison;
    FeValue *found = fe_take(cx, all, at, 0, in->loc);
    return fe_is_poison(found) ? found
                               : fe_reshape(cx, found->tensor, a.x->type.rank,
                                            a.shape, in->loc);
}

/* x, numbered, with what is at set to values, or with them added. */
static FeValue *
change_elements(Lower *cx, IrValue *x, IrValue *at, IrValue *values, bool add,
                Loc loc)
{
    if (!add)
        return fe_scatter(cx, UPDATE_set, x, at, values, 0, loc);
    if (!fe_check_can_emit(cx, loc))
        return &fe_poison;
    return fe_value_tensor(cx->arena,
                           ir_build_add_rows(cx->block, x, at, values, 0, loc));
}

/* put_along_axis and add_along_axis. */
FeValue *
fe_builtin_put_along(Lower *cx, const FeArgs *in)
{
    Along a;
    if (!read_along(cx, in, 3, &a))
        return &fe_poison;
    int rank = a.x->type.rank;
    IrValue *values =
        fe_operand_as(cx, fe_arg(in, 2), a.x->type.dtype, fe_arg_loc(in, 2));
    values = values ? fe_tensor(fe_broadcast(cx, values, rank, a.shape,
                                             fe_arg_loc(in, 2)))
                    : NULL;
    IrValue *all = values ? numbered(cx, &a, in->loc) : NULL;
    IrValue *at = all ? number_elements(cx, &a, all, in->loc) : NULL;
    if (!at)
        return &fe_poison;
    Dim dims[4] = {at->type.dims[0], at->type.dims[1], at->type.dims[2],
                   all->type.dims[1]};
    int moved = all->type.rank - 1; /* axes of what moves */
    values = fe_tensor(fe_reshape(cx, values, 3 + moved, dims, in->loc));
    FeValue *changed = values ? change_elements(cx, all, at, values,
                                                in->name[0] == 'a', in->loc)
                              : &fe_poison;
    return fe_is_poison(changed)
               ? changed
               : fe_reshape(cx, changed->tensor, rank, a.x->type.dims, in->loc);
}
