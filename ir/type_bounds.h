/*
 * type_bounds.h - the greatest sizes that a type with batch symbols can have
 *
 * A dimension is linear in one symbol, whose rows are from 0 to its bound; so
 * both extremes are at an end.
 */
#ifndef TFD_IR_TYPE_BOUNDS_H
#define TFD_IR_TYPE_BOUNDS_H

#include "ir/ir.h"

/* Bytes of a value when all its batch symbols are at their bounds; false when
 * they are more than IR_MAX_BYTES or a dimension could be negative. */
#define IR_MAX_BYTES ((int64_t)1 << 44)
bool ir_type_bytes(const IrModule *m, const IrType *t, int64_t *bytes);

/* The type whose symbols are replaced by their bounds. */
IrType ir_type_full(const IrModule *m, const IrType *t);
Dim ir_dim_full(const IrModule *m, Dim d);

/* Whether t's shape depends on the rows of one replica (an n with a partner). */
bool ir_type_is_local(const IrModule *m, const IrType *t);

#endif
