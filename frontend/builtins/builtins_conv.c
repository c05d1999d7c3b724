/*
 * builtins_conv.c - convolutions and transposed convolutions
 *
 * A convolution is an operation of its own.  A transposed one is made of
 * convolutions, as the gradient of a convolution by its input is.
 */
#include "frontend/builtins/windows.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"

#include <stdlib.h>
#include <string.h>
#include "ir/rules/build.h"
#include "ir/type_text.h"

/* ---- weights ------------------------------------------------------------- */

/* The places of a window from weights w: argument 1. */
static bool
read_places(Lower *cx, const FeArgs *in, const IrValue *w, const char *channels,
            FeWindows *out)
{
    const IrType *t = &w->type;
    int n = out->in.num_axes;
    bool good = t->rank == n + 2;
    for (int k = 0; good && k < n; k++) {
        good = ir_dim_is_const(t->dims[k]) && t->dims[k].c >= 1 &&
               t->dims[k].c <= INT32_MAX;
        out->size[k] = t->dims[k].c;
    }
    if (!good)
        fe_error(cx, fe_arg_loc(in, 1),
                 "the weights have shape [%s, %s], not %s", fe_windows_axes(n),
                 channels, ir_dims_text(cx->module, t->rank, t->dims));
    for (int k = 0; good && k < n; k++) {
        if (fe_window_reach(out, k) <= INT32_MAX)
            continue;
        fe_error(cx, in->loc,
                 "a window reaches over %lld elements, of at most 2^31 - 1",
                 (long long)fe_window_reach(out, k));
        return false;
    }
    return good;
}

static bool
read_groups(Lower *cx, const FeArgs *in, int i, FeWindows *w)
{
    if (!fe_arg_int(cx, in, i, "groups", &w->in.groups))
        return false;
    if (w->in.groups >= 1)
        return true;
    fe_error_note(cx, fe_arg_loc(in, i),
                  "as many as x has channels make each a group of its own",
                  "groups are 1 or more, not %lld", (long long)w->in.groups);
    return false;
}

/* Whether channels, of "x" or of "the weights", are equal parts for the groups.
 */
static bool
check_divides(Lower *cx, const FeArgs *in, int i, const FeWindows *w,
              Dim channels, const char *whose)
{
    int64_t groups = w->in.groups;
    if (groups == 1 || (ir_dim_is_const(channels) && channels.c % groups == 0))
        return true;
    if (!ir_dim_is_const(channels)) {
        fe_error(
            cx, fe_arg_loc(in, i),
            "groups of the channels of %s, whose number is known only when "
            "the program runs",
            whose);
        return false;
    }
    int64_t near = groups < channels.c ? groups : channels.c;
    while (channels.c % near)
        near--;
    fe_error_note(cx, fe_arg_loc(in, i),
                  fe_format(cx, "groups = %lld does", (long long)near),
                  "groups = %lld does not divide the %lld channels of %s",
                  (long long)groups, (long long)channels.c, whose);
    return false;
}

/* How to put the channels of images last, of so many axes besides. */
static const char *
channels_last_note(Lower *cx, int num_axes)
{
    static const char *const orders[] = {"0, 2, 1", "0, 2, 3, 1",
                                         "0, 2, 3, 4, 1"};
    return fe_format(cx,
                     "channels are the last axis, and not the second: give it "
                     "transpose(x, (%s)) of the x there",
                     orders[num_axes - 1]);
}

/* Whether the weights are for as many channels as a group of x has. */
static bool
check_channels(Lower *cx, const FeArgs *in, const FeWindows *w, const IrType *x,
               const IrType *weights)
{
    int n = w->in.num_axes;
    Dim channels = x->dims[n + 1], have = weights->dims[n], dims[IR_MAX_RANK];
    if (!ir_dim_is_const(have) || !ir_dim_is_const(channels) ||
        have.c == channels.c / w->in.groups)
        return true;
    memcpy(dims, weights->dims, sizeof dims);
    dims[n] = ir_dim_const(channels.c / w->in.groups);
    bool is_first = w->in.groups == 1 && ir_dim_is_const(x->dims[1]) &&
                    x->dims[1].c == have.c;
    fe_error_note(cx, fe_arg_loc(in, 1),
                  is_first ? channels_last_note(cx, n)
                           : fe_format(cx, "weights of shape %s",
                                       ir_dims_text(cx->module, n + 2, dims)),
                  "weights for %lld channels, of a value with %lld%s",
                  (long long)have.c, (long long)dims[n].c,
                  w->in.groups == 1 ? "" : " in each group");
    return false;
}

/* ---- convolution --------------------------------------------------------- */

FeValue *
fe_builtin_conv(Lower *cx, const FeArgs *in)
{
    enum { STRIDE = 2, PADDING, DILATION, GROUPS };
    FeWindows w = fe_windows(in);
    int n = w.in.num_axes;
    FeValue *values[] = {fe_arg(in, 0), fe_arg(in, 1)};
    IrValue *v[2];
    if (!fe_operands(cx, 2, values, v, in->loc) ||
        !fe_windows_read(cx, in, STRIDE, "a stride", n, 1, w.in.step) ||
        !fe_windows_read_padding(cx, in, PADDING, n, &w.padding) ||
        !fe_windows_read(cx, in, DILATION, "a dilation", n, 1, w.in.dilation) ||
        !read_groups(cx, in, GROUPS, &w) ||
        !read_places(cx, in, v[1], "channels of a group, new channels", &w) ||
        !fe_windows_read_image(cx, in, v[0], &w))
        return &fe_poison;
    const Dim *x = v[0]->type.dims, *y = v[1]->type.dims;
    if (!check_divides(cx, in, GROUPS, &w, x[n + 1], "x") ||
        !check_divides(cx, in, GROUPS, &w, y[n + 1], "the weights") ||
        !check_channels(cx, in, &w, &v[0]->type, &v[1]->type) ||
        !fe_windows_place(cx, in, v[0], &w))
        return &fe_poison;
    Dim dims[IR_MAX_WINDOW_AXES];
    for (int k = 0; k < n; k++)
        dims[k] = ir_dim_const(w.count[k]);
    IrOp *op = fe_op(cx, OP_conv, 2, v, in->loc);
    ir_windows_set(op, &w.in, dims);
    return fe_emit(cx, op);
}

/* ---- transposed convolution ---------------------------------------------- */

/* The elements of the result along an axis, and the places before it; false if
 * there are none. */
static bool
place_result(FeWindows *w, int k, int64_t more, int64_t *size)
{
    int64_t reach = fe_window_reach(w, k), step = w->in.step[k];
    if (__builtin_mul_overflow(w->image[k], step, size))
        return false;
    int64_t outside = w->padding.before[k] + w->padding.after[k];
    w->in.low[k] = w->padding.before[k];
    if (w->padding.same) {
        outside = reach > step ? reach - step : 0;
        w->in.low[k] = outside / 2;
        return *size > 0;
    }
    *size += reach - step - outside + more;
    return *size > 0;
}

static bool
read_output_padding(Lower *cx, const FeArgs *in, int i, const FeWindows *w,
                    int64_t *more)
{
    int n = w->in.num_axes;
    if (!fe_windows_read(cx, in, i, "output_padding", n, 0, more))
        return false;
    for (int k = 0; k < n; k++) {
        if (more[k] && (w->padding.same || (more[k] >= w->in.step[k] &&
                                            more[k] >= w->in.dilation[k]))) {
            fe_error_note(cx, fe_arg_loc(in, i),
                          "it says which of the sizes that a convolution "
                          "reduces to that of x is meant",
                          "output_padding is less than stride or dilation, and "
                          "not beside padding = \"same\"");
            return false;
        }
    }
    return true;
}

/* The shape of the result. */
static bool
place_results(Lower *cx, const FeArgs *in, const IrValue *const *v,
              FeWindows *w, const int64_t *more, Dim *shape)
{
    int n = w->in.num_axes;
    memcpy(shape, v[0]->type.dims, sizeof(Dim) * (size_t)(n + 2));
    Dim channels = v[1]->type.dims[n];
    if (!ir_dim_mul(channels, ir_dim_const(w->in.groups), &shape[n + 1]))
        return false;
    for (int k = 0; k < n; k++) {
        int64_t size;
        if (!place_result(w, k, more[k], &size)) {
            fe_error_note(cx, in->loc,
                          "less padding, or windows of more places",
                          "the result of %s would have %lld elements along "
                          "axis %d",
                          in->name, (long long)size, k + 1);
            return false;
        }
        shape[k + 1] = ir_dim_const(size);
    }
    return true;
}

/* In the dtype that precision() says. */
static FeValue *
emit_transpose(Lower *cx, IrValue *const *v, const FeWindows *w,
               const Dim *shape, Loc loc)
{
    DType wide = v[0]->type.dtype;
    if (!fe_check_can_emit(cx, loc))
        return &fe_poison;
    DType t = fe_product_dtype(cx, OP_conv, wide);
    IrBlock *b = cx->block;
    IrValue *x = ir_build_cast(b, v[0], t, loc);
    IrValue *y = ir_build_cast(b, v[1], t, loc);
    IrValue *result = ir_build_conv_transpose(b, x, y, &w->in, shape, loc);
    if (!result)
        result = ir_const_fill(b, t, w->in.num_axes + 2, shape,
                               scalar_cast(scalar_int(DT_i64, 0), t), loc);
    return fe_value_tensor(cx->arena, ir_build_cast(b, result, wide, loc));
}

FeValue *
fe_builtin_conv_transpose(Lower *cx, const FeArgs *in)
{
    enum { STRIDE = 2, PADDING, OUTPUT_PADDING, GROUPS, DILATION };
    FeWindows w = fe_windows(in);
    int n = w.in.num_axes;
    int64_t more[IR_MAX_WINDOW_AXES] = {0};
    FeValue *values[] = {fe_arg(in, 0), fe_arg(in, 1)};
    IrValue *v[2];
    if (!fe_operands(cx, 2, values, v, in->loc) ||
        !fe_windows_read(cx, in, STRIDE, "a stride", n, 1, w.in.step) ||
        !fe_windows_read(cx, in, DILATION, "a dilation", n, 1, w.in.dilation) ||
        !fe_windows_read_padding(cx, in, PADDING, n, &w.padding) ||
        !read_output_padding(cx, in, OUTPUT_PADDING, &w, more) ||
        !read_groups(cx, in, GROUPS, &w) ||
        !read_places(cx, in, v[1], "new channels of a group, channels", &w) ||
        !fe_windows_read_image(cx, in, v[0], &w))
        return &fe_poison;
    Dim x = v[0]->type.dims[n + 1], y = v[1]->type.dims[n + 1];
    Dim shape[IR_MAX_RANK];
    if (v[0]->type.dtype == DT_bool)
        return fe_error(cx, fe_arg_loc(in, 0), "%s of bool: cast it", in->name);
    if (!ir_dim_equal(x, y))
        return fe_error(cx, fe_arg_loc(in, 1),
                        "weights of shape %s, whose last dimension is not the "
                        "channels of %s",
                        ir_dims_text(cx->module, n + 2, v[1]->type.dims),
                        ir_dims_text(cx->module, n + 2, v[0]->type.dims));
    Dim own = v[1]->type.dims[n];
    if (!check_divides(cx, in, GROUPS, &w, x, "x") ||
        (!ir_dim_is_const(own) &&
         !check_divides(cx, in, GROUPS, &w, own, "the result")) ||
        !place_results(cx, in, (const IrValue *const *)v, &w, more, shape))
        return &fe_poison;
    return emit_transpose(cx, v, &w, shape, in->loc);
}
