/*
 * batches.h - the sizes of batches, as bytes
 */
#ifndef TFD_RUNTIME_PS_PARTS_BATCHES_H
#define TFD_RUNTIME_PS_PARTS_BATCHES_H

#include "runtime/checkpoint/archive.h"
#include "runtime/exec/run_state.h"

/* Those that an executor knows, written, or read within their bounds, for which
 * arenas were made. */
void rt_ps_batches(const RtRun *run, RtExecutor *executor, RtArchive *ar);

#endif
