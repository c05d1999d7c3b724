/*
 * require_const.h - values that must be known when compiling
 */
#ifndef TFD_FRONTEND_EMIT_REQUIRE_CONST_H
#define TFD_FRONTEND_EMIT_REQUIRE_CONST_H

#include "frontend/context/lower.h"

/* what names the use: "the size of a batch".  False with a message when it is
 * not known; that may make a loop unroll. */
bool fe_require_int(Lower *cx, FeValue *v, const char *what, Loc loc,
                    int64_t *out);
bool fe_require_bool(Lower *cx, FeValue *v, const char *what, Loc loc,
                     bool *out);
bool fe_require_text(Lower *cx, FeValue *v, const char *what, Loc loc,
                     const char **out);
bool fe_require_dtype(Lower *cx, FeValue *v, const char *what, Loc loc,
                      DType *out);
/* A constant or a length; not negative. */
bool fe_require_dim(Lower *cx, FeValue *v, const char *what, Loc loc, Dim *out);
/* One dimension or a tuple or list of them; at most IR_MAX_RANK. */
bool fe_require_dims(Lower *cx, FeValue *v, const char *what, Loc loc, Dim *out,
                     int *rank);
/* One integer or a tuple or list of them, counted from the end if negative,
 * below rank, without repetition, ascending. */
bool fe_require_axes(Lower *cx, FeValue *v, int rank, Loc loc, int64_t *axes,
                     int *num_axes);
/* One such axis. */
bool fe_require_axis(Lower *cx, FeValue *v, int rank, Loc loc, int64_t *axis);

#endif
