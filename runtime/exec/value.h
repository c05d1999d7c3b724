/*
 * value.h - locations and sizes of the values of compiled code
 *
 * A dimension is a constant or is computed from a word of the table of run-time
 * dimensions (TfdCall.dims), which each executor has.
 */
#ifndef TFD_RUNTIME_EXEC_VALUE_H
#define TFD_RUNTIME_EXEC_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/base/number/dtype.h"
#include "ir/ir.h"

/* c + k * dims[word]; a constant where word is -1. */
typedef struct RtDim {
    int64_t c, k;
    int word;
} RtDim;

typedef struct RtValue {
    IrPlace place;
    bool shared; /* by the replicas of a device (ir/analysis/per_replica.h) */
    DType dtype;
    int rank;
    RtDim dims[IR_MAX_RANK];
} RtValue;

/* Where v of a module is; not shared. */
RtValue rt_value_of(const IrModule *m, const IrValue *v);

/* A dimension, at least 0, and the number of elements and bytes, with these
 * dims. */
int64_t rt_dim(const RtDim *d, const int64_t *dims);
int64_t rt_value_count(const RtValue *v, const int64_t *dims);
size_t rt_value_bytes(const RtValue *v, const int64_t *dims);

#endif
