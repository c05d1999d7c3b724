/*
 * nccl_table.c - nccl.def under the real nccl.h
 *
 * Nothing here runs: it compiles where each function has the result and
 * parameters, each constant the value, and each member of ncclConfig_t the
 * place that the table says.
 */
#include <stddef.h>
#include <cuda.h>
#include <nccl.h>

#define NCCL_CALL(result, name, params)                                        \
    _Static_assert(                                                            \
        __builtin_types_compatible_p(__typeof__(name), result params),         \
        #name " has other parameters, or another result");
#define NCCL_VALUE(kind, name, value)                                          \
    _Static_assert((long long)(name) == (value), #name " has another value");
#include "runtime/coll/nccl/nccl.def"
#undef NCCL_CALL
#undef NCCL_VALUE

#define NCCL_FIELD(type, name) type name;
typedef struct Config {
#include "runtime/coll/nccl/nccl.def"
} Config;
#undef NCCL_FIELD

#define NCCL_FIELD(type, name)                                                 \
    _Static_assert(offsetof(Config, name) == offsetof(ncclConfig_t, name),     \
                   "ncclConfig_t has " #name " at another place");             \
    _Static_assert(__builtin_types_compatible_p(                               \
                       __typeof__(((ncclConfig_t *)0)->name), type),           \
                   "ncclConfig_t has a " #name " of another type");
#include "runtime/coll/nccl/nccl.def"
