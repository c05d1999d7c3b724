/*
 * tensor.c - values of the reference interpreter
 */
#include "tests/ref/tensor.h"

#include <math.h>
#include <string.h>

void
ref_shape(Arena *a, RefTensor *t, DType dtype, int rank, const int64_t *dims)
{
    t->dtype = dtype;
    t->rank = rank;
    t->count = 1;
    for (int i = 0; i < rank; i++) {
        t->dims[i] = dims[i];
        t->count *= dims[i];
    }
    int64_t bytes = t->count * (int64_t)dtype_info[dtype].bytes;
    if (bytes <= t->room && t->data)
        return;
    t->room = bytes;
    t->data = arena_alloc(a, (size_t)bytes);
}

void
ref_copy(Arena *a, RefTensor *to, const RefTensor *from)
{
    ref_shape(a, to, from->dtype, from->rank, from->dims);
    if (to->data != from->data)
        memcpy(to->data, from->data,
               (size_t)from->count * dtype_info[from->dtype].bytes);
}

Scalar
ref_get(const RefTensor *t, int64_t i)
{
    return scalar_load(t->dtype, t->data, i);
}

void
ref_set(RefTensor *t, int64_t i, Scalar x)
{
    scalar_store(t->dtype, t->data, i, x);
}

void
ref_unravel(int rank, const int64_t *dims, int64_t i, int64_t *index)
{
    for (int k = rank - 1; k >= 0; k--) {
        index[k] = i % dims[k];
        i /= dims[k];
    }
}

int64_t
ref_ravel(int rank, const int64_t *dims, const int64_t *index)
{
    int64_t i = 0;
    for (int k = 0; k < rank; k++)
        i = i * dims[k] + index[k];
    return i;
}

void
ref_next(int rank, const int64_t *dims, int64_t i, int64_t *index)
{
    for (int k = rank - 1; k >= 0; k--) {
        index[k] = i ? index[k] + 1 : 0;
        if (i && index[k] < dims[k])
            return;
        index[k] = 0;
    }
}

/* To the bit; all NaNs are one. */
static bool
same_scalar(Scalar x, Scalar y)
{
    if (x.dtype != y.dtype)
        return false;
    if (!dtype_is_float(x.dtype))
        return x.i == y.i;
    if (isnan(x.f) || isnan(y.f))
        return isnan(x.f) && isnan(y.f);
    return x.f == y.f && signbit(x.f) == signbit(y.f);
}

int64_t
ref_first_difference(const RefTensor *x, const RefTensor *y)
{
    if (x->dtype != y->dtype || x->count != y->count)
        return 0;
    for (int64_t i = 0; i < x->count; i++)
        if (!same_scalar(ref_get(x, i), ref_get(y, i)))
            return i;
    return -1;
}
