/*
 * finite.h - whether all numbers of an array are finite
 */
#ifndef TFD_RUNTIME_RUN_FINITE_H
#define TFD_RUNTIME_RUN_FINITE_H

#include <stdint.h>
#include "ir/base/number/dtype.h"

/* What an array of floats has that is not finite: a set. */
enum { RT_HAS_INF = 1, RT_HAS_NAN = 2 };

/* Which of them are among n elements; those of integers and bools have none. */
unsigned rt_not_finite(DType t, const void *array, int64_t n);
/* The number of the first NaN, or of the first infinity; -1: there is none. */
int64_t rt_first_not_finite(DType t, const void *array, int64_t n,
                            unsigned kind);

#endif
