/*
 * gen_conv.c - convolutions of values, in groups, dilated, strided, transposed
 *
 * A value of two or three dimensions is taken as a batch: the first dimension
 * counts its samples, the last one its channels, or there is one channel, and
 * those between are the axes that the windows move along.
 */
#include "tests/random/gen_impl.h"

enum { MOST_AXES = 2, MOST_ELEMENTS = 64 };

typedef struct Conv {
    int num_axes, sizes[MOST_AXES]; /* of x */
    int channels, groups, made;     /* made: by each group */
    bool transposed, same;
    int window, stride, dilation, low, high, more; /* along each axis */
} Conv;

/* From the first element of a window to behind its last one. */
static int
reach(const Conv *c)
{
    return c->dilation * (c->window - 1) + 1;
}

/* Elements of the result along an axis; below 1: the window does not fit. */
static int
result_size(const Conv *c, int n)
{
    int s = c->stride, pads = c->low + c->high;
    if (c->transposed)
        return c->same ? s * n : s * (n - 1) + reach(c) + c->more - pads;
    if (c->same)
        return (n + s - 1) / s;
    return n + pads < reach(c) ? 0 : (n + pads - reach(c)) / s + 1;
}

static void
choose(Gen *g, Conv *c)
{
    int groups[] = {1, c->channels, c->channels % 2 ? 1 : 2};
    c->groups = groups[gen_pick(g, 3)];
    c->made = 1 + gen_pick(g, 2);
    c->transposed = gen_chance(g, 35);
    c->same = gen_chance(g, 30);
    c->window = 1 + gen_pick(g, 3);
    c->stride = 1 + gen_pick(g, 2);
    c->dilation = 1 + gen_pick(g, 2);
    c->low = c->same ? 0 : gen_pick(g, 2);
    c->high = c->same ? 0 : gen_pick(g, 3);
    if (c->transposed && !c->same && c->stride > 1)
        c->more = gen_pick(g, 2);
}

/* The type of x as a batch; false where it has no axis to move along. */
static bool
read_batch(Gen *g, const GenType *t, Conv *c)
{
    bool has_channels = t->rank == 3 && gen_chance(g, 60);
    if (t->rank < 2)
        return false;
    c->num_axes = t->rank - 1 - has_channels;
    c->channels = has_channels ? t->dims[2] : 1;
    for (int i = 0; i < c->num_axes; i++)
        c->sizes[i] = t->dims[i + 1];
    return true;
}

/* The result's, in which the last axis and the channels are one. */
static bool
set_type(const Conv *c, GenType *t)
{
    int all = c->groups * c->made;
    t->rank = 1 + c->num_axes;
    for (int i = 0; i < c->num_axes; i++) {
        t->dims[i + 1] = result_size(c, c->sizes[i]);
        if (t->dims[i + 1] < 1)
            return false;
    }
    t->dims[c->num_axes] *= all;
    return gen_count(t) <= MOST_ELEMENTS;
}

static int
num_weights(const Conv *c)
{
    int n = c->channels * c->made;
    for (int i = 0; i < c->num_axes; i++)
        n *= c->window;
    return n;
}

/* Numbers that differ, by a scalar: reshape(sin(...), (2, 2, 1, 3)). */
static const char *
weights(Gen *g, const Conv *c, const GenValue *scale)
{
    const char *windows =
        gen_text(g, c->num_axes == 1 ? "%d" : "%d, %d", c->window, c->window);
    int in = c->channels / c->groups, out = c->made * c->groups;
    return gen_text(g,
                    "reshape(sin(iota((%d,), dtype = %s) + %s), (%s, %d, %d))",
                    num_weights(c), dtype_info[scale->type.dtype].name,
                    scale->name, windows, c->transposed ? c->made : in,
                    c->transposed ? c->channels : out);
}

static const char *
options(Gen *g, const Conv *c)
{
    const char *pads = c->same
                           ? "\"same\""
                           : gen_text(g,
                                      c->num_axes == 1 ? "((%d, %d),)"
                                                       : "((%d, %d), (%d, %d))",
                                      c->low, c->high, c->low, c->high);
    const char *more =
        c->more ? gen_text(g, ", output_padding = %d", c->more) : "";
    return gen_text(g,
                    "stride = %d, padding = %s, dilation = %d, groups = %d%s",
                    c->stride, pads, c->dilation, c->groups, more);
}

static const char *
batch(Gen *g, const Conv *c, const GenValue *x)
{
    if (x->type.rank == 2 + c->num_axes)
        return x->name;
    return gen_text(
        g, c->num_axes == 1 ? "%s[:, :, none]" : "%s[:, :, :, none]", x->name);
}

bool
gen_op_conv(Gen *g)
{
    Conv c = {0};
    GenValue x;
    if (!gen_find(g, gen_fits_float, NULL, &x) || !read_batch(g, &x.type, &c))
        return false;
    choose(g, &c);
    GenType t = x.type;
    if (!set_type(&c, &t))
        return false;
    x = gen_tame(g, x, 2);
    GenValue scale = gen_scalar_of(g, x.type.dtype, false);
    GenValue to = gen_joined(&x, &scale);
    to.type = t;
    to.size = 2 * num_weights(&c);
    gen_let(g, to, "reshape(conv%s%dd(%s, %s, %s), %s)",
            c.transposed ? "_transpose" : "", c.num_axes, batch(g, &c, &x),
            weights(g, &c, &scale), options(g, &c), gen_shape_text(g, &t));
    return true;
}
