/*
 * fold.h - constant folding
 */
#ifndef TFD_FRONTEND_EMIT_FOLD_H
#define TFD_FRONTEND_EMIT_FOLD_H

#include "frontend/context/lower.h"

/* x op y of a CONST or DIM each, if it can be computed now: NULL if not. */
FeValue *fe_fold_binary(Lower *cx, AstOp op, FeValue *x, FeValue *y, Loc loc);
FeValue *fe_fold_unary(Lower *cx, AstOp op, FeValue *x, Loc loc);

#endif
