/*
 * idle.c - a CUDA driver that does nothing
 *
 * Work is accepted and dropped, all events have happened, and memory is
 * addresses.  No call takes a lock or keeps anything, so that what a step takes
 * on it is the runtime's own time.  Here are the functions that give something;
 * dropped.c has the others.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cuda/fake/idle/idle.h"

enum {
    VERSION = 12020,
    GPUS = 8,
    CAPABILITY = 9,
    PROCESSORS = 132,
    THREADS = 1024
};

#define ROOM ((size_t)64 << 30)

/* Addresses of a memory that is not there, for whatever has a handle. */
static uintptr_t
reserve(size_t bytes)
{
    static atomic_uintptr_t next = (uintptr_t)1 << 45;
    return atomic_fetch_add(&next, (bytes + 4095) / 4096 * 4096);
}

#define HANDLE(at) (*(at) = (void *)reserve(1), CUDA_SUCCESS)

EXPORT
cuDriverGetVersion(int *version)
{
    *version = VERSION;
    return CUDA_SUCCESS;
}

EXPORT
cuGetErrorName(CUresult error, const char **text)
{
    (void)error;
    *text = "CUDA_ERROR";
    return CUDA_SUCCESS;
}

EXPORT
cuGetErrorString(CUresult error, const char **text)
{
    return cuGetErrorName(error, text);
}

EXPORT
cuDeviceGetCount(int *count)
{
    *count = GPUS;
    return CUDA_SUCCESS;
}

EXPORT
cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

EXPORT
cuDeviceGetName(char *name, int len, CUdevice device)
{
    (void)device;
    strncpy(name, "idle", (size_t)len);
    return CUDA_SUCCESS;
}

EXPORT
cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = CAPABILITY;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = 0;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
        *value = INT32_MAX;
        break;
    default:
        *value = PROCESSORS;
    }
    return CUDA_SUCCESS;
}

EXPORT
cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = ROOM;
    return CUDA_SUCCESS;
}

EXPORT
cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    return HANDLE(context);
}

EXPORT
cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    (void)device, (void)peer;
    *can = 1;
    return CUDA_SUCCESS;
}

EXPORT
cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int num,
                   CUjit_option *options, void **values)
{
    (void)image, (void)num, (void)options, (void)values;
    return HANDLE(module);
}

EXPORT
cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    (void)module, (void)name;
    return HANDLE(function);
}

EXPORT
cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                   CUfunction function)
{
    (void)function;
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? THREADS : 0;
    return CUDA_SUCCESS;
}

EXPORT
cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                            int threads, size_t shared)
{
    (void)function, (void)threads, (void)shared;
    *blocks = 1;
    return CUDA_SUCCESS;
}

EXPORT
cuMemAlloc_v2(CUdeviceptr *at, size_t bytes)
{
    *at = reserve(bytes);
    return CUDA_SUCCESS;
}

EXPORT
cuMemGetInfo_v2(size_t *available, size_t *total)
{
    *available = *total = ROOM;
    return CUDA_SUCCESS;
}

EXPORT
cuMemHostAlloc(void **at, size_t bytes, unsigned int flags)
{
    (void)flags;
    *at = calloc(1, bytes);
    return *at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT
cuMemFreeHost(void *at)
{
    free(at);
    return CUDA_SUCCESS;
}

EXPORT
cuStreamCreate(CUstream *stream, unsigned int flags)
{
    (void)flags;
    return HANDLE(stream);
}

EXPORT
cuEventCreate(CUevent *event, unsigned int flags)
{
    (void)flags;
    return HANDLE(event);
}

EXPORT
cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    (void)stream;
    return HANDLE(graph);
}

EXPORT
cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

EXPORT
cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                            unsigned long long flags)
{
    (void)graph, (void)flags;
    return HANDLE(exec);
}
