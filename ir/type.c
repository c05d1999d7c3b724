/*
 * type.c - dimensions and types
 *
 * Dimensions are linear in one symbol, so their arithmetic is that of
 * polynomials of degree 1; results of a higher degree (n * n) or in two symbols
 * (n + m) are refused, as is overflow.
 */
#include "ir/type.h"

#include <assert.h>
Dim
ir_dim_linear(int64_t c, int64_t k, int32_t sym)
{
    if (k == 0 || sym < 0)
        return ir_dim_const(c);
    return (Dim){c, k, sym};
}

/* The symbol of a sum of a and b in *sym; false if they have different ones. */
static bool
common_symbol(Dim a, Dim b, int32_t *sym)
{
    *sym = ir_dim_is_const(a) ? b.sym : a.sym;
    return ir_dim_is_const(a) || ir_dim_is_const(b) || a.sym == b.sym;
}

bool
ir_dim_add(Dim a, Dim b, Dim *out)
{
    int64_t c, k;
    int32_t sym;
    if (!common_symbol(a, b, &sym) || __builtin_add_overflow(a.c, b.c, &c) ||
        __builtin_add_overflow(a.k, b.k, &k))
        return false;
    *out = ir_dim_linear(c, k, sym);
    return true;
}

bool
ir_dim_sub(Dim a, Dim b, Dim *out)
{
    int64_t c, k;
    int32_t sym;
    if (!common_symbol(a, b, &sym) || __builtin_sub_overflow(a.c, b.c, &c) ||
        __builtin_sub_overflow(a.k, b.k, &k))
        return false;
    *out = ir_dim_linear(c, k, sym);
    return true;
}

bool
ir_dim_mul(Dim a, Dim b, Dim *out)
{
    int64_t c, k;
    if (ir_dim_is_const(a)) {
        Dim swap = a;
        a = b;
        b = swap;
    }
    if (!ir_dim_is_const(b) || __builtin_mul_overflow(a.c, b.c, &c) ||
        __builtin_mul_overflow(a.k, b.c, &k))
        return false;
    *out = ir_dim_linear(c, k, a.sym);
    return true;
}

/* x / y where that is exact. */
static bool
divide_exactly(int64_t x, int64_t y, int64_t *out)
{
    if (y == 0 || (x == INT64_MIN && y == -1) || x % y != 0)
        return false;
    *out = x / y;
    return true;
}

bool
ir_dim_div(Dim a, Dim b, Dim *out)
{
    int64_t c, k, back;
    if (ir_dim_is_const(b)) {
        if (!divide_exactly(a.c, b.c, &c) || !divide_exactly(a.k, b.c, &k))
            return false;
        *out = ir_dim_linear(c, k, a.sym);
        return true;
    }
    /* A symbolic b divides only its multiples. */
    if (!(ir_dim_is_const(a) || a.sym == b.sym) ||
        !divide_exactly(a.k, b.k, &c) ||
        __builtin_mul_overflow(c, b.c, &back) || back != a.c)
        return false;
    *out = ir_dim_const(c);
    return true;
}

int64_t
ir_dim_value(Dim d, int64_t rows)
{
    /* Unsigned arithmetic, since a type that was never checked may overflow. */
    return (int64_t)((uint64_t)d.c + (uint64_t)d.k * (uint64_t)rows);
}

IrType
ir_type_scalar(DType t, Locality l)
{
    return (IrType){.dtype = t, .locality = l};
}

bool
ir_type_same_shape(const IrType *a, const IrType *b)
{
    assert(a->rank >= 0 && a->rank <= IR_MAX_RANK);
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++) {
        if (!ir_dim_equal(a->dims[i], b->dims[i]))
            return false;
    }
    return true;
}

bool
ir_type_equal(const IrType *a, const IrType *b)
{
    return a->dtype == b->dtype && a->locality == b->locality &&
           (a->locality != LOCAL_ON || a->on == b->on) &&
           ir_type_same_shape(a, b);
}

bool
ir_type_is_static(const IrType *t)
{
    for (int i = 0; i < t->rank; i++) {
        if (!ir_dim_is_const(t->dims[i]))
            return false;
    }
    return true;
}

bool
ir_type_elements(const IrType *t, Dim *out)
{
    Dim n = ir_dim_const(1);
    for (int i = 0; i < t->rank; i++) {
        if (!ir_dim_mul(n, t->dims[i], &n))
            return false;
    }
    *out = n;
    return true;
}

const char *
ir_locality_name(Locality l)
{
    static const char *const names[] = {
        [LOCAL_HOST] = "host",
        [LOCAL_MIRRORED] = "mirrored",
        [LOCAL_ON] = "on",
        [LOCAL_PER_REPLICA] = "per_replica",
    };
    return names[l];
}
