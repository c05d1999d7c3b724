/*
 * type_of.h - the types that values would have as operands
 *
 * Nothing here emits an operation.  Where a value stands (fe_locality_of) is
 * declared in frontend/context/eval.h.
 */
#ifndef TFD_FRONTEND_EMIT_TYPE_OF_H
#define TFD_FRONTEND_EMIT_TYPE_OF_H

#include "frontend/context/lower.h"

/* The dtype at which fe_operands would have them. */
DType fe_common_dtype(Lower *cx, int n, FeValue *const *v);
/* Whether it, or the first of its items that has one, has a dtype of its own:
 * that. */
bool fe_has_dtype(const FeValue *v, DType *out);
/* The type fe_handle would give; false if it is no tensor. */
bool fe_type_of(Lower *cx, FeValue *v, IrType *out);
/* The shape of a list of scalars, or of equal such lists; else false. */
bool fe_list_shape(Lower *cx, FeValue *v, IrType *out);
/* The least locality that a value has here: host or mirrored. */
Locality fe_least_locality(const Lower *cx);

#endif
