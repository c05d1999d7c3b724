/*
 * windows.c - convolutions and transposed convolutions, made of operations
 *
 * With stride 1 a transposed convolution is a convolution with the weights
 * turned round.  With a greater one, the places of the result that are equally
 * far from a multiple of the stride use the same weights: one convolution for
 * each of these distances, with stride 1, and zeros between its elements.
 */
#include "ir/rules/windows.h"

#include <string.h>
#include "ir/rules/build.h"

/* ---- attributes ---------------------------------------------------------- */

/* A number for each axis; all 1 where the attribute is absent. */
static int
read_sizes(const IrOp *op, IrAttrName a, int64_t *out)
{
    int n = 0;
    const int64_t *sizes = ir_has(op, a) ? ir_ints(op, a, &n) : NULL;
    for (int k = 0; k < IR_MAX_WINDOW_AXES; k++)
        out[k] = k < n ? sizes[k] : 1;
    return n;
}

IrWindows
ir_windows_of(const IrOp *op)
{
    IrWindows w = {.groups = 1};
    w.num_axes = read_sizes(op, A_low, w.low);
    read_sizes(op, A_step, w.step);
    read_sizes(op, A_dilation, w.dilation);
    if (ir_has(op, A_groups))
        w.groups = ir_int(op, A_groups);
    return w;
}

void
ir_windows_set(IrOp *op, const IrWindows *w, const Dim *dims)
{
    bool dilated = false;
    for (int k = 0; k < w->num_axes; k++)
        dilated = dilated || w->dilation[k] != 1;
    ir_set_ints(op, A_low, w->low, w->num_axes);
    ir_set_dims(op, A_dims, dims, w->num_axes);
    ir_set_ints(op, A_step, w->step, w->num_axes);
    if (dilated)
        ir_set_ints(op, A_dilation, w->dilation, w->num_axes);
    if (w->groups != 1)
        ir_set_int(op, A_groups, w->groups);
}

IrValue *
ir_build_conv(IrBlock *b, IrOpKind kind, IrValue *x, IrValue *y,
              const IrWindows *w, const Dim *dims, Loc loc)
{
    IrOp *op = ir_build_op(b, kind, 2, (IrValue *[]){x, y}, loc);
    ir_windows_set(op, w, dims);
    return ir_build_infer(op);
}

/* ---- transposed: places with the same weights ---------------------------- */

typedef struct Transpose {
    IrBlock *b;
    IrValue *y, *weights;
    const IrWindows *w;
    const Dim *shape;
    Loc loc;
} Transpose;

/* The places along an axis of the result that are `first` more than a multiple
 * of the stride.  They use every stride-th of the weights from tap on, and
 * windows as in a convolution with stride 1. */
typedef struct Places {
    int64_t first, count;
    int64_t tap, tap_step, taps; /* of the weights; no taps: zeros */
    int64_t dilation, low; /* of the convolution, with weights turned round */
} Places;

static int64_t
greatest_divisor(int64_t x, int64_t y)
{
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

/* The first place of a window, below `end`, that is on elements `at` more than
 * a multiple of step; `end` if there is none. */
static int64_t
first_tap(int64_t at, int64_t step, int64_t dilation, int64_t end)
{
    int64_t rest = (at % step + step) % step, tap = 0;
    int64_t move = dilation % step, here = 0;
    while (tap < end && here != rest) {
        here = (here + move) % step;
        tap++;
    }
    return tap;
}

/*
 * Element h of the result is place a of window i where h + low = step i +
 * dilation a.  With g the greatest divisor of both, for h = step h' + first
 * these a are tap + (step / g) t, and i is h' + before - (dilation / g) t.
 */
static Places
places_of(const Transpose *t, int axis, int64_t first)
{
    int64_t step = t->w->step[axis], dilation = t->w->dilation[axis];
    int64_t low = t->w->low[axis], size = t->shape[axis + 1].c;
    int64_t taps = t->weights->type.dims[axis].c;
    int64_t g = greatest_divisor(step, dilation);
    Places p = {.first = first, .tap_step = step / g, .dilation = dilation / g};
    p.tap = first_tap(first + low, step, dilation,
                      taps < p.tap_step ? taps : p.tap_step);
    p.count = size > first ? (size - first + step - 1) / step : 0;
    if (p.tap < taps && (first + low - dilation * p.tap) % step == 0)
        p.taps = (taps - p.tap + p.tap_step - 1) / p.tap_step;
    int64_t before = (first + low - dilation * p.tap) / step;
    p.low = p.dilation * (p.taps - 1) - before;
    return p;
}

/* Weights [places..., channels of a group, new channels] with both kinds of
 * channels exchanged, in each group. */
static IrValue *
exchange_channels(const Transpose *t, IrValue *w)
{
    int n = t->w->num_axes;
    int64_t groups = t->w->groups, perm[IR_MAX_RANK];
    for (int k = 0; k < n; k++)
        perm[k] = k;
    if (groups == 1) {
        perm[n] = n + 1;
        perm[n + 1] = n;
        return ir_build_transpose(t->b, w, perm, t->loc);
    }
    Dim dims[IR_MAX_RANK];
    memcpy(dims, w->type.dims, sizeof dims);
    int64_t old = dims[n].c, new = dims[n + 1].c / groups;
    dims[n + 1] = ir_dim_const(groups);
    dims[n + 2] = ir_dim_const(new);
    perm[n] = n + 2;
    perm[n + 1] = n + 1;
    perm[n + 2] = n;
    w = ir_build_reshape(t->b, w, n + 3, dims, t->loc);
    w = ir_build_transpose(t->b, w, perm, t->loc);
    dims[n] = ir_dim_const(new);
    dims[n + 1] = ir_dim_const(groups * old);
    return ir_build_reshape(t->b, w, n + 2, dims, t->loc);
}

/* The weights of some places, turned round, with channels exchanged. */
static IrValue *
turn_weights(const Transpose *t, const Places *p)
{
    int n = t->w->num_axes;
    int64_t start[IR_MAX_RANK] = {0}, steps[IR_MAX_RANK], axes[IR_MAX_RANK];
    Dim dims[IR_MAX_RANK];
    bool all = true;
    IrValue *w = t->weights;
    memcpy(dims, w->type.dims, sizeof dims);
    for (int k = 0; k < n + 2; k++)
        steps[k] = 1;
    for (int k = 0; k < n; k++) {
        start[k] = p[k].tap;
        steps[k] = p[k].tap_step;
        dims[k] = ir_dim_const(p[k].taps);
        axes[k] = k;
        all = all && ir_dim_equal(dims[k], w->type.dims[k]);
    }
    if (!all)
        w = ir_build_slice(t->b, w, start, dims, steps, t->loc);
    return exchange_channels(t, ir_build_reverse(t->b, w, axes, n, t->loc));
}

/* The result at some places; zeros at all others. */
static IrValue *
transpose_at(const Transpose *t, const Places *p)
{
    int n = t->w->num_axes;
    IrWindows w = {.num_axes = n, .groups = t->w->groups};
    int64_t first[IR_MAX_RANK] = {0}, steps[IR_MAX_RANK];
    Dim counts[IR_MAX_WINDOW_AXES];
    bool spread = false;
    for (int k = 0; k < n + 2; k++)
        steps[k] = 1;
    for (int k = 0; k < n; k++) {
        counts[k] = ir_dim_const(p[k].count);
        w.low[k] = p[k].low;
        w.step[k] = 1;
        w.dilation[k] = p[k].dilation;
        first[k + 1] = p[k].first;
        steps[k + 1] = t->w->step[k];
        spread = spread || t->w->step[k] != 1;
    }
    IrValue *v = ir_build_conv(t->b, OP_conv, t->y, turn_weights(t, p), &w,
                               counts, t->loc);
    return spread ? ir_build_pad(t->b, v, first, t->shape, steps, t->loc) : v;
}

/* Distances from a multiple of the stride that places along an axis have. */
static int64_t
count_distances(const Transpose *t, int axis)
{
    int64_t step = t->w->step[axis], size = t->shape[axis + 1].c;
    return step < size ? step : size;
}

/* The places of distances number i, in row-major order; false: zeros. */
static bool
places_at(const Transpose *t, int64_t i, Places *p)
{
    bool all = true;
    for (int k = t->w->num_axes - 1; k >= 0; k--) {
        int64_t count = count_distances(t, k);
        p[k] = places_of(t, k, i % count);
        all = all && p[k].taps;
        i /= count;
    }
    return all;
}

static IrValue *
transpose_by_distances(const Transpose *t)
{
    IrValue *sum = NULL;
    int64_t count = 1;
    for (int k = 0; k < t->w->num_axes; k++)
        count *= count_distances(t, k);
    for (int64_t i = 0; i < count; i++) {
        Places p[IR_MAX_WINDOW_AXES] = {0};
        if (!places_at(t, i, p))
            continue;
        IrValue *v = transpose_at(t, p);
        sum = sum ? ir_build2(t->b, OP_add, sum, v, t->loc) : v;
    }
    return sum;
}

/* ---- transposed: few channels -------------------------------------------- */

/* The windows along an axis in which the place `offset` from their first one is
 * in the result, and the first such place. */
typedef struct Seen {
    int64_t first, count, place;
} Seen;

static Seen
seen_at(const Transpose *t, int axis, int64_t tap)
{
    int64_t step = t->w->step[axis], windows = t->y->type.dims[axis + 1].c;
    int64_t before = t->w->low[axis] - tap * t->w->dilation[axis];
    int64_t last = t->shape[axis + 1].c - 1 + before;
    Seen s = {.first = before > 0 ? (before + step - 1) / step : 0};
    s.count = last < 0 ? 0 : last / step + 1;
    if (s.count > windows)
        s.count = windows;
    s.count = s.count > s.first ? s.count - s.first : 0;
    s.place = step * s.first - before;
    return s;
}

/* The values that windows have for one of their places, at the position in the
 * result; zeros elsewhere. `all` is [rows, windows..., places..., channels];
 * NULL: no window has it there. */
static IrValue *
place_back(const Transpose *t, IrValue *all, const int64_t *tap)
{
    int n = t->w->num_axes;
    int64_t start[IR_MAX_RANK] = {0}, ones[IR_MAX_RANK];
    int64_t first[IR_MAX_RANK] = {0}, steps[IR_MAX_RANK];
    Dim some[IR_MAX_RANK], flat[IR_MAX_RANK];
    for (int k = 0; k < IR_MAX_RANK; k++)
        ones[k] = steps[k] = 1;
    some[0] = flat[0] = all->type.dims[0];
    some[2 * n + 1] = flat[n + 1] = all->type.dims[2 * n + 1];
    for (int k = 0; k < n; k++) {
        Seen s = seen_at(t, k, tap[k]);
        if (!s.count)
            return NULL;
        start[k + 1] = s.first;
        start[n + k + 1] = tap[k];
        some[k + 1] = flat[k + 1] = ir_dim_const(s.count);
        some[n + k + 1] = ir_dim_const(1);
        first[k + 1] = s.place;
        steps[k + 1] = t->w->step[k];
    }
    IrValue *v = ir_build_slice(t->b, all, start, some, ones, t->loc);
    v = ir_build_reshape(t->b, v, n + 2, flat, t->loc);
    return ir_build_pad(t->b, v, first, t->shape, steps, t->loc);
}

/* The places of a window; 0 if they are not known or too many. */
static int64_t
count_places(const Transpose *t)
{
    enum { MANY_PLACES = 64 };
    int64_t places = 1;
    for (int k = 0; k < t->w->num_axes; k++) {
        if (__builtin_mul_overflow(places, t->weights->type.dims[k].c,
                                   &places) ||
            places > MANY_PLACES)
            return 0;
    }
    return places;
}

/* A convolution with few channels uses only a small part of a register.
 * Instead a product computes the value of each window for each of its places,
 * and the values are summed where windows overlap. */
static bool
has_few_channels(const Transpose *t)
{
    enum { FEW_CHANNELS = 4, MOST = 4 };
    const Dim *channels = &t->weights->type.dims[t->w->num_axes];
    int64_t limit, places = count_places(t);
    return t->w->groups == 1 && places && ir_dim_is_const(channels[0]) &&
           ir_dim_is_const(channels[1]) && channels[0].c <= FEW_CHANNELS &&
           !__builtin_mul_overflow(MOST, channels[1].c, &limit) &&
           places * channels[0].c <= limit;
}

/* Sums of 16-bit floats are f32, rounded once. */
static IrValue *
transpose_by_places(Transpose *t)
{
    int n = t->w->num_axes;
    const int64_t channels[] = {n + 1};
    const IrDotAxes axes = {channels, channels, 1, NULL, NULL, 0};
    const Dim *taps = t->weights->type.dims;
    DType narrow = t->y->type.dtype;
    IrValue *y = t->y, *w = t->weights, *sum = NULL;
    if (dtype_compute(narrow) != narrow) {
        y = ir_build_cast(t->b, y, dtype_compute(narrow), t->loc);
        w = ir_build_cast(t->b, w, dtype_compute(narrow), t->loc);
    }
    IrValue *all = ir_build_dot(t->b, y, w, &axes, t->loc);
    for (int64_t i = 0, count = count_places(t); i < count; i++) {
        int64_t tap[IR_MAX_WINDOW_AXES], rest = i;
        for (int k = n - 1; k >= 0; k--) {
            tap[k] = rest % taps[k].c;
            rest /= taps[k].c;
        }
        IrValue *some = place_back(t, all, tap);
        if (some)
            sum = sum ? ir_build2(t->b, OP_add, sum, some, t->loc) : some;
    }
    return sum ? ir_build_cast(t->b, sum, narrow, t->loc) : NULL;
}

IrValue *
ir_build_conv_transpose(IrBlock *b, IrValue *y, IrValue *weights,
                        const IrWindows *w, const Dim *shape, Loc loc)
{
    Transpose t = {b, y, weights, w, shape, loc};
    return has_few_channels(&t) ? transpose_by_places(&t)
                                : transpose_by_distances(&t);
}
