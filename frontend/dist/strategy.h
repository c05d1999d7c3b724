/*
 * strategy.h - the strategy of a program
 */
#ifndef TFD_FRONTEND_DIST_STRATEGY_H
#define TFD_FRONTEND_DIST_STRATEGY_H

#include "frontend/context/lower.h"

/* The strategy of file and command line, into the module and the names. */
void fe_strategy(Lower *cx, const AstNode *program); /* strategy.c */

#endif
