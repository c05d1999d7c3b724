/*
 * api.h - what is known of the CUDA driver without its headers
 *
 * The names and types are those of cuda.h, as far as driver.def uses them, so
 * that code which includes this compiles with the real one instead.  Functions
 * of both have one type to the compiler, tags included.
 */
#ifndef TFD_RUNTIME_HAL_CUDA_API_H
#define TFD_RUNTIME_HAL_CUDA_API_H

#include <stddef.h>

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUarray_st *CUarray;
typedef void (*CUhostFn)(void *data);

#define CUDA_VALUE(kind, name, value) VALUE_##kind(name, value)
#define VALUE_result(name, value)
#define VALUE_device(name, value)
#define VALUE_function(name, value)
#define VALUE_jit(name, value)
#define VALUE_flag(name, value)
#define VALUE_capture(name, value)
#define VALUE_status(name, value)
#define VALUE_memory(name, value)

#undef VALUE_result
#define VALUE_result(name, value) name = value,
typedef enum cudaError_enum {
#include "runtime/hal/cuda/driver.def"
} CUresult;
#undef VALUE_result
#define VALUE_result(name, value)

#undef VALUE_device
#define VALUE_device(name, value) name = value,
typedef enum CUdevice_attribute_enum {
#include "runtime/hal/cuda/driver.def"
} CUdevice_attribute;
#undef VALUE_device
#define VALUE_device(name, value)

#undef VALUE_function
#define VALUE_function(name, value) name = value,
typedef enum CUfunction_attribute_enum {
#include "runtime/hal/cuda/driver.def"
} CUfunction_attribute;
#undef VALUE_function
#define VALUE_function(name, value)

#undef VALUE_jit
#define VALUE_jit(name, value) name = value,
typedef enum CUjit_option_enum {
#include "runtime/hal/cuda/driver.def"
} CUjit_option;
#undef VALUE_jit
#define VALUE_jit(name, value)

#undef VALUE_flag
#define VALUE_flag(name, value) name = value,
enum {
#include "runtime/hal/cuda/driver.def"
};
#undef VALUE_flag
#define VALUE_flag(name, value)

#undef VALUE_capture
#define VALUE_capture(name, value) name = value,
typedef enum CUstreamCaptureMode_enum {
#include "runtime/hal/cuda/driver.def"
} CUstreamCaptureMode;
#undef VALUE_capture
#define VALUE_capture(name, value)

#undef VALUE_status
#define VALUE_status(name, value) name = value,
typedef enum CUstreamCaptureStatus_enum {
#include "runtime/hal/cuda/driver.def"
} CUstreamCaptureStatus;
#undef VALUE_status
#define VALUE_status(name, value)

#undef VALUE_memory
#define VALUE_memory(name, value) name = value,
typedef enum CUmemorytype_enum {
#include "runtime/hal/cuda/driver.def"
} CUmemorytype;
#undef VALUE_memory
#define VALUE_memory(name, value)

#undef VALUE_result
#undef VALUE_device
#undef VALUE_function
#undef VALUE_jit
#undef VALUE_flag
#undef VALUE_capture
#undef VALUE_status
#undef VALUE_memory
#undef CUDA_VALUE

typedef struct CUDA_MEMCPY2D_st {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

/* Of cuLaunchKernel's extra: the parameters as one block, and its size. */
#define CU_LAUNCH_PARAM_END ((void *)0x00)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x02)

#endif
