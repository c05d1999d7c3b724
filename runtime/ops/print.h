/*
 * print.h - texts with a format
 */
#ifndef TFD_RUNTIME_OPS_PRINT_H
#define TFD_RUNTIME_OPS_PRINT_H

#include "runtime/exec/function.h"

/* The text of an operation with a format, which the first sets: its values are
 * those of the operands from first. */
Status rt_check_format(RtRun *run, const RtFunction *fn, RtHostOp *h,
                       int first) MUST_USE;
/* While a plan is loaded: room for copies of the operands of an operation that
 * reads them on the host (rt_read_value). */
void rt_note_copies(RtRun *run, const IrOp *op);
void rt_add_text(Str *to, RtInvocation *inv, const RtHostOp *h, int first);

/* Whether a program leaves an operation to when the device has come to it, and
 * leaving it: then it is executed with copies of its operands, if it reads
 * them. */
bool rt_is_ahead(const RtExecutor *executor);
int32_t rt_defer(RtInvocation *inv, const RtHostOp *h, bool reads);

#endif
