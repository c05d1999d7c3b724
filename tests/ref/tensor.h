/*
 * tensor.h - values of the reference interpreter
 */
#ifndef TFD_TESTS_REF_TENSOR_H
#define TFD_TESTS_REF_TENSOR_H

#include "ir/base/arena.h"
#include "ir/type.h"

/* Elements in row-major order.  Zeroed, it is a tensor without room. */
typedef struct RefTensor {
    DType dtype;
    int rank;
    int64_t dims[IR_MAX_RANK];
    int64_t count; /* elements */
    char *data;
    int64_t room; /* bytes that data has */
} RefTensor;

/* Gives t that dtype and shape and, if it lacks it, room in a.  The elements
 * are zeros only where the room is new. */
void ref_shape(Arena *a, RefTensor *t, DType dtype, int rank,
               const int64_t *dims);
/* Makes `to` a copy of from, dtype and shape included. */
void ref_copy(Arena *a, RefTensor *to, const RefTensor *from);

Scalar ref_get(const RefTensor *t, int64_t i);
/* Stores x, converted by scalar_cast. */
void ref_set(RefTensor *t, int64_t i, Scalar x);

/* Element number i as an index on each axis of a shape, and back. */
void ref_unravel(int rank, const int64_t *dims, int64_t i, int64_t *index);
int64_t ref_ravel(int rank, const int64_t *dims, const int64_t *index);
/* As ref_unravel, of element i, where index is that of the element before,
 * unless i is 0. */
void ref_next(int rank, const int64_t *dims, int64_t i, int64_t *index);

/* The number of the first element that differs to the bit, all NaNs being one,
 * or -1; a tensor of another dtype or count differs at 0. */
int64_t ref_first_difference(const RefTensor *x, const RefTensor *y);

#endif
