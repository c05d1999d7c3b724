/*
 * library.c - the functions of a shared library that is opened by name
 */
#include "runtime/hal/library.h"

#include <dlfcn.h>
#include <string.h>

const char *
rt_library_find(void *library, const RtLibraryCall *calls, size_t n, void *to)
{
    for (size_t i = 0; i < n; i++) {
        void *at = dlsym(library, calls[i].name);
        if (!at)
            return calls[i].name;
        memcpy((char *)to + calls[i].at, &at, sizeof at);
    }
    return NULL;
}

Status
rt_library_load(void *library, const char *file, const char *least,
                const RtLibraryCall *calls, size_t n, void *to)
{
    const char *missing = rt_library_find(library, calls, n, to);
    if (!missing)
        return OK;
    return status_new(STATUS_MACHINE, "%s has no %s; %s or newer is needed",
                      file, missing, least);
}
