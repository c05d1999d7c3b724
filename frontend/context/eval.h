/*
 * eval.h - values of expressions, for whoever is below lower/
 */
#ifndef TFD_FRONTEND_CONTEXT_EVAL_H
#define TFD_FRONTEND_CONTEXT_EVAL_H

#include "frontend/context/lower.h"

FeValue *fe_eval(Lower *cx, const AstNode *expr);
/* In another scope. */
FeValue *fe_eval_in(Lower *cx, FeScope *scope, const AstNode *expr);
/* The type that a TYPE denotes; dimensions that are names not yet bound are
 * bound in cx->scope when actual (or NULL) has them. */
bool fe_eval_type(Lower *cx, const AstNode *type, const IrType *actual,
                  IrType *out);
/* The dtype of a name ("f32"), widened under --widen; false if it is none. */
bool fe_dtype_by_name(const Lower *cx, const char *name, DType *out);
DType fe_default_float(const Lower *cx); /* f32; f64 under --widen */

/* x op y as the language has it: folds constants and lengths. */
FeValue *fe_binary(Lower *cx, AstOp op, FeValue *x, FeValue *y, Loc loc);
FeValue *fe_unary(Lower *cx, AstOp op, FeValue *x, Loc loc);
/* t(x); folds constants. */
FeValue *fe_cast(Lower *cx, FeValue *x, DType t, Loc loc);

/* The locality the value has where it stands: CONST mirrored or host, ... */
Locality fe_locality_of(Lower *cx, FeValue *v);

#endif
