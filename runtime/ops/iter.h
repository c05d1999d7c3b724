/*
 * iter.h - opens the datasets of a run, and the functions they call
 */
#ifndef TFD_RUNTIME_OPS_ITER_H
#define TFD_RUNTIME_OPS_ITER_H

#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* The functions that datasets call; before executors are made. */
Status rt_load_elements(RtRun *run) MUST_USE;
Status rt_open_iterators(RtRun *run) MUST_USE;
void rt_close_iterators(RtRun *run);

#endif
