/*
 * strategy.h - the strategy of a program
 */
#ifndef TFD_FRONTEND_DIST_STRATEGY_H
#define TFD_FRONTEND_DIST_STRATEGY_H

#include "frontend/context/lower.h"

/* The strategy of the command line or of decl, a STRATEGY (NULL: the file has
 * none), into the module and the names. */
void fe_strategy(Lower *cx, const AstNode *decl);

#endif
