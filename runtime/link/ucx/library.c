/*
 * library.c - opens UCX, and says what is wrong with it
 */
#include "runtime/link/ucx/library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include "runtime/hal/library.h"

static const RtLibraryCall calls[] = {
#define UCX_CALL(result, name, params) RT_LIBRARY_CALL(UcxLibrary, name),
#include "runtime/link/ucx/ucx.def"
#undef UCX_CALL
};

/* What UCX would do to the whole process, unless the user wants it: handle its
 * signals, change its functions for memory, and write to standard output, which
 * is the program's. */
static void
restrain(void)
{
    setenv("UCX_HANDLE_ERRORS", "none", 0);
    setenv("UCX_DEBUG_SIGNO", "0", 0);
    setenv("UCX_MEM_EVENTS", "n", 0);
    setenv("UCX_LOG_FILE", "/dev/stderr", 0);
    setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 0);
}

static Status
open_library(UcxLibrary *ucx)
{
    restrain();
    void *library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return status_new(STATUS_MACHINE,
                          "cannot open libucp.so.0, which --link ucx needs (on "
                          "Debian the package libucx0): %s",
                          dlerror());
    return rt_library_load(library, "libucp.so.0", "UCX 1.10", calls,
                           sizeof calls / sizeof *calls, ucx);
}

Status
rt_ucx_library_open(const UcxLibrary **out)
{
    static UcxLibrary library;
    static bool is_open;
    if (!is_open)
        TRY(open_library(&library));
    is_open = true;
    *out = &library;
    return OK;
}

Status
rt_ucx_check(const UcxLibrary *ucx, const char *call, UcsStatus status)
{
    if (status >= UCX_OK)
        return OK;
    return status_new(STATUS_MACHINE, "%s fails: %s", call,
                      ucx->ucs_status_string(status));
}
