/*
 * interfaces.h - the addresses at which others may reach this machine
 */
#ifndef TFD_RUNTIME_CLUSTER_CONTROL_INTERFACES_H
#define TFD_RUNTIME_CLUSTER_CONTROL_INTERFACES_H

#include "runtime/cluster/control/frame.h"

/* This port at all addresses of the interfaces that are up, loopback included
 * and those of one link (fe80::) not, as tcp://10.0.0.1:4711, in a. */
Status rt_list_addresses(Arena *a, int port, RtAddresses *out) MUST_USE;

#endif
