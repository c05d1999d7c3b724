/*
 * builtins_conv.c - windows over images: convolution and pooling
 *
 * Images are [rows, height, width, channels].  A window begins at every
 * stride-th place; padding "valid" keeps windows inside of the image, "same"
 * gives one for every stride-th element, with the padding on both sides and an
 * odd row or column at the end.
 *
 * A convolution is an operation of its own.  Pooling is made of slices, one for
 * each place in a window, combined in the order of the window: so the first of
 * equal maxima gets the gradient (D6).
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"

#include <string.h>
#include "ir/rules/build.h"
#include "ir/rules/eval.h"
#include "ir/type_text.h"

enum { MAX_WINDOW = 1024 };

/* Windows along height and width. */
typedef struct Windows {
    int64_t size[2], stride[2];
    int64_t image[2]; /* elements there are, */
    int64_t low[2];   /* places before them, */
    int64_t count[2]; /* and windows */
    bool padded;
} Windows;

/* One number for both axes, or one each. */
static bool
read_pair(Lower *cx, const FeArgs *in, int i, const char *what, int64_t *out)
{
    Dim dims[IR_MAX_RANK];
    int rank;
    Loc loc = fe_arg_loc(in, i);
    if (!fe_require_dims(cx, fe_arg(in, i), what, loc, dims, &rank))
        return false;
    bool ok = rank == 1 || rank == 2;
    for (int k = 0; ok && k < 2; k++) {
        Dim d = dims[k < rank ? k : 0];
        ok = ir_dim_is_const(d) && d.c >= 1 && d.c <= INT32_MAX;
        out[k] = d.c;
    }
    if (!ok)
        fe_error(cx, loc, "%s is one or two constants from 1", what);
    return ok;
}

static bool
read_padding(Lower *cx, const FeArgs *in, int i, bool *same)
{
    const char *word = "valid";
    if (fe_arg(in, i) && !fe_require_text(cx, fe_arg(in, i), "padding",
                                          fe_arg_loc(in, i), &word))
        return false;
    *same = strcmp(word, "same") == 0;
    if (!*same && strcmp(word, "valid") != 0) {
        fe_error(cx, fe_arg_loc(in, i), "padding is \"same\" or \"valid\"");
        return false;
    }
    return true;
}

static void
set_padding(Windows *w, int k, bool same)
{
    int64_t size = w->image[k], stride = w->stride[k], over = size - w->size[k];
    w->low[k] = 0;
    if (!same) {
        w->count[k] = over < 0 ? 0 : over / stride + 1;
        return;
    }
    w->count[k] = (size + stride - 1) / stride;
    int64_t outside = (w->count[k] - 1) * stride - over;
    w->low[k] = outside > 0 ? outside / 2 : 0;
    w->padded = w->padded || outside > 0;
}

/* The windows of x, once sizes and strides are known. */
static bool
read_windows(Lower *cx, const FeArgs *in, const IrValue *x, bool same,
             Windows *w)
{
    const Dim *dims = x->type.dims;
    if (x->type.rank != 4 || !ir_dim_is_const(dims[1]) ||
        !ir_dim_is_const(dims[2])) {
        fe_error(cx, fe_arg_loc(in, 0),
                 "%s takes images of shape [rows, height, width, channels], "
                 "not %s",
                 in->name, ir_dims_text(cx->module, x->type.rank, dims));
        return false;
    }
    w->padded = false;
    for (int k = 0; k < 2; k++) {
        w->image[k] = dims[k + 1].c;
        set_padding(w, k, same);
        if (w->count[k] > 0)
            continue;
        fe_error(cx, in->loc, "a window of %lld by %lld does not fit in %s",
                 (long long)w->size[0], (long long)w->size[1],
                 ir_dims_text(cx->module, 4, dims));
        return false;
    }
    return true;
}

/* ---- convolution -------------------------------------------------------- */

FeValue *
fe_builtin_conv2d(Lower *cx, const FeArgs *in)
{
    Windows w = {.stride = {1, 1}};
    bool same;
    FeValue *values[] = {fe_arg(in, 0), fe_arg(in, 1)};
    IrValue *v[2];
    if (!fe_operands(cx, 2, values, v, in->loc) ||
        (fe_arg(in, 2) && !read_pair(cx, in, 2, "a stride", w.stride)) ||
        !read_padding(cx, in, 3, &same))
        return &fe_poison;
    const IrType *t = &v[1]->type;
    if (t->rank != 4 || !ir_dim_is_const(t->dims[0]) ||
        !ir_dim_is_const(t->dims[1]))
        return fe_error(cx, fe_arg_loc(in, 1),
                        "the weights have shape [height, width, channels, new "
                        "channels], not %s",
                        ir_dims_text(cx->module, t->rank, t->dims));
    w.size[0] = t->dims[0].c;
    w.size[1] = t->dims[1].c;
    if (!read_windows(cx, in, v[0], same, &w))
        return &fe_poison;
    IrOp *op = fe_op(cx, OP_conv2d, 2, v, in->loc);
    ir_set_ints(op, A_low, w.low, 2);
    ir_set_ints(op, A_step, w.stride, 2);
    ir_set_dims(op, A_dims,
                (Dim[]){ir_dim_const(w.count[0]), ir_dim_const(w.count[1])}, 2);
    return fe_emit(cx, op);
}

/* ---- pooling ------------------------------------------------------------ */

/* x with zeros around, so that all windows are inside. */
static IrValue *
pad_images(Lower *cx, IrValue *x, const Windows *w, Loc loc)
{
    static const int64_t one[4] = {1, 1, 1, 1};
    if (!w->padded)
        return x;
    int64_t low[4] = {0, w->low[0], w->low[1], 0};
    Dim dims[4];
    memcpy(dims, x->type.dims, sizeof dims);
    for (int k = 0; k < 2; k++) {
        int64_t reach = (w->count[k] - 1) * w->stride[k] + w->size[k];
        int64_t here = w->low[k] + w->image[k];
        dims[k + 1] = ir_dim_const(reach > here ? reach : here);
    }
    return ir_build_pad(cx->block, x, low, dims, one, loc);
}

/* 1 in an image of one channel, where there is one. */
static IrValue *
valid_mask(Lower *cx, const Windows *w, DType t, Loc loc)
{
    Dim dims[4] = {ir_dim_const(1), ir_dim_const(w->image[0]),
                   ir_dim_const(w->image[1]), ir_dim_const(1)};
    Scalar one = scalar_cast(scalar_int(DT_i64, 1), t);
    IrValue *x = ir_const_fill(cx->block, t, 4, dims, one, loc);
    return pad_images(cx, x, w, loc);
}

/* The element of each window at place i, in row-major order. */
static IrValue *
window_element(Lower *cx, IrValue *x, const Windows *w, int64_t i, Loc loc)
{
    int64_t start[4] = {0, i / w->size[1], i % w->size[1], 0};
    int64_t step[4] = {1, w->stride[0], w->stride[1], 1};
    Dim dims[4] = {x->type.dims[0], ir_dim_const(w->count[0]),
                   ir_dim_const(w->count[1]), x->type.dims[3]};
    return ir_build_slice(cx->block, x, start, dims, step, loc);
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
fold_windows(Lower *cx, IrValue *x, const Windows *w,
             IrValue *(*fold)(Lower *, IrValue *, IrValue *, Loc), Loc loc)
{
    IrValue *sum = window_element(cx, x, w, 0, loc);
    for (int64_t i = 1; i < w->size[0] * w->size[1]; i++)
        sum = fold(cx, sum, window_element(cx, x, w, i, loc), loc);
    return sum;
}

static IrValue *
read_pool(Lower *cx, const FeArgs *in, Windows *w)
{
    bool same;
    IrValue *x = fe_operand(cx, fe_arg(in, 0), fe_arg_loc(in, 0));
    if (!x || !read_pair(cx, in, 1, "a window", w->size))
        return NULL;
    memcpy(w->stride, w->size, sizeof w->stride);
    if ((fe_arg(in, 2) && !read_pair(cx, in, 2, "a stride", w->stride)) ||
        !read_padding(cx, in, 3, &same) || !read_windows(cx, in, x, same, w))
        return NULL;
    if (w->size[0] > MAX_WINDOW || w->size[1] > MAX_WINDOW / w->size[0]) {
        fe_error_note(cx, fe_arg_loc(in, 1),
                      "reduce the axes of the whole image: axis = (1, 2)",
                      "a window of more than %d elements", MAX_WINDOW);
        return NULL;
    }
    return fe_check_can_emit(cx, in->loc) ? x : NULL;
}

FeValue *
fe_builtin_max_pool2d(Lower *cx, const FeArgs *in)
{
    Windows w;
    IrValue *x = read_pool(cx, in, &w);
    if (!x)
        return &fe_poison;
    if (x->type.dtype == DT_bool)
        return fe_error(cx, fe_arg_loc(in, 0),
                        "max_pool2d of bool asks for a "
                        "cast");
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

/* Elements outside of the image do not count. */
FeValue *
fe_builtin_avg_pool2d(Lower *cx, const FeArgs *in)
{
    Windows w;
    IrValue *x = read_pool(cx, in, &w);
    if (!x)
        return &fe_poison;
    DType t = x->type.dtype;
    if (!dtype_is_float(t))
        return fe_error(cx, fe_arg_loc(in, 0),
                        "avg_pool2d of %s asks for a "
                        "cast",
                        dtype_info[t].name);
    IrValue *all = pad_images(cx, x, &w, in->loc);
    IrValue *sum = fold_windows(cx, all, &w, add, in->loc);
    double places = (double)(w.size[0] * w.size[1]);
    IrValue *count = w.padded ? fold_windows(cx, valid_mask(cx, &w, t, in->loc),
                                             &w, add, in->loc)
                              : ir_const_float(cx->block, t, places, in->loc);
    return fe_value_tensor(cx->arena,
                           ir_build2(cx->block, OP_div, sum, count, in->loc));
}
