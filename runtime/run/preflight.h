/*
 * preflight.h - --preflight: how fast the processes of a job reach each other
 */
#ifndef TFD_RUNTIME_RUN_PREFLIGHT_H
#define TFD_RUNTIME_RUN_PREFLIGHT_H

#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* A call of all processes, when the run is ready and main is not called:
 * measures the pairs, and prints them where the chief is.  A failure names the
 * pair that does not answer. */
Status rt_preflight(RtRun *run) MUST_USE;

#endif
