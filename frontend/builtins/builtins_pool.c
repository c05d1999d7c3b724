/*
 * builtins_pool.c - pooling
 *
 * Pooling is made of slices, one for each place in a window, combined in the
 * order of the window: so the first of equal maxima gets the gradient (D6).
 * Places outside of x do not count.
 */
#include "frontend/builtins/windows.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"

#include <string.h>
#include "ir/rules/build.h"
#include "ir/rules/eval.h"

enum { MAX_WINDOW = 1024 };

/* x with zeros around, so that all windows are inside. */
static IrValue *
pad_images(Lower *cx, IrValue *x, const FeWindows *w, Loc loc)
{
    int n = w->in.num_axes;
    int64_t low[IR_MAX_RANK] = {0}, one[IR_MAX_RANK];
    Dim dims[IR_MAX_RANK];
    if (!w->padded)
        return x;
    memcpy(dims, x->type.dims, sizeof dims);
    for (int k = 0; k < n + 2; k++)
        one[k] = 1;
    for (int k = 0; k < n; k++) {
        int64_t reach = (w->count[k] - 1) * w->in.step[k] + w->size[k];
        int64_t here = w->in.low[k] + w->image[k];
        low[k + 1] = w->in.low[k];
        dims[k + 1] = ir_dim_const(reach > here ? reach : here);
    }
    return ir_build_pad(cx->block, x, low, dims, one, loc);
}

/* 1 in an image of one channel, where there is one. */
static IrValue *
valid_mask(Lower *cx, const FeWindows *w, DType t, Loc loc)
{
    int n = w->in.num_axes;
    Dim dims[IR_MAX_RANK];
    dims[0] = dims[n + 1] = ir_dim_const(1);
    for (int k = 0; k < n; k++)
        dims[k + 1] = ir_dim_const(w->image[k]);
    Scalar one = scalar_cast(scalar_int(DT_i64, 1), t);
    IrValue *x = ir_const_fill(cx->block, t, n + 2, dims, one, loc);
    return pad_images(cx, x, w, loc);
}

/* The element of each window at place i, in row-major order. */
static IrValue *
window_element(Lower *cx, IrValue *x, const FeWindows *w, int64_t i, Loc loc)
{
    int n = w->in.num_axes;
    int64_t start[IR_MAX_RANK] = {0}, step[IR_MAX_RANK];
    Dim dims[IR_MAX_RANK];
    step[0] = step[n + 1] = 1;
    dims[0] = x->type.dims[0];
    dims[n + 1] = x->type.dims[n + 1];
    for (int k = n - 1; k >= 0; k--) {
        start[k + 1] = i % w->size[k];
        step[k + 1] = w->in.step[k];
        dims[k + 1] = ir_dim_const(w->count[k]);
        i /= w->size[k];
    }
    return ir_build_slice(cx->block, x, start, dims, step, loc);
}

static int64_t
count_places(const FeWindows *w)
{
    int64_t count = 1;
    for (int k = 0; k < w->in.num_axes; k++) {
        if (w->size[k] > MAX_WINDOW / count)
            return MAX_WINDOW + 1;
        count *= w->size[k];
    }
    return count;
}

/* y where it is greater, or NaN; so x wins when they are equal. */
static IrValue *
greater(Lower *cx, IrValue *x, IrValue *y, Loc loc)
{
    IrBlock *b = cx->block;
    IrValue *is = ir_build2(b, OP_gt, y, x, loc);
    if (dtype_is_float(x->type.dtype))
        is = ir_build2(b, OP_or, is, ir_build1(b, OP_isnan, y, loc), loc);
    return ir_build3(b, OP_where, is, y, x, loc);
}

static IrValue *
add(Lower *cx, IrValue *x, IrValue *y, Loc loc)
{
    return ir_build2(cx->block, OP_add, x, y, loc);
}

static IrValue *
fold_windows(Lower *cx, IrValue *x, const FeWindows *w,
             IrValue *(*fold)(Lower *, IrValue *, IrValue *, Loc), Loc loc)
{
    IrValue *sum = window_element(cx, x, w, 0, loc);
    for (int64_t i = 1, count = count_places(w); i < count; i++)
        sum = fold(cx, sum, window_element(cx, x, w, i, loc), loc);
    return sum;
}

static IrValue *
read_pool(Lower *cx, const FeArgs *in, FeWindows *w)
{
    IrValue *x = fe_operand(cx, fe_arg(in, 0), fe_arg_loc(in, 0));
    *w = fe_windows(in);
    int n = w->in.num_axes;
    if (!x || !fe_windows_read(cx, in, 1, "a window", n, 1, w->size))
        return NULL;
    memcpy(w->in.step, w->size, sizeof w->in.step);
    if (!fe_windows_read(cx, in, 2, "a stride", n, 1, w->in.step) ||
        !fe_windows_read_padding(cx, in, 3, n, &w->padding) ||
        !fe_windows_read_image(cx, in, x, w) || !fe_windows_place(cx, in, x, w))
        return NULL;
    for (int k = 0; k < n; k++) {
        if (w->in.low[k] < w->size[k] && w->padding.after[k] < w->size[k])
            continue;
        fe_error(cx, fe_arg_loc(in, 3),
                 "a padding as large as the window has windows without an "
                 "element");
        return NULL;
    }
    if (count_places(w) > MAX_WINDOW) {
        fe_error_note(cx, fe_arg_loc(in, 1),
                      n == 1   ? "reduce the whole axis: axis = 1"
                      : n == 2 ? "reduce the axes of the whole image: axis = "
                                 "(1, 2)"
                               : "reduce all three axes: axis = (1, 2, 3)",
                      "a window of more than %d elements", MAX_WINDOW);
        return NULL;
    }
    return fe_check_can_emit(cx, in->loc) ? x : NULL;
}

FeValue *
fe_builtin_max_pool(Lower *cx, const FeArgs *in)
{
    FeWindows w;
    IrValue *x = read_pool(cx, in, &w);
    if (!x)
        return &fe_poison;
    if (x->type.dtype == DT_bool)
        return fe_error(cx, fe_arg_loc(in, 0),
                        "%s compares numbers, not bools: cast them", in->name);
    IrValue *all = pad_images(cx, x, &w, in->loc);
    if (w.padded) {
        IrBlock *b = cx->block;
        IrValue *is = valid_mask(cx, &w, DT_bool, in->loc);
        Scalar least = ir_eval_neutral(OP_reduce_max, x->type.dtype);
        IrValue *none = ir_const_scalar(b, least, in->loc);
        all = ir_build3(b, OP_where, is, all, none, in->loc);
    }
    return fe_value_tensor(cx->arena,
                           fold_windows(cx, all, &w, greater, in->loc));
}

FeValue *
fe_builtin_avg_pool(Lower *cx, const FeArgs *in)
{
    FeWindows w;
    IrValue *x = read_pool(cx, in, &w);
    if (!x)
        return &fe_poison;
    DType own = x->type.dtype, t = dtype_compute(own);
    if (!fe_check_floats(cx, x, in->name, "x", fe_arg_loc(in, 0)))
        return &fe_poison;
    x = ir_build_cast(cx->block, x, t, in->loc);
    IrValue *all = pad_images(cx, x, &w, in->loc);
    IrValue *sum = fold_windows(cx, all, &w, add, in->loc);
    double places = (double)count_places(&w);
    IrValue *count = w.padded ? fold_windows(cx, valid_mask(cx, &w, t, in->loc),
                                             &w, add, in->loc)
                              : ir_const_float(cx->block, t, places, in->loc);
    IrValue *mean = ir_build2(cx->block, OP_div, sum, count, in->loc);
    return fe_value_tensor(cx->arena,
                           ir_build_cast(cx->block, mean, own, in->loc));
}
