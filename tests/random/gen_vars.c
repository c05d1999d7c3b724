/*
 * gen_vars.c - variables of random programs: the table of synchronization,
 * aggregation and context (frontend/vars/semantics.def), as far as it allows
 */
#include "tests/random/gen_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- declarations ------------------------------------------------------- */

static const char *const agg_names[] = {"none", "sum", "mean", "first"};

static const char *
initial_value(Gen *g, const GenVar *v)
{
    DType t = v->type.dtype;
    int k = gen_pick(g, 4);
    if (v->on_read && g->invariant)
        return "zeros"; /* each replica has it */
    if (gen_is_float(t) && k == 0)
        return gen_text(g, "normal(stddev = 0.5, seed = %d)", gen_pick(g, 9));
    if (gen_is_float(t) && k == 1)
        return "uniform()";
    if (t != DT_bool && k == 2)
        return "zeros";
    return gen_number(g, t);
}

static void
declare_var(Gen *g)
{
    GenVar v = {.type = gen_random_type(g, gen_dtype(g)),
                .on_read = gen_chance(g, 35),
                .agg = gen_pick(g, 4)};
    DType t = v.type.dtype;
    if (t == DT_bool)
        v.agg = v.agg % 2 ? AGG_FIRSTS : NO_AGG;
    if (v.agg == AGG_MEANS && !gen_is_float(t))
        v.agg = AGG_SUMS;
    if (v.on_read && g->invariant) {
        v.agg = AGG_SUMS;
        if (t == DT_bool)
            v.on_read = false;
    }
    if (t == DT_bool && v.agg == AGG_SUMS)
        v.agg = AGG_FIRSTS;
    snprintf(v.name, sizeof v.name, "%s", gen_name(g, "v"));
    const char *beside = "";
    if (g->vars.len && gen_chance(g, 25)) {
        const GenVar *other = &g->vars.data[gen_pick(g, g->vars.len)];
        snprintf(v.beside, sizeof v.beside, "%s", other->name);
        beside = gen_text(g, " colocate(%s)", other->name);
    }
    gen_line(g, "var %s: %s = %s%s%s%s%s", v.name, gen_type_text(g, &v.type),
             initial_value(g, &v), v.on_read ? " sync(on_read)" : "",
             v.agg || gen_chance(g, 20)
                 ? gen_text(g, " aggregate(%s)", agg_names[v.agg])
                 : "",
             beside, gen_chance(g, 15) ? " trainable(false)" : "");
    v.rowless = v.on_read;
    v.on_read &= !g->central;
    VEC_PUSH(g->arena, g->vars, v);
}

void
gen_declare_vars(Gen *g)
{
    for (int n = 3 + gen_pick(g, 5); n > 0; n--)
        declare_var(g);
    if (gen_chance(g, 30)) {
        g->counter = gen_name(g, "n");
        gen_line(g, "non_slot var %s: i64 = 0", g->counter);
    }
}

/* ---- reading ------------------------------------------------------------ */

/* What reading v here gives; false: nothing that one can compute with. */
static bool
read_as(const Gen *g, const GenVar *v, Who *out)
{
    bool cross = g->context == IN_MAIN || g->context == IN_MERGE;
    *out = SAME;
    if (!v->on_read)
        return true;
    if (cross)
        return v->agg != NO_AGG;
    *out = g->invariant ? PART : OWN;
    return g->context == IN_STEP;
}

bool
gen_read(Gen *g)
{
    const GenVar *v = &g->vars.data[gen_pick(g, g->vars.len)];
    GenValue x = {.type = v->type, .size = 1000};
    if (!read_as(g, v, &x.who))
        return false;
    x.fuzzy = gen_is_float(v->type.dtype);
    if (!v->on_read && gen_chance(g, 40))
        gen_add(g, x, v->name);
    else
        gen_let(g, x, "read(%s)", v->name);
    return true;
}

/* ---- writing the whole -------------------------------------------------- */

/* What may be written to a variable here. */
typedef struct Writing {
    bool same, own; /* values that are equal on all; that may differ */
    bool only_sets; /* = alone */
    bool only_adds; /* =, += and -= alone */
} Writing;

static Writing
writing_in_step(const Gen *g, const GenVar *v)
{
    bool own = !g->invariant || g->rows_name[0];
    if (v->on_read)
        return (Writing){
            .same = !g->invariant, .own = own, .only_adds = g->invariant};
    if (g->divergent)
        return (Writing){0};
    switch (v->agg) {
    case NO_AGG:
        return (Writing){.same = true};
    case AGG_SUMS:
        return (Writing){.own = own, .only_adds = g->invariant};
    default:
        return (Writing){.same = true, .own = !g->invariant};
    }
}

static Writing
writing_here(const Gen *g, const GenVar *v)
{
    if (g->context == IN_STEP)
        return writing_in_step(g, v);
    Writing w = {.same = true};
    if (g->context == IN_UPDATE) {
        bool in_it = strcmp(v->name, g->updated->name) == 0 ||
                     strcmp(v->beside, g->updated->name) == 0;
        w.same = in_it && !(v->on_read && g->invariant);
    } else if (v->on_read) {
        w.only_sets = v->agg == AGG_SUMS;
    }
    return w;
}

static const char *
pick_mode(Gen *g, const GenVar *v, const Writing *w)
{
    static const char *const modes[] = {"=", "+=", "-=", "*=", "/="};
    if (w->only_sets || v->type.dtype == DT_bool)
        return "=";
    if (w->only_adds)
        return modes[gen_pick(g, 3)];
    return modes[gen_pick(g, gen_is_float(v->type.dtype) ? 5 : 4)];
}

static void
write_whole(Gen *g, const GenVar *v, const Writing *w)
{
    bool own = w->own && (!w->same || gen_chance(g, 60));
    const char *mode = pick_mode(g, v, w);
    GenValue x = gen_chance(g, 25) ? gen_scalar_of(g, v->type.dtype, own)
                                   : gen_like(g, v->type, own);
    x = gen_tame(g, x, 4);
    if (mode[0] == '/')
        gen_line(g, "%s /= cos(%s) + 2.0", v->name, x.name);
    else
        gen_line(g, "%s %s %s", v->name, mode, x.name);
}

/* ---- writing rows ------------------------------------------------------- */

static const char *
pick_scatter(Gen *g, const GenVar *v, bool same)
{
    static const char *const all[] = {"add", "sub", "mul",   "div",
                                      "min", "max", "update"};
    int n = 7;
    if (v->agg == AGG_SUMS || v->agg == AGG_MEANS)
        n = 4;
    if ((g->invariant && !same) || (v->agg == AGG_MEANS && same))
        n = 2;
    return all[gen_pick(g, n)];
}

/* Rows of n by number, as text; count is how many. */
static const char *
pick_rows(Gen *g, int n, int *count)
{
    *count = 1 + gen_pick(g, 3);
    Str s = str_new(g->arena);
    for (int i = 0; i < *count; i++)
        str_addf(&s, "%s%d", i ? ", " : "[", gen_pick(g, n));
    str_addc(&s, ']');
    return str_text(&s);
}

static void
write_rows(Gen *g, const GenVar *v, const Writing *w)
{
    int count;
    bool own = w->own && (!w->same || gen_chance(g, 60));
    const char *how = pick_scatter(g, v, !own);
    int axis = gen_chance(g, 70) ? 0 : gen_pick(g, v->type.rank);
    const char *rows = pick_rows(g, v->type.dims[axis], &count);
    const char *along = axis ? gen_text(g, ", axis = %d", axis) : "";
    GenType t = v->type;
    t.dims[axis] = count;
    GenValue x = gen_chance(g, 30) ? gen_scalar_of(g, t.dtype, own)
                                   : gen_like(g, t, own);
    x = gen_tame(g, x, 4);
    bool divides = strcmp(how, "div") == 0;
    if (divides && gen_is_float(t.dtype))
        gen_line(g, "scatter_div(%s, %s, cos(%s) + 2.0%s)", v->name, rows,
                 x.name, along);
    else
        gen_line(g, "scatter_%s(%s, %s, %s%s%s)", how, v->name, rows, x.name,
                 divides ? " % 3 + 4" : "", along);
}

bool
gen_write(Gen *g)
{
    const GenVar *v = &g->vars.data[gen_pick(g, g->vars.len)];
    Writing w = writing_here(g, v);
    if (!w.same && !w.own)
        return false;
    bool has_rows = v->type.rank && !v->rowless && v->type.dtype != DT_bool;
    if (has_rows && gen_chance(g, 30))
        write_rows(g, v, &w);
    else
        write_whole(g, v, &w);
    return true;
}

/* ---- update ------------------------------------------------------------- */

/* A block of another context sees only values that are the same on all
 * replicas. */
void
gen_keep_same(Gen *g)
{
    int n = 0;
    for (int i = 0; i < g->scope.len; i++)
        if (g->scope.data[i].who == SAME)
            g->scope.data[n++] = g->scope.data[i];
    g->scope.len = n;
}

GenScope
gen_enter(Gen *g, GenContext context)
{
    GenScope outer = {g->context, g->frame, g->has_rows, g->scope.len, NULL};
    outer.values = arena_copy(g->arena, g->scope.data,
                              (size_t)g->scope.len * sizeof *g->scope.data);
    g->context = context;
    g->frame = ++g->num_frames;
    g->has_rows = false;
    g->depth++;
    return outer;
}

void
gen_leave(Gen *g, GenScope outer)
{
    g->context = outer.context;
    g->frame = outer.frame;
    g->has_rows = outer.has_rows;
    g->scope.len = outer.len;
    memcpy(g->scope.data, outer.values,
           (size_t)outer.len * sizeof *g->scope.data);
    g->depth--;
}

bool
gen_update(Gen *g)
{
    const GenVar *v = &g->vars.data[gen_pick(g, g->vars.len)];
    if (g->counter && gen_chance(g, 20) &&
        (g->context == IN_MAIN || g->context == IN_MERGE)) {
        gen_line(g, "update non_slot([%s]) { %s += 1 }", v->name, g->counter);
        return true;
    }
    if ((g->context != IN_MAIN && g->context != IN_MERGE) ||
        (v->on_read && g->invariant))
        return false;
    const GenVar *before = g->updated;
    gen_open(g, "update %s {", v->name);
    GenScope outer = gen_enter(g, IN_UPDATE);
    gen_keep_same(g);
    g->updated = v;
    for (int n = gen_pick(g, 3); n > 0; n--)
        if (!gen_chance(g, 50) || !gen_read(g))
            gen_compute(g);
    Writing w = {.same = true};
    write_whole(g, v, &w);
    for (int n = gen_pick(g, 3); n > 0; n--)
        gen_write(g);
    g->updated = before;
    gen_leave(g, outer);
    gen_close(g, "}");
    return true;
}

/* ---- their values at the end -------------------------------------------- */

void
gen_print_vars(Gen *g)
{
    if (g->counter)
        gen_line(g, "print(\"%s {%s}\")", g->counter, g->counter);
    for (int i = 0; i < g->vars.len; i++) {
        const GenVar *v = &g->vars.data[i];
        if (!v->on_read || v->agg != NO_AGG)
            gen_line(g, "print(\"%s {%s}\")", v->name, v->name);
    }
}
