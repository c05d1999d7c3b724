/*
 * output.h - the standard output of a run
 *
 * Lines of main are printed at once.  Lines of replicas are kept until the end
 * of the step and printed line by line, for each line replica after replica.
 * The chief prints for all processes of a job.
 */
#ifndef TFD_RUNTIME_EXEC_OUTPUT_H
#define TFD_RUNTIME_EXEC_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* Prints len bytes, in the chief alone.  After a failure nothing more is
 * printed, and rt_flush returns the error. */
void rt_print(RtRun *run, const char *text, size_t len);
/* Prints the lines of all replicas at the end of a step; all_have_lines: also
 * of those of other processes, which is the same in all processes. */
Status rt_print_lines(RtRun *run, bool all_have_lines) MUST_USE;
/* Flushes all output so far to the system. */
Status rt_flush(RtRun *run) MUST_USE;

#endif
