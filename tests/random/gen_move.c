/*
 * gen_move.c - values made of elements of others: along axes, by index
 */
#include "tests/random/gen_impl.h"

#include <string.h>

static bool
fits_matrix(Gen *g, const GenValue *v, const void *unused)
{
    return gen_fits_any(g, v, unused) && v->type.rank == 2 &&
           v->type.dtype != DT_bool;
}

/* An axis of v that is not of rows, or -1. */
static int
static_axis(Gen *g, const GenValue *v)
{
    int first = v->type.rows;
    return v->type.rank > first ? first + gen_pick(g, v->type.rank - first)
                                : -1;
}

bool
gen_op_argument(Gen *g)
{
    GenValue v;
    if (!gen_find(g, gen_fits_tensor, NULL, &v) || v.type.dtype == DT_bool)
        return false;
    int axis = static_axis(g, &v);
    if (axis < 0 || (g->invariant && v.fuzzy))
        return false;
    GenValue to = v;
    to.size = 0;
    if (gen_chance(g, 60)) {
        to.type = gen_without_axes(&v.type, axis, axis + 1, false);
        to.type.dtype = DT_i64;
        gen_let(g, to, "%s(%s, axis = %d)",
                gen_chance(g, 50) ? "argmax" : "argmin", v.name, axis);
    } else {
        to.type.dtype = DT_i64;
        gen_let(g, to, "argsort(%s, axis = %d)", v.name, axis);
    }
    return true;
}

bool
gen_op_along(Gen *g)
{
    GenValue v;
    if (!gen_find(g, gen_fits_tensor, NULL, &v) || v.type.dtype == DT_bool)
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
    else if (k == 1 && !g->smooth && !(g->invariant && v.fuzzy))
        gen_let(g, to, "sort(%s, axis = %d%s)", v.name, axis,
                gen_chance(g, 30) ? ", descending = true" : "");
    else if (k == 2 && !g->smooth && !(g->invariant && v.fuzzy) &&
             (axis || !v.type.rows)) {
        to.type.dims[axis] = 1 + gen_pick(g, v.type.dims[axis]);
        gen_let(g, to, "top_k(%s, %d, axis = %d%s).0", v.name,
                to.type.dims[axis], axis,
                gen_chance(g, 50) ? ", largest = false" : "");
    } else
        gen_let(g, to, "reverse(%s, axis = %d)", v.name, axis);
    return true;
}

/* ---- moving elements ---------------------------------------------------- */

bool
gen_op_index(Gen *g)
{
    GenValue v;
    if (!gen_find(g, gen_fits_tensor, NULL, &v))
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
        to.type = gen_without_axes(&v.type, axis, axis + 1, false);
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

bool
gen_op_expand(Gen *g)
{
    GenValue v;
    if (!gen_find(g, gen_fits_any, NULL, &v) || v.type.rank >= GEN_RANK)
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

bool
gen_op_transpose(Gen *g)
{
    GenValue v;
    if (!gen_find(g, gen_fits_tensor, NULL, &v) ||
        v.type.rank - v.type.rows < 2)
        return false;
    GenValue to = v;
    int last = v.type.rank - 1;
    to.type.dims[last] = v.type.dims[last - 1];
    to.type.dims[last - 1] = v.type.dims[last];
    gen_let(g, to, "transpose(%s, %s)", v.name,
            v.type.rank == 2 ? "(1, 0)" : "(0, 2, 1)");
    return true;
}

bool
gen_op_reshape(Gen *g)
{
    GenValue v;
    if (!gen_find(g, gen_fits_tensor, NULL, &v))
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
    return gen_computable(g, v) &&
           gen_same_type(&v->type, &((const GenValue *)like)->type);
}

bool
gen_op_concat(Gen *g)
{
    GenValue x, y;
    if (!gen_find(g, gen_fits_tensor, NULL, &x) ||
        !gen_find(g, fits_equal, &x, &y) || gen_count(&x.type) > 16)
        return false;
    GenValue to = gen_joined(&x, &y);
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

bool
gen_op_pad(Gen *g)
{
    GenValue v;
    if (!gen_find(g, gen_fits_tensor, NULL, &v) || v.type.dtype == DT_bool ||
        v.type.rank - v.type.rows != 1)
        return false;
    GenValue to = v;
    to.type.dims[v.type.rows] += 2;
    const char *ones = v.type.rows ? "[0, 1]" : "[1]";
    gen_let(g, to, "pad(%s, %s, %s)", v.name, ones, ones);
    return true;
}

bool
gen_op_take(Gen *g)
{
    GenValue v, i;
    if (!gen_find(g, gen_fits_tensor, NULL, &v) || v.type.rows ||
        !gen_find(g, gen_fits_int, NULL, &i) || i.type.rank > 1 ||
        v.type.rank + i.type.rank - 1 > GEN_RANK || i.type.dtype == DT_u8)
        return false;
    GenValue to = gen_joined(&v, &i);
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

/* Other elements of each row, by numbers that the index along another axis
 * gives: one that is not of rows, so that the batch's division is nothing. */
bool
gen_op_along_axis(Gen *g)
{
    GenValue v, y;
    if (!gen_find(g, gen_fits_tensor, NULL, &v))
        return false;
    int axis = static_axis(g, &v), other = static_axis(g, &v);
    int step = 1 + gen_pick(g, 3), first = gen_pick(g, 4);
    if (axis < 0)
        return false;
    const char *index = gen_text(g, "(iota(%s, axis = %d) * %d + %d) %% %d",
                                 gen_shape_text(g, &v.type), other, step, first,
                                 v.type.dims[axis]);
    bool adds = gen_chance(g, 50) && v.type.dtype != DT_bool;
    if (gen_chance(g, 40) || !gen_find(g, fits_equal, &v, &y)) {
        gen_let(g, v, "take_along_axis(%s, %s, axis = %d)", v.name, index,
                axis);
        return true;
    }
    GenValue to = gen_joined(&v, &y);
    to.size = v.size + y.size * (adds ? v.type.dims[axis] : 1);
    gen_let(g, to, "%s_along_axis(%s, %s, %s, axis = %d)", adds ? "add" : "put",
            v.name, index, y.name, axis);
    return true;
}

bool
gen_op_one_hot(Gen *g)
{
    GenValue v;
    if (!gen_find(g, gen_fits_int, NULL, &v) || v.type.rank >= GEN_RANK)
        return false;
    GenValue to = v;
    to.type.dtype = DT_f32;
    to.type.dims[to.type.rank++] = 3;
    to.size = 1;
    gen_let(g, to, "one_hot(%s %% 3, 3)", v.name);
    return true;
}

bool
gen_op_matmul(Gen *g)
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
    GenValue to = gen_joined(&x, &y);
    to.type.dims[1] = y.type.dims[turned ? 0 : 1];
    to.size = 64;
    if (turned)
        gen_let(g, to, "einsum(\"ij,kj->ik\", %s, %s)", x.name, y.name);
    else
        gen_let(g, to, "%s @ %s", x.name, y.name);
    return true;
}
