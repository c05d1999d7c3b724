/*
 * kernel_lines.h - the operations of a kernel, in messages
 */
#ifndef TFD_RUNTIME_RUN_KERNEL_LINES_H
#define TFD_RUNTIME_RUN_KERNEL_LINES_H

#include "runtime/exec/executor.h"

/* What the language calls it; of the halves of a collective, the collective. */
const char *rt_operation_name(const IrOp *op);
/* Whether it does more than to move or name what is there. */
bool rt_is_computed(const IrOp *op);
/* What the result is computed by in the kernel's region. */
const IrOp *rt_maker_of(const IrOp *kernel, int result);
/* Notes for the lines of the program that the kernel also computes, but that of
 * `first`. */
void rt_note_kernel_lines(const IrOp *kernel, const IrOp *first, RtFault *fault,
                          Arena *a);

#endif
