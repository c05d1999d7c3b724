/*
 * batch.h - the sizes of a batch, as compiled code and the runner share them
 *
 * TfdCall.dims and the dims of a kernel are an array of these, one for each
 * pair of batch symbols (n, N), or for a symbol without a partner.  Compiled
 * code and expressions of dimensions address the same memory as words of i64:
 * ir_batch_word() is the one place that knows which word is which.  A kernel
 * that asks for the replica's number finds it after the sizes of its batches.
 */
#ifndef TFD_IR_ANALYSIS_BATCH_H
#define TFD_IR_ANALYSIS_BATCH_H

#include <stddef.h>
#include <stdint.h>

typedef struct IrBatchSizes {
    int64_t n;         /* rows of this replica; on the host, of replica 0 */
    int64_t N;         /* rows of all replicas */
    int64_t row_start; /* number of this replica's first row */
} IrBatchSizes;

/* A member of IrBatchSizes, in words from the first. */
typedef enum IrBatchField {
    BATCH_n = offsetof(IrBatchSizes, n) / sizeof(int64_t),
    BATCH_N = offsetof(IrBatchSizes, N) / sizeof(int64_t),
    BATCH_ROW_START = offsetof(IrBatchSizes, row_start) / sizeof(int64_t),
    BATCH_WORDS = sizeof(IrBatchSizes) / sizeof(int64_t)
} IrBatchField;

static inline int
ir_batch_word(int batch, IrBatchField field)
{
    return batch * BATCH_WORDS + (int)field;
}

#endif
