/*
 * random_values.c - random programs: choosing values, and computing
 */
#include "ir/rules/build.h"
#include "tests/passes/random_impl.h"

/* ---- choosing ----------------------------------------------------------- */

static uint64_t
next(Gen *g)
{
    uint64_t x = g->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

int
random_pick(Gen *g, int n)
{
    return (int)(next(g) % (uint64_t)n);
}

bool
random_chance(Gen *g, int percent)
{
    return random_pick(g, 100) < percent;
}

Loc
random_here(Gen *g)
{
    return (Loc){g->line, 1, 1, 0};
}

/* ---- values in scope ---------------------------------------------------- */

void
random_add_value(Gen *g, IrValue *v)
{
    VEC_PUSH(g->m->arena, g->scope, v);
}

/* A value in scope, later ones rather than earlier ones; NULL: none fits. */
IrValue *
random_find_value(Gen *g, Fits fits, const void *like)
{
    IrValue *found = NULL;
    for (int i = g->scope.len - 1; i >= 0; i--)
        if (fits(g->scope.data[i], like)) {
            found = g->scope.data[i];
            if (random_chance(g, 40))
                break;
        }
    return found;
}

bool
random_is_host(const IrValue *v)
{
    return v->type.locality == LOCAL_HOST;
}

bool
random_is_equal_on_all(const IrValue *v)
{
    return v->type.locality != LOCAL_PER_REPLICA;
}

bool
random_is_number(const IrValue *v, const void *unused)
{
    (void)unused;
    return v->type.dtype != DT_bool;
}

bool
random_is_host_number(const IrValue *v, const void *unused)
{
    return random_is_host(v) && random_is_number(v, unused);
}

bool
random_is_own(const IrValue *v, const void *unused)
{
    return !random_is_equal_on_all(v) && random_is_number(v, unused);
}

bool
random_is_flag(const IrValue *v, const void *unused)
{
    (void)unused;
    return v->type.dtype == DT_bool && v->type.rank == 0;
}

bool
random_is_host_flag(const IrValue *v, const void *unused)
{
    return random_is_host(v) && random_is_flag(v, unused);
}

static bool
is_alike(const IrValue *v, const void *like)
{
    const IrValue *x = like;
    return v->type.dtype == x->type.dtype &&
           ir_type_same_shape(&v->type, &x->type);
}

bool
random_is_alike_here(const IrValue *v, const void *like)
{
    const IrValue *x = like;
    return is_alike(v, like) && random_is_host(v) == random_is_host(x);
}

/* Of equal shape, or a scalar that broadcasts. */
static bool
goes_with(const IrValue *v, const void *like)
{
    const IrValue *x = like;
    return v->type.dtype == x->type.dtype &&
           random_is_host(v) == random_is_host(x) &&
           (is_alike(v, like) || v->type.rank == 0);
}

/* ---- computing ---------------------------------------------------------- */

static IrValue *
scalar_of(Gen *g, IrBlock *b, DType t)
{
    if (t == DT_f32)
        return ir_const_float(b, t, 0.25 * (random_pick(g, 13) - 6),
                              random_here(g));
    return ir_const_int(b, t, random_pick(g, 7) - 2, random_here(g));
}

IrValue *
random_new_constant(Gen *g, IrBlock *b)
{
    static const int64_t sizes[] = {3, 6};
    IrValue *x = scalar_of(g, b, random_chance(g, 75) ? DT_f32 : DT_i32);
    if (random_chance(g, 40))
        return x;
    Dim d = ir_dim_const(sizes[random_pick(g, 2)]);
    IrValue *number = ir_build_iota(b, x->type.dtype, 1, &d, 0, random_here(g));
    return ir_build2(b, OP_sub, number, x, random_here(g));
}

static IrValue *
unary(Gen *g, IrBlock *b, IrValue *x)
{
    static const IrOpKind kinds[] = {OP_neg, OP_abs, OP_sign, OP_sin, OP_tanh};
    bool is_float = dtype_is_float(x->type.dtype);
    return ir_build1(b, kinds[random_pick(g, is_float ? 5 : 3)], x,
                     random_here(g));
}

static IrValue *
binary(Gen *g, IrBlock *b, IrValue *x, IrValue *y)
{
    static const IrOpKind kinds[] = {OP_add,     OP_sub,     OP_mul,
                                     OP_maximum, OP_minimum, OP_mod};
    IrOpKind kind = kinds[random_pick(g, 6)];
    IrValue *v = ir_build2(b, kind, x, y, random_here(g));
    if (kind == OP_mul && dtype_is_float(v->type.dtype))
        v = ir_build1(b, OP_sin, v, random_here(g));
    return v;
}

/* The same elements elsewhere. */
static IrValue *
move(Gen *g, IrBlock *b, IrValue *x)
{
    static const int64_t perm[] = {1, 0}, start[] = {0, 1}, step[] = {1, 1};
    if (x->type.rank == 0)
        return ir_build_broadcast(
            b, x, 1, (Dim[]){ir_dim_const(random_chance(g, 50) ? 3 : 6)},
            random_here(g));
    if (!ir_type_is_static(&x->type))
        return ir_build_reverse(b, x, (int64_t[]){0}, 1, random_here(g));
    if (x->type.rank == 2)
        return random_chance(g, 50) || x->type.dims[1].c == 1
                   ? ir_build_transpose(b, x, perm, random_here(g))
                   : ir_build_slice(b, x, start,
                                    (Dim[]){x->type.dims[0], ir_dim_const(1)},
                                    step, random_here(g));
    if (x->type.dims[0].c > 6)
        return ir_build_reverse(b, x, (int64_t[]){0}, 1, random_here(g));
    if (x->type.dims[0].c == 6)
        return ir_build_reshape(
            b, x, 2, (Dim[]){ir_dim_const(2), ir_dim_const(3)}, random_here(g));
    return ir_build_concat(b, 2, (IrValue *[]){x, x}, 0, random_here(g));
}

static IrValue *
reduced(Gen *g, IrBlock *b, IrValue *x)
{
    static const IrOpKind kinds[] = {OP_sum, OP_reduce_max, OP_prod};
    int64_t axis = x->type.rank - 1;
    if (axis < 0)
        return unary(g, b, x);
    IrValue *v = ir_build_reduce(b, kinds[random_pick(g, 3)], x, &axis, 1,
                                 random_chance(g, 30), random_here(g));
    return dtype_is_float(v->type.dtype)
               ? ir_build1(b, OP_sin, v, random_here(g))
               : v;
}

/* x with rows changed by something like it, or by itself; some rows are named
 * twice and some not there. */
static IrValue *
changed(Gen *g, IrBlock *b, IrValue *x)
{
    static const IrUpdate modes[] = {UPDATE_set, UPDATE_add, UPDATE_max,
                                     UPDATE_sub};
    if (x->type.rank == 0)
        return unary(g, b, x);
    IrValue *values = random_find_value(g, random_is_alike_here, x);
    IrValue *rows =
        ir_build_iota(b, DT_i32, 1, x->type.dims, 0, random_here(g));
    IrValue *by = ir_const_int(b, DT_i32, random_pick(g, 4), random_here(g));
    rows = ir_build2(b, random_chance(g, 50) ? OP_sub : OP_mul, rows, by,
                     random_here(g));
    return ir_build_scatter(b, modes[random_pick(g, 4)], x, rows,
                            values ? values : x, 0, random_here(g));
}

void
random_gen_compute(Gen *g, IrBlock *b, Fits fits)
{
    IrValue *x = random_chance(g, 90) ? random_find_value(g, fits, NULL) : NULL;
    IrValue *v;
    if (!x) {
        random_add_value(g, random_new_constant(g, b));
        return;
    }
    IrValue *y = random_find_value(g, goes_with, x);
    switch (random_pick(g, 9)) {
    case 0:
        v = unary(g, b, x);
        break;
    case 5:
        v = changed(g, b, x);
        break;
    case 1:
        v = move(g, b, x);
        break;
    case 2:
        v = reduced(g, b, x);
        break;
    case 3:
        v = ir_build_cast(b, x, random_chance(g, 60) ? DT_f32 : DT_i32,
                          random_here(g));
        break;
    case 4:
        v = ir_build2(b, random_chance(g, 50) ? OP_lt : OP_eq, x, y,
                      random_here(g));
        break;
    default:
        v = binary(g, b, x, y);
        break;
    }
    random_add_value(g, v);
}
