/*
 * shape_rules.c - one function for each name in the shape column
 *
 * Dimensions are equal when they are the same expression: equality for only
 * some numbers of rows (n == 3) does not count.
 */
#include "ir/rules/rules.h"
#include "ir/rules/windows.h"
#include "ir/type_bounds.h"
#include "ir/type_text.h"

#include <string.h>

static const char *
dims_text(const Infer *in, int rank, const Dim *dims)
{
    return ir_dims_text(in->module, rank, dims);
}

static const char *
shape_text(const Infer *in, const IrType *t)
{
    return dims_text(in, t->rank, t->dims);
}

static const IrType *
operand(const Infer *in, int i)
{
    return &in->op->operands[i]->type;
}

static const char *
op_name(const Infer *in)
{
    return ir_op_info[in->op->kind].name;
}

static void
copy_shape(IrType *out, const IrType *from)
{
    out->rank = from->rank;
    memcpy(out->dims, from->dims, (size_t)from->rank * sizeof *from->dims);
}

static const char *
too_many_axes(const Infer *in)
{
    return WRONG(in, "a value has at most %d axes", IR_MAX_RANK);
}

static const char *
set_shape(const Infer *in, IrType *out, int rank, const Dim *dims)
{
    if (rank > IR_MAX_RANK)
        return too_many_axes(in);
    out->rank = rank;
    if (rank)
        memcpy(out->dims, dims, (size_t)rank * sizeof *dims);
    return NULL;
}

/* Adds a dimension to out. */
static const char *
push_dim(const Infer *in, IrType *out, Dim d)
{
    if (out->rank == IR_MAX_RANK)
        return too_many_axes(in);
    out->dims[out->rank++] = d;
    return NULL;
}

static const char *
check_axis(const Infer *in, int64_t axis, int rank)
{
    if (axis < 0 || axis >= rank)
        return WRONG(in, "axis %lld is out of range for a value of rank %d",
                     (long long)axis, rank);
    return NULL;
}

/* Checks axes of a value of that rank and gives them as a set of bits. */
static const char *
check_axes(const Infer *in, const int64_t *axes, int count, int rank,
           unsigned *set)
{
    *set = 0;
    for (int i = 0; i < count; i++) {
        const char *wrong = check_axis(in, axes[i], rank);
        if (wrong)
            return wrong;
        if (*set & 1u << axes[i])
            return WRONG(in, "axis %lld is given twice", (long long)axes[i]);
        *set |= 1u << axes[i];
    }
    return NULL;
}

/* ---- constant and copied shapes ---------------------------------------- */

const char *
ir_shape_none(const Infer *in, int i, IrType *out)
{
    (void)in, (void)i, (void)out;
    return NULL;
}

const char *
ir_shape_scalar(const Infer *in, int i, IrType *out)
{
    (void)in, (void)i;
    out->rank = 0;
    return NULL;
}

const char *
ir_shape_attr_dims(const Infer *in, int i, IrType *out)
{
    (void)i;
    int rank;
    const Dim *dims = ir_dims(in->op, A_dims, &rank);
    const char *wrong = set_shape(in, out, rank, dims);
    if (!wrong && in->op->kind == OP_iota)
        wrong = check_axis(in, ir_int(in->op, A_axis), rank);
    return wrong;
}

const char *
ir_shape_same(const Infer *in, int i, IrType *out)
{
    (void)i;
    copy_shape(out, operand(in, 0));
    if (in->op->kind != OP_reverse)
        return NULL;
    int count;
    unsigned set;
    const int64_t *axes = ir_ints(in->op, A_axes, &count);
    return check_axes(in, axes, count, out->rank, &set);
}

const char *
ir_shape_each(const Infer *in, int i, IrType *out)
{
    if (in->op->num_operands == 0)
        return WRONG(in, "%s needs an operand", op_name(in));
    copy_shape(out, operand(in, i));
    return NULL;
}

const char *
ir_shape_var(const Infer *in, int i, IrType *out)
{
    (void)i;
    const char *wrong;
    const IrVar *var = ir_rule_var(in, &wrong);
    if (!var)
        return wrong;
    IrType type = ir_var_type_in(in->at->func, var);
    copy_shape(out, &type);
    return NULL;
}

/* The dimension d on one replica, as known to all replicas; false if the module
 * has no symbol for it. */
static bool
dim_of_replica(const IrModule *m, int64_t replica, Dim *d)
{
    if (ir_dim_is_const(*d) || !ir_symbol_is_share(&m->symbols.data[d->sym]))
        return true;
    d->sym = ir_symbol_find_replica(m, d->sym, replica);
    return d->sym >= 0;
}

/* The shape of one replica's value, with the rows of that replica. */
const char *
ir_shape_local(const Infer *in, int i, IrType *out)
{
    (void)i;
    copy_shape(out, operand(in, 0));
    int64_t replica = ir_int(in->op, A_replica);
    if (replica < 0 || replica >= in->module->num_replicas)
        return WRONG(in, "there is no replica %lld: there are %d",
                     (long long)replica, in->module->num_replicas);
    for (int k = 0; k < out->rank; k++)
        if (!dim_of_replica(in->module, replica, &out->dims[k]))
            return WRONG(in, "no batch symbol has the rows of replica %lld",
                         (long long)replica);
    return NULL;
}

/* ---- broadcasting ------------------------------------------------------ */

/* out becomes the shape to which it and t broadcast; false if none. */
static bool
broadcast_with(IrType *out, const IrType *t)
{
    IrType wide = out->rank >= t->rank ? *out : *t;
    const IrType *narrow = out->rank >= t->rank ? t : out;
    int skip = wide.rank - narrow->rank;
    for (int i = 0; i < narrow->rank; i++) {
        Dim *w = &wide.dims[skip + i];
        if (ir_dim_equal(*w, ir_dim_const(1)))
            *w = narrow->dims[i];
        else if (!ir_dim_equal(*w, narrow->dims[i]) &&
                 !ir_dim_equal(narrow->dims[i], ir_dim_const(1)))
            return false;
    }
    copy_shape(out, &wide);
    return true;
}

const char *
ir_shape_broadcast(const Infer *in, int i, IrType *out)
{
    (void)i;
    copy_shape(out, operand(in, 0));
    for (int k = 1; k < in->op->num_operands; k++) {
        const IrType *t = operand(in, k);
        if (!ir_type_same_shape(out, t) && !broadcast_with(out, t))
            return WRONG(in, "shapes %s and %s do not broadcast",
                         shape_text(in, out), shape_text(in, t));
    }
    return NULL;
}

const char *
ir_shape_expand(const Infer *in, int i, IrType *out)
{
    (void)i;
    int rank;
    const Dim *dims = ir_dims(in->op, A_dims, &rank);
    const char *wrong = set_shape(in, out, rank, dims);
    if (wrong)
        return wrong;
    IrType wide = *out;
    if (!broadcast_with(&wide, operand(in, 0)) ||
        !ir_type_same_shape(&wide, out))
        return WRONG(in, "a value of shape %s does not broadcast to %s",
                     shape_text(in, operand(in, 0)), shape_text(in, out));
    return NULL;
}

/* ---- fewer axes -------------------------------------------------------- */

/* t without the axes of the set, or with length 1 along each of them. */
static void
reduce_shape(const IrType *t, unsigned set, bool keepdims, IrType *out)
{
    out->rank = 0;
    for (int i = 0; i < t->rank; i++) {
        if (!(set & 1u << i))
            out->dims[out->rank++] = t->dims[i];
        else if (keepdims)
            out->dims[out->rank++] = ir_dim_const(1);
    }
}

const char *
ir_shape_reduce(const Infer *in, int i, IrType *out)
{
    (void)i;
    const IrOp *op = in->op;
    const IrType *x = operand(in, 0);
    int count;
    unsigned set;
    const int64_t *axes = ir_ints(op, A_axes, &count);
    const char *wrong = check_axes(in, axes, count, x->rank, &set);
    if (wrong)
        return wrong;
    for (int k = 1; k < count; k++) {
        if (axes[k - 1] > axes[k])
            return WRONG(in, "axes of %s ascend", op_name(in));
    }
    if ((op->kind == OP_argmax || op->kind == OP_argmin) && count != 1)
        return WRONG(in, "%s takes one axis, not %d", op_name(in), count);
    reduce_shape(x, set, ir_int(op, A_keepdims), out);
    return NULL;
}

const char *
ir_shape_cross_reduce(const Infer *in, int i, IrType *out)
{
    (void)i;
    const IrType *x = operand(in, 0);
    int count;
    unsigned set;
    const int64_t *axes = ir_ints(in->op, A_axes, &count);
    const char *wrong = check_axes(in, axes, count, x->rank, &set);
    if (wrong)
        return wrong;
    reduce_shape(x, set, false, out);
    if (ir_type_is_local(in->module, out))
        return WRONG(in,
                     "values of shape %s have other rows on each replica: "
                     "reduce over their axis too",
                     shape_text(in, x));
    return NULL;
}

/* ---- contraction ------------------------------------------------------- */

typedef struct AxisPairs {
    const int64_t *x, *y;
    int count;
    unsigned set_x, set_y;
} AxisPairs;

static const char *
read_pairs(const Infer *in, IrAttrName ax, IrAttrName ay, AxisPairs *out)
{
    const IrType *x = operand(in, 0), *y = operand(in, 1);
    int count_y;
    out->x = ir_ints(in->op, ax, &out->count);
    out->y = ir_ints(in->op, ay, &count_y);
    if (out->count != count_y)
        return WRONG(in, "%s and %s of dot have %d and %d axes",
                     ir_attr_text[ax], ir_attr_text[ay], out->count, count_y);
    const char *wrong = check_axes(in, out->x, count_y, x->rank, &out->set_x);
    if (!wrong)
        wrong = check_axes(in, out->y, count_y, y->rank, &out->set_y);
    for (int i = 0; !wrong && i < out->count; i++) {
        if (!ir_dim_equal(x->dims[out->x[i]], y->dims[out->y[i]]))
            wrong = WRONG(in,
                          "shapes %s and %s do not multiply: axis %lld of one "
                          "and axis %lld of the other differ",
                          shape_text(in, x), shape_text(in, y),
                          (long long)out->x[i], (long long)out->y[i]);
    }
    return wrong;
}

static const char *
push_others(const Infer *in, IrType *out, const IrType *from, unsigned set)
{
    const char *wrong = NULL;
    for (int i = 0; !wrong && i < from->rank; i++) {
        if (!(set & 1u << i))
            wrong = push_dim(in, out, from->dims[i]);
    }
    return wrong;
}

const char *
ir_shape_dot(const Infer *in, int i, IrType *out)
{
    (void)i;
    const IrType *x = operand(in, 0), *y = operand(in, 1);
    AxisPairs sum, batch;
    const char *wrong = read_pairs(in, A_contract_x, A_contract_y, &sum);
    if (!wrong)
        wrong = read_pairs(in, A_batch_x, A_batch_y, &batch);
    if (wrong)
        return wrong;
    if (sum.set_x & batch.set_x || sum.set_y & batch.set_y)
        return WRONG(in, "an axis of dot is in contract and in batch");
    out->rank = 0;
    for (int k = 0; k < batch.count; k++)
        out->dims[out->rank++] = x->dims[batch.x[k]];
    wrong = push_others(in, out, x, sum.set_x | batch.set_x);
    if (!wrong)
        wrong = push_others(in, out, y, sum.set_y | batch.set_y);
    return wrong;
}

/* ---- moving elements --------------------------------------------------- */

const char *
ir_shape_reshape(const Infer *in, int i, IrType *out)
{
    (void)i;
    const IrType *x = operand(in, 0);
    int rank;
    Dim from, to;
    const Dim *dims = ir_dims(in->op, A_dims, &rank);
    const char *wrong = set_shape(in, out, rank, dims);
    if (wrong || ir_type_same_shape(x, out))
        return wrong;
    if (!ir_type_elements(x, &from) || !ir_type_elements(out, &to) ||
        !ir_dim_equal(from, to))
        return WRONG(in, "cannot reshape %s to %s: another number of elements",
                     shape_text(in, x), shape_text(in, out));
    return NULL;
}

const char *
ir_shape_transpose(const Infer *in, int i, IrType *out)
{
    (void)i;
    const IrType *x = operand(in, 0);
    int count;
    unsigned set;
    const int64_t *perm = ir_ints(in->op, A_perm, &count);
    if (count != x->rank)
        return WRONG(in, "transpose of a value of rank %d names %d axes",
                     x->rank, count);
    const char *wrong = check_axes(in, perm, count, x->rank, &set);
    if (wrong)
        return wrong;
    out->rank = count;
    for (int k = 0; k < count; k++)
        out->dims[k] = x->dims[perm[k]];
    return NULL;
}

/* first + (count - 1) * step; false on overflow. */
static bool
last_index(int64_t first, int64_t count, int64_t step, int64_t *out)
{
    return !__builtin_mul_overflow(count - 1, step, out) &&
           !__builtin_add_overflow(first, *out, out);
}

/* Whether count indices from first at that step are all in 0 .. size - 1. */
static bool
indices_fit(int64_t first, int64_t count, int64_t step, int64_t size)
{
    int64_t last;
    if (count == 0)
        return true;
    return first >= 0 && first < size &&
           last_index(first, count, step, &last) && last >= 0 && last < size;
}

/* The same for dimensions, for any number of rows.  The conditions are linear
 * in the rows, so they hold between two numbers of rows when they hold at
 * both.  A count of 0 needs no check, so the smallest number of rows to check
 * is 0 or 1, and the largest is the bound or one less. */
static bool
dims_fit(const IrModule *m, int64_t first, Dim count, int64_t step, Dim size)
{
    int32_t sym = ir_dim_is_const(count) ? size.sym : count.sym;
    if (!ir_dim_is_const(count) && !ir_dim_is_const(size) &&
        count.sym != size.sym)
        return false;
    if (sym < 0)
        return indices_fit(first, count.c, step, size.c);
    int64_t bound = m->symbols.data[sym].bound;
    int64_t rows[] = {0, 1, bound - 1, bound};
    for (int i = 0; i < 4; i++) {
        if (rows[i] < 0 || rows[i] > bound)
            continue;
        if (!indices_fit(first, ir_dim_value(count, rows[i]), step,
                         ir_dim_value(size, rows[i])))
            return false;
    }
    return true;
}

/* The attributes of slice and pad: for each axis a first index, a step, and the
 * dimension of the result. */
typedef struct Strides {
    const int64_t *first, *step;
} Strides;

static const char *
read_strides(const Infer *in, IrAttrName first, Strides *s, IrType *out)
{
    int rank = operand(in, 0)->rank, counts[3];
    s->first = ir_ints(in->op, first, &counts[0]);
    s->step = ir_ints(in->op, A_step, &counts[1]);
    const Dim *dims = ir_dims(in->op, A_dims, &counts[2]);
    for (int i = 0; i < 3; i++) {
        if (counts[i] != rank)
            return WRONG(in, "%s of a value of rank %d names %d axes",
                         op_name(in), rank, counts[i]);
    }
    return set_shape(in, out, rank, dims);
}

const char *
ir_shape_slice(const Infer *in, int i, IrType *out)
{
    (void)i;
    const IrType *x = operand(in, 0);
    Strides s;
    const char *wrong = read_strides(in, A_start, &s, out);
    for (int k = 0; !wrong && k < x->rank; k++) {
        if (s.step[k] == 0)
            return WRONG(in, "a slice has a step of 0");
        if (!dims_fit(in->module, s.first[k], out->dims[k], s.step[k],
                      x->dims[k]))
            wrong =
                WRONG(in,
                      "a slice of %s from %lld with step %lld leaves axis "
                      "%d of %s",
                      dims_text(in, 1, &out->dims[k]), (long long)s.first[k],
                      (long long)s.step[k], k, shape_text(in, x));
    }
    return wrong;
}

const char *
ir_shape_pad(const Infer *in, int i, IrType *out)
{
    (void)i;
    const IrType *x = operand(in, 0);
    Strides s;
    const char *wrong = read_strides(in, A_low, &s, out);
    for (int k = 0; !wrong && k < x->rank; k++) {
        if (s.step[k] < 1 || s.first[k] < 0)
            return WRONG(in, "pad has low from 0 and steps from 1");
        if (!dims_fit(in->module, s.first[k], x->dims[k], s.step[k],
                      out->dims[k]))
            wrong = WRONG(in, "%s with padding does not fit axis %d of %s",
                          shape_text(in, x), k, shape_text(in, out));
    }
    return wrong;
}

/* Whether an attribute has a number from least to most for each of n axes. */
static bool
has_sizes(const Infer *in, IrAttrName a, int n, int64_t least, int64_t most)
{
    int count;
    const int64_t *x = ir_ints(in->op, a, &count);
    for (int k = 0; k < count; k++) {
        if (x[k] < least || x[k] > most)
            return false;
    }
    return count == n;
}

/* Whether the places of a window, `taps` that are dilation apart, are less than
 * 2^31 elements. */
static bool
is_small_window(const Infer *in, int axis, Dim taps)
{
    int n;
    int64_t reach = 1;
    if (ir_has(in->op, A_dilation))
        reach = ir_ints(in->op, A_dilation, &n)[axis];
    return taps.c <= INT32_MAX && taps.c * reach <= INT32_MAX;
}

/* Channels in equal parts, one for each group. */
static const char *
check_groups(const Infer *in, Dim channels)
{
    int64_t groups = ir_has(in->op, A_groups) ? ir_int(in->op, A_groups) : 1;
    if (groups < 1)
        return WRONG(in, "%s has groups from 1", op_name(in));
    if (groups > 1 && (!ir_dim_is_const(channels) || channels.c % groups))
        return WRONG(in, "%lld groups do not divide the channels of %s",
                     (long long)groups, op_name(in));
    return NULL;
}

/* Windows of x; `first` is the dimension of y that has an entry for each place
 * of a window, or for each window; then the places are dims. */
static const char *
check_windows(const Infer *in, int first)
{
    const IrType *x = operand(in, 0), *y = operand(in, 1);
    const char *name = op_name(in);
    int n = x->rank - 2, num_dims;
    const Dim *dims = ir_dims(in->op, A_dims, &num_dims);
    if (x->rank != y->rank || n < 1 || n > IR_MAX_WINDOW_AXES)
        return WRONG(in, "%s is of values of rank 3 to 5, not %d and %d", name,
                     x->rank, y->rank);
    const int64_t zeros = INT64_C(1) << 48;
    if (num_dims != n || !has_sizes(in, A_low, n, -zeros, zeros) ||
        !has_sizes(in, A_step, n, 1, INT32_MAX) ||
        (ir_has(in->op, A_dilation) &&
         !has_sizes(in, A_dilation, n, 1, INT32_MAX)))
        return WRONG(in,
                     "%s has at most 2^48 zeros, and steps and dilations from "
                     "1 to 2^31 - 1, for each of its %d axes",
                     name, n);
    for (int k = 0; k < n; k++) {
        if (!ir_dim_is_const(dims[k]) || !ir_dim_is_const(x->dims[k + 1]) ||
            !ir_dim_is_const(y->dims[first + k]))
            return WRONG(in, "%s has constant sizes along its windows", name);
        if (!is_small_window(in, k, first ? dims[k] : y->dims[k]))
            return WRONG(in,
                         "%s has windows of less than 2^31 elements along "
                         "each axis",
                         name);
    }
    const char *wrong = check_groups(in, x->dims[n + 1]);
    return wrong ? wrong : check_groups(in, y->dims[n + 1]);
}

/* The channels of a group, of those of x. */
static Dim
group_channels(const Infer *in)
{
    Dim channels = operand(in, 0)->dims[operand(in, 0)->rank - 1];
    if (ir_has(in->op, A_groups))
        channels = ir_dim_const(channels.c / ir_int(in->op, A_groups));
    return channels;
}

const char *
ir_shape_conv(const Infer *in, int i, IrType *out)
{
    (void)i;
    const IrType *x = operand(in, 0), *y = operand(in, 1);
    int n;
    const Dim *dims = ir_dims(in->op, A_dims, &n);
    const char *wrong = check_windows(in, 0);
    if (wrong)
        return wrong;
    if (!ir_dim_equal(group_channels(in), y->dims[n]))
        return WRONG(in, "shapes %s and %s have other channels",
                     shape_text(in, x), shape_text(in, y));
    Dim shape[IR_MAX_RANK] = {x->dims[0]};
    memcpy(shape + 1, dims, sizeof *dims * (size_t)n);
    shape[n + 1] = y->dims[n + 1];
    return set_shape(in, out, n + 2, shape);
}

const char *
ir_shape_conv_weights(const Infer *in, int i, IrType *out)
{
    (void)i;
    const IrType *x = operand(in, 0), *y = operand(in, 1);
    int n;
    const Dim *dims = ir_dims(in->op, A_dims, &n);
    const char *wrong = check_windows(in, 1);
    if (wrong)
        return wrong;
    if (!ir_dim_equal(x->dims[0], y->dims[0]))
        return WRONG(in, "shapes %s and %s have other rows", shape_text(in, x),
                     shape_text(in, y));
    Dim shape[IR_MAX_RANK];
    memcpy(shape, dims, sizeof *dims * (size_t)n);
    shape[n] = group_channels(in);
    shape[n + 1] = y->dims[n + 1];
    return set_shape(in, out, n + 2, shape);
}

const char *
ir_shape_take(const Infer *in, int i, IrType *out)
{
    (void)i;
    const IrType *x = operand(in, 0), *y = operand(in, 1);
    int64_t axis = ir_int(in->op, A_axis);
    const char *wrong = check_axis(in, axis, x->rank);
    if (wrong)
        return wrong;
    if (ir_dim_equal(x->dims[axis], ir_dim_const(0)))
        return WRONG(in, "axis %lld of %s has nothing to take", (long long)axis,
                     shape_text(in, x));
    out->rank = 0;
    for (int k = 0; !wrong && k < axis; k++)
        wrong = push_dim(in, out, x->dims[k]);
    for (int k = 0; !wrong && k < y->rank; k++)
        wrong = push_dim(in, out, y->dims[k]);
    for (int k = (int)axis + 1; !wrong && k < x->rank; k++)
        wrong = push_dim(in, out, x->dims[k]);
    return wrong;
}

/* The operand's shape; the operation runs along one of its axes. */
const char *
ir_shape_along(const Infer *in, int i, IrType *out)
{
    (void)i;
    copy_shape(out, operand(in, 0));
    return check_axis(in, ir_int(in->op, A_axis), out->rank);
}

const char *
ir_shape_row(const Infer *in, int i, IrType *out)
{
    (void)i;
    copy_shape(out, operand(in, 0));
    if (out->rank == 0)
        return WRONG(in, "a scalar has no rows for %s", op_name(in));
    if (!ir_has(in->op, A_first))
        return NULL;
    int64_t first = ir_int(in->op, A_first);
    Dim *row = &out->dims[out->rank - 1];
    if (!ir_dim_is_const(*row) || first < 1 || first > row->c)
        return WRONG(in, "rows of %s have no first %lld elements",
                     shape_text(in, out), (long long)first);
    *row = ir_dim_const(first);
    return NULL;
}

/* Whether y has the shape of x, or shorter rows.  The gradient of these counts
 * the elements of x. */
static bool
has_rows_of(const IrType *y, const IrType *x)
{
    IrType whole = *y;
    Dim count;
    if (x->rank == 0 || x->rank != y->rank)
        return false;
    Dim *row = &whole.dims[whole.rank - 1], all = x->dims[x->rank - 1];
    if (ir_dim_is_const(*row) && ir_dim_is_const(all) && row->c < all.c &&
        ir_type_elements(x, &count))
        *row = all;
    return ir_type_same_shape(&whole, x);
}

const char *
ir_shape_reorder(const Infer *in, int i, IrType *out)
{
    const IrType *x = operand(in, 0), *y = operand(in, 1);
    (void)i;
    copy_shape(out, y);
    if (!has_rows_of(y, x))
        return WRONG(in, "shapes %s and %s are no values and their order",
                     shape_text(in, x), shape_text(in, y));
    return NULL;
}

const char *
ir_shape_scatter(const Infer *in, int i, IrType *out)
{
    (void)i;
    const IrType *x = operand(in, 0), *y = operand(in, 1);
    const IrType *values = operand(in, 2);
    IrType want = {0};
    const char *wrong = NULL;
    int64_t axis = ir_int(in->op, A_axis);
    if (x->rank == 0)
        return WRONG(in, "a scalar has no rows");
    wrong = check_axis(in, axis, x->rank);
    for (int k = 0; !wrong && k < axis; k++)
        wrong = push_dim(in, &want, x->dims[k]);
    for (int k = 0; !wrong && k < y->rank; k++)
        wrong = push_dim(in, &want, y->dims[k]);
    for (int k = (int)axis + 1; !wrong && k < x->rank; k++)
        wrong = push_dim(in, &want, x->dims[k]);
    if (!wrong && !ir_type_same_shape(&want, values))
        wrong = WRONG(in, "values of shape %s where rows need %s",
                      shape_text(in, values), shape_text(in, &want));
    copy_shape(out, x);
    return wrong;
}

const char *
ir_shape_concat(const Infer *in, int i, IrType *out)
{
    (void)i;
    if (in->op->num_operands == 0)
        return WRONG(in, "concat needs an operand");
    copy_shape(out, operand(in, 0));
    int64_t axis = ir_int(in->op, A_axis);
    const char *wrong = check_axis(in, axis, out->rank);
    for (int k = 1; !wrong && k < in->op->num_operands; k++) {
        IrType t = *operand(in, k);
        Dim add = ir_dim_const(0);
        if (t.rank == out->rank) {
            add = t.dims[axis];
            t.dims[axis] = out->dims[axis];
        }
        if (!ir_type_same_shape(out, &t) ||
            !ir_dim_add(out->dims[axis], add, &out->dims[axis]))
            wrong =
                WRONG(in, "shapes %s and %s do not go together on axis %lld",
                      shape_text(in, operand(in, 0)),
                      shape_text(in, operand(in, k)), (long long)axis);
    }
    return wrong;
}

/* The rows of all replicas for a dimension d of one: n becomes N, and a
 * dimension that is equal on all is multiplied. */
static bool
gathered_dim(const IrModule *m, Dim d, Dim *out)
{
    const IrSymbol *s = ir_dim_is_const(d) ? NULL : &m->symbols.data[d.sym];
    Dim replicas = ir_dim_const(m->num_replicas);
    if (!s || s->global)
        return ir_dim_mul(d, replicas, out);
    if (!ir_symbol_is_share(s))
        return false;
    int64_t c;
    if (__builtin_mul_overflow(d.c, (int64_t)m->num_replicas, &c))
        return false;
    *out = ir_dim_linear(c, d.k, s->partner);
    return true;
}

const char *
ir_shape_gather(const Infer *in, int i, IrType *out)
{
    (void)i;
    int64_t axis = ir_int(in->op, A_axis);
    copy_shape(out, operand(in, 0));
    const char *wrong = check_axis(in, axis, out->rank);
    if (wrong)
        return wrong;
    if (!gathered_dim(in->module, out->dims[axis], &out->dims[axis]))
        return WRONG(in, "a value of shape %s cannot be gathered",
                     shape_text(in, operand(in, 0)));
    if (ir_type_is_local(in->module, out))
        return WRONG(in,
                     "only axis %lld of %s may have other sizes on each "
                     "replica",
                     (long long)axis, shape_text(in, operand(in, 0)));
    return NULL;
}
