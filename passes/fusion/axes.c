/*
 * axes.c - the loops along which values lie
 *
 * Dimensions are joined in a forest (union-find); each tree is one axis.
 */
#include "passes/fusion/axes.h"

#include <assert.h>
#include <string.h>
#include "ir/axes.h"
#include "ir/base/vec.h"

struct Axes {
    Arena *arena;
    VEC(const IrValue *) values; /* by their ids */
    VEC(int) parents; /* of dimension d of value i: at i * IR_MAX_RANK + d */
    VEC(int) numbers; /* of the axis, at the root of its tree; -1: none yet */
    int num_axes;
};

enum { MAX_AXES = 64 };

Axes *
pass_axes_new(Arena *a)
{
    Axes *x = NEW(a, Axes);
    x->arena = a;
    return x;
}

void
pass_axes_clear(Axes *x)
{
    x->values.len = x->parents.len = x->numbers.len = x->num_axes = 0;
}

static bool
is_one(Dim d)
{
    return ir_dim_equal(d, ir_dim_const(1));
}

/* ---- the forest --------------------------------------------------------- */

static bool
has_value(const Axes *x, const IrValue *v)
{
    return v->id >= 0 && v->id < x->values.len && x->values.data[v->id] == v;
}

static void
add_value(Axes *x, IrValue *v)
{
    if (has_value(x, v))
        return;
    v->id = x->values.len;
    VEC_PUSH(x->arena, x->values, v);
    for (int i = 0; i < IR_MAX_RANK; i++) {
        int at = x->parents.len;
        VEC_PUSH(x->arena, x->parents, at);
    }
}

static int
root_of(const Axes *x, const IrValue *v, int dim)
{
    int at = v->id * IR_MAX_RANK + dim;
    while (x->parents.data[at] != at)
        at = x->parents.data[at];
    return at;
}

static void
join(Axes *x, const IrValue *v, int i, const IrValue *w, int j)
{
    if (is_one(v->type.dims[i]) || is_one(w->type.dims[j]))
        return;
    int a = root_of(x, v, i), b = root_of(x, w, j);
    x->parents.data[a > b ? a : b] = a > b ? b : a;
}

/* ---- rules by operation ------------------------------------------------ */

/* The dimensions of v are the last ones of w. */
static void
join_last(Axes *x, const IrValue *v, const IrValue *w)
{
    int skip = w->type.rank - v->type.rank;
    for (int i = 0; i < v->type.rank; i++)
        join(x, v, i, w, i + skip);
}

static void
join_kept(Axes *x, const IrOp *op)
{
    const IrValue *v = op->operands[0], *w = op->results[0];
    int count, kept = 0;
    const int64_t *axes = ir_ints(op, A_axes, &count);
    for (int i = 0; i < v->type.rank; i++) {
        bool reduced = ir_axes_have(axes, count, i);
        if (!reduced)
            join(x, v, i, w, kept);
        kept += !reduced || ir_int(op, A_keepdims);
    }
}

static void
join_permuted(Axes *x, const IrOp *op)
{
    int count;
    const int64_t *perm = ir_ints(op, A_perm, &count);
    for (int i = 0; i < count; i++)
        join(x, op->operands[0], (int)perm[i], op->results[0], i);
}

bool
pass_axes_differ_by_ones(const IrType *x, const IrType *y)
{
    int i = 0, j = 0;
    for (;;) {
        while (i < x->rank && is_one(x->dims[i]))
            i++;
        while (j < y->rank && is_one(y->dims[j]))
            j++;
        if (i == x->rank || j == y->rank)
            return i == x->rank && j == y->rank;
        if (!ir_dim_equal(x->dims[i++], y->dims[j++]))
            return false;
    }
}

static void
join_in_order(Axes *x, const IrValue *v, const IrValue *w)
{
    int j = 0;
    for (int i = 0; i < v->type.rank; i++) {
        if (is_one(v->type.dims[i]))
            continue;
        while (is_one(w->type.dims[j]))
            j++;
        join(x, v, i, w, j++);
    }
}

/* The dimensions along which op reads the same element that it makes. */
static void
join_unmoved(Axes *x, const IrOp *op, const IrValue *v)
{
    const IrValue *w = op->results[0];
    int count = 0;
    bool reverses = op->kind == OP_reverse, concats = op->kind == OP_concat;
    const int64_t *step = NULL, *from = NULL, *axes = NULL;
    if (reverses) {
        axes = ir_ints(op, A_axes, &count);
    } else if (!concats) {
        step = ir_ints(op, A_step, &count);
        from = ir_ints(op, op->kind == OP_pad ? A_low : A_start, &count);
    }
    for (int i = 0; i < v->type.rank; i++) {
        bool moved = reverses ? ir_axes_have(axes, count, i)
                     : concats
                         ? ir_int(op, A_axis) == i
                         : step[i] != 1 || from[i] != 0 ||
                               !ir_dim_equal(v->type.dims[i], w->type.dims[i]);
        if (!moved)
            join(x, v, i, w, i);
    }
}

/* Elements of v along an axis, selected by the numbers in y. */
static void
join_taken(Axes *x, const IrOp *op)
{
    const IrValue *v = op->operands[0], *y = op->operands[1];
    int axis = (int)ir_int(op, A_axis), more = y->type.rank - 1;
    for (int i = 0; i < v->type.rank; i++)
        if (i != axis)
            join(x, v, i, op->results[0], i < axis ? i : i + more);
    for (int i = 0; i < y->type.rank; i++)
        join(x, y, i, op->results[0], axis + i);
}

static void
join_all(Axes *x, const IrOp *op)
{
    unsigned traits = ir_op_info[op->kind].traits;
    IrValue *const *in = op->operands, *out = op->results[0];
    if (traits & ELEMENTWISE || op->kind == OP_broadcast || op->kind == OP_copy)
        for (int i = 0; i < op->num_operands; i++)
            join_last(x, in[i], out);
    else if (traits & REDUCES)
        join_kept(x, op);
    else if (op->kind == OP_transpose)
        join_permuted(x, op);
    else if (op->kind == OP_take)
        join_taken(x, op);
    else if (op->kind == OP_slice || op->kind == OP_pad ||
             op->kind == OP_reverse || op->kind == OP_concat)
        for (int i = 0; i < op->num_operands; i++)
            join_unmoved(x, op, in[i]);
    else if (ir_op_info[op->kind].code == CODE_reshape &&
             pass_axes_differ_by_ones(&in[0]->type, &out->type))
        join_in_order(x, in[0], out);
}

void
pass_axes_add(Axes *x, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        add_value(x, op->operands[i]);
    for (int i = 0; i < op->num_results; i++)
        add_value(x, op->results[i]);
    if (op->num_results == 1)
        join_all(x, op);
}

/* ---- numbers ------------------------------------------------------------ */

static bool
number_value(Axes *x, const IrValue *v)
{
    AxisSet seen = 0;
    for (int i = 0; i < v->type.rank; i++) {
        if (is_one(v->type.dims[i]))
            continue;
        int *number = &x->numbers.data[root_of(x, v, i)];
        if (*number < 0) {
            if (x->num_axes == MAX_AXES)
                return false;
            *number = x->num_axes++;
        }
        AxisSet axis = (AxisSet)1 << *number;
        if (seen & axis)
            return false;
        seen |= axis;
    }
    return true;
}

bool
pass_axes_number(Axes *x)
{
    VEC_RESERVE(x->arena, x->numbers, x->parents.len);
    x->numbers.len = x->parents.len;
    for (int i = 0; i < x->numbers.len; i++)
        x->numbers.data[i] = -1;
    for (int i = 0; i < x->values.len; i++)
        if (!number_value(x, x->values.data[i]))
            return false;
    return true;
}

AxisList
pass_axes_list(const Axes *x, const IrValue *v)
{
    assert(has_value(x, v) && x->numbers.len == x->parents.len);
    AxisList list = {0};
    for (int i = 0; i < v->type.rank; i++)
        if (!is_one(v->type.dims[i]))
            list.axes[list.count++] = x->numbers.data[root_of(x, v, i)];
    return list;
}

AxisSet
pass_axes_of(const Axes *x, const IrValue *v)
{
    AxisList list = pass_axes_list(x, v);
    AxisSet set = 0;
    for (int i = 0; i < list.count; i++)
        set |= (AxisSet)1 << list.axes[i];
    return set;
}

bool
pass_axes_list_equal(const AxisList *x, const AxisList *y)
{
    return x->count == y->count &&
           memcmp(x->axes, y->axes, (size_t)x->count * sizeof *x->axes) == 0;
}
