/*
 * kernel_view.c - elements of a value in views of other shapes
 *
 * A reshape keeps the linear order, so its operand is asked for the same
 * element in the other shape.  Most operations need no conversion: an input is
 * addressed by the linear index anyway, and an elementwise operation passes the
 * view on.  Only operations that need the indices of their own shape divide
 * (be_view_own).
 */
#include "backend/kernel/kernel_expr.h"

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

Dim
be_kernel_dim(Build *b, Dim d)
{
    if (!ir_dim_is_const(d))
        d.sym = 2 * pair_of(b, d.sym) + b->m->symbols.data[d.sym].global;
    return d;
}

void
be_value_declare(Build *b, IrValue *v)
{
    Shape s = {.rank = v->type.rank};
    for (int i = 0; i < s.rank; i++)
        s.dims[i] = be_kernel_dim(b, v->type.dims[i]);
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
        if (!ir_dim_equal(x->dims[i], y->dims[i]))
            return false;
    }
    return true;
}

Dim
be_shape_size(Build *b, const Shape *s)
{
    Dim size = ir_dim_const(1);
    for (int i = 0; i < s->rank; i++)
        size = be_dim_times(b, size, s->dims[i]);
    return size;
}

bool
be_shape_is_single(const Shape *s)
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
        view.at[i] = be_lin_const(ir_dim_const(0));
    return view;
}

static KIndex
linear(Build *b, const Dim *dims, const KIndex *at, int rank)
{
    KIndex sum = be_lin_const(ir_dim_const(0));
    Dim stride = ir_dim_const(1);
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

/* Which of two products must grow until they are equal: the lesser one, as far
 * as can be proved. */
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
        Dim rest = ir_dim_const(1);
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
    while (!ir_dim_equal(x, y) && (f < from->rank || t < to->rank)) {
        bool grow_x = t == to->rank || (f < from->rank && is_less(x, y));
        if (!(grow_x ? ir_dim_mul(x, from->dims[f++], &x)
                     : ir_dim_mul(y, to->dims[t++], &y))) {
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

/* The element of view in v's own shape: by groups of dimensions that have the
 * same elements.  An array without elements keeps one index that depends on
 * all, so that nothing is hoisted out of its loops. */
View
be_view_own(Build *b, const IrValue *v, const View *view)
{
    View own = be_view_of(b, v);
    const Shape *from = &view->shape, *to = &own.shape;
    if (ir_dim_equal(be_shape_size(b, to), ir_dim_const(0))) {
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

View
be_view_broadcast(const Build *b, const IrValue *operand, const View *view)
{
    View own = be_view_of(b, operand);
    if (be_shape_is_single(&own.shape) ||
        be_shape_equal(&own.shape, &view->shape))
        return be_shape_is_single(&own.shape) ? own : *view;
    int lead = view->shape.rank - own.shape.rank;
    for (int i = 0; i < own.shape.rank; i++) {
        if (!dim_is_one(own.shape.dims[i]))
            own.at[i] = view->at[lead + i];
    }
    return own;
}
