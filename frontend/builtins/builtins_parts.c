/*
 * builtins_parts.c - split, slice, pad
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/messages.h"
#include "frontend/emit/index.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/shape_ops.h"
#include "frontend/emit/type_of.h"
#include "ir/rules/build.h"

/* ---- parts -------------------------------------------------------------- */

/* size elements from start on along axis, all of the other axes. */
static FeValue *
slice_axis(Lower *cx, IrValue *x, int64_t axis, int64_t start, Dim size,
           Loc loc)
{
    int64_t starts[IR_MAX_RANK] = {0}, steps[IR_MAX_RANK];
    FeShape s = {.rank = x->type.rank};
    for (int i = 0; i < s.rank; i++) {
        s.dims[i] = x->type.dims[i];
        steps[i] = 1;
    }
    starts[axis] = start;
    s.dims[axis] = size;
    IrOp *op = fe_op(cx, OP_slice, 1, &x, loc);
    ir_set_ints(op, A_start, starts, s.rank);
    ir_set_dims(op, A_dims, s.dims, s.rank);
    ir_set_ints(op, A_step, steps, s.rank);
    return fe_emit(cx, op);
}

typedef VEC(int64_t) Sizes;

static bool
equal_parts(Lower *cx, int64_t parts, int64_t whole, Loc loc, Sizes *out)
{
    if (parts < 1 || parts > limit_value(LIMIT_unroll) || whole % parts) {
        fe_error(cx, loc, "%lld cannot be split into %lld equal parts",
                 (long long)whole, (long long)parts);
        return false;
    }
    for (int64_t i = 0; i < parts; i++)
        VEC_PUSH(cx->arena, *out, whole / parts);
    return true;
}

static bool
listed_parts(Lower *cx, const FeNest *list, int64_t whole, Loc loc, Sizes *out)
{
    int64_t left = whole;
    for (int i = 0; i < list->len; i++) {
        int64_t size;
        if (!fe_require_int(cx, list->items[i], "the size of a part", loc,
                            &size))
            return false;
        if (size < 0 || size > left)
            break;
        left -= size;
        VEC_PUSH(cx->arena, *out, size);
    }
    if (out->len == list->len && left == 0)
        return true;
    fe_error(cx, loc, "the sizes of the parts do not add up to %lld",
             (long long)whole);
    return false;
}

static bool
read_parts(Lower *cx, const FeArgs *in, Dim whole, Sizes *out)
{
    FeValue *v = fe_arg(in, 1);
    Loc loc = fe_arg_loc(in, 1);
    int64_t parts;
    if (!ir_dim_is_const(whole)) {
        fe_error(cx, in->loc,
                 "the batch cannot be split: its length is known "
                 "only when the step runs");
        return false;
    }
    if (v->kind == FE_NEST)
        return listed_parts(cx, &v->nest, whole.c, loc, out);
    return fe_require_int(cx, v, "the number of parts", loc, &parts) &&
           equal_parts(cx, parts, whole.c, loc, out);
}

FeValue *
fe_builtin_split(Lower *cx, const FeArgs *in)
{
    int64_t axis, start = 0;
    Sizes sizes = {0};
    FeValues parts = {0};
    IrValue *x = fe_arg_operand(cx, in, 0);
    if (!x || !fe_arg_axis(cx, in, 2, x->type.rank, &axis))
        return &fe_poison;
    if (x->type.rank == 0)
        return fe_error(cx, in->loc, "a scalar cannot be split");
    if (!read_parts(cx, in, x->type.dims[axis], &sizes))
        return &fe_poison;
    for (int i = 0; i < sizes.len; i++) {
        VEC_PUSH(cx->arena, parts,
                 slice_axis(cx, x, axis, start, ir_dim_const(sizes.data[i]),
                            in->loc));
        start += sizes.data[i];
    }
    return fe_value_list(cx->arena, parts.len, parts.data);
}

static FeValue *
refuse_count(Lower *cx, const FeArgs *in, int i, int rank)
{
    const char *plural = rank == 1 ? "" : "s";
    return fe_error(cx, fe_arg_loc(in, i),
                    "%s of a value of %d dimension%s takes %d number%s",
                    in->name, rank, plural, rank, plural);
}

/* Whether parameter i has an item for each axis. */
static bool
check_count(Lower *cx, const FeArgs *in, int i, int rank)
{
    const FeValue *v = fe_arg(in, i);
    int n = v->kind == FE_NEST ? v->nest.len : 1;
    if (n != rank)
        refuse_count(cx, in, i, rank);
    return n == rank;
}

/* One integer for each axis of x. */
static bool
read_ints(Lower *cx, const FeArgs *in, int i, int rank, int64_t *out)
{
    FeValue *v = fe_arg(in, i);
    FeValue *const *items = v->kind == FE_NEST ? v->nest.items : &v;
    if (!check_count(cx, in, i, rank))
        return false;
    for (int k = 0; k < rank; k++)
        if (!fe_require_int(cx, items[k], "this", fe_arg_loc(in, i), &out[k]))
            return false;
    return true;
}

/* Where a slice begins along one axis. */
typedef struct Start {
    int64_t known;
    IrValue *value; /* an i64 of run time, or NULL */
} Start;

static bool
read_start(Lower *cx, FeValue *v, Loc loc, Start *out)
{
    IrType t;
    *out = (Start){0};
    bool runs = !fe_value_is_int(v, &out->known) && fe_type_of(cx, v, &t) &&
                t.rank == 0 && dtype_is_int(t.dtype);
    if (!runs)
        return fe_require_int(cx, v, "where a slice begins", loc, &out->known);
    if (!fe_check_can_emit(cx, loc))
        return false;
    IrValue *x = fe_operand(cx, v, loc);
    if (x)
        out->value = ir_build_cast(cx->block, x, DT_i64, loc);
    return x != NULL;
}

/* Start and size of each axis of x. */
static bool
read_places(Lower *cx, const FeArgs *in, int rank, Start *starts,
            FeShape *sizes)
{
    FeValue *v = fe_arg(in, 1);
    FeValue *const *items = v->kind == FE_NEST ? v->nest.items : &v;
    if (!check_count(cx, in, 1, rank) || !fe_arg_shape(cx, in, 2, sizes))
        return false;
    for (int i = 0; i < rank; i++)
        if (!read_start(cx, items[i], fe_arg_loc(in, 1), &starts[i]))
            return false;
    return true;
}

/* The part of the axes whose start is known now, and all of the others. */
static FeValue *
slice_known(Lower *cx, IrValue *x, const Start *starts, const FeShape *sizes,
            Loc loc)
{
    int64_t start[IR_MAX_RANK], step[IR_MAX_RANK];
    Dim dims[IR_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) {
        start[i] = starts[i].known;
        dims[i] = starts[i].value ? x->type.dims[i] : sizes->dims[i];
        step[i] = 1;
    }
    IrOp *op = fe_op(cx, OP_slice, 1, &x, loc);
    ir_set_ints(op, A_start, start, x->type.rank);
    ir_set_dims(op, A_dims, dims, x->type.rank);
    ir_set_ints(op, A_step, step, x->type.rank);
    return fe_emit(cx, op);
}

/* size elements along an axis from a start of run time on: they are taken by
 * their indices, whose ends are checked with them. */
static FeValue *
slice_from(Lower *cx, IrValue *x, int64_t axis, IrValue *start, Dim size,
           Loc loc)
{
    FeShape s = {.rank = 1, .dims = {size}};
    IrValue *numbers = fe_tensor(fe_iota(cx, DT_i64, &s, 0, loc));
    if (!numbers)
        return &fe_poison;
    IrValue *indices = ir_build2(cx->block, OP_add, numbers, start, loc);
    return fe_take(cx, x, indices, axis, loc);
}

FeValue *
fe_builtin_slice(Lower *cx, const FeArgs *in)
{
    Start starts[IR_MAX_RANK];
    FeShape sizes;
    IrValue *x = fe_arg_operand(cx, in, 0);
    if (!x || !read_places(cx, in, x->type.rank, starts, &sizes))
        return &fe_poison;
    if (sizes.rank != x->type.rank)
        return refuse_count(cx, in, 2, x->type.rank);
    int rank = x->type.rank;
    FeValue *v = slice_known(cx, x, starts, &sizes, in->loc);
    for (int i = 0; i < rank && !fe_is_poison(v); i++)
        if (starts[i].value)
            v = slice_from(cx, v->tensor, i, starts[i].value, sizes.dims[i],
                           in->loc);
    return v;
}

/* ---- pad ---------------------------------------------------------------- */

/* NumPy's: (before, after) for each axis, one pair or one number for all. */
static bool
read_pairs(Lower *cx, const FeArgs *in, int rank, int64_t *low, int64_t *high)
{
    FeValue *v = fe_arg(in, 1);
    Loc loc = fe_arg_loc(in, 1);
    bool each = v->kind == FE_NEST && v->nest.len > 0 &&
                v->nest.items[0]->kind == FE_NEST;
    if (each && !check_count(cx, in, 1, rank))
        return false;
    for (int i = 0; i < rank; i++) {
        FeValue *pair = each ? v->nest.items[i] : v;
        bool is_pair = pair->kind == FE_NEST && pair->nest.len == 2;
        if (pair->kind == FE_NEST && !is_pair) {
            fe_error_note(cx, loc, "pad(x, ((2, 2), (0, 1))), pad(x, 2)",
                          "pad without \"high\" takes a pair for each axis");
            return false;
        }
        FeValue *before = is_pair ? pair->nest.items[0] : pair;
        FeValue *after = is_pair ? pair->nest.items[1] : pair;
        if (!fe_require_int(cx, before, "what to pad by", loc, &low[i]) ||
            !fe_require_int(cx, after, "what to pad by", loc, &high[i]))
            return false;
    }
    return true;
}

FeValue *
fe_builtin_pad(Lower *cx, const FeArgs *in)
{
    int64_t low[IR_MAX_RANK], high[IR_MAX_RANK], step[IR_MAX_RANK];
    Dim dims[IR_MAX_RANK];
    IrValue *x = fe_arg_operand(cx, in, 0);
    int rank = x ? x->type.rank : 0;
    if (!x)
        return &fe_poison;
    if (fe_arg(in, 2) ? !read_ints(cx, in, 1, rank, low) ||
                            !read_ints(cx, in, 2, rank, high)
                      : !read_pairs(cx, in, rank, low, high))
        return &fe_poison;
    for (int i = 0; i < rank; i++) {
        bool fits =
            low[i] >= 0 && high[i] >= 0 &&
            ir_dim_add(x->type.dims[i], ir_dim_const(low[i]), &dims[i]) &&
            ir_dim_add(dims[i], ir_dim_const(high[i]), &dims[i]);
        if (!fits)
            return fe_error(cx, in->loc, "cannot pad by %lld and %lld",
                            (long long)low[i], (long long)high[i]);
        step[i] = 1;
    }
    IrOp *op = fe_op(cx, OP_pad, 1, &x, in->loc);
    ir_set_ints(op, A_low, low, rank);
    ir_set_dims(op, A_dims, dims, rank);
    ir_set_ints(op, A_step, step, rank);
    return fe_emit(cx, op);
}
