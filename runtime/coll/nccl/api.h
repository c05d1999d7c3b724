/*
 * api.h - what is known of NCCL without its header
 *
 * The names and types are those of nccl.h, as far as nccl.def uses them, so
 * that code which includes this compiles with the real one instead.
 */
#ifndef TFD_RUNTIME_COLL_NCCL_API_H
#define TFD_RUNTIME_COLL_NCCL_API_H

#include <limits.h>
#include "runtime/hal/cuda/api.h"

typedef struct ncclComm *ncclComm_t;

typedef struct {
    char internal[128];
} ncclUniqueId;

#define NCCL_VALUE(kind, name, value) NCCL_##kind(name, value)
#define NCCL_result(name, value)
#define NCCL_type(name, value)
#define NCCL_op(name, value)

#undef NCCL_result
#define NCCL_result(name, value) name = value,
typedef enum {
#include "runtime/coll/nccl/nccl.def"
} ncclResult_t;
#undef NCCL_result
#define NCCL_result(name, value)

#undef NCCL_type
#define NCCL_type(name, value) name = value,
typedef enum {
#include "runtime/coll/nccl/nccl.def"
} ncclDataType_t;
#undef NCCL_type
#define NCCL_type(name, value)

#undef NCCL_op
#define NCCL_op(name, value) name = value,
typedef enum {
#include "runtime/coll/nccl/nccl.def"
} ncclRedOp_t;
#undef NCCL_op
#undef NCCL_result
#undef NCCL_type
#undef NCCL_VALUE

#define NCCL_FIELD(type, name) type name;
typedef struct {
#include "runtime/coll/nccl/nccl.def"
} ncclConfig_t;
#undef NCCL_FIELD

/* What the header's NCCL_CONFIG_INITIALIZER says, of 2.18; all that is not
 * named is NCCL's choice. */
#define NCCL_CONFIG_2_18                                                       \
    {                                                                          \
        .size = sizeof(ncclConfig_t), .magic = 0xcafebeef, .version = 21800,   \
        .blocking = INT_MIN, .cgaClusterSize = INT_MIN, .minCTAs = INT_MIN,    \
        .maxCTAs = INT_MIN, .netName = NULL, .splitShare = INT_MIN             \
    }

#endif
