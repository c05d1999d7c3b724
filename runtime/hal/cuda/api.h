/*
 * api.h - what is known of the CUDA driver without its headers
 *
 * The names and types are those of cuda.h, as far as driver.def uses them, so
 * that code which includes this compiles with the real one instead.  An
 * enumeration is passed as an unsigned int.
 */
#ifndef TFD_RUNTIME_HAL_CUDA_API_H
#define TFD_RUNTIME_HAL_CUDA_API_H

#include <stddef.h>

typedef unsigned int CUresult, CUdevice_attribute, CUfunction_attribute,
    CUjit_option;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef void (*CUhostFn)(void *data);

enum {
#define CUDA_VALUE(name, value) name = value,
#include "runtime/hal/cuda/driver.def"
#undef CUDA_VALUE
};

/* Of cuLaunchKernel's extra: the parameters as one block, and its size. */
#define CU_LAUNCH_PARAM_END ((void *)0x00)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x02)

#endif
