/*
 * params.h - values of params, by option, default or checkpoint
 */
#ifndef TFD_RUNTIME_EXEC_PARAMS_H
#define TFD_RUNTIME_EXEC_PARAMS_H

#include "ir/base/status.h"
#include "runtime/checkpoint/archive.h"

typedef struct RtRun RtRun;

/* --seed is one of them.  Tasks have the values of their coordinator. */
Status rt_read_params(RtRun *run) MUST_USE;
void rt_params_archive(RtRun *run, RtArchive *ar);

#endif
