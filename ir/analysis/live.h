/*
 * live.h - what main may still read after a safepoint
 *
 * Without this, most of a checkpoint would be memory that nobody reads again:
 * buffers into which a save after the loop reads variables, results of finished
 * steps.
 */
#ifndef TFD_IR_ANALYSIS_LIVE_H
#define TFD_IR_ANALYSIS_LIVE_H

#include "ir/ir.h"

/* The values that main, entered at the end of an iteration of this loop, may
 * read before it defines them again; in a, in no particular order.  The set may
 * be too large but never misses a value.  Variables are not in it. */
IrValues ir_live_at_safepoint(Arena *a, const IrOp *loop);

#endif
