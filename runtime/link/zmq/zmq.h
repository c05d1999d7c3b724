/*
 * zmq.h - a link over sockets of ZeroMQ
 */
#ifndef TFD_RUNTIME_LINK_ZMQ_ZMQ_H
#define TFD_RUNTIME_LINK_ZMQ_ZMQ_H

#include "runtime/link/link.h"

enum { RT_LINK_KEY = 32 /* bytes */ };

/* Listens on a port of its own choice at all addresses; with interface, only at
 * that one ("127.0.0.1").  key: RT_LINK_KEY bytes that all processes of the job
 * have and nobody else, for authentication and encryption; NULL: none.  Its
 * address has those of this machine's interfaces. */
Status rt_link_zmq_open(int rank, int size, const char *interface,
                        const uint8_t *key, RtLink **out) MUST_USE;

#endif
