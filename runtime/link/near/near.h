/*
 * near.h - a link by which processes of one machine send messages in memory
 *
 * It stands before another link, which carries the messages between machines.
 */
#ifndef TFD_RUNTIME_LINK_NEAR_NEAR_H
#define TFD_RUNTIME_LINK_NEAR_NEAR_H

#include "runtime/cluster/segments/exchange.h"
#include "runtime/link/link.h"

/* A call of all processes.  machine_of: a number for each rank, the same for
 * those of one machine.  Pairs of which one cannot map the other's memory, as
 * in containers, stay with the other link.  It becomes the new one's, also
 * after a failure. */
Status rt_link_near_open(RtLink *far, const RtExchange *x,
                         const int *machine_of, RtLink **out) MUST_USE;

#endif
