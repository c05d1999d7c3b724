/*
 * compute.c - pure operations, on one replica
 */
#include "tests/ref/compute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/status.h"
#include "ir/rules/eval.h"
#include "ir/rules/pairs.h"
#include "ir/rules/sums.h"
#include "ir/rules/windows.h"

typedef const RefTensor *const *Operands;

/* ---- elementwise -------------------------------------------------------- */

/* The element of x that broadcasting puts at an index of out. */
static Scalar
broadcast_get(const RefTensor *x, const RefTensor *out, const int64_t *index)
{
    const int64_t *last = index + out->rank - x->rank;
    int64_t at = 0;
    for (int k = 0; k < x->rank; k++)
        at = at * x->dims[k] + (x->dims[k] == 1 ? 0 : last[k]);
    return ref_get(x, at);
}

static void
compute_elementwise(const IrOp *op, Operands x, RefTensor *out)
{
    int64_t index[IR_MAX_RANK];
    Scalar args[3];
    for (int64_t i = 0; i < out->count; i++) {
        ref_next(out->rank, out->dims, i, index);
        for (int k = 0; k < op->num_operands; k++)
            args[k] = broadcast_get(x[k], out, index);
        ref_set(out, i, ir_eval(op->kind, out->dtype, args));
    }
}

/* ---- reductions --------------------------------------------------------- */

enum { CHUNK = IR_CHUNK, LANES = IR_STRIPES };

/* What two elements become in a reduction of that kind. */
static IrOpKind
fold_of(IrOpKind kind)
{
    switch (kind) {
    case OP_sum:
        return OP_add;
    case OP_prod:
        return OP_mul;
    case OP_reduce_max:
        return OP_maximum;
    case OP_reduce_min:
        return OP_minimum;
    case OP_any:
        return OP_or;
    case OP_all:
        return OP_and;
    default:
        UNREACHABLE("%s is no reduction", ir_op_info[kind].name);
    }
}

static Scalar
fold(IrOpKind how, Scalar x, Scalar y)
{
    return ir_eval(how, x.dtype, (Scalar[]){x, y});
}

/* At most CHUNK elements: striped over the lanes, then a binary tree. */
static Scalar
fold_chunk(IrOpKind how, const Scalar *x, int64_t n)
{
    Scalar lane[LANES];
    int64_t lanes = n < LANES ? n : LANES;
    for (int64_t i = 0; i < lanes; i++)
        lane[i] = x[i];
    for (int64_t i = LANES; i < n; i++)
        lane[i % LANES] = fold(how, lane[i % LANES], x[i]);
    for (int64_t w = LANES / 2; w >= 1; w /= 2)
        for (int64_t i = 0; i < w && i + w < lanes; i++)
            lane[i] = fold(how, lane[i], lane[i + w]);
    return lane[0];
}

static Scalar
fold_all(IrOpKind how, const Scalar *x, int64_t n)
{
    Scalar sum = fold_chunk(how, x, n < CHUNK ? n : CHUNK);
    for (int64_t i = CHUNK; i < n; i += CHUNK) {
        int64_t left = n - i;
        sum =
            fold(how, sum, fold_chunk(how, x + i, left < CHUNK ? left : CHUNK));
    }
    return sum;
}

/* Whether x comes before y, which has a lower number, as the extremum. */
static bool
beats(IrOpKind kind, Scalar x, Scalar y)
{
    if (!dtype_is_float(x.dtype))
        return kind == OP_argmax ? x.i > y.i : x.i < y.i;
    if (isnan(x.f) || isnan(y.f))
        return isnan(x.f) && !isnan(y.f);
    return kind == OP_argmax ? x.f > y.f : x.f < y.f;
}

static Scalar
find_extremum(IrOpKind kind, const Scalar *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (beats(kind, x[i], x[best]))
            best = i;
    return scalar_int(DT_i64, best);
}

static Scalar
reduce_elements(IrOpKind kind, DType t, const Scalar *x, int64_t n)
{
    if (kind == OP_argmax || kind == OP_argmin)
        return find_extremum(kind, x, n);
    return n ? fold_all(fold_of(kind), x, n) : ir_eval_neutral(kind, t);
}

/* Some axes of a tensor as an index space of their own. */
typedef struct Subspace {
    int rank;
    int axis[IR_MAX_RANK];
    int64_t dims[IR_MAX_RANK];
    int64_t count;
    int64_t *offsets; /* of each point, in elements of the tensor */
} Subspace;

static void
add_axis(Subspace *s, const RefTensor *x, int axis)
{
    s->axis[s->rank] = axis;
    s->dims[s->rank++] = x->dims[axis];
    s->count *= x->dims[axis];
}

/* Computes the offsets, which are freed by the caller. */
static void
add_offsets(Subspace *s, const RefTensor *x)
{
    int64_t index[IR_MAX_RANK] = {0}, part[IR_MAX_RANK];
    s->offsets = calloc((size_t)s->count + 1, sizeof *s->offsets);
    for (int64_t i = 0; i < s->count; i++) {
        ref_next(s->rank, s->dims, i, part);
        for (int k = 0; k < s->rank; k++)
            index[s->axis[k]] = part[k];
        s->offsets[i] = ref_ravel(x->rank, x->dims, index);
    }
}

static Subspace
subspace(const RefTensor *x, int n, const int64_t *axes)
{
    Subspace s = {.count = 1};
    for (int i = 0; i < n; i++)
        add_axis(&s, x, (int)axes[i]);
    add_offsets(&s, x);
    return s;
}

static bool
has_axis(const Subspace *s, int axis)
{
    for (int i = 0; i < s->rank; i++)
        if (s->axis[i] == axis)
            return true;
    return false;
}

/* The axes that are in neither. */
static Subspace
other_axes(const RefTensor *x, const Subspace *a, const Subspace *b)
{
    Subspace s = {.count = 1};
    for (int i = 0; i < x->rank; i++)
        if (!has_axis(a, i) && !has_axis(b, i))
            add_axis(&s, x, i);
    add_offsets(&s, x);
    return s;
}

static Scalar
get_at(const RefTensor *x, const int64_t *index)
{
    return ref_get(x, ref_ravel(x->rank, x->dims, index));
}

void
ref_reduce(IrOpKind kind, const RefTensor *x, int num_axes, const int64_t *axes,
           RefTensor *out)
{
    Subspace over = subspace(x, num_axes, axes);
    Subspace kept = other_axes(x, &over, &over);
    DType t = dtype_compute(x->dtype);
    Scalar *elements = calloc((size_t)over.count + 1, sizeof *elements);
    for (int64_t i = 0; i < out->count; i++) {
        for (int64_t k = 0; k < over.count; k++)
            elements[k] =
                scalar_cast(ref_get(x, kept.offsets[i] + over.offsets[k]), t);
        ref_set(out, i, reduce_elements(kind, t, elements, over.count));
    }
    free(elements);
    free(over.offsets);
    free(kept.offsets);
}

static void
compute_reduction(const IrOp *op, Operands x, RefTensor *out)
{
    int n;
    const int64_t *axes = ir_ints(op, A_axes, &n);
    ref_reduce(op->kind, x[0], n, axes, out);
}

/* ---- contraction -------------------------------------------------------- */

enum { BLOCK = IR_K_BLOCK };

/* The products of a block that have been added so far. */
typedef struct Products {
    IrPairs pairs;
    Scalar sum; /* where they are not added in pairs */
} Products;

static Products
no_products(const IrOp *op)
{
    DType t = dtype_compute(op->results[0]->type.dtype);
    return (Products){.pairs.order = ir_pair_order(op),
                      .sum = scalar_cast(scalar_int(DT_i64, 0), t)};
}

/* One rounding of floats, integers wrap. */
static void
add_product(Products *p, Scalar x, Scalar y)
{
    DType t = p->sum.dtype;
    x = x.dtype == t ? x : scalar_cast(x, t);
    y = y.dtype == t ? y : scalar_cast(y, t);
    if (p->pairs.order)
        ir_pairs_add(&p->pairs, (float)x.f, (float)y.f);
    else if (dtype_is_float(t))
        p->sum = ir_eval(OP_fma, t, (Scalar[]){x, y, p->sum});
    else
        p->sum = fold(OP_add, p->sum, fold(OP_mul, x, y));
}

static Scalar
sum_of(const Products *p)
{
    return p->pairs.order ? scalar_float(p->sum.dtype, ir_pairs_sum(&p->pairs))
                          : p->sum;
}

/* A contraction's operand. */
typedef struct Side {
    const RefTensor *x;
    Subspace batch, free, sum;
    int64_t
        first; /* the offset of the current element's point of both others */
} Side;

static Side
make_side(const IrOp *op, const RefTensor *x, IrAttrName contract,
          IrAttrName batch)
{
    int n;
    Side s = {.x = x};
    const int64_t *axes = ir_ints(op, contract, &n);
    s.sum = subspace(x, n, axes);
    n = 0;
    axes = ir_has(op, batch) ? ir_ints(op, batch, &n) : NULL;
    s.batch = subspace(x, n, axes);
    s.free = other_axes(x, &s.sum, &s.batch);
    return s;
}

static void
free_side(Side *s)
{
    free(s->batch.offsets);
    free(s->free.offsets);
    free(s->sum.offsets);
}

static Scalar
element_of_sum(const Side *s, int64_t k)
{
    return ref_get(s->x, s->first + s->sum.offsets[k]);
}

/* Elements begin to end of the sum, added to 0 one after the other. */
static Scalar
sum_block(const IrOp *op, const Side *x, const Side *y, int64_t begin,
          int64_t end)
{
    Products p = no_products(op);
    for (int64_t k = begin; k < end; k++)
        add_product(&p, element_of_sum(x, k), element_of_sum(y, k));
    return sum_of(&p);
}

static Scalar
sum_blocks(const IrOp *op, const Side *x, const Side *y)
{
    int64_t n = x->sum.count;
    Scalar total = sum_block(op, x, y, 0, n < BLOCK ? n : BLOCK);
    for (int64_t k = BLOCK; k < n; k += BLOCK) {
        int64_t end = k + BLOCK < n ? k + BLOCK : n;
        total = fold(OP_add, total, sum_block(op, x, y, k, end));
    }
    return total;
}

/* The result's axes are the batch, those of x alone, those of y alone. */
static void
compute_dot(const IrOp *op, Operands operands, RefTensor *out)
{
    Side x = make_side(op, operands[0], A_contract_x, A_batch_x);
    Side y = make_side(op, operands[1], A_contract_y, A_batch_y);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t batch = i / (x.free.count * y.free.count);
        x.first = x.batch.offsets[batch] +
                  x.free.offsets[i / y.free.count % x.free.count];
        y.first = y.batch.offsets[batch] + y.free.offsets[i % y.free.count];
        ref_set(out, i, sum_blocks(op, &x, &y));
    }
    free_side(&x);
    free_side(&y);
}

/* ---- convolution -------------------------------------------------------- */

typedef struct Conv {
    const RefTensor *x, *y;
    IrWindows w;
    int64_t new_channels;    /* of a group */
    int64_t at[IR_MAX_RANK]; /* of the current element of the result */
} Conv;

/* Adds the product of y's element and x's element in row and channel of the
 * present group, at one position of a window; elements outside of x count as 0.
 */
static void
add_tap(const Conv *c, int64_t row, const int64_t *window, const int64_t *place,
        int64_t channel, int64_t channels, const int64_t *y, Products *p)
{
    int last = c->w.num_axes + 1;
    int64_t from[IR_MAX_RANK] = {row};
    bool inside = true;
    for (int i = 0; i < c->w.num_axes; i++) {
        int64_t at = window[i] * c->w.step[i] + place[i] * c->w.dilation[i] -
                     c->w.low[i];
        inside = inside && at >= 0 && at < c->x->dims[i + 1];
        from[i + 1] = at;
    }
    from[last] = c->at[last] / c->new_channels * channels + channel;
    Scalar x = inside ? get_at(c->x, from) : scalar_int(DT_i64, 0);
    add_product(p, x, get_at(c->y, y));
}

/* A product of an element of conv: a place of the window, and a channel. */
static void
add_of_windows(const Conv *c, const RefTensor *out, const int64_t *y,
               Products *p)
{
    int n = c->w.num_axes;
    (void)out;
    add_tap(c, c->at[0], c->at + 1, y, y[n], c->y->dims[n], y, p);
}

/* A product of an element of conv_weights: a row, and a window. */
static void
add_of_weights(const Conv *c, const RefTensor *out, const int64_t *y,
               Products *p)
{
    int n = c->w.num_axes;
    add_tap(c, y[0], y + 1, c->at, c->at[n], out->dims[n], y, p);
}

static void
convolve(const IrOp *op, Operands x, RefTensor *out,
         void (*add)(const Conv *c, const RefTensor *out, const int64_t *y,
                     Products *p))
{
    Conv c = {.x = x[0], .y = x[1], .w = ir_windows_of(op)};
    const Products none = no_products(op);
    int64_t taps = 1, y[IR_MAX_RANK]; /* the index of y in a product */
    for (int i = 0; i <= c.w.num_axes; i++)
        taps *= x[1]->dims[i];
    int last = c.w.num_axes + 1;
    c.new_channels = out->dims[last] / c.w.groups;
    for (int64_t i = 0; i < out->count; i++) {
        ref_next(out->rank, out->dims, i, c.at);
        y[last] = c.at[last];
        Scalar total = none.sum;
        for (int64_t k = 0; k < taps; k += BLOCK) {
            Products p = none;
            for (int64_t j = k; j < taps && j < k + BLOCK; j++) {
                ref_next(last, c.y->dims, j, y);
                add(&c, out, y, &p);
            }
            total = k == 0 ? sum_of(&p) : fold(OP_add, total, sum_of(&p));
        }
        ref_set(out, i, total);
    }
}

static void
compute_conv(const IrOp *op, Operands x, RefTensor *out)
{
    convolve(op, x, out, add_of_windows);
}

static void
compute_conv_weights(const IrOp *op, Operands x, RefTensor *out)
{
    convolve(op, x, out, add_of_weights);
}

/* ---- moving elements ---------------------------------------------------- */

static void
compute_same_elements(const IrOp *op, Operands x, RefTensor *out)
{
    (void)op;
    memcpy(out->data, x[0]->data,
           (size_t)out->count * dtype_info[out->dtype].bytes);
}

static void
compute_broadcast(const IrOp *op, Operands x, RefTensor *out)
{
    (void)op;
    int64_t index[IR_MAX_RANK];
    for (int64_t i = 0; i < out->count; i++) {
        ref_next(out->rank, out->dims, i, index);
        ref_set(out, i, broadcast_get(x[0], out, index));
    }
}

static void
compute_transpose(const IrOp *op, Operands x, RefTensor *out)
{
    int n;
    const int64_t *perm = ir_ints(op, A_perm, &n);
    int64_t to[IR_MAX_RANK], from[IR_MAX_RANK];
    for (int64_t i = 0; i < out->count; i++) {
        ref_next(out->rank, out->dims, i, to);
        for (int k = 0; k < n; k++)
            from[perm[k]] = to[k];
        ref_set(out, i, get_at(x[0], from));
    }
}

static void
compute_slice(const IrOp *op, Operands x, RefTensor *out)
{
    int n;
    const int64_t *start = ir_ints(op, A_start, &n);
    const int64_t *step = ir_ints(op, A_step, &n);
    int64_t index[IR_MAX_RANK];
    for (int64_t i = 0; i < out->count; i++) {
        ref_unravel(out->rank, out->dims, i, index);
        for (int k = 0; k < n; k++)
            index[k] = start[k] + index[k] * step[k];
        ref_set(out, i, get_at(x[0], index));
    }
}

static void
compute_pad(const IrOp *op, Operands x, RefTensor *out)
{
    int n;
    const int64_t *low = ir_ints(op, A_low, &n);
    const int64_t *step = ir_ints(op, A_step, &n);
    int64_t index[IR_MAX_RANK];
    memset(out->data, 0, (size_t)out->count * dtype_info[out->dtype].bytes);
    for (int64_t i = 0; i < x[0]->count; i++) {
        ref_unravel(n, x[0]->dims, i, index);
        for (int k = 0; k < n; k++)
            index[k] = low[k] + index[k] * step[k];
        ref_set(out, ref_ravel(n, out->dims, index), ref_get(x[0], i));
    }
}

static void
compute_reverse(const IrOp *op, Operands x, RefTensor *out)
{
    int n;
    const int64_t *axes = ir_ints(op, A_axes, &n);
    int64_t index[IR_MAX_RANK];
    for (int64_t i = 0; i < out->count; i++) {
        ref_unravel(out->rank, out->dims, i, index);
        for (int k = 0; k < n; k++)
            index[axes[k]] = out->dims[axes[k]] - 1 - index[axes[k]];
        ref_set(out, i, get_at(x[0], index));
    }
}

static void
compute_take(const IrOp *op, Operands x, RefTensor *out)
{
    int axis = (int)ir_int(op, A_axis);
    int64_t size = x[0]->dims[axis], index[IR_MAX_RANK], at[IR_MAX_RANK];
    for (int64_t i = 0; i < out->count && size > 0; i++) {
        ref_unravel(out->rank, out->dims, i, index);
        int64_t row = get_at(x[1], index + axis).i;
        for (int k = 0; k < x[0]->rank; k++)
            at[k] = index[k > axis ? k + x[1]->rank - 1 : k];
        at[axis] = row < 0 ? 0 : row >= size ? size - 1 : row;
        ref_set(out, i, get_at(x[0], at));
    }
}

/* A row's element and its value as one; integers are divided rounding down. */
static Scalar
change_element(IrUpdate mode, Scalar old, Scalar x)
{
    if (mode == UPDATE_set)
        return x;
    return fold(ir_update_op(mode, dtype_is_float(old.dtype)), old, x);
}

/* Row x[1][i] of x[0] changes by values x[2][i]. */
static void
compute_scatter(const IrOp *op, Operands x, RefTensor *out)
{
    int axis = (int)ir_int(op, A_axis);
    int64_t width = 1, size = out->dims[axis];
    for (int k = axis + 1; k < out->rank; k++)
        width *= out->dims[k];
    memcpy(out->data, x[0]->data,
           (size_t)out->count * dtype_info[out->dtype].bytes);
    for (int64_t i = 0; i < x[2]->count; i++) {
        int64_t number = i / width % x[1]->count;
        int64_t row = ref_get(x[1], number).i;
        if (row < 0 || row >= size)
            continue;
        int64_t before = i / width / x[1]->count;
        int64_t at = (before * size + row) * width + i % width;
        ref_set(out, at,
                change_element((IrUpdate)ir_enum(op, A_mode), ref_get(out, at),
                               ref_get(x[2], i)));
    }
}

/* ---- rows in order ------------------------------------------------------ */

/* Elements along axis from one on, which has index 0 there. */
typedef struct Line {
    int64_t first, step, count;
} Line;

/* Line number `which` of those along axis. */
static Line
line_of(const RefTensor *t, int axis, int64_t which)
{
    Line l = {.step = 1, .count = t->dims[axis]};
    for (int k = axis + 1; k < t->rank; k++)
        l.step *= t->dims[k];
    l.first = which / l.step * l.step * l.count + which % l.step;
    return l;
}

static int64_t
num_lines(const RefTensor *t, int axis)
{
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++)
        n *= k == axis ? 1 : t->dims[k];
    return n;
}

enum { RUNNING_BLOCK = IR_SCAN_BLOCK };

/* The sum of a block's elements so far, added to that of the blocks before. */
static void
sum_line(const IrOp *op, const RefTensor *x, Line l, RefTensor *out)
{
    bool exclusive = ir_int(op, A_exclusive);
    DType t = dtype_compute(x->dtype);
    Scalar before = {.dtype = t}, part = before, sum = before;
    for (int64_t i = 0; i < l.count; i++) {
        int64_t from = ir_int(op, A_reverse) ? l.count - 1 - i : i;
        int64_t at = l.first + from * l.step;
        Scalar e = scalar_cast(ref_get(x, at), t);
        if (exclusive)
            ref_set(out, at, sum);
        part = i % RUNNING_BLOCK ? fold(OP_add, part, e) : e;
        sum = i < RUNNING_BLOCK ? part : fold(OP_add, before, part);
        if (i % RUNNING_BLOCK == RUNNING_BLOCK - 1)
            before = sum;
        if (!exclusive)
            ref_set(out, at, sum);
    }
}

static void
compute_cumsum(const IrOp *op, Operands x, RefTensor *out)
{
    int axis = (int)ir_int(op, A_axis);
    int64_t n = out->count ? num_lines(out, axis) : 0;
    for (int64_t i = 0; i < n; i++)
        sum_line(op, x[0], line_of(out, axis, i), out);
}

/* Whether x is less; NaN is greatest. */
static bool
sorts_before(Scalar x, Scalar y)
{
    if (!dtype_is_float(x.dtype))
        return x.i < y.i;
    if (isnan(x.f) || isnan(y.f))
        return isnan(y.f) && !isnan(x.f);
    return x.f < y.f;
}

/* Inserts number i among those before it in the line `to`; what then has no
 * place is dropped. */
static void
insert_number(const IrOp *op, const RefTensor *x, Line from, int64_t i,
              RefTensor *out, Line to)
{
    bool descending = ir_int(op, A_descending);
    Scalar e = ref_get(x, from.first + i);
    int64_t at = i < to.count ? i : to.count;
    for (; at > 0; at--) {
        Scalar before = ref_get(out, to.first + at - 1);
        Scalar other = ref_get(x, from.first + before.i);
        if (!(descending ? sorts_before(other, e) : sorts_before(e, other)))
            break;
        if (at < to.count)
            ref_set(out, to.first + at, before);
    }
    if (at < to.count)
        ref_set(out, to.first + at, scalar_int(DT_i64, i));
}

static void
compute_argsort(const IrOp *op, Operands x, RefTensor *out)
{
    int axis = out->rank - 1;
    int64_t n = out->count ? num_lines(out, axis) : 0;
    for (int64_t row = 0; row < n; row++) {
        Line from = line_of(x[0], axis, row);
        for (int64_t i = 0; i < from.count; i++)
            insert_number(op, x[0], from, i, out, line_of(out, axis, row));
    }
}

static void
compute_reorder(const IrOp *op, Operands x, RefTensor *out)
{
    (void)op;
    int64_t count = out->dims[out->rank - 1];
    int64_t all = x[0]->dims[out->rank - 1];
    for (int64_t i = 0; i < out->count; i++) {
        int64_t from = ref_get(x[1], i).i;
        from = from < 0 ? 0 : from >= all ? all - 1 : from;
        ref_set(out, i, ref_get(x[0], i / count * all + from));
    }
}

void
ref_concat(int n, const RefTensor *const *x, int axis, RefTensor *out)
{
    int64_t index[IR_MAX_RANK], before = 0;
    for (int k = 0; k < n; k++) {
        for (int64_t i = 0; i < x[k]->count; i++) {
            ref_unravel(out->rank, x[k]->dims, i, index);
            index[axis] += before;
            ref_set(out, ref_ravel(out->rank, out->dims, index),
                    ref_get(x[k], i));
        }
        before += x[k]->dims[axis];
    }
}

static void
compute_concat(const IrOp *op, Operands x, RefTensor *out)
{
    ref_concat(op->num_operands, x, (int)ir_int(op, A_axis), out);
}

/* ---- from nothing ------------------------------------------------------- */

static void
compute_constant(const IrOp *op, Operands x, RefTensor *out)
{
    (void)x;
    int64_t bytes;
    const void *data = ir_data(op, A_data, &bytes);
    if (bytes)
        memcpy(out->data, data, (size_t)bytes);
}

static void
compute_iota(const IrOp *op, Operands x, RefTensor *out)
{
    (void)x;
    int64_t index[IR_MAX_RANK];
    for (int64_t i = 0; i < out->count; i++) {
        ref_next(out->rank, out->dims, i, index);
        ref_set(out, i, scalar_int(DT_i64, index[ir_int(op, A_axis)]));
    }
}

/* ---- all of them -------------------------------------------------------- */

typedef void (*Compute)(const IrOp *op, Operands x, RefTensor *out);

static const Compute computes[NUM_OPS] = {
    [OP_constant] = compute_constant,
    [OP_iota] = compute_iota,
    [OP_dot] = compute_dot,
    [OP_reshape] = compute_same_elements,
    [OP_copy] = compute_same_elements,
    [OP_optimization_barrier] = compute_same_elements,
    [OP_broadcast] = compute_broadcast,
    [OP_transpose] = compute_transpose,
    [OP_slice] = compute_slice,
    [OP_pad] = compute_pad,
    [OP_reverse] = compute_reverse,
    [OP_concat] = compute_concat,
    [OP_take] = compute_take,
    [OP_scatter] = compute_scatter,
    [OP_conv] = compute_conv,
    [OP_conv_weights] = compute_conv_weights,
    [OP_cumsum] = compute_cumsum,
    [OP_argsort] = compute_argsort,
    [OP_reorder] = compute_reorder,
};

static Compute
compute_of(const IrOp *op)
{
    unsigned traits = ir_op_info[op->kind].traits;
    if (traits & ELEMENTWISE)
        return compute_elementwise;
    if (traits & REDUCES)
        return compute_reduction;
    return computes[op->kind];
}

bool
ref_can_compute(const IrOp *op)
{
    return compute_of(op) != NULL;
}

void
ref_compute(const IrOp *op, const RefTensor *const *x, RefTensor *out)
{
    compute_of(op)(op, x, out);
}
