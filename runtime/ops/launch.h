/*
 * launch.h - launches of device programs, before the run begins
 */
#ifndef TFD_RUNTIME_OPS_LAUNCH_H
#define TFD_RUNTIME_OPS_LAUNCH_H

#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* Reserves space for host operands in the arenas, once all launches are loaded.
 */
Status rt_reserve_staging(RtRun *run) MUST_USE;
/* Sets the pointers of all programs, once the devices have their arenas. */
void rt_bind_launches(RtRun *run);

#endif
