/*
 * zmq_table.c - zmq.def under the real zmq.h
 *
 * Nothing here runs: it compiles where each function has the result and
 * parameters, and each constant the value, that the table says.
 */
#include <zmq.h>

#define ZMQ_CALL(result, name, params)                                         \
    _Static_assert(                                                            \
        __builtin_types_compatible_p(__typeof__(name), result params),         \
        #name " has other parameters, or another result");
#define ZMQ_VALUE(name, value)                                                 \
    _Static_assert((name) == (value), #name " has another value");
#include "runtime/cluster/zmq/zmq.def"

_Static_assert(sizeof(zmq_msg_t) == 64, "zmq_msg_t has another size");
