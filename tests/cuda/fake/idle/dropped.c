/*
 * dropped.c - functions that succeed and give nothing
 *
 * All functions of the driver: those that idle.c has, too, replace these.
 */
#include "tests/cuda/fake/idle/idle.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define CUDA_CALL(name, params)                                                \
    __attribute__((weak)) EXPORT name params                                   \
    {                                                                          \
        return CUDA_SUCCESS;                                                   \
    }
#include "runtime/hal/cuda/driver.def"
#undef CUDA_CALL
