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
bool
gen_computable(const Gen *g, const GenValue *v)
{
    return v->who == SAME || (g->context == IN_STEP && v->who != PART);
}

bool
gen_fits_any(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    return gen_computable(g, v);
}

bool
gen_fits_result(Gen *g, const GenValue *v, const void *unused)
{
    (void)g;
    (void)unused;
    return v->name[0] != 'v';
}

bool
gen_fits_float(Gen *g, const GenValue *v, const void *unused)
{
    return gen_fits_any(g, v, unused) && gen_is_float(v->type.dtype);
}

bool
gen_fits_int(Gen *g, const GenValue *v, const void *unused)
{
    return gen_fits_any(g, v, unused) && gen_is_int(v->type.dtype);
}

static bool
fits_bool(Gen *g, const GenValue *v, const void *unused)
{
    return gen_fits_any(g, v, unused) && v->type.dtype == DT_bool;
}

bool
gen_fits_tensor(Gen *g, const GenValue *v, const void *unused)
{
    return gen_fits_any(g, v, unused) && v->type.rank > 0;
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
    return gen_computable(g, v) && v->type.dtype == x->type.dtype &&
           broadcast(&x->type, &v->type, &t);
}

/* The value computed from x and y, except for its size. */
GenValue
gen_joined(const GenValue *x, const GenValue *y)
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

/* How smooth a function is.  All but SMOOTH are left out of losses whose
 * gradients are compared with finite differences, and of fuzzy values where
 * results may not depend on the number of replicas: a value that is rounded
 * in another way may stand on the other side. */
typedef enum Manner {
    SMOOTH, /* it has a derivative everywhere: sin */
    KINK,   /* its derivative jumps somewhere: abs at 0 */
    JUMP,   /* it jumps itself: floor */
} Manner;

/* A function of one float, for any x: of one that is defined or tame only
 * somewhere, as log or exp, the text brings x there, "log1p(abs(%s))". */
typedef struct Unary {
    const char *text;
    Manner manner;
    double size; /* no element of the result is greater in magnitude; 0: none
                    is greater than the greatest of the operand and 1 more */
} Unary;

static const Unary unaries[] = {
    {"sin(%s)", SMOOTH, 1},
    {"cos(%s)", SMOOTH, 1},
    {"tanh(%s)", SMOOTH, 1},
    {"sigmoid(%s)", SMOOTH, 1},
    {"erf(%s)", SMOOTH, 1},
    {"asin(sin(%s) * 0.9)", SMOOTH, 2},
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
    return manner == SMOOTH || (!g->smooth && (!g->invariant || !v->fuzzy));
}

static bool
op_unary(Gen *g)
{
    GenValue v;
    const Unary *u = &unaries[gen_pick(g, sizeof unaries / sizeof *unaries)];
    if (!gen_find(g, gen_fits_float, NULL, &v) || !is_allowed(g, u->manner, &v))
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
        int how; /* the result's size: 0: the operands' together; 1: 1, as of
                    sin; 2: x's and 1 more, and y's unless it is SMOOTH */
        Manner manner;
    } all[] = {
        {"%s + %s", 0, SMOOTH},       {"%s - %s", 0, SMOOTH},
        {"sin(%s * %s)", 1, SMOOTH},  {"%s / (cos(%s) + 2.0)", 2, SMOOTH},
        {"max(%s, %s)", 2, KINK},     {"min(%s, %s)", 2, KINK},
        {"%s * tanh(%s)", 2, SMOOTH},
    };
    GenValue x, y;
    int k = gen_pick(g, sizeof all / sizeof *all);
    if (!gen_find(g, gen_fits_float, NULL, &x) ||
        !gen_find(g, fits_beside, &x, &y) ||
        !is_allowed(g, all[k].manner, &x) || !is_allowed(g, all[k].manner, &y))
        return false;
    x = gen_tame(g, x, g->smooth ? 3 : 50);
    y = gen_tame(g, y, g->smooth ? 3 : 50);
    GenValue to = gen_joined(&x, &y);
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
    if (!gen_find(g, gen_fits_int, NULL, &x) ||
        !gen_find(g, fits_beside, &x, &y))
        return false;
    GenValue to = gen_joined(&x, &y);
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
    if (!gen_find(g, gen_fits_any, NULL, &x) ||
        !gen_find(g, fits_beside, &x, &y))
        return false;
    if (g->invariant && (x.fuzzy || y.fuzzy))
        return false;
    GenValue to = gen_joined(&x, &y);
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
    GenValue to = gen_joined(&x, &y);
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
    if (!gen_find(g, fits_bool, NULL, &c) ||
        !gen_find(g, gen_fits_any, NULL, &x) ||
        !gen_find(g, fits_beside, &x, &y) ||
        !broadcast(&x.type, &y.type, &both) || !broadcast(&c.type, &both, &t))
        return false;
    GenValue to = gen_joined(&x, &y);
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
    if (!gen_find(g, gen_fits_any, NULL, &v))
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
GenType
gen_without_axes(const GenType *t, int first, int end, bool keep)
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
    if (!gen_find(g, gen_fits_tensor, NULL, &v))
        return false;
    bool all = gen_chance(g, 40), keep = !all && gen_chance(g, 25);
    int first = all ? 0 : gen_pick(g, v.type.rank);
    int end = all ? v.type.rank : first + 1;
    bool of_rows = v.type.rows && first == 0;
    const char *name = pick_reduction(g, v.type.dtype, of_rows);
    bool sums = strcmp(name, "max") != 0 && strcmp(name, "min") != 0;
    if (!sums && (g->smooth || (g->invariant && v.fuzzy)))
        return false;
    if (of_rows && g->invariant) {
        if (v.type.dtype == DT_bool)
            return false;
        v = gen_tame(g, v, 8);
    }
    GenValue to = v;
    to.type = gen_without_axes(&v.type, first, end, keep);
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
    GenValue to = gen_joined(&x, &y);
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
        bool smooth;
    } ops[] = {
        {op_unary, 14, true},         {op_binary, 16, true},
        {op_integer, 8, false},       {op_compare, 5, false},
        {op_logic, 2, false},         {op_where, 5, false},
        {op_cast, 6, false},          {op_reduce, 12, true},
        {gen_op_argument, 3, false},  {gen_op_along, 5, true},
        {gen_op_index, 6, true},      {gen_op_expand, 3, true},
        {gen_op_transpose, 3, true},  {gen_op_reshape, 4, true},
        {gen_op_concat, 5, true},     {gen_op_pad, 2, true},
        {gen_op_take, 3, true},       {gen_op_one_hot, 2, false},
        {gen_op_matmul, 4, true},     {gen_op_new, 6, true},
        {gen_op_random, 4, false},    {gen_op_own, 4, false},
        {op_part, 3, false},          {gen_op_conv, 4, true},
        {gen_op_along_axis, 4, true},
    };
    int total = 0, k = 0;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        total += ops[i].weight;
    for (int at = gen_pick(g, total); (at -= ops[k].weight) >= 0;)
        k++;
    return (ops[k].smooth || !g->smooth) && ops[k].make(g);
}
