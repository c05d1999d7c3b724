/*
 * kernel_value.c - what an element of a value is
 *
 * One rule an operation: given the element that is wanted, which elements of
 * the operands it is made of.  Asking the outputs' operations first, the rules
 * ask each other up to the inputs, so that operations which only move elements
 * become index arithmetic and leave no trace.
 *
 * A reshape keeps the linear order, so its operand is asked for the same
 * element under the foreign shape.  Most never notice: an input is addressed by
 * the linear index anyway, and an elementwise operation passes it on.  Only who
 * needs the indices of its own shape divides (own_view).
 */
#include "backend/kernel_expr.h"

#include <string.h>
#include "runtime/base/message.h"

typedef Expr *Rule(Build *b, const IrOp *op, const View *view, Expr *guard);

/* An element that was asked for before. */
struct Memo {
    Memo *next; /* of its bucket */
    const IrValue *of;
    View view;
    Expr *guard, *value;
};

/* ---- shapes ------------------------------------------------------------- */

static int
pair_of(Build *b, int32_t symbol)
{
    const IrSymbol *s = &b->m->symbols.data[symbol];
    int32_t n = s->global ? s->partner : symbol;
    for (int i = 0; i < b->k->pairs.len; i++) {
        if (b->k->pairs.data[i].symbol == n)
            return i;
    }
    const IrSymbol *rows = &b->m->symbols.data[n];
    int64_t total =
        rows->partner < 0 ? -1 : b->m->symbols.data[rows->partner].bound;
    VEC_PUSH(b->k->arena, b->k->pairs, ((KPair){rows->bound, total, n}));
    return b->k->pairs.len - 1;
}

/* d in the symbols of the kernel. */
static Dim
kernel_dim(Build *b, Dim d)
{
    if (!dim_is_const(d))
        d.sym = 2 * pair_of(b, d.sym) + b->m->symbols.data[d.sym].global;
    return d;
}

void
be_value_declare(Build *b, IrValue *v)
{
    Shape s = {.rank = v->type.rank};
    for (int i = 0; i < s.rank; i++)
        s.dims[i] = kernel_dim(b, v->type.dims[i]);
    v->id = b->values.len;
    VEC_PUSH(b->scratch, b->values, v);
    VEC_PUSH(b->scratch, b->shapes, s);
}

const Shape *
be_value_shape(const Build *b, const IrValue *v)
{
    return &b->shapes.data[v->id];
}

bool
be_shape_equal(const Shape *x, const Shape *y)
{
    if (x->rank != y->rank)
        return false;
    for (int i = 0; i < x->rank; i++) {
        if (!dim_equal(x->dims[i], y->dims[i]))
            return false;
    }
    return true;
}

Dim
be_shape_size(Build *b, const Shape *s)
{
    Dim size = dim_const(1);
    for (int i = 0; i < s->rank; i++)
        size = be_dim_times(b, size, s->dims[i]);
    return size;
}

static bool
is_single(const Shape *s)
{
    for (int i = 0; i < s->rank; i++) {
        if (!dim_is_one(s->dims[i]))
            return false;
    }
    return true;
}

/* ---- views -------------------------------------------------------------- */

View
be_view_of(const Build *b, const IrValue *v)
{
    View view = {.shape = *be_value_shape(b, v)};
    for (int i = 0; i < view.shape.rank; i++)
        view.at[i] = be_lin_const(dim_const(0));
    return view;
}

static KIndex
linear(Build *b, const Dim *dims, const KIndex *at, int rank)
{
    KIndex sum = be_lin_const(dim_const(0));
    Dim stride = dim_const(1);
    for (int i = rank - 1; i >= 0; i--) {
        sum = be_lin_add(b, sum, be_lin_scale(b, at[i], stride));
        if (i > 0)
            stride = be_dim_times(b, stride, dims[i]);
    }
    return sum;
}

KIndex
be_view_linear(Build *b, const View *view)
{
    return linear(b, view->shape.dims, view->at, view->shape.rank);
}

/* Which of two products is to grow until they are equal: the lesser one, as
 * far as can be seen. */
static bool
is_less(Dim x, Dim y)
{
    return x.k != y.k ? x.k < y.k : x.c < y.c;
}

/* Writes the indices of dims whose linear index is x. */
static void
unravel(Build *b, KIndex x, const Dim *dims, KIndex *at, int rank)
{
    for (int i = rank - 1; i > 0; i--) {
        if (dim_is_one(dims[i]))
            continue;
        Dim rest = dim_const(1);
        for (int j = 0; j < i; j++)
            rest = be_dim_times(b, rest, dims[j]);
        be_lin_divide(b, x, dims[i], rest, &x, &at[i]);
    }
    if (rank > 0)
        at[0] = x;
}

/* The end of the shortest run of dimensions of `to` from t that has as many
 * elements as a run of `from` from f; that one's end in *f_end. */
static int
match_group(const Shape *from, int f, int *f_end, const Shape *to, int t)
{
    Dim x = from->dims[f++], y = to->dims[t++];
    while (!dim_equal(x, y) && (f < from->rank || t < to->rank)) {
        bool grow_x = t == to->rank || (f < from->rank && is_less(x, y));
        if (!(grow_x ? dim_mul(x, from->dims[f++], &x)
                     : dim_mul(y, to->dims[t++], &y))) {
            f = from->rank;
            t = to->rank;
        }
    }
    *f_end = f;
    return t;
}

/* Dimensions of 1 at the front of a shape from i. */
static int
skip_ones(const Shape *s, int i)
{
    while (i < s->rank && dim_is_one(s->dims[i]))
        i++;
    return i;
}

/* The element that view means, as one of v's own shape: group by group of
 * dimensions that hold the same elements.  An array without elements is left
 * with one index that hangs on all, so that nothing is taken out of its loops.
 */
static View
own_view(Build *b, const IrValue *v, const View *view)
{
    View own = be_view_of(b, v);
    const Shape *from = &view->shape, *to = &own.shape;
    if (dim_equal(be_shape_size(b, to), dim_const(0))) {
        own.at[to->rank - 1] = be_view_linear(b, view);
        return own;
    }
    int f = skip_ones(from, 0), t = skip_ones(to, 0);
    while (f < from->rank && t < to->rank) {
        int f_end, t_end = match_group(from, f, &f_end, to, t);
        KIndex x = linear(b, from->dims + f, view->at + f, f_end - f);
        unravel(b, x, to->dims + t, own.at + t, t_end - t);
        f = skip_ones(from, f_end);
        t = skip_ones(to, t_end);
    }
    return own;
}

/* Whether v can be had at an element under any shape. */
static bool
takes_any_shape(const Build *b, const IrValue *v)
{
    const IrOp *op = v->def;
    if (v->block || op->kind == OP_constant || op->kind == OP_reshape ||
        op->kind == OP_copy)
        return true;
    if (!(ir_op_info[op->kind].traits & ELEMENTWISE))
        return false;
    for (int i = 0; i < op->num_operands; i++) {
        const Shape *s = be_value_shape(b, op->operands[i]);
        if (!be_shape_equal(s, be_value_shape(b, v)) && !is_single(s))
            return false;
    }
    return true;
}

/* ---- memory ------------------------------------------------------------- */

static Expr *
load(Build *b, KArray *array, const View *view, Expr *guard)
{
    KNode n = {.kind = K_LOAD, .dtype = dtype_compute(array->dtype)};
    n.load.array = array;
    n.load.at = be_view_linear(b, view);
    n.load.guard = guard ? &guard->node : NULL;
    return be_expr_make(b, &n);
}

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
    KArray *t = be_kernel_array(b->k, K_TABLE, dtype, dim_const(count));
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
    return load(b, t, view, guard);
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
    return kernel_dim(b, ir_dims(op, A_dims, &count)[0]);
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

/* The element of an operand that broadcasts to the element of the result. */
static View
broadcast_view(const Build *b, const IrValue *operand, const View *view)
{
    View own = be_view_of(b, operand);
    if (is_single(&own.shape) || be_shape_equal(&own.shape, &view->shape))
        return is_single(&own.shape) ? own : *view;
    int lead = view->shape.rank - own.shape.rank;
    for (int i = 0; i < own.shape.rank; i++) {
        if (!dim_is_one(own.shape.dims[i]))
            own.at[i] = view->at[lead + i];
    }
    return own;
}

/* Whether op of f16 or bf16 values gives one, so that rounding changes
 * nothing. */
static bool
is_exact(IrOpKind op)
{
    switch (op) {
    case OP_neg:
    case OP_abs:
    case OP_sign:
    case OP_floor:
    case OP_ceil:
    case OP_round:
    case OP_maximum:
    case OP_minimum:
    case OP_where:
        return true;
    default:
        return false;
    }
}

/* e, as a value of dtype (D4). */
static Expr *
rounded(Build *b, Expr *e, DType dtype)
{
    return dtype == dtype_compute(dtype) ? e : be_expr_cast(b, e, dtype);
}

/* A cast that only widens does nothing: the value is an f32 already. */
static Expr *
converted(Build *b, Expr *e, DType from, DType to)
{
    return to == from || to == dtype_compute(from) ? e : be_expr_cast(b, e, to);
}

static Expr *
at_elementwise(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    /* Under a foreign shape all operands but single ones have the result's. */
    bool foreign =
        !be_shape_equal(&view->shape, be_value_shape(b, op->results[0]));
    Expr *args[K_MAX_ARGS];
    for (int i = 0; i < op->num_operands; i++) {
        const IrValue *x = op->operands[i];
        View at = foreign && !is_single(be_value_shape(b, x))
                      ? *view
                      : broadcast_view(b, x, view);
        args[i] = be_value_at(b, x, &at, guard);
    }
    DType dtype = op->results[0]->type.dtype;
    if (op->kind == OP_cast)
        return converted(b, args[0], op->operands[0]->type.dtype, dtype);
    if (op->kind == OP_stop_gradient)
        return args[0];
    Expr *e = be_expr_map(b, op->kind, dtype, op->num_operands, args);
    return is_exact(op->kind) ? e : rounded(b, e, dtype);
}

/* ---- reductions and contractions ---------------------------------------- */

/* A new index for a dimension; the one of size 1 needs none. */
static KIndex
add_range(Build *b, KRanges *ranges, Dim extent)
{
    if (dim_is_one(extent))
        return be_lin_const(dim_const(0));
    ExprVar *v = be_expr_loop_var(b, extent);
    ranges->vars[ranges->count++] = &v->var;
    return be_lin_var(b, v);
}

static bool
has_axis(const int64_t *axes, int count, int axis)
{
    for (int i = 0; i < count; i++) {
        if (axes[i] == axis)
            return true;
    }
    return false;
}

static KReduce
reduce_of(IrOpKind kind)
{
    int r = 0;
    while (be_kernel_reduces[r].op != kind)
        r++;
    return (KReduce)r;
}

static Expr *
at_reduce(Build *b, const IrOp *op, const View *view, Expr *guard)
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
        bool reduced = has_axis(axes, count, i);
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
    return exact ? e : rounded(b, e, dtype);
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
 * result; free ones begin at `next`, whose new place is returned. */
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
        else if (!has_axis(contracts, num_contract, i))
            at->at[i] = view->at[next++];
    }
    return next;
}

static Expr *
at_dot(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    const IrValue *x = op->operands[0], *y = op->operands[1];
    DType dtype = op->results[0]->type.dtype;
    KNode n = {.kind = K_CONTRACT, .dtype = dtype_compute(dtype)};
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
    n.contract.x = &be_value_at(b, x, &at_x, guard)->node;
    n.contract.y = &be_value_at(b, y, &at_y, guard)->node;
    return rounded(b, be_expr_make(b, &n), dtype);
}

/* ---- moving elements ---------------------------------------------------- */

static Expr *
at_same(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    return be_value_at(b, op->operands[0], view, guard);
}

static Expr *
at_broadcast(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    View at = broadcast_view(b, op->operands[0], view);
    return be_value_at(b, op->operands[0], &at, guard);
}

static Expr *
at_transpose(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    int count;
    const int64_t *perm = ir_ints(op, A_perm, &count);
    View at = be_view_of(b, op->operands[0]);
    for (int i = 0; i < count; i++)
        at.at[perm[i]] = view->at[i];
    return be_value_at(b, op->operands[0], &at, guard);
}

static Expr *
at_slice(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    int count;
    const int64_t *start = ir_ints(op, A_start, &count);
    const int64_t *step = ir_ints(op, A_step, &count);
    View at = be_view_of(b, op->operands[0]);
    for (int i = 0; i < count; i++) {
        KIndex moved = be_lin_scale(b, view->at[i], dim_const(step[i]));
        at.at[i] = be_lin_add(b, moved, be_lin_const(dim_const(start[i])));
    }
    return be_value_at(b, op->operands[0], &at, guard);
}

static Expr *
at_reverse(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    int count;
    const int64_t *axes = ir_ints(op, A_axes, &count);
    View at = *view;
    for (int i = 0; i < count; i++) {
        KIndex *x = &at.at[axes[i]];
        KIndex last = be_lin_add(b, be_lin_const(view->shape.dims[axes[i]]),
                                 be_lin_const(dim_const(-1)));
        *x = be_lin_add(b, be_lin_scale(b, *x, dim_const(-1)), last);
    }
    return be_value_at(b, op->operands[0], &at, guard);
}

/* Where an axis of a padded value has an element: *x becomes its index there,
 * and the result is the condition, NULL if it always has one. */
static Expr *
pad_axis(Build *b, KIndex *x, Dim size, Dim padded, int64_t low, int64_t step)
{
    if (low == 0 && step == 1 && dim_equal(size, padded))
        return NULL;
    KIndex shifted = be_lin_add(b, *x, be_lin_const(dim_const(-low)));
    Dim spread = be_dim_times(b, size, dim_const(step)), gap,
        one = dim_const(1);
    if (!dim_sub(spread, dim_const(step - 1), &gap))
        be_expr_fail_index(b);
    Expr *inside = be_expr_inside(b, shifted, gap);
    KIndex rest;
    be_lin_divide(b, shifted, dim_const(step), size, x, &rest);
    bool each = rest.num_terms == 0 && dim_equal(rest.base, dim_const(0));
    return each ? inside : be_expr_and(b, inside, be_expr_inside(b, rest, one));
}

/* x where guard holds, else y. */
static Expr *
choose(Build *b, Expr *guard, Expr *x, Expr *y, DType dtype)
{
    return be_expr_map(b, OP_where, dtype, 3, (Expr *const[]){guard, x, y});
}

static Expr *
zero_of(Build *b, DType dtype)
{
    return be_expr_const(b, scalar_cast(scalar_int(DT_i64, 0), dtype));
}

/* x at a view where inside (NULL: always) holds, else 0; both is inside and
 * what else must hold for a load. */
static Expr *
masked(Build *b, const IrValue *x, const View *at, Expr *inside, Expr *both)
{
    Expr *e = be_value_at(b, x, at, both);
    /* A load is 0 already where its guard does not hold. */
    if (!inside ||
        (e->node.kind == K_LOAD && e->node.load.guard == &both->node))
        return e;
    return choose(b, inside, e, zero_of(b, x->type.dtype), x->type.dtype);
}

static Expr *
at_pad(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    const IrValue *x = op->operands[0];
    int count;
    const int64_t *low = ir_ints(op, A_low, &count);
    const int64_t *step = ir_ints(op, A_step, &count);
    View at = be_view_of(b, x);
    Expr *inside = NULL;
    for (int i = 0; i < count; i++) {
        at.at[i] = view->at[i];
        Expr *here = pad_axis(b, &at.at[i], at.shape.dims[i],
                              view->shape.dims[i], low[i], step[i]);
        inside = be_expr_and(b, inside, here);
        if (dim_is_one(at.shape.dims[i]))
            at.at[i] = be_lin_const(dim_const(0));
    }
    Expr *both = be_expr_and(b, guard, inside);
    return masked(b, x, &at, inside, both);
}

/* An axis of the batch's length may have no part; then there is nothing to
 * load. */
static Expr *
at_take(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    const IrValue *x = op->operands[0], *y = op->operands[1];
    int axis = (int)ir_int(op, A_axis);
    View at_x = be_view_of(b, x), at_y = be_view_of(b, y);
    for (int i = 0; i < at_y.shape.rank; i++)
        at_y.at[i] = view->at[axis + i];
    for (int i = 0; i < at_x.shape.rank; i++)
        at_x.at[i] = view->at[i < axis ? i : i + at_y.shape.rank - 1];
    Dim size = at_x.shape.dims[axis];
    Expr *index = be_value_at(b, y, &at_y, guard);
    if (index->node.dtype != DT_i64)
        index = be_expr_cast(b, index, DT_i64);
    at_x.at[axis] = dim_is_one(size) ? be_lin_const(dim_const(0))
                                     : be_lin_pick(b, index, size);
    if (dim_is_const(size))
        return be_value_at(b, x, &at_x, guard);
    Expr *inside = be_expr_inside(b, at_x.at[axis], size);
    return masked(b, x, &at_x, inside, be_expr_and(b, guard, inside));
}

/* Whether x has what the windows along an axis read, for sizes that are known;
 * the first is at -low. */
static bool
windows_fit(Dim windows, Dim taps, int64_t step, int64_t low, Dim size)
{
    int64_t last;
    return dim_is_const(windows) && dim_is_const(taps) && dim_is_const(size) &&
           low <= 0 && !__builtin_mul_overflow(windows.c - 1, step, &last) &&
           !__builtin_add_overflow(last, taps.c - 1, &last) &&
           !__builtin_sub_overflow(last, low, &last) && last < size.c;
}

/* A convolution at an element of its result. */
typedef struct Conv {
    const IrOp *op;
    KNode contract;
    View x, y;
} Conv;

/* Indices for y: the first three are those of the contraction. */
static Conv
conv_of(Build *b, const IrOp *op, const View *view)
{
    Conv c = {.op = op,
              .x = be_view_of(b, op->operands[0]),
              .y = be_view_of(b, op->operands[1])};
    DType dtype = dtype_compute(op->results[0]->type.dtype);
    c.contract = (KNode){.kind = K_CONTRACT, .dtype = dtype};
    for (int i = 0; i < 3; i++)
        c.y.at[i] =
            add_range(b, &c.contract.contract.ranges, c.y.shape.dims[i]);
    c.y.at[3] = view->at[3];
    return c;
}

/* The contraction; in x, windows and places (both two indices of as many as
 * dims say) tell height and width. */
static Expr *
at_windows(Build *b, Conv *c, const KIndex *windows, const Dim *num_windows,
           const KIndex *places, const Dim *num_places, Expr *guard)
{
    const IrOp *op = c->op;
    int count;
    const int64_t *low = ir_ints(op, A_low, &count);
    const int64_t *step = ir_ints(op, A_step, &count);
    Expr *inside = NULL;
    for (int i = 0; i < 2; i++) {
        KIndex *at = &c->x.at[i + 1];
        Dim size = c->x.shape.dims[i + 1];
        *at = be_lin_scale(b, windows[i], dim_const(step[i]));
        *at = be_lin_add(b, *at, places[i]);
        *at = be_lin_add(b, *at, be_lin_const(dim_const(-low[i])));
        if (!windows_fit(num_windows[i], num_places[i], step[i], low[i], size))
            inside = be_expr_and(b, inside, be_expr_inside(b, *at, size));
    }
    Expr *both = be_expr_and(b, guard, inside);
    Expr *x = masked(b, op->operands[0], &c->x, inside, both);
    c->contract.contract.x = &x->node;
    c->contract.contract.y =
        &be_value_at(b, op->operands[1], &c->y, guard)->node;
    return rounded(b, be_expr_make(b, &c->contract),
                   op->results[0]->type.dtype);
}

/* A contraction over the places of a window and the channels. */
static Expr *
at_conv2d(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    Conv c = conv_of(b, op, view);
    c.x.at[0] = view->at[0];
    c.x.at[3] = c.y.at[2];
    return at_windows(b, &c, view->at + 1, view->shape.dims + 1, c.y.at,
                      c.y.shape.dims, guard);
}

/* One over rows and windows. */
static Expr *
at_conv2d_weights(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    Conv c = conv_of(b, op, view);
    c.x.at[0] = c.y.at[0];
    c.x.at[3] = view->at[2];
    return at_windows(b, &c, c.y.at + 1, c.y.shape.dims + 1, view->at,
                      view->shape.dims, guard);
}

/* A chain of choices.  The last operand needs no condition to be chosen, but
 * one to be loaded. */
static Expr *
at_concat(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    int64_t axis = ir_int(op, A_axis);
    int last = op->num_operands - 1;
    KIndex rest = view->at[axis];
    Expr **inside = NEW_ARRAY(b->scratch, Expr *, last + 1);
    Expr **values = NEW_ARRAY(b->scratch, Expr *, last + 1);
    for (int i = 0; i <= last; i++) {
        const IrValue *x = op->operands[i];
        View at = {.shape = *be_value_shape(b, x)};
        Dim size = at.shape.dims[axis];
        memcpy(at.at, view->at, sizeof at.at);
        at.at[axis] = dim_is_one(size) ? be_lin_const(dim_const(0)) : rest;
        inside[i] = be_expr_inside(b, rest, size);
        values[i] = be_value_at(b, x, &at, be_expr_and(b, guard, inside[i]));
        KIndex back = be_lin_scale(b, be_lin_const(size), dim_const(-1));
        rest = be_lin_add(b, rest, back);
    }
    Expr *e = values[last];
    for (int i = last - 1; i >= 0; i--)
        e = choose(b, inside[i], values[i], e, op->results[0]->type.dtype);
    return e;
}

/* ---- along an axis, in order -------------------------------------------- */

/* The index of an output that x is, and nothing else; else NULL. */
static ExprVar *
lone_index(const KIndex *x)
{
    bool lone = x->num_terms == 1 && dim_equal(x->base, dim_const(0)) &&
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
        return exclusive ? zero_of(b, dtype)
                         : be_value_at(b, op->operands[0], view, guard);
    ExprVar *v = lone_index(along);
    if (!v || v->order != FREE_ORDER || guard) {
        be_expr_fail(b, "the running sum of a kernel is not what it gives");
        return zero_of(b, dtype);
    }
    v->order = order;
    KNode n = {.kind = K_RUNNING, .dtype = dtype_compute(dtype)};
    n.running.exclusive = exclusive;
    n.running.along = be_lin_var(b, v);
    n.running.value = &be_value_at(b, op->operands[0], view, guard)->node;
    return rounded(b, be_expr_make(b, &n), dtype);
}

/* A sort that is a result is made by be_nest_build. */
static Expr *
at_argsort(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    (void)op, (void)view, (void)guard;
    be_expr_fail(b, "the order of a kernel's argsort is not what it gives");
    return be_expr_const(b, scalar_int(DT_i64, 0));
}

/* By the number of its element, in range. */
static Expr *
at_reorder(Build *b, const IrOp *op, const View *view, Expr *guard)
{
    int last = view->shape.rank - 1;
    View at = *view;
    Dim size = view->shape.dims[last];
    if (dim_is_one(size))
        return be_value_at(b, op->operands[0], view, guard);
    if (dim_equal(size, dim_const(0))) /* never computed */
        return zero_of(b, op->results[0]->type.dtype);
    at.at[last] =
        be_lin_pick(b, be_value_at(b, op->operands[1], view, guard), size);
    if (dim_is_const(size))
        return be_value_at(b, op->operands[0], &at, guard);
    Expr *inside = be_expr_inside(b, at.at[last], size);
    return masked(b, op->operands[0], &at, inside,
                  be_expr_and(b, guard, inside));
}

/* ---- rules by operation ------------------------------------------------- */

static Rule *const rules[NUM_OPS] = {
    [OP_constant] = at_constant,
    [OP_iota] = at_iota,
    [OP_dim_size] = at_dim_size,
    [OP_replica_id] = at_replica_id,
    [OP_row_start] = at_row_start,
    [OP_dot] = at_dot,
    [OP_reshape] = at_same,
    [OP_copy] = at_same,
    [OP_broadcast] = at_broadcast,
    [OP_transpose] = at_transpose,
    [OP_slice] = at_slice,
    [OP_pad] = at_pad,
    [OP_reverse] = at_reverse,
    [OP_concat] = at_concat,
    [OP_take] = at_take,
    [OP_conv2d] = at_conv2d,
    [OP_conv2d_weights] = at_conv2d_weights,
    [OP_cumsum] = at_cumsum,
    [OP_reorder] = at_reorder,
    [OP_argsort] = at_argsort,
};

static Rule *
rule_of(const IrOp *op)
{
    unsigned traits = ir_op_info[op->kind].traits;
    if (traits & ELEMENTWISE)
        return at_elementwise;
    return traits & REDUCES ? at_reduce : rules[op->kind];
}

static Expr *
compute(Build *b, const IrValue *v, const View *view, Expr *guard)
{
    if (v->block)
        return load(b, b->k->arrays[K_IN].data[v->index], view, guard);
    Rule *rule = rule_of(v->def);
    if (rule)
        return rule(b, v->def, view, guard);
    be_expr_fail(b, message_printf(b->k->arena, "%s cannot stand in a kernel",
                                 ir_op_info[v->def->kind].name));
    return be_expr_const(b, scalar_int(DT_i64, 0));
}

static bool
is_memo(const Memo *m, const IrValue *v, const View *view, const Expr *guard)
{
    if (m->of != v || m->guard != guard ||
        !be_shape_equal(&m->view.shape, &view->shape))
        return false;
    for (int i = 0; i < view->shape.rank; i++) {
        if (!be_index_equal(&m->view.at[i], &view->at[i]))
            return false;
    }
    return true;
}

static Memo **
memo_bucket(Build *b, const IrValue *v, const View *view, const Expr *guard)
{
    uint64_t h = (uint64_t)v->id ^ (uint64_t)(uintptr_t)guard >> 4;
    for (int i = 0; i < view->shape.rank; i++)
        h = be_lin_hash(h, &view->at[i]);
    return &b->memos[h % EXPR_BUCKETS];
}

Expr *
be_value_at(Build *b, const IrValue *v, const View *view, Expr *guard)
{
    bool known =
        v->id >= 0 && v->id < b->values.len && b->values.data[v->id] == v;
    if (!known)
        be_expr_fail(b, "a kernel uses a value from around it");
    if (b->error)
        return be_expr_const(b, scalar_int(DT_i64, 0));
    View own;
    if (!be_shape_equal(&view->shape, be_value_shape(b, v)) &&
        !takes_any_shape(b, v)) {
        own = own_view(b, v, view);
        view = &own;
    }
    Memo **bucket = memo_bucket(b, v, view, guard);
    for (Memo *m = *bucket; m; m = m->next) {
        if (is_memo(m, v, view, guard))
            return m->value;
    }
    Memo *m = NEW(b->scratch, Memo);
    *m = (Memo){NULL, v, *view, guard, compute(b, v, view, guard)};
    m->next = *bucket;
    *bucket = m;
    return m->value;
}
