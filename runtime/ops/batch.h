/*
 * batch.h - copies batches to the devices
 */
#ifndef TFD_RUNTIME_OPS_BATCH_H
#define TFD_RUNTIME_OPS_BATCH_H

#include "ir/base/status.h"
#include "runtime/exec/function.h"

/* Reserves slots in the arenas of devices with memory of their own, once all
 * functions are loaded. */
Status rt_reserve_slots(RtRun *run) MUST_USE;

/* Enqueues copies of the current step's batch to the rows of h. */
void rt_copy_batch(RtRun *run, const RtHostOp *h);
/* While programs run: enqueues copies of the next steps that are there. */
void rt_copy_ahead(RtRun *run);

/* Waits until the data of the current step are no longer read, */
void rt_end_copy(const RtRun *run, const RtIterBinding *it);
/* and those of any step. */
void rt_end_copies(const RtRun *run, RtIterBinding *it);

#endif
