/*
 * live.h - what main may still read after a safepoint
 *
 * Without this, most of a checkpoint would be memory that nobody reads again:
 * buffers into which a save after the loop reads variables, results of finished
 * steps.
 */
#ifndef TFD_IR_ANALYSIS_LIVE_H
#define TFD_IR_ANALYSIS_LIVE_H

#include "ir/base/vec.h"
#include "ir/ir.h"

/* The values that main, entered at the end of an iteration of this loop, may
 * read before it defines them again; in a, in no particular order.  The set may
 * be too large but never misses a value.  Variables are not in it. */
IrValues ir_live_at_safepoint(Arena *a, const IrOp *loop);

typedef struct IrExtent {
    int64_t begin, end; /* bytes */
} IrExtent;

typedef VEC(IrExtent) IrExtents;

/* The end of an iteration of a loop, and the bytes that main needs to continue
 * there, with its counters and all variables: of its frame, of shared values,
 * of variables of central storage, of each replica's own values.  They are in
 * order, and do not touch. */
typedef struct IrSafepoint {
    IrOp *loop;
    IrExtents frame, shared, central, own;
} IrSafepoint;

/* That of a loop of main, whose values have places; in m's arena. */
IrSafepoint ir_safepoint(const IrModule *m, IrFunc *main, IrOp *loop);
/* Those of a safepoint to which a variable belongs. */
IrExtents *ir_extents_of(IrSafepoint *s, const IrVar *v);
int64_t ir_extents_bytes(const IrExtents *e);

#endif
