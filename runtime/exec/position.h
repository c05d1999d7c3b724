/*
 * position.h - positions of the executors of a run
 */
#ifndef TFD_RUNTIME_EXEC_POSITION_H
#define TFD_RUNTIME_EXEC_POSITION_H

#include "runtime/exec/executor.h"

/* The current operation of an executor; NULL: none. */
const IrOp *rt_position(const RtExecutor *executor, int32_t *at);
/* For the job: what main, or who main waits for in this process, works at, as
 * one of run->sites; -1: nothing that has a site. */
int32_t rt_working_site(const RtRun *run);
/* The outermost loop around op without a known number of iterations; NULL:
 * none. */
const IrOp *rt_unbounded_loop(const IrOp *op);
/* Whether main waits for data there, or for their producer. */
bool rt_waits_for_data(const IrOp *op);
/* The positions of the executors for which main waits: replicas in a launch
 * that neither wait themselves nor have done their part, dataset functions, or
 * main. */
void rt_add_stragglers(RtRun *run, Arena *a, RtNotes *to);

/* The same message with these places below it, as diag_print shows notes. */
Status rt_show_notes(const RtRun *run, const RtNotes *notes,
                     Status st) MUST_USE;

#endif
