/*
 * checksum.h - one hash of all variables
 */
#ifndef TFD_RUNTIME_RUN_CHECKSUM_H
#define TFD_RUNTIME_RUN_CHECKSUM_H

#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* "checksum HASH" of all variables, to options->out.  Fails with a device. */
Status rt_print_checksum(const RtRun *run) MUST_USE;

#endif
