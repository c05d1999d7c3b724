/*
 * safetensors.h - files of named tensors
 *
 * The format of github.com/huggingface/safetensors: eight bytes with the length
 * of a header, little-endian; the header, a JSON object with the dtype, shape
 * and byte range of each name; the data, without gaps.  Dtypes have our names
 * in capitals.
 *
 * Files written by tfd have a checksum of all their bytes, so that any damage
 * is detected; other files have none, and are read without that check.
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
    const char *data; /* row-major, little-endian */
    size_t bytes;
    size_t at; /* when read: where they begin, among those of all tensors */
} RtTensor;

/* What a reader of tensors does with them. */
typedef struct RtTensorsUser {
    /* Checks the tensors of a header, which have no data yet; or NULL. */
    Status (*check)(const void *cx, const RtTensor *tensors, int n);
    /* Memory for t's data; NULL: nobody needs them.  Without this function they
     * are in the reader's arena. */
    char *(*place)(const void *cx, const RtTensor *t);
    const void *cx;
} RtTensorsUser;

/* The name of a dtype in files, in a. */
const char *rt_tensor_dtype(Arena *a, DType t);

/* Writes these n tensors to the file, or leaves it as it was (file_write).  The
 * bytes depend only on the tensors, not on their order. */
Status rt_tensors_write(const char *path, const RtTensor *tensors,
                        int n) MUST_USE;

/* Reads the tensors of a file, in a.  Invalid files are errors, also if tensors
 * share bytes, or bytes belong to none.  The header is read first; the data
 * only if the header fits the file and user accepts its tensors.  After an
 * error the places of data have any bytes. */
Status rt_tensors_read(Arena *a, const char *path, const RtTensorsUser *user,
                       RtTensor **out, int *n) MUST_USE;

#endif
