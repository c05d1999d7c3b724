/*
 * driver.c - opens NVIDIA's driver, and says what is wrong with it
 *
 * It is opened by name when the first CUDA device is, so that tfd-run starts
 * and runs other devices on machines without it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include "ir/base/message.h"
#include "runtime/hal/cuda/cuda_impl.h"
#include "runtime/hal/library.h"

enum { LEAST_VERSION = 11040 };

#define LEAST_TEXT "CUDA 11.4 (driver 470) or newer is needed"

/* ---- failures ------------------------------------------------------------ */

void
rt_cuda_explain(const CudaDriver *cu, const char *call, CUresult r, char *text,
                size_t n)
{
    const char *name = NULL, *says = NULL;
    if (cu->cuGetErrorName(r, &name) || !name)
        name = "an unknown error";
    if (cu->cuGetErrorString(r, &says) || !says)
        says = "no text";
    snprintf(text, n, "%s says %s, %d (%s)", call, name, (int)r, says);
}

Status
rt_cuda_failure(const CudaDriver *cu, const char *who, const char *call,
                CUresult r)
{
    char text[512];
    rt_cuda_explain(cu, call, r, text, sizeof text);
    return status_new(STATUS_MACHINE, "%s cannot be used: %s", who, text);
}

/* ---- opening ------------------------------------------------------------- */

static const RtLibraryCall calls[] = {
#define CUDA_CALL(name, params) RT_LIBRARY_CALL(CudaDriver, name),
#include "runtime/hal/cuda/driver.def"
#undef CUDA_CALL
};

static Status
find_calls(const char *who, void *library, CudaDriver *cu)
{
    const char *missing =
        rt_library_find(library, calls, sizeof calls / sizeof *calls, cu);
    if (!missing)
        return OK;
    return status_new(STATUS_MACHINE,
                      "%s cannot be used: the driver has no %s; %s", who,
                      missing, LEAST_TEXT);
}

static Status
check_version(const char *who, CudaDriver *cu)
{
    TRY_CUDA(cu, who, cuDriverGetVersion, &cu->version);
    if (cu->version >= LEAST_VERSION)
        return OK;
    return status_new(
        STATUS_MACHINE, "%s cannot be used: the driver is for CUDA %d.%d; %s",
        who, cu->version / 1000, cu->version % 1000 / 10, LEAST_TEXT);
}

static Status
open_driver(const char *who, CudaDriver *cu)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return status_new(STATUS_MACHINE,
                          "%s cannot be used: there is no libcuda.so.1, which "
                          "comes with NVIDIA's driver; %s",
                          who, LEAST_TEXT);
    Status st = find_calls(who, library, cu);
    if (!st)
        st = check_version(who, cu);
    if (st) {
        dlclose(library);
        return st;
    }
    TRY_CUDA(cu, who, cuInit, 0);
    return OK;
}

Status
rt_cuda_driver_open(const char *who, const CudaDriver **out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static CudaDriver driver;
    static bool is_open;
    Status st = OK;
    pthread_mutex_lock(&lock);
    if (!is_open)
        st = open_driver(who, &driver);
    is_open = !st;
    pthread_mutex_unlock(&lock);
    *out = &driver;
    return st;
}
