/*
 * elsewhere.c - calls as NumPy, PyTorch and TensorFlow write them, as calls of
 * this language
 *
 * A call is taken apart into its arguments, the object of a method being the
 * first.  Most functions have the same ones under other names; each of those
 * that differ otherwise has a function here.  A call that means something else
 * here is worse than none, so what has no counterpart is said behind the call.
 */
#include "frontend/context/elsewhere.h"

#include "frontend/context/dispatch.h"
#include "frontend/context/hint.h"
#include "frontend/context/messages.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Arg {
    const char *name; /* or NULL */
    const char *text;
    bool is_read; /* a function has said what becomes of it */
} Arg;

typedef struct Call {
    const FeElsewhere *of;
    VEC(Arg) args;
} Call;

/* ---- texts --------------------------------------------------------------- */

/* How far it is to one of these characters, or the end, beyond brackets and
 * strings. */
static size_t
length_to(const char *text, const char *characters)
{
    int depth = 0;
    bool in_string = false;
    size_t n = 0;
    for (; text[n]; n++) {
        if (!depth && !in_string && strchr(characters, text[n]))
            break;
        in_string ^= text[n] == '"';
        if (!in_string && strchr("([{", text[n]))
            depth++;
        if (!in_string && strchr(")]}", text[n]))
            depth--;
    }
    return n;
}

const char *
fe_operand_text(Lower *cx, const char *text)
{
    return text[length_to(text, " +-*/%<>=!@")] ? fe_format(cx, "(%s)", text)
                                                : text;
}

static const char *
trimmed(Lower *cx, const char *text, size_t len)
{
    for (; len && *text == ' '; len--)
        text++;
    while (len && text[len - 1] == ' ')
        len--;
    return fe_format(cx, "%.*s", (int)len, text);
}

static bool
is_int(const char *text)
{
    text += *text == '-';
    return *text && strspn(text, "0123456789") == strlen(text);
}

/* A tuple or a list. */
static bool
is_nest(const char *text)
{
    size_t len = strlen(text);
    return len > 1 && strchr("([", text[0]) && strchr(")]", text[len - 1]);
}

/* "f32" of torch.float32, "true" of True; any other text as it is. */
static const char *
value_here(Lower *cx, const char *text)
{
    const char *point = strchr(text, '.'), *last = strrchr(text, '.');
    bool is_word = strcmp(text, "True") == 0 || strcmp(text, "False") == 0 ||
                   strcmp(text, "None") == 0;
    bool is_of_module =
        point &&
        fe_hint_is_module(fe_format(cx, "%.*s", (int)(point - text), text));
    const char *ours = is_of_module ? fe_hint_foreign(last + 1)
                       : is_word    ? fe_hint_foreign(text)
                                    : NULL;
    return ours ? ours : text;
}

/* ---- arguments ----------------------------------------------------------- */

static Arg
read_arg(Lower *cx, const char *text, size_t len)
{
    const char *whole = trimmed(cx, text, len);
    size_t n = length_to(whole, "=<>!");
    bool is_named = whole[n] == '=' && whole[n + 1] != '=';
    Arg arg = {.text = value_here(cx, whole)};
    if (is_named) {
        const char *value = whole + n + 1;
        arg.name = trimmed(cx, whole, n);
        arg.text = value_here(cx, trimmed(cx, value, strlen(value)));
    }
    return arg;
}

static Call
read_call(Lower *cx, const FeElsewhere *of)
{
    Call c = {.of = of};
    const char *text = of->args;
    if (of->object)
        VEC_PUSH(cx->arena, c.args, (Arg){.text = of->object});
    while (*text) {
        size_t len = length_to(text, ",");
        Arg arg = read_arg(cx, text, len);
        if (*arg.text)
            VEC_PUSH(cx->arena, c.args, arg);
        text += len + (text[len] == ',');
    }
    return c;
}

/* The argument at that place, or of one of the names ("dim axis"); NULL without
 * one. */
static const char *
take(Lower *cx, Call *c, int place, const char *names)
{
    for (int i = 0; i < c->args.len; i++) {
        Arg *arg = &c->args.data[i];
        const char *name = arg->name ? fe_format(cx, " %s ", arg->name) : NULL;
        bool is_it = name ? strstr(fe_format(cx, " %s ", names), name) != NULL
                          : i == place;
        if (!is_it || arg->is_read)
            continue;
        arg->is_read = true;
        return arg->text;
    }
    return NULL;
}

/* Methods are most often PyTorch's. */
static bool
is_of_torch(const Call *c)
{
    const char *module = c->of->module;
    return !module || strcmp(module, "torch") == 0 ||
           strcmp(module, "F") == 0 || strcmp(module, "dist") == 0;
}

static const char *
take_first(Lower *cx, Call *c)
{
    const char *x = take(cx, c, 0, "x input a arr t tensor values params");
    return x ? x : "x";
}

static const char axis_names[] = "axis dim dims axes";
static const char keep_names[] = "keepdims keepdim keep_dims";

/* ", axis = 1, keepdims = true" of what stands from that place on. */
static const char *
take_axis(Lower *cx, Call *c, int place)
{
    const char *axis = take(cx, c, place, axis_names);
    const char *keep = take(cx, c, place + 1, keep_names);
    return fe_format(cx, "%s%s%s%s", axis ? ", axis = " : "", axis ? axis : "",
                     keep ? ", keepdims = " : "", keep ? keep : "");
}

/* A call, and the arguments that nothing was made of. */
static const char *
whole_call(Lower *cx, const Call *c, const char *text)
{
    Str s = str_new(cx->arena);
    int n = 0;
    for (int i = 0; i < c->args.len; i++) {
        const Arg *arg = &c->args.data[i];
        if (arg->is_read)
            continue;
        str_add(&s, n++ ? ", " : ", which has nothing for ");
        str_addf(&s, "%s%s%s", arg->name ? arg->name : "",
                 arg->name ? " = " : "", arg->text);
    }
    return fe_format(cx, "%s%s", text, str_text(&s));
}

/* ---- the same arguments under other names -------------------------------- */

/* Whether "x, axis = none" has a parameter of that name. */
static bool
has_parameter(const char *params, const char *name)
{
    size_t len = strlen(name);
    while (*params) {
        params += strspn(params, " ,");
        if (strncmp(params, name, len) == 0 &&
            (!params[len] || strchr(" ,=", params[len])))
            return true;
        params += length_to(params, ",");
    }
    return false;
}

/* The name that an argument has in params, or NULL. */
static const char *
name_in(const char *params, const char *theirs)
{
    const char *ours = fe_hint_argument(theirs);
    if (has_parameter(params, theirs))
        return theirs;
    return ours && has_parameter(params, ours) ? ours : NULL;
}

/* Of a function that takes what the other one does. */
static const char *
same_call(Lower *cx, Call *c, const char *ours, const char *params)
{
    Str s = str_new(cx->arena);
    for (int i = 0; i < c->args.len; i++) {
        Arg *arg = &c->args.data[i];
        const char *name = arg->name ? name_in(params, arg->name) : NULL;
        if (arg->name && !name && i)
            continue;
        arg->is_read = true;
        str_add(&s, s.len ? ", " : "");
        str_addf(&s, "%s%s%s", name ? name : "", name ? " = " : "", arg->text);
    }
    return whole_call(cx, c, fe_format(cx, "%s(%s)", ours, str_text(&s)));
}

/* ---- reductions ---------------------------------------------------------- */

/* max(x, 1): elsewhere 1 is an axis; of two tensors it is the greater. */
static const char *
extremum(Lower *cx, Call *c)
{
    const char *ours = strstr(c->of->name, "max") ? "max" : "min";
    bool is_long = strcmp(c->of->name, ours) != 0;
    bool has_second = c->args.len > 1 && !c->args.data[1].name;
    const char *second = has_second ? c->args.data[1].text : "";
    bool is_axis =
        is_long || !is_of_torch(c) || is_int(second) || is_nest(second);
    if (has_second && !is_axis)
        return same_call(cx, c, ours, "x, y, axis, keepdims");
    const char *x = take_first(cx, c);
    return whole_call(cx, c,
                      fe_format(cx, "%s(%s%s)", ours, x, take_axis(cx, c, 1)));
}

/* Of how many elements less one the mean is: ", ddof = 1". */
static const char *
take_ddof(Lower *cx, Call *c)
{
    const char *unbiased = take(cx, c, -1, "unbiased");
    const char *ddof = take(cx, c, -1, "ddof correction");
    if (!ddof && (unbiased || (c->of->module && is_of_torch(c))))
        ddof = unbiased && strcmp(unbiased, "false") == 0 ? "0" : "1";
    return ddof ? fe_format(cx, ", ddof = %s", ddof) : "";
}

static const char *
spread(Lower *cx, Call *c)
{
    const char *power = strstr(c->of->name, "var") ? " ** 2" : "";
    const char *x = take_first(cx, c), *axis = take_axis(cx, c, 1);
    const char *ddof = take_ddof(cx, c);
    const char *text =
        whole_call(cx, c, fe_format(cx, "std(%s%s%s)%s", x, axis, ddof, power));
    return c->of->object && !*ddof
               ? fe_format(cx, "%s, or std(%s%s, ddof = 1)%s as PyTorch has it",
                           text, x, axis, power)
               : text;
}

/* The order of a norm stands before its axis. */
static const char *
norm(Lower *cx, Call *c)
{
    const char *x = take_first(cx, c), *order = take(cx, c, 1, "p ord");
    const char *axis = take_axis(cx, c, 2);
    bool is_two = !order || strcmp(order, "2") == 0 ||
                  strcmp(order, "2.0") == 0 || strcmp(order, "none") == 0;
    return whole_call(
        cx, c,
        fe_format(cx, "norm(%s%s)%s", x, axis,
                  is_two ? "" : ", which is the one of order 2 alone"));
}

/* ---- axes ---------------------------------------------------------------- */

static const char *
new_axis(Lower *cx, Call *c)
{
    const char *x = take_first(cx, c), *axis = take(cx, c, 1, axis_names);
    return whole_call(cx, c,
                      fe_format(cx, "expand(%s, %s)", x, axis ? axis : "axis"));
}

/* The numbers of all axes, those two exchanged. */
static const char *
exchanged(Lower *cx, int rank, int a, int b)
{
    Str s = str_new(cx->arena);
    for (int i = 0; i < rank; i++)
        str_addf(&s, "%s%d", i ? ", " : "", i == a ? b : i == b ? a : i);
    return str_text(&s);
}

/* The axis that text is of so many, from 0; -1: none. */
static int
axis_number(const char *text, int rank)
{
    if (!is_int(text))
        return -1;
    long n = strtol(text, NULL, 10);
    n = n < 0 ? n + rank : n;
    return n >= 0 && n < rank ? (int)n : -1;
}

/* x.transpose(1, 2) of PyTorch exchanges two axes; here, as in NumPy, all are
 * named. */
static const char *
exchange(Lower *cx, Call *c, const char *x, const char *first,
         const char *second)
{
    int rank = c->of->rank;
    int a = axis_number(first, rank), b = axis_number(second, rank);
    if (a < 0 || b < 0)
        return fe_format(cx,
                         "transpose(%s, axes), where axes are the numbers of "
                         "all axes, with %s and %s exchanged",
                         x, first, second);
    return rank == 2 && a != b ? fe_format(cx, "transpose(%s)", x)
                               : fe_format(cx, "transpose(%s, (%s))", x,
                                           exchanged(cx, rank, a, b));
}

/* The arguments from that place on, as one tuple; one that is not a number may
 * be a tuple.  NULL without them. */
static const char *
take_tuple(Lower *cx, Call *c, int place)
{
    Str s = str_new(cx->arena);
    int n = 0;
    for (; place < c->args.len && !c->args.data[place].name; place++, n++) {
        c->args.data[place].is_read = true;
        str_addf(&s, "%s%s", n ? ", " : "", c->args.data[place].text);
    }
    if (n == 1 && is_int(str_text(&s)))
        return fe_format(cx, "(%s,)", str_text(&s));
    return n > 1 ? fe_format(cx, "(%s)", str_text(&s))
           : n   ? str_text(&s)
                 : NULL;
}

static const char *
transpose(Lower *cx, Call *c)
{
    const char *x = take_first(cx, c);
    const char *first = take(cx, c, 1, "dim0 axis1");
    const char *second = take(cx, c, 2, "dim1 axis2");
    bool is_whole = strcmp(c->of->name, "permute") == 0;
    if (first && second && !is_whole && c->args.len == 3)
        return exchange(cx, c, x, first, second);
    const char *axes = take(cx, c, -1, "axes perm dims");
    axes = axes ? axes : take_tuple(cx, c, 1);
    return whole_call(cx, c,
                      axes ? fe_format(cx, "transpose(%s, %s)", x, axes)
                           : fe_format(cx, "transpose(%s)", x));
}

static const char *
reshape(Lower *cx, Call *c)
{
    const char *x = take_first(cx, c);
    const char *shape = take(cx, c, -1, "shape newshape");
    const char *rest = shape ? shape : take_tuple(cx, c, 1);
    return whole_call(
        cx, c, fe_format(cx, "reshape(%s, %s)", x, rest ? rest : "shape"));
}

/* flatten(nest) of this language is of nests. */
static const char *
flat(Lower *cx, Call *c)
{
    const char *x = take_first(cx, c);
    const char *from = take(cx, c, 1, "start_dim");
    if (!from || strcmp(from, "0") == 0)
        return whole_call(cx, c, fe_format(cx, "reshape(%s, (-1,))", x));
    if (strcmp(from, "1") == 0)
        return whole_call(cx, c,
                          fe_format(cx, "reshape(%s, (len(%s), -1))", x, x));
    return fe_format(cx, "reshape(%s, shape)", x);
}

/* ---- parts --------------------------------------------------------------- */

/* A number is of parts, and of PyTorch their size; a list has sizes, and of
 * NumPy the places of the cuts. */
static const char *
split(Lower *cx, Call *c)
{
    const char *x = take_first(cx, c);
    const char *parts = take(cx, c, 1,
                             "parts split_size_or_sections split_size "
                             "indices_or_sections num_or_size_splits");
    const char *axis = take(cx, c, 2, axis_names);
    bool is_list = parts && is_nest(parts), is_torch = is_of_torch(c);
    bool is_tf = c->of->module && strcmp(c->of->module, "tf") == 0;
    bool is_same = parts && (is_torch ? is_list : !is_list || is_tf);
    const char *text =
        fe_format(cx, "split(%s, %s%s%s)", x, is_same ? parts : "parts",
                  axis ? ", axis = " : "", axis ? axis : "");
    return whole_call(
        cx, c,
        is_same   ? text
        : is_list ? fe_format(cx, "%s, where parts are a list of sizes", text)
        : parts   ? fe_format(cx,
                              "%s, where parts is how many there are: %s is "
                                "the size of each in PyTorch",
                              text, parts)
                : fe_format(cx, "%s, where parts is how many there are", text));
}

static const char *
bounded(Lower *cx, Call *c)
{
    const char *x = take_first(cx, c);
    const char *low = take(cx, c, 1, "low min a_min clip_value_min");
    const char *high = take(cx, c, 2, "high max a_max clip_value_max");
    bool has_low = low && strcmp(low, "none") != 0;
    bool has_high = high && strcmp(high, "none") != 0;
    const char *text = has_low && has_high
                           ? fe_format(cx, "clip(%s, %s, %s)", x, low, high)
                       : has_low  ? fe_format(cx, "max(%s, %s)", x, low)
                       : has_high ? fe_format(cx, "min(%s, %s)", x, high)
                                  : fe_format(cx, "clip(%s, low, high)", x);
    return whole_call(cx, c, text);
}

/* gather(x, axis) of this language is of replicas. */
static const char *
gather(Lower *cx, Call *c)
{
    const char *x = take_first(cx, c);
    if (is_of_torch(c)) {
        const char *axis = take(cx, c, 1, axis_names);
        const char *index = take(cx, c, 2, "index");
        return whole_call(cx, c,
                          fe_format(cx, "take_along_axis(%s, %s, axis = %s)", x,
                                    index ? index : "indices",
                                    axis ? axis : "axis"));
    }
    const char *index = take(cx, c, 1, "indices");
    const char *axis = take(cx, c, -1, axis_names);
    return whole_call(cx, c,
                      fe_format(cx, "take(%s, %s%s%s)", x,
                                index ? index : "indices",
                                axis ? ", axis = " : "", axis ? axis : ""));
}

/* ---- other orders of arguments ------------------------------------------- */

/* The pairs of all axes, of those of the last ones, which begin with the last;
 * NULL of anything else. */
static const char *
pairs_of_all(Lower *cx, const char *given, int rank)
{
    bool is_text = given && is_nest(given) && rank > 0;
    FeElsewhere inner = {.args = ""};
    if (is_text)
        inner.args = trimmed(cx, given + 1, strlen(given) - 2);
    Call numbers = read_call(cx, &inner);
    int n = numbers.args.len;
    if (!n || n % 2 || n / 2 > rank)
        return NULL;
    Str s = str_new(cx->arena);
    for (int i = 0, at = 2 * (rank - 1); i < rank; i++, at -= 2)
        str_addf(&s, "%s(%s, %s)", i ? ", " : "",
                 at < n ? numbers.args.data[at].text : "0",
                 at < n ? numbers.args.data[at + 1].text : "0");
    return fe_format(cx, rank == 1 ? "(%s,)" : "(%s)", str_text(&s));
}

/* Ours with a pair for each of three axes or more, which belong in a tuple.
 * F.pad(x, (1, 2)) is of the last axis, F.pad(x, (1, 2, 3, 4)) of the last and
 * the one before it. */
static const char *
pad(Lower *cx, Call *c)
{
    const FeElsewhere *of = c->of;
    if (!of->module && !of->object && c->args.len > 3) {
        const char *x = take_first(cx, c), *each = take_tuple(cx, c, 1);
        return c->args.len != of->rank + 1
                   ? NULL
                   : fe_format(cx, "pad(%s, %s)", x, each);
    }
    if (!is_of_torch(c))
        return same_call(cx, c, "pad", "x, low, high");
    const char *x = take_first(cx, c), *given = take(cx, c, 1, "pad");
    const char *pairs = pairs_of_all(cx, given, c->of->rank);
    return whole_call(
        cx, c,
        pairs ? fe_format(cx, "pad(%s, %s)", x, pairs)
              : fe_format(cx,
                          "pad(%s, pairs), where pairs has (before, after) of "
                          "each axis, the first one first",
                          x));
}

/* zeros(3, 4), and of random numbers randn(3, 4) and rand(3, 4). */
static const char *
filled(Lower *cx, Call *c)
{
    bool is_rand = strcmp(c->of->name, "rand") == 0;
    const char *shape = take(cx, c, -1, "shape size");
    const char *sizes = shape ? shape : take_tuple(cx, c, 0);
    const char *dtype = take(cx, c, -1, "dtype");
    return whole_call(cx, c,
                      fe_format(cx, "%s(%s%s%s)",
                                is_rand ? "uniform" : c->of->name,
                                sizes ? sizes : "shape",
                                dtype ? ", dtype = " : "", dtype ? dtype : ""));
}

/* normal(0.0, 1.0, (3, 4)) of NumPy has the shape last, as PyTorch's has. */
static const char *
drawn(Lower *cx, Call *c)
{
    bool has_key =
        c->args.len && c->of->module && strcmp(c->of->module, "jax") == 0;
    if (has_key) {
        c->args.data++;
        c->args.len--;
    }
    bool is_normal = strcmp(c->of->name, "normal") == 0;
    bool is_last = c->args.len > 1 && !c->args.data[0].name &&
                   !c->args.data[1].name && !is_nest(c->args.data[0].text) &&
                   !is_nest(c->args.data[1].text);
    if (!is_last)
        return same_call(cx, c, c->of->name,
                         is_normal ? "shape, mean, stddev, dtype, seed"
                                   : "shape, low, high, dtype, seed");
    const char *a = take(cx, c, 0, ""), *b = take(cx, c, 1, "");
    const char *shape = take(cx, c, 2, "size shape");
    return whole_call(cx, c,
                      fe_format(cx, "%s(%s%s%s = %s, %s = %s)", c->of->name,
                                shape ? shape : "", shape ? ", " : "",
                                is_normal ? "mean" : "low", a,
                                is_normal ? "stddev" : "high", b));
}

/* Its first argument is a probability. */
static const char *
binary_loss(Lower *cx, Call *c)
{
    const char *p = take(cx, c, 0, "input"), *y = take(cx, c, 1, "target");
    return whole_call(
        cx, c,
        fe_format(cx, "binary_cross_entropy(%s, %s, from_logits = false)",
                  p ? p : "p", y ? y : "labels"));
}

/* log(x, base). */
static const char *
logarithm(Lower *cx, Call *c)
{
    const char *x = take_first(cx, c), *base = take(cx, c, 1, "base");
    return whole_call(cx, c,
                      base ? fe_format(cx, "log(%s) / log(%s)", x, base)
                           : fe_format(cx, "log(%s)", x));
}

/* ---- other meanings of a name ------------------------------------------- */

/* np.save("w", w), torch.save(w, "w"), torch.save(model.state_dict(), "w"). */
static const char *
saved(Lower *cx, Call *c)
{
    bool is_torch = is_of_torch(c);
    const char *value = take(cx, c, is_torch ? 0 : 1, "obj arr");
    const char *path = take(cx, c, is_torch ? 1 : 0, "f file");
    bool is_all = !value || strstr(value, "state_dict") != NULL;
    path = path ? path : "path";
    return whole_call(cx, c,
                      is_all ? fe_format(cx, "save(%s)", path)
                             : fe_format(cx, "save(%s, [%s])", path, value));
}

/* expand(x, axis) of this language makes a new axis. */
static const char *
spread_out(Lower *cx, Call *c)
{
    const char *x = take_first(cx, c), *shape = take_tuple(cx, c, 1);
    const char *sum = fe_format(cx, "%s + zeros(%s)", fe_operand_text(cx, x),
                                shape && !strchr(shape, '-') ? shape : "shape");
    return fe_format(cx, "%s, or %s alone beside what has that shape",
                     whole_call(cx, c, sum), x);
}

/* x[:, 1:] of the elements "1:" along axis 1. */
static const char *
part_along(Lower *cx, const char *x, int axis, const char *elements)
{
    Str s = str_new(cx->arena);
    for (int i = 0; i < axis; i++)
        str_add(&s, ":, ");
    return fe_format(cx, "%s[%s%s]", x, str_text(&s), elements);
}

static const char *
rolled(Lower *cx, Call *c)
{
    const char *x = fe_operand_text(cx, take_first(cx, c));
    const char *by = take(cx, c, 1, "shift shifts");
    const char *given = take(cx, c, 2, axis_names);
    int rank = c->of->rank > 0 ? c->of->rank : IR_MAX_RANK;
    int axis = given ? axis_number(given, rank) : 0;
    bool is_negative = by && *by == '-' && is_int(by);
    const char *n = !by ? "n" : fe_operand_text(cx, by + is_negative);
    const char *minus = is_negative ? "" : "-";
    if (axis < 0 || (given && *given == '-' && c->of->rank < 1))
        return fe_format(cx, "concat([the last %s, the others], axis = %s)", n,
                         given);
    const char *last =
        part_along(cx, x, axis, fe_format(cx, "%s%s:", minus, n));
    const char *others =
        part_along(cx, x, axis, fe_format(cx, ":%s%s", minus, n));
    return whole_call(
        cx, c,
        axis ? fe_format(cx, "concat([%s, %s], axis = %d)", last, others, axis)
             : fe_format(cx, "concat([%s, %s])", last, others));
}

/* jax.grad(f) is a function, whose argument stands behind it. */
static const char *
gradient(Lower *cx, Call *c)
{
    bool is_jax = c->of->module && strcmp(c->of->module, "jax") == 0;
    const char *f = is_jax ? take(cx, c, 0, "fun") : NULL;
    return f ? fe_format(cx, "grad(%s(x), x), of the loss that it gives", f)
             : same_call(cx, c, "grad", "loss, wrt");
}

/* dist.all_reduce(x, op = dist.ReduceOp.SUM), jax.lax.psum(x, "batch"). */
static const char *
reduced(Lower *cx, Call *c)
{
    static const char *const ops[] = {"mean", "max", "min"};
    const char *x = take_first(cx, c), *given = take(cx, c, 1, "op reduce_op");
    const char *of = c->of->name, *op = "sum";
    if (*of != 'p') /* pmean has its operation in its name */
        of = given ? given : "sum";
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcasestr(of, ops[i]))
            op = ops[i];
    if (strcasestr(of, "avg"))
        op = "mean";
    take(cx, c, -1, "axis_name");
    return whole_call(cx, c, fe_format(cx, "all_reduce(%s, %s)", op, x));
}

/* range(9, -1, -1) of a loop, or of a dataset outside of functions: a range
 * here goes up by 1. */
static const char *
counted(Lower *cx, Call *c)
{
    const char *from = take(cx, c, 0, "start"), *to = take(cx, c, 1, "stop");
    const char *by = take(cx, c, 2, "step");
    if (!from || !to || !by)
        return NULL;
    double first = strtod(from, NULL), last = strtod(to, NULL);
    double step = strtod(by, NULL);
    bool is_known = is_int(from) && is_int(to) && is_int(by) && step != 0;
    double turns = is_known ? fmax(ceil((last - first) / step), 0) : -1;
    const char *n = turns < 0 ? "n" : fe_format(cx, "%.0f", turns);
    const char *steps = strcmp(by, "-1") == 0 ? "- i"
                        : *by == '-' ? fe_format(cx, "- %s * i", by + 1)
                                     : fe_format(cx, "+ %s * i", by);
    bool from_zero = strcmp(from, "0") == 0 && *steps == '+';
    const char *i =
        from_zero ? steps + strlen("+ ") : fe_format(cx, "%s %s", from, steps);
    if (cx->context == FE_TOP)
        return fe_format(cx, "range(%s).map(fn(i) = %s)", n, i);
    return fe_format(cx, "0..%s in the for, and %s in place of i", n, i);
}

/* tf.cast(x, tf.float16), x.astype(np.float16). */
static const char *
cast(Lower *cx, Call *c)
{
    DType t;
    const char *x = take_first(cx, c), *dtype = take(cx, c, 1, "dtype");
    if (!dtype || !dtype_by_name(dtype, &t))
        return NULL;
    return whole_call(cx, c, fe_format(cx, "%s(%s)", dtype_info[t].name, x));
}

/* float("inf"). */
static const char *
number(Lower *cx, Call *c)
{
    const char *x = take(cx, c, 0, "");
    if (x && *x == '"')
        return strstr(x, "-inf")  ? "-1.0 / 0.0"
               : strstr(x, "inf") ? "1.0 / 0.0"
               : strstr(x, "nan") ? "0.0 / 0.0"
                                  : NULL;
    return x ? whole_call(cx, c, fe_format(cx, "f32(%s)", x)) : NULL;
}

/* recompute(f, x, y), where f takes nothing here. */
static const char *
recomputed(Lower *cx, Call *c)
{
    const char *f = take(cx, c, 0, "function f");
    const char *x = take(cx, c, 1, ""), *y = take(cx, c, 2, "");
    if (!f || !x || strchr(f, ' ') || c->args.len > 3)
        return NULL;
    return y ? fe_format(cx, "recompute(fn() = %s(%s, %s))", f, x, y)
             : fe_format(cx, "recompute(fn() = %s(%s))", f, x);
}

/* ---- calls --------------------------------------------------------------- */

/* clang-format off */
static const struct {
    const char *theirs;
    const char *(*here)(Lower *cx, Call *c);
} others[] = {
    {"max", extremum}, {"amax", extremum}, {"reduce_max", extremum},
    {"min", extremum}, {"amin", extremum}, {"reduce_min", extremum},
    {"std", spread}, {"reduce_std", spread},
    {"var", spread}, {"reduce_variance", spread},
    {"norm", norm},
    {"unsqueeze", new_axis}, {"expand_dims", new_axis},
    {"transpose", transpose}, {"swapaxes", transpose}, {"permute", transpose},
    {"reshape", reshape}, {"flatten", flat}, {"ravel", flat},
    {"split", split}, {"gather", gather}, {"pad", pad},
    {"clip", bounded}, {"clamp", bounded}, {"clip_by_value", bounded},
    {"zeros", filled}, {"ones", filled}, {"randn", filled}, {"rand", filled},
    {"normal", drawn}, {"uniform", drawn}, {"log", logarithm},
    {"binary_cross_entropy", binary_loss},
    {"save", saved}, {"expand", spread_out}, {"roll", rolled}, {"grad", gradient},
    {"all_reduce", reduced}, {"psum", reduced}, {"pmean", reduced},
    {"pmax", reduced}, {"pmin", reduced},
    {"cast", cast}, {"astype", cast}, {"float", number},
    {"range", counted}, {"recompute", recomputed},
};
/* clang-format on */

const char *
fe_other_call_here(Lower *cx, const FeElsewhere *call)
{
    Call c = read_call(cx, call);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].theirs, call->name) == 0)
            return others[i].here(cx, &c);
    return NULL;
}

const char *
fe_call_here(Lower *cx, const FeElsewhere *call)
{
    const char *other = fe_other_call_here(cx, call), *ours = call->name;
    const FeBuiltin *b = fe_builtin_find(ours);
    if (other)
        return other;
    if (!b && !fe_hint_library(ours) && fe_hint_foreign(ours)) {
        ours = fe_hint_foreign(ours);
        b = fe_builtin_find(ours);
    }
    const char *params =
        b ? fe_builtin_params(b) : fe_hint_parameters(cx->arena, ours);
    Call c = read_call(cx, call);
    return params ? same_call(cx, &c, ours, params) : NULL;
}
