/*
 * socket.h - sockets of ZeroMQ that only the processes of a job can talk to
 *
 * A job has a key of 32 bytes, which only its processes know.  From it follow
 * two key pairs of CURVE, the servers' and the members': a member is sure of
 * its server, a server accepts only the members' public key (it asks a ZAP
 * handler), and all is encrypted.  A stranger sees the greeting of ZeroMQ's
 * protocol and a closed connection.  Without a key, sockets are open, and may
 * only be on loopback.
 */
#ifndef TFD_RUNTIME_CLUSTER_ZMQ_SOCKET_H
#define TFD_RUNTIME_CLUSTER_ZMQ_SOCKET_H

#include "runtime/cluster/zmq/zmq.h"

enum { RT_KEY_BYTES = 32, RT_CURVE_TEXT = 41 };

/* Key pairs as Z85 text. */
typedef struct RtCurveKeys {
    bool given; /* else sockets are open */
    char server_public[RT_CURVE_TEXT], server_secret[RT_CURVE_TEXT];
    char member_public[RT_CURVE_TEXT], member_secret[RT_CURVE_TEXT];
    uint8_t member_bytes[RT_KEY_BYTES]; /* its public key, as ZAP has it */
} RtCurveKeys;

/* The pairs that follow from key (RT_KEY_BYTES bytes; NULL: none are given).
 * OK with none given where libzmq has no CURVE: rt_zmq_check_address refuses
 * what is not loopback then. */
Status rt_zmq_keys(const RtZmq *zmq, const uint8_t *key,
                   RtCurveKeys *out) MUST_USE;

/* Whether an address (tcp://127.0.0.1:80, host:80, [::1]:80) is this machine
 * only. */
bool rt_zmq_is_loopback(const char *address);

/* A failure if the address is beyond loopback and sockets would be open. */
Status rt_zmq_check_address(const RtZmq *zmq, const RtCurveKeys *keys,
                            const char *address) MUST_USE;

/* Sockets of a job, without waiting when they are closed.  most_bytes: of a
 * message; 0: any. */
Status rt_zmq_server_socket(const RtZmq *zmq, void *context, int type,
                            const RtCurveKeys *keys, int64_t most_bytes,
                            void **out) MUST_USE;
Status rt_zmq_member_socket(const RtZmq *zmq, void *context, int type,
                            const RtCurveKeys *keys, void **out) MUST_USE;

/* The handler that servers of a context ask; to be opened before their sockets
 * are bound, polled with them, and answered when it is readable. */
Status rt_zmq_open_zap(const RtZmq *zmq, void *context, void **out) MUST_USE;
void rt_zmq_answer_zap(const RtZmq *zmq, void *zap, const RtCurveKeys *keys);

/* The port of a bound socket. */
int rt_zmq_port(const RtZmq *zmq, void *socket);

/* Events of a socket (ZMQ_EVENT_*), to be read by rt_zmq_next_event. */
Status rt_zmq_open_monitor(const RtZmq *zmq, void *context, void *socket,
                           const char *name, int events, void **out) MUST_USE;
/* Before its socket is closed: events stop, then their reader goes.  In the
 * other order libzmq's thread waits for ever for somebody to read, and whoever
 * closes the socket for that thread.  NULL: there is none. */
void rt_zmq_close_monitor(const RtZmq *zmq, void *socket, void *monitor);
/* The next event without waiting; false: none. */
bool rt_zmq_next_event(const RtZmq *zmq, void *monitor, int *event,
                       int32_t *value);

/* Whether bytes have come over connection fd (ZMQ_SRCFD of a message) which
 * libzmq's thread has not read yet: where it gets no processor, who sent them
 * only seems silent.  -1: there is no connection. */
bool rt_zmq_has_unread(int fd);

#endif
