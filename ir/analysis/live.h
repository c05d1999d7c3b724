/*
 * live.h - what main may still read after a safepoint
 *
 * Of a checkpoint most would be memory that nobody looks at again: what a save
 * after the loop reads variables into, results of steps long done.
 */
#ifndef TFD_IR_ANALYSIS_LIVE_H
#define TFD_IR_ANALYSIS_LIVE_H

#include "ir/ir.h"

/* The values that main, entered at the end of a round of this loop, may read
 * before it makes them anew; in a, in no order.  There may be some that it
 * does not read, but none is missing.  Variables are not among them. */
IrValues ir_live_at_safepoint(Arena *a, const IrOp *loop);

#endif
