/*
 * samples_pure.c - programs with operations without side effects
 */
#include "ir/rules/build.h"
#include "ir/rules/windows.h"
#include "tests/ops/sampler.h"

#include <string.h>

static DType
dtype_of(const Sampler *s)
{
    return s->out->of.dtype;
}

/* A result of the sample's kind with one operand and one list of axes. */
static void
result_with_axes(Sampler *s, IrValue *x, IrAttrName attr, int n,
                 const int64_t *axes)
{
    IrOp *op = sampler_op(s, s->b, 1, &x);
    ir_set_ints(op, attr, axes, n);
    sampler_result(s, sampler_infer(s, op));
}

static void
result_with_dims(Sampler *s, IrValue *x, int rank, const Dim *dims)
{
    IrOp *op = sampler_op(s, s->b, 1, &x);
    ir_set_dims(op, A_dims, dims, rank);
    sampler_result(s, sampler_infer(s, op));
}

/* ---- elementwise -------------------------------------------------------- */

/* Operands of one shape, and of shapes that broadcast, each to the others. */
void
build_elementwise(Sampler *s)
{
    int n = ir_op_info[s->out->of.kind].num_in;
    const Dim shapes[][2] = {{num(3), s->s}, {num(1), s->s}, {num(3), num(1)}};
    for (int first = 0; first < (n == 1 ? 1 : 3); first++) {
        IrValue *x[3];
        for (int i = 0; i < n; i++)
            x[i] = sampler_arg(s, 2, shapes[(first + i) % 3]);
        sampler_result(s, sampler_infer(s, sampler_op(s, s->b, n, x)));
    }
    IrValue *same[3];
    for (int i = 0; i < n; i++)
        same[i] = sampler_arg(s, 1, &s->s);
    sampler_result(s, sampler_infer(s, sampler_op(s, s->b, n, same)));
    for (int i = 0; i < n; i++)
        same[i] = sampler_arg(s, 0, NULL);
    sampler_result(s, sampler_infer(s, sampler_op(s, s->b, n, same)));
}

/* The condition is data, but no argument: arguments have the dtype. */
void
build_where(Sampler *s)
{
    Dim wide[] = {num(3), s->s};
    IrValue *x = sampler_arg(s, 2, wide), *y = sampler_arg(s, 1, &s->s);
    IrValue *number = ir_build_iota(s->b, DT_i32, 2, wide, 1, s->loc);
    IrValue *half = ir_const_int(s->b, DT_i32, 3, s->loc);
    IrValue *is = ir_build2(s->b, OP_lt, number, half, s->loc);
    IrValue *operands[][3] = {{is, x, y}, {is, y, x}, {is, x, x}};
    for (int i = 0; i < 3; i++)
        sampler_result(s,
                       sampler_infer(s, sampler_op(s, s->b, 3, operands[i])));
}

/* To every dtype; where slopes are measured, to one that rounds nothing. */
void
build_cast(Sampler *s)
{
    IrValue *x = sampler_arg(s, 1, &s->s);
    for (int t = 0; t < NUM_DTYPES; t++) {
        if (s->out->of.gradient && t != DT_f64)
            continue;
        IrOp *op = sampler_op(s, s->b, 1, &x);
        ir_set_int(op, A_dtype, t);
        sampler_result(s, sampler_infer(s, op));
    }
}

void
build_copy(Sampler *s)
{
    IrValue *x = sampler_arg(s, 1, &s->s);
    sampler_result(s, sampler_infer(s, sampler_op(s, s->b, 1, &x)));
    s->refused |= s->out->of.gradient; /* passes make it after gradients */
}

void
build_barrier(Sampler *s)
{
    IrValue *x = sampler_arg(s, 1, &s->s), *y = sampler_arg(s, 0, NULL);
    IrValue *held =
        sampler_infer(s, sampler_op(s, s->b, 2, (IrValue *[]){x, y}));
    sampler_result(s, held);
}

/* ---- without operands --------------------------------------------------- */

void
build_constant(Sampler *s)
{
    int64_t n = s->out->of.size;
    s->refused = n < 0 || s->out->of.gradient;
    if (s->refused)
        return;
    RefTensor t = {0};
    ref_shape(s->m->arena, &t, dtype_of(s), 1, &n);
    op_sample_fill(s->values, 7, &t);
    Dim d[] = {s->s};
    sampler_result(s, ir_const_data(s->b, dtype_of(s), 1, d, t.data, s->loc));
}

void
build_iota(Sampler *s)
{
    Dim dims[] = {num(3), s->s, num(2)};
    for (int axis = 0; axis < 3; axis++)
        sampler_result(s,
                       ir_build_iota(s->b, dtype_of(s), 3, dims, axis, s->loc));
    s->refused = s->out->of.gradient;
}

/* Values that replicas have without communication: their number, their rows,
 * params. */
void
build_fact(Sampler *s)
{
    IrOpKind kind = s->out->of.kind;
    IrOp *op = sampler_op(s, s->b, 0, NULL);
    bool of_batch = kind == OP_dim_size || kind == OP_row_start;
    if (of_batch)
        ir_set_dims(op, A_dims, &s->s, 1);
    if (kind == OP_param) {
        IrParam *p = NEW(s->m->arena, IrParam);
        *p = (IrParam){.name = "p",
                       .dtype = dtype_of(s),
                       .value = scalar_int(dtype_of(s), 1),
                       .loc = s->loc};
        if (dtype_is_float(p->dtype))
            p->value = scalar_float(p->dtype, 0.75);
        p->name = intern(s->m->names, p->name);
        VEC_PUSH(s->m->arena, s->m->params, p);
        ir_set_text(op, A_param, p->name);
    }
    sampler_result(s, sampler_infer(s, op));
    bool no_batch = kind == OP_row_start && !sampler_is_batch(s);
    s->refused |= no_batch || s->out->of.gradient;
}

/* ---- reductions and contractions ---------------------------------------- */

void
build_reduction(Sampler *s)
{
    IrOpKind kind = s->out->of.kind;
    IrValue *row = sampler_arg(s, 1, &s->s);
    IrValue *x = sampler_arg(s, 3, DIMS(num(2), s->s, num(3)));
    result_with_axes(s, row, A_axes, 1, AXES(0));
    for (int axis = 0; axis < 3; axis++) {
        IrOp *op = sampler_op(s, s->b, 1, &x);
        ir_set_ints(op, A_axes, AXES(axis), 1);
        ir_set_int(op, A_keepdims, axis % 2);
        sampler_result(s, sampler_infer(s, op));
    }
    if (kind == OP_argmax || kind == OP_argmin)
        return;
    result_with_axes(s, x, A_axes, 2, AXES(0, 2));
    result_with_axes(s, x, A_axes, 3, AXES(0, 1, 2));
    result_with_axes(s, x, A_axes, 0, NULL);
}

static void
dot_result(Sampler *s, IrValue *x, IrValue *y, const IrDotAxes *axes)
{
    IrOp *op = sampler_op(s, s->b, 2, (IrValue *[]){x, y});
    ir_set_ints(op, A_contract_x, axes->contract_x, axes->num_contract);
    ir_set_ints(op, A_contract_y, axes->contract_y, axes->num_contract);
    if (axes->num_batch) {
        ir_set_ints(op, A_batch_x, axes->batch_x, axes->num_batch);
        ir_set_ints(op, A_batch_y, axes->batch_y, axes->num_batch);
    }
    sampler_result(s, sampler_infer(s, op));
}

/* Over the size and beside it; over no axis, two axes; along batches. */
void
build_dot(Sampler *s)
{
    IrValue *x = sampler_arg(s, 2, DIMS(num(3), s->s));
    IrValue *y = sampler_arg(s, 2, DIMS(s->s, num(2)));
    IrValue *v = sampler_arg(s, 1, DIMS(s->s));
    IrValue *w = sampler_arg(s, 1, DIMS(num(3)));
    IrValue *u = sampler_arg(s, 3, DIMS(s->s, num(2), num(3)));
    dot_result(s, x, y, &(IrDotAxes){AXES(1), AXES(0), 1, NULL, NULL, 0});
    dot_result(s, y, x, &(IrDotAxes){AXES(0), AXES(1), 1, NULL, NULL, 0});
    dot_result(s, x, w, &(IrDotAxes){AXES(0), AXES(0), 1, NULL, NULL, 0});
    dot_result(s, v, v, &(IrDotAxes){AXES(0), AXES(0), 1, NULL, NULL, 0});
    dot_result(s, v, w, &(IrDotAxes){NULL, NULL, 0, NULL, NULL, 0});
    dot_result(s, u, y, &(IrDotAxes){AXES(1, 0), AXES(1, 0), 2, NULL, NULL, 0});
    dot_result(s, u, x, &(IrDotAxes){AXES(2), AXES(0), 1, AXES(0), AXES(1), 1});
    dot_result(s, x, u, &(IrDotAxes){AXES(0), AXES(2), 1, AXES(1), AXES(0), 1});
}

static void
conv_result(Sampler *s, IrValue *x, IrValue *y, const IrWindows *w,
            const Dim *dims)
{
    IrOp *op = sampler_op(s, s->b, 2, (IrValue *[]){x, y});
    ir_windows_set(op, w, dims);
    sampler_result(s, sampler_infer(s, op));
}

/* Of images, without groups and dilation. */
static void
conv2d_result(Sampler *s, IrValue *x, IrValue *y, const int64_t *low,
              const int64_t *step, const Dim *dims)
{
    const IrWindows w = {.num_axes = 2,
                         .low = {low[0], low[1]},
                         .step = {step[0], step[1]},
                         .dilation = {1, 1},
                         .groups = 1};
    conv_result(s, x, y, &w, dims);
}

/* Windows of one and of three axes, dilated, and of groups: channels alone, and
 * several of them. */
static const IrWindows sequence = {1, {3}, {2}, {3}, 1};
static const IrWindows volume = {3, {1, 0, -1}, {2, 1, 1}, {1, 2, 1}, 1};
static const IrWindows depthwise = {2, {1, 1}, {1, 2}, {1, 1}, 3};
static const IrWindows grouped = {2, {2, 0}, {1, 1}, {2, 1}, 2};

static void
add_conv_axes(Sampler *s)
{
    IrValue *x = sampler_arg(s, 3, DIMS(s->s, num(7), num(2)));
    IrValue *w = sampler_arg(s, 3, DIMS(num(3), num(2), num(3)));
    IrValue *y = sampler_arg(s, 5, DIMS(s->s, num(3), num(4), num(3), num(1)));
    IrValue *v =
        sampler_arg(s, 5, DIMS(num(2), num(2), num(1), num(1), num(3)));
    conv_result(s, x, w, &sequence, DIMS(num(4)));
    conv_result(s, y, v, &volume, DIMS(num(2), num(2), num(2)));
}

static void
add_conv_groups(Sampler *s)
{
    IrValue *x = sampler_arg(s, 4, DIMS(s->s, num(3), num(4), num(3)));
    IrValue *w = sampler_arg(s, 4, DIMS(num(3), num(2), num(1), num(3)));
    IrValue *y = sampler_arg(s, 4, DIMS(s->s, num(3), num(4), num(4)));
    IrValue *v = sampler_arg(s, 4, DIMS(num(2), num(2), num(2), num(6)));
    conv_result(s, x, w, &depthwise, DIMS(num(3), num(2)));
    conv_result(s, y, v, &grouped, DIMS(num(4), num(3)));
}

/* The size asked for is the rows and the channels; windows inside, over the
 * edges, with gaps, and larger than the image. */
void
build_conv(Sampler *s)
{
    IrValue *x = sampler_arg(s, 4, DIMS(s->s, num(4), num(5), num(2)));
    IrValue *w = sampler_arg(s, 4, DIMS(num(2), num(3), num(2), num(3)));
    IrValue *z = sampler_arg(s, 4, DIMS(num(2), num(2), num(1), s->s));
    IrValue *v = sampler_arg(s, 4, DIMS(num(3), num(1), s->s, num(2)));
    IrValue *many = sampler_arg(s, 4, DIMS(num(1), num(4), num(5), num(5)));
    IrValue *by = sampler_arg(s, 4, DIMS(num(2), num(3), num(5), num(2)));
    conv2d_result(s, many, by, AXES(0, 1), AXES(1, 1), DIMS(num(3), num(5)));
    conv2d_result(s, many, by, AXES(0, 1), AXES(2, 3), DIMS(num(2), num(2)));
    conv2d_result(s, x, w, AXES(0, 0), AXES(1, 1), DIMS(num(3), num(3)));
    conv2d_result(s, x, w, AXES(0, 1), AXES(2, 3), DIMS(num(2), num(2)));
    conv2d_result(s, z, v, AXES(1, -1), AXES(1, 1), DIMS(num(2), num(1)));
    add_conv_axes(s);
    add_conv_groups(s);
}

static void
add_conv_weights_axes(Sampler *s)
{
    IrValue *x = sampler_arg(s, 3, DIMS(s->s, num(7), num(2)));
    IrValue *w = sampler_arg(s, 3, DIMS(s->s, num(4), num(3)));
    IrValue *y = sampler_arg(s, 5, DIMS(s->s, num(3), num(4), num(3), num(1)));
    IrValue *v = sampler_arg(s, 5, DIMS(s->s, num(2), num(2), num(2), num(3)));
    conv_result(s, x, w, &sequence, DIMS(num(3)));
    conv_result(s, y, v, &volume, DIMS(num(2), num(2), num(1)));
}

static void
add_conv_weights_groups(Sampler *s)
{
    IrValue *x = sampler_arg(s, 4, DIMS(s->s, num(3), num(4), num(3)));
    IrValue *w = sampler_arg(s, 4, DIMS(s->s, num(3), num(2), num(3)));
    IrValue *y = sampler_arg(s, 4, DIMS(s->s, num(3), num(4), num(4)));
    IrValue *v = sampler_arg(s, 4, DIMS(s->s, num(4), num(3), num(6)));
    conv_result(s, x, w, &depthwise, DIMS(num(3), num(2)));
    conv_result(s, y, v, &grouped, DIMS(num(2), num(2)));
}

/* The size asked for is the rows, which are summed over, or channels. */
void
build_conv_weights(Sampler *s)
{
    IrValue *x = sampler_arg(s, 4, DIMS(s->s, num(4), num(5), num(2)));
    IrValue *y = sampler_arg(s, 4, DIMS(s->s, num(3), num(2), num(3)));
    IrValue *z = sampler_arg(s, 4, DIMS(num(2), num(2), num(1), s->s));
    IrValue *v = sampler_arg(s, 4, DIMS(num(2), num(3), num(2), num(2)));
    conv2d_result(s, x, y, AXES(0, 0), AXES(1, 1), DIMS(num(2), num(3)));
    conv2d_result(s, x, y, AXES(0, 1), AXES(2, 3), DIMS(num(3), num(2)));
    conv2d_result(s, z, v, AXES(1, -1), AXES(1, 1), DIMS(num(2), num(1)));
    add_conv_weights_axes(s);
    add_conv_weights_groups(s);
}

/* ---- moving elements ---------------------------------------------------- */

void
build_reshape(Sampler *s)
{
    IrValue *x = sampler_arg(s, 2, DIMS(s->s, num(6)));
    Dim all;
    ir_dim_mul(s->s, num(6), &all);
    result_with_dims(s, x, 1, &all);
    result_with_dims(s, x, 3, DIMS(s->s, num(2), num(3)));
    result_with_dims(s, x, 4, DIMS(num(1), s->s, num(1), num(6)));
    result_with_dims(s, x, 2, DIMS(num(6), s->s));
}

void
build_broadcast(Sampler *s)
{
    IrValue *one = sampler_arg(s, 0, NULL);
    IrValue *row = sampler_arg(s, 1, &s->s);
    IrValue *x = sampler_arg(s, 3, DIMS(num(1), s->s, num(1)));
    result_with_dims(s, one, 2, DIMS(s->s, num(2)));
    result_with_dims(s, row, 2, DIMS(num(3), s->s));
    result_with_dims(s, x, 4, DIMS(num(2), num(3), s->s, num(2)));
}

void
build_transpose(Sampler *s)
{
    IrValue *x = sampler_arg(s, 3, DIMS(num(2), s->s, num(3)));
    result_with_axes(s, x, A_perm, 3, AXES(2, 0, 1));
    result_with_axes(s, x, A_perm, 3, AXES(1, 2, 0));
    result_with_axes(s, x, A_perm, 3, AXES(0, 1, 2));
    IrValue *y = sampler_arg(s, 2, DIMS(s->s, num(5)));
    result_with_axes(s, y, A_perm, 2, AXES(1, 0));
}

void
build_reverse(Sampler *s)
{
    IrValue *x = sampler_arg(s, 2, DIMS(s->s, num(3)));
    result_with_axes(s, x, A_axes, 1, AXES(0));
    result_with_axes(s, x, A_axes, 2, AXES(0, 1));
}

static void
strided_result(Sampler *s, IrValue *x, IrAttrName first_name,
               const int64_t *first, const Dim *dims, const int64_t *step)
{
    int rank = x->type.rank;
    IrOp *op = sampler_op(s, s->b, 1, &x);
    ir_set_ints(op, first_name, first, rank);
    ir_set_dims(op, A_dims, dims, rank);
    ir_set_ints(op, A_step, step, rank);
    sampler_result(s, sampler_infer(s, op));
}

/* a * size + b */
static Dim
scaled(const Sampler *s, int64_t a, int64_t b)
{
    Dim d;
    ir_dim_mul(s->s, num(a), &d);
    ir_dim_add(d, num(b), &d);
    return d;
}

void
build_slice(Sampler *s)
{
    IrValue *x = sampler_arg(s, 2, DIMS(scaled(s, 1, 2), num(3)));
    IrValue *y = sampler_arg(s, 1, DIMS(scaled(s, 2, 1)));
    strided_result(s, x, A_start, AXES(1, 0), DIMS(s->s, num(2)), AXES(1, 2));
    strided_result(s, x, A_start, AXES(1, 2), DIMS(s->s, num(3)), AXES(1, -1));
    strided_result(s, x, A_start, AXES(0, 1), DIMS(num(2), num(1)), AXES(1, 1));
    strided_result(s, y, A_start, AXES(1), DIMS(s->s), AXES(2));
    if (!sampler_is_batch(s))
        strided_result(s, y, A_start, AXES(2 * s->out->of.size), DIMS(s->s),
                       AXES(-2));
}

void
build_pad(Sampler *s)
{
    IrValue *x = sampler_arg(s, 2, DIMS(s->s, num(2)));
    IrValue *y = sampler_arg(s, 1, &s->s);
    strided_result(s, x, A_low, AXES(2, 0), DIMS(scaled(s, 1, 3), num(4)),
                   AXES(1, 1));
    strided_result(s, x, A_low, AXES(0, 1), DIMS(s->s, num(6)), AXES(1, 3));
    strided_result(s, y, A_low, AXES(1), DIMS(scaled(s, 3, 2)), AXES(3));
}

/* Operands with the batch's length are last: otherwise there is no gradient. */
void
build_concat(Sampler *s)
{
    IrValue *x = sampler_arg(s, 2, DIMS(s->s, num(2)));
    IrValue *y = sampler_arg(s, 2, DIMS(s->s, num(3)));
    IrValue *z = sampler_arg(s, 2, DIMS(num(2), num(2)));
    IrValue *operands[][3] = {{x, y, x}, {z, z, x}, {z, x, NULL}};
    for (int i = 0; i < 3; i++) {
        IrOp *op = sampler_op(s, s->b, i < 2 ? 3 : 2, operands[i]);
        ir_set_int(op, A_axis, i == 0);
        sampler_result(s, sampler_infer(s, op));
    }
}

/* Numbers from -2 to 6, in some order, of which 0 to 4 are there. */
static IrValue *
some_indices(Sampler *s, DType t, int rank, const Dim *dims)
{
    IrValue *x = ir_build_iota(s->b, t, rank, dims, rank - 1, s->loc);
    x = ir_build2(s->b, OP_mul, x, ir_const_int(s->b, t, 7, s->loc), s->loc);
    x = ir_build2(s->b, OP_mod, x, ir_const_int(s->b, t, 9, s->loc), s->loc);
    return ir_build2(s->b, OP_sub, x, ir_const_int(s->b, t, 2, s->loc), s->loc);
}

static void
take_along(Sampler *s, IrValue *x, IrValue *index, int64_t axis)
{
    IrOp *op = sampler_op(s, s->b, 2, (IrValue *[]){x, index});
    ir_set_int(op, A_axis, axis);
    sampler_result(s, sampler_infer(s, op));
}

/* Rows and columns, by no, one and two dimensions of indices; of an axis of the
 * size asked for, which may have nothing. */
void
build_take(Sampler *s)
{
    IrValue *x = sampler_arg(s, 2, DIMS(num(5), num(3)));
    IrValue *y = sampler_arg(s, 3, DIMS(num(2), num(5), s->s));
    IrValue *rows = some_indices(s, DT_i32, 1, DIMS(s->s));
    IrValue *pairs = some_indices(s, DT_i64, 2, DIMS(s->s, num(2)));
    take_along(s, x, rows, 0);
    take_along(s, x, pairs, 1);
    take_along(s, y, ir_const_int(s->b, DT_i16, 3, s->loc), 1);
    if (s->out->of.size != 0)
        take_along(s, y, some_indices(s, DT_i8, 1, DIMS(num(4))), 2);
}

static void
scatter_along(Sampler *s, IrUpdate mode, IrValue *x, IrValue *rows,
              IrValue *values, int64_t axis)
{
    IrOp *op = sampler_op(s, s->b, 3, (IrValue *[]){x, rows, values});
    ir_set_enum(op, A_mode, mode);
    if (axis)
        ir_set_int(op, A_axis, axis);
    sampler_result(s, sampler_infer(s, op));
}

static void
scatter_into(Sampler *s, IrUpdate mode, IrValue *x, IrValue *rows,
             IrValue *values)
{
    scatter_along(s, mode, x, rows, values, 0);
}

/* Of some rows, of pairs of them, of one, of a batch, of columns; and of rows
 * that change by themselves. */
void
build_scatter(Sampler *s)
{
    static const IrUpdate modes[] = {UPDATE_set, UPDATE_add, UPDATE_sub,
                                     UPDATE_mul, UPDATE_div, UPDATE_min,
                                     UPDATE_max};
    bool is_bool = s->out->of.dtype == DT_bool;
    int n = is_bool ? 1 : s->out->of.gradient ? 3 : 7;
    IrValue *x = sampler_arg(s, 2, DIMS(num(5), num(3)));
    IrValue *y = sampler_arg(s, 2, DIMS(s->s, num(2)));
    IrValue *line = sampler_arg(s, 1, DIMS(num(5)));
    IrValue *some = sampler_arg(s, 2, DIMS(s->s, num(3)));
    IrValue *row = sampler_arg(s, 1, DIMS(num(3)));
    IrValue *pairs = sampler_arg(s, 2, DIMS(num(5), num(2)));
    Dim few = sampler_is_batch(s) ? num(4) : s->s; /* a batch has one length */
    IrValue *both = sampler_arg(s, 3, DIMS(s->s, few, num(2)));
    IrValue *rows = some_indices(s, DT_i32, 1, DIMS(s->s));
    IrValue *twos = some_indices(s, DT_i64, 2, DIMS(s->s, num(2)));
    IrValue *columns = some_indices(s, DT_i64, 2, DIMS(few, num(2)));
    IrValue *five = some_indices(s, DT_i8, 1, DIMS(num(5)));
    IrValue *three = ir_const_int(s->b, DT_i16, 3, s->loc);
    for (int i = 0; i < n; i++) {
        scatter_into(s, modes[i], x, rows, some);
        scatter_into(s, modes[i], line, twos, y);
        scatter_into(s, modes[i], x, three, row);
        scatter_into(s, modes[i], y, five, pairs);
        scatter_into(s, modes[i], x, five, x);
        scatter_along(s, modes[i], x, three, line, 1);
        scatter_along(s, modes[i], y, columns, both, 1);
    }
}

/* ---- rows in order ------------------------------------------------------ */

static void
cumsum_result(Sampler *s, IrValue *x, int64_t axis, bool exclusive,
              bool reverse)
{
    IrOp *op = sampler_op(s, s->b, 1, &x);
    ir_set_int(op, A_axis, axis);
    if (exclusive)
        ir_set_int(op, A_exclusive, 1);
    if (reverse)
        ir_set_int(op, A_reverse, 1);
    sampler_result(s, sampler_infer(s, op));
}

/* Along the size asked for and across it. */
void
build_cumsum(Sampler *s)
{
    IrValue *x = sampler_arg(s, 2, DIMS(num(3), s->s));
    IrValue *y = sampler_arg(s, 3, DIMS(num(2), s->s, num(3)));
    cumsum_result(s, x, 1, false, false);
    cumsum_result(s, x, 1, true, true);
    cumsum_result(s, x, 0, false, true);
    cumsum_result(s, y, 1, true, false);
}

/* Elements that repeat, since they are whole numbers modulo 5. */
void
build_argsort(Sampler *s)
{
    IrValue *x = sampler_arg(s, 2, DIMS(num(3), s->s));
    IrValue *y = sampler_arg(s, 1, DIMS(num(5)));
    sampler_result(s, sampler_infer(s, sampler_op(s, s->b, 1, &x)));
    sampler_result(s, sampler_infer(s, sampler_op(s, s->b, 1, &y)));
    if (s->refused)
        return;
    IrOp *first = sampler_op(s, s->b, 1, &y);
    ir_set_int(first, A_first, 2);
    sampler_result(s, sampler_infer(s, first));
    IrValue *five = ir_build_cast(s->b, ir_const_int(s->b, DT_i64, 5, s->loc),
                                  dtype_of(s), s->loc);
    IrValue *few = ir_build2(s->b, OP_mod, x, five, s->loc);
    if (dtype_is_float(dtype_of(s)))
        few = ir_build1(s->b, OP_floor, few, s->loc);
    IrOp *op = sampler_op(s, s->b, 1, &few);
    ir_set_int(op, A_descending, 1);
    sampler_result(s, sampler_infer(s, op));
}

/* Three of the seven elements of each row. */
static void
reorder_first(Sampler *s)
{
    const Dim dims[] = {s->s, num(7)};
    IrValue *x = sampler_arg(s, 2, dims);
    IrValue *keys = ir_build_iota(s->b, DT_i64, 2, dims, 1, s->loc);
    keys = ir_build2(s->b, OP_mul, keys, ir_const_int(s->b, DT_i64, 3, s->loc),
                     s->loc);
    keys = ir_build2(s->b, OP_mod, keys, ir_const_int(s->b, DT_i64, 7, s->loc),
                     s->loc);
    IrOp *first = ir_build_op(s->b, OP_argsort, 1, &keys, s->loc);
    ir_set_int(first, A_first, 3);
    IrValue *order = ir_build_infer(first);
    IrOp *op = sampler_op(s, s->b, 2, (IrValue *[]){x, order});
    sampler_result(s, sampler_infer(s, op));
}

/* The order is that of other numbers, made of an iota. */
void
build_reorder(Sampler *s)
{
    const Dim dims[] = {num(3), s->s};
    IrValue *x = sampler_arg(s, 2, dims);
    IrValue *keys = ir_build_iota(s->b, DT_i64, 2, dims, 1, s->loc);
    keys = ir_build2(s->b, OP_mul, keys, ir_const_int(s->b, DT_i64, 7, s->loc),
                     s->loc);
    keys = ir_build2(s->b, OP_mod, keys, ir_const_int(s->b, DT_i64, 11, s->loc),
                     s->loc);
    IrValue *order =
        ir_build_infer(ir_build_op(s->b, OP_argsort, 1, &keys, s->loc));
    IrOp *op = sampler_op(s, s->b, 2, (IrValue *[]){x, order});
    sampler_result(s, sampler_infer(s, op));
    reorder_first(s);
}
