/*
 * batch.h - batches, on the devices
 */
#ifndef TFD_RUNTIME_OPS_BATCH_H
#define TFD_RUNTIME_OPS_BATCH_H

#include "ir/base/status.h"
#include "runtime/exec/function.h"

/* Reserves slots in the arenas of devices with memory of their own, once all
 * functions are loaded. */
Status rt_reserve_slots(RtRun *run) MUST_USE;

/* Main's iter_next was loaded: says which components programs read in place. */
void rt_find_parts_in_place(RtRun *run, RtFunction *fn, const RtHostOp *h);
/* Where parameter i of a launch of this process's replica number local finds
 * operand v of it; false: in its row.  Its programs' invocations, once they are
 * made, are told where the component is in each step. */
bool rt_part_place(const RtRun *run, const IrValue *v, int local,
                   RtDevicePtr *place);
void rt_follow_part(RtRun *run, const IrValue *v, int local, RtInvocation *inv,
                    int i);

/* Hands the current step's batch to programs: enqueues copies to the rows of
 * h, except for components in place. */
void rt_hand_over_batch(RtRun *run, const RtHostOp *h);
/* While programs run: enqueues copies of the next steps that are there. */
void rt_copy_ahead(RtRun *run);

/* Waits until the data of the current step are no longer read, */
void rt_end_copy(const RtRun *run, const RtIterBinding *it);
/* and those of any step. */
void rt_end_copies(const RtRun *run, RtIterBinding *it);

#endif
