/*
 * windows.c - windows over values, from the arguments of a call
 */
#include "frontend/builtins/windows.h"
#include "frontend/context/dispatch.h"
#include "frontend/context/messages.h"
#include "frontend/emit/require_const.h"
#include "ir/type_text.h"

#include <string.h>
#include <strings.h>

const char *
fe_windows_axes(int num_axes)
{
    static const char *const axes[] = {"width", "height, width",
                                       "depth, height, width"};
    return axes[num_axes - 1];
}

FeWindows
fe_windows(const FeArgs *in)
{
    const char *name = fe_builtin_name(in->builtin);
    FeWindows w = {.in = {.groups = 1}};
    w.in.num_axes = name[strlen(name) - 2] - '0';
    for (int k = 0; k < w.in.num_axes; k++)
        w.in.step[k] = w.in.dilation[k] = 1;
    return w;
}

/* ---- numbers ------------------------------------------------------------- */

static bool
read_number(Lower *cx, FeValue *v, const char *what, Loc loc, int64_t least,
            int64_t *out)
{
    if (!fe_require_int(cx, v, what, loc, out))
        return false;
    if (*out >= least && *out <= INT32_MAX)
        return true;
    fe_error(cx, loc, "%s is a number from %lld to 2^31 - 1, not %lld", what,
             (long long)least, (long long)*out);
    return false;
}

bool
fe_windows_read(Lower *cx, const FeArgs *in, int i, const char *what,
                int num_axes, int64_t least, int64_t *out)
{
    FeValue *v = fe_arg(in, i);
    Loc loc = fe_arg_loc(in, i);
    if (!v)
        return true;
    bool each = v->kind == FE_NEST;
    if (each && v->nest.len != num_axes) {
        fe_error_note(
            cx, loc, fe_format(cx, "of %s", fe_windows_axes(num_axes)),
            "%s is one number or %d, not %d", what, num_axes, v->nest.len);
        return false;
    }
    for (int k = 0; k < num_axes; k++) {
        if (!read_number(cx, each ? v->nest.items[k] : v, what, loc, least,
                         &out[k]))
            return false;
    }
    return true;
}

/* ---- padding ------------------------------------------------------------- */

/* Of a layer, the word stands where the program's author gave it. */
static void
refuse_word(Lower *cx, const char *word, Loc loc)
{
    const AstNode *written = fe_written_name(cx, "padding");
    FeOwn own =
        written ? (FeOwn){written->loc, NULL, written} : fe_own_at(cx, loc);
    const char *ours = strcasecmp(word, "same") == 0    ? "same"
                       : strcasecmp(word, "valid") == 0 ? "valid"
                                                        : NULL;
    fe_error_own(cx, &own, NO_LOC,
                 ours ? fe_format(cx, "write \"%s\"", ours) : NULL,
                 "padding is \"same\", \"valid\" or numbers of places");
}

static bool
read_word(Lower *cx, FeValue *v, Loc loc, FePadding *out)
{
    const char *word;
    if (!fe_require_text(cx, v, "padding", loc, &word))
        return false;
    out->same = strcmp(word, "same") == 0;
    if (!out->same && strcmp(word, "valid") != 0) {
        refuse_word(cx, word, loc);
        return false;
    }
    return true;
}

/* Before and after an axis: one number for both, or a pair. */
static bool
read_sides(Lower *cx, FeValue *v, Loc loc, int64_t *before, int64_t *after)
{
    bool pair = v->kind == FE_NEST;
    if (pair && v->nest.len != 2) {
        fe_error(cx, loc,
                 "the padding of an axis is a number, or (before, "
                 "after)");
        return false;
    }
    return read_number(cx, pair ? v->nest.items[0] : v, "padding", loc, 0,
                       before) &&
           read_number(cx, pair ? v->nest.items[1] : v, "padding", loc, 0,
                       after);
}

/* What is written of so many axes instead: a pair for one of them is in a
 * tuple. */
static const char *
axes_note(Lower *cx, const FeArgs *in, int i, int num_axes)
{
    const AstNode *given = fe_written_name(cx, "padding");
    const char *text =
        given ? fe_ast_text(cx->arena, given) : fe_arg_text(cx, in, i);
    if (num_axes == 1 && fe_arg(in, i)->nest.len == 2)
        return fe_format(cx,
                         "write (%s,): a tuple with (before, after) for each "
                         "axis",
                         text);
    return fe_format(cx, "of %s: a number, or (before, after)",
                     fe_windows_axes(num_axes));
}

bool
fe_windows_read_padding(Lower *cx, const FeArgs *in, int i, int num_axes,
                        FePadding *out)
{
    FeValue *v = fe_arg(in, i);
    Loc loc = fe_arg_loc(in, i);
    if (!v)
        return true;
    if (v->kind == FE_STRING)
        return read_word(cx, v, loc, out);
    bool each = v->kind == FE_NEST;
    if (each && v->nest.len != num_axes) {
        fe_error_note(cx, loc, axes_note(cx, in, i, num_axes),
                      "padding for %d axes, not %d", num_axes, v->nest.len);
        return false;
    }
    for (int k = 0; k < num_axes; k++) {
        if (!read_sides(cx, each ? v->nest.items[k] : v, loc, &out->before[k],
                        &out->after[k]))
            return false;
    }
    return true;
}

/* ---- places -------------------------------------------------------------- */

bool
fe_windows_read_image(Lower *cx, const FeArgs *in, const IrValue *x,
                      FeWindows *w)
{
    const Dim *dims = x->type.dims;
    int n = w->in.num_axes;
    bool good = x->type.rank == n + 2;
    for (int k = 0; good && k < n; k++) {
        good = ir_dim_is_const(dims[k + 1]);
        w->image[k] = dims[k + 1].c;
    }
    if (!good)
        fe_error(cx, fe_arg_loc(in, 0),
                 "%s takes a value of shape [rows, %s, channels], not %s",
                 in->name, fe_windows_axes(n),
                 ir_dims_text(cx->module, x->type.rank, dims));
    return good;
}

int64_t
fe_window_reach(const FeWindows *w, int axis)
{
    return (w->size[axis] - 1) * w->in.dilation[axis] + 1;
}

static void
place_axis(FeWindows *w, int k)
{
    int64_t size = w->image[k], stride = w->in.step[k];
    int64_t before = w->padding.before[k], after = w->padding.after[k];
    int64_t over = size + before + after - fe_window_reach(w, k);
    w->in.low[k] = before;
    w->count[k] = over < 0 ? 0 : over / stride + 1;
    w->padded = w->padded || before || after;
    if (!w->padding.same)
        return;
    w->count[k] = (size + stride - 1) / stride;
    int64_t outside = (w->count[k] - 1) * stride + fe_window_reach(w, k) - size;
    w->in.low[k] = outside > 0 ? outside / 2 : 0;
    w->padded = w->padded || outside > 0;
}

/* "3 by 3": the elements that a window reaches over. */
static const char *
reach_text(Lower *cx, const FeWindows *w)
{
    const char *text = "";
    for (int k = 0; k < w->in.num_axes; k++)
        text = fe_format(cx, "%s%s%lld", text, k ? " by " : "",
                         (long long)fe_window_reach(w, k));
    return text;
}

bool
fe_windows_place(Lower *cx, const FeArgs *in, const IrValue *x, FeWindows *w)
{
    for (int k = 0; k < w->in.num_axes; k++) {
        place_axis(w, k);
        if (w->count[k] > 0)
            continue;
        fe_error_note(cx, in->loc,
                      "padding = \"same\" gives a window for each element",
                      "a window of %s does not fit in %s", reach_text(cx, w),
                      ir_dims_text(cx->module, x->type.rank, x->type.dims));
        return false;
    }
    return true;
}
