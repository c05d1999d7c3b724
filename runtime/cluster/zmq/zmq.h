/*
 * zmq.h - libzmq, opened by name when a job of several processes begins
 *
 * tfd-run does not link it, and its header is not needed to build: the types
 * are declared here as zmq.h declares them.
 */
#ifndef TFD_RUNTIME_CLUSTER_ZMQ_ZMQ_H
#define TFD_RUNTIME_CLUSTER_ZMQ_ZMQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/base/status.h"

typedef void zmq_free_fn(void *bytes, void *hint);

typedef struct zmq_msg_t {
    _Alignas(sizeof(void *)) unsigned char opaque[64];
} zmq_msg_t;

typedef struct zmq_pollitem_t {
    void *socket;
    int fd;
    short events, revents;
} zmq_pollitem_t;

enum {
#define ZMQ_VALUE(name, value) name = value,
#include "runtime/cluster/zmq/zmq.def"
#undef ZMQ_VALUE
};

typedef struct RtZmq {
#define ZMQ_CALL(result, name, params) result(*name) params;
#include "runtime/cluster/zmq/zmq.def"
#undef ZMQ_CALL
    bool has_curve; /* connections can be authenticated and encrypted */
    int version;    /* 4.3.4 is 40304 */
} RtZmq;

/* The functions; opened once in a process and never closed.  Any thread.  A
 * failure (STATUS_MACHINE) says which package is missing. */
Status rt_zmq_open(const RtZmq **out) MUST_USE;

/* The failure of the call of libzmq that was just made: "what: reason". */
Status rt_zmq_error(const RtZmq *zmq, const char *what) MUST_USE;

#endif
