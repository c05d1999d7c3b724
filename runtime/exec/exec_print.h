/*
 * exec_print.h - what the program prints, and texts with a format
 */
#ifndef TFD_RUNTIME_EXEC_EXEC_PRINT_H
#define TFD_RUNTIME_EXEC_EXEC_PRINT_H

#include "runtime/exec/executor.h"

/* Hands what was printed so far to the system. */
Status rt_flush(const RtRun *run) MUST_USE;
/* Prints the lines of all replicas at the end of a step. */
void rt_print_lines(RtRun *run);
/* The text of an operation with a format: its values are those of the operands
 * from first. */
Status rt_check_format(RtRun *run, const RtFunction *fn, const RtHostOp *h,
                       int first) MUST_USE;
void rt_add_text(Str *to, RtInvocation *inv, const RtHostOp *h, int first);

#endif
