/*
 * ucx.h - a link over UCX: InfiniBand, shared memory, TCP
 *
 * UCX chooses among the networks of a machine by itself; its own variables
 * (UCX_TLS, UCX_NET_DEVICES) say which.  It has no authentication, so its
 * network has to be private.
 */
#ifndef TFD_RUNTIME_LINK_UCX_UCX_H
#define TFD_RUNTIME_LINK_UCX_UCX_H

#include "runtime/link/link.h"

/* is_local: uses nothing but this machine. */
Status rt_link_ucx_open(int rank, int size, bool is_local,
                        RtLink **out) MUST_USE;

#endif
