/*
 * idle.h - the functions of a CUDA driver that does nothing
 */
#ifndef TFD_TESTS_CUDA_FAKE_IDLE_IDLE_H
#define TFD_TESTS_CUDA_FAKE_IDLE_IDLE_H

#include <stddef.h>
#include "runtime/hal/cuda/api.h"

#define EXPORT __attribute__((visibility("default"))) CUresult

#define CUDA_CALL(name, params) EXPORT name params;
#include "runtime/hal/cuda/driver.def"
#undef CUDA_CALL

#endif
