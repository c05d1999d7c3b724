/*
 * exec_end.h - why a run ended before its end
 */
#ifndef TFD_RUNTIME_EXEC_EXEC_END_H
#define TFD_RUNTIME_EXEC_EXEC_END_H

#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* Main came back with a status other than 0, or did not come back. */
Status rt_status_of_end(RtRun *run) MUST_USE;
Status rt_status_of_abandoned(RtRun *run) MUST_USE;

#endif
