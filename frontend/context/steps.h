/*
 * steps.h - the work of lowering, counted against its limits
 */
#ifndef TFD_FRONTEND_CONTEXT_STEPS_H
#define TFD_FRONTEND_CONTEXT_STEPS_H

#include "frontend/context/lower.h"

/* Counts a step; false when a limit is reached. */
bool fe_step(Lower *cx, Loc loc);
/* Counts the work of walking n values of a nest or bytes of a string, of which
 * many are a step.  Nothing is refused before the next step. */
void fe_count_walk(Lower *cx, int64_t n);
/* The same of the leaves of v, if it is a nest. */
void fe_count_walk_value(Lower *cx, const FeValue *v);

#endif
