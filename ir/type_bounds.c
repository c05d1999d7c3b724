/*
 * type_bounds.c - the greatest sizes that a type with batch symbols can have
 */
#include "ir/type_bounds.h"

static const IrSymbol *
symbol_of(const IrModule *m, Dim d)
{
    return ir_dim_is_const(d) ? NULL : &m->symbols.data[d.sym];
}

/* The greatest value of d; false if it overflows or the least is negative.  d
 * is linear, so both are at 0 rows or at the bound. */
static bool
greatest(const IrModule *m, Dim d, int64_t *out)
{
    const IrSymbol *s = symbol_of(m, d);
    int64_t full = d.c;
    if (s && (__builtin_mul_overflow(d.k, s->bound, &full) ||
              __builtin_add_overflow(d.c, full, &full)))
        return false;
    *out = full > d.c ? full : d.c;
    return full >= 0 && d.c >= 0;
}

bool
ir_type_bytes(const IrModule *m, const IrType *t, int64_t *bytes)
{
    int64_t n = (int64_t)dtype_info[t->dtype].bytes, size;
    bool empty = false;
    for (int i = 0; i < t->rank; i++) {
        if (!greatest(m, t->dims[i], &size))
            return false;
        empty |= size == 0;
        /* Strides are computed even for empty values. */
        if (size && (__builtin_mul_overflow(n, size, &n) || n > IR_MAX_BYTES))
            return false;
    }
    *bytes = empty ? 0 : n;
    return true;
}

Dim
ir_dim_full(const IrModule *m, Dim d)
{
    const IrSymbol *s = symbol_of(m, d);
    return s ? ir_dim_const(ir_dim_value(d, s->bound)) : d;
}

IrType
ir_type_full(const IrModule *m, const IrType *t)
{
    IrType full = *t;
    for (int i = 0; i < t->rank; i++)
        full.dims[i] = ir_dim_full(m, t->dims[i]);
    return full;
}

bool
ir_type_is_local(const IrModule *m, const IrType *t)
{
    for (int i = 0; i < t->rank; i++) {
        const IrSymbol *s = symbol_of(m, t->dims[i]);
        if (s && ir_symbol_is_share(s))
            return true;
    }
    return false;
}
