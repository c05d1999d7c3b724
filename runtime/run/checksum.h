/*
 * checksum.h - one hash of all variables
 */
#ifndef TFD_RUNTIME_RUN_CHECKSUM_H
#define TFD_RUNTIME_RUN_CHECKSUM_H

#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* "checksum HASH" of all variables of all processes, by the chief to
 * options->out.  Fails with a device. */
Status rt_print_checksum(RtRun *run) MUST_USE;

#endif
