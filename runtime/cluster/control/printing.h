/*
 * printing.h - the lines that threads print which must not wait for a reader
 */
#ifndef TFD_RUNTIME_CLUSTER_CONTROL_PRINTING_H
#define TFD_RUNTIME_CLUSTER_CONTROL_PRINTING_H

#include "runtime/cluster/control/membership.h"

/* What a server says, on standard error, as tfd-run does: the usual say.  A
 * thread of its own prints it, so it may be called with heartbeats to send, or
 * under a lock.  data is not used. */
void rt_server_print(void *data, RtSay say, const char *line,
                     const char *lines);
/* Waits until all of that is printed: for who ends the process, or prints
 * itself what comes after. */
void rt_server_printed(void);

#endif
