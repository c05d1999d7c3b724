/*
 * output.h - the standard output of a run
 *
 * What main prints is printed at once.  What replicas print in a step is kept
 * until its end and printed line by line, for each line replica after replica.
 */
#ifndef TFD_RUNTIME_EXEC_OUTPUT_H
#define TFD_RUNTIME_EXEC_OUTPUT_H

#include <stddef.h>
#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* Prints len bytes.  Once that has failed nothing more is printed, and rt_flush
 * gives the error. */
void rt_print(RtRun *run, const char *text, size_t len);
/* Prints the lines of all replicas at the end of a step. */
void rt_print_lines(RtRun *run);
/* Hands what was printed so far to the system. */
Status rt_flush(const RtRun *run) MUST_USE;

#endif
