/*
 * depthwise_match.c - recognizes convolutions of each channel alone, and of
 *                     narrow groups
 */
#include "backend/depthwise/depthwise.h"

#include <assert.h>
#include "backend/kernel/kernel_impl.h"

enum {
    MAX_PLACES = 64,      /* of a window: code is emitted for each */
    FEW_WINDOWS = 4,      /* for which packing does not pay */
    MAX_SUMS = 2 << 20,   /* bytes of the sums of all places and channels */
    MAX_PACKED = 4 << 20, /* bytes of x packed for a row of windows, which is
                             on a thread's stack */
    MOST_BYTES = 64,      /* of a register */
};

/* ---- operands ------------------------------------------------------------ */

/* Whether a value depends on one of the grid's indices. */
static bool
depends_on_grid(Emit *e, const KNode *n)
{
    const KRanges *grid = &e->k->grid;
    for (int i = 0; i < grid->count; i++) {
        be_emit_find_varying(e, grid->vars[i]);
        if (e->value_varying[n->id].row)
            return true;
    }
    return false;
}

/* x depends on the grid, and y does not; both run along the lanes. */
static bool
find_operands(Emit *e, Depthwise *d)
{
    const KNode *x = d->contract->contract.x, *y = d->contract->contract.y;
    bool first = depends_on_grid(e, x), second = depends_on_grid(e, y);
    if (first == second || !e->value_varying[x->id].lane ||
        !e->value_varying[y->id].lane)
        return false;
    d->x = first ? x : y;
    d->y = first ? y : x;
    return true;
}

static void
find_slices(Emit *e, Depthwise *d)
{
    d->of_x = be_slice_of(e, d->x, d->contract, d->loop);
    d->of_y = be_slice_of(e, d->y, d->contract, d->loop);
    d->epilogue = be_slice_of_stores(e, d->contract, d->loop);
}

static bool
is_const_size(const KVar *v)
{
    return ir_dim_is_const(v->extent) && v->extent.c >= 1;
}

/* ---- groups -------------------------------------------------------------- */

/* The number of the channel's group in x's slice, if there is one. */
static const KNode *
find_quotient(const Depthwise *d)
{
    for (const KNode *n = d->loop->loop.body.first; n; n = n->next) {
        if (n->kind == K_DIV && be_slice_contains(&d->of_x, n))
            return n;
    }
    return NULL;
}

/* Whether n is the channel divided by a power of two, so that lanes have whole
 * groups or are a part of one. */
static bool
divides_channel(const Depthwise *d, const KNode *n)
{
    const KIndex *of = &n->divide.of;
    return of->num_terms == 1 && of->terms[0].var == d->channel &&
           ir_dim_equal(of->terms[0].coef, ir_dim_const(1)) &&
           ir_dim_equal(of->base, ir_dim_const(0)) &&
           ir_dim_is_const(n->divide.by) &&
           !(n->divide.by.c & (n->divide.by.c - 1));
}

/* Whether x has the channel in b by its group alone. */
static bool
has_groups_alone(const Depthwise *d, const KBlock *b)
{
    for (KNode *n = b->first; n; n = n->next) {
        const KIndex *x = be_kernel_index(n);
        if (x && n != d->group && be_slice_contains(&d->of_x, n) &&
            !ir_dim_equal(be_index_coef(x, d->channel), ir_dim_const(0)))
            return false;
    }
    return true;
}

/* Whether v is an index of the group's channels: x depends on both as on one
 * number, group * width + v. */
static bool
is_within(const Emit *e, const Depthwise *d, const KVar *v)
{
    return is_const_size(v) && v->extent.c == d->width &&
           be_slice_stride(e, &d->of_x, d->contract, d->loop,
                           d->group->divide.var, v) == d->width;
}

/* Finds the groups, if there are any, and takes their index from that of the
 * contraction or of the grid, which are then those of a depthwise convolution.
 */
static bool
find_groups(Emit *e, Depthwise *d, KRanges *products, KRanges *grid)
{
    d->width = 1;
    d->group = find_quotient(d);
    if (!d->group)
        return true;
    if (!divides_channel(d, d->group) || !has_groups_alone(d, &e->k->body) ||
        !has_groups_alone(d, &d->loop->loop.body) ||
        !has_groups_alone(d, &d->contract->contract.body))
        return false;
    d->width = d->group->divide.by.c;
    KRanges *both[] = {products, grid};
    for (int i = 0; i < 2; i++) {
        const KVar *last = both[i]->vars[both[i]->count - 1];
        if (both[i]->count < 2 || !is_within(e, d, last))
            continue;
        d->within = last;
        d->of_weights = i == 1;
        both[i]->count--;
        return true;
    }
    return false;
}

/* ---- axes ---------------------------------------------------------------- */

static DepthwiseAxis
lone_axis(void)
{
    return (DepthwiseAxis){.windows = 1, .places = 1, .step = 1, .end = 1};
}

/* The axis along which x slides with both indices; place may be NULL. */
static bool
find_axis(const Emit *e, const Depthwise *d, const KVar *window,
          const KVar *place, DepthwiseAxis *out)
{
    if (!is_const_size(window) || (place && !is_const_size(place)))
        return false;
    *out = lone_axis();
    out->window = window;
    out->windows = window->extent.c;
    if (place) {
        out->place = place;
        out->places = place->extent.c;
        out->step =
            be_slice_stride(e, &d->of_x, d->contract, d->loop, window, place);
    }
    out->end = be_depthwise_reach(out, out->windows);
    return out->step > 0;
}

/* The axes of windows, the last of their ranges, that belong to the indices of
 * places, one or two. */
static bool
find_axes(const Emit *e, Depthwise *d, const KRanges *windows,
          const KRanges *places)
{
    int last = windows->count - 1, used = 1;
    const KVar *slow = places->vars[0], *fast = places->vars[places->count - 1];
    d->axes[0] = lone_axis();
    if (places->count < 1 || places->count > 2 || last < 0)
        return false;
    bool along = find_axis(e, d, windows->vars[last], fast, &d->axes[1]);
    if (places->count == 2 || !along) {
        used = 2;
        if (last < 1 ||
            !find_axis(e, d, windows->vars[last - 1], slow, &d->axes[0]))
            return false;
        if (!along &&
            (places->count == 2 ||
             !find_axis(e, d, windows->vars[last], NULL, &d->axes[1])))
            return false;
    }
    d->others = be_space_of(windows);
    d->others.count -= used;
    return be_depthwise_products(d) <=
               (d->group ? DEPTHWISE_MAX_PRODUCTS : MAX_PLACES) &&
           d->axes[1].windows >= FEW_WINDOWS;
}

/* ---- the parts of x that are there --------------------------------------- */

/* The axis of which a condition says whether a place is in x; -1: another
 * condition. */
static int
axis_of(const Depthwise *d, const KNode *n)
{
    for (int i = 0; i < 2; i++) {
        const DepthwiseAxis *a = &d->axes[i];
        const KVar *v = a->place ? a->place : a->window;
        if (v &&
            !ir_dim_equal(be_index_coef(&n->inside.index, v), ir_dim_const(0)))
            return i;
    }
    return -1;
}

bool
be_depthwise_limits(const Depthwise *d, const KNode *n)
{
    return n->kind == K_INSIDE && axis_of(d, n) >= 0;
}

/* Limits the places of an axis by a condition on them alone. */
static bool
limit_axis(DepthwiseAxis *a, const KNode *n)
{
    const KIndex *x = &n->inside.index;
    int known = 0;
    for (int i = 0; i < x->num_terms; i++)
        known += x->terms[i].var == a->place || x->terms[i].var == a->window;
    const KVar *v = a->place ? a->place : a->window;
    if (known != x->num_terms || !ir_dim_is_const(x->base) ||
        !ir_dim_is_const(n->inside.size) ||
        !ir_dim_equal(be_index_coef(x, v), ir_dim_const(1)))
        return false;
    int64_t first = -x->base.c, end = first + n->inside.size.c;
    a->first = first > a->first ? first : a->first;
    a->end = end < a->end ? end : a->end;
    return a->first <= a->end;
}

static bool
find_limits(Depthwise *d, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next) {
        if (n->kind != K_INSIDE || !be_slice_contains(&d->of_x, n))
            continue;
        int axis = axis_of(d, n);
        if (axis >= 0 && !limit_axis(&d->axes[axis], n))
            return false;
    }
    return true;
}

/* ---- the match ----------------------------------------------------------- */

static int64_t
count_points(const KRanges *r)
{
    int64_t count = 1;
    for (int i = 0; i < r->count; i++) {
        if (!is_const_size(r->vars[i]) ||
            __builtin_mul_overflow(count, r->vars[i]->extent.c, &count))
            return INT64_MAX;
    }
    return count;
}

/* Sums of all places and channels are kept in memory for an image. */
static bool
sums_fit(const Emit *e, const Depthwise *d)
{
    int64_t channels = be_dim_bound(e->k, d->channel->extent), bytes;
    int64_t each = 2 * be_depthwise_products(d) *
                   (int64_t)dtype_info[d->contract->dtype].bytes;
    return !__builtin_mul_overflow(channels, each, &bytes) && bytes <= MAX_SUMS;
}

/* x is packed for a row of windows at least. */
static bool
packed_fits(const Depthwise *d)
{
    const DepthwiseAxis *a = d->axes;
    int64_t group = d->width * (int64_t)dtype_info[d->contract->dtype].bytes;
    int64_t parts =
        group > DEPTHWISE_PART_BYTES ? group / DEPTHWISE_PART_BYTES : 1;
    int64_t bytes, each = a[0].places * parts * MOST_BYTES;
    return !__builtin_mul_overflow(be_depthwise_reach(&a[1], a[1].windows),
                                   each, &bytes) &&
           bytes <= MAX_PACKED;
}

bool
be_depthwise_match(Emit *e, Depthwise *d)
{
    *d = (Depthwise){0};
    KRanges grid = e->k->grid;
    if (!be_find_contraction(e->k, &d->contract, &d->loop) || !grid.count)
        return false;
    if (d->contract->contract.pairs ||
        be_kernel_contains(&e->k->body, K_REDUCE)) /* of windows side by side */
        return false;
    KRanges products = d->contract->contract.ranges;
    d->channel = d->loop->loop.ranges.vars[0];
    if (be_var_bound(e->k, d->channel) == 1 || !find_operands(e, d))
        return false;
    find_slices(e, d);
    if (!find_groups(e, d, &products, &grid))
        return false;
    if (!d->group)
        d->of_weights = count_points(&products) > MAX_PLACES;
    if (d->of_weights && count_points(&grid) > MAX_PLACES)
        return false;
    return find_axes(e, d, d->of_weights ? &products : &grid,
                     d->of_weights ? &grid : &products) &&
           find_limits(d, &e->k->body) && find_limits(d, &d->loop->loop.body) &&
           find_limits(d, &d->contract->contract.body) && packed_fits(d) &&
           (!d->of_weights || sums_fit(e, d));
}

/* Whether k is a conv_weights, of groups or (groups is not set) without. */
static bool
is_of_weights(const BeKernel *k, bool groups)
{
    Depthwise d;
    Arena *a = arena_new(NULL, "depthwise match");
    Emit e = be_emit_for_analysis(a, k);
    bool is =
        be_depthwise_match(&e, &d) && d.of_weights && (groups || !d.group);
    arena_release(a);
    return is;
}

bool
be_depthwise_is_of_weights(const BeKernel *k)
{
    return is_of_weights(k, true);
}

bool
be_depthwise_is_undivided(const BeKernel *k)
{
    return is_of_weights(k, false);
}
