/*
 * end.h - why a run ended before its end
 */
#ifndef TFD_RUNTIME_EXEC_END_H
#define TFD_RUNTIME_EXEC_END_H

#include <stdbool.h>
#include "ir/base/status.h"
#include "runtime/exec/executor.h"

/* The failure of the first device that failed, if any. */
Status rt_devices_status(const RtRun *run) MUST_USE;
bool rt_has_lost_device(const RtRun *run);

/* The fault of main, or of the replica of lowest number that has one. */
Status rt_status_of_fault(RtRun *run) MUST_USE;
/* Why the watchdog or the user stopped a run without faults. */
Status rt_status_of_stop(RtRun *run) MUST_USE;
/* A fault with its place and source line, for somebody who prints it without
 * the program's Diag: another thread, another process.  Takes its cause. */
Status rt_fault_in_words(RtRun *run, RtFault *f) MUST_USE;
/* Main did not return. */
Status rt_status_of_abandoned(RtRun *run) MUST_USE;

/* Leaves the job, if there is one, with st, and returns what it ended with:
 * that another process ended it, if that is so.  Waits, boundedly, for the
 * others. */
Status rt_leave_job(RtRun *run, Status st) MUST_USE;

#endif
