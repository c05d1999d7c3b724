/*
 * gen_control.c - blocks, branches and loops of random programs
 *
 * A mut is either the same on all replicas throughout the program, or may
 * differ: assignments are chosen accordingly.  Under a condition that replicas
 * may decide differently there are no collectives, and only muts that may
 * differ are assigned.
 */
#include "tests/random/gen_impl.h"

#include <string.h>

/* ---- muts --------------------------------------------------------------- */

static bool
fits_any(Gen *g, const GenValue *v, const void *unused)
{
    (void)g;
    (void)unused;
    return v->name[0] != 'v' && (g->context != IN_MAIN || !v->type.rows);
}

static bool
do_mut(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_any, NULL, &v))
        return false;
    if (g->context == IN_STEP || v.who == SAME)
        v = gen_tame(g, v, 50);
    const char *name = gen_name(g, "m");
    gen_line(g, "mut %s = %s", name, v.name);
    v.frame = g->frame;
    v.size = 60;
    v.fuzzy = gen_is_float(v.type.dtype);
    v.collective = v.in_control = true;
    gen_add(g, v, name);
    return true;
}

static bool
fits_mut(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    return v->frame == g->frame && !(g->divergent && v->who == SAME);
}

static bool
fits_mut_value(Gen *g, const GenValue *v, const void *like)
{
    const GenValue *to = like;
    (void)g;
    return v->who == to->who && gen_same_type(&v->type, &to->type) &&
           v->size <= 50;
}

static bool
do_assign(Gen *g)
{
    GenValue m, v;
    if (!gen_find(g, fits_mut, NULL, &m) ||
        !gen_find(g, fits_mut_value, &m, &v))
        return false;
    bool computes = g->context == IN_STEP || m.who == SAME;
    if (!computes || m.type.dtype == DT_bool || m.who == PART ||
        gen_chance(g, 60))
        gen_line(g, "%s = %s", m.name, v.name);
    else if (gen_is_float(m.type.dtype))
        gen_line(g, "%s = sin(%s + %s)", m.name, m.name, v.name);
    else
        gen_line(g, "%s %s %s", m.name,
                 gen_chance(g, 50) ? "+=" : "-=", v.name);
    return true;
}

/* ---- blocks ------------------------------------------------------------- */

static bool
fits_print(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    return v->who == SAME || (g->context == IN_STEP && !g->invariant);
}

static bool
do_print(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_print, NULL, &v) || g->context == IN_UPDATE)
        return false;
    gen_line(g, "print(\"%s {%s}\")", v.name, v.name);
    return true;
}

static bool do_control(Gen *g);

static bool
do_statement(Gen *g)
{
    static const struct {
        bool (*make)(Gen *g);
        int weight;
    } all[] = {{gen_compute, 40},  {gen_read, 8},     {gen_write, 12},
               {gen_together, 10}, {gen_combine, 14}, {gen_gradient, 4},
               {gen_update, 4},    {do_control, 8},   {do_mut, 5},
               {do_assign, 8},     {do_print, 3},     {gen_nested, 3},
               {gen_call, 5},      {gen_sparse, 3},   {gen_optimize, 3},
               {gen_set_part, 4}};
    int total = 0, k = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        total += all[i].weight;
    for (int at = gen_pick(g, total); (at -= all[k].weight) >= 0;)
        k++;
    return all[k].make(g);
}

void
gen_block(Gen *g, int statements)
{
    for (int tries = 4 * statements; statements > 0 && tries > 0; tries--)
        if (g->budget > 0 && do_statement(g)) {
            g->budget--;
            statements--;
        }
}

/* A block of its own, whose names end with it. */
static void
inner_block(Gen *g, bool divergent)
{
    bool before = g->divergent;
    int len = g->scope.len;
    g->divergent |= divergent;
    g->depth++;
    gen_block(g, 1 + gen_pick(g, 4));
    g->depth--;
    g->divergent = before;
    g->scope.len = len;
}

/* ---- branches and loops ------------------------------------------------- */

static bool
may_diverge(const Gen *g)
{
    return g->context == IN_STEP && !g->invariant;
}

static bool
do_if(Gen *g)
{
    bool own = may_diverge(g) && gen_chance(g, 50);
    GenValue c = gen_condition(g, own);
    gen_open(g, "if %s {", c.name);
    inner_block(g, own);
    if (gen_chance(g, 60)) {
        gen_close(g, "} else {");
        g->indent++;
        inner_block(g, own);
    }
    gen_close(g, "}");
    return true;
}

static bool
fits_choice(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    return v->who == SAME || g->context == IN_STEP;
}

static bool
fits_alike(Gen *g, const GenValue *v, const void *like)
{
    return fits_choice(g, v, NULL) &&
           (!g->invariant || v->who == ((const GenValue *)like)->who) &&
           gen_same_type(&v->type, &((const GenValue *)like)->type);
}

static bool
do_if_expression(Gen *g)
{
    GenValue x, y;
    bool own = may_diverge(g) && gen_chance(g, 50);
    if (!gen_find(g, fits_choice, NULL, &x) || !gen_find(g, fits_alike, &x, &y))
        return false;
    /* of one value twice it is that value, whatever decides */
    if (own && x.who == SAME && y.who == SAME)
        return false;
    GenValue c = gen_condition(g, own), to = x;
    /* a condition the compiler knows takes one of them, and it is as that is */
    if (c.constant && (x.who == SAME) != (y.who == SAME))
        return false;
    to.who = gen_join(gen_join(x.who, y.who), c.who);
    to.size = x.size + y.size;
    to.fuzzy |= y.fuzzy;
    to.constant =
        c.constant ? x.constant || y.constant : x.constant && y.constant;
    to.collective = to.in_control = true;
    gen_let(g, to, "if %s { %s } else { %s }", c.name, x.name, y.name);
    return true;
}

/* if c { break } or { continue }, of a condition that fits the loop's. */
static void
leave_loop(Gen *g, bool own, const char *how)
{
    GenValue c = gen_condition(g, own);
    gen_line(g, "if %s { %s }", c.name, how);
}

static bool
do_for(Gen *g)
{
    bool own = may_diverge(g) && gen_chance(g, 40);
    bool breaks = own && gen_chance(g, 50);
    const char *end = gen_text(g, "%d", 1 + gen_pick(g, 3));
    if (own && !breaks) {
        GenValue n = gen_scalar_of(g, DT_i32, true);
        end = gen_text(g, "(%s %% 4)", n.name);
    } else if (gen_chance(g, 30)) {
        GenValue n = gen_scalar_of(g, DT_i32, false);
        end = gen_text(g, "(%s %% 4)", n.name);
    }
    const char *i = gen_name(g, "j");
    int len = g->scope.len;
    GenValue index = {.type = gen_scalar(DT_i32),
                      .who = own ? OWN : SAME,
                      .in_control = true};
    gen_open(g, "for %s in 0..%s {", i, end);
    gen_add(g, index, i);
    bool before = g->divergent;
    g->divergent |= own;
    if (breaks || gen_chance(g, 10)) {
        if (gen_chance(g, 50))
            gen_compute(g);
        leave_loop(g, own, gen_chance(g, 60) ? "break" : "continue");
    }
    inner_block(g, own);
    g->divergent = before;
    g->scope.len = len;
    gen_close(g, "}");
    return true;
}

static bool
do_while(Gen *g)
{
    bool own = may_diverge(g) && gen_chance(g, 40);
    const char *k = gen_name(g, "k");
    const char *start = "0";
    if (own)
        start = gen_text(g, "%s %% 4", gen_scalar_of(g, DT_i32, true).name);
    const char *max =
        gen_chance(g, 40) ? gen_text(g, " max %d", 1 + gen_pick(g, 3)) : "";
    gen_line(g, "mut %s = %s", k, start);
    int len = g->scope.len;
    GenValue count = {.type = gen_scalar(DT_i32),
                      .who = own ? OWN : SAME,
                      .in_control = true};
    gen_open(g, "while %s < %d%s {", k, 1 + gen_pick(g, 4), max);
    gen_line(g, "%s += 1", k);
    gen_add(g, count, k);
    inner_block(g, own);
    g->scope.len = len;
    gen_close(g, "}");
    return true;
}

static bool
do_control(Gen *g)
{
    if (g->depth >= 4 || g->context == IN_ELEMENT)
        return false;
    switch (gen_pick(g, 6)) {
    case 0:
    case 1:
        return do_if(g);
    case 2:
        return do_if_expression(g);
    case 3:
    case 4:
        return do_for(g);
    default:
        return do_while(g);
    }
}
