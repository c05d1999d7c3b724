/*
 * output.h - the standard output of a run
 *
 * Lines of main are printed at once.  Lines of replicas are kept until the end
 * of the step and printed line by line, for each line replica after replica.
 */
#ifndef TFD_RUNTIME_EXEC_OUTPUT_H
#define TFD_RUNTIME_EXEC_OUTPUT_H

#include <stddef.h>
#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* Prints len bytes.  After a failure nothing more is printed, and rt_flush
 * returns the error. */
void rt_print(RtRun *run, const char *text, size_t len);
/* Prints the lines of all replicas at the end of a step. */
void rt_print_lines(RtRun *run);
/* Flushes all output so far to the system. */
Status rt_flush(const RtRun *run) MUST_USE;

#endif
