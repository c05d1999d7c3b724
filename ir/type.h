/*
 * type.h - types of values: element type, shape, locality
 *
 * A dimension is a constant or linear in one batch symbol (D1): c + k * sym,
 * where the symbol is n, the rows this replica holds of a batch, or N, the
 * rows that all replicas hold together.  Symbols live in the module; every
 * execution of the iter_next that defines them gives them new values.
 */
#ifndef TFD_IR_TYPE_H
#define TFD_IR_TYPE_H

#include "ir/base/number/dtype.h"
#include "ir/base/str.h"

#define IR_MAX_RANK 8

typedef struct Dim {
    int64_t c, k; /* c + k * sym; k is 0 when sym is -1 */
    int32_t sym;
} Dim;

/* Where a value is and whether the replicas agree on it, least first.  The
 * order is that of a join: the greater one wins. */
typedef enum Locality {
    LOCAL_HOST,       /* one value, on the host that runs main */
    LOCAL_MIRRORED,   /* one value a replica, equal on all */
    LOCAL_ON,         /* where variable `on` lives, equal on all its copies */
    LOCAL_PER_REPLICA /* one value a replica, not promised equal */
} Locality;

typedef struct IrType {
    DType dtype;
    Locality locality;
    const char *on; /* LOCAL_ON: the variable's name (interned) */
    int rank;       /* 0 .. IR_MAX_RANK */
    Dim dims[IR_MAX_RANK];
} IrType;

static inline Dim
ir_dim_const(int64_t c)
{
    return (Dim){c, 0, -1};
}

static inline bool
ir_dim_is_const(Dim d)
{
    return d.sym < 0;
}

static inline bool
ir_dim_equal(Dim a, Dim b)
{
    return a.c == b.c && a.k == b.k && a.sym == b.sym;
}

/* c + k * sym with k 0 made a constant. */
Dim ir_dim_linear(int64_t c, int64_t k, int32_t sym);
/* a + b, a - b: false when they have different symbols or overflow. */
bool ir_dim_add(Dim a, Dim b, Dim *out);
bool ir_dim_sub(Dim a, Dim b, Dim *out);
/* a * b: false when both are symbolic, or on overflow. */
bool ir_dim_mul(Dim a, Dim b, Dim *out);
/* a / b exactly: false when b does not divide a for every value. */
bool ir_dim_div(Dim a, Dim b, Dim *out);
/* The value with sym = rows. */
int64_t ir_dim_value(Dim d, int64_t rows);

IrType ir_type_scalar(DType t, Locality l);
bool ir_type_same_shape(const IrType *a, const IrType *b);
bool ir_type_equal(const IrType *a, const IrType *b);
bool ir_type_is_static(const IrType *t);
/* Number of elements as a dimension: false on overflow or n * n. */
bool ir_type_elements(const IrType *t, Dim *out);

const char *ir_locality_name(Locality l); /* "host", "mirrored", ... */

#endif
