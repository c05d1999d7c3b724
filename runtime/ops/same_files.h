/*
 * same_files.h - all processes of a job read the same files
 */
#ifndef TFD_RUNTIME_OPS_SAME_FILES_H
#define TFD_RUNTIME_OPS_SAME_FILES_H

#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* Once the iterators are open, by all processes: an error in all of them, of
 * the first file that is not the same for all. */
Status rt_check_same_files(RtRun *run) MUST_USE;

#endif
