/*
 * own_host.h - where others reach this machine
 */
#ifndef TFD_RUNTIME_CLUSTER_LAUNCH_OWN_HOST_H
#define TFD_RUNTIME_CLUSTER_LAUNCH_OWN_HOST_H

#include "ir/base/arena.h"
#include "ir/base/status.h"

/* The address of the interface over which this machine reaches the first of
 * these addresses (HOST:PORT) that it has a way to: "10.0.0.5", "[fd00::5]", in
 * a, which lasts as long as a thread that was left behind
 * (rt_has_left_threads). Nothing is sent; names are looked up, for
 * RT_JOB_TIMEOUT at most. */
Status rt_own_host(Arena *a, const char *const *addresses, int num,
                   const char **out) MUST_USE;

#endif
