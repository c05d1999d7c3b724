/*
 * table.c - driver.def under the real cuda.h
 *
 * Nothing here runs: it compiles where each function has the parameters, and
 * each constant the value, that the table says.
 */
#include <cuda.h>

#define CUDA_CALL(name, params)                                                \
    _Static_assert(                                                            \
        __builtin_types_compatible_p(__typeof__(name), CUresult params),       \
        #name " has other parameters");
#define CUDA_VALUE(kind, name, value)                                          \
    _Static_assert((long long)(name) == (value), #name " has another value");
#include "runtime/hal/cuda/driver.def"
