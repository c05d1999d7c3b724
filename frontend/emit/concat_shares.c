/*
 * concat_shares.c - concatenation of all replicas' parts of a batch
 *
 * A dimension depends on one symbol, so the lengths of several replicas' parts
 * do not add up to a dimension, unless they are the parts of all replicas:
 * those have the whole batch's rows, N, in whatever order they are named.  Rows
 * are put at their places among zeros, each part behind those before it.
 */
#include "frontend/emit/index.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/shape_ops.h"
#include "ir/rules/build.h"

/* The symbol of one replica's rows that d depends on, or NULL. */
static const IrSymbol *
rows_of_one(const Lower *cx, Dim d)
{
    const IrSymbol *s =
        ir_dim_is_const(d) ? NULL : &cx->module->symbols.data[d.sym];
    return s && s->of >= 0 ? s : NULL;
}

/* Whether d is another replica's part of the same batch as *total, the sum so
 * far; each replica counts once. */
static bool
add_part(const Lower *cx, Dim d, bool *seen, Dim *total)
{
    const IrSymbol *s = rows_of_one(cx, d);
    if (!s || seen[s->replica])
        return false;
    seen[s->replica] = true;
    int32_t all = cx->module->symbols.data[s->of].partner;
    return d.k == total->k && all == total->sym &&
           !__builtin_add_overflow(total->c, d.c, &total->c);
}

/* Whether the n values are the parts of all replicas along axis, which have
 * *total rows. */
static bool
are_all_parts(Lower *cx, int n, IrValue *const *xs, int64_t axis, Dim *total)
{
    const IrModule *m = cx->module;
    const IrSymbol *s = rows_of_one(cx, xs[0]->type.dims[axis]);
    if (!s || n != m->num_replicas)
        return false;
    bool *seen = NEW_ARRAY(cx->arena, bool, (size_t)n);
    *total = (Dim){0, xs[0]->type.dims[axis].k, m->symbols.data[s->of].partner};
    for (int i = 0; i < n; i++)
        if (axis >= xs[i]->type.rank ||
            !add_part(cx, xs[i]->type.dims[axis], seen, total))
            return false;
    return true;
}

/* Whether they are alike but for their lengths along axis. */
static bool
are_alike(int n, IrValue *const *xs, int64_t axis)
{
    for (int i = 1; i < n; i++) {
        IrType t = xs[i]->type;
        t.dims[axis] = xs[0]->type.dims[axis];
        if (t.dtype != xs[0]->type.dtype ||
            !ir_type_same_shape(&t, &xs[0]->type))
            return false;
    }
    return true;
}

/* x with its axis and its first one in each other's place. */
static IrValue *
swap_first(Lower *cx, IrValue *x, int64_t axis, Loc loc)
{
    int64_t perm[IR_MAX_RANK];
    if (axis == 0)
        return x;
    for (int i = 0; i < x->type.rank; i++)
        perm[i] = i;
    perm[0] = axis;
    perm[axis] = 0;
    IrOp *op = fe_op(cx, OP_transpose, 1, &x, loc);
    ir_set_ints(op, A_perm, perm, x->type.rank);
    return fe_tensor(fe_emit(cx, op));
}

static IrValue *
zeros_like(Lower *cx, const IrType *t, Dim rows, Loc loc)
{
    IrType all = *t;
    all.dims[0] = rows;
    IrValue *zero = ir_const_int(cx->block, DT_i64, 0, loc);
    zero = ir_build_cast(cx->block, zero, t->dtype, loc);
    return fe_tensor(fe_broadcast(cx, zero, all.rank, all.dims, loc));
}

/* to with x's rows from number start on, which are there. */
static IrValue *
put_rows(Lower *cx, IrValue *to, IrValue *x, IrValue *start, Loc loc)
{
    Dim count = x->type.dims[0];
    IrValue *rows = ir_build_iota(cx->block, DT_i64, 1, &count, 0, loc);
    rows = ir_build2(cx->block, OP_add, rows, start, loc);
    fe_mark_index_checked(cx, rows, to->type.dims[0]);
    IrOp *op = fe_op(cx, OP_scatter, 3, (IrValue *[]){to, rows, x}, loc);
    ir_set_enum(op, A_mode, UPDATE_set);
    return fe_tensor(fe_emit(cx, op));
}

FeValue *
fe_concat_shares(Lower *cx, int n, IrValue *const *xs, int64_t axis, Loc loc)
{
    Dim total;
    if (!are_all_parts(cx, n, xs, axis, &total) || !are_alike(n, xs, axis))
        return NULL;
    if (!fe_check_can_emit(cx, loc))
        return &fe_poison;
    IrValue *all = NULL, *start = ir_const_int(cx->block, DT_i64, 0, loc);
    for (int i = 0; i < n; i++) {
        IrValue *x = swap_first(cx, xs[i], axis, loc);
        all = all ? all : zeros_like(cx, &x->type, total, loc);
        all = all ? put_rows(cx, all, x, start, loc) : NULL;
        if (!all)
            return &fe_poison;
        start = ir_build2(cx->block, OP_add, start,
                          fe_length_of(cx, x->type.dims[0], loc), loc);
    }
    return fe_value_tensor(cx->arena, swap_first(cx, all, axis, loc));
}
