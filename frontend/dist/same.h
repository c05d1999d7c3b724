/*
 * same.h - a sum over the replicas of a value that is the same on all
 */
#ifndef TFD_FRONTEND_DIST_SAME_H
#define TFD_FRONTEND_DIST_SAME_H

#include "frontend/builtins/builtins.h"

/* Refuses the call of reduce, all_reduce and the like for leaf, which is
 * argument 1 or a part of it. */
FeValue *fe_refuse_same_sum(Lower *cx, const FeArgs *in, FeValue *leaf);

#endif
