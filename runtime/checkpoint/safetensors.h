/*
 * safetensors.h - named tensors in a file that everybody reads
 *
 * The format of github.com/huggingface/safetensors: eight bytes with the length
 * of a header, little-endian; the header, a JSON object that says for each name
 * dtype, shape and which bytes of the data it has; the data, without gaps.
 * Dtypes have our names in capitals.
 *
 * Files that we write state a checksum of all their bytes, so that any damage is
 * noticed; it is looked at where there is one, and files of others have none.
 */
#ifndef TFD_RUNTIME_CHECKPOINT_SAFETENSORS_H
#define TFD_RUNTIME_CHECKPOINT_SAFETENSORS_H

#include "ir/base/arena.h"
#include "ir/base/dtype.h"
#include "ir/base/status.h"

enum { ST_MAX_RANK = 32 };

typedef struct RtTensor {
    const char *name;
    const char *dtype; /* as files have it: "F32" */
    int rank;
    int64_t dims[ST_MAX_RANK];
    const char *data; /* row-major, little-endian; not aligned when read */
    size_t bytes;
} RtTensor;

/* What files call a dtype, in a. */
const char *rt_tensor_dtype(Arena *a, DType t);

/* Makes these n tensors the file, or leaves it as it was (file_write).  The
 * bytes hang on the tensors alone, not on their order. */
Status rt_tensors_write(const char *path, const RtTensor *tensors,
                        int n) MUST_USE;

/* All tensors of a file, in a; what it must not be is told: also where tensors
 * share bytes, or bytes belong to none. */
Status rt_tensors_read(Arena *a, const char *path, RtTensor **out,
                       int *n) MUST_USE;

#endif
