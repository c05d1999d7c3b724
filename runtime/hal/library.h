/*
 * library.h - the functions of a shared library that is opened by name
 *
 * A library's .def file lists its functions.  It makes the struct of pointers
 * to them, and the list of their names that fills it:
 *
 *   static const RtLibraryCall calls[] = {
 *   #define ZMQ_CALL(result, name, params) RT_LIBRARY_CALL(RtZmq, name),
 *   #include "runtime/cluster/zmq/zmq.def"
 *   };
 */
#ifndef TFD_RUNTIME_HAL_LIBRARY_H
#define TFD_RUNTIME_HAL_LIBRARY_H

#include <stddef.h>
#include "ir/base/status.h"

typedef struct RtLibraryCall {
    const char *name; /* of the symbol */
    size_t at;        /* of its pointer in the struct */
} RtLibraryCall;

#define RT_LIBRARY_CALL(type, name)                                            \
    {                                                                          \
#name, offsetof(type, name)                                            \
    }

/* Looks up all n functions in a library that dlopen gave, and stores their
 * addresses in the struct `to`.  The name of the first that the library lacks;
 * NULL: it has all. */
const char *rt_library_find(void *library, const RtLibraryCall *calls, size_t n,
                            void *to);

/* The same for a library that is known by its file and the least version: a
 * failure is "libzmq.so.5 has no zmq_poll; ZeroMQ 4.2 or newer is needed". */
Status rt_library_load(void *library, const char *file, const char *least,
                       const RtLibraryCall *calls, size_t n, void *to) MUST_USE;

#endif
