/*
 * compare.h - every launch of a kernel again on the host (--compare cpu)
 */
#ifndef TFD_RUNTIME_RUN_COMPARE_H
#define TFD_RUNTIME_RUN_COMPARE_H

#include "ir/base/status.h"

typedef struct RtRun RtRun;
typedef struct RtComparison RtComparison;

/* Gives the run hooks that compare.  A launch reads its operands from the
 * device before it, and its results after it, executes the host's object of the
 * kernel on the same operands, and ends the program with a fault where bits
 * differ.  An all_reduce does the same with what the replicas started it with.
 * Before calls are made; fails where devices execute nothing. */
Status rt_open_comparison(RtRun *run) MUST_USE;
/* Also of a run without one. */
void rt_close_comparison(RtRun *run);
/* How much was compared, to options->out. */
Status rt_print_comparison(RtRun *run) MUST_USE;

#endif
