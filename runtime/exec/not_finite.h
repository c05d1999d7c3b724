/*
 * not_finite.h - the warning that a step's scalar is nan or infinite
 *
 * Said once in a run, by the chief: the values are looked at where main takes
 * or a step prints them, so a run without the warning has computed nothing
 * more.
 */
#ifndef TFD_RUNTIME_EXEC_NOT_FINITE_H
#define TFD_RUNTIME_EXEC_NOT_FINITE_H

#include "ir/base/number/dtype.h"
#include "ir/ir.h"

typedef struct RtRun RtRun;

/* Notes that a scalar which op shows is not finite, if it is not; of any
 * thread.  A variable may be infinite: what a least value begins with. */
void rt_note_scalar(RtRun *run, const IrOp *op, DType t, const void *bytes);
/* Main's thread: prints the warning, if something was noted and none was
 * printed.  */
void rt_warn_not_finite(RtRun *run);

#endif
