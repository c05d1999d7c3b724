/*
 * gen_ops.c - values computed from values
 *
 * Numbers stay tame: a value carries a bound of its elements, and what grows
 * goes through sin.  Where results may not depend on the number of replicas, a
 * value that was rounded in another order (fuzzy) decides nothing.
 */
#include "tests/random/gen_impl.h"

#include <string.h>

/* ---- operands ----------------------------------------------------------- */

/* Whether one can compute with v here. */
static bool
is_computable(const Gen *g, const GenValue *v)
{
    return v->who == SAME || (g->context == IN_STEP && v->who != PART);
}

static bool
fits_any(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    return is_computable(g, v);
}

static bool
fits_float(Gen *g, const GenValue *v, const void *unused)
{
    return fits_any(g, v, unused) && gen_is_float(v->type.dtype);
}

static bool
fits_int(Gen *g, const GenValue *v, const void *unused)
{
    return fits_any(g, v, unused) && gen_is_int(v->type.dtype);
}

static bool
fits_bool(Gen *g, const GenValue *v, const void *unused)
{
    return fits_any(g, v, unused) && v->type.dtype == DT_bool;
}

static bool
fits_tensor(Gen *g, const GenValue *v, const void *unused)
{
    return fits_any(g, v, unused) && v->type.rank > 0;
}

static bool
fits_matrix(Gen *g, const GenValue *v, const void *unused)
{
    return fits_any(g, v, unused) && v->type.rank == 2 &&
           v->type.dtype != DT_bool;
}

static bool
fits_part(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    return v->who == PART && g->context == IN_STEP;
}

/* Right-aligned shapes as one; false: they do not fit, or would be large. */
static bool
broadcast(const GenType *x, const GenType *y, GenType *out)
{
    const GenType *big = x->rank >= y->rank ? x : y;
    const GenType *small = big == x ? y : x;
    int shift = big->rank - small->rank;
    *out = *big;
    if (small->rows && (shift || !big->rows) &&
        !(shift == 0 && big->rank && big->dims[0] == 1))
        return false;
    out->rows = big->rows || small->rows;
    for (int i = 0; i < small->rank; i++) {
        int p = big->dims[i + shift], q = small->dims[i];
        if (i + shift == 0 && out->rows) {
            if (!(big->rows && small->rows) && (big->rows ? q : p) != 1)
                return false;
            continue;
        }
        if (p != q && p != 1 && q != 1)
            return false;
        out->dims[i + shift] = p > q ? p : q;
    }
    return gen_count(out) <= 48;
}

static bool
fits_beside(Gen *g, const GenValue *v, const void *like)
{
    const GenValue *x = like;
    GenType t;
    return is_computable(g, v) && v->type.dtype == x->type.dtype &&
           broadcast(&x->type, &v->type, &t);
}

/* What is made of x and y, but for its size. */
static GenValue
joined(const GenValue *x, const GenValue *y)
{
    GenValue v = *x;
    v.who = gen_join(x->who, y->who);
    v.fuzzy |= y->fuzzy;
    v.collective |= y->collective;
    v.in_control |= y->in_control;
    v.constant &= y->constant;
    return v;
}

GenValue
gen_tame(Gen *g, GenValue v, double limit)
{
    if (!gen_is_float(v.type.dtype) || v.size <= limit || v.who == PART)
        return v;
    GenValue to = v;
    to.size = 1;
    return *gen_let(g, to, "sin(%s)", v.name);
}

/* ---- element by element ------------------------------------------------- */

/* How smooth a function is. */
typedef enum Manner { SMOOTH, KINK, JUMP } Manner;

typedef struct Unary {
    const char *text;
    Manner manner;
    double size; /* of the result; 0: as large as the operand */
} Unary;

static const Unary unaries[] = {
    {"sin(%s)", SMOOTH, 1},
    {"cos(%s)", SMOOTH, 1},
    {"tanh(%s)", SMOOTH, 1},
    {"sigmoid(%s)", SMOOTH, 1},
    {"erf(%s)", SMOOTH, 1},
    {"exp(sin(%s))", SMOOTH, 3},
    {"expm1(tanh(%s))", SMOOTH, 2},
    {"sin(%s) ** 2", SMOOTH, 1},
    {"tanh(%s) ** 3", SMOOTH, 1},
    {"-%s", SMOOTH, 0},
    {"%s * 0.5", SMOOTH, 0},
    {"1.0 - %s", SMOOTH, 0},
    {"abs(%s)", KINK, 0},
    {"max(%s, 0.0)", KINK, 0},
    {"clip(%s, -1.0, 1.5)", KINK, 2},
    {"sqrt(abs(%s))", KINK, 0},
    {"log1p(abs(%s))", KINK, 0},
    {"rsqrt(abs(%s) + 1.0)", KINK, 1},
    {"floor(%s)", JUMP, 0},
    {"round(%s)", JUMP, 0},
    {"sign(%s)", JUMP, 1},
};

/* Whether a function of that manner may be used on v. */
static bool
is_allowed(const Gen *g, Manner manner, const GenValue *v)
{
    return manner == SMOOTH || !g->invariant || !v->fuzzy;
}

static bool
op_unary(Gen *g)
{
    GenValue v;
    const Unary *u = &unaries[gen_pick(g, sizeof unaries / sizeof *unaries)];
    if (!gen_find(g, fits_float, NULL, &v) || !is_allowed(g, u->manner, &v))
        return false;
    GenValue to = v;
    to.size = u->size ? u->size : v.size + 1;
    const char *head = strchr(u->text, '%');
    gen_let(g, to, "%.*s%s%s", (int)(head - u->text), u->text, v.name,
            head + 2);
    return true;
}

static bool
op_binary(Gen *g)
{
    static const struct {
        const char *text;
        int how; /* 0: sizes add; 1: the result is one of sin; 2: the greater */
        Manner manner;
    } all[] = {
        {"%s + %s", 0, SMOOTH},       {"%s - %s", 0, SMOOTH},
        {"sin(%s * %s)", 1, SMOOTH},  {"%s / (cos(%s) + 2.0)", 2, SMOOTH},
        {"max(%s, %s)", 2, KINK},     {"min(%s, %s)", 2, KINK},
        {"%s * tanh(%s)", 2, SMOOTH},
    };
    GenValue x, y;
    int k = gen_pick(g, sizeof all / sizeof *all);
    if (!gen_find(g, fits_float, NULL, &x) ||
        !gen_find(g, fits_beside, &x, &y) ||
        !is_allowed(g, all[k].manner, &x) || !is_allowed(g, all[k].manner, &y))
        return false;
    x = gen_tame(g, x, 50);
    y = gen_tame(g, y, 50);
    GenValue to = joined(&x, &y);
    broadcast(&x.type, &y.type, &to.type);
    to.size = all[k].how == 1   ? 1
              : all[k].how == 0 ? x.size + y.size
                                : x.size + 1 + (all[k].manner ? y.size : 0);
    const char *p = strchr(all[k].text, '%'), *q = strchr(p + 2, '%');
    gen_let(g, to, "%.*s%s%.*s%s%s", (int)(p - all[k].text), all[k].text,
            x.name, (int)(q - p - 2), p + 2, y.name, q + 2);
    return true;
}

static bool
op_integer(Gen *g)
{
    static const char *const infix[] = {"+", "-", "*", "//", "%"};
    GenValue x, y;
    if (!gen_find(g, fits_int, NULL, &x) || !gen_find(g, fits_beside, &x, &y))
        return false;
    GenValue to = joined(&x, &y);
    broadcast(&x.type, &y.type, &to.type);
    int k = gen_pick(g, 7);
    if (k < 3)
        gen_let(g, to, "%s %s %s", x.name, infix[k], y.name);
    else if (k < 5)
        gen_let(g, to, "%s %s (%s %% 3 + 4)", x.name, infix[k], y.name);
    else
        gen_let(g, to, "%s(%s, %s)", k == 5 ? "max" : "min", x.name, y.name);
    return true;
}

static bool
op_compare(Gen *g)
{
    static const char *const infix[] = {"==", "!=", "<", "<=", ">", ">="};
    GenValue x, y;
    if (!gen_find(g, fits_any, NULL, &x) || !gen_find(g, fits_beside, &x, &y))
        return false;
    if (g->invariant && (x.fuzzy || y.fuzzy))
        return false;
    GenValue to = joined(&x, &y);
    broadcast(&x.type, &y.type, &to.type);
    to.type.dtype = DT_bool;
    int k = gen_pick(g, x.type.dtype == DT_bool ? 2 : 6);
    gen_let(g, to, "%s %s %s", x.name, infix[k], y.name);
    return true;
}

static bool
op_logic(Gen *g)
{
    GenValue x, y;
    if (!gen_find(g, fits_bool, NULL, &x) || !gen_find(g, fits_beside, &x, &y))
        return false;
    GenValue to = joined(&x, &y);
    broadcast(&x.type, &y.type, &to.type);
    gen_let(g, to, gen_chance(g, 50) ? "%s and not %s" : "%s or %s", x.name,
            y.name);
    return true;
}

static bool
op_where(Gen *g)
{
    GenValue c, x, y;
    GenType both, t;
    if (!gen_find(g, fits_bool, NULL, &c) || !gen_find(g, fits_any, NULL, &x) ||
        !gen_find(g, fits_beside, &x, &y) ||
        !broadcast(&x.type, &y.type, &both) || !broadcast(&c.type, &both, &t))
        return false;
    GenValue to = joined(&x, &y);
    to.size = x.size + y.size;
    to.type = t;
    to.type.dtype = x.type.dtype;
    to.who = gen_join(to.who, c.who);
    to.collective |= c.collective;
    gen_let(g, to, "where(%s, %s, %s)", c.name, x.name, y.name);
    return true;
}

static bool
op_cast(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_any, NULL, &v))
        return false;
    DType t = gen_dtype(g);
    GenValue to = v;
    to.type.dtype = t;
    if (t == v.type.dtype || t == DT_bool ||
        (g->invariant && v.fuzzy && !gen_is_float(t)))
        return false;
    if (!gen_is_float(v.type.dtype))
        to.size = v.type.dtype == DT_bool ? 1 : 1e6;
    gen_let(g, to, "%s(%s)", dtype_info[t].name, v.name);
    return true;
}

/* ---- over axes ---------------------------------------------------------- */

/* v's type without the axes from first to end. */
static GenType
without_axes(const GenType *t, int first, int end, bool keep)
{
    GenType to = *t;
    to.rank = 0;
    to.rows = t->rows && (first > 0 || end == 0);
    for (int i = 0; i < t->rank; i++) {
        if (i < first || i >= end)
            to.dims[to.rank++] = t->dims[i];
        else if (keep)
            to.dims[to.rank++] = 1;
    }
    return to;
}

static const char *
pick_reduction(Gen *g, DType t, bool of_rows)
{
    static const char *const floats[] = {"sum", "sum", "mean", "max", "min"};
    static const char *const ints[] = {"sum", "max", "min", "prod"};
    if (t == DT_bool)
        return gen_chance(g, 50) ? "any" : "all";
    if (of_rows)
        return "sum";
    return gen_is_float(t) ? floats[gen_pick(g, 5)] : ints[gen_pick(g, 4)];
}

static bool
op_reduce(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_tensor, NULL, &v))
        return false;
    bool all = gen_chance(g, 40), keep = !all && gen_chance(g, 25);
    int first = all ? 0 : gen_pick(g, v.type.rank);
    int end = all ? v.type.rank : first + 1;
    bool of_rows = v.type.rows && first == 0;
    const char *name = pick_reduction(g, v.type.dtype, of_rows);
    bool sums = strcmp(name, "max") != 0 && strcmp(name, "min") != 0;
    if (g->invariant && v.fuzzy && !sums)
        return false;
    if (of_rows && g->invariant) {
        if (v.type.dtype == DT_bool)
            return false;
        v = gen_tame(g, v, 8);
    }
    GenValue to = v;
    to.type = without_axes(&v.type, first, end, keep);
    to.size = v.size * (sums ? gen_count(&v.type) : 1) + 1;
    if (of_rows && g->invariant) {
        to.who = PART;
        to.fuzzy = gen_is_float(v.type.dtype);
    }
    if (all)
        gen_let(g, to, "%s(%s)", name, v.name);
    else
        gen_let(g, to, "%s(%s, axis = %d%s)", name, v.name,
                gen_chance(g, 20) ? first - v.type.rank : first,
                keep ? ", keepdims = true" : "");
    return true;
}

/* An axis of v that is not of rows, or -1. */
static int
static_axis(Gen *g, const GenValue *v)
{
    int first = v->type.rows;
    return v->type.rank > first ? first + gen_pick(g, v->type.rank - first)
                                : -1;
}

static bool
op_argument(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_tensor, NULL, &v) || v.type.dtype == DT_bool)
        return false;
    int axis = static_axis(g, &v);
    if (axis < 0 || (g->invariant && v.fuzzy))
        return false;
    GenValue to = v;
    to.size = 0;
    if (gen_chance(g, 60)) {
        to.type = without_axes(&v.type, axis, axis + 1, false);
        to.type.dtype = DT_i64;
        gen_let(g, to, "%s(%s, axis = %d)",
                gen_chance(g, 50) ? "argmax" : "argmin", v.name, axis);
    } else {
        to.type.dtype = DT_i64;
        gen_let(g, to, "argsort(%s, axis = %d)", v.name, axis);
    }
    return true;
}

static bool
op_along(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_tensor, NULL, &v) || v.type.dtype == DT_bool)
        return false;
    int axis = g->invariant ? static_axis(g, &v) : gen_pick(g, v.type.rank);
    if (axis < 0)
        return false;
    GenValue to = v;
    int k = gen_pick(g, 4);
    to.size = v.size * (k ? 1 : gen_count(&v.type));
    if (k == 0)
        gen_let(g, to, "cumsum(%s, axis = %d%s)", v.name, axis,
                gen_chance(g, 30) ? ", exclusive = true" : "");
    else if (k == 1 && !(g->invariant && v.fuzzy))
        gen_let(g, to, "sort(%s, axis = %d%s)", v.name, axis,
                gen_chance(g, 30) ? ", descending = true" : "");
    else
        gen_let(g, to, "reverse(%s, axis = %d)", v.name, axis);
    return true;
}

/* ---- moving elements ---------------------------------------------------- */

static bool
op_index(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_tensor, NULL, &v))
        return false;
    int axis = static_axis(g, &v);
    if (axis < 0)
        return false;
    Str s = str_new(g->arena);
    for (int i = 0; i < axis; i++)
        str_add(&s, ":, ");
    GenValue to = v;
    int n = v.type.dims[axis], k = gen_pick(g, 3);
    if (k == 0) {
        to.type = without_axes(&v.type, axis, axis + 1, false);
        to.type.rows = v.type.rows;
        str_addf(&s, "%d", gen_pick(g, n));
    } else if (k == 1) {
        int from = gen_pick(g, n), end = from + 1 + gen_pick(g, n - from);
        to.type.dims[axis] = end - from;
        str_addf(&s, "%d:%d", from, end);
    } else {
        str_add(&s, "::-1");
    }
    gen_let(g, to, "%s[%s]", v.name, str_text(&s));
    return true;
}

static bool
op_expand(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_any, NULL, &v) || v.type.rank >= GEN_RANK)
        return false;
    int axis = v.type.rows + gen_pick(g, v.type.rank + 1 - v.type.rows);
    GenValue to = v;
    to.type.rank++;
    for (int i = v.type.rank; i > axis; i--)
        to.type.dims[i] = v.type.dims[i - 1];
    to.type.dims[axis] = 1;
    gen_let(g, to, "expand(%s, %d)", v.name, axis);
    return true;
}

static bool
op_transpose(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_tensor, NULL, &v) || v.type.rank - v.type.rows < 2)
        return false;
    GenValue to = v;
    int last = v.type.rank - 1;
    to.type.dims[last] = v.type.dims[last - 1];
    to.type.dims[last - 1] = v.type.dims[last];
    gen_let(g, to, "transpose(%s, %s)", v.name,
            v.type.rank == 2 ? "(1, 0)" : "(0, 2, 1)");
    return true;
}

static bool
op_reshape(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_tensor, NULL, &v))
        return false;
    GenType t = {.dtype = v.type.dtype, .rows = v.type.rows};
    int n = 1;
    for (int i = t.rows; i < v.type.rank; i++)
        n *= v.type.dims[i];
    t.rank = t.rows;
    if (gen_chance(g, 30) && n % 2 == 0) {
        t.dims[t.rank++] = 2;
        n /= 2;
    }
    t.dims[t.rank++] = n;
    GenValue to = v;
    to.type = t;
    const char *shape = t.rows ? gen_text(g, "(len(%s)%s", v.name,
                                          strchr(gen_shape_text(g, &t), ','))
                               : gen_shape_text(g, &t);
    gen_let(g, to, "reshape(%s, %s)", v.name, shape);
    return true;
}

static bool
fits_equal(Gen *g, const GenValue *v, const void *like)
{
    return is_computable(g, v) &&
           gen_same_type(&v->type, &((const GenValue *)like)->type);
}

static bool
op_concat(Gen *g)
{
    GenValue x, y;
    if (!gen_find(g, fits_tensor, NULL, &x) ||
        !gen_find(g, fits_equal, &x, &y) || gen_count(&x.type) > 16)
        return false;
    GenValue to = joined(&x, &y);
    to.size = x.size + y.size;
    int axis = static_axis(g, &x);
    if (gen_chance(g, 60) && axis >= 0) {
        to.type.dims[axis] *= 2;
        gen_let(g, to, "concat([%s, %s], %d)", x.name, y.name, axis);
    } else if (x.type.rank < GEN_RANK) {
        to.type.dims[to.type.rank++] = 2;
        gen_let(g, to, "stack([%s, %s], %d)", x.name, y.name, x.type.rank);
    }
    return true;
}

static bool
op_pad(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_tensor, NULL, &v) || v.type.dtype == DT_bool ||
        v.type.rank - v.type.rows != 1)
        return false;
    GenValue to = v;
    to.type.dims[v.type.rows] += 2;
    const char *ones = v.type.rows ? "[0, 1]" : "[1]";
    gen_let(g, to, "pad(%s, %s, %s)", v.name, ones, ones);
    return true;
}

static bool
op_take(Gen *g)
{
    GenValue v, i;
    if (!gen_find(g, fits_tensor, NULL, &v) || v.type.rows ||
        !gen_find(g, fits_int, NULL, &i) || i.type.rank > 1 ||
        v.type.rank + i.type.rank - 1 > GEN_RANK || i.type.dtype == DT_u8)
        return false;
    GenValue to = joined(&v, &i);
    int n = v.type.dims[0], rank = i.type.rank;
    to.type = i.type;
    to.type.dtype = v.type.dtype;
    for (int k = 1; k < v.type.rank; k++)
        to.type.dims[rank++] = v.type.dims[k];
    to.type.rank = rank;
    if (gen_count(&to.type) > 48)
        return false;
    gen_let(g, to, "take(%s, %s %% %d)", v.name, i.name, n);
    return true;
}

static bool
op_one_hot(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_int, NULL, &v) || v.type.rank >= GEN_RANK)
        return false;
    GenValue to = v;
    to.type.dtype = DT_f32;
    to.type.dims[to.type.rank++] = 3;
    to.size = 1;
    gen_let(g, to, "one_hot(%s %% 3, 3)", v.name);
    return true;
}

static bool
op_matmul(Gen *g)
{
    GenValue x, y;
    if (!gen_find(g, fits_matrix, NULL, &x) ||
        !gen_find(g, fits_matrix, NULL, &y) || y.type.rows ||
        x.type.dtype != y.type.dtype)
        return false;
    bool turned = x.type.dims[1] == y.type.dims[1];
    if (!turned && x.type.dims[1] != y.type.dims[0])
        return false;
    x = gen_tame(g, x, 4);
    y = gen_tame(g, y, 4);
    GenValue to = joined(&x, &y);
    to.type.dims[1] = y.type.dims[turned ? 0 : 1];
    to.size = 64;
    if (turned)
        gen_let(g, to, "einsum(\"ij,kj->ik\", %s, %s)", x.name, y.name);
    else
        gen_let(g, to, "%s @ %s", x.name, y.name);
    return true;
}

/* ---- new values --------------------------------------------------------- */

static Who
who_of_rows(const Gen *g)
{
    return g->invariant ? ROWS : OWN;
}

/* A shape, perhaps with the batch's length. */
static GenValue
new_value(Gen *g, DType t)
{
    GenValue v = {.type = gen_random_type(g, t), .size = 1};
    if (g->context == IN_STEP && g->has_rows && v.type.rank &&
        gen_chance(g, 40)) {
        v.type.rows = true;
        v.who = who_of_rows(g);
    }
    return v;
}

static bool
op_new(Gen *g)
{
    DType t = gen_dtype(g);
    GenValue v = new_value(g, t);
    if (v.type.rank == 0) {
        v.size = 2;
        v.constant = true;
        gen_let(g, v, "%s(%s)", dtype_info[t].name, gen_number(g, t));
    } else if (gen_chance(g, 50) && t != DT_bool &&
               !(v.type.rows && g->invariant)) {
        v.size = 3;
        gen_let(g, v, "iota(%s, axis = %d, dtype = %s)",
                gen_shape_text(g, &v.type), gen_pick(g, v.type.rank),
                dtype_info[t].name);
    } else {
        v.size = 2;
        gen_let(g, v, "fill(%s, %s(%s))", gen_shape_text(g, &v.type),
                dtype_info[t].name, gen_number(g, t));
    }
    return true;
}

/* Numbers by counter: each place has its own, and each row of the batch. */
static bool
op_random(Gen *g)
{
    static const char *const kinds[] = {"uniform", "normal", "gumbel",
                                        "truncated_normal"};
    bool needs_index = g->context == IN_UPDATE || g->context == IN_ELEMENT;
    GenValue v = new_value(g, gen_chance(g, 70) ? DT_f32 : DT_i32), i;
    bool index = (needs_index || gen_chance(g, 20));
    if (index && (!gen_find(g, fits_int, NULL, &i) || i.type.rank ||
                  i.type.dtype != DT_i64 || v.type.rows))
        return false;
    if (!index && g->context == IN_STEP && v.who == SAME) {
        if (g->invariant)
            return false;
        v.who = OWN;
    }
    const char *end =
        gen_text(g, "%s%s%s", gen_chance(g, 50) ? ", seed = 3" : "",
                 index ? ", index = " : "", index ? i.name : "");
    if (index)
        v.who = i.who;
    v.size = 6;
    v.fuzzy = false;
    if (v.type.dtype == DT_f32)
        gen_let(g, v, "%s(%s%s)", kinds[gen_pick(g, 4)],
                gen_shape_text(g, &v.type), end);
    else
        gen_let(g, v, "randint(0, 10, %s%s)", gen_shape_text(g, &v.type), end);
    return true;
}

/* What a replica knows of itself. */
static bool
op_own(Gen *g)
{
    GenValue v = {.type = gen_scalar(DT_i32), .who = OWN};
    if (g->context != IN_STEP)
        return false;
    if (g->has_rows && gen_chance(g, 50)) {
        v.type.dtype = DT_i64;
        v.who = g->invariant ? PART : OWN;
        gen_let(g, v, "len(%s)", g->rows_name);
    } else if (!g->invariant) {
        gen_let(g, v, "replica_id + %s", gen_number(g, DT_i32));
    }
    return true;
}

static bool
fits_same_part(Gen *g, const GenValue *v, const void *like)
{
    return fits_part(g, v, NULL) &&
           gen_same_type(&v->type, &((const GenValue *)like)->type);
}

static bool
op_part(Gen *g)
{
    GenValue x, y;
    if (!gen_find(g, fits_part, NULL, &x) ||
        !gen_find(g, fits_same_part, &x, &y))
        return false;
    GenValue to = joined(&x, &y);
    to.size = x.size + y.size;
    gen_let(g, to, "%s %s %s", x.name, gen_chance(g, 50) ? "+" : "-", y.name);
    return true;
}

/* ---- any of them -------------------------------------------------------- */

bool
gen_compute(Gen *g)
{
    static const struct {
        bool (*make)(Gen *g);
        int weight;
    } ops[] = {
        {op_unary, 14},    {op_binary, 16}, {op_integer, 8}, {op_compare, 5},
        {op_logic, 2},     {op_where, 5},   {op_cast, 6},    {op_reduce, 12},
        {op_argument, 3},  {op_along, 5},   {op_index, 6},   {op_expand, 3},
        {op_transpose, 3}, {op_reshape, 4}, {op_concat, 5},  {op_pad, 2},
        {op_take, 3},      {op_one_hot, 2}, {op_matmul, 4},  {op_new, 6},
        {op_random, 4},    {op_own, 4},     {op_part, 3},
    };
    int total = 0, k = 0;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        total += ops[i].weight;
    for (int at = gen_pick(g, total); (at -= ops[k].weight) >= 0;)
        k++;
    return ops[k].make(g);
}

/* ---- values that are asked for ------------------------------------------ */

typedef struct Wanted {
    GenType type;
    bool own;
} Wanted;

/* An own value that reaches a variable or collective: where results may not
 * depend on the number of replicas it is a part. */
static bool
is_wanted_who(const Gen *g, const GenValue *v, bool own)
{
    if (!own)
        return v->who == SAME;
    return g->invariant ? v->who == PART : v->who != SAME;
}

static bool
fits_wanted(Gen *g, const GenValue *v, const void *like)
{
    const Wanted *w = like;
    return is_wanted_who(g, v, w->own) && gen_same_type(&v->type, &w->type);
}

static bool
fits_rows_of(Gen *g, const GenValue *v, const void *like)
{
    return g->context == IN_STEP && v->type.rows &&
           v->type.dtype == ((const Wanted *)like)->type.dtype;
}

/* A part of a sum over the batch. */
static GenValue
part_scalar(Gen *g, DType t)
{
    GenValue to = {.type = gen_scalar(t), .who = PART, .size = 40};
    to.fuzzy = gen_is_float(t);
    return *gen_let(g, to, "sum(%s(%s))", dtype_info[t].name, g->rows_name);
}

/* A scalar of one replica. */
static GenValue
own_scalar(Gen *g, DType t)
{
    Wanted w = {gen_scalar(t), true};
    GenValue v, to = {.type = w.type, .who = OWN, .size = 5};
    const char *name = dtype_info[t].name;
    if (g->invariant)
        return part_scalar(g, t);
    if (t != DT_bool && gen_find(g, fits_rows_of, &w, &v)) {
        v = gen_tame(g, v, 8);
        to.size = 8 * gen_count(&v.type);
        to.collective = v.collective;
        to.in_control = v.in_control;
        return *gen_let(g, to, "sum(%s)", v.name);
    }
    if (t == DT_bool)
        return *gen_let(g, to, "replica_id == %d", gen_pick(g, 2));
    if (g->has_rows)
        return *gen_let(g, to, "%s(len(%s))", name, g->rows_name);
    return *gen_let(g, to, "%s(replica_id) + %s", name, gen_number(g, t));
}

GenValue
gen_scalar_of(Gen *g, DType t, bool own)
{
    Wanted w = {gen_scalar(t), own};
    GenValue v;
    if (gen_chance(g, 90) && gen_find(g, fits_wanted, &w, &v))
        return v;
    if (own)
        return own_scalar(g, t);
    GenValue to = {.type = w.type, .size = 2, .constant = true};
    return *gen_let(g, to, "%s(%s)", dtype_info[t].name, gen_number(g, t));
}

GenValue
gen_like(Gen *g, GenType type, bool own)
{
    Wanted w = {type, own};
    GenValue v;
    if (gen_chance(g, 90) && gen_find(g, fits_wanted, &w, &v))
        return v;
    v = gen_scalar_of(g, type.dtype, own);
    if (type.rank == 0)
        return v;
    GenValue to = v;
    to.type = type;
    to.constant = false;
    return *gen_let(g, to, "fill(%s, %s)", gen_shape_text(g, &type), v.name);
}

static bool
fits_condition(Gen *g, const GenValue *v, const void *own)
{
    return v->type.dtype == DT_bool && v->type.rank == 0 &&
           is_computable(g, v) && gen_is_own(v) == *(const bool *)own;
}

GenValue
gen_condition(Gen *g, bool own)
{
    GenValue v;
    if (gen_chance(g, 70) && gen_find(g, fits_condition, &own, &v))
        return v;
    DType t = gen_chance(g, 50) || g->invariant ? DT_i32 : DT_f32;
    v = gen_scalar_of(g, t, own);
    GenValue to = v;
    to.type.dtype = DT_bool;
    to.size = 0;
    return *gen_let(g, to, "%s > %s", v.name, gen_number(g, t));
}
