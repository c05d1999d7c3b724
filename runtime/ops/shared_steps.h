/*
 * shared_steps.h - processes of one machine read a worker's data once
 */
#ifndef TFD_RUNTIME_OPS_SHARED_STEPS_H
#define TFD_RUNTIME_OPS_SHARED_STEPS_H

#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* A call of all processes, when the iterators are there and none is open: those
 * that share memory share the steps of workers of which several have replicas.
 */
Status rt_share_steps(RtRun *run) MUST_USE;
/* When the iterators are closed. */
void rt_unshare_steps(RtRun *run);

#endif
