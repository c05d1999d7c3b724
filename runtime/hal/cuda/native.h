/*
 * native.h - a GPU's queues as the driver knows them, for other libraries
 */
#ifndef TFD_RUNTIME_HAL_CUDA_NATIVE_H
#define TFD_RUNTIME_HAL_CUDA_NATIVE_H

#include "runtime/hal/cuda/api.h"
#include "runtime/hal/device.h"

/* The stream of a queue of a CUDA device, to which the caller adds work; calls
 * of this thread are about the device from now on.  NULL: it has failed. */
CUstream rt_cuda_native_stream(RtQueue *queue);
/* Calls of this thread are about the device from now on, to whose queues it
 * adds nothing: any thread.  false: it has failed. */
bool rt_cuda_native_enter(RtDevice *d);

#endif
