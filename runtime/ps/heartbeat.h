/*
 * heartbeat.h - a thread that tells the coordinator that this process lives
 */
#ifndef TFD_RUNTIME_PS_HEARTBEAT_H
#define TFD_RUNTIME_PS_HEARTBEAT_H

#include "runtime/ps/wire/sockets.h"
#include "runtime/ps/wire/wire.h"

typedef struct RtHeartbeats RtHeartbeats;

/* Ten times a second, whatever the process does. */
Status rt_heartbeats_start(RtPsNet *net, const char *coordinator,
                           RtPsHeartbeat heartbeat,
                           RtHeartbeats **out) MUST_USE;
void rt_heartbeats_stop(RtHeartbeats *b); /* NULL: none */

#endif
