/*
 * kernel_reduce.c - elements computed from many: reductions, products,
 * convolutions
 *
 * Each has indices of its own, which run through the elements that it
 * combines.  A convolution is a product whose one operand is seen through
 * windows.
 */
#include "backend/kernel/kernel_expr.h"
#include "ir/axes.h"
#include "ir/rules/pairs.h"
#include "ir/rules/tf32.h"
#include "ir/rules/windows.h"

/* ---- reductions and contractions ---------------------------------------- */

/* A new index for a dimension; the one of size 1 needs none. */
static KIndex
add_range(Build *b, KRanges *ranges, Dim extent)
{
    if (dim_is_one(extent))
        return be_lin_const(ir_dim_const(0));
    ExprVar *v = be_expr_loop_var(b, extent);
    ranges->vars[ranges->count++] = &v->var;
    return be_lin_var(b, v);
}

static KReduce
reduce_of(IrOpKind kind)
{
    int r = 0;
    while (be_kernel_reduces[r].op != kind)
        r++;
    return (KReduce)r;
}

Expr *
be_at_reduce(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    const IrValue *x = op->operands[0];
    DType dtype = op->results[0]->type.dtype;
    KNode n = {.kind = K_REDUCE, .dtype = dtype_compute(dtype)};
    n.reduce.op = reduce_of(op->kind);
    const KReduceInfo *info = &be_kernel_reduces[n.reduce.op];
    int count, kept = 0;
    const int64_t *axes = ir_ints(op, A_axes, &count);
    View at = be_view_of(b, x);
    for (int i = 0; i < at.shape.rank; i++) {
        bool reduced = ir_axes_have(axes, count, i);
        at.at[i] = reduced ? add_range(b, &n.reduce.ranges, at.shape.dims[i])
                           : view->at[kept];
        kept += !reduced || ir_int(op, A_keepdims);
    }
    Expr *element = be_value_at(b, x, &at, guard);
    if (n.reduce.ranges.count == 0) /* exactly one element */
        return info->arg ? be_expr_const(b, scalar_int(DT_i64, 0)) : element;
    n.reduce.element = &element->node;
    Expr *e = be_expr_make(b, &n);
    bool exact = info->fold == OP_maximum || info->fold == OP_minimum;
    return exact ? e : be_expr_rounded(b, e, dtype);
}

/* Which of axes is axis, or -1. */
static int
position(const int64_t *axes, int count, int axis)
{
    for (int i = 0; i < count; i++) {
        if (axes[i] == axis)
            return i;
    }
    return -1;
}

/* Sets the indices of an operand's batch and free axes from those of the
 * result; free ones begin at `next`; returns the next one. */
static int
set_kept(const IrOp *op, const View *view, View *at, IrAttrName batch,
         IrAttrName contract, int next)
{
    int num_batch, num_contract;
    const int64_t *batches = ir_ints(op, batch, &num_batch);
    const int64_t *contracts = ir_ints(op, contract, &num_contract);
    for (int i = 0; i < at->shape.rank; i++) {
        int which = position(batches, num_batch, i);
        if (which >= 0)
            at->at[i] = view->at[which];
        else if (!ir_axes_have(contracts, num_contract, i))
            at->at[i] = view->at[next++];
    }
    return next;
}

/* x as a number of bf16 that the kernel's verifier accepts as one. */
static KNode *
paired(Build *b, Expr *x)
{
    bool known = be_kernel_fits(&x->node, DT_bf16);
    return known ? &x->node : &be_expr_cast(b, x, DT_bf16)->node;
}

/* The contraction n, which has its ranges, of x and y. */
static Expr *
contracted(Build *b, const IrOp *op, KNode *n, Expr *x, Expr *y)
{
    n->contract.pairs = ir_pair_order(op);
    n->contract.tf32 = ir_is_tf32(op);
    n->contract.x = n->contract.pairs ? paired(b, x) : &x->node;
    n->contract.y = n->contract.pairs ? paired(b, y) : &y->node;
    return be_expr_rounded(b, be_expr_make(b, n), op->results[0]->type.dtype);
}

Expr *
be_at_dot(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    const IrValue *x = op->operands[0], *y = op->operands[1];
    KNode n = {.kind = K_CONTRACT,
               .dtype = dtype_compute(op->results[0]->type.dtype)};
    View at_x = be_view_of(b, x), at_y = be_view_of(b, y);
    int num, num_batch;
    const int64_t *axes_x = ir_ints(op, A_contract_x, &num);
    const int64_t *axes_y = ir_ints(op, A_contract_y, &num);
    for (int i = 0; i < num; i++) {
        KIndex k = add_range(b, &n.contract.ranges, at_x.shape.dims[axes_x[i]]);
        at_x.at[axes_x[i]] = k;
        at_y.at[axes_y[i]] = k;
    }
    ir_ints(op, A_batch_x, &num_batch);
    int next = set_kept(op, view, &at_x, A_batch_x, A_contract_x, num_batch);
    set_kept(op, view, &at_y, A_batch_y, A_contract_y, next);
    Expr *of_x = be_value_at(b, x, &at_x, guard);
    return contracted(b, op, &n, of_x, be_value_at(b, y, &at_y, guard));
}

/* ---- convolutions ------------------------------------------------------- */

/* Whether x covers all reads of the windows along an axis, for sizes that are
 * known; the first read is at -low. */
static bool
windows_fit(const IrWindows *w, int axis, Dim windows, Dim places, Dim size)
{
    int64_t last, reach, low = w->low[axis];
    return ir_dim_is_const(windows) && ir_dim_is_const(places) &&
           ir_dim_is_const(size) && low <= 0 &&
           !__builtin_mul_overflow(windows.c - 1, w->step[axis], &last) &&
           !__builtin_mul_overflow(places.c - 1, w->dilation[axis], &reach) &&
           !__builtin_add_overflow(last, reach, &last) &&
           !__builtin_sub_overflow(last, low, &last) && last < size.c;
}

/* A convolution at an element of its result. */
typedef struct Conv {
    const IrOp *op;
    IrWindows windows;
    KNode contract;
    View x, y;
    const View *out;
    int channels; /* the last axis of x, y and the result */
} Conv;

/* Indices for y: all but the last are those of the contraction. */
static Conv
conv_of(Build *b, const IrOp *op, const View *view)
{
    Conv c = {.op = op,
              .windows = ir_windows_of(op),
              .x = be_view_of(b, op->operands[0]),
              .y = be_view_of(b, op->operands[1]),
              .out = view};
    DType dtype = dtype_compute(op->results[0]->type.dtype);
    c.contract = (KNode){.kind = K_CONTRACT, .dtype = dtype};
    c.channels = c.windows.num_axes + 1;
    for (int i = 0; i < c.channels; i++)
        c.y.at[i] =
            add_range(b, &c.contract.contract.ranges, c.y.shape.dims[i]);
    c.y.at[c.channels] = c.out->at[c.channels];
    return c;
}

/* The channel of x for one of its group, of as many: that of the new channel.
 */
static KIndex
channel_of(Build *b, const Conv *c, KIndex own, Dim num_own)
{
    int64_t groups = c->windows.groups;
    KIndex group = c->out->at[c->channels], rest;
    if (groups == 1)
        return own;
    int64_t new = c->out->shape.dims[c->channels].c / groups;
    if (new > 1)
        be_lin_divide(b, group, ir_dim_const(new), ir_dim_const(groups), &group,
                      &rest);
    return be_lin_add(b, be_lin_scale(b, group, num_own), own);
}

/* The contraction; in x, windows and places (as many indices as axes, with
 * extents dims) determine the place. */
static Expr *
at_windows(Build *b, Conv *c, const KIndex *windows, const Dim *num_windows,
           const KIndex *places, const Dim *num_places, Expr *guard)
{
    const IrOp *op = c->op;
    const IrWindows *w = &c->windows;
    Expr *inside = NULL;
    for (int i = 0; i < w->num_axes; i++) {
        KIndex *at = &c->x.at[i + 1];
        Dim size = c->x.shape.dims[i + 1];
        *at = be_lin_scale(b, windows[i], ir_dim_const(w->step[i]));
        *at = be_lin_add(
            b, *at, be_lin_scale(b, places[i], ir_dim_const(w->dilation[i])));
        *at = be_lin_add(b, *at, be_lin_const(ir_dim_const(-w->low[i])));
        if (!windows_fit(w, i, num_windows[i], num_places[i], size))
            inside = be_expr_and(b, inside, be_expr_inside(b, *at, size));
    }
    Expr *both = be_expr_and(b, guard, inside);
    Expr *x = be_value_masked(b, op->operands[0], &c->x, inside, both);
    Expr *y = be_value_at(b, op->operands[1], &c->y, guard);
    return contracted(b, op, &c->contract, x, y);
}

/* A contraction over the places of a window and the channels of a group. */
Expr *
be_at_conv(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    Conv c = conv_of(b, op, view);
    int last = c.channels;
    c.x.at[0] = c.out->at[0];
    c.x.at[last] =
        channel_of(b, &c, c.y.at[last - 1], c.y.shape.dims[last - 1]);
    return at_windows(b, &c, c.out->at + 1, c.out->shape.dims + 1, c.y.at,
                      c.y.shape.dims, guard);
}

/* A contraction over rows and windows. */
Expr *
be_at_conv_weights(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    Conv c = conv_of(b, op, view);
    int last = c.channels;
    c.x.at[0] = c.y.at[0];
    c.x.at[last] =
        channel_of(b, &c, c.out->at[last - 1], c.out->shape.dims[last - 1]);
    return at_windows(b, &c, c.y.at + 1, c.y.shape.dims + 1, c.out->at,
                      c.out->shape.dims, guard);
}
