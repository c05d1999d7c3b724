/*
 * fake_zmq.c - a libzmq that cannot be used
 *
 * It has all functions of zmq.def, which do nothing, and is ZeroMQ 4.VERSION.
 */
#define VISIBLE __attribute__((visibility("default")))

/* That below has another name here. */
#define zmq_version fake_version
#define ZMQ_CALL(result, name, params)                                         \
    VISIBLE long name(void);                                                   \
    long name(void)                                                            \
    {                                                                          \
        return 0;                                                              \
    }
#include "runtime/cluster/zmq/zmq.def"
#undef ZMQ_CALL
#undef zmq_version

#ifndef WITHOUT_VERSION
VISIBLE void zmq_version(int *major, int *minor, int *patch);

void
zmq_version(int *major, int *minor, int *patch)
{
    *major = 4;
    *minor = VERSION;
    *patch = 0;
}
#endif
