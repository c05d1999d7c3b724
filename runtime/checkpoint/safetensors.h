/*
 * safetensors.h - named tensors in a file that everybody reads
 *
 * The format of github.com/huggingface/safetensors: eight bytes with the length
 * of a header, little-endian; the header, a JSON object that says for each name
 * dtype, shape and which bytes of the data it has; the data, without gaps.
 * Dtypes have our names in capitals.
 *
 * Files that we write state a checksum of all their bytes, so that any damage
 * is noticed; it is looked at where there is one, and files of others have
 * none.
 */
#ifndef TFD_RUNTIME_CHECKPOINT_SAFETENSORS_H
#define TFD_RUNTIME_CHECKPOINT_SAFETENSORS_H

#include "ir/base/arena.h"
#include "ir/base/number/dtype.h"
#include "ir/base/status.h"

enum { ST_MAX_RANK = 32 };

typedef struct RtTensor {
    const char *name;
    const char *dtype; /* as files have it: "F32" */
    int rank;
    int64_t dims[ST_MAX_RANK];
    const char *data; /* row-major, little-endian; not aligned when read */
    size_t bytes;
    size_t at; /* when read: where they begin, among those of all tensors */
} RtTensor;

/* Whether tensors are what one wants, by their header: they have no data yet.
 */
typedef Status RtTensorsCheck(const void *cx, const RtTensor *tensors, int n);

/* The name of a dtype in files, in a. */
const char *rt_tensor_dtype(Arena *a, DType t);

/* Makes these n tensors the file, or leaves it as it was (file_write).  The
 * bytes hang on the tensors alone, not on their order. */
Status rt_tensors_write(const char *path, const RtTensor *tensors,
                        int n) MUST_USE;

/* All tensors of a file, in a; what it must not be is told: also where tensors
 * share bytes, or bytes belong to none.  The header is read first; only when it
 * fits the file, and check, which may be NULL, has nothing against its tensors,
 * are the data. */
Status rt_tensors_read(Arena *a, const char *path, RtTensorsCheck *check,
                       const void *cx, RtTensor **out, int *n) MUST_USE;

#endif
