/*
 * gen_want.c - new values: constants, random numbers, values of a given type
 */
#include "tests/random/gen_impl.h"

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

bool
gen_op_new(Gen *g)
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
bool
gen_op_random(Gen *g)
{
    static const char *const kinds[] = {"uniform", "normal", "gumbel",
                                        "truncated_normal"};
    bool needs_index = g->context == IN_UPDATE || g->context == IN_ELEMENT;
    GenValue v = new_value(g, gen_chance(g, 70) ? DT_f32 : DT_i32), i;
    bool index = (needs_index || gen_chance(g, 20));
    if (index && (!gen_find(g, gen_fits_int, NULL, &i) || i.type.rank ||
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
bool
gen_op_own(Gen *g)
{
    GenValue v = {.type = gen_scalar(DT_i32), .who = OWN};
    if (g->context != IN_STEP)
        return false;
    if (g->has_rows && gen_chance(g, 50)) {
        v.who = g->invariant ? PART : OWN;
        /* cast: lengths minus themselves are a constant */
        gen_let(g, v, "i32(len(%s))", g->rows_name);
    } else if (!g->invariant) {
        gen_let(g, v, "replica_id + %s", gen_number(g, DT_i32));
    }
    return true;
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
        return *gen_let(g, to, "%s(i32(len(%s)))", name, g->rows_name);
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
           gen_computable(g, v) && gen_is_own(v) == *(const bool *)own;
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
