/*
 * dealer.h - a worker asks for its next file
 */
#ifndef TFD_RUNTIME_PS_INPUT_DEALER_H
#define TFD_RUNTIME_PS_INPUT_DEALER_H

#include "runtime/data/data.h"
#include "runtime/ps/wire/sockets.h"
#include "runtime/ps/wire/wire.h"

/* A worker's connection to its coordinator for that, which the threads of its
 * iterators share: main's waits for them. */
typedef struct RtPsDealer RtPsDealer;

/* who: index and incarnation of the worker.  Whoever is not answered for so
 * many seconds gives up. */
Status rt_ps_dealer_open(RtPsNet *net, const char *coordinator,
                         const RtPsDealing *who, double patience,
                         RtPsDealer **out) MUST_USE;
/* The iterators that ask it are closed.  NULL: none. */
void rt_ps_dealer_close(RtPsDealer *d);
/* For an iterator by its number, until the dealer is closed. */
RtFileDealer *rt_ps_dealer_of(RtPsDealer *d, int64_t iter);

#endif
