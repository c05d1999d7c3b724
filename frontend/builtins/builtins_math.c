/*
 * builtins_math.c - functions of elements, and products of matrices
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/dispatch.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/shape_ops.h"

#include <string.h>
#include "ir/rules/eval.h"
#include "ir/type_text.h"

/* ---- of constants ------------------------------------------------------- */

/* op of a constant, with the result that the operation would have; NULL if it
 * is not of floats. */
static FeValue *
fold(Lower *cx, IrOpKind op, const FeValue *x)
{
    if (x->kind != FE_CONST || !dtype_is_float(x->constant.scalar.dtype) ||
        strcmp(ir_op_info[op].dtype_rule, "float_to_bool") == 0)
        return NULL;
    Scalar s = x->constant.scalar;
    Scalar y = ir_eval(op, s.dtype, &s);
    return x->constant.untyped ? fe_value_float(cx->arena, y.f)
                               : fe_value_scalar(cx->arena, y);
}

/* An integer literal where only floats make sense is a float. */
static FeValue *
as_float(Lower *cx, IrOpKind op, FeValue *x)
{
    int64_t i;
    bool is_literal = x->kind == FE_CONST && x->constant.untyped;
    if (is_literal && fe_value_is_int(x, &i) &&
        strncmp(ir_op_info[op].dtype_rule, "float", 5) == 0)
        return fe_value_float(cx->arena, (double)i);
    return x;
}

FeValue *
fe_builtin_elementwise(Lower *cx, const FeArgs *in)
{
    IrOpKind op = fe_builtin_op(in->builtin);
    FeValue *x = as_float(cx, op, fe_arg(in, 0));
    FeValue *known = fold(cx, op, x);
    return known ? known : fe_op1(cx, op, x, in->loc);
}

/* ---- of several values -------------------------------------------------- */

FeValue *
fe_builtin_where(Lower *cx, const FeArgs *in)
{
    return fe_op3(cx, OP_where, fe_arg(in, 0), fe_arg(in, 1), fe_arg(in, 2),
                  in->loc);
}

FeValue *
fe_builtin_clip(Lower *cx, const FeArgs *in)
{
    if (!fe_check_bounds(cx, in))
        return &fe_poison;
    FeValue *x = fe_op2(cx, OP_maximum, fe_arg(in, 0), fe_arg(in, 1), in->loc);
    return fe_op2(cx, OP_minimum, x, fe_arg(in, 2), in->loc);
}

typedef struct Site {
    Lower *cx;
    Loc loc;
} Site;

static FeValue *
stop_leaf(FeValue *leaf, void *data)
{
    const Site *at = data;
    return fe_op1(at->cx, OP_stop_gradient, leaf, at->loc);
}

FeValue *
fe_builtin_stop_gradient(Lower *cx, const FeArgs *in)
{
    Site at = {cx, in->loc};
    return fe_value_map(cx->arena, fe_arg(in, 0), stop_leaf, &at);
}

FeValue *
fe_builtin_grad(Lower *cx, const FeArgs *in)
{
    return fe_grad(cx, fe_arg(in, 0), fe_arg(in, 1), in->loc,
                   fe_arg_loc(in, 0), fe_arg_loc(in, 1));
}

/* Of an argument that ought to be a function. */
static bool
is_computed(const FeValue *f)
{
    return f && (f->kind == FE_TENSOR || f->kind == FE_VAR);
}

FeValue *
fe_builtin_recompute(Lower *cx, const FeArgs *in)
{
    FeValue *f = fe_arg(in, 0);
    if (!is_computed(f))
        return fe_recompute(cx, f, in->loc);
    return fe_error_note(
        cx, fe_arg_loc(in, 0),
        fe_format(cx, "write recompute(fn() = %s)", fe_arg_text(cx, in, 0)),
        "recompute takes a function, which it calls, not %s",
        fe_describe(cx, f));
}

/* f is lowered here, so that all that it calls is computed so, too. */
FeValue *
fe_builtin_precision(Lower *cx, const FeArgs *in)
{
    DType widest = cx->options->widen ? DT_f64 : DT_f32, t = widest;
    if (!fe_arg_dtype(cx, in, 0, &t))
        return &fe_poison;
    if (t != DT_bf16 && t != DT_f16 && t != widest)
        return fe_error(cx, fe_arg_loc(in, 0),
                        "a precision is bf16, f16 or f32, not %s",
                        dtype_info[t].name);
    if (is_computed(fe_arg(in, 1)))
        return fe_error_note(
            cx, fe_arg_loc(in, 1),
            fe_format(cx, "write precision(%s, fn() = %s)", dtype_info[t].name,
                      fe_arg_text(cx, in, 1)),
            "precision takes a function, within which it holds, not %s",
            fe_describe(cx, fe_arg(in, 1)));
    const DType *outer = cx->precision;
    cx->precision = &t;
    FeValue *result =
        fe_call_with(cx, fe_arg(in, 1), 0, NULL, false, "called", in->loc);
    cx->precision = outer;
    return result;
}

/* ---- matrix product ----------------------------------------------------- */

/* The shape that the batch dimensions of x and y (all but the last two) have
 * together; false when they do not broadcast. */
static bool
batch_shape(const IrType *x, const IrType *y, int *rank, Dim *out)
{
    int nx = x->rank - 2, ny = y->rank - 2, n = nx > ny ? nx : ny;
    for (int i = 0; i < n; i++) {
        Dim one = ir_dim_const(1);
        Dim dx = i < n - nx ? one : x->dims[i - (n - nx)];
        Dim dy = i < n - ny ? one : y->dims[i - (n - ny)];
        if (!ir_dim_equal(dx, dy) && !ir_dim_equal(dx, one) &&
            !ir_dim_equal(dy, one))
            return false;
        out[i] = ir_dim_equal(dx, one) ? dy : dx;
    }
    *rank = n;
    return true;
}

/* x with these dimensions before its last two. */
static IrValue *
with_batch(Lower *cx, IrValue *x, int rank, const Dim *batch, Loc loc)
{
    Dim dims[IR_MAX_RANK];
    if (rank)
        memcpy(dims, batch, (size_t)rank * sizeof *batch);
    memcpy(dims + rank, x->type.dims + x->type.rank - 2, 2 * sizeof *dims);
    return fe_tensor(fe_broadcast(cx, x, rank + 2, dims, loc));
}

static FeValue *
dot(Lower *cx, IrValue *x, IrValue *y, int num_batch, Loc loc)
{
    static const int64_t batch[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    if (!x || !y)
        return &fe_poison;
    int64_t axis_x = x->type.rank - 1;
    int64_t axis_y = y->type.rank == 1 ? 0 : y->type.rank - 2;
    IrValue *operands[] = {x, y};
    IrOp *op = fe_op(cx, OP_dot, 2, operands, loc);
    ir_set_ints(op, A_contract_x, &axis_x, 1);
    ir_set_ints(op, A_contract_y, &axis_y, 1);
    if (num_batch) {
        ir_set_ints(op, A_batch_x, batch, num_batch);
        ir_set_ints(op, A_batch_y, batch, num_batch);
    }
    return fe_emit(cx, op);
}

/* The instance that a function being lowered is a member of, or NULL. */
static const FeInstance *
instance_around(const Lower *cx)
{
    const FeScope *s = cx->scope;
    while (s && s->kind != SCOPE_INSTANCE)
        s = s->parent;
    return s ? s->instance : NULL;
}

/* A layer of the library with n_in that is given rows of another width. */
static bool
refuse_width(Lower *cx, const IrType *x, const IrType *y)
{
    const AstNode *n = cx->applied;
    const FeInstance *layer = instance_around(cx);
    const AstNode *given =
        n && layer && y->rank == 2 && diag_is_library(cx->diag, n->loc.file)
            ? fe_written(cx, n->binary.left)
            : NULL;
    const FeBinding *b =
        given ? fe_scope_find(layer->scope->parent, intern(cx->names, "n_in"))
              : NULL;
    Dim have = x->dims[x->rank - 1];
    if (!b || !b->argument || !ir_dim_is_const(have))
        return false;
    const char *other = fe_edit(cx, layer->loc, b->argument->loc,
                                fe_format(cx, "%lld", (long long)have.c));
    FeOwn at = fe_own(cx, n->binary.left);
    fe_error_own(cx, &at, other ? layer->loc : NO_LOC,
                 other ? fe_format(cx, "write %s here, or give it rows of %lld",
                                   other, (long long)y->dims[0].c)
                       : NULL,
                 "\"%s\" takes rows of %lld, and these have %lld", layer->path,
                 (long long)y->dims[0].c, (long long)have.c);
    return true;
}

static FeValue *
do_not_multiply(Lower *cx, const IrType *x, const IrType *y, Loc loc)
{
    if (refuse_width(cx, x, y))
        return &fe_poison;
    return fe_error_note(cx, loc,
                         "the last dimension of the first is the last but one "
                         "of the second: [n, k] @ [k, m]",
                         "shapes %s and %s do not multiply",
                         ir_dims_text(cx->module, x->rank, x->dims),
                         ir_dims_text(cx->module, y->rank, y->dims));
}

static Dim
inner_dim(const IrType *y)
{
    return y->dims[y->rank == 1 ? 0 : y->rank - 2];
}

/* Only a y with batch dimensions runs along with x; a matrix or vector is one
 * for all of x. */
FeValue *
fe_matmul(Lower *cx, FeValue *left, FeValue *right, Loc loc)
{
    FeValue *values[] = {left, right};
    IrValue *v[2];
    if (!fe_operands(cx, 2, values, v, loc))
        return &fe_poison;
    IrValue *x = v[0], *y = v[1];
    const IrType *tx = &x->type, *ty = &y->type;
    if (tx->rank == 0 || ty->rank == 0)
        return fe_error_note(cx, loc, "* multiplies by a scalar",
                             "a matrix product needs dimensions, and one of "
                             "these is a scalar");
    if (!ir_dim_equal(tx->dims[tx->rank - 1], inner_dim(ty)))
        return do_not_multiply(cx, tx, ty, loc);
    if (ty->rank <= 2 || tx->rank == 1)
        return dot(cx, x, y, 0, loc);
    int rank;
    Dim batch[IR_MAX_RANK];
    if (!batch_shape(tx, ty, &rank, batch))
        return do_not_multiply(cx, tx, ty, loc);
    x = with_batch(cx, x, rank, batch, loc);
    y = with_batch(cx, y, rank, batch, loc);
    return dot(cx, x, y, rank, loc);
}

FeValue *
fe_builtin_matmul(Lower *cx, const FeArgs *in)
{
    return fe_matmul(cx, fe_arg(in, 0), fe_arg(in, 1), in->loc);
}
