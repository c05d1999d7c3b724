/*
 * grad_rules_shape.c - gradients of contractions and of operations that move
 * elements
 *
 * The gradient of a move moves elements back; repeated elements are summed,
 * omitted ones get zeros.
 */
#include <string.h>
#include "ir/axes.h"
#include "ir/base/status.h"
#include "ir/rules/build.h"
#include "ir/rules/windows.h"
#include "passes/autodiff/grad.h"

void
pass_grad_rule_reshape(Grad *g, const IrOp *op)
{
    const IrType *x = &op->operands[0]->type;
    pass_grad_add(
        g, op->operands[0],
        ir_build_reshape(g->b, pass_grad_out(g, op), x->rank, x->dims, g->loc));
}

/* pass_grad_add sums over the broadcast axes. */
void
pass_grad_rule_broadcast(Grad *g, const IrOp *op)
{
    pass_grad_add(g, op->operands[0], pass_grad_out(g, op));
}

void
pass_grad_rule_transpose(Grad *g, const IrOp *op)
{
    int n;
    const int64_t *perm = ir_ints(op, A_perm, &n);
    int64_t back[IR_MAX_RANK];
    for (int i = 0; i < n; i++)
        back[perm[i]] = i;
    pass_grad_add(g, op->operands[0],
                  ir_build_transpose(g->b, pass_grad_out(g, op), back, g->loc));
}

void
pass_grad_rule_reverse(Grad *g, const IrOp *op)
{
    int n;
    const int64_t *axes = ir_ints(op, A_axes, &n);
    pass_grad_add(
        g, op->operands[0],
        ir_build_reverse(g->b, pass_grad_out(g, op), axes, n, g->loc));
}

/* The gradient of a value of which more slices are taken is summed in place:
 * zeros around each of them would be as many arrays of the whole. */
enum { FEW_SLICES = 8 };

/* The only axis along which op takes a part, of neighbours; -1: there is none,
 * or more than one. */
static int
axis_of_part(const IrOp *op)
{
    const IrType *x = &op->operands[0]->type, *y = &op->results[0]->type;
    int n, axis = -1;
    const int64_t *step = ir_ints(op, A_step, &n);
    for (int i = 0; i < n; i++) {
        if (ir_dim_equal(x->dims[i], y->dims[i]) && step[i] == 1)
            continue;
        if (axis >= 0 || step[i] != 1 || !ir_dim_is_const(y->dims[i]))
            return -1;
        axis = i;
    }
    return axis;
}

/* Adds the gradient of a slice to the rows it is of.  False if those are no
 * rows, or their sums would be rounded with all others (D4). */
static bool
add_slice_as_rows(Grad *g, const IrOp *op)
{
    IrValue *x = op->operands[0], *dy = pass_grad_out(g, op);
    int n, axis = axis_of_part(op);
    if (axis < 0 || dtype_compute(dy->type.dtype) != dy->type.dtype)
        return false;
    IrValue *start =
        ir_const_int(g->b, DT_i64, ir_ints(op, A_start, &n)[axis], g->loc);
    IrValue *rows =
        ir_build_iota(g->b, DT_i64, 1, &dy->type.dims[axis], 0, g->loc);
    pass_grad_add_rows(g, x, pass_grad2(g, OP_add, rows, start), dy, axis);
    return true;
}

/* Zeros around and between the elements: the gradient of a reversed slice is
 * first reversed. */
void
pass_grad_rule_slice(Grad *g, const IrOp *op)
{
    const Adjoint *whole = pass_adjoint_of(g, op->operands[0]);
    if (whole && whole->num_slices > FEW_SLICES && add_slice_as_rows(g, op))
        return;
    const IrType *x = &op->operands[0]->type, *y = &op->results[0]->type;
    IrValue *dy = pass_grad_out(g, op);
    int n;
    const int64_t *start = ir_ints(op, A_start, &n);
    const int64_t *step = ir_ints(op, A_step, &n);
    int64_t low[IR_MAX_RANK], gap[IR_MAX_RANK], turned[IR_MAX_RANK];
    int num_turned = 0;
    for (int i = 0; i < n; i++) {
        low[i] = start[i];
        gap[i] = step[i];
        if (step[i] < 0) {
            gap[i] = -step[i];
            low[i] = start[i] + step[i] * (y->dims[i].c - 1);
            turned[num_turned++] = i;
        }
        if (low[i] < 0)
            low[i] = 0; /* no element was taken */
    }
    if (num_turned)
        dy = ir_build_reverse(g->b, dy, turned, num_turned, g->loc);
    pass_grad_add(g, op->operands[0],
                  ir_build_pad(g->b, dy, low, x->dims, gap, g->loc));
}

void
pass_grad_rule_pad(Grad *g, const IrOp *op)
{
    const IrType *x = &op->operands[0]->type;
    int n;
    const int64_t *low = ir_ints(op, A_low, &n);
    const int64_t *step = ir_ints(op, A_step, &n);
    pass_grad_add(
        g, op->operands[0],
        ir_build_slice(g->b, pass_grad_out(g, op), low, x->dims, step, g->loc));
}

/* count elements of v along axis, from number first on. */
static IrValue *
take_from(Grad *g, IrValue *v, Dim count, IrValue *first, int axis)
{
    IrValue *numbers = ir_build_iota(g->b, DT_i64, 1, &count, 0, g->loc);
    IrValue *operands[2] = {v, pass_grad2(g, OP_add, numbers, first)};
    IrOp *take = ir_build_op(g->b, OP_take, 2, operands, g->loc);
    ir_set_int(take, A_axis, axis);
    return ir_build_infer(take);
}

/* The part of v of that type from start on along axis. */
static IrValue *
part_from(Grad *g, IrValue *v, const IrType *part, Dim start, int axis)
{
    if (!ir_dim_is_const(start))
        return take_from(g, v, part->dims[axis],
                         ir_build_dim_size(g->b, start, g->loc), axis);
    int64_t from[IR_MAX_RANK] = {0}, step[IR_MAX_RANK];
    for (int i = 0; i < v->type.rank; i++)
        step[i] = 1;
    from[axis] = start.c;
    return ir_build_slice(g->b, v, from, part->dims, step, g->loc);
}

/* Each operand gets its part of dy, one after the other. */
void
pass_grad_rule_concat(Grad *g, const IrOp *op)
{
    IrValue *dy = pass_grad_out(g, op);
    int axis = (int)ir_int(op, A_axis);
    Dim start = ir_dim_const(0);
    for (int i = 0; i < op->num_operands; i++) {
        IrValue *x = op->operands[i];
        if (pass_grad_wanted(g, x))
            pass_grad_add(g, x, part_from(g, dy, &x->type, start, axis));
        if (!ir_dim_add(start, x->type.dims[axis], &start))
            UNREACHABLE("a concat of lengths that do not add up");
    }
}

/* ---- rows in order ------------------------------------------------------ */

/* x[i] is in sums i and later: so its gradient is the sum of dy from the other
 * end. */
void
pass_grad_rule_cumsum(Grad *g, const IrOp *op)
{
    IrValue *dy = pass_grad_out(g, op);
    IrOp *sums = ir_build_op(g->b, OP_cumsum, 1, &dy, g->loc);
    ir_set_int(sums, A_axis, ir_int(op, A_axis));
    if (ir_int(op, A_exclusive))
        ir_set_int(sums, A_exclusive, 1);
    if (!ir_int(op, A_reverse))
        ir_set_int(sums, A_reverse, 1);
    pass_grad_add(g, op->operands[0], ir_build_infer(sums));
}

/* A sort of rows of at most this many elements is faster than a scatter, whose
 * updates are not divided among threads. */
enum { SHORT_ROW = 64 };

/* The numbers that the elements of order have in all of its `count` elements,
 * which scatter can name: those in the rows before, and what is in order. */
static IrValue *
places_of(Grad *g, IrValue *order, IrValue *within, Dim count)
{
    const IrType *t = &order->type;
    IrValue *all = ir_build_iota(g->b, DT_i64, 1, &count, 0, g->loc);
    if (t->rank > 1) {
        all = ir_build_reshape(g->b, all, t->rank, t->dims, g->loc);
        order =
            pass_grad2(g, OP_add, order, pass_grad2(g, OP_sub, all, within));
    }
    return ir_build_reshape(g->b, order, 1, &count, g->loc);
}

static IrValue *
inverse_by_sorting(Grad *g, IrValue *order)
{
    return ir_build_infer(ir_build_op(g->b, OP_argsort, 1, &order, g->loc));
}

/* A value of type t, whose elements scatter can name: zeros, but values in
 * places, both flat. */
static IrValue *
put_among_zeros(Grad *g, const IrType *t, IrValue *places, IrValue *values)
{
    IrType line = *t;
    line.rank = 1;
    if (!ir_type_elements(t, &line.dims[0]))
        UNREACHABLE("a value whose elements are not counted");
    IrValue *all = ir_const_zeros(g->b, &line, g->loc);
    all = ir_build_scatter(g->b, UPDATE_set, all, places, values, 0, g->loc);
    return ir_build_reshape(g->b, all, t->rank, t->dims, g->loc);
}

/* The inverse of each row of order, a permutation: its places get the numbers
 * of its elements, none of them twice.  (The sorting order of a permutation is
 * its inverse, too; so where its elements cannot be counted in one symbol.) */
static IrValue *
inverse_of(Grad *g, IrValue *order)
{
    const IrType *t = &order->type;
    Dim row = t->dims[t->rank - 1], count;
    if ((ir_dim_is_const(row) && row.c <= SHORT_ROW) ||
        !ir_type_elements(t, &count))
        return inverse_by_sorting(g, order);
    IrValue *within =
        ir_build_iota(g->b, DT_i64, t->rank, t->dims, t->rank - 1, g->loc);
    IrValue *places = places_of(g, order, within, count);
    within = ir_build_reshape(g->b, within, 1, &count, g->loc);
    return put_among_zeros(g, t, places, within);
}

/* The number of the first element of each row among all elements of x. */
static IrValue *
starts_of_rows(Grad *g, const IrType *x)
{
    IrType rows = *x;
    Dim count;
    Dim *row = &rows.dims[x->rank - 1];
    IrValue *size = ir_const_int(g->b, DT_i64, row->c, g->loc);
    *row = ir_dim_const(1);
    if (!ir_type_elements(&rows, &count))
        UNREACHABLE("rows that are not counted have no first elements");
    IrValue *numbers = ir_build_iota(g->b, DT_i64, 1, &count, 0, g->loc);
    IrValue *starts = pass_grad2(g, OP_mul, numbers, size);
    return ir_build_reshape(g->b, starts, rows.rank, rows.dims, g->loc);
}

/* Elements dy, some of each row, in their places among zeros. */
static IrValue *
spread(Grad *g, const IrType *x, IrValue *order, IrValue *dy)
{
    Dim count;
    IrValue *places = pass_grad2(g, OP_add, order, starts_of_rows(g, x));
    if (!ir_type_elements(&order->type, &count))
        UNREACHABLE("elements that are not counted have no first ones");
    places = ir_build_reshape(g->b, places, 1, &count, g->loc);
    dy = ir_build_reshape(g->b, dy, 1, &count, g->loc);
    return put_among_zeros(g, x, places, dy);
}

/* Back to their places. */
void
pass_grad_rule_reorder(Grad *g, const IrOp *op)
{
    IrValue *x = op->operands[0], *order = op->operands[1];
    if (!ir_type_same_shape(&x->type, &order->type)) {
        IrValue *dy = pass_grad_out(g, op);
        pass_grad_add(g, x, spread(g, &x->type, order, dy));
        return;
    }
    IrValue *back = inverse_of(g, op->operands[1]);
    pass_grad_add(
        g, op->operands[0],
        ir_build2(g->b, OP_reorder, pass_grad_out(g, op), back, g->loc));
}

/* ---- contraction -------------------------------------------------------- */

typedef struct SplitAxes {
    int64_t axis[IR_MAX_RANK];
    int n;
} SplitAxes;

static SplitAxes
split_axes(const IrOp *op, IrAttrName a)
{
    SplitAxes r = {.n = 0};
    if (!ir_has(op, a))
        return r;
    const int64_t *x = ir_ints(op, a, &r.n);
    memcpy(r.axis, x, sizeof *x * (size_t)r.n);
    return r;
}

/* The axes of rank that are in neither list. */
static SplitAxes
free_axes(int rank, const SplitAxes *contract, const SplitAxes *batch)
{
    SplitAxes r = {.n = 0};
    for (int i = 0; i < rank; i++)
        if (!ir_axes_have(contract->axis, contract->n, i) &&
            !ir_axes_have(batch->axis, batch->n, i))
            r.axis[r.n++] = i;
    return r;
}

static SplitAxes
counting_from(int64_t first, int n)
{
    SplitAxes r = {.n = n};
    for (int i = 0; i < n; i++)
        r.axis[i] = first + i;
    return r;
}

/* One operand of the contraction, as its gradient needs it. */
typedef struct Side {
    IrValue *v;
    SplitAxes contract, batch, free;
    SplitAxes out; /* where its free axes are in the result */
} Side;

void
pass_grad_add_product(Grad *g, const GradProduct *p)
{
    if (pass_grad_defer_product(g, p))
        return;
    IrDotAxes axes = {.contract_x = p->contract_x,
                      .contract_y = p->contract_y,
                      .num_contract = p->num_contract,
                      .batch_x = p->batch_x,
                      .batch_y = p->batch_y,
                      .num_batch = p->num_batch};
    IrValue *d = ir_build_dot(g->b, p->dy, p->other, &axes, g->loc);
    pass_grad_add(g, p->to, ir_build_transpose(g->b, d, p->perm, g->loc));
}

static void
copy_axes(int64_t *to, const SplitAxes *from)
{
    memcpy(to, from->axis, sizeof *to * (size_t)from->n);
}

/*
 * The gradient of mine contracts dy with the other operand over the other's
 * free axes.  That gives batch axes, then mine's free axes, then the contracted
 * ones in the order of the other's axes; transposing puts them in their places.
 */
static void
add_side(Grad *g, const Side *mine, const Side *other, IrValue *dy)
{
    if (!pass_grad_wanted(g, mine->v))
        return;
    SplitAxes batch_out = counting_from(0, mine->batch.n);
    GradProduct p = {.to = mine->v,
                     .dy = dy,
                     .other = other->v,
                     .num_contract = other->free.n,
                     .num_batch = mine->batch.n};
    copy_axes(p.contract_x, &other->out);
    copy_axes(p.contract_y, &other->free);
    copy_axes(p.batch_x, &batch_out);
    copy_axes(p.batch_y, &other->batch);
    int k = 0;
    for (int i = 0; i < mine->batch.n; i++)
        p.perm[mine->batch.axis[i]] = k++;
    for (int i = 0; i < mine->free.n; i++)
        p.perm[mine->free.axis[i]] = k++;
    /* the other's contracted axes come out in ascending order */
    for (int64_t axis = 0; axis < other->v->type.rank; axis++)
        for (int i = 0; i < other->contract.n; i++)
            if (other->contract.axis[i] == axis)
                p.perm[mine->contract.axis[i]] = k++;
    pass_grad_add_product(g, &p);
}

void
pass_grad_rule_dot(Grad *g, const IrOp *op)
{
    Side x = {.v = op->operands[0],
              .contract = split_axes(op, A_contract_x),
              .batch = split_axes(op, A_batch_x)};
    Side y = {.v = op->operands[1],
              .contract = split_axes(op, A_contract_y),
              .batch = split_axes(op, A_batch_y)};
    x.free = free_axes(x.v->type.rank, &x.contract, &x.batch);
    y.free = free_axes(y.v->type.rank, &y.contract, &y.batch);
    x.out = counting_from(x.batch.n, x.free.n);
    y.out = counting_from(x.batch.n + x.free.n, y.free.n);
    IrValue *dy =
        ir_build_cast(g->b, pass_grad_out(g, op), x.v->type.dtype, g->loc);
    add_side(g, &x, &y, dy);
    add_side(g, &y, &x, dy);
}

/* ---- convolution -------------------------------------------------------- */

/* Zeros if no window has an element of x. */
static void
add_windows_back(Grad *g, IrValue *x, IrValue *dy, IrValue *w,
                 const IrWindows *windows)
{
    if (!pass_grad_wanted(g, x))
        return;
    IrValue *dx =
        ir_build_conv_transpose(g->b, dy, w, windows, x->type.dims, g->loc);
    if (dx)
        pass_grad_add(g, x, dx);
}

void
pass_grad_rule_conv(Grad *g, const IrOp *op)
{
    IrValue *x = op->operands[0], *w = op->operands[1],
            *dy = pass_grad_out(g, op);
    IrWindows windows = ir_windows_of(op);
    add_windows_back(g, x, dy, w, &windows);
    if (pass_grad_wanted(g, w))
        pass_grad_add(g, w,
                      ir_build_conv(g->b, OP_conv_weights, x, dy, &windows,
                                    w->type.dims, g->loc));
}

/* Linear in both operands, as conv is. */
void
pass_grad_rule_conv_weights(Grad *g, const IrOp *op)
{
    IrValue *x = op->operands[0], *y = op->operands[1],
            *dw = pass_grad_out(g, op);
    IrWindows windows = ir_windows_of(op);
    add_windows_back(g, x, y, dw, &windows);
    if (pass_grad_wanted(g, y))
        pass_grad_add(g, y,
                      ir_build_conv(g->b, OP_conv, x, dw, &windows,
                                    y->type.dims + 1, g->loc));
}

/* ---- all_gather --------------------------------------------------------- */

/* The replica's own rows of v along an axis, on which all replicas have equal
 * parts: the part whose number is replica_id. */
static IrValue *
part_of_equal(Grad *g, IrValue *v, const IrType *x, int axis)
{
    Dim split[IR_MAX_RANK + 1] = {{0, 0, -1}}, one[IR_MAX_RANK + 1];
    int64_t sum_axis = axis;
    for (int i = 0, j = 0; i < x->rank; i++) {
        if (i == axis)
            split[j++] = ir_dim_const(g->cx->m->num_replicas);
        split[j++] = x->dims[i];
    }
    for (int i = 0; i <= x->rank; i++)
        one[i] = ir_dim_const(i == axis ? split[i].c : 1);
    IrValue *parts = ir_build_reshape(g->b, v, x->rank + 1, split, g->loc);
    IrValue *number =
        ir_build_iota(g->b, DT_i32, x->rank + 1, one, axis, g->loc);
    IrValue *mine =
        pass_grad2(g, OP_eq, number, ir_build0(g->b, OP_replica_id, g->loc));
    IrValue *picked =
        pass_grad3(g, OP_where, mine, parts, pass_grad_constant(g, v, 0));
    return ir_build_reduce(g->b, OP_sum, picked, &sum_axis, 1, false, g->loc);
}

/* x * factor, an i64. */
static IrValue *
times(Grad *g, IrValue *x, int64_t factor)
{
    if (factor == 1)
        return x;
    return pass_grad2(g, OP_mul, x, ir_const_int(g->b, DT_i64, factor, g->loc));
}

/* The number of the replica's first gathered row, when each replica gives n:
 * those of its batch, and as many for each earlier replica. */
static IrValue *
first_gathered(Grad *g, Dim n)
{
    IrOp *start = ir_build_op(g->b, OP_row_start, 0, NULL, g->loc);
    Dim rows = ir_dim_linear(0, 1, n.sym);
    ir_set_dims(start, A_dims, &rows, 1);
    IrValue *first = times(g, ir_build_infer(start), n.k);
    if (n.c == 0)
        return first;
    IrValue *replica = ir_build0(g->b, OP_replica_id, g->loc);
    replica = ir_build_cast(g->b, replica, DT_i64, g->loc);
    return pass_grad2(g, OP_add, first, times(g, replica, n.c));
}

/* The same for the rows of a batch, whose parts differ in length: from the
 * replica's first row on. */
static IrValue *
part_of_batch(Grad *g, IrValue *v, const IrType *x, int axis)
{
    Dim n = x->dims[axis];
    return take_from(g, v, n, first_gathered(g, n), axis);
}

/* The gradients of all replicas, summed; then this replica's part. */
void
pass_grad_rule_all_gather(Grad *g, const IrOp *op)
{
    IrValue *x = op->operands[0], *dy = pass_grad_out(g, op);
    int axis = (int)ir_int(op, A_axis);
    IrValue *sum = pass_grad_all_reduce(g, op, AGG_sum, dy);
    Dim d = x->type.dims[axis];
    pass_grad_add(g, x,
                  ir_dim_is_const(d) ? part_of_equal(g, sum, &x->type, axis)
                                     : part_of_batch(g, sum, &x->type, axis));
}
