/*
 * check_nan.h - stops at what makes numbers that are not finite (--check-nan)
 */
#ifndef TFD_RUNTIME_RUN_CHECK_NAN_H
#define TFD_RUNTIME_RUN_CHECK_NAN_H

#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* Gives the run hooks that check, when all functions are loaded and no executor
 * is made.  Main and programs then end with a fault at the first kernel or
 * all_reduce that makes a NaN, or an infinity that the program did not write,
 * of other numbers; and where a kernel computes with a NaN that came in from
 * outside.  Refuses devices whose memory shows nothing between the kernels of a
 * program, and those that execute nothing. */
Status rt_open_nan_check(RtRun *run) MUST_USE;

#endif
