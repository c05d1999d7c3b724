/*
 * gen_nest.c - functions, nests, parts of muts, sparse values, optimizers
 */
#include "tests/random/gen_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- functions ---------------------------------------------------------- */

static void
declare_fn(Gen *g)
{
    GenFn f = {.together = gen_chance(g, 40), .num_args = 1 + gen_pick(g, 2)};
    snprintf(f.name, sizeof f.name, "%s", gen_name(g, "h"));
    GenScope outer = gen_enter(g, IN_STEP);
    Str list = str_new(g->arena);
    g->scope.len = 0;
    g->rows_name[0] = '\0';
    for (int i = 0; i < f.num_args; i++) {
        const char *name = gen_name(g, "p");
        f.args[i] = gen_parameter(g, 50);
        gen_add(g, f.args[i], name);
        str_addf(&list, "%s%s", i ? ", " : "", name);
    }
    gen_open(g, "fn %s(%s) {", f.name, str_text(&list));
    g->budget = 8;
    g->divergent = !f.together;
    gen_block(g, 2 + gen_pick(g, 5));
    g->divergent = false;
    Str back = str_new(g->arena);
    for (int n = 1 + gen_pick(g, 2); n > 0; n--) {
        GenValue v;
        if (!gen_find(g, gen_fits_result, NULL, &v))
            break;
        v.frame = 0;
        v.collective = v.in_control = true;
        v.constant = v.type.rank == 0;
        f.results[f.num_results++] = v;
        str_addf(&back, "%s, ", v.name);
    }
    gen_line(g, "return (%s)", str_text(&back));
    gen_leave(g, outer);
    gen_close(g, "}");
    VEC_PUSH(g->arena, g->fns, f);
}

void
gen_declare_helpers(Gen *g)
{
    static const char *const kinds[] = {
        "Sgd(0.1)",     "Momentum(0.1)", "Momentum(0.1, nesterov = true)",
        "Adagrad(0.1)", "Adam(0.1)",     "AdamW(0.1)",
        "RmsProp(0.1)"};
    if (gen_chance(g, 25)) {
        g->optimizer = gen_name(g, "o");
        gen_line(g, "let %s = %s", g->optimizer, kinds[gen_pick(g, 7)]);
    }
    for (int n = gen_pick(g, 3); n > 0; n--)
        declare_fn(g);
}

bool
gen_call(Gen *g)
{
    if (!g->fns.len || g->context != IN_STEP)
        return false;
    GenFn f = g->fns.data[gen_pick(g, g->fns.len)];
    if (f.together && g->divergent)
        return false;
    Str args = str_new(g->arena);
    for (int i = 0; i < f.num_args; i++) {
        GenValue v = gen_like(g, f.args[i].type, f.args[i].who != SAME);
        str_addf(&args, "%s%s", i ? ", " : "", gen_tame(g, v, 50).name);
    }
    const char *all = gen_name(g, "x");
    gen_line(g, "let %s = %s(%s)", all, f.name, str_text(&args));
    for (int i = 0; i < f.num_results; i++)
        gen_let(g, f.results[i], "%s.%d", all, i);
    return true;
}

/* ---- nests -------------------------------------------------------------- */

static bool
fits_named(Gen *g, const GenValue *v, const void *unused)
{
    (void)g;
    (void)unused;
    return v->name[0] != 'v';
}

/* A value within a nest is the value. */
static bool
pack(Gen *g)
{
    GenValue x, y, z;
    if (!gen_find(g, fits_named, NULL, &x) ||
        !gen_find(g, fits_named, NULL, &y) ||
        !gen_find(g, fits_named, NULL, &z))
        return false;
    const char *t = gen_name(g, "t");
    gen_line(g, "let %s = (a: %s, b: (%s, %s))", t, x.name, y.name, z.name);
    gen_let(g, x, "%s.a", t);
    gen_let(g, z, "%s.b.1", t);
    return true;
}

static bool
fits_number(Gen *g, const GenValue *v, const void *unused)
{
    return gen_fits_any(g, v, unused) && v->type.dtype != DT_bool &&
           v->size <= 50;
}

static bool
fits_alike(Gen *g, const GenValue *v, const void *like)
{
    return gen_fits_any(g, v, NULL) &&
           gen_same_type(&v->type, &((const GenValue *)like)->type);
}

/* A loop over lists, which is unrolled. */
static bool
add_up(Gen *g)
{
    GenValue x, y;
    if (!gen_find(g, fits_number, NULL, &x) ||
        !gen_find(g, fits_alike, &x, &y) || x.type.dtype != y.type.dtype ||
        y.size > 50)
        return false;
    const char *l = gen_name(g, "l");
    GenValue to = gen_joined(&x, &y);
    to.size = x.size + y.size;
    gen_line(g, "let %s = [a - b for (a, b) in zip([%s, %s], [%s, %s])]", l,
             x.name, y.name, y.name, x.name);
    gen_let(g, to, "%s[%d]", l, gen_pick(g, 2));
    return true;
}

bool
gen_nested(Gen *g)
{
    if (g->context == IN_UPDATE || g->context == IN_ELEMENT)
        return false;
    return gen_chance(g, 50) ? pack(g) : add_up(g);
}

/* ---- parts of muts ------------------------------------------------------ */

static bool
fits_parts(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    return v->frame == g->frame && v->frame && v->type.rank > 0 &&
           !v->type.rows && v->who != PART &&
           !(g->divergent && v->who == SAME) &&
           (g->context == IN_STEP || v->who == SAME);
}

/* m[i] = x, m[[i, j]] += x, also along another axis. */
bool
gen_set_part(Gen *g)
{
    GenValue m;
    if (!gen_find(g, fits_parts, NULL, &m) || (g->invariant && m.who != SAME))
        return false;
    int axis = gen_chance(g, 60) ? 0 : gen_pick(g, m.type.rank);
    GenType t = gen_without_axes(&m.type, axis, axis + 1, false);
    GenValue x = gen_tame(g, gen_like(g, t, m.who != SAME), 5);
    int n = m.type.dims[axis], i = gen_pick(g, n), k = gen_pick(g, n);
    bool adds = m.type.dtype != DT_bool && !g->invariant && gen_chance(g, 50);
    const char *before = axis == 0 ? "" : axis == 1 ? ":, " : ":, :, ";
    if (gen_chance(g, 50))
        gen_line(g, "%s[%s%d] %s %s", m.name, before, i, adds ? "-=" : "=",
                 x.name);
    else
        gen_line(g, "%s[%s[%d, %d]] %s stack([%s, %s], %d)", m.name, before, i,
                 k, adds ? "+=" : "=", x.name, x.name, axis);
    return true;
}

/* ---- sparse values ------------------------------------------------------ */

/* A variable of rows that sums of gradients may be written to. */
static const GenVar *
pick_table(Gen *g)
{
    for (int tries = 4; tries > 0; tries--) {
        const GenVar *v = &g->vars.data[gen_pick(g, g->vars.len)];
        if (!v->rowless && v->agg == NO_AGG && v->type.rank > 0 &&
            gen_is_float(v->type.dtype))
            return v;
    }
    return NULL;
}

/* The gradient of rows of a variable is slices, which are combined as such. */
bool
gen_sparse(Gen *g)
{
    const GenVar *v = pick_table(g);
    if (!v || g->context != IN_STEP || g->divergent || g->depth > 1 ||
        (g->invariant && !g->rows_name[0]))
        return false;
    GenValue f = gen_scalar_of(g, v->type.dtype, true);
    const char *l = gen_name(g, "x"), *s = gen_name(g, "g"),
               *all = gen_name(g, "g");
    int n = v->type.dims[0];
    gen_line(g, "let %s = sum(sin(%s[[%d, %d]])) * %s", l, v->name,
             gen_pick(g, n), gen_pick(g, n), f.name);
    gen_line(g, "let %s = grad(%s, %s)", s, l, v->name);
    gen_line(g, "let %s = all_reduce(sum, %s)", all, s);
    if (gen_chance(g, 60))
        gen_line(g, "%s -= %s * 0.125", v->name, all);
    GenValue to = {
        .type = v->type, .size = 1000, .fuzzy = true, .collective = true};
    gen_let(g, to, "dense(%s)",
            gen_chance(g, 50) ? all : gen_text(g, "%s + %s", all, all));
    return true;
}

/* ---- optimizers --------------------------------------------------------- */

static bool
is_trained(const GenVar *v)
{
    return !v->rowless && v->agg == NO_AGG && v->type.dtype == DT_f32;
}

/* One step of an optimizer, with the replicas' gradients. */
bool
gen_optimize(Gen *g)
{
    if (!g->optimizer || g->context != IN_STEP || g->divergent ||
        g->depth > 1 || (g->invariant && !g->rows_name[0]))
        return false;
    Str vars = str_new(g->arena), terms = str_new(g->arena);
    int n = 0;
    for (int i = 0; i < g->vars.len && n < 2; i++) {
        const GenVar *v = &g->vars.data[i];
        if (!is_trained(v))
            continue;
        str_addf(&vars, "%s%s", n ? ", " : "", v->name);
        str_addf(&terms, "%ssum(sin(%s))", n ? " + " : "", v->name);
        n++;
    }
    if (!n)
        return false;
    GenValue f = gen_scalar_of(g, DT_f32, true);
    const char *l = gen_name(g, "x");
    gen_line(g, "let %s = (%s) * %s", l, str_text(&terms), f.name);
    gen_line(g, "%s.apply([%s], grad(%s, [%s]))", g->optimizer, str_text(&vars),
             l, str_text(&vars));
    return true;
}
