/*
 * reduce.h - combines the same elements of several replicas
 */
#ifndef TFD_RUNTIME_COLL_ALGORITHM_REDUCE_H
#define TFD_RUNTIME_COLL_ALGORITHM_REDUCE_H

#include "runtime/coll/coll.h"

/* Combines elements begin .. end of the n arrays `in`, at most 2^16, by D2's
 * tree over their indices, and stores the result at the same elements of the
 * num_out arrays `out`.  An out may be an in. */
typedef void RtReduceKernel(int n, const void *const *in, int num_out,
                            void *const *out, int64_t begin, int64_t end);

/* NULL if dtype has no such combination. */
RtReduceKernel *rt_reduce_kernel(RtReduceOp how, DType dtype);

#endif
