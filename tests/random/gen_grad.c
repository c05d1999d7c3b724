/*
 * gen_grad.c - losses whose gradients are compared with finite differences
 *
 * The reference differentiates as the compiler does, so gradients need a check
 * of their own.  A loss is a smooth function of per-replica and shared values,
 * with collectives, loops and branches in it; along a direction it changes as
 * its gradient says, or an assert of main fails:
 *
 *   (sum of losses at x + h d  -  the same at x - h d) / 2 h  =  sum of grad d
 *
 * with both sums over the replicas, because the gradient of a collective is
 * that of the losses of all replicas.
 */
#include "tests/random/gen_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- bodies ------------------------------------------------------------- */

static bool
fits_wave(Gen *g, const GenValue *v, const void *unused)
{
    return gen_fits_float(g, v, unused) && v->type.dtype == DT_f32;
}

static bool
fits_alike(Gen *g, const GenValue *v, const void *like)
{
    return fits_wave(g, v, NULL) &&
           gen_same_type(&v->type, &((const GenValue *)like)->type);
}

/* Goes round with a value: for, or while with a bound. */
static void
make_loop(Gen *g)
{
    GenValue x, y;
    if (!gen_find(g, fits_wave, NULL, &x) || !gen_find(g, fits_alike, &x, &y))
        return;
    const char *m = gen_name(g, "m"), *k = gen_name(g, "k");
    gen_line(g, "mut %s = %s", m, x.name);
    if (gen_chance(g, 50)) {
        gen_open(g, "for %s in 0..%d {", k, 1 + gen_pick(g, 3));
    } else {
        gen_line(g, "mut %s = 0", k);
        gen_open(g, "while %s < %d max 3 {", k, 1 + gen_pick(g, 4));
        gen_line(g, "%s += 1", k);
    }
    gen_line(g, "%s = sin(%s + %s)", m, m, y.name);
    gen_close(g, "}");
    GenValue to = gen_joined(&x, &y);
    to.size = 1;
    gen_add(g, to, m);
}

/* Of two ways to compute a value, one, by something that is not perturbed. */
static void
make_branch(Gen *g)
{
    GenValue x, y;
    if (!gen_find(g, fits_wave, NULL, &x) || !gen_find(g, fits_alike, &x, &y))
        return;
    GenValue to = gen_joined(&x, &y);
    to.who = OWN;
    to.size = 2;
    gen_let(g, to, "if replica_id > %d { sin(%s) } else { 0.5 * cos(%s) }",
            gen_pick(g, 2), x.name, y.name);
}

static bool
fits_combined(Gen *g, const GenValue *v, const void *unused)
{
    return fits_wave(g, v, unused) && v->who == OWN;
}

static void
make_collective(Gen *g)
{
    static const char *const ways[] = {"all_reduce(sum, %s)",
                                       "all_reduce(mean, %s)"};
    GenValue v;
    if (!gen_find(g, fits_combined, NULL, &v))
        return;
    v = gen_tame(g, v, 2);
    GenValue to = v;
    to.who = SAME;
    to.size = 5 * v.size;
    if (v.type.rank > 0 && gen_chance(g, 40)) {
        to.type = gen_without_axes(&v.type, 0, 1, false);
        gen_let(g, to, "sum(sin(all_gather(%s, axis = 0)), axis = 0)", v.name);
    } else if (gen_chance(g, 30)) {
        to.type = gen_scalar(v.type.dtype);
        gen_let(g, to, "global_mean(%s)", v.name);
    } else {
        const char *way = ways[gen_pick(g, 2)], *at = strchr(way, '%');
        gen_let(g, to, "%.*s%s)", (int)(at - way), way, v.name);
    }
}

static void
make_term(Gen *g)
{
    int k = gen_pick(g, 10);
    if (k == 0)
        make_loop(g);
    else if (k == 1)
        make_branch(g);
    else if (k == 2)
        make_collective(g);
    else
        gen_compute(g);
}

static void
declare_loss(Gen *g, const char *name, const GenValue *x, const GenValue *w)
{
    gen_open(g, "fn %s(px, pw) {", name);
    gen_add(g, *x, "px");
    gen_add(g, *w, "pw");
    g->smooth = true;
    for (int n = 3 + gen_pick(g, 8); n > 0; n--)
        make_term(g);
    Str sum = str_new(g->arena);
    str_add(&sum, "sum(sin(px)) * 0.25");
    for (int n = 1 + gen_pick(g, 3); n > 0; n--) {
        GenValue v;
        if (gen_find(g, fits_wave, NULL, &v))
            str_addf(&sum, " + sum(%s)", gen_tame(g, v, 20).name);
    }
    gen_line(g, "return %s", str_text(&sum));
    g->smooth = false;
    gen_close(g, "}");
}

/* ---- the check ---------------------------------------------------------- */

static void
declare_check(Gen *g, const char *check, const char *loss)
{
    gen_open(g, "fn %s(x, w) {", check);
    gen_line(g, "let l = %s(x, w)", loss);
    gen_line(g, "let gx = grad(l, x)");
    gen_line(g, "let gw = dense(grad(l, w))");
    gen_line(g, "let dx = 0.00001 * cos(3.0 * x + 1.0)");
    gen_line(g, "let dw = 0.00001 * cos(2.0 * w + 0.5)");
    gen_line(g, "let up = %s(x + dx, w + dw)", loss);
    gen_line(g, "let down = %s(x - dx, w - dw)", loss);
    gen_line(g, "let have = all_reduce(sum, 0.5 * (up - down))");
    gen_line(g, "let want = all_reduce(sum, sum(gx * dx) + sum(gw * dw))");
    gen_line(g, "return abs(have - want) / (0.00001 + abs(have))");
    gen_close(g, "}");
}

void
gen_declare_loss(Gen *g)
{
    GenValue x = {.type = gen_random_type(g, DT_f32), .who = OWN, .size = 2};
    GenValue w = {.type = gen_random_type(g, DT_f32), .size = 2};
    g->loss_x = x.type;
    g->loss_w = w.type;
    GenScope outer = gen_enter(g, IN_STEP);
    g->scope.len = 0;
    g->rows_name[0] = '\0';
    const char *loss = gen_name(g, "q");
    declare_loss(g, loss, &x, &w);
    g->loss_check = gen_name(g, "c");
    declare_check(g, g->loss_check, loss);
    gen_leave(g, outer);
}

/* Compares in main. */
void
gen_check_loss(Gen *g)
{
    const char *x = gen_name(g, "x"), *w = gen_name(g, "x"),
               *off = gen_name(g, "x");
    gen_line(g,
             "let %s = values_from(fn(ctx) = sin(f32(ctx.replica_id) + "
             "uniform(%s, seed = 4, index = ctx.replica_id)))",
             x, gen_shape_text(g, &g->loss_x));
    gen_line(g, "let %s = uniform(%s, seed = 5, index = 0)", w,
             gen_shape_text(g, &g->loss_w));
    gen_line(g, "let %s = run %s(%s, %s)", off, g->loss_check, x, w);
    gen_line(g, "assert(%s < 0.0001, \"a gradient is off by {%s}\")", off, off);
}
