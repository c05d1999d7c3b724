/*
 * gen_dist.c - collectives and merges of random programs
 */
#include "tests/random/gen_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- operands ----------------------------------------------------------- */

static bool
is_number(const GenValue *v)
{
    return v->type.dtype != DT_bool;
}

/* What a sum over the replicas is made of. */
static bool
fits_sum(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    return is_number(v) && !v->type.rows &&
           (g->invariant ? v->who == PART : v->who != SAME);
}

/* What else is combined, where it may not depend on how many there are. */
static bool
fits_mean(Gen *g, const GenValue *v, const void *floats)
{
    return is_number(v) && !v->type.rows &&
           (!floats || gen_is_float(v->type.dtype)) &&
           (!g->invariant || v->who == SAME);
}

static bool
fits_rows(Gen *g, const GenValue *v, const void *unused)
{
    (void)g;
    (void)unused;
    return v->type.rows;
}

static bool
fits_gather(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    return v->type.rank > 0 && v->who != SAME &&
           (!g->invariant || v->type.rows);
}

/* A way to combine, and a value for it. */
static bool
pick_combined(Gen *g, const char **how, GenValue *v)
{
    static const char *const all[] = {"sum",  "sum", "sum",
                                      "mean", "max", "min"};
    static const int floats = 1;
    *how = all[gen_pick(g, 6)];
    if ((*how)[0] == 's')
        return gen_find(g, fits_sum, NULL, v);
    return gen_find(g, fits_mean, (*how)[1] == 'e' ? &floats : NULL, v);
}

/* v, if it combines the values of all replicas. */
static GenValue
combined(const GenValue *v)
{
    GenValue to = *v;
    to.who = SAME;
    to.size = v->size * 5;
    to.fuzzy = gen_is_float(v->type.dtype);
    to.collective = true;
    to.frame = 0;
    return to;
}

/* ---- in a step ---------------------------------------------------------- */

static bool
do_all_reduce(Gen *g)
{
    GenValue v, w;
    const char *how;
    if (!pick_combined(g, &how, &v))
        return false;
    GenValue to = combined(&v);
    if (how[0] == 's' && gen_chance(g, 30) && gen_find(g, fits_sum, NULL, &w)) {
        const char *x = gen_name(g, "x"), *y = gen_name(g, "x");
        gen_line(g, "let (%s, %s) = all_reduce(sum, (%s, %s))", x, y, v.name,
                 w.name);
        gen_add(g, to, x);
        gen_add(g, combined(&w), y);
        return true;
    }
    gen_let(g, to, "all_reduce(%s, %s)", how, v.name);
    return true;
}

/* The length of a gathered value depends on the number of replicas, so it is
 * reduced. */
static bool
do_gather(Gen *g, const char *name)
{
    GenValue v;
    if (!gen_find(g, fits_gather, NULL, &v))
        return false;
    int axis = v.type.rows ? 0 : gen_pick(g, v.type.rank);
    const char *all = gen_name(g, "x");
    gen_line(g, "let %s = %s(%s, axis = %d)", all, name, v.name, axis);
    if (gen_chance(g, 40))
        gen_line(g, "print(\"{%s}\")", all);
    if (!is_number(&v))
        return true;
    GenValue to = combined(&v);
    to.fuzzy = v.fuzzy;
    to.size = v.size * 20;
    to.type.rank = 0;
    to.type.rows = false;
    for (int i = 0; i < v.type.rank; i++)
        if (i != axis)
            to.type.dims[to.type.rank++] = v.type.dims[i];
    gen_let(g, to, "sum(%s, axis = %d)", all, axis);
    return true;
}

static bool
do_all_gather(Gen *g)
{
    return do_gather(g, "all_gather");
}

static bool
do_global_mean(Gen *g)
{
    GenValue v;
    if (!gen_find(g, g->invariant ? fits_rows : fits_gather, NULL, &v) ||
        !gen_is_float(v.type.dtype))
        return false;
    GenValue to = combined(&v);
    to.type = gen_scalar(v.type.dtype);
    gen_let(g, to, "global_mean(%s)", v.name);
    return true;
}

static bool
fits_merge(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    return v->name[0] != 'v' && (v->who != SAME || gen_chance(g, 20));
}

/* merge (args) { ... }: the block sees its arguments and values that are the
 * same on all replicas. */
static bool
do_merge(Gen *g)
{
    GenValue args[2], back = {.who = SAME};
    int n = gen_pick(g, 3);
    for (int i = 0; i < n; i++)
        if (!gen_find(g, fits_merge, NULL, &args[i]))
            n = i;
    if (n == 2 && strcmp(args[0].name, args[1].name) == 0)
        n = 1;
    const char *list = n == 0 ? ""
                       : n == 1
                           ? args[0].name
                           : gen_text(g, "%s, %s", args[0].name, args[1].name);
    const char *name = gen_chance(g, 60) ? gen_name(g, "x") : NULL;
    gen_open(g, "%s%s%smerge (%s) {", name ? "let " : "", name ? name : "",
             name ? " = " : "", list);
    GenScope outer = gen_enter(g, IN_MERGE);
    gen_keep_same(g);
    for (int i = 0; i < n; i++) {
        args[i].frame = 0;
        gen_add(g, args[i], gen_text(g, "%s", args[i].name));
    }
    gen_block(g, 1 + gen_pick(g, 4));
    if (name) {
        back =
            n && gen_chance(g, 25) ? args[0] : gen_scalar_of(g, DT_f32, false);
        gen_line(g, "return %s", back.name);
    }
    gen_leave(g, outer);
    gen_close(g, "}");
    back.collective = back.in_control = true;
    back.frame = 0;
    if (name)
        gen_add(g, back, name);
    return true;
}

bool
gen_together(Gen *g)
{
    if (g->context != IN_STEP || g->divergent)
        return false;
    switch (gen_pick(g, 8)) {
    case 0:
    case 1:
    case 2:
        return do_all_reduce(g);
    case 3:
        return do_all_gather(g);
    case 4:
        return do_global_mean(g);
    default:
        return g->depth < 4 && do_merge(g);
    }
}

/* ---- in main and merges ------------------------------------------------- */

/* reduce with an axis uses the true count, also of shares. */
static bool
do_reduce_axis(Gen *g)
{
    static const char *const all[] = {"sum", "mean", "max", "min"};
    GenValue v;
    if (!gen_find(g, fits_gather, NULL, &v) || !is_number(&v))
        return false;
    int axis = v.type.rows ? 0 : gen_pick(g, v.type.rank);
    const char *how = all[gen_pick(g, 4)];
    if (!gen_is_float(v.type.dtype) && how[1] == 'e')
        how = "sum";
    GenValue to = combined(&v);
    to.type.rank = 0;
    to.type.rows = false;
    for (int i = 0; i < v.type.rank; i++)
        if (i != axis)
            to.type.dims[to.type.rank++] = v.type.dims[i];
    gen_let(g, to, "reduce(%s, %s, axis = %d)", how, v.name, axis);
    return true;
}

static const char *
pick_dest(Gen *g)
{
    return gen_chance(g, 30) ? "none"
                             : g->vars.data[gen_pick(g, g->vars.len)].name;
}

static bool
do_reduce(Gen *g)
{
    GenValue v, w;
    const char *how;
    if (!pick_combined(g, &how, &v))
        return false;
    int k = gen_pick(g, 4);
    GenValue to = combined(&v);
    if (k == 0) {
        gen_let(g, to, "reduce_to(%s, %s, %s)", how, v.name, pick_dest(g));
    } else if (k == 1 && how[0] == 's' && gen_find(g, fits_sum, NULL, &w)) {
        const char *x = gen_name(g, "x"), *y = gen_name(g, "x");
        gen_line(g, "let (%s, %s) = batch_reduce_to(sum, [(%s, %s), (%s, %s)])",
                 x, y, v.name, pick_dest(g), w.name, pick_dest(g));
        gen_add(g, to, x);
        gen_add(g, combined(&w), y);
    } else {
        gen_let(g, to, "reduce(%s, %s)", how, v.name);
    }
    return true;
}

static bool
fits_local(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    return !g->invariant && !v->type.rows && v->who != SAME;
}

static bool
do_local(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_local, NULL, &v))
        return false;
    gen_line(g, "print(\"{local_results(%s)}\")", v.name);
    v.who = SAME;
    gen_let(g, v, "local_results(%s).0", v.name);
    return true;
}

static bool
fits_share(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    return !g->invariant && v->type.rows && v->who != SAME;
}

/* What each replica has of a share: main computes with values of a length of
 * their own. */
static bool
do_parts(Gen *g)
{
    GenValue v;
    if (g->depth > 3 || !gen_find(g, fits_share, NULL, &v))
        return false;
    int len = g->scope.len;
    const char *outer = arena_strdup(g->arena, g->rows_name);
    const char *p = gen_name(g, "x");
    gen_open(g, "for %s in local_results(%s) {", p, v.name);
    v.who = SAME;
    v.frame = 0;
    gen_add(g, v, p);
    snprintf(g->rows_name, sizeof g->rows_name, "%s", p);
    gen_line(g, "print(\"{%s} {len(%s)}\")", p, p);
    if (gen_chance(g, 40))
        gen_line(g, "if len(%s) > 1 { print(\"{%s[-1]} {%s[:2]}\") }", p, p, p);
    for (int n = 1 + gen_pick(g, 4); n > 0; n--)
        gen_compute(g);
    gen_line(g, "print(\"{%s}\")", g->scope.data[g->scope.len - 1].name);
    snprintf(g->rows_name, sizeof g->rows_name, "%s", outer);
    g->scope.len = len;
    gen_close(g, "}");
    return true;
}

static bool
fits_same(Gen *g, const GenValue *v, const void *unused)
{
    (void)g;
    (void)unused;
    return v->who == SAME;
}

static bool
do_values(Gen *g)
{
    GenValue v, to = {.type = gen_scalar(DT_f32), .who = OWN, .size = 5};
    if (g->invariant || g->context != IN_MAIN)
        return false;
    if (gen_chance(g, 40)) {
        gen_let(g, to, "values_from(fn(ctx) = f32(ctx.replica_id) + %s)",
                gen_number(g, DT_f32));
        return true;
    }
    if (!gen_find(g, fits_same, NULL, &v) || v.type.rank > 0)
        return false;
    to = v;
    to.who = OWN;
    gen_let(g, to, "values_from(fn(ctx) = %s)", v.name);
    return true;
}

static bool
do_broadcast(Gen *g)
{
    GenValue v;
    if (!gen_find(g, fits_same, NULL, &v))
        return false;
    v.collective = true;
    gen_let(g, v, "broadcast_to(%s, %s)", v.name, pick_dest(g));
    return true;
}

static bool
do_cross_gather(Gen *g)
{
    return do_gather(g, "gather");
}

bool
gen_combine(Gen *g)
{
    static bool (*const all[])(Gen * g) = {
        do_reduce,      do_reduce, do_reduce,    do_reduce_axis,
        do_reduce_axis, do_local,  do_broadcast, do_cross_gather,
        do_values,      do_parts,  do_parts};
    if (g->context != IN_MAIN && g->context != IN_MERGE)
        return false;
    return all[gen_pick(g, sizeof all / sizeof *all)](g);
}

/* ---- gradients ---------------------------------------------------------- */

static bool
fits_loss(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    bool here = v->who == SAME || (g->context == IN_STEP && v->who != PART);
    return here && gen_is_float(v->type.dtype) &&
           !(v->who == SAME && v->collective) &&
           !(g->divergent && v->collective) && !v->in_control;
}

/* What the gradient of a loss is on each replica. */
static GenValue
gradient(Gen *g, Who loss, const GenValue *by)
{
    GenValue to = *by;
    to.who = gen_join(loss, by->who);
    if (g->invariant)
        to.who = by->who == ROWS ? ROWS : loss;
    to.size = 1000;
    to.fuzzy = true;
    to.frame = 0;
    return to;
}

static bool
is_by(const GenValue *v)
{
    return gen_is_float(v->type.dtype) && v->who != PART && !v->constant;
}

static bool
fits_by(Gen *g, const GenValue *v, const void *unused)
{
    (void)unused;
    return is_by(v) && (v->who == SAME || g->context == IN_STEP);
}

bool
gen_gradient(Gen *g)
{
    GenValue loss, by[2];
    if (!gen_find(g, fits_loss, NULL, &loss) ||
        !gen_find(g, fits_by, NULL, &by[0]) ||
        !gen_find(g, fits_by, NULL, &by[1]))
        return false;
    Who who = loss.who == ROWS ? PART : loss.who;
    bool collective = loss.collective || by[0].collective || by[1].collective;
    by[0].collective = by[1].collective = collective;
    const char *l = gen_name(g, "x");
    gen_line(g, "let %s = sum(%s)", l, loss.name);
    const char *x = gen_name(g, "x"), *y = gen_name(g, "x");
    if (gen_chance(g, 50) || !strcmp(by[0].name, by[1].name)) {
        gen_line(g, "let %s = dense(grad(%s, %s))", x, l, by[0].name);
    } else {
        const char *all = gen_name(g, "x");
        gen_line(g, "let %s = grad(%s, (%s, %s))", all, l, by[0].name,
                 by[1].name);
        gen_line(g, "let %s = dense(%s.0)", x, all);
        gen_line(g, "let %s = dense(%s.1)", y, all);
        gen_add(g, gradient(g, who, &by[1]), y);
    }
    gen_add(g, gradient(g, who, &by[0]), x);
    return true;
}
