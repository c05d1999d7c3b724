/*
 * run.h - runs a plan
 *
 * A run opens devices, loads the plan's code, and calls the program's main on
 * the thread it is called on.  Everything that compiled code needs at run time
 * is prepared before: a step has no lookup, no lock and no allocation.
 */
#ifndef TFD_RUNTIME_RUN_RUN_H
#define TFD_RUNTIME_RUN_RUN_H

#include <stdio.h>
#include "ir/base/status.h"
#include "ir/device/device.h"
#include "ir/plan/plan.h"
#include "runtime/exec/options.h"

/* The devices of a list, as RtOptions have it, in a. */
Status rt_devices_asked(Arena *a, const char *list, IrDevices *out) MUST_USE;

/* Runs main of the plan to its end, from its beginning or from a checkpoint.  A
 * failure inside the program (an assert, a dataset, a collective that waits too
 * long) is an error with its place in plan->diag, too. */
Status rt_run(const Plan *plan, const RtOptions *options) MUST_USE;

/* Prints the error that ended a run, and returns the program's exit status. */
int rt_report(const Plan *plan, Status st, const char *program, FILE *to);

#endif
