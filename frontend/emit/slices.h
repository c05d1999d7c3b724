/*
 * slices.h - sparse values: some rows of a tensor that is zero elsewhere (D12)
 *
 * A nest of its own kind, with the fields values, indices and rows: row
 * indices[i] of `rows` has values[i], and a row that is named more than once
 * has the sum.  The fields are plain values; the functions here treat them as
 * one.
 */
#ifndef TFD_FRONTEND_EMIT_SLICES_H
#define TFD_FRONTEND_EMIT_SLICES_H

#include "frontend/context/lower.h"

static inline bool
fe_is_slices(const FeValue *v)
{
    return v->kind == FE_NEST && v->nest.kind == NEST_SLICES;
}

/* values[k, ...] at indices[k], i64, of so many rows. */
FeValue *fe_slices(Lower *cx, IrValue *values, IrValue *indices, int64_t rows);
FeValue *fe_slices_values(const FeValue *slices);
FeValue *fe_slices_indices(const FeValue *slices);
/* Slices with other values or indices. */
FeValue *fe_slices_with(Lower *cx, const FeValue *like, FeValue *values,
                        FeValue *indices);

/* The dtype and shape of the dense tensor. */
IrType fe_slices_type(const FeValue *slices);

/* The dense tensor. */
FeValue *fe_slices_dense(Lower *cx, const FeValue *slices, Loc loc);

/* Arithmetic where one operand is slices: sums concatenate them, a factor or
 * divisor that is a number goes into the values, with a tensor they become
 * dense. */
FeValue *fe_slices_binary(Lower *cx, AstOp op, FeValue *x, FeValue *y, Loc loc);
FeValue *fe_slices_unary(Lower *cx, AstOp op, FeValue *x, Loc loc);

/* Asks that every index names one of size rows: of a constant now, else when
 * the program runs.  var: whose rows they are, or NULL. */
bool fe_check_rows(Lower *cx, IrValue *index, Dim size, const char *var,
                   Loc loc);

#endif
