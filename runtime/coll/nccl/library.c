/*
 * library.c - opens NCCL, and says what is wrong with it
 *
 * It is opened by name when the first communicator over it connects, so that
 * nothing else needs it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include "runtime/coll/nccl/nccl_impl.h"
#include "runtime/hal/library.h"

enum { LEAST_VERSION = 21800 }; /* as messages say it */

static const RtLibraryCall calls[] = {
#define NCCL_CALL(result, name, params) RT_LIBRARY_CALL(NcclLibrary, name),
#include "runtime/coll/nccl/nccl.def"
#undef NCCL_CALL
};

static Status
check_version(NcclLibrary *nccl)
{
    ncclResult_t r = nccl->ncclGetVersion(&nccl->version);
    if (r)
        return status_new(STATUS_MACHINE, "ncclGetVersion says %s",
                          nccl->ncclGetErrorString(r));
    int v = nccl->version;
    if (v >= LEAST_VERSION)
        return OK;
    int major = v < 10000 ? v / 1000 : v / 10000; /* 2804: 2.8.4 */
    int minor = v < 10000 ? v % 1000 / 100 : v % 10000 / 100;
    return status_new(STATUS_MACHINE,
                      "libnccl.so.2 is NCCL %d.%d.%d; NCCL 2.18 or newer is "
                      "needed",
                      major, minor, v % 100);
}

static Status
open_library(NcclLibrary *nccl)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return status_new(STATUS_MACHINE,
                          "there is no libnccl.so.2, which collectives over "
                          "NCCL need; NCCL 2.18 or newer is needed");
    Status st = rt_library_load(library, "libnccl.so.2", "NCCL 2.18", calls,
                                sizeof calls / sizeof *calls, nccl);
    if (!st)
        st = check_version(nccl);
    if (st)
        dlclose(library);
    return st;
}

Status
rt_nccl_library_open(const NcclLibrary **out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static NcclLibrary library;
    static bool is_open;
    Status st = OK;
    pthread_mutex_lock(&lock);
    if (!is_open)
        st = open_library(&library);
    is_open = !st;
    pthread_mutex_unlock(&lock);
    *out = &library;
    return st;
}
