/*
 * library.c - opens libzmq, and says what is wrong with it
 */
#include <dlfcn.h>
#include <pthread.h>
#include "runtime/cluster/zmq/zmq.h"
#include "runtime/hal/library.h"

enum { LEAST_VERSION = 40200 }; /* as messages say it */

static const RtLibraryCall calls[] = {
#define ZMQ_CALL(result, name, params) RT_LIBRARY_CALL(RtZmq, name),
#include "runtime/cluster/zmq/zmq.def"
#undef ZMQ_CALL
};

static Status
check_version(RtZmq *zmq)
{
    int major, minor, patch;
    zmq->zmq_version(&major, &minor, &patch);
    zmq->version = major * 10000 + minor * 100 + patch;
    zmq->has_curve = zmq->zmq_has("curve");
    if (zmq->version >= LEAST_VERSION)
        return OK;
    return status_new(STATUS_MACHINE,
                      "libzmq.so.5 is ZeroMQ %d.%d.%d; ZeroMQ 4.2 or newer is "
                      "needed",
                      major, minor, patch);
}

static Status
open_library(RtZmq *zmq)
{
    void *library = dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return status_new(STATUS_MACHINE,
                          "cannot open libzmq.so.5, which jobs of several "
                          "processes need (on Debian the package libzmq5): %s",
                          dlerror());
    Status st = rt_library_load(library, "libzmq.so.5", "ZeroMQ 4.2", calls,
                                sizeof calls / sizeof *calls, zmq);
    if (!st)
        st = check_version(zmq);
    if (st)
        dlclose(library);
    return st;
}

Status
rt_zmq_open(const RtZmq **out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static RtZmq library;
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

Status
rt_zmq_error(const RtZmq *zmq, const char *what)
{
    return status_new(STATUS_MACHINE, "%s: %s", what,
                      zmq->zmq_strerror(zmq->zmq_errno()));
}
